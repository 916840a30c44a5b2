"""Sequences of unequal length: padding and packing.

A PackedSequence holds the rows of all sequences that are still running, step by step, longest
sequence first:

    a a a        data         a b c | a b | a
    b b      ->  batch_sizes  3       2     1
    c
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import ArgumentError, Tensor, ops
from flambeau._errors import AssertedTypeError, RefusedTypeError
from flambeau._no_tensor import wants_tensors

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The fields of a `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Packed rows, the batch size of every step (a CPU tensor) and the sorting, if any; of the sorting one direction is enough.

    `PackedSequence((data, batch_sizes))` is the older form.

    Raises:
        ValueError: the batch sizes are not on the CPU.
        TypeError: there are none, and no pair in place of the data.
    """

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertedTypeError(f"PackedSequence: data is a {type(data).__name__}; expected batch_sizes, or (data, batch_sizes)")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(f"PackedSequence: batch_sizes are on {batch_sizes.device}; expected them on the CPU")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Moves or casts the data, the sorting moves with it; the batch sizes stay. The object itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        rest = (None if x is None else x.to(data.device) for x in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *rest)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, device: Any = None, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a GPU, of which there is none: raises what `Tensor.cuda` raises."""
        return self._replace(data=self.data.cuda(device, *args, **kwargs))

    def double(self) -> PackedSequence:
        """In float64."""
        return self.to(dtype=_C.float64)

    def float(self) -> PackedSequence:
        """In float32."""
        return self.to(dtype=_C.float32)

    def half(self) -> PackedSequence:
        """In float16."""
        return self.to(dtype=_C.float16)

    def long(self) -> PackedSequence:
        """In int64."""
        return self.to(dtype=_C.int64)

    def int(self) -> PackedSequence:
        """In int32."""
        return self.to(dtype=_C.int32)

    def short(self) -> PackedSequence:
        """In int16."""
        return self.to(dtype=_C.int16)

    def char(self) -> PackedSequence:
        """In int8."""
        return self.to(dtype=_C.int8)

    def byte(self) -> PackedSequence:
        """In uint8."""
        return self.to(dtype=_C.uint8)

    def pin_memory(self) -> PackedSequence:
        """With pinned data, as `Tensor.pin_memory`."""
        return self._replace(data=self.data.pin_memory())

    def is_pinned(self) -> bool:
        """Whether the data are pinned."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data lie on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one."""
    return None if permutation is None else ops.argsort(permutation)


@wants_tensors
def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks sequences [L_i, *] into [max L, B, *] (`batch_first`: [B, max L, *]).

    Raises:
        ValueError: no sequences, shapes that differ behind the length, or an unknown side.
    """
    if not isinstance(sequences, Iterable):
        raise RefusedTypeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    items = list(sequences)
    if not items:
        raise ArgumentError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: Expected padding_side to be one of left or right, but got {padding_side}")
    if not items[0].ndim:
        raise ArgumentError("pad_sequence: sequence 0 has no axes; expected [L, *]")
    longest = max(x.shape[0] if x.ndim else 0 for x in items)
    rows = []
    for i, x in enumerate(items):
        if not x.ndim or x.shape[1:] != items[0].shape[1:]:
            raise ArgumentError(
                f"pad_sequence: sequence {i} has shape {list(x.shape)}, the first "
                f"{list(items[0].shape)}; only the length may differ"
            )
        gap = longest - x.shape[0]
        if gap:
            fill = ops.full((gap, *x.shape[1:]), padding_value, dtype=x.dtype, device=x.device)
            x = ops.cat([x, fill] if padding_side == "right" else [fill, x], 0)
        rows.append(x)
    return ops.stack([x.to(rows[0].dtype) for x in rows], 0 if batch_first else 1)  # the first says the type


@wants_tensors
def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The inverse of `pad_sequence`."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [rows[i, :n] for i, n in enumerate(counts)]


@wants_tensors
def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs [T, B, *] (`batch_first`: [B, T, *]) with the given lengths.

    Raises:
        ValueError: lengths that do not fit, or unsorted ones without `enforce_sorted=False`.
    """
    counts = lengths.to(_C.int64).tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    x = input.transpose(0, 1) if batch_first else input
    t, b = x.shape[:2]
    if len(counts) != b or not counts or min(counts) <= 0 or max(counts) > t:
        what = ""
        if len(counts) != b:
            what = f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={b}): "
        elif counts and min(counts) <= 0:
            what = "Length of all samples has to be greater than 0: "
        raise _C.ArgumentError(
            f"pack_padded_sequence: {what}lengths = {counts}; expected {b} numbers from 1 to {t} for an input of shape {list(input.shape)}"
        )
    order = unorder = None
    if enforce_sorted:
        if any(a < z for a, z in zip(counts, counts[1:])):
            raise _C.ArgumentError(
                "pack_padded_sequence: `lengths` array must be sorted in decreasing order when `enforce_sorted` is True, "
                f"got {counts}; sort the sequences or pass enforce_sorted=False"
            )
    else:
        positions = sorted(range(b), key=lambda i: -counts[i])
        order = _C.tensor_from(positions, _C.int64)
        unorder = invert_permutation(order)
        counts = [counts[i] for i in positions]
        x = x.index_select(1, order)
    sizes = [sum(1 for n in counts if n > step) for step in range(counts[0])]
    data = ops.cat([x[step, :n] for step, n in enumerate(sizes)], 0)
    return PackedSequence(data, _C.tensor_from(sizes, _C.int64), order, unorder)


@wants_tensors
def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Unpacks to (padded, lengths), the inverse of `pack_padded_sequence`.

    Raises:
        ValueError: `total_length` is shorter than the longest sequence.
    """
    sizes = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        raise ArgumentError(
            "pad_packed_sequence: Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length = {total_length} and {len(sizes)} steps"
        )
    batch = sizes[0]
    steps = list(sequence.data.split(sizes, 0))
    for i, step in enumerate(steps):
        if step.shape[0] < batch:
            shape = (batch - step.shape[0], *step.shape[1:])
            fill = ops.full(shape, padding_value, dtype=step.dtype, device=step.device)
            steps[i] = ops.cat([step, fill], 0)
    for _ in range((total_length or len(sizes)) - len(sizes)):
        steps.append(ops.full_like(steps[0].detach(), padding_value))
    axis = 1 if batch_first else 0  # of time
    padded = ops.stack(steps, axis)
    counts = [sum(1 for size in sizes if size > i) for i in range(batch)]
    lengths = _C.tensor_from(counts, _C.int64)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1 - axis, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return padded, lengths


@wants_tensors
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of `pack_sequence`: the sequences [L_i, *]."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


@wants_tensors
def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences [L_i, *]."""
    items = list(sequences)
    lengths = [x.shape[0] for x in items]
    return pack_padded_sequence(pad_sequence(items), lengths, enforce_sorted=enforce_sorted)
