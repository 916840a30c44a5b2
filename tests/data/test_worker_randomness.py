"""Random numbers that a dataset draws."""

from __future__ import annotations

import time

import pytest

import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset, IterableDataset


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        time.sleep(0.0005 * (i % 3))
        return fl.randn(3)


class NoisyStream(IterableDataset):
    def __iter__(self):
        for _ in range(5):
            yield fl.rand(2)


def run(dataset, workers):
    """Batches, and what the program itself draws between them."""
    fl.manual_seed(3)
    return [(b.tolist(), fl.rand(2).tolist()) for b in DataLoader(dataset, batch_size=2, num_workers=workers)]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_samples_and_the_programs_draws_do_not_depend_on_workers(workers):
    assert run(Noisy(), workers) == run(Noisy(), 0)


def test_a_stream_is_reproducible():
    assert run(NoisyStream(), 2) == run(NoisyStream(), 2)
    assert run(NoisyStream(), 1) == run(NoisyStream(), 0)


def test_passes_differ():
    loader = DataLoader(Noisy(), batch_size=4)
    first, second = ([b.tolist() for b in loader] for _ in range(2))
    assert first != second


def test_every_worker_has_a_seed_of_its_own():
    fl.manual_seed(0)
    seeds = {}

    def init(worker):
        seeds[worker] = fl.initial_seed()

    list(DataLoader(Noisy(), batch_size=4, num_workers=3, worker_init_fn=init))
    assert len(set(seeds.values())) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_the_seed_of_a_fetch_fits_into_a_tensor(workers):
    class Seeds(Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            return fl.initial_seed()

    fl.manual_seed(0)  # 16 seeds of 64 bits would all but surely have one above 2**63
    assert all(seed.dtype == fl.int64 and seed.min() >= 0 for seed in DataLoader(Seeds(), num_workers=workers))
