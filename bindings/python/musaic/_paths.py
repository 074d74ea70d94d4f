"""Where the parts of the package lie: in an installed wheel, or in a source tree with a build of the shared library.

MUSAIC_LIBRARY names the shared library of a build; MUSAIC_EXTENSIONS the folder of the compiled torch operators.
"""

import os
import pathlib

_HERE = pathlib.Path(__file__).resolve().parent


def _tree():
    """The source tree's root, or None in an installed package."""
    root = _HERE.parents[2]
    return root if (root / "ops" / "list.inc").is_file() and (root / "bindings" / "torch").is_dir() else None


def library():
    if "MUSAIC_LIBRARY" in os.environ:
        return pathlib.Path(os.environ["MUSAIC_LIBRARY"])
    tree = _tree()
    candidates = [_HERE / "lib" / "libmusaic.so"]
    if tree:
        candidates += [tree / "build" / d / "libmusaic.so" for d in ("torch", "release", "dev")]
    for path in candidates:
        if path.exists():
            return path
    raise ImportError("musaic: its shared library is not at " + " or ".join(map(str, candidates)))


def extension_folder():
    if "MUSAIC_EXTENSIONS" in os.environ:
        return pathlib.Path(os.environ["MUSAIC_EXTENSIONS"])
    return _tree() / "build" / "torch" if _tree() else _HERE / "lib"


def adapter_sources():
    return _tree() / "bindings" / "torch" if _tree() else _HERE / "share" / "bindings" / "torch"


def include_directories():
    tree = _tree()
    if tree:
        return [tree, tree / "include", library().parent / "include"]
    return [_HERE / "share", _HERE / "include"]
