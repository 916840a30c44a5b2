"""`DataLoader`: batches from a dataset, fetched ahead by threads or processes if asked.

Workers are threads: what the dataset holds is shared, not pickled. The order and the data, random draws
of the dataset included, are the same for any number of workers. See `_workers.py` for how they work, and
`_processes.py` for workers that are processes, where a `multiprocessing_context` asks for them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flambeau._warn import warn
from flambeau.utils.data._fetch import End, Recipe
from flambeau.utils.data._workers import (
    OwnRandomness,
    WorkerError,
    WorkerPool,
    Workers,
    iterate_in_worker_order,
)
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.datapipes._base import IterDataPipe, MapDataPipe
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.graph_settings import (
    apply_random_seed,
    apply_shuffle_settings,
    shuffle_seeds,
)
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

T = TypeVar("T", covariant=True)

if TYPE_CHECKING:
    import numpy as np

    from flambeau._C import Tensor
    from flambeau.utils.data.dataset import Dataset

    Leaf = Tensor | float | np.ndarray[Any, Any]  # what becomes a tensor in a batch

# What batches are made by: an assignment after the fact would not reach the sampler that was made of it.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler(Sampler[None]):
    """None without end: what a loader of an IterableDataset has as its `sampler`. Frameworks ask for it under this name."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T]):
    """Iterates over batches of a dataset.

    `num_workers` threads fetch `prefetch_factor` batches each ahead. An exception in a worker comes
    out of the iteration with its own type and the worker's traceback in its text, and the iterator can be
    asked for the batch behind it, with workers or without. `timeout`
    (seconds) bounds the wait for a batch. `pin_memory`, `pin_memory_device` and `in_order` are accepted
    without effect: on a CPU there is nothing to pin, and batches always come in order.

    Workers are threads, unless `multiprocessing_context` says how to start processes: "spawn", "forkserver",
    "fork" (only where it is asked for), or a context of multiprocessing. Threads start at once and copy
    nothing; they suit code that releases the GIL (decoding, array work) or waits. Processes run Python
    code of datasets in parallel, and each has a copy of the dataset, which is pickled for all but "fork".

    * Draws from flambeau's generator: with threads each batch has a seed, so that the numbers are the same for any
      number of workers. Processes have a seed each, `get_worker_info().seed`.
    * Draws from `random` and NumPy's global generator: threads share these with the program, so that samples are not
      reproducible with several workers, which a warning says. Processes have seeds for them, too.
    * Batches of threads are handed over. Tensors of more than 64 KiB come from a process in shared memory, which goes
      with them; smaller ones, arrays and other things are pickled.
    * A crash in compiled code ends the program with threads. A process that dies is a RuntimeError which names it.
    * `lambda`s, open files and locks in a dataset are refused by name, where they would have to be pickled.

    With threads, an iterable dataset, and any dataset beside a `worker_init_fn`, is copied for each worker: not
    what it holds, but the object (by its class's `__copy__`, if there is one), so that what
    `worker_init_fn` writes to `get_worker_info().dataset` is that worker's. What can not be copied
    so, a tensor or a list for example, is shared. `persistent_workers` keeps these copies for the next
    passes, and `worker_init_fn` is called once for each; the threads cost too little to be kept. Processes are
    kept with all that they have, and serve one pass at a time. The iterator is kept, too: `iter` has it begin anew.

    Raises:
        ValueError: options that exclude each other or are out of range, or an assignment to one of
            batch_size, batch_sampler, sampler, drop_last, dataset, persistent_workers later; a
            `multiprocessing_context` without workers, or one that is not known.
        PicklingError: when a pass begins, that something can not be pickled for worker processes.
        RuntimeError: a worker process died, or a batch did not come within `timeout`.

    >>> import flambeau as fl
    >>> data = fl.utils.data.TensorDataset(fl.arange(5))
    >>> [batch.tolist() for (batch,) in fl.utils.data.DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    >>> loader = fl.utils.data.DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="fork")
    >>> [batch.tolist() for (batch,) in loader]
    [[0, 1], [2, 3], [4]]
    """

    # Subclasses that put another sampler in place set this to False meanwhile, by its mangled name, as they do with PyTorch's.
    __initialized = False

    @overload
    def __init__(
        self: DataLoader[T],
        dataset: Dataset[T],
        batch_size: int | None = ...,
        shuffle: bool | None = ...,
        sampler: Any = ...,
        batch_sampler: Any = ...,
        num_workers: int = ...,
        collate_fn: None = ...,
        pin_memory: bool = ...,
        drop_last: bool = ...,
        timeout: float = ...,
        worker_init_fn: Callable[[int], Any] | None = ...,
        multiprocessing_context: Any = ...,
        generator: Any = ...,
        *,
        prefetch_factor: int | None = ...,
        persistent_workers: bool = ...,
        pin_memory_device: str = ...,
        in_order: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: DataLoader[Any],
        dataset: Any,
        batch_size: int | None = ...,
        shuffle: bool | None = ...,
        sampler: Any = ...,
        batch_sampler: Any = ...,
        num_workers: int = ...,
        collate_fn: Callable[[Any], Any] | None = ...,
        pin_memory: bool = ...,
        drop_last: bool = ...,
        timeout: float = ...,
        worker_init_fn: Callable[[int], Any] | None = ...,
        multiprocessing_context: Any = ...,
        generator: Any = ...,
        *,
        prefetch_factor: int | None = ...,
        persistent_workers: bool = ...,
        pin_memory_device: str = ...,
        in_order: bool = ...,
    ) -> None: ...

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check(num_workers, timeout, prefetch_factor, persistent_workers)
        self._fl_iterable = isinstance(dataset, IterableDataset)
        self._IterableDataset_len_called: int | None = None  # what an IterableDataset said its length is, once it was asked
        self._dataset_kind = int(self._fl_iterable)  # frameworks ask under this name; loaders of packages write it
        self._fl_pipes = isinstance(dataset, (IterDataPipe, MapDataPipe))
        if isinstance(dataset, IterDataPipe):
            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        if self._fl_iterable:
            if shuffle or sampler is not None or batch_sampler is not None:
                given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
                what = next(name for name, value in given.items() if value is not None)
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {what} option, but got {what}={given[what]!r}; "
                    "the dataset sets its own order"
                )
        elif sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle; the sampler sets the order")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        elif batch_size is not None and (not isinstance(batch_size, int) or batch_size <= 0):
            raise ValueError(
                f"DataLoader: batch_size should be a positive integer value, but got batch_size={batch_size} "
                "(None: no batches)"
            )
        self.dataset = dataset
        self.num_workers = num_workers
        self.check_worker_number_rationality()
        self.prefetch_factor = (prefetch_factor or 2) if num_workers > 0 else prefetch_factor
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._fl_kept: dict[int, Any] | None = {} if persistent_workers else None  # threads' copies of the dataset
        self._fl_pool: Any = None  # processes that stay
        self._iterator: Any = None  # of persistent workers; frameworks ask for it under this name, and drop it
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        self.pin_memory_device = pin_memory_device
        self.batch_size = batch_size
        self.drop_last = drop_last
        if self._fl_iterable:
            sampler = _InfiniteConstantSampler()
        elif sampler is None:
            sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        self.sampler: Any = sampler
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.__initialized = True

    def check_worker_number_rationality(self) -> None:
        """Warns where there are more workers than processors."""
        if self.num_workers and self.num_workers > (most := _processors()):
            warn(
                f"This DataLoader will create {self.num_workers} workers in total. Our suggested max number of worker in current system is "
                f"{most}, as many as there are processors for this process; more of them take turns"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__initialized:
            raise ValueError(f"DataLoader: {name} attribute should not be set after DataLoader is initialized; make another loader")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are put together; frameworks ask under this name, and subclasses answer otherwise for a pass."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What tasks come from; frameworks ask under this name, and subclasses put another in place."""
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts worker processes; None for threads. May be given by its name, and for later passes."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self.__multiprocessing_context = None if context is None else _context(context, self.num_workers)

    def _fl_recipe(self) -> Recipe:
        batched = self._auto_collation
        return Recipe(self._fl_iterable, self.collate_fn, batched, self.batch_size if batched else None, self.drop_last)

    def _fl_workers(self, seed: int) -> Workers:
        """Of one pass."""
        timeout = float(self.timeout)
        if self.multiprocessing_context is None:
            own = self._fl_iterable or self.worker_init_fn is not None
            return WorkerPool(self.num_workers, self.dataset, seed, self.worker_init_fn, self._fl_recipe(), timeout, own, self._fl_kept)
        from flambeau.utils.data._processes import ProcessPool

        pool: ProcessPool | None = self._fl_pool
        if pool is None or not pool.usable or pool.n != self.num_workers:
            pool = ProcessPool(
                self.multiprocessing_context, self.num_workers, self.dataset, seed, self.worker_init_fn, self._fl_recipe(), timeout,
                self.persistent_workers,
            )  # fmt: skip
            self._fl_pool = pool if self.persistent_workers else None
        return pool.begin(shuffle_seeds(self.dataset) if self._fl_pipes else None)

    def _fl_tasks(self) -> Iterator[Any] | None:
        if self._fl_iterable:
            return None
        tasks: Iterator[Any] = iter(self._index_sampler)
        return tasks

    @overload
    def __iter__(self: DataLoader[Leaf]) -> Iterator[Tensor]: ...

    @overload
    def __iter__(self: DataLoader[tuple[Leaf, Leaf]]) -> Iterator[tuple[Tensor, Tensor]]: ...

    @overload
    def __iter__(self: DataLoader[tuple[Leaf, Leaf, Leaf]]) -> Iterator[tuple[Tensor, Tensor, Tensor]]: ...

    @overload
    def __iter__(self: DataLoader[tuple[Leaf, ...]]) -> Iterator[tuple[Tensor, ...]]: ...

    @overload
    def __iter__(self: DataLoader[dict[str, Tensor]]) -> Iterator[dict[str, Tensor]]: ...

    @overload
    def __iter__(self) -> Iterator[Any]: ...

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()  # type: ignore[no-any-return]
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator  # type: ignore[no-any-return]

    def _get_iterator(self) -> Any:
        """One pass: what `__iter__` returns, for classes that wrap it."""
        seed = self._fl_begin()
        if self._IterableDataset_len_called is None and not (self._fl_iterable and self.persistent_workers):  # which may be asked yet
            return _Pass(self, seed) if self.num_workers == 0 else _Iterator(self, seed)
        return _CountedPass(self, seed) if self.num_workers == 0 else _CountedIterator(self, seed)

    def _fl_begin(self) -> int:
        """The seed of a pass, drawn for any number of workers, so that the random stream does not depend on it."""
        seed = draw_seed(self.generator)
        if self.pin_memory:
            warn("DataLoader: pin_memory = True, but there is no accelerator, so that memory is not pinned")
        if self._fl_pipes:
            apply_random_seed(self.dataset, self.generator)  # one order for all workers, of which each takes its share
        return seed

    def __len__(self) -> int:
        if self._fl_iterable:
            n = self._IterableDataset_len_called = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self._index_sampler)


def _never() -> bool:
    return False


class _Pass:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self._index_sampler = loader._index_sampler
        self._fetch, self._tasks = loader._fl_recipe()(loader.dataset), loader._fl_tasks()
        self._seed, self._numbers = seed, itertools.count()

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        task = None if self._tasks is None else next(self._tasks)
        with OwnRandomness(self._seed, next(self._numbers)):
            batch = self._fetch(task, _never)
        if isinstance(batch, End):
            raise StopIteration
        return batch

    def __len__(self) -> int:
        return len(self._index_sampler)


class _Iterator:
    """A pass with workers, or one after the other where these are persistent; dropping it ends them.

    It does not refer to the loader, which keeps it where workers are persistent, so that both go at once.
    """

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self._index_sampler = loader._index_sampler
        self._begin(loader, seed)

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Gives up what is under way, and begins the next pass."""
        self._pool.close()
        self._begin(loader, loader._fl_begin())

    def _begin(self, loader: DataLoader[Any], seed: int) -> None:
        self._pool = loader._fl_workers(seed)
        ahead = loader.num_workers * (loader.prefetch_factor or 2)
        try:
            self._results = iterate_in_worker_order(self._pool, loader._fl_tasks(), ahead)
        except BaseException:  # a sampler's
            self._pool.close()
            raise

    def __iter__(self) -> _Iterator:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        try:
            result = next(self._results)
        except BaseException:
            self._pool.close()
            raise
        if isinstance(result, WorkerError):
            result.reraise()
        return result


class _Count:
    """What an IterableDataset said its length is, beside how much a pass has given."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.said, self.given, self.kind = loader._IterableDataset_len_called, 0, type(loader.dataset).__name__

    def add(self) -> None:
        self.given += 1
        if self.said is not None and self.given > self.said:
            warn(
                f"DataLoader: {self.kind} said that its length is {self.said}, but {self.given} samples have been fetched; with workers, "
                "each of them reads the whole of it unless it takes its share (get_worker_info)"
            )


class _CountedPass(_Pass):
    """A pass of a loader that was asked for the length of its IterableDataset."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        super().__init__(loader, seed)
        self._count = _Count(loader)

    def __next__(self) -> Any:
        batch = super().__next__()
        self._count.add()
        return batch


class _CountedIterator(_Iterator):
    """The same with workers."""

    def _begin(self, loader: DataLoader[Any], seed: int) -> None:
        super()._begin(loader, seed)
        self._count = _Count(loader)

    def __next__(self) -> Any:
        batch = super().__next__()
        self._count.add()
        return batch


def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check(num_workers: Any, timeout: Any, prefetch: Any, persistent: bool) -> None:
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 0:
        raise ValueError(
            f"DataLoader: num_workers option should be non-negative, an int: {num_workers!r}; use num_workers=0 to disable multiprocessing"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise TypeError(f"DataLoader: timeout = {timeout!r} is a {type(timeout).__name__}; expected seconds >= 0")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, in seconds, got {timeout}")
    if prefetch is not None and (num_workers == 0 or prefetch <= 0):
        what = "could only be specified in multiprocessing" if num_workers == 0 else "should be non-negative, and not 0"
        raise ValueError(
            f"DataLoader: prefetch_factor option {what}: prefetch_factor = {prefetch} with num_workers = {num_workers}; "
            "expected a positive int and num_workers > 0"
        )
    if persistent and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")


def _context(context: Any, num_workers: int) -> Any:
    """A context of multiprocessing, by its name or as it is."""
    import multiprocessing
    from multiprocessing.context import BaseContext

    if num_workers == 0:
        raise ValueError(f"DataLoader: multiprocessing_context = {context!r} needs num_workers > 0, but num_workers = 0")
    if isinstance(context, str):
        named = multiprocessing.get_all_start_methods()
        if context not in named:
            raise ValueError(f"DataLoader: multiprocessing_context = {context!r}; expected one of {named}")
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        kind = type(context).__name__
        raise TypeError(f"DataLoader: multiprocessing_context is a {kind}; expected a name or a context of multiprocessing")
    return context
