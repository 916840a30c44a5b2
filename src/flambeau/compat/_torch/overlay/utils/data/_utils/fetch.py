"""`torch.utils.data._utils.fetch`: a batch of a dataset, by indices or by the next items."""

from __future__ import annotations

from typing import Any


class _BaseDatasetFetcher:
    """Fetches what a sampler said, and collates it."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = dataset, auto_collation, collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """One batch, or one item where batches are not made."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """By indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """One batch, or one item where batches are not made."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(several(possibly_batched_index) if several else [self.dataset[i] for i in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """By the next items, as many as there are indices."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """One batch, or one item where batches are not made; StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        items: list[Any] = []
        for _ in possibly_batched_index:
            try:
                items.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not items or (self.drop_last and len(items) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(items)
