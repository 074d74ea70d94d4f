"""Marks this sgl_kernel as ours, and makes its modules."""

import sys
import types

from musaic import sgl, sgl_table


def make_modules(package):
    for module, functions in sgl.MODULES.items():
        m = types.ModuleType(f"{package}.{module}", f"sgl_kernel.{module}, served by musaic")
        m.__dict__.update(functions)
        m.__all__ = list(functions)
        m.__package__ = package
        sys.modules[m.__name__] = m
        yield module, m


def exports():
    """What upstream has at package level."""
    return {n: f for m in ("musa", *(x for x in sgl.MODULES if x != "musa")) for n, f in sgl.MODULES[m].items()
            if n not in sgl_table.MODULE_ONLY}
