"""python -m musaic.sglang enable | disable | status: our operators in front of an installed sglang-kernel's.

`enable` writes one file, musaic_sglang.pth, into site-packages. From then on, when a program imports sgl_kernel, the
functions that we have take the place of that package's, in every module of it where they stand; the rest stays. `disable`
removes the file. MUSAIC_SGLANG=0 in the environment leaves sgl_kernel alone for one process.
"""

import importlib.abc
import importlib.util
import os
import pathlib
import sys
import sysconfig

FILE = "musaic_sglang.pth"
LINE = "import musaic.sglang; musaic.sglang.install()\n"


def _place():
    return pathlib.Path(sysconfig.get_paths()["purelib"]) / FILE


def patch(package):
    """Puts our functions into a package that has been imported; returns {name: modules that had it}."""
    from . import sgl

    replaced = {}
    prefix = package.__name__ + "."
    modules = [m for n, m in list(sys.modules.items()) if m is not None and (n == package.__name__ or n.startswith(prefix))]
    for name in sgl.implemented():
        ours = getattr(sgl, name)
        for module in modules:
            theirs = module.__dict__.get(name)
            if theirs is not None and callable(theirs) and theirs is not ours:
                module.__dict__.setdefault("_musaic_replaced", {})[name] = theirs
                setattr(module, name, ours)
                replaced.setdefault(name, []).append(module.__name__)
    return replaced


def unpatch(package):
    """Undoes patch()."""
    prefix = package.__name__ + "."
    for n, module in list(sys.modules.items()):
        if module is not None and (n == package.__name__ or n.startswith(prefix)):
            for name, theirs in module.__dict__.pop("_musaic_replaced", {}).items():
                setattr(module, name, theirs)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        patch(sys.modules[module.__name__.split(".")[0]])

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the others find sgl_kernel and its modules, and patches what was loaded."""

    def find_spec(self, name, path=None, target=None):
        # Modules that the package loads itself are patched with it; those imported later, on their own.
        package = sys.modules.get("sgl_kernel")
        initializing = package is not None and getattr(package.__spec__, "_initializing", False)
        if name != "sgl_kernel" and not (name.startswith("sgl_kernel.") and package is not None and not initializing):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and not (spec.origin and (pathlib.Path(spec.origin).parent / "_musaic.py").exists()):
                    if spec.origin and spec.origin.endswith(".py"):
                        spec.loader = _Loader(spec.loader)
                return spec
        return None


def install():
    """Called at the start of Python by the .pth file; imports no torch."""
    if os.environ.get("MUSAIC_SGLANG") != "0" and not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def enabled():
    return _place().exists()


def status(write=print):
    """Prints who serves each of upstream's functions."""
    from . import sgl

    write(f"overlay: {'enabled' if enabled() else 'disabled'} ({_place()})")
    spec = importlib.util.find_spec("sgl_kernel")
    if spec is None or spec.origin is None:
        write("sgl_kernel: not installed")
        there = None
    else:
        import sgl_kernel as there

        write(f"sgl_kernel: {getattr(there, '__version__', 'unknown version')} at {pathlib.Path(there.__file__).parent}")
    for name in sorted({n for m in sgl.MODULES.values() for n in m}):
        theirs = there is not None and any(
            name in m.__dict__ for n, m in list(sys.modules.items()) if m is not None and (n == "sgl_kernel" or n.startswith("sgl_kernel."))
        )
        active = theirs and any(
            m.__dict__.get(name) is getattr(sgl, name)
            for n, m in list(sys.modules.items())
            if m is not None and (n == "sgl_kernel" or n.startswith("sgl_kernel."))
        )
        who = "musaic" if active else "sgl_kernel" if theirs else "nobody"
        more = "" if active or name not in sgl.implemented() else " (musaic has it)"
        write(f"  {name:45} {who}{more}")


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["enable"]:
        _place().write_text(LINE)
        print(f"wrote {_place()}: sgl_kernel gets our functions from the next start of Python on")
    elif arguments == ["disable"]:
        _place().unlink(missing_ok=True)
        print(f"removed {_place()}")
    elif arguments == ["status"]:
        install_if = enabled()
        if install_if:
            install()
        status()
    else:
        print("usage: python -m musaic.sglang enable | disable | status", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
