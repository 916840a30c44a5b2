"""What the functions of PyTorch's pickles share: storages, what may be copied, and looks at arguments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._keys import Keys
from flambeau.serialization._old_text import OldText
from flambeau.serialization._pickle import Inner
from flambeau.storage import TypedStorage


class Storage(Inner):
    """Bytes of the file, by their key; `count` elements of a type, or bytes where that is None."""

    def __init__(self, key: str, dtype: Any, count: int, location: str, view: tuple[int, int] | None = None) -> None:
        self.key, self.dtype, self.count, self.location = key, dtype, count, location
        self.view = view  # the first element and the number of elements of a storage within another
        self.what = f"the storage {short(key)}"
        self.names: Context | None = None  # who knows where its bytes are

    def value(self) -> Any:
        return super().value() if self.names is None else self.names.storage_object(self)


class Context:
    """A pickle that is being run. A reader of a format says where the bytes of a storage are, by `flat`."""

    def __init__(self, size: int, text: OldText | None = None) -> None:
        self.old_text = text or OldText()
        self._budget = size + 10_000
        self.keys = Keys()

    def flat(self, storage: Storage, dtype: Any) -> Tensor:
        """All of a storage as elements of a type."""
        raise NotImplementedError

    def storage_object(self, storage: Storage) -> Any:
        """A storage that is a value itself, and not what a tensor is made of."""
        dtype = storage.dtype or _C.uint8
        flat = self.flat(storage, dtype)
        if flat.storage_offset() or flat._storage_bytes() != flat.numel() * flat.element_size():  # a part of what was read
            self.charge(flat.numel() * flat.element_size(), storage.what)
            flat = flat.clone()
        return TypedStorage(wrap_storage=flat.untyped_storage(), dtype=dtype)

    def may_call(self, what: Any) -> bool:
        """Whether it is something of the user's that a file may call."""
        return False

    def may_hold(self, what: Any) -> bool:
        """Whether it is a function or class that the file may name as a value."""
        return False

    def is_allowed(self, cls: Any) -> bool:
        """Whether it is a class of the user's, whose instances may be made."""
        return False

    def run(self, what: Any, do: Callable[[], Any]) -> Any:
        """Runs code of something of the user's that a file may call."""
        raise NotImplementedError

    def set_state(self, target: Any, state: Any) -> None:
        """Gives an object of a class that is allowed its state."""
        raise NotImplementedError

    def charge(self, n: int, what: str) -> None:
        """Counts n bytes or elements that are copied."""
        self._budget -= n
        if self._budget < 0:
            raise FileFormatError(f"{what} would be copied often: more than the bytes of the file together")


Function = Callable[[Context, tuple[Any, ...]], Any]


def expect(name: str, args: tuple[Any, ...], *kinds: type | tuple[type, ...], optional: int = 0) -> None:
    """The arguments' number and their types, to the letter: bool is no int."""
    fits = len(kinds) - optional <= len(args) <= len(kinds)
    for arg, kind in zip(args, kinds):
        fits = fits and (kind is object or type(arg) in (kind if isinstance(kind, tuple) else (kind,)))
    if not fits:
        raise FileFormatError(f"{name} is called with {short(args)}, which are not its arguments")


def is_dict(value: Any) -> bool:
    return type(value) in (dict, OrderedDict)


def attributes(state: Any, what: str, taken: frozenset[str]) -> dict[str, Any]:
    """Attributes that an object may get from a file: none that would hide what its class has."""
    if not is_dict(state):
        raise FileFormatError(f"{what} has the state {short(state)}; expected attributes by names")
    for key in state:
        if type(key) is not str or not key.isidentifier() or key in taken or key.startswith("__"):
            raise FileFormatError(f"{what} has an attribute {short(key)}, which no file may set")
    return dict(state)
