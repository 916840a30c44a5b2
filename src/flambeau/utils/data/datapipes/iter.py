"""Data pipes that are iterated."""

from __future__ import annotations

import copy
import fnmatch
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from flambeau._warn import warn
from flambeau.utils.data._workers import get_worker_info
from flambeau.utils.data.collate import default_collate
from flambeau.utils.data.datapipes._base import (
    DataChunk,
    IterDataPipe,
    Shuffled,
    check_function,
    check_pipes,
    check_size,
    copied,
    count_of,
    functional_datapipe,
)
from flambeau.utils.data.sampler import SequentialSampler

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker", "Grouper", "IterableWrapper",
    "Mapper", "Multiplexer", "Sampler", "ShardingFilter", "Shuffler", "StreamReader", "UnBatcher", "Zipper",
]  # fmt: skip


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of something iterable, copied for each iteration with `deepcopy`."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copied(self.iterable, self.deepcopy, "IterableWrapper")

    def __len__(self) -> int:
        return count_of(self.iterable, self)


def _picked(fn: Callable[..., Any], columns: Any, row: Any) -> Any:
    if columns is None:
        return fn(row)
    if isinstance(columns, (list, tuple)):
        return fn(*(row[c] for c in columns))
    return fn(row[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """`fn` of each item; of columns of it, whose result goes into the column `output_col`, at the end with -1."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        if output_col is not None and input_col is None:
            raise ValueError("map: output_col without input_col")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError(f"map: output_col = {output_col!r}; expected one column")
            output_col = output_col[0]
        check_function("map", fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply(self, row: Any) -> Any:
        made = _picked(self.fn, self.input_col, row)
        if self.input_col is None:
            return made
        kind = type(row)
        changed = list(row) if kind is tuple else row.copy()
        if self.output_col is None:
            columns = self.input_col if isinstance(self.input_col, (list, tuple)) else [self.input_col]
            changed[columns[0]] = made
            for column in sorted(columns[1:], reverse=True):
                del changed[column]
        elif self.output_col == -1:
            changed.append(made)
        else:
            changed[self.output_col] = made
        return tuple(changed) if kind is tuple else changed

    def __iter__(self) -> Iterator[Any]:
        for row in self.datapipe:
            yield self._apply(row)

    def __len__(self) -> int:
        return count_of(self.datapipe, self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches put together, by `default_collate` or a function of one's own."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Callable[..., Any] | None = None) -> None:
        if isinstance(conversion, dict):
            raise NotImplementedError("collate: conversion is a dict; there are no pipes of data frames")
        super().__init__(datapipe, conversion or collate_fn or default_collate)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items of which `filter_fn`, of one column or several where they are named, says True."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., bool], input_col: Any = None) -> None:
        check_function("filter", filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for row in self.datapipe:
            keep = _picked(self.filter_fn, self.input_col, row)
            if not isinstance(keep, bool):
                raise ValueError(f"filter: the function returned a {type(keep).__name__}; expected True or False")
            if keep:
                yield row


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Batches of items; the last one may be smaller."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk) -> None:
        check_size("batch", "batch_size", batch_size)
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for row in self.datapipe:
            batch.append(row)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        n = count_of(self.datapipe, self)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The items of batches, of `unbatch_level` levels of them; of all with -1."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError(f"unbatch: unbatch_level = {self.unbatch_level}; expected -1 or more")
        for row in self.datapipe:
            yield from self._items(row, self.unbatch_level)

    def _items(self, row: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level == -1 and not isinstance(row, list)):
            yield row
            return
        if not isinstance(row, list):
            raise IndexError(f"unbatch: unbatch_level = {self.unbatch_level} is deeper than the batches, which hold a {type(row).__name__}")
        for item in row:
            yield from self._items(item, -1 if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Items with equal keys together: when a group has `group_size` items, when the buffer is full (the largest group), and at the end."""

    def __init__(
        self, datapipe: Any, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        if guaranteed_group_size is None and group_size is not None:
            guaranteed_group_size = group_size if buffer_size >= group_size else None
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise ValueError(f"groupby: guaranteed_group_size = {guaranteed_group_size}; expected 1 to group_size = {group_size}")
        self.guaranteed_group_size = guaranteed_group_size

    def _shown(self, key: Any, items: list[Any]) -> Any:
        group = DataChunk(items)
        return (key, group) if self.keep_key else group

    def __iter__(self) -> Iterator[Any]:
        held: dict[Any, list[Any]] = defaultdict(list)
        count = 0
        for row in self.datapipe:
            key = self.group_key_fn(row)
            held[key].append(row)
            count += 1
            if self.group_size is not None and len(held[key]) == self.group_size:
                items = held.pop(key)
                count -= len(items)
                yield self._shown(key, items)
            if count == self.max_buffer_size:
                most = max(held, key=lambda k: len(held[k]))
                items = held.pop(most)
                count -= len(items)
                least = self.guaranteed_group_size
                if least is not None and len(items) < least and not self.drop_remaining:
                    raise RuntimeError(f"groupby: the buffer of {self.max_buffer_size} is full, and no group has {least} items")
                if least is None or len(items) >= least:
                    yield self._shown(most, items)
        for key, items in held.items():
            if not self.drop_remaining:
                yield self._shown(key, items)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffled, IterDataPipe):
    """The items in another order, by a buffer of which each item takes a place at random."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        Shuffled.__init__(self)
        check_size("shuffle", "buffer_size", buffer_size)
        self.buffer_size = buffer_size
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        draws, held = self._generator(), list[Any]()
        for row in self.datapipe:
            if len(held) < self.buffer_size:
                held.append(row)
                continue
            at = draws.randint(0, len(held) - 1)
            row, held[at] = held[at], row
            yield row
        while held:
            yield held.pop(draws.randint(0, len(held) - 1))

    def __len__(self) -> int:
        return count_of(self.datapipe, self)


class SamplerIterDataPipe(IterDataPipe):
    """The indices that a sampler gives for a source."""

    def __init__(self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: Any = None, sampler_kwargs: Any = None) -> None:
        self.datapipe = datapipe
        self.sampler = sampler(*(sampler_args or ()), **{"data_source": datapipe, **(sampler_kwargs or {})})

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return count_of(self.sampler, self)


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every n-th item: inside of a worker of a `DataLoader` its share, else what `apply_sharding` says, else all."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        if sharding_group_filter is not None:
            raise NotImplementedError("sharding_filter: sharding_group_filter is given; there is one group, that of a loader's workers")
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Item i goes to the instance i % num_of_instances.

        Raises:
            ValueError: there is no such instance.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"apply_sharding: instance_id = {instance_id}; expected 0 to {num_of_instances - 1}")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def _share(self) -> tuple[int, int]:
        info = get_worker_info()
        if info is None or self.num_of_instances != 1:
            return self.num_of_instances, self.instance_id
        return info.num_workers, info.id

    def __iter__(self) -> Iterator[Any]:
        n, mine = self._share()
        for i, row in enumerate(self.source_datapipe):
            if i % n == mine:
                yield row

    def __len__(self) -> int:
        n, mine = self._share()
        count = count_of(self.source_datapipe, self)
        return count // n + (mine < count % n)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        check_pipes("concat", datapipes, IterDataPipe)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(count_of(pipe, self) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of an item of each pipe, until one of them ends."""

    def __init__(self, *datapipes: Any) -> None:
        if datapipes:
            check_pipes("zip", datapipes, IterDataPipe)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(count_of(pipe, self) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """An item of each pipe in turn, until one of them ends."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for rows in zip(*self.datapipes):
            yield from rows

    def __len__(self) -> int:
        return len(self.datapipes) * min(count_of(pipe, self) for pipe in self.datapipes)


class _Branches:
    """One iteration over a source for several pipes, with what each of them has not taken yet."""

    def __init__(
        self, source: Any, count: int, places: Callable[[Any], Iterable[int]], buffer_size: int, name: str,
        copied_by: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        if buffer_size < 0:
            warn(f"{name}: buffer_size is below 0, so that any number of items may wait for a branch, as long as there is memory")
        self.source, self.count, self.places, self.buffer_size, self.name = source, count, places, buffer_size, name
        self.copied_by = copied_by
        self.rows: Iterator[Any] | None = None
        self.held: list[deque[Any]] = []
        self.begun: set[int] = set()

    def begin(self, branch: int) -> None:
        if self.rows is None or branch in self.begun:  # once more: all branches begin again
            self.rows, self.held, self.begun = iter(self.source), [deque() for _ in range(self.count)], set()
        self.begun.add(branch)

    def take(self, branch: int) -> Any:
        while not self.held[branch]:
            assert self.rows is not None
            row = next(self.rows)  # StopIteration: the branch ends
            for place in self.places(row):
                self.held[place].append(row if self.copied_by is None else self.copied_by(row))
            if self.buffer_size >= 0 and sum(map(len, self.held)) > self.buffer_size:
                raise BufferError(f"{self.name}: more than buffer_size = {self.buffer_size} items wait for a branch; pass -1 for no bound")
        return self.held[branch].popleft()


class _Branch(IterDataPipe):
    def __init__(self, main: _Branches, number: int, has_length: bool) -> None:
        self.main_datapipe, self.instance_id, self._has_length = main, number, has_length

    def __iter__(self) -> Iterator[Any]:
        self.main_datapipe.begin(self.instance_id)
        while True:
            try:
                row = self.main_datapipe.take(self.instance_id)
            except StopIteration:
                return
            yield row

    def __len__(self) -> int:
        if not self._has_length:
            raise TypeError("demux: a branch has no length before its items are told apart")
        return count_of(self.main_datapipe.source, self)


_COPIES: dict[str | None, Callable[[Any], Any] | None] = {None: None, "shallow": copy.copy, "deep": copy.deepcopy}


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several pipes with all items each; what one has taken waits for the others in a buffer.

    They get the same objects, or with `copy` "shallow" or "deep" a copy each. One pipe is the source itself.
    """

    def __new__(cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        check_size("fork", "num_instances", num_instances)
        if copy not in _COPIES:
            raise ValueError(f"fork: copy = {copy!r}; expected None, 'shallow' or 'deep'")
        if num_instances == 1:
            return datapipe
        every = range(num_instances)
        main = _Branches(datapipe, num_instances, lambda row: every, buffer_size * num_instances, "fork", _COPIES[copy])
        return [_Branch(main, i, isinstance(datapipe, Sized)) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes, of which `classifier_fn` chooses one for each item."""

    def __new__(
        cls, datapipe: Any, num_instances: int, classifier_fn: Callable[[Any], int | None], drop_none: bool = False, buffer_size: int = 1000
    ) -> Any:
        check_size("demux", "num_instances", num_instances)

        def places(row: Any) -> Iterable[int]:
            place = classifier_fn(row)
            if place is None and drop_none:
                return ()
            if place is None or not 0 <= place < num_instances:
                raise ValueError(f"demux: classifier_fn returned {place}; expected 0 to {num_instances - 1}")
            return (place,)

        main = _Branches(datapipe, num_instances, places, buffer_size, "demux")
        return [_Branch(main, i, False) for i in range(num_instances)]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """Paths of the files in folders whose names match one of the masks."""

    def __init__(
        self, root: Any = ".", masks: str | list[str] = "", *, recursive: bool = False, abspath: bool = False,
        non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.datapipe = IterableWrapperIterDataPipe([root] if isinstance(root, str) else root)
        self.masks = [masks] if isinstance(masks, str) else masks
        self.recursive, self.abspath, self.length = recursive, abspath, length

    def __iter__(self) -> Iterator[str]:
        for folder in self.datapipe:
            top = os.path.abspath(folder) if self.abspath else folder
            for here, below, files in os.walk(top):
                below.sort()
                for name in sorted(files):
                    if self.masks in ([""], []) or any(fnmatch.fnmatch(name, mask) for mask in self.masks):
                        yield os.path.join(here, name)
                if not self.recursive:
                    break

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError("FileLister has no length before its folders are read")
        return self.length


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """(path, stream) for each path."""

    def __init__(self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"open_files: mode = {mode!r}; expected 'r', 'rt', 'rb', 't' or 'b'")
        if "b" in mode and encoding is not None:
            raise ValueError("open_files: encoding with a binary mode")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode if "r" in mode else f"r{mode}", encoding, length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path in self.datapipe:
            yield path, open(path, self.mode, encoding=self.encoding)  # noqa: SIM115  (who takes it closes it)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError("FileOpener has no length before its paths are known")
        return self.length


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(path, content) of each (path, stream), in pieces of `chunk` where it is given."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            with stream:
                while content := stream.read(self.chunk):
                    yield path, content


IterableWrapper, Mapper, Collator, Filter = IterableWrapperIterDataPipe, MapperIterDataPipe, CollatorIterDataPipe, FilterIterDataPipe
Batcher, UnBatcher, Grouper, Shuffler = BatcherIterDataPipe, UnBatcherIterDataPipe, GrouperIterDataPipe, ShufflerIterDataPipe
Sampler, ShardingFilter, Concater, Zipper = SamplerIterDataPipe, ShardingFilterIterDataPipe, ConcaterIterDataPipe, ZipperIterDataPipe
Multiplexer, Forker, Demultiplexer = MultiplexerIterDataPipe, ForkerIterDataPipe, DemultiplexerIterDataPipe
FileLister, FileOpener, StreamReader = FileListerIterDataPipe, FileOpenerIterDataPipe, StreamReaderIterDataPipe
