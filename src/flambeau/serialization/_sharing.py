"""Which bytes are written for tensors that share memory, and how they are found again.

Tensors are grouped by the addresses that they reach. One that overlaps no other is written by its values; a dense one
that is not row-major notes its strides and gets them back, one with gaps comes back row-major. Tensors that overlap are
written once, as the memory that they span, and each is a view of that:

    x, x[2:4], x.T                one entry, x; two views of it
    x[0:4], x[2:6]                one entry of six elements that no tensor shows; two views of it
    x, x.view(int32)              two entries: memory under two types is not shared again

In a node of the structure (`_structure.py`), "as" is [sizes, strides] of a tensor with memory of its own, and "at" is
[offset, sizes, strides] of a view of the entry, in elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau._C import Tensor, ops

Node = dict[str, Any]


class Met(NamedTuple):
    """A tensor that the structure holds, and its node, to which the place of its bytes is added."""

    value: Tensor
    node: Node
    name: str


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one, both included; 0 of an empty tensor."""
    if 0 in sizes:
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides))


def _narrow(value: Tensor) -> Tensor:
    """Without the repetitions of expanded axes."""
    for dim, (n, stride) in enumerate(zip(value.shape, value.stride())):
        if stride == 0 and n > 1:
            value = value.narrow(dim, 0, 1)
    return value


def _is_dense(value: Tensor) -> bool:
    """Whether each element of its memory is shown, once or, along an expanded axis, more often."""
    narrow = _narrow(value)
    return value.numel() > 0 and _reach(narrow.shape, narrow.stride()) == narrow.numel()


def dense_memory(value: Tensor) -> Tensor | None:
    """The memory that a dense tensor shows, as one axis in the order in which it lies; None for one with gaps."""
    if not _is_dense(value):
        return None
    return value.as_strided([_narrow(value).numel()], [1], value.storage_offset())


def overlapping(tensors: list[Met]) -> list[list[Met]]:
    """Groups of tensors that reach into each other, in the order in which they were met: addresses are not in the file."""

    def span(i: int) -> tuple[int, int]:
        value = tensors[i].value
        begin = value.data_ptr()
        return begin, begin + _reach(value.shape, value.stride()) * value.element_size()

    spans = [span(i) for i in range(len(tensors))]
    groups: list[list[int]] = []
    end = -1
    for i in sorted((i for i, (a, b) in enumerate(spans) if a < b), key=lambda i: spans[i]):
        if spans[i][0] >= end:
            groups.append([])
        groups[-1].append(i)
        end = max(end, spans[i][1])
    groups += [[i] for i, (a, b) in enumerate(spans) if a >= b]
    return [[tensors[i] for i in group] for group in sorted(map(sorted, groups))]


class Entries:
    """The entries of the container: values by name."""

    def __init__(self, keep_names: bool) -> None:
        self.tensors: dict[str, Tensor] = {}
        # A dict of tensors must show all its names, with their values, to other readers of the container.
        self._keep_names = keep_names
        self._taken: set[str] = set()  # names that later tensors must have

    def place(self, tensors: list[Met]) -> None:
        """Decides what is written, and completes the nodes."""
        self._taken = {met.name for met in tensors} if self._keep_names else set()
        for group in overlapping(tensors):
            views = {(m.value.data_ptr(), tuple(m.value.shape), tuple(m.value.stride()), m.value.dtype) for m in group}
            cover = self.cover(group) if len(views) > 1 else None
            if cover is not None:
                self._place_views(group, *cover)
            elif len(views) == 1:
                self._place_one(group)
            else:
                for met in group:
                    self._place_one([met])

    def _add(self, name: str, value: Tensor) -> str:
        while name in self.tensors or name == "__metadata__":
            name += "'"
        self.tensors[name] = value
        return name

    def _place_one(self, group: list[Met]) -> None:
        """One view, met once or more often."""
        value = group[0].value
        sizes, strides = list(value.shape), list(value.stride())
        narrow = _narrow(value)
        keeps = _is_dense(value) and not value.is_contiguous()
        written = self._add(group[0].name, narrow if keeps and not self._keep_names else value)
        for met in group:
            met.node["T"] = written
            if keeps:
                met.node["as"] = [sizes, strides]
            if self._keep_names and met.name not in self.tensors:
                self.tensors[met.name] = value

    @staticmethod
    def cover(group: list[Met]) -> tuple[str, Tensor, bool] | None:
        """(name, row-major tensor that spans the whole group, whether it is one of them)."""
        first = group[0].value
        item = first.element_size()
        begin = min(m.value.data_ptr() for m in group)
        end = max(m.value.data_ptr() + _reach(m.value.shape, m.value.stride()) * item for m in group)
        if any(m.value.dtype != first.dtype or (m.value.data_ptr() - begin) % item for m in group):
            return None
        for met in group:
            if met.value.is_contiguous() and met.value.data_ptr() == begin and begin + met.value.numel() * item == end:
                return met.name, met.value, True
        memory = first.data_ptr() - first.storage_offset() * item
        if begin < memory or end > memory + first._storage_bytes() or (begin - memory) % item:
            return None  # foreign memory, known by several storages
        return group[0].name, first.detach().as_strided([(end - begin) // item], [1], (begin - memory) // item), False

    def _place_views(self, group: list[Met], name: str, cover: Tensor, shown: bool) -> None:
        if self._keep_names and not shown:
            name = f"memory of {name}"
            while name in self._taken:
                name += "'"
        written = self._add(name, cover)
        for met in group:
            value = met.value
            offset = (value.data_ptr() - cover.data_ptr()) // value.element_size()
            met.node["T"] = written
            if offset or value.shape != cover.shape or not value.is_contiguous():
                met.node["at"] = [offset, list(value.shape), list(value.stride())]
            if self._keep_names and met.name not in self.tensors:
                self.tensors[met.name] = value


def check_place(node: Node, shape: list[int], item: int) -> str | None:
    """What is wrong with "as" or "at" for an entry of this shape, of `item` bytes an element, or None."""
    for key in ("as", "at"):
        if key not in node:
            continue
        place = node[key]
        lists = place[-2:] if isinstance(place, list) and len(place) == (2 if key == "as" else 3) else None
        if lists is None or not all(isinstance(x, list) and len(x) <= 64 for x in lists) or len(lists[0]) != len(lists[1]):
            return f"{key} = {str(place)[:80]}"
        numbers = [*lists[0], *lists[1], *place[:-2]]
        if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
            return f"{key} = {str(place)[:80]} with numbers that are no sizes"
        sizes, strides = lists
        if item * math.prod(n for n in sizes if n) >= 2**59:
            return f"{key} = {str(place)[:80]}, which is too large"
        if key == "at" and place[0] + _reach(sizes, strides) > math.prod(shape):
            return f"at = {str(place)[:80]}, beyond the {math.prod(shape)} elements of its entry"
        if key == "as":
            fits = len(shape) == len(sizes) and all(
                have in ((n, 1) if stride == 0 else (n,)) for have, n, stride in zip(shape, sizes, strides)
            )
            inner = [1 if stride == 0 else n for n, stride in zip(sizes, strides)]
            if not fits or _reach(inner, strides) != math.prod(inner):
                return f"as = {str(place)[:80]} for an entry of shape {shape}"
    return None


def placed(node: Node, entry: Tensor, strided: dict[str, Tensor]) -> Tensor:
    """The tensor that a checked node stands for. `strided` keeps what "as" made, which two nodes may share."""
    if "at" in node:
        offset, sizes, strides = node["at"]
        return entry.view(-1).as_strided(sizes, strides, entry.storage_offset() + offset)
    if "as" in node:
        sizes, strides = node["as"]
        key = f"{node['T']}{strides}"
        if key not in strided:
            for dim, stride in enumerate(strides):
                if stride == 0:
                    entry = entry.narrow(dim, 0, min(1, entry.shape[dim]))
            strided[key] = ops.empty(entry.numel(), dtype=entry.dtype, device=entry.device)
            strided[key].as_strided(entry.shape, strides).copy_(entry)
        return strided[key].as_strided(sizes, strides)
    return entry
