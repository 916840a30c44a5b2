"""What PyTorch's pickles may name, and what stands for it here.

`TorchNames.find` knows the functions of two tables (`_torch_tensors.py`, `_torch_values.py`), types of elements and storages, and what
the user allows (`_allowed.py`); it refuses all other names, with the reason where there is one. A function of a table gets the arguments
that the file gives it, which may be anything, and checks all of them. A file may call it often with the same large ones, so all that is
copied is counted (`Context.charge`) and may be as much as the file holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau.serialization._allowed import allowed_by_name, is_never_allowed
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._pickle import MAX_LINE, Global, Inner, plain
from flambeau.serialization._torch_context import Context, Storage, attributes, is_dict
from flambeau.serialization._torch_tensors import TENSORS
from flambeau.serialization._torch_values import (
    MADE,
    VALUES,
    NumpyType,
    Script,
    build_array,
    build_dtype,
    script_object,
)

STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
# Types without a class of storages: their tensors name the type, and lie in untyped bytes.
UNTYPED = ("uint16", "uint32", "uint64", "complex32")
_DTYPES = {name: name for name in (*STORAGES.values(), *UNTYPED)} | {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "cfloat": "complex64",
    "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip
_OTHER_DTYPES = ("float8_", "float4_", "uint", "int", "bits", "quint", "qint")
_NO_COUNTERPART = {
    "torch._utils._rebuild_qtensor": "quantised tensors (dequantize() them)",
    "torch._utils._rebuild_nested_tensor": "nested tensors (unbind() them)",
    "torch._utils._rebuild_wrapper_subclass": "tensors of classes that wrap others (save what they hold)",
    "torch.storage._load_from_bytes": "storages that are pickled by value (save tensors by torch.save)",
    "torch.jit._pickle.build_tensor_from_id": "tensors of a TorchScript archive that lie outside of it",
}


# What functions get as an argument.
_CLASSES = {"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "numpy.ndarray"}
_FUNCTIONS = {**TENSORS, **VALUES}
_OF_ORDERED_DICT = frozenset(dir(OrderedDict))


class _StorageType(Global):
    def __init__(self, name: str, dtype: Any) -> None:
        super().__init__(name)
        self.dtype = dtype


class TorchNames(Context):
    """Names of one pickle. A reader of a format says what its persistent ids stand for."""

    def __init__(self, size: int, in_script: bool = False) -> None:
        super().__init__(size)
        self._user = allowed_by_name()
        self._user_ids = {id(what): name for name, what in self._user.items()}
        self._in_script = in_script

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        raise NotImplementedError

    def find(self, name: str) -> Any:
        if len(name) > 2 * MAX_LINE:
            raise FileFormatError(f"it names {short(name)}, which is too long")
        if name in self._user:
            return self._user[name]
        if name in _FUNCTIONS:
            function = _FUNCTIONS[name]
            return Global(name, lambda args: function(self, args))
        if name in _CLASSES:
            return Global(name, None)
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
        if is_never_allowed(name):
            raise FileFormatError(f"it names {short(name)}, which no file may use: a hostile file, most likely")
        raise FileFormatError(
            f"it names {short(name)}, which is not among what a file may name; expected tensors in plain containers (if you trust the "
            "file, allow it: flambeau.serialization.add_safe_globals([...]), with (what stands for it, its name) where it is another here; "
            "modules whose classes the program has imported: weights_only=False)"
        )

    def is_allowed(self, cls: Any) -> bool:
        return id(cls) in self._user_ids

    def persistent(self, pid: Any) -> Inner:
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or not isinstance(pid[1], _StorageType):
            raise FileFormatError(f"a persistent id is {short(pid)}; expected ('storage', type, key, location, count)")
        if type(pid[2]) is not str or type(pid[3]) is not str or type(pid[4]) is not int or pid[4] < 0:
            raise FileFormatError(
                f"a storage has key {short(pid[2])}, location {short(pid[3])}, count {short(pid[4])}; expected text, text, a number >= 0"
            )
        return self.storage_of(pid)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        return self._run(function, lambda: function(*args))

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(cls, type):
            raise FileFormatError(f"an instance of {short(cls)} is wanted, which is no class")
        return self._run(cls, lambda: cls.__new__(cls, *args, **kwargs))

    def _run(self, what: Any, do: Callable[[], Any]) -> Any:
        """Runs the user's code, if what is asked for is allowed."""
        if id(what) not in self._user_ids:
            raise FileFormatError(f"{short(what)} is called, which is no function")
        try:
            return do()
        except Exception as error:
            raise FileFormatError(f"{self._user_ids[id(what)]}, which was allowed, raised {type(error).__name__}: {error}") from error

    def fill(self, target: Any, items: list[Any], pairs: bool) -> None:
        if not self.is_allowed(type(target)) or not isinstance(target, dict if pairs else list):
            raise FileFormatError(f"items are added to {_kind(target)}; expected a {'dict' if pairs else 'list'}")

        def do() -> None:
            if pairs:
                for key, value in zip(items[::2], items[1::2]):
                    target[key] = value
            else:
                list.extend(target, items)  # type: ignore[arg-type]

        self._run(type(target), do)

    def build(self, target: Any, state: Any) -> None:
        self.charge(len(state) if isinstance(state, (dict, tuple)) else 1, "a state")
        if isinstance(target, NumpyType):
            build_dtype(target, state)
        elif type(target).__module__ == "numpy" and type(target).__name__ == "ndarray":
            build_array(self, target, state)
        elif isinstance(target, Script):
            if not is_dict(state) or not all(type(key) is str for key in state):
                raise FileFormatError(f"an object of {target.name} has the state {short(state)}; expected attributes by names")
            target.attributes.update(state)
        elif type(target) is OrderedDict:
            plain((state,))
            new = attributes(state, "an OrderedDict", _OF_ORDERED_DICT)
            if not is_dict(new.get("_metadata", {})):
                raise FileFormatError(f"a state dict has the metadata {short(new['_metadata'])}; expected a dict")
            target.__dict__.update(new)
        elif self.is_allowed(type(target)):
            plain((state,))
            self._run(type(target), lambda: _set_state(target, state))
        else:
            raise FileFormatError(f"a state is given to {_kind(target)}, which takes none")


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _set_state(target: Any, state: Any) -> None:
    """What pickle does for BUILD."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for key, value in (slots or {}).items():
        setattr(target, key, value)
