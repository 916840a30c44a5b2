"""`torch.utils.data.dataloader`: classes of iterators, which packages compare with, and make for loaders of their own."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from flambeau._C import Generator
from flambeau.compat._torch.overlay.utils.data._utils.fetch import (
    _IterableDatasetFetcher,
    _MapDatasetFetcher,
)
from flambeau.utils.data import IterDataPipe, MapDataPipe
from flambeau.utils.data import get_worker_info as get_worker_info
from flambeau.utils.data.dataloader import _Iterator, _Pass
from flambeau.utils.data.datapipes._base import draw_seed
from flambeau.utils.data.graph_settings import apply_random_seed, apply_sharding

# What annotations of programs name.
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


def _sharding_worker_init_fn(worker_init_fn: _worker_init_fn_t | None, world_size: int, rank_id: int, worker_id: int) -> None:
    """Gives a worker its share of a pipe, then calls what the program wants called."""
    info = get_worker_info()
    if info is None or not isinstance(info.dataset, (IterDataPipe, MapDataPipe)):
        raise AssertionError("_sharding_worker_init_fn: expected to be called in a worker whose dataset is a data pipe")
    apply_sharding(info.dataset, info.num_workers * world_size, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _DatasetKind:
    """Whether a dataset is asked by index or gone through."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
        """What fetches batches of such a dataset."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class _BaseDataLoaderIter(abc.ABC):
    """One pass over a loader, with workers or without. What a loader is asked for are PyTorch's private names of a DataLoader's parts."""

    def __init__(self, loader: Any) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._collate_fn, self._drop_last = loader._auto_collation, loader.collate_fn, loader.drop_last
        self._index_sampler, self._num_workers, self._timeout = loader._index_sampler, loader.num_workers, loader.timeout
        self._persistent_workers = getattr(loader, "persistent_workers", False)
        self._IterableDataset_len_called = getattr(loader, "_IterableDataset_len_called", None)
        self._pin_memory, self._pin_memory_device = False, None  # there is no accelerator
        self._world_size, self._rank, self._pg = 1, 0, None
        self._shared_seed: int | None = None
        self._share_seed(loader)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(getattr(loader, "generator", None))
        self._num_yielded = 0

    def _share_seed(self, loader: Any) -> None:
        """One order of a pipe for all workers."""
        if isinstance(self._dataset, IterDataPipe):
            self._shared_seed = draw_seed(getattr(loader, "generator", None))
            self._dataset = apply_random_seed(self._dataset, Generator().manual_seed(self._shared_seed))

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins a pass anew, where workers stay from pass to pass."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._share_seed(loader)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    @abc.abstractmethod
    def _next_data(self) -> Any: ...

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass without workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if loader.num_workers or loader.timeout:
            raise AssertionError(f"num_workers = {loader.num_workers} and timeout = {loader.timeout}; expected 0 and 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


_BaseDataLoaderIter.register(_Iterator)
_SingleProcessDataLoaderIter.register(_Pass)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """The class of PyTorch's iterators with workers; those of `DataLoader` here are none, be their workers threads or processes."""

    def __init__(self, loader: Any) -> None:
        raise NotImplementedError(
            f"{type(loader).__name__}: num_workers = {loader.num_workers}, but only DataLoader has workers here; set num_workers to 0"
        )

    def _next_data(self) -> Any:
        raise NotImplementedError
