"""Datasets: things with `__getitem__` and `__len__`, or things to iterate."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, Generic, TypeVar

from flambeau._C import Generator, Tensor, ops
from flambeau._errors import AssertedTypeError, AssertedValueError, NoTensorError
from flambeau._warn import warn

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Maps an index to a sample; a subclass defines `__getitem__` and usually `__len__`.

    `__getitems__(indices)` may be defined as well and then fetches a whole batch at once.

    Example:
        >>> import flambeau as fl
        >>> class Squares(fl.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, i):
        ...         return i, i * i
        >>> [pair for pair in fl.utils.data.DataLoader(Squares(), batch_size=3)]
        [[tensor([0, 1, 2]), tensor([0, 1, 4])]]
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """A stream of samples; a subclass defines `__iter__`.

    With several workers each one iterates for itself: use `get_worker_info()` to share the stream
    out, or every sample comes once per worker.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are the rows of tensors with equal first dimension.

    Raises:
        ValueError: the first dimensions differ.

    >>> import flambeau as fl
    >>> data = fl.utils.data.TensorDataset(fl.zeros(5, 2), fl.arange(5))
    >>> len(data), data[3][1].item()
    (5, 3)
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset: got no tensors")
        for i, t in enumerate(tensors):
            if not isinstance(t, Tensor):
                raise NoTensorError(f"TensorDataset: tensors[{i}] is a {type(t).__name__}; expected a Tensor")
            if t.dim() == 0 or t.shape[0] != tensors[0].shape[0]:
                raise AssertedValueError(
                    f"TensorDataset: Size mismatch between tensors: tensor {i} has shape {list(t.shape)}, tensor 0 "
                    f"{list(tensors[0].shape)}; the first dimensions must be equal"
                )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


def _several(dataset: Dataset[T], indices: Sequence[int]) -> list[T]:
    """The samples at `indices`, all at once where the dataset can do that."""
    fetch = getattr(dataset, "__getitems__", None)
    if not callable(fetch):
        return [dataset[i] for i in indices]
    samples: list[T] = fetch(indices)
    if len(samples) != len(indices):
        raise ValueError(f"{type(dataset).__name__}.__getitems__: gave {len(samples)} samples for {len(indices)} indices")
    return samples


class StackDataset(Dataset[Any]):
    """Joins datasets of equal length: samples are tuples, or dicts with keyword arguments.

    Raises:
        ValueError: none or both kinds of arguments, or unequal lengths.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            if not args:
                raise ValueError("StackDataset: At least one dataset should be passed")
            raise ValueError("StackDataset: give datasets by position (as tuples) or by keyword (as dicts), but both types are given")
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values()) if kwargs else list(args)
        lengths = [len(part) for part in parts]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets, whose lengths are {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if type(self).__getitem__ is not StackDataset.__getitem__:
            return [self[i] for i in indices]
        if isinstance(self.datasets, dict):
            columns = [_several(part, indices) for part in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*[_several(part, indices) for part in self.datasets]))

    def __len__(self) -> int:
        return self._length


class _OutOfRange(IndexError, ValueError):
    """An index outside; PyTorch's is a ValueError where the index is negative."""


class ConcatDataset(Dataset[T]):
    """Several datasets one after the other.

    Raises:
        ValueError: none given, or one of them is iterable only.
    """

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        if not isinstance(datasets, Iterable):
            raise TypeError(f"ConcatDataset: datasets is a {type(datasets).__name__}; expected a list of datasets")
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertedValueError("ConcatDataset: datasets should not be an empty iterable")
        for i, part in enumerate(self.datasets):
            if not hasattr(part, "__len__") and not isinstance(part, IterableDataset):
                raise TypeError(f"ConcatDataset: datasets[{i}] is a {type(part).__name__}, which has no length; expected a dataset")
            if isinstance(part, IterableDataset):
                raise AssertedValueError(f"ConcatDataset does not support IterableDataset: dataset {i} is one; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """How many samples there are up to the end of each."""
        return list(itertools.accumulate(len(part) for part in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """PyTorch's older spelling of `cumulative_sizes`."""
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        n = len(self)
        if not -n <= index < n:
            raise _OutOfRange(f"ConcatDataset: absolute value of index should not exceed dataset length, {n}: index {index}")
        index %= n
        k = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[k][index - (self.cumulative_sizes[k - 1] if k else 0)]


class ChainDataset(IterableDataset[T]):
    """Several streams one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.chain.from_iterable(map(_stream, self.datasets))

    def __len__(self) -> int:
        return sum(len(_stream(part)) for part in self.datasets)  # type: ignore[arg-type,misc]


def _stream(part: Any) -> IterableDataset[Any]:
    if not isinstance(part, IterableDataset):
        raise AssertedTypeError(f"ChainDataset only supports IterableDataset, got a {type(part).__name__}")
    return part


class Subset(Dataset[T]):
    """The samples of a dataset at the given indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T]:
        if type(self).__getitem__ is not Subset.__getitem__:  # a class of the program's own that knows of one sample at a time
            return [self[i] for i in indices]
        return _several(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Splits a dataset at random into parts of the given lengths, or shares that sum to 1.

    With shares the samples left over by rounding go to the parts in turn.

    Raises:
        ValueError: the lengths do not sum to the dataset's, or a share is outside [0, 1].
    """
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"random_split: dataset is a {type(dataset).__name__}, which has no length; expected a dataset with one")
    if not isinstance(lengths, Iterable) or not all(isinstance(count, (Real, Tensor)) for count in lengths):
        raise TypeError(f"random_split: lengths = {lengths!r}; expected a list of numbers")
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"random_split: Fraction at index {i} is not between 0 and 1: {share}")
        counts = [math.floor(n * share) for share in lengths]
        for i in range(n - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warn(f"random_split: part {i} of {len(counts)} gets none of the {n} samples")
    else:
        counts = [int(count) for count in lengths]
    if sum(counts) != n or any(count < 0 for count in counts):
        raise ValueError(f"random_split: Sum of input lengths does not equal the length of the input dataset, {n}: {list(lengths)}")
    order = ops.randperm(n, generator=generator).tolist()
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts)]
