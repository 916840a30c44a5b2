"""Writes PyTorch's files: a zip archive with the objects as a pickle and the storages as entries.

`torch.load(weights_only=True)` reads them. Containers that it has to be told of (`add_safe_globals`: defaultdict, deque, frozenset, range,
slice) are made by one call each, since it adds items to nothing but lists and dicts.

What may be saved, and how objects that share memory are found, is the same as in our own format: `Encoder` describes the structure as
nodes, and this file says the nodes in opcodes of protocol 2. A storage is the memory that tensors which overlap reach together; a tensor
alone is
written without the elements that it skips.
"""

from __future__ import annotations

import base64
import functools
import struct
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._memory_format import LAYOUTS, layout, sparse_coo, strided
from flambeau.compat._torch.names import home_of
from flambeau.nn.module import Module
from flambeau.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedParameter,
    UninitializedTensorMixin,
)
from flambeau.serialization._allowed import found_by_name, functional_names
from flambeau.serialization._container import array_of, write_all
from flambeau.serialization._named import is_ordinary
from flambeau.serialization._ordinary import FACTORIES
from flambeau.serialization._results import result_type
from flambeau.serialization._sharing import Entries, Met, dense_memory, overlapping
from flambeau.serialization._skip import is_skipped
from flambeau.serialization._structure import MAX_DEPTH, Encoder
from flambeau.serialization._torch import MAGIC, PROTOCOL
from flambeau.serialization._torch_names import OPS
from flambeau.serialization._torch_random import is_random
from flambeau.serialization._torch_values import NUMPY_CODES, NUMPY_OBJECTS, NUMPY_TEXT, REDUCED
from flambeau.serialization._zip import write_archive
from flambeau.storage import STORAGES, TypedStorage, UntypedStorage

_FOLDER = "archive"
_STORAGE_OF = {getattr(_C, dtype): f"{kind}Storage" for kind, dtype in STORAGES.items()}
_SPARSE = {kind: f"torch.{name}" for name, kind in LAYOUTS.items() if kind is not strided}
_OF_CLASSES = ("persistent", "_is_buffer", "_is_param")  # what a Buffer and a Parameter of another class know of themselves
_PLAIN_KEYS = (str, int, bool, tuple, _C.Size, frozenset)  # and what has a way of its own: parts of a tuple are keys, too
_NOT_MET: dict[str, Any] = {}
_ORDERED = "collections OrderedDict"
_FACTORIES = {name: f"{'collections' if kind.__module__ == 'collections' else '__builtin__'} {name}" for name, kind in FACTORIES.items()}


def _name_of(kind: Any) -> str:
    """The name of a class; of the library's own PyTorch's, so that both find it."""
    module = {"builtins": "__builtin__"}.get(kind.__module__) or home_of(kind.__module__, kind.__name__) or kind.__module__
    return f"{module} {kind.__qualname__}"


def _is_numpys_own(value: Any) -> bool:
    """Whether it is one of NumPy's dtypes of numbers, text or objects, or an array of one."""
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        value = value.dtype
    code = value.str[1:] if type(value).__module__ == "numpy.dtypes" else ""
    return code in NUMPY_CODES or code in NUMPY_OBJECTS or bool(NUMPY_TEXT.fullmatch(code))


class _Encoder(Encoder):
    """Knows more than our own format: whole modules, classes, functions and methods, moments and fractions, what is NumPy's."""

    def encode(self, value: Any, path: str = "", depth: int = 0) -> Any:
        if "R" in (known := self._nodes.get(id(value), _NOT_MET)):
            return self._again(known)
        if isinstance(value, Module):
            return self._module(value, path, depth)
        if isinstance(value, type) and found_by_name(value):
            return {"G": _name_of(value)}
        if isinstance(value, (UntypedStorage, TypedStorage)):
            return self._storage(value, path)
        if isinstance(value, layout):
            return {"O": "torch.serialization _get_layout", "args": [f"torch.{repr(value).rpartition('.')[2]}"], "state": None}
        if callable(value) and id(value) in self._functions:
            return {"G": f"torch.nn.functional {self._functions[id(value)].rpartition('.')[2]}"}
        if isinstance(value, types.BuiltinFunctionType) and value.__self__ is ops:  # torch.relu: as PyTorch's pickles have it
            return {"M": [{"G": " ".join(OPS.rsplit(".", 1))}, value.__name__]}
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self._function(value, path, depth)
        if type(value) in REDUCED or _is_numpys_own(value) or is_random(value):
            return self._reduced(value, path, depth)
        if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 and value.dtype.str[1:] in NUMPY_CODES:
            return {"#": [value.dtype.str[1:], base64.b64encode(value.tobytes()).decode("ascii")]}
        return super().encode(value, path, depth)

    def _key(self, key: Any, path: str, of: str = "dict", depth: int = 0) -> Any:
        """Whatever can be written as a value: tensors (the states of an optimizer are by parameters), objects, classes, functions."""
        if key is None or type(key) in _PLAIN_KEYS:
            return super()._key(key, path, of, depth)
        return self.encode(key, f"{'a key' if of == 'dict' else 'an element'} of {path or 'the object'}")

    def _reduced(self, value: Any, path: str, depth: int, name: str | None = None) -> Any:
        """What Python's own pickles say of it: a function (of this name), arguments and a state."""
        if depth >= MAX_DEPTH:
            raise ValueError(f"save: {path[:80]}... is nested deeper than {MAX_DEPTH} levels")
        function, args, *state = value.__reduce_ex__(2)
        if id(value) in self._active:
            raise ValueError(f"save: {path or 'the object'} contains itself")
        self._active.add(id(value))
        module = "numpy.core.multiarray" if function.__module__.startswith("numpy._core") else function.__module__
        node = {
            "O": name or f"{module} {function.__name__}", "args": [self.encode(arg, path, depth + 1) for arg in args],
            "state": self.encode(state[0], path, depth + 1) if state else None,
        }  # fmt: skip
        self._active.discard(id(value))
        return node

    @functools.cached_property
    def _functions(self) -> dict[int, str]:
        return functional_names()

    def _begun(self, value: Any, node: dict[str, Any]) -> None:
        """An object that is met again, among its own attributes, too, is the same object in the file: it may be a key by its identity."""
        self._nodes[id(value)] = node
        self._keep.append(value)

    def _is_named(self, value: Any) -> bool:
        return super()._is_named(value) or is_ordinary(value)

    def _function(self, value: Any, path: str, depth: int) -> Any:
        """By its name; one of a class, or an object's method, by that and its name in there, as Python's own pickles have it."""
        if isinstance(value, types.MethodType):
            if getattr(value.__self__, value.__name__, None) == value:
                return {"M": [self.encode(value.__self__, path, depth + 1), value.__name__]}
        elif found_by_name(value):
            return {"G": f"{value.__module__} {value.__qualname__}"}
        else:
            owner = getattr(sys.modules.get(value.__module__), value.__qualname__.rpartition(".")[0], None)
            name = str(value.__name__)
            if isinstance(owner, type) and getattr(owner, name, None) is value:
                return {"M": [self.encode(owner), name]}
        where, name = path or "the object", f"{value.__module__}.{value.__qualname__}"
        raise TypeError(f"save: {where} is the function {name}, which can not be found by its name (define it at the top level of a file)")

    def _module(self, value: Module, path: str, depth: int) -> Any:
        """Its class by name, and what it holds: what `load(weights_only=False)` makes a module of."""
        known = self._nodes.get(id(value))
        if known is not None:
            return self._again(known)
        kind, where = type(value), path or "the object"
        if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
            made_by, *more = reduced if isinstance(reduced := value.__reduce_ex__(2), tuple) else (None,)
            if made_by is None or not found_by_name(made_by) or any(part is not None for part in more[2:]):
                raise TypeError(f"save: {where} is a {kind.__name__}, which can not be written whole; save its state_dict()")
            said: dict[str, Any] = self._reduced(value, path, depth, _name_of(made_by))
            self._begun(value, said)
            return said
        if not found_by_name(kind):
            what = f"of {kind.__module__}.{kind.__qualname__}, a class that can not be found by its name"
            raise TypeError(f"save: {where} is a module {what} (define it at the top level of a file, or save the module's state_dict())")
        if any(isinstance(part, UninitializedTensorMixin) for part in (*value._parameters.values(), *value._buffers.values())):
            what = f"a {kind.__name__} that was not called yet, which can not be written whole"
            raise TypeError(f"save: {where} is {what}; save its state_dict()")
        node: dict[str, Any] = {"N": _name_of(kind)}
        self._nodes[id(value)] = node
        self._keep.append(value)
        node["state"] = self.encode(value.__getstate__(), path, depth + 1)
        return node

    def _storage(self, value: Any, path: str) -> Any:
        """Its bytes, or elements, as a storage of the archive: that of the tensors over it which are of its type."""
        flat = value.untyped()._bytes if isinstance(value, UntypedStorage) else value._elements()
        if flat.is_meta:
            raise _C.DeviceError(f"save: {path or 'the object'} is a storage on the meta device and has no data to write")
        node: dict[str, Any] = {"H": True}
        self._keep.append(flat)
        self.met.append(Met(flat, node, path or "storage"))
        return node

    def _without_bytes(self, value: Tensor, path: str) -> dict[str, Any]:
        """A tensor on the meta device, or a parameter without a shape."""
        if (known := self._nodes.get(id(value))) is not None:
            return self._again(known)
        where = path or "the object"
        if isinstance(value, UninitializedParameter):
            if value.dtype is not _C.get_default_dtype():
                said = f"has no shape yet and is {value.dtype}, which the format can not say"
                raise TypeError(f"save: {where} {said}; expected the default type")
            node: dict[str, Any] = {"O": "torch.nn.parameter UninitializedParameter", "args": [value.requires_grad], "state": None}
        else:
            grad = value.requires_grad
            args = [{"D": value.dtype.name}, {"t": list(value.shape)}, {"t": list(value.stride())}, grad]
            node = {"O": "torch._utils _rebuild_meta_tensor_no_storage", "args": args, "state": None}
            if type(value) is Parameter:
                node = {"O": "torch._utils _rebuild_parameter", "args": [node, grad, {"o": []}], "state": None}
            elif type(value) is not Tensor or isinstance(value, Buffer):
                kind = Buffer if isinstance(value, Buffer) else type(value)
                raise _C.DeviceError(f"save: {where} is a {kind.__name__} on the meta device and has no data to write")
        if own := getattr(value, "__dict__", {}).keys() - _OF_CLASSES - {"_device", "_dtype"}:
            raise TypeError(f"save: {where} has no data, but attributes ({', '.join(sorted(own))}); expected none")
        self._begun(value, node)
        return node

    def _class(self, value: Tensor, path: str) -> str:
        """The name of a tensor's class of the user's."""
        kind = type(value)
        if not found_by_name(kind):
            what = f"a tensor of {kind.__module__}.{kind.__qualname__}, a class that can not be found by its name"
            raise TypeError(f"save: {path or 'the object'} is {what} (define it at the top level of a file, or save .as_subclass(Tensor))")
        return f"{kind.__module__} {kind.__qualname__}"

    def _state(self, value: Tensor) -> Any:
        """Attributes by name, or what a class's own `__getstate__` returns."""
        own = getattr(type(value), "__getstate__", None)  # of object, too, from Python 3.11 on
        return dict(getattr(value, "__dict__", {})) if own is getattr(object, "__getstate__", None) else own(value)  # type: ignore[misc]

    def tensor(self, value: Tensor, path: str, name: str | None = None) -> dict[str, Any]:
        if _C.graph.is_hollow(value):
            what = f"a {type(value).__name__}, a tensor whose values are in its attributes"
            raise NotImplementedError(f"save: {path or 'the object'} is {what}; save those that are tensors, or write it with pickle")
        if isinstance(value, UninitializedParameter) or (value.is_meta and value.layout is strided):
            return self._without_bytes(value, path)
        if value.layout not in _SPARSE:
            if id(value) in self._active:
                raise ValueError(f"save: {path} is a tensor that has itself among its attributes")
            node = super().tensor(value, path, name)
            if "=" not in node and "c" not in node and type(value) is not Tensor:
                node["K"], own = self._class(value, path), self._state(value)
            else:
                own = getattr(value, "__dict__", {})
            if type(own) is not dict:  # of a class that says itself what its state is
                self._active.add(id(value))
                node["X"] = self.encode(own, f"{path}'s state" if path else "its state")
                self._active.discard(id(value))
                return node
            own = {key: entry for key, entry in own.items() if "c" not in node or key not in _OF_CLASSES}
            if own and "=" not in node:
                self._active.add(id(value))
                node["x"] = [[key, self.encode(entry, f"{path}.{key}" if path else key)] for key, entry in own.items()]
                self._active.discard(id(value))
            return node
        held: Any = value.detach()
        coo = held.layout is sparse_coo
        nodes = [super(_Encoder, self).tensor(part.detach(), path) for part in held.parts().values()]
        rest = [{"z": list(value.shape)}, *([bool(held.is_coalesced())] if coo else [])]
        return {"S": _SPARSE[value.layout], "parts": [*nodes, *rest]}


def _numpy_core() -> str:
    """The module where NumPy's own pickles find its functions: another one since version 2."""
    import numpy as np

    return "numpy._core.multiarray" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core.multiarray"


class _Storages:
    """The archive's storages: flat tensors, by number."""

    def __init__(self) -> None:
        self.flat: list[Tensor] = []

    def place(self, tensors: list[Met]) -> None:
        """Notes in each node where its tensor lies: "P" is [storage, offset, sizes, strides]."""
        for group in overlapping(tensors):
            views = {(m.value.data_ptr(), tuple(m.value.shape), tuple(m.value.stride()), m.value.dtype) for m in group}
            cover = Entries.cover(group) if len(views) > 1 else None
            if cover is not None:
                flat = cover[1].detach().reshape(-1)
                for met in group:
                    self._note(met, flat, (met.value.data_ptr() - flat.data_ptr()) // met.value.element_size(), met.value)
                self.flat.append(flat)
            elif len(views) == 1:
                self._place_one(group)
            else:
                for met in group:
                    self._place_one([met])

    def _place_one(self, group: list[Met]) -> None:
        value = group[0].value.detach()
        flat = dense_memory(value)
        if flat is None:
            value = value.contiguous()
            flat = value.reshape(-1)
        for met in group:
            self._note(met, flat, 0, value)
        self.flat.append(flat)

    def _note(self, met: Met, flat: Tensor, offset: int, value: Tensor) -> None:
        if "P" not in met.node:
            met.node["P"] = [len(self.flat), offset, list(value.shape), list(value.stride())]


_UINT = struct.Struct("<I").pack
_BYTES = [b"K" + bytes([n]) for n in range(256)]  # the small numbers
_TUPLES = {1: b"\x85", 2: b"\x86", 3: b"\x87"}  # what ends short ones


class _Pickler:
    """Opcodes of encoded nodes."""

    def __init__(self, flat: list[Tensor], in_stream: bool = False) -> None:
        self._flat, self._in_stream = flat, in_stream
        self._out = [b"\x80\x02"]
        self._memo: dict[Any, int] = {}  # names and texts by themselves, tensors by their number

    def bytes_of(self, node: Any) -> bytes:
        self._any(node)
        return b"".join([*self._out, b"."])

    def _put(self, key: Any) -> None:
        number = self._memo[key] = len(self._memo)
        self._out.append(b"r" + _UINT(number))

    def _known(self, key: Any) -> bool:
        number = self._memo.get(key)
        if number is None:
            return False
        self._out.append(b"j" + _UINT(number))
        return True

    def _global(self, name: str) -> None:
        if self._known(("global", name)):
            return
        outer, _, inner = name.rpartition(".")
        if " " in outer:  # a class in another: by getattr, as Python's own pickles of this protocol have it
            self._call("__builtin__ getattr", lambda: self._global(outer), inner)
        else:
            self._out.append(b"c" + name.replace(" ", "\n").encode("utf-8") + b"\n")
        self._put(("global", name))

    def _text(self, text: str) -> None:
        if not self._known(("text", text)):
            raw = text.encode("utf-8", "surrogatepass")
            self._out.append(b"X" + _UINT(len(raw)) + raw)
            self._put(("text", text))

    def _int(self, n: int) -> None:
        if 0 <= n < 256:
            self._out.append(_BYTES[n])
        elif -(2**31) <= n < 2**31:
            self._out.append(b"J" + struct.pack("<i", n))
        else:
            raw = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
            if len(raw) > 255:
                raise ValueError(f"save: an integer of {n.bit_length()} bits; at most 2039 can be written as 'pt'")
            self._out.append(b"\x8a" + bytes([len(raw)]) + raw)

    def _call(self, name: str, *args: Any) -> None:
        """A function's call; arguments are nodes, or functions that write one."""
        self._global(name)
        self._tuple(args)
        self._out.append(b"R")

    def _tuple(self, items: Any) -> None:
        if not items:
            self._out.append(b")")
            return
        if len(items) > 3:
            self._out.append(b"(")
        for item in items:
            if type(item) is int:
                self._int(item)
            elif callable(item):
                item()
            else:
                self._any(item)
        self._out.append(_TUPLES.get(len(items), b"t"))

    def _ints(self, numbers: list[int]) -> Callable[[], None]:
        return lambda: self._tuple(numbers)

    def _any(self, node: Any) -> None:
        if node is None:
            self._out.append(b"N")
        elif node is True or node is False:
            self._out.append(b"\x88" if node else b"\x89")
        elif type(node) is int:
            self._int(node)
        elif type(node) is float:
            self._out.append(b"G" + struct.pack(">d", node))
        elif type(node) is str:
            self._text(node)
        elif type(node) is list:
            self._items(b"]", b"e", node)
        elif "H" in node:
            self._storage(node["P"][0])
        elif "P" in node:
            self._tensor(node)
        else:
            self._object(node)

    def _items(self, empty: bytes, add: bytes, items: list[Any]) -> None:
        self._out.append(empty)
        self._add(add, items)

    def _add(self, add: bytes, items: list[Any]) -> None:
        if items:
            self._out.append(b"(")
            for item in items:
                self._any(item)
            self._out.append(add)

    def _pairs(self, pairs: list[Any]) -> None:
        if pairs:
            self._out.append(b"(")
            for key, value in pairs:
                self._any(key)
                self._any(value)
            self._out.append(b"u")

    def _object(self, node: dict[str, Any]) -> None:
        if "o" in node:
            self._call(_ORDERED)
            self._pairs(node["o"])
            if "m" in node:
                self._out.append(b"}")
                self._text("_metadata")
                self._any(node["m"])
                self._out.append(b"sb")
            return
        if "Y" in node:  # as PyTorch has it, but for the state of its engine, which is another one
            self._call("torch._C Generator", {"V": "cpu"})
            if "i" in node:
                self._put(("tensor", node["i"]))
            self._tuple((*node["Y"], None))
            self._out.append(b"b")
            return
        if "N" in node:
            self._global(node["N"])
            self._out.append(b")\x81")
            if "i" in node:
                self._put(("tensor", node["i"]))
            self._any(node["state"])
            self._out.append(b"b")
            return
        if "S" in node:
            layout, parts = node["S"], node["parts"]
            self._call(
                "torch._utils _rebuild_sparse_tensor",
                lambda: self._call("torch.serialization _get_layout", layout), lambda: self._tuple(parts),
            )  # fmt: skip
            return
        if "R" in node:
            self._named(node)
            return
        if "O" in node:
            self._call(node["O"], *node["args"])
            if "i" in node:
                self._put(("tensor", node["i"]))
            if node["state"] is not None:
                self._any(node["state"])
                self._out.append(b"b")
            return
        kind, value = next(iter(node.items()))
        if kind == "d":
            self._out.append(b"}")
            self._pairs(value)
        elif kind == "n":
            self._call("collections Counter", {"d": value})
        elif kind == "y":
            factory = None if value[0] is None else lambda: self._global(_FACTORIES[value[0]])
            self._call("collections defaultdict", factory, {"d": value[1]})
        elif kind == "q":
            self._call("collections deque", *value)
        elif kind == "t":
            self._tuple(value)
        elif kind in ("s", "F"):
            self._call("__builtin__ set" if kind == "s" else "__builtin__ frozenset", lambda: self._items(b"]", b"e", value))
        elif kind == "l":
            self._call("__builtin__ slice", *value)
        elif kind == "r":
            self._call("__builtin__ xrange", *value)
        elif kind == "z":
            self._call("torch Size", lambda: self._tuple(value))
        elif kind == "f":
            self._any(float(value))
        elif kind == "G":
            self._global(value)
        elif kind == "M":
            self._call("__builtin__ getattr", *value)
        elif kind == "D":
            self._global(f"torch {value}")
        elif kind == "V":
            self._call("torch device", value)
        elif kind == "C":
            self._call("__builtin__ complex", *value)
        elif kind == "B":
            self._bytes(value)
        elif kind == "#":
            self._call(f"{_numpy_core()} scalar", lambda: self._numpy_type(value[0]), lambda: self._bytes(value[1]))
        elif kind == "A":
            self._call("__builtin__ bytearray", *([lambda: self._bytes(value)] if value else []))
        else:  # {"=": k}: a tensor that was met before
            self._known(("tensor", value))

    def _bytes(self, value: str) -> None:
        """Of base64."""
        self._call("_codecs encode", base64.b64decode(value).decode("latin1"), "latin1")

    def _numpy_type(self, code: str) -> None:
        self._call("numpy dtype", code, False, True)
        self._tuple((3, "|" if code[-1] == "1" else "<", None, None, None, -1, -1, 0))
        self._out.append(b"b")

    def _named(self, node: dict[str, Any]) -> None:
        module, _, name = node["R"].rpartition(".")
        while module not in sys.modules and "." in module:
            module, _, outer = module.rpartition(".")
            name = f"{outer}.{name}"
        if result_type(node["R"]) is not None:
            module = "torch.return_types"
        self._global(f"{module} {name}")
        self._tuple(node["a"])
        self._out.append(b"\x81" if "w" in node else b"R")
        if "i" in node:
            self._put(("tensor", node["i"]))
        self._add(b"e", node.get("e", []))
        self._pairs(node.get("k", []))
        if "b" in node:
            self._any(node["b"])
            self._out.append(b"b")

    def _tensor(self, node: dict[str, Any]) -> None:
        kind, grad = node.get("c"), "g" in node
        dtype = self._flat[node["P"][0]].dtype
        typed = dtype in _STORAGE_OF

        def plain(grad: bool) -> tuple[Any, ...]:
            storage, offset, sizes, strides = node["P"]
            args: tuple[Any, ...] = (lambda: self._storage(storage), offset, self._ints(sizes), self._ints(strides), grad, {"o": []})
            return args if typed else (*args, lambda: self._global(f"torch {dtype.name}"))

        rebuild = "torch._utils _rebuild_tensor_v2" if typed else "torch._utils _rebuild_tensor_v3"
        held = node.get("x", [])
        if kind is None and not held and "K" not in node:
            self._call(rebuild, *plain(grad))
        elif kind == "p":
            name, more = ("torch._utils _rebuild_parameter_with_state", ({"d": held},)) if held else ("torch._utils _rebuild_parameter", ())
            self._call(name, lambda: self._call(rebuild, *plain(False)), grad, {"o": []}, *more)
        else:
            own = [] if kind is None else [["persistent", kind == "b"], ["_is_buffer", True]]
            state = node["X"] if "X" in node else {"d": [*own, *held]}
            self._call(
                "torch._tensor _rebuild_from_type_v2",
                lambda: self._global(rebuild), lambda: self._global(node.get("K", "torch Tensor")), lambda: self._tuple(plain(grad)), state,
            )  # fmt: skip
        if "i" in node:
            self._put(("tensor", node["i"]))

    def _storage(self, number: int) -> None:
        flat = self._flat[number]
        kind, count = _STORAGE_OF.get(flat.dtype), flat.numel()
        if self._in_stream and not kind:
            raise ValueError(f"save: _use_new_zipfile_serialization = False for a tensor of {flat.dtype}; that format has no such type")
        name, count = (f"torch {kind}", count) if kind else ("torch.storage UntypedStorage", count * flat.itemsize)
        self._tuple(("storage", lambda: self._global(name), str(number), "cpu", count, *([None] if self._in_stream else [])))
        self._out.append(b"Q")


def _pickled(obj: Any, in_stream: bool) -> tuple[bytes, list[Tensor]]:
    """The objects' pickle, and the storages by their numbers; what can not be written is refused here."""
    encoder = _Encoder()
    structure = encoder.encode(obj)
    storages = _Storages()
    storages.place(encoder.met)
    return _Pickler(storages.flat, in_stream).bytes_of(structure), storages.flat


def stream_of(obj: Any) -> Callable[[Any], None]:
    """What writes a file as PyTorch did before its version 1.6: `_torch.py` says how it looks."""
    pickled, storages = _pickled(obj, in_stream=True)
    sizes = {"d": [["short", 2], ["int", 4], ["long", 4]]}
    machine = {"d": [["protocol_version", PROTOCOL], ["little_endian", True], ["type_sizes", sizes]]}
    keys = [str(number) for number in range(len(storages))]

    def write(file: Any) -> None:
        for value in (MAGIC, PROTOCOL, machine):
            write_all(file, _Pickler([]).bytes_of(value))
        write_all(file, pickled + _Pickler([]).bytes_of(keys))
        for flat in storages:
            write_all(file, struct.pack("<q", flat.numel()))
            write_all(file, array_of(flat).reshape(-1).view("u1").data)

    return write


def archive_of(obj: Any, byteorder: bool = True) -> Callable[[Any], None]:
    """What writes the archive into a binary file; what can not be written is refused here."""
    pickled, storages = _pickled(obj, in_stream=False)
    skipped = is_skipped()

    def entries() -> Iterator[tuple[str, Any]]:
        yield f"{_FOLDER}/data.pkl", pickled
        if byteorder:
            yield f"{_FOLDER}/byteorder", b"little"
        for number, flat in enumerate(storages):
            yield f"{_FOLDER}/data/{number}", flat.numel() * flat.itemsize if skipped else array_of(flat).reshape(-1).view("u1")
        yield f"{_FOLDER}/version", b"3\n"

    return lambda file: write_archive(lambda data: write_all(file, data), entries())
