"""Samplers: the order in which a DataLoader asks for indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops

T = TypeVar("T", covariant=True)


def draw_seed(generator: Any = None) -> int:
    """A fresh seed from the generator (the default one if None)."""
    return int(ops.randint(0, 2**62, (1,), generator=generator).item())


class Sampler(Generic[T]):
    """Base class; a subclass defines `__iter__` and, if it is known, `__len__`."""

    def __init__(self, data_source: Any = None) -> None:
        super().__init__()  # bases beside this one are initialised, too

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


def size_of(data: Any, who: str) -> int:
    """len(data), or an error that says who wants to know it."""
    try:
        return len(data)
    except TypeError as error:
        if hasattr(data, "__len__"):
            raise  # of its own
        raise TypeError(
            f"{who}: the dataset has no length (object of type '{type(data).__name__}' has no len()); define __len__ in it, or make it an "
            "IterableDataset"
        ) from error


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(size_of(self.data_source, "SequentialSampler")))

    def __len__(self) -> int:
        return size_of(self.data_source, "SequentialSampler")


class RandomSampler(Sampler[int]):
    """A random order, or `num_samples` draws with replacement.

    Raises:
        ValueError: there are no samples, or `num_samples` is not positive.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, but got replacement={replacement}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"RandomSampler: num_samples should be a positive integer value, but got num_samples={num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if self.num_samples <= 0:
            raise ValueError(
                "RandomSampler: num_samples should be a positive integer value, but got num_samples=0, the samples of the dataset; "
                "expected at least one to draw from (or shuffle=False)"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return size_of(self.data_source, "RandomSampler") if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = size_of(self.data_source, "RandomSampler")
        generator = self.generator
        if generator is None:  # one draw from the global stream, whatever the size
            generator = _C.Generator()
            generator.manual_seed(draw_seed())
        left = self.num_samples
        while left > 0 and n > 0:
            if self.replacement:
                count = min(left, 1024)
                order = ops.randint(0, n, (count,), generator=generator).tolist()
            else:
                order = ops.randperm(n, generator=generator).tolist()[:left]
            yield from order
            left -= len(order)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws index i with probability proportional to weights[i].

    Raises:
        ValueError: `num_samples` is not positive, `replacement` no bool, or the weights are not one-dimensional.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(f"WeightedRandomSampler: num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(weights, (Tensor, Iterable)):
            raise ValueError(f"WeightedRandomSampler: weights is a {type(weights).__name__}; expected a sequence of numbers")
        given = weights if isinstance(weights, Tensor) else _C.tensor_from(list(weights), _C.float64)
        self.weights = given.to(_C.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = ops.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups another sampler's indices into lists of `batch_size`.

    >>> from flambeau.utils.data import BatchSampler, SequentialSampler
    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := [*islice(indices, self.batch_size)]:
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
