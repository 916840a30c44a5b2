"""What PyTorch's pickles may name, and what stands for it here.

`TorchNames.find` knows the functions of two tables (`_torch_tensors.py`, `_torch_values.py`), types of elements and storages, and what
the user allows (`_allowed.py`); it refuses all other names, with the reason where there is one. A function of a table gets the arguments
that the file gives it, which may be anything, and checks all of them. A file may call it often with the same large ones, so all that is
copied is counted (`Context.charge`) and may be as much as the file holds.
"""

from __future__ import annotations

import functools
import importlib
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._named import Allowed
from flambeau.serialization._old_text import OldText
from flambeau.serialization._ordinary import add_items
from flambeau.serialization._pickle import MAX_LINE, Global, plain
from flambeau.serialization._torch_context import Context, Storage, attributes, expect, is_dict
from flambeau.serialization._torch_random import CLASSES as RANDOM_CLASSES
from flambeau.serialization._torch_random import FUNCTIONS as RANDOM
from flambeau.serialization._torch_random import Seeds, build_own, build_random, is_random
from flambeau.serialization._torch_tensors import TENSORS
from flambeau.serialization._torch_values import (
    CONSTANTS,
    KINDS,
    MADE,
    VALUES,
    NumpyType,
    Script,
    build_array,
    build_dtype,
    build_partial,
    named_result,
    script_object,
)
from flambeau.storage import STORAGES

# Types without a class of storages: their tensors name the type, and lie in untyped bytes.
UNTYPED = (
    "uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_DTYPES = {name: name for name in (*STORAGES.values(), *UNTYPED)} | {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "cfloat": "complex64",
    "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip
_STORAGES = (f"{module}.{kind}Storage" for module in ("torch", "torch.cuda", "torch.storage") for kind in ("Untyped", *STORAGES))
_ELEMENTS = frozenset((*(f"torch.{name}" for name in _DTYPES), *_STORAGES))
_OTHER_DTYPES = ("float8_", "float4_", "uint", "int", "bits", "quint", "qint")
_NO_COUNTERPART = {
    "torch._utils._rebuild_qtensor": "quantised tensors (dequantize() them)",
    "torch._utils._rebuild_nested_tensor": "nested tensors (unbind() them)",
    "torch._utils._rebuild_wrapper_subclass": "tensors of classes that wrap others (save what they hold)",
    "torch.storage._load_from_bytes": "storages that are pickled by value (save tensors by torch.save)",
    "torch.jit._pickle.build_tensor_from_id": "tensors of a TorchScript archive that lie outside of it",
}


# What functions get as an argument, and what it is as a value.
_CLASSES = {
    "torch.Tensor": "flambeau.Tensor", "torch.nn.parameter.Parameter": "flambeau.nn.Parameter",
    "torch.nn.parameter.Buffer": "flambeau.nn.Buffer",
    "numpy.ndarray": "numpy.ndarray",
    "torch.Size": "flambeau.Size", "torch.device": "flambeau.device", **RANDOM_CLASSES,
}  # fmt: skip
OPS = "torch._C._VariableFunctionsClass"  # whose methods torch.relu and its kin are
_FUNCTIONS = {**TENSORS, **VALUES, **RANDOM}
_OF_ORDERED_DICT = frozenset(dir(OrderedDict))


class _StorageType(Global):
    def __init__(self, name: str, dtype: Any) -> None:
        super().__init__(name)
        self.dtype = dtype


class TorchNames(Context):
    """Names of one pickle. A reader of a format says what its persistent ids stand for."""

    def __init__(self, size: int, in_script: bool = False, text: OldText | None = None) -> None:
        super().__init__(size, text)
        self._allowed = Allowed()
        self._in_script = in_script

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        raise NotImplementedError

    def find(self, name: str) -> Any:
        if len(name) > 2 * MAX_LINE:
            raise FileFormatError(f"it names {short(name)}, which is too long")
        result = named_result(name)
        known = name in _FUNCTIONS or name in _CLASSES or name in KINDS or name in CONSTANTS or name in MADE or result is not None
        known = known or name in _ELEMENTS
        if (what := self._allowed.find(name, imported=not known)) is not None:
            return what
        if name in _FUNCTIONS:
            function = _FUNCTIONS[name]
            return Global(name, lambda args: function(self, args), kind=_kind_of(name))
        if name in _CLASSES or name in KINDS:
            return Global(name, None, kind=_kind_of(name))
        if result is not None:
            return Global(name, lambda args: result(self, args))
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in MADE:
            make = MADE[name]
            return Global(name, lambda args: make(self, args), new=True)
        module, _, last = name.rpartition(".")
        if module in ("torch", "torch.cuda", "torch.storage") and last.endswith("Storage"):
            kind = last.removesuffix("Storage")
            if kind == "Untyped" or kind in STORAGES:
                return _StorageType(name, None if kind == "Untyped" else getattr(_C, STORAGES[kind]))
            raise FileFormatError(f"{name} holds elements of a type that has no counterpart here (convert the tensors before saving)")
        if module == "torch" and last in _DTYPES:
            return getattr(_C, _DTYPES[last])
        if module == "torch" and last.startswith(_OTHER_DTYPES):
            raise FileFormatError(f"the element type {name} has no counterpart here (convert the tensors before saving)")
        if name in _NO_COUNTERPART:
            raise FileFormatError(f"{name}: {_NO_COUNTERPART[name]} have no counterpart here")
        if self._in_script and (name.startswith("__torch__.")):
            return Global(name, lambda args: script_object(name, args), new=True)
        if name == "builtins.getattr" and self._allowed.finds_methods:
            return Global(name, self._method)
        if name == OPS and self._allowed.finds_methods:
            return Global(name)
        if (kind := self._allowed.find_class(name)) is not None:
            return kind
        raise self._allowed.refusal(name)

    def _method(self, args: tuple[Any, ...]) -> Any:
        """How pickles have functions of classes, and methods of objects."""
        expect("getattr", args, object, str)
        if isinstance(args[0], Global) and args[0].name == OPS:
            return self._allowed.op(args[1])
        return self._allowed.method_of(*plain(args))

    def may_call(self, what: Any) -> bool:
        return self._allowed.may_call(what)

    def may_hold(self, what: Any) -> bool:
        return self._allowed.has(what) or self._allowed.holds(what) or any(what is kind for kind in KINDS.values())

    def run(self, what: Any, do: Callable[[], Any]) -> Any:
        return self._allowed.run(what, do)

    def set_state(self, target: Any, state: Any) -> None:
        self._allowed.set_state(target, state)

    def is_allowed(self, cls: Any) -> bool:
        return self._allowed.has(cls)

    def persistent(self, pid: Any) -> Any:
        if isinstance(pid, tuple):  # whatever is said of other texts, those are names
            if len(pid) == 4 and pid[0] == "module":  # a class of modules with its source, in streams
                return plain(pid[1:2])[0]
            pid = _names_in(pid)
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or not isinstance(pid[1], _StorageType):
            raise FileFormatError(f"a persistent id is {short(pid)}; expected ('storage', type, key, location, count)")
        if type(pid[2]) is not str or type(pid[3]) is not str or type(pid[4]) is not int or pid[4] < 0:
            raise FileFormatError(
                f"a storage has key {short(pid[2])}, location {short(pid[3])}, count {short(pid[4])}; expected text, text, a number >= 0"
            )
        storage = self.storage_of(pid)
        storage.names = self
        return storage

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        self.charge(sum(len(arg) for arg in args if type(arg) in (list, dict)), "an object's items")
        return self._allowed.call(function, args)

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.charge(sum(len(arg) for arg in args if type(arg) in (str, bytes, tuple)), "an object's value")
        return self._allowed.make(cls, args, kwargs)

    def fill(self, target: Any, items: list[Any], pairs: bool) -> None:
        if not self.is_allowed(type(target)) or not isinstance(target, dict if pairs else (list, deque)):
            raise FileFormatError(f"items are added to {_a(target)}; expected a {'dict' if pairs else 'list'}")

        def do() -> None:
            if pairs:
                for key, value in zip(items[::2], items[1::2]):
                    target[key] = value
            else:
                add_items(target, items)

        self._allowed.run(type(target), do)

    def build(self, target: Any, state: Any) -> None:
        self.charge(len(state) if isinstance(state, (dict, tuple)) else 1, "a state")
        if isinstance(target, NumpyType):
            build_dtype(target, state)
        elif type(target).__module__ == "numpy" and type(target).__name__ == "ndarray":
            build_array(self, target, state)
        elif isinstance(target, Seeds):
            target.build(plain((state,))[0])
        elif is_random(target):
            build_random(target, state)
        elif isinstance(target, _C.Generator):
            build_own(target, state)
        elif isinstance(target, Script):
            if not is_dict(state) or not all(type(key) is str for key in state):
                raise FileFormatError(f"an object of {target.name} has the state {short(state)}; expected attributes by names")
            target.attributes.update(state)
        elif type(target) is functools.partial:
            build_partial(self, target, plain((state,))[0])
        elif type(target) is OrderedDict:
            (state,) = plain((state,))
            new = attributes(state, "an OrderedDict", _OF_ORDERED_DICT)
            if not is_dict(new.get("_metadata", {})):
                raise FileFormatError(f"a state dict has the metadata {short(new['_metadata'])}; expected a dict")
            target.__dict__.update(new)
        elif self.is_allowed(type(target)):
            (state,) = plain((state,))
            self._allowed.run(type(target), lambda: self.set_state(target, state))
        else:
            raise FileFormatError(f"a state is given to {_a(target)}, which takes none")


def _kind_of(name: str) -> Callable[[], Any] | None:
    """What gives the class that a name means as a value, or None."""
    if (kind := KINDS.get(name)) is not None:
        return lambda: kind
    if (place := _CLASSES.get(name)) is None:
        return None
    module, _, last = place.rpartition(".")
    return lambda: getattr(importlib.import_module(module), last)


def _names_in(pid: tuple[Any, ...]) -> tuple[Any, ...]:
    """With text for bytes, in the part of a storage, too."""

    def text(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.decode("ascii") if type(part) is bytes and part.isascii() else part for part in parts)

    return text(tuple(text(part) if type(part) is tuple else part for part in pid[:10]))


def _a(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"

