"""`torch.utils.weak`: dicts whose keys are held weakly and compared by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from flambeau._C import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that is hashed and compared by the identity of what it refers to."""

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, others = self(), other() if isinstance(other, weakref.ref) else None
        return mine is others if mine is not None and others is not None else self is other


class _WeakHashRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that is hashed and compared as what it refers to."""

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = hash(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, others = self(), other() if isinstance(other, weakref.ref) else None
        return bool(mine == others) if mine is not None and others is not None else self is other


class WeakIdKeyDictionary(MutableMapping):  # type: ignore[type-arg]
    """A dict whose entries go with their keys, which are told apart by identity: tensors and modules can be keys."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:  # noqa: A002
        self.data: Any = {}
        self.ref_type = ref_type

        own = weakref.ref(self)

        def remove(ref: Any) -> None:
            table = own()
            if table is not None:
                table.data.pop(ref, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # nothing refers to it weakly
            return False

    def __len__(self) -> int:
        return sum(ref() is not None for ref in list(self.data))

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key

    keys = __iter__  # type: ignore[assignment]

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        """Pairs whose keys are alive."""
        for ref, value in list(self.data.items()):
            key = ref()
            if key is not None:
                yield key, value

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Values whose keys are alive."""
        return (value for _, value in self.items())

    def keyrefs(self) -> list[Any]:
        """The references themselves."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dict with the same entries."""
        made = type(self)(ref_type=self.ref_type) if type(self) is WeakIdKeyDictionary else type(self)()
        for key, value in self.items():
            made[key] = value
        return made

    __copy__ = copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    ref: Any

    def __init__(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
