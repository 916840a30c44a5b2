"""`DistributedSampler`: each of several processes gets its share of the indices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from flambeau import _C
from flambeau._C import ops
from flambeau.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, in an order that all replicas agree on.

    The shares have one length: the indices are filled up from their beginning, or with `drop_last`
    cut. Call `set_epoch` before each epoch, or every epoch has the same order.

    Raises:
        ValueError: `num_replicas` and `rank` are not given (there is no process group to ask), or
            do not fit.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ValueError(
                f"DistributedSampler: num_replicas = {num_replicas}, rank = {rank}; expected both: "
                "Default process group has not been initialized, and cannot be here"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = _C.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = ops.randperm(n, generator=generator).tolist()
        else:
            order = list(range(n))
        if order and len(order) < self.total_size:
            order = (order * math.ceil(self.total_size / len(order)))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass draw its own order, the same in all replicas."""
        self.epoch = epoch
