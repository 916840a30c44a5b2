"""Values as bytes, for ranks that are processes: a structure that is JSON, and the tensors' memory as it is.

None, bool, int, float, str and list stand for themselves; everything else is an object:

    {"t": [...]}, {"d": [[key, value], ...]}      tuple, dict
    {"n": [module, name, [...]]}                  named tuple, by its class, which both programs have
    {"D": "float32"}                              dtype
    {"T": k}                                      the k-th tensor

What is sent of a tensor whose axes are another order of a contiguous tensor's is that tensor, so that strides arrive as they were: a
kernel may add in another order where they differ. So may one whose bytes lie with channels last (outputs of convolutions), of which
these are sent: positions by channels. Of others (slices, expanded ones) a contiguous copy is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.nn._errors import kind_of


class Packed:
    """A value taken apart.

    Args:
        value: tensors, numbers, str, bool, None and dtypes, in tuples, lists and dicts.

    Attributes:
        structure: JSON.
        tensors: contiguous, each once.
        specs: of the tensors: dtype, shape, and the order of axes, or what the shape is if channels come last.

    Raises:
        TypeError: something else is in it.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._wire import Packed
        >>> packed = Packed((fl.ones(2, 3).t(), {"scale": 2.0}))
        >>> packed.structure
        {'t': [{'T': 0}, {'d': [['scale', 2.0]]}]}
        >>> packed.specs
        [['float32', [2, 3], [1, 0]]]
    """

    def __init__(self, value: Any) -> None:
        self.tensors: list[Tensor] = []
        self.specs: list[list[Any]] = []
        self._known: dict[int, int] = {}
        self._given: list[Tensor] = []  # so that identities stay what they are
        self.structure = self._packed(value)

    def _packed(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, Tensor):
            return {"T": self._tensor(value)}
        if isinstance(value, _C.dtype):
            return {"D": value.name}
        if isinstance(value, dict):
            return {"d": [[self._packed(key), self._packed(entry)] for key, entry in value.items()]}
        if kind is list:
            return [self._packed(entry) for entry in value]
        if kind is tuple:
            return {"t": [self._packed(entry) for entry in value]}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"n": [kind.__module__, kind.__qualname__, [self._packed(entry) for entry in value]]}
        raise TypeError(
            f"a {kind_of(value)} can not be sent to another process; expected tensors, numbers, str, bool or None, in tuples, lists and "
            "dicts"
        )

    def _tensor(self, x: Tensor) -> int:
        if id(x) in self._known:
            return self._known[id(x)]
        if x.device.type != "cpu":
            raise TypeError(f"a tensor on {x.device} can not be sent to another process; expected one on the CPU, as x.cpu() is")
        whole, how = _plain(x.detach())
        self._known[id(x)] = len(self.tensors)
        self._given.append(x)
        self.tensors.append(whole)
        self.specs.append([whole.dtype.name, [int(n) for n in whole.shape], how])
        return len(self.tensors) - 1


def _plain(x: Tensor) -> tuple[Tensor, Any]:
    """A contiguous tensor with the elements of x, and how x is had from it."""
    rows = _C.channel_rows(x)
    if rows is not None:
        return rows, {"last": [int(n) for n in x.shape]}
    axes = sorted(range(x.dim()), key=lambda axis: -x.stride(axis))
    whole = x.permute(axes)
    return (whole, axes) if whole.is_contiguous() else (x.contiguous(), list(range(x.dim())))


def _as_it_was(x: Tensor, how: Any) -> Tensor:
    if isinstance(how, list):
        return x.permute([how.index(axis) for axis in range(len(how))])
    n, c, *others = how["last"]
    if _C.get_deferred_layout():
        laid: Tensor = _C.from_channel_rows(x, [n, c, *others])
        return laid
    return x.view(n, -1, c).transpose(1, 2).reshape([n, c, *others])


def empty(spec: Sequence[Any]) -> Tensor:
    """The memory for a tensor that will arrive."""
    name, shape, _ = spec
    return ops.empty(shape, dtype=getattr(_C, name))


def unpack(structure: Any, tensors: Sequence[Tensor], specs: Sequence[Sequence[Any]]) -> Any:
    """The value that was taken apart.

    Args:
        structure, specs: as `Packed` has them.
        tensors: those that were made by `empty`, with what arrived.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._wire import Packed, unpack
        >>> packed = Packed([fl.ones(2), (None, 1.5)])
        >>> unpack(packed.structure, packed.tensors, packed.specs)
        [tensor([1., 1.]), (None, 1.5)]
    """
    return _unpacked(structure, [_as_it_was(x, how) for x, (_, _, how) in zip(tensors, specs)])


def _unpacked(node: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(node, list):
        return [_unpacked(entry, tensors) for entry in node]
    if not isinstance(node, dict):
        return node
    ((kind, value),) = node.items()
    if kind == "T":
        return tensors[value]
    if kind == "D":
        return getattr(_C, value)
    if kind == "t":
        return tuple(_unpacked(entry, tensors) for entry in value)
    if kind == "d":
        return {_unpacked(key, tensors): _unpacked(entry, tensors) for key, entry in value}
    module, name, entries = value
    return _named_tuple(module, name)(*(_unpacked(entry, tensors) for entry in entries))


def _named_tuple(module: str, name: str) -> Any:
    """A class that the sender has; nothing is imported for it."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise TypeError(f"a named tuple {module}.{name} arrived, which this process does not have; expected it in an imported module")
    return found
