"""What one task of a loader is: a batch by its indices, or the next one of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Fetch = Callable[[Any, Callable[[], bool]], Any]  # of a task, and of whether nobody waits for it any more


class End:
    """A worker's iterable dataset is exhausted."""


class _MapFetch:
    """Fetches one task (an index, or a list of them) of a map-style dataset."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], batched: bool) -> None:
        self.dataset = dataset
        self.collate = collate
        self.batched = batched

    def __call__(self, task: Any, stopped: Callable[[], bool]) -> Any:
        if not self.batched:
            return self.collate(self.dataset[task])
        if hasattr(self.dataset, "__getitems__") and self.dataset.__getitems__:
            return self.collate(self.dataset.__getitems__(task))
        samples = []
        for index in task:
            if stopped():
                return None
            samples.append(self.dataset[index])
        return self.collate(samples)


class _StreamFetch:
    """Fetches the next batch of an iterable dataset, or `End`."""

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any], batch_size: int | None, drop_last: bool
    ) -> None:
        self.stream = iter(dataset)
        self.collate = collate
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.ended = False

    def __call__(self, task: Any, stopped: Callable[[], bool]) -> Any:
        samples: list[Any] = []
        wanted = 1 if self.batch_size is None else self.batch_size
        while len(samples) < wanted and not self.ended and not stopped():
            try:
                samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
        if not samples or (len(samples) < wanted and self.drop_last):
            return End()
        return self.collate(samples[0] if self.batch_size is None else samples)


@dataclass(frozen=True)
class Recipe:
    """How a loader fetches from a dataset: all that a worker needs to know of the loader."""

    iterable: bool
    collate: Callable[[Any], Any]
    batched: bool
    batch_size: int | None
    drop_last: bool

    def __call__(self, dataset: Any) -> Fetch:
        if self.iterable:
            return _StreamFetch(dataset, self.collate, self.batch_size, self.drop_last)
        return _MapFetch(dataset, self.collate, self.batched)
