"""Data pipes with an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.utils.data.datapipes._base import (
    DataChunk,
    MapDataPipe,
    Shuffled,
    check_function,
    check_pipes,
    check_size,
    copied,
    functional_datapipe,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """The items of a list or dict, copied with `deepcopy`."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copied(sequence, deepcopy, "SequenceWrapper")

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """`fn` of each item."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any]) -> None:
        check_function("map", fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Batches of items; the last one may be smaller."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk) -> None:
        check_size("batch", "batch_size", batch_size)
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"batch: index = {index}; expected 0 to {len(self) - 1}")
        first = index * self.batch_size
        return self.wrapper_class([self.datapipe[i] for i in range(first, min(first + self.batch_size, len(self.datapipe)))])

    def __len__(self) -> int:
        return len(self.datapipe) // self.batch_size if self.drop_last else -(-len(self.datapipe) // self.batch_size)


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        check_pipes("concat", datapipes, MapDataPipe)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        at = index
        for pipe in self.datapipes:
            if at < len(pipe):
                return pipe[at]
            at -= len(pipe)
        raise IndexError(f"concat: index = {index}; expected less than {len(self)}")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of an item of each pipe."""

    def __init__(self, *datapipes: Any) -> None:
        check_pipes("zip", datapipes, MapDataPipe)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if index >= len(self):
            raise IndexError(f"zip: index = {index}; expected less than {len(self)}")
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffled, MapDataPipe):
    """The items in another order; it is iterated, and has no index."""

    def __init__(self, datapipe: Any, *, indices: Sequence[Any] | None = None) -> None:
        Shuffled.__init__(self)
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe)) if indices is None else indices)

    def __iter__(self) -> Iterator[Any]:
        order = list(self.indices)
        if self._enabled:
            draws = self._generator()
            order = draws.sample(order, len(order))[::-1]
        return (self.datapipe[i] for i in order)

    def __len__(self) -> int:
        return len(self.datapipe)


SequenceWrapper, Mapper, Batcher = SequenceWrapperMapDataPipe, MapperMapDataPipe, BatcherMapDataPipe
Concater, Zipper, Shuffler = ConcaterMapDataPipe, ZipperMapDataPipe, ShufflerIterDataPipe
