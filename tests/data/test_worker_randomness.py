"""Random numbers that a dataset draws."""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau import _warn
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


class Global(Dataset):
    def __init__(self, draw):
        self.draw = draw

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.draw()


@pytest.fixture
def not_warned(monkeypatch):
    monkeypatch.setattr(_warn, "_given", set())


@pytest.mark.parametrize(
    "draw, which", [(random.random, "Python's `random`"), (np.random.rand, "NumPy's global generator")], ids=["random", "numpy"]
)
def test_draws_from_generators_that_threads_share_are_warned_of_once(not_warned, draw, which):
    with pytest.warns(UserWarning, match=f"draws from {which}, which worker threads share.*multiprocessing_context=\"spawn\"") as caught:
        for _ in range(2):
            list(DataLoader(Global(draw), num_workers=2))
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize(
    "draw, options",
    [(random.random, {}), (np.random.rand, {"num_workers": 1}), (lambda: fl.rand(()), {"num_workers": 2}),
     (random.random, {"num_workers": 2, "multiprocessing_context": "fork"})],
    ids=["no workers", "one", "flambeau's", "processes"],
)  # fmt: skip
def test_other_draws_are_not_warned_of(not_warned, draw, options):
    random.random()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(DataLoader(Global(draw), **options))


def test_batches_go_to_workers_in_turn():
    class Ids(Noisy):
        def __getitem__(self, i):
            time.sleep(0.002 * (i % 4))
            info = fl.utils.data.get_worker_info()
            return fl.tensor([info.id, info.num_workers, info.seed - info.base_seed])

    for _ in range(2):
        found = [batch[0].tolist() for batch in DataLoader(Ids(), batch_size=2, num_workers=3)]
        assert found == [[k % 3, 3, k % 3] for k in range(12)]
