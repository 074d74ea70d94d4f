"""sgl_kernel's operators on NumPy arrays and anything that speaks DLPack, without torch.

    import numpy as np, musaic
    out = np.empty((2, 4), np.float32)
    musaic.rmsnorm(out, np.ones((2, 4), np.float32), None, 1e-6)

Each operator takes the arguments of its schema (`musaic.schema("rmsnorm")`), by place or by name; written arguments come
first and are the caller's. `import musaic.torch` gives them as torch.ops.musaic.* and torch.ops.sgl_kernel.*.
"""

import ctypes as _c
import re as _re

from . import _paths

__all__ = ["Error", "call", "operators", "schema"]


class Error(ValueError):
    """A call that the library refused; the text names operator, argument, what came and what was expected."""


class _DLDevice(_c.Structure):
    _fields_ = [("type", _c.c_int32), ("index", _c.c_int32)]


class _DLDataType(_c.Structure):
    _fields_ = [("code", _c.c_uint8), ("bits", _c.c_uint8), ("lanes", _c.c_uint16)]


class _DLTensor(_c.Structure):
    _fields_ = [("data", _c.c_void_p), ("device", _DLDevice), ("ndim", _c.c_int32), ("dtype", _DLDataType),
                ("shape", _c.POINTER(_c.c_int64)), ("strides", _c.POINTER(_c.c_int64)), ("byte_offset", _c.c_uint64)]


class _As(_c.Union):
    _fields_ = [("tensor", _c.c_void_p), ("integer", _c.c_int64), ("number", _c.c_double)]


class _Value(_c.Structure):
    _fields_ = [("kind", _c.c_int32), ("value", _As)]


_TENSOR, _INT, _FLOAT, _BOOL = range(4)
_library = _c.CDLL(str(_paths.library()))
for _name in ("musaic_version", "musaic_operator_name", "musaic_operator_schema"):
    getattr(_library, _name).restype = _c.c_char_p
_library.musaic_call.argtypes = [_c.c_char_p, _c.POINTER(_Value), _c.c_int32, _c.c_void_p, _c.c_void_p, _c.c_int64, _c.c_char_p,
                                 _c.c_size_t]
__version__ = _library.musaic_version().decode()

_capsule_pointer = _c.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = _c.c_void_p, [_c.py_object, _c.c_char_p]


class _Argument:
    def __init__(self, text):
        declaration, _, default = text.partition("=")
        kind, self.name = declaration.rsplit(" ", 1)
        self.required, self.written, self.optional = not default, "!" in kind, kind.endswith("?")
        kind = kind.replace("!", "").rstrip("?")
        self.kind = {"Tensor": _TENSOR, "int": _INT, "float": _FLOAT, "bool": _BOOL}[kind]
        self.default = None
        if default:
            self.default = {"None": None, "True": True, "False": False}[default] if default in ("None", "True", "False") else (
                float(default) if self.kind == _FLOAT else int(default))


def _parse(schema_text):
    return [_Argument(a) for a in _re.search(r"\((.*)\) ->", schema_text)[1].split(", ")]


_schemas = {}
for _i in range(_library.musaic_num_operators()):
    _schemas[_library.musaic_operator_name(_i).decode()] = _library.musaic_operator_schema(_i).decode()
_arguments = {name: _parse(text) for name, text in _schemas.items()}


def operators():
    """The names of all operators."""
    return list(_schemas)


def schema(name):
    """The schema of an operator, in torch's language."""
    return _schemas[name]


_NUMPY_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def _view(value, where, argument, alive):
    """A DLTensor of a NumPy array or of what __dlpack__ gives; `alive` keeps what it points into."""
    if hasattr(value, "__array_interface__"):
        interface = value.__array_interface__
        kind, size = interface["typestr"][1], int(interface["typestr"][2:])
        code = _NUMPY_CODES.get(kind)
        name = getattr(getattr(value, "dtype", None), "name", "")
        if name == "bfloat16":
            code = 4
        if code is None or interface["typestr"][0] == ">":
            raise Error(f"{where}: {argument}: dtype {name or interface['typestr']}, expected a dtype that the library has")
        address, read_only = interface["data"]
        if read_only and argument in {a.name for a in _arguments[where] if a.written}:
            raise Error(f"{where}: {argument}: a read-only array, expected one that can be written")
        n = len(interface["shape"])
        shape = (_c.c_int64 * max(n, 1))(*interface["shape"])
        strides = None
        if interface.get("strides") is not None:
            if any(s % size for s in interface["strides"]):
                raise Error(f"{where}: {argument}: strides {interface['strides']}, expected multiples of the element's {size} bytes")
            strides = (_c.c_int64 * max(n, 1))(*(s // size for s in interface["strides"]))
        view = _DLTensor(address, _DLDevice(1, 0), n, _DLDataType(code, size * 8, 1), shape, strides, 0)
        alive += [view, shape, strides, value]
        return _c.addressof(view)
    if hasattr(value, "__dlpack__"):
        capsule = value.__dlpack__()
        alive += [capsule, value]
        return _capsule_pointer(capsule, b"dltensor")  # the first member of a DLManagedTensor is the DLTensor
    raise Error(f"{where}: {argument}: {type(value).__name__}, expected an array")


def _raw_call(name, values, workspace, stream):
    text = _c.create_string_buffer(1024)
    memory, size = workspace if workspace else (None, 0)
    failed = _library.musaic_call(name.encode(), values, len(values), stream, memory, size, text, len(text))
    return text.value.decode() if failed else None


def call(name, *args, stream=None, **kwargs):
    """Calls an operator with the arguments of its schema; scratch memory of the host is found by itself."""
    if name not in _arguments:
        raise Error(f"musaic: operator: {name}, expected one of {', '.join(_schemas)}")
    wanted = _arguments[name]
    if len(args) > len(wanted):
        raise TypeError(f"{name}: {len(args)} arguments, expected at most {len(wanted)}")
    given = dict(zip((a.name for a in wanted), args))
    for key, value in kwargs.items():
        if key in given or key not in {a.name for a in wanted}:
            raise TypeError(f"{name}: argument {key!r} is {'given twice' if key in given else 'not one of ' + schema(name)}")
        given[key] = value
    values, alive = (_Value * len(wanted))(), []
    for i, a in enumerate(wanted):
        if a.name not in given and a.required and not a.optional:
            raise TypeError(f"{name}: argument {a.name!r} is missing: {schema(name)}")
        value = given.get(a.name, a.default)
        values[i].kind = a.kind
        if a.kind == _TENSOR:
            values[i].value.tensor = None if value is None else _view(value, name, a.name, alive)
        elif a.kind == _FLOAT:
            values[i].value.number = float(value)
        else:
            values[i].value.integer = int(value)
    workspace = None
    for _ in range(3):
        error = _raw_call(name, values, workspace, stream)
        if error is None:
            return
        # A workspace that is too small is refused before anything is written, with the size that would do.
        needed = _re.match(rf"{name}: workspace: \d+ bytes, expected \D*(\d+)", error)
        if not needed or (workspace and int(needed[1]) <= workspace[1]):
            break
        buffer = _c.create_string_buffer(int(needed[1]) + 64)
        alive.append(buffer)
        workspace = ((_c.addressof(buffer) + 63) // 64 * 64, int(needed[1]))
    raise Error(error)


def _operator(name):
    def function(*args, stream=None, **kwargs):
        return call(name, *args, stream=stream, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = schema(name)
    return function


for _name in _schemas:
    globals()[_name] = _operator(_name)
__all__ += list(_schemas)
