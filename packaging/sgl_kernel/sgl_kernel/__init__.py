"""sgl_kernel, served by musaic: upstream's modules, names and parameters.

A name that musaic has no operator for raises NotImplementedError when it is called.
"""

from . import _musaic

__version__ = _musaic.sgl_table.UPSTREAM_VERSION
globals().update(dict(_musaic.make_modules(__name__)))
globals().update(_musaic.exports())
__all__ = sorted(_musaic.exports())
