"""The structure around the tensors, as JSON.

None, bool, int, finite float, str and list stand for themselves; everything else is an object:

    {"d": [[key, value], ...]}                       dict; "o" OrderedDict, with its "m": _metadata of a state dict
    {"t": [...]}, {"z": [...]}, {"s": [...]}         tuple, Size, set of what may be a key
    {"f": "nan"}, {"D": "float32"}, {"V": "cpu"}     float, dtype, device
    {"T": entry, ...}                                tensor, with its place (`_sharing.py`), and
        "g": 1                                           requires grad
        "c": "p", "b", "n"                               Parameter, Buffer, Buffer that is not persistent
        "i": k                                           the object is met again, as {"=": k}
    {"P": [layout, sizes, [tensors], in order]}      sparse tensor, "coo": indices and values; "csr": rows, columns and values. Also "i"

Writing turns objects into that, reading checks all of it before anything is made, and then makes it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.nn._errors import kind_of
from flambeau.serialization._container import DTYPES, code_of
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._keys import Keys
from flambeau.serialization._sharing import Met, check_place, placed

MAX_DEPTH = 200
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"t": tuple, "z": _C.Size, "s": set}
_CLASSES = ("p", "b", "n")


# ------------------------------------------------------------------------------------------- writing


class Encoder:
    """Turns objects into JSON, and collects the tensors that it meets."""

    def __init__(self) -> None:
        self.met: list[Met] = []
        self._nodes: dict[int, dict[str, Any]] = {}  # by the tensor's identity
        self._keep: list[Any] = []  # so that identities stay what they are
        self._active: set[int] = set()
        self._repeated = 0  # nodes that have a number

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
        by_rows = value.is_sparse_csr
        named = {"crow_indices": value.crow_indices(), "col_indices": value.col_indices()} if by_rows else {"indices": value._indices()}
        parts = [self.tensor(part, f"{path}.{name}" if path else name) for name, part in {**named, "values": value._values()}.items()]
        self._keep += named.values()  # parts are known by their identity
        node = {"P": ["csr" if by_rows else "coo", list(value.shape), parts, value.is_coalesced()]}
        self._nodes[id(value)] = node
        self._keep.append(value)
        return node

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
        if kind is float:
            return value if math.isfinite(value) else {"f": repr(value)}
        if isinstance(value, Tensor):
            return self.tensor(value, path)
        if isinstance(value, _C.dtype):
            return {"D": value.name}
        if isinstance(value, _C.device):
            return {"V": str(value)}
        if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return self.encode(value.item(), path, depth)
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            return self._array(value, path)
        is_dict = isinstance(value, dict)
        if kind in (complex, bytes):
            raise TypeError(f"save: {path or 'the object'} is {kind.__name__}, which safetensors' metadata does not know (use format='pt')")
        if not (is_dict or kind in (list, tuple, set, _C.Size)):
            raise TypeError(
                f"save: {path or 'the object'} is a {kind_of(value)}; expected tensors, arrays, dicts, lists, "
                "tuples, sets, numbers, str, bool or None (convert it, for a module save its "
                "state_dict())"
            )
        if depth >= MAX_DEPTH:
            raise ValueError(f"save: {path[:80]}... is nested deeper than {MAX_DEPTH} levels")
        if id(value) in self._active:
            raise ValueError(f"save: {path} contains itself")
        self._active.add(id(value))
        result = self._dict(value, path, depth) if is_dict else self._sequence(value, path, depth)
        self._active.discard(id(value))
        return result

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        pairs = []
        for key, entry in value.items():
            below = f"{path}.{key}" if path else str(key)
            pairs.append([_key_of(key, path), self.encode(entry, below, depth + 1)])
        if not isinstance(value, OrderedDict):
            return {"d": pairs}
        result: dict[str, Any] = {"o": pairs}
        if isinstance(getattr(value, "_metadata", None), dict):
            result["m"] = self.encode(value._metadata, f"{path}._metadata", depth + 1)  # type: ignore[attr-defined]
        return result

    def _sequence(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind is set:
            try:
                value = sorted(value)  # the same file for the same set
            except TypeError:
                value = list(value)
            return {"s": [_key_of(entry, path, "set") for entry in value]}
        items = [
            self.encode(entry, f"{path}[{i}]" if path else f"[{i}]", depth + 1)
            for i, entry in enumerate(value)
        ]
        if kind is list:
            return items
        return {next(key for key, made in _SEQUENCES.items() if made is kind): items}


def is_sparse(value: Tensor) -> bool:
    """Whether it is a sparse tensor, of any layout."""
    return type(value) is not Tensor and bool(value.is_sparse or value.is_sparse_csr)


def _class_of(value: Tensor) -> str | None:
    if type(value) is Tensor:
        return None
    from flambeau.nn.parameter import Buffer, Parameter

    if isinstance(value, Parameter):
        return "p"
    if isinstance(value, Buffer):
        return "b" if value.persistent else "n"
    return None


def _key_of(key: Any, path: str, of: str = "dict") -> Any:
    if key is None or type(key) in (str, int, bool):
        return key
    if type(key) is float:
        return key if math.isfinite(key) else {"f": repr(key)}
    if type(key) is tuple:
        return {"t": [_key_of(part, path, of) for part in key]}
    what = "a key" if of == "dict" else "an element"
    raise TypeError(
        f"save: the {of} {path or 'itself'} has {what} {key!r} of type {type(key)}; expected "
        "str, int, float, bool, None or a tuple of these"
    )


# ------------------------------------------------------------------------------------------- checking


class Checker:
    """Looks at a whole structure, in the order in which it will be made."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries
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
        allowed = {"o", "m"} if "o" in node else None
        kind, value = next(iter(node.items())) if len(node) == 1 else ("o", node.get("o"))
        if allowed is None and len(node) != 1 or allowed is not None and not node.keys() <= allowed:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        if kind == "=" and type(value) is int and value in self._met:
            pass
        elif kind == "f" and value in ("nan", "inf", "-inf"):
            pass
        elif kind == "D" and isinstance(value, str) and value in {name for name, _, _ in DTYPES.values()}:
            pass
        elif kind == "V" and value in ("cpu", "meta"):
            pass
        elif kind in _SEQUENCES and isinstance(value, list):
            for entry in value:
                self.check(entry, depth + 1)
            if kind == "z" and not all(type(n) is int and 0 <= n < 2**63 for n in value):
                raise FileFormatError(f"the structure holds a Size of {str(value)[:80]}")
            if kind == "s":
                for entry in value:
                    self._key(entry)
        elif kind in ("d", "o") and isinstance(value, list):
            for pair in value:
                if not isinstance(pair, list) or len(pair) != 2:
                    raise FileFormatError(
                        "a dict of the structure has an entry that is no (key, value) pair"
                    )
                self._key(pair[0])
                self.check(pair[1], depth + 1)
            if "m" in node:
                self.check(node["m"], depth + 1)
                if not isinstance(node["m"], dict) or not node["m"].keys() & {"d", "o"}:
                    raise FileFormatError("the metadata of a state dict is no dict")
        else:
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")

    def _key(self, key: Any) -> None:
        self._keys.is_plain(key)
        _check_key(key)
    def _sparse(self, node: dict[str, Any], depth: int) -> None:
        """That the parts belong together is looked at when they are there."""
        match node["P"]:
            case ["coo" | "csr" as layout, list(sizes), list(parts), bool()] if node.keys() <= {"P", "i"}:
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


def _check_key(key: Any, depth: int = 0) -> None:
    if key is None or isinstance(key, (bool, int, float, str)):
        return
    if isinstance(key, dict) and len(key) == 1 and depth < 10:
        if key.get("f") in ("nan", "inf", "-inf"):
            return
        if isinstance(key.get("t"), list):
            for part in key["t"]:
                _check_key(part, depth + 1)
            return
    raise FileFormatError(f"the structure holds an unknown dict key {str(key)[:80]}")


# ------------------------------------------------------------------------------------------- reading


class Decoder:
    """Makes the objects of a checked structure; `entry` gives an entry's tensor, the same one each time."""

    def __init__(self, entry: Callable[[str], Tensor]) -> None:
        self._entry = entry
        self._met: dict[int, Tensor] = {}
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
        if "o" in node:
            result = OrderedDict((self.decode(key), self.decode(value)) for key, value in node["o"])
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
            return {self.decode(key): self.decode(entry) for key, entry in value}
        return _SEQUENCES[kind]([self.decode(entry) for entry in value])

    def _sparse(self, node: dict[str, Any]) -> Any:
        from flambeau.sparse._construct import sparse_coo_tensor, sparse_csr_tensor
        from flambeau.sparse._tensor import linear

        layout, sizes, nodes, in_order = node["P"]
        *indices, values = parts = [self.decode(part) for part in nodes]
        if not all(isinstance(part, Tensor) for part in parts):
            raise FileFormatError(f"the structure holds an unknown node {str(node)[:80]}")
        try:
            made: Any
            if layout == "csr":
                made = sparse_csr_tensor(indices[0], indices[1], values, sizes)
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
