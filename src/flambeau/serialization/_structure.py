"""The structure around the tensors, as JSON.

None, bool, int, finite float, str and list stand for themselves; everything else is an object:

    {"d": [[key, value], ...]}                       dict; "o" OrderedDict, with its "m": _metadata of a state dict; "n" Counter
    {"y": [factory, [[key, value], ...]]}            defaultdict, whose factory is None or named in FACTORIES
    {"t": [...]}, {"z": [...]}, {"q": [[...], n]}    tuple, Size, deque of at most n items or of None
    {"s": [...]}, {"F": [...]}                       set, frozenset of what may be a key
    {"f": "nan"}, {"D": "float32"}, {"V": "cpu"}     float, dtype, device
    {"C": [re, im]}, {"B": text}, {"A": text}        complex number; bytes, bytearray in base64
    {"l": [a, b, c]}, {"r": [a, b, c]}               slice of plain values, range
    {"Y": [seed, draws]}                             generator of random numbers. Also "i", as of tensors
    {"R": name, "a": [...], ...}                     an object of a class that the user allows (`_named.py`), made of arguments, and
        "w": 1                                           __new__ gets them and not the class
        "b", "e": [...], "k": [[key, value], ...]        state, items of a list, entries of a dict
    {"T": entry, ...}                                tensor, with its place (`_sharing.py`), and
        "g": 1                                           requires grad
        "c": "p", "b", "n"                               Parameter, Buffer, Buffer that is not persistent
        "i": k                                           the object is met again, as {"=": k}
    {"P": [layout, sizes, [tensors], in order]}      sparse tensor, "coo": indices and values; others: two of indices and values. Also "i"

Writing turns objects into that, reading checks all of it before anything is made, and then makes it.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._handles import Table
from flambeau._memory_format import LAYOUTS, strided
from flambeau._random import is_generator_state, made_generator
from flambeau.nn._errors import kind_of
from flambeau.serialization._container import DTYPES, code_of
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._keys import Keys
from flambeau.serialization._named import Allowed, Parts, is_named, parts_of
from flambeau.serialization._ordinary import FACTORIES
from flambeau.serialization._results import made_result, result_type
from flambeau.serialization._sharing import Met, check_place, placed

MAX_DEPTH = 200
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"t": tuple, "z": _C.Size, "s": set, "F": frozenset}
_CONTAINERS = (dict, OrderedDict, Counter, defaultdict, list, tuple, set, frozenset, deque, _C.Size)
_CLASSES = ("p", "b", "n")
_NEWER = set("nyqFCBAlrRY")  # nodes that the second version of the format has not


# ------------------------------------------------------------------------------------------- writing


class Encoder:
    """Turns objects into JSON, and collects the tensors that it meets."""

    def __init__(self) -> None:
        self.met: list[Met] = []
        self._nodes: dict[int, dict[str, Any]] = {}  # by the tensor's identity
        self._keep: list[Any] = []  # so that identities stay what they are
        self._active: set[int] = set()
        self._repeated = 0  # nodes that have a number
        self.newer = False  # whether there are nodes that only the third version of the format has

    def _again(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node of an object whose first node is this one."""
        if "i" not in node:
            node["i"] = self._repeated
            self._repeated += 1
        return {"=": node["i"]}

    def tensor(self, value: Tensor, path: str, name: str | None = None) -> dict[str, Any]:
        known = self._nodes.get(id(value))
        if is_sparse(value):
            return self._sparse(value, path) if known is None else self._again(known)
        if known is not None:
            self.met.append(Met(value, {}, name or path or "tensor"))  # for its name
            return self._again(known)
        if code_of(value.dtype) is None:
            raise TypeError(
                f"save: {path or 'the object'} has dtype {value.dtype}, which the file format does "
                "not know"
            )
        if value.is_meta:
            raise _C.DeviceError(
                f"save: {path or 'the object'} is on the meta device and has no data to write"
            )
        node: dict[str, Any] = {"T": None}
        if value.requires_grad:
            node["g"] = 1
        kind = _class_of(value)
        if kind:
            node["c"] = kind
        self._nodes[id(value)] = node
        self._keep.append(value)
        self.met.append(Met(value, node, name or path or "tensor"))
        return node

    def _sparse(self, value: Any, path: str) -> dict[str, Any]:
        named = value.parts()
        parts = [self.tensor(part, f"{path}.{name}" if path else name) for name, part in named.items()]
        self._keep += named.values()  # parts are known by their identity
        node = {"P": [repr(value.layout).rpartition("_")[2], list(value.shape), parts, value.is_coalesced()]}
        self._nodes[id(value)] = node
        self._keep.append(value)
        return node

    def _generator(self, value: _C.Generator) -> dict[str, Any]:
        if (known := self._nodes.get(id(value))) is not None:
            return self._again(known)
        node: dict[str, Any] = {"Y": [value.initial_seed(), _C.draws_of(value)]}
        self._nodes[id(value)] = node
        self._keep.append(value)
        return self._noted(node)  # type: ignore[no-any-return]

    def _array(self, value: Any, path: str) -> dict[str, Any]:
        import numpy as np

        known = self._nodes.get(id(value))
        try:
            native = value.astype(value.dtype.newbyteorder("="), copy=False)
            tensor = _C.from_buffer(np.ascontiguousarray(native))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"save: {path or 'the object'} is an array of dtype {value.dtype}, which has no "
                "tensor counterpart (convert it)"
            ) from None
        if known is not None:
            return self._again(known)
        node = self.tensor(tensor, path)
        self._nodes[id(value)] = node
        self._keep.append(value)
        return node

    def encode(self, value: Any, path: str = "", depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if isinstance(value, Tensor):
            return self.tensor(value, path)
        if (node := self._plain(value, path)) is not None:
            return node
        if isinstance(value, _C.Generator):
            return self._generator(value)
        if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return self.encode(value.item(), path, depth)
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            return self._array(value, path)
        if isinstance(value, Table):  # a module's own
            kind = OrderedDict if isinstance(value, OrderedDict) else dict
            value = kind(value)
        if kind not in _CONTAINERS and not self._is_named(value):
            raise TypeError(
                f"save: {path or 'the object'} is a {kind_of(value)}; expected tensors, arrays, dicts, lists, "
                "tuples, sets, numbers, str, bytes, bool, None, or enums, paths, namespaces, dataclasses (convert it, for a "
                "module save its state_dict())"
            )
        if depth >= MAX_DEPTH:
            raise ValueError(f"save: {path[:80]}... is nested deeper than {MAX_DEPTH} levels")
        if id(value) in self._active:
            raise ValueError(f"save: {path} contains itself")
        self._active.add(id(value))
        if kind not in _CONTAINERS:
            result: Any = self._named(value, path, depth)
        elif isinstance(value, dict):
            result = self._dict(value, path, depth)
        elif kind in (set, frozenset):
            result = self._set(value, path)
        else:
            items = self._items(value, path, depth)
            result = items if kind is list else {"q": [items, value.maxlen]} if kind is deque else {_node_of(kind): items}
        self._active.discard(id(value))
        return self._noted(result)

    def _noted(self, node: Any) -> Any:
        if isinstance(node, dict) and not _NEWER.isdisjoint(node):
            self.newer = True
        return node

    def _plain(self, value: Any, path: str) -> Any:
        """The node of a value without parts, or None."""
        kind = type(value)
        if kind is float:
            return _float_node(value)
        if isinstance(value, _C.dtype):
            return {"D": value.name}
        if isinstance(value, _C.device):
            return {"V": str(value)}
        if kind is complex:
            return self._noted({"C": [_float_node(value.real), _float_node(value.imag)]})
        if kind in (bytes, bytearray):
            return self._noted({"B" if kind is bytes else "A": base64.b64encode(value).decode("ascii")})
        if kind is range:
            return self._noted({"r": [value.start, value.stop, value.step]})
        if kind is slice:
            return self._noted({"l": [self._bound(end, path) for end in (value.start, value.stop, value.step)]})
        return None

    def _bound(self, end: Any, path: str) -> Any:
        if end is None or type(end) in (int, str, bool):
            return end
        if type(end) is float:
            return _float_node(end)
        raise TypeError(f"save: {path or 'the object'} is a slice with {end!r}; expected numbers, str or None")

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        kind = type(value)
        factory = None
        if isinstance(value, defaultdict):
            factory = next((name for name, made in FACTORIES.items() if made is value.default_factory), None)
            if factory is None and value.default_factory is not None:
                raise TypeError(
                    f"save: {path or 'the object'} is a defaultdict whose default_factory is {value.default_factory!r}; expected None or "
                    f"one of {', '.join(FACTORIES)} (save dict(...) of it)"
                )
        pairs = [[self._key(key, path), self.encode(entry, _below(path, key), depth + 1)] for key, entry in value.items()]
        if kind is defaultdict:
            return {"y": [factory, pairs]}
        if kind is not OrderedDict:
            return {"n" if kind is Counter else "d": pairs}
        result: dict[str, Any] = {"o": pairs}
        if isinstance(getattr(value, "_metadata", None), dict):
            result["m"] = self.encode(value._metadata, f"{path}._metadata", depth + 1)  # type: ignore[attr-defined]
        return result

    def _items(self, value: Any, path: str, depth: int) -> list[Any]:
        return [self.encode(entry, f"{path}[{i}]" if path else f"[{i}]", depth + 1) for i, entry in enumerate(value)]

    def _set(self, value: Any, path: str) -> Any:
        try:
            elements = sorted(value)  # the same file for the same set
        except (TypeError, ValueError, RuntimeError):  # tensors say that they have no order in many ways
            elements = list(value)
        return {_node_of(type(value)): [self._key(entry, path, "set") for entry in elements]}

    def _is_named(self, value: Any) -> bool:
        """Whether an object is written by the name of its class."""
        return is_named(value)

    def _named(self, value: Any, path: str, depth: int) -> Any:
        """An object of a class that the file names."""
        parts = parts_of(value, path or "the object")
        node: dict[str, Any] = {"R": f"{type(value).__module__}.{type(value).__qualname__}"}
        fields = getattr(type(value), "_fields", ())
        names = fields if len(fields) == len(parts.args) else [f"({i})" for i in range(len(parts.args))]
        node["a"] = [self.encode(arg, _below(path, name), depth + 1) for name, arg in zip(names, parts.args)]
        if parts.new:
            node["w"] = 1
        self._begun(value, node)
        if parts.state is not None:
            node["b"] = self.encode(parts.state, path, depth + 1)
        if parts.items:
            node["e"] = self._items(parts.items, path, depth)
        if parts.pairs:
            node["k"] = [[self._key(key, path), self.encode(entry, _below(path, key), depth + 1)] for key, entry in parts.pairs]
        return node

    def _begun(self, value: Any, node: dict[str, Any]) -> None:
        """Is told of an object of a class that the file names, before its state and items are looked at."""

    def _key(self, key: Any, path: str, of: str = "dict", depth: int = 0) -> Any:
        """A key of a dict, or an element of a set."""
        kind = type(key)
        if key is None or kind in (str, int, bool):
            return key
        if kind in _KEYS and (node := self._plain(key, path)) is not None:
            return node
        if depth < MAX_KEY_DEPTH:
            if kind in (tuple, _C.Size):
                return {_node_of(kind): [self._key(part, path, of, depth + 1) for part in key]}
            if kind is frozenset:
                return self._noted({"F": [self._key(part, path, of, depth + 1) for part in key]})
            if is_named(key):
                parts = parts_of(key, f"a key of {path or 'the object'}")
                if parts.state is None and not parts.items and not parts.pairs:
                    args = [self._key(arg, path, of, depth + 1) for arg in parts.args]
                    name = f"{kind.__module__}.{kind.__qualname__}"
                    return self._noted({"R": name, "a": args, "w": 1} if parts.new else {"R": name, "a": args})
        what = "a key" if of == "dict" else "an element"
        raise TypeError(
            f"save: the {of} {path or 'itself'} has {what} {key!r} of type {kind}; expected "
            "numbers, str, bytes, None, dtypes, enums, paths or tuples of these"
        )


_KEYS = (float, complex, bytes, _C.dtype, _C.device)
MAX_KEY_DEPTH = 10


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _node_of(kind: Any) -> str:
    return next(key for key, made in _SEQUENCES.items() if made is kind)


def _float_node(value: float) -> Any:
    return value if math.isfinite(value) else {"f": repr(value)}


def is_sparse(value: Tensor) -> bool:
    """Whether it is a sparse tensor, of any layout."""
    return type(value) is not Tensor and value.layout is not strided


def _class_of(value: Tensor) -> str | None:
    from flambeau.nn.parameter import Buffer, Parameter

    if isinstance(value, Parameter):
        return "p"
    if isinstance(value, Buffer):
        return "b" if value.persistent else "n"
    return None


# ------------------------------------------------------------------------------------------- checking


class Checker:
    """Looks at a whole structure, in the order in which it will be made."""

    def __init__(self, entries: dict[str, Any], allowed: Allowed) -> None:
        self.entries = entries
        self._allowed = allowed
        self._met: set[int] = set()
        self._keys = Keys()

    def check(self, node: Any, depth: int = 0) -> None:
        if depth > 2 * MAX_DEPTH:
            raise FileFormatError(f"the structure is nested deeper than {MAX_DEPTH} levels")
        if node is None or isinstance(node, (bool, int, float, str)):
            return
        if isinstance(node, list):
            for entry in node:
                self.check(entry, depth + 1)
            return
        if "T" in node:
            self._tensor(node)
            return
        if "P" in node:
            self._sparse(node, depth)
            return
        if "R" in node:
            self._named(node, depth)
            return
        if "Y" in node:
            state = node["Y"]
            if not node.keys() <= {"Y", "i"} or not isinstance(state, list) or not is_generator_state(tuple(state)):
                raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
            self._meet(node)
            return
        allowed = {"o", "m"} if "o" in node else None
        kind, value = next(iter(node.items())) if len(node) == 1 else ("o", node.get("o"))
        if allowed is None and len(node) != 1 or allowed is not None and not node.keys() <= allowed:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        if kind == "=" and type(value) is int and value in self._met:
            pass
        elif _is_plain_node(kind, value):
            pass
        elif kind == "r" and _are(value, int) and value[2] != 0:
            pass
        elif kind == "l" and isinstance(value, list) and len(value) == 3 and all(_is_bound(end) for end in value):
            pass
        elif kind == "A" and _is_base64(value):
            pass
        elif kind == "q" and isinstance(value, list) and len(value) == 2 and isinstance(value[0], list):
            for entry in value[0]:
                self.check(entry, depth + 1)
            if value[1] is not None and (type(value[1]) is not int or not len(value[0]) <= value[1] < 2**63):
                raise FileFormatError(f"the structure holds a deque of {len(value[0])} items and at most {str(value[1])[:80]}")
        elif kind in _SEQUENCES and isinstance(value, list):
            for entry in value:
                self.check(entry, depth + 1)
            if kind == "z" and not all(type(n) is int and 0 <= n < 2**63 for n in value):
                raise FileFormatError(f"the structure holds a Size of {str(value)[:80]}")
            if kind in ("s", "F"):
                for entry in value:
                    self._key(entry)
        elif kind == "y" and isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
            if value[0] is not None and (type(value[0]) is not str or value[0] not in FACTORIES):
                raise FileFormatError(f"the structure holds a defaultdict of {short(value[0])}; expected {', '.join(FACTORIES)} or null")
            self._pairs(value[1], depth)
        elif kind in ("d", "o", "n") and isinstance(value, list):
            self._pairs(value, depth)
            if "m" in node:
                self.check(node["m"], depth + 1)
                if not isinstance(node["m"], dict) or not node["m"].keys() & {"d", "o"}:
                    raise FileFormatError("the metadata of a state dict is no dict")
        else:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")

    def _pairs(self, pairs: list[Any], depth: int) -> None:
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise FileFormatError("a dict of the structure has an entry that is no (key, value) pair")
            self._key(pair[0])
            self.check(pair[1], depth + 1)

    def _class(self, name: Any) -> Any:
        if type(name) is not str:
            raise FileFormatError(f"the structure names a class {str(name)[:80]}")
        kind = result_type(name) or self._allowed.find(name)
        if kind is None:
            raise FileFormatError(f"is refused: {self._allowed.refusal(name)}")
        return kind

    def _named(self, node: dict[str, Any], depth: int) -> None:
        lists = [node.get(key, []) for key in "aek"]
        if not node.keys() <= set("Rawbek") or not all(isinstance(entries, list) for entries in lists) or node.get("w", 1) != 1:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        self._class(node["R"])
        args, items, pairs = lists
        for entry in args:
            self.check(entry, depth + 1)
        if "b" in node:
            self.check(node["b"], depth + 1)
        for entry in items:
            self.check(entry, depth + 1)
        self._pairs(pairs, depth)

    def _key(self, key: Any) -> None:
        """Before it is hashed."""
        self._keys.is_plain(key)
        self._check_key(key)

    def _check_key(self, key: Any, depth: int = 0) -> None:
        if key is None or isinstance(key, (bool, int, float, str)):
            return
        if isinstance(key, dict) and depth < MAX_KEY_DEPTH + 1:
            if key.keys() in ({"R", "a"}, {"R", "a", "w"}) and isinstance(key["a"], list) and key.get("w", 1) == 1:
                if self._class(key["R"]).__hash__ is not None:
                    for part in key["a"]:
                        self._check_key(part, depth + 1)
                    return
            elif len(key) == 1:
                ((kind, value),) = key.items()
                if _is_plain_node(kind, value):
                    return
                if kind in ("t", "F", "z") and isinstance(value, list):
                    if kind == "z":
                        self.check(key)
                    for part in value:
                        self._check_key(part, depth + 1)
                    return
        raise FileFormatError(f"the structure holds an unknown dict key {str(key)[:80]}")

    def _sparse(self, node: dict[str, Any], depth: int) -> None:
        """That the parts belong together is looked at when they are there."""
        match node["P"]:
            case ["coo" | "csr" | "csc" | "bsr" | "bsc" as layout, list(sizes), list(parts), bool()] if node.keys() <= {"P", "i"}:
                whole = len(sizes) <= 64 and all(type(n) is int and 0 <= n < 2**59 for n in sizes)
                tensors = all(isinstance(part, dict) and part.keys() & {"T", "="} for part in parts)
                if whole and tensors and len(parts) == (2 if layout == "coo" else 3):
                    for part in parts:
                        self.check(part, depth + 1)
                    self._meet(node)
                    return
        raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")

    def _meet(self, node: dict[str, Any]) -> None:
        if "i" in node:
            if type(node["i"]) is not int or node["i"] in self._met:
                raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
            self._met.add(node["i"])

    def _tensor(self, node: dict[str, Any]) -> None:
        name = node["T"]
        if not isinstance(name, str) or not node.keys() <= {"T", "as", "at", "g", "c", "i"}:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        if name not in self.entries:
            raise FileFormatError(f"the structure names a tensor {short(name)} that is not in the file")
        entry = self.entries[name]
        if fault := check_place(node, entry["shape"], DTYPES[entry["dtype"]][2]):
            raise FileFormatError(f"the structure has a view of tensor {short(name)} {fault}")
        if node.get("c", "p") not in _CLASSES or node.get("g", 1) != 1:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        if "g" in node and entry["dtype"] not in ("F64", "F32", "F16", "BF16", "C64", "C128", "C32"):
            raise FileFormatError(f"tensor {short(name)} of dtype {entry['dtype']} can not require grad")
        self._meet(node)


_DTYPE_NAMES = {name for name, _, _ in DTYPES.values()}


def _is_plain_node(kind: str, value: Any) -> bool:
    """Whether a node is a value without parts, that may be a key."""
    if kind == "f":
        return value in ("nan", "inf", "-inf")
    if kind == "D":
        return isinstance(value, str) and value in _DTYPE_NAMES
    if kind == "V":
        return value in ("cpu", "meta")
    if kind == "C":
        return isinstance(value, list) and len(value) == 2 and all(type(part) is float or _is_float_node(part) for part in value)
    return kind == "B" and _is_base64(value)


def _is_float_node(node: Any) -> bool:
    return isinstance(node, dict) and len(node) == 1 and node.get("f") in ("nan", "inf", "-inf")


def _is_bound(node: Any) -> bool:
    return node is None or type(node) in (bool, int, float, str) or _is_float_node(node)


def _are(value: Any, kind: type) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(n) is kind for n in value)


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64encode(base64.b64decode(value, validate=True)).decode("ascii") == value
    except (binascii.Error, ValueError):
        return False


# ------------------------------------------------------------------------------------------- reading


class Decoder:
    """Makes the objects of a checked structure; `entry` gives an entry's tensor, the same one each time."""

    def __init__(self, entry: Callable[[str], Tensor], allowed: Allowed) -> None:
        self._entry = entry
        self._allowed = allowed
        self._met: dict[int, Any] = {}
        self._strided: dict[str, Tensor] = {}

    def decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.decode(entry) for entry in node]
        if not isinstance(node, dict):
            return node
        if "T" in node:
            return self._tensor(node)
        if "P" in node:
            return self._sparse(node)
        if "R" in node:
            return self._named(node)
        if "Y" in node:
            generator = made_generator(*node["Y"])
            if "i" in node:
                self._met[node["i"]] = generator
            return generator
        if "o" in node:
            result = OrderedDict(self._pairs(node["o"]))
            if "m" in node:
                result._metadata = self.decode(node["m"])  # type: ignore[attr-defined]
            return result
        kind, value = next(iter(node.items()))
        if kind == "=":
            return self._met[value]
        if kind == "f":
            return float(value)
        if kind == "D":
            return getattr(_C, value)
        if kind == "V":
            return _C.device(value)
        if kind == "d":
            return dict(self._pairs(value))
        if kind == "n":
            counter: Counter[Any] = Counter()
            dict.update(counter, self._pairs(value))  # a Counter's own would count
            return counter
        if kind == "y":
            factory = None if value[0] is None else FACTORIES[value[0]]
            return defaultdict(factory, self._pairs(value[1]))
        if kind == "q":
            return deque(self._all(value[0]), value[1])
        if kind == "C":
            return complex(*self._all(value))
        if kind in ("B", "A"):
            raw = base64.b64decode(value)
            return raw if kind == "B" else bytearray(raw)
        if kind in ("l", "r"):
            return (slice if kind == "l" else range)(*self._all(value))
        if kind in ("s", "F"):
            return _SEQUENCES[kind](map(self._key, value))
        return _SEQUENCES[kind](self._all(value))

    def _all(self, nodes: list[Any]) -> list[Any]:
        return [self.decode(node) for node in nodes]

    def _pairs(self, pairs: list[Any]) -> list[tuple[Any, Any]]:
        return [(self._key(key), self.decode(value)) for key, value in pairs]

    def _key(self, node: Any) -> Any:
        key = self.decode(node)
        if isinstance(node, dict):
            try:
                hash(key)
            except Exception as error:
                raise FileFormatError(f"a key is a {type(key).__name__}, whose hash raised {type(error).__name__}: {error}") from error
        return key

    def _named(self, node: dict[str, Any]) -> Any:
        args = tuple(self._all(node["a"])) if "a" in node else ()
        if (result := result_type(node["R"])) is not None:
            return made_result(result, args)
        kind = self._allowed.find(node["R"])
        state = self.decode(node["b"]) if "b" in node else None
        items = tuple(self._all(node.get("e", [])))
        return self._allowed.made_of(kind, Parts(args, "w" in node, state, items, tuple(self._pairs(node.get("k", [])))))

    def _sparse(self, node: dict[str, Any]) -> Any:
        from flambeau.sparse._construct import sparse_compressed_tensor, sparse_coo_tensor
        from flambeau.sparse._tensor import linear

        layout, sizes, nodes, in_order = node["P"]
        *indices, values = parts = [self.decode(part) for part in nodes]
        if not all(isinstance(part, Tensor) for part in parts):
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        try:
            made: Any
            if layout != "coo":
                made = sparse_compressed_tensor(indices[0], indices[1], values, sizes, layout=LAYOUTS[f"sparse_{layout}"])
            else:
                made = sparse_coo_tensor(indices[0], values, sizes, is_coalesced=in_order)
            if layout == "coo" and in_order and indices[0].shape[1] > 1:
                keys = linear(indices[0], sizes)
                if not bool((keys[1:] > keys[:-1]).all().item()):
                    raise ValueError("indices are not in order, as the file says")
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            raise FileFormatError(f"the structure holds a sparse tensor that is none: {error}") from error
        made._val = values  # the object itself, which may be met elsewhere
        if "i" in node:
            self._met[node["i"]] = made
        return made

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        value = placed(node, self._entry(node["T"]), self._strided).detach()  # another tensor over the same memory
        grad, kind = "g" in node, node.get("c")
        if kind is not None:
            from flambeau.nn.parameter import Buffer, Parameter

            value = Parameter(value, grad) if kind == "p" else Buffer(value, persistent=kind == "b")
        if grad:
            value.requires_grad_(True)
        if "i" in node:
            self._met[node["i"]] = value
        return value
