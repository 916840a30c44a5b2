"""`torch.utils.data.dataloader`: classes of iterators, which packages compare with."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from flambeau.utils.data.dataloader import _Iterator, _Pass

# What annotations of programs name.
_collate_fn_t = Callable[[list[Any]], Any]


class _BaseDataLoaderIter(abc.ABC):  # noqa: B024
    """One pass over a DataLoader, with workers or without."""


_BaseDataLoaderIter.register(_Iterator)
_BaseDataLoaderIter.register(_Pass)
_SingleProcessDataLoaderIter = _Pass


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """The class of iterators whose workers are processes; workers are threads here, and nothing is one."""
