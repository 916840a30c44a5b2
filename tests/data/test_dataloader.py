"""DataLoader: order, workers, errors, shutdown."""

import gc
import itertools
import threading
import time
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)

WORKERS = [0, 1, 2, 4]


class Squares(Dataset):
    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i * i


class Stream(IterableDataset):
    """Shares its numbers out among the workers."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, self.n, step)


def ours():
    return [t for t in threading.enumerate() if t.name.startswith("flambeau-data")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    late: list[threading.Thread] = []  # what a test has left inside of its dataset
    yield late
    gc.collect()
    for thread in late:
        thread.join(5)
    assert ours() == []


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_order(workers, drop_last):
    loader = DataLoader(Squares(10), batch_size=4, num_workers=workers, drop_last=drop_last)
    want = [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]][: 2 if drop_last else 3]
    assert [b.tolist() for b in loader] == want and len(loader) == len(want)
    assert [b.tolist() for b in loader] == want  # again


def test_shuffle_is_the_same_for_any_number_of_workers():
    def epoch(workers):
        fl.manual_seed(7)
        loader = DataLoader(Squares(50), batch_size=8, shuffle=True, num_workers=workers)
        batches = [b.tolist() for b in loader] + [b.tolist() for b in loader]
        return batches, fl.rand(1).item()  # the stream behind is the same as well

    runs = [epoch(w) for w in WORKERS]
    assert all(run == runs[0] for run in runs)
    first = [x for b in runs[0][0][:7] for x in b]
    assert sorted(first) == [i * i for i in range(50)] and first != sorted(first)


def test_a_generator_decides_the_order():
    def epoch(seed):
        g = fl.Generator()
        g.manual_seed(seed)
        return [b.tolist() for b in DataLoader(Squares(), shuffle=True, generator=g)]

    assert epoch(1) == epoch(1) != epoch(2)


@pytest.mark.parametrize("workers", WORKERS)
def test_iterable_dataset(workers):
    loader = DataLoader(Stream(11), batch_size=2, num_workers=workers)
    seen = sorted(x for batch in loader for x in batch.tolist())
    assert seen == list(range(11))


class Understated(Stream):
    def __len__(self):
        return 2


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("persistent", [False, True])
def test_more_samples_than_an_iterable_dataset_said(workers, persistent):
    loader = DataLoader(Understated(4), batch_size=None, num_workers=workers, persistent_workers=persistent and workers > 0)
    with warnings.catch_warnings():  # nobody asked
        warnings.simplefilter("error")
        assert len(list(loader)) == 4
    assert len(loader) == 2
    for _ in range(2):  # each pass counts anew
        with pytest.warns(UserWarning, match="Understated said that its length is 2, but [34] samples have been fetched") as given:
            assert len(list(loader)) == 4
        assert len([w for w in given if "said that" in str(w.message)]) == 2


def test_iterable_order_goes_round_the_workers():
    loader = DataLoader(Stream(10), batch_size=2, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


@pytest.mark.parametrize("workers", [0, 2])
def test_without_batches(workers):
    assert list(DataLoader(Squares(4), batch_size=None, num_workers=workers)) == [0, 1, 4, 9]
    got = list(DataLoader(Squares(4), batch_sampler=[[0, 3], [1]], num_workers=workers))
    assert [b.tolist() for b in got] == [[0, 9], [1]]


def test_collate_fn_and_getitems():
    class Fast(Squares):
        def __getitems__(self, indices):
            return [("fast", i) for i in indices]

    assert list(DataLoader(Fast(4), batch_size=2, collate_fn=list))[0] == [("fast", 0), ("fast", 1)]


class Broken(Squares):
    def __init__(self, error):
        super().__init__(20)
        self.error = error

    def __getitem__(self, i):
        if i == 9:
            raise self.error
        return i


class Custom(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


@pytest.mark.parametrize(
    "error", [KeyError("nine"), ValueError("nine"), ZeroDivisionError()], ids=repr
)
def test_an_error_in_a_worker_keeps_type_text_and_place(error):
    got = []
    with pytest.raises(type(error)) as caught:
        for batch in DataLoader(Broken(error), batch_size=4, num_workers=2):
            got.append(batch.tolist())
    text = str(caught.value)
    assert "worker" in text and "in __getitem__" in text and "indices [8, 9, 10, 11]" in text
    assert caught.value.__cause__ is error
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]]


def outcomes(batches):
    """What comes of each `next` until the end: a batch, or the type of an error."""
    found = []
    while True:
        try:
            found.append(fl.as_tensor(next(batches)).tolist())
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("size, want", [(None, [*range(9), ValueError, *range(10, 20)]), (4, [[0, 1, 2, 3], [4, 5, 6, 7], ValueError, [12, 13, 14, 15], [16, 17, 18, 19]])])
def test_the_batch_behind_an_error_can_be_had(workers, size, want):
    assert outcomes(iter(DataLoader(Broken(ValueError("nine")), batch_size=size, num_workers=workers))) == want


@pytest.mark.parametrize("workers", WORKERS)
def test_the_batch_behind_an_error_of_collate_can_be_had(workers):
    def collate(batch):
        return fl.tensor(batch) if batch[0] else 1 / 0

    assert outcomes(iter(DataLoader(range(4), batch_size=2, collate_fn=collate, num_workers=workers))) == [ZeroDivisionError, [2, 3]]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_stop_of_the_dataset_ends_a_loop(workers):
    batches = iter(DataLoader(Broken(StopIteration()), batch_size=None, num_workers=workers))
    assert list(batches) == list(range(9)) and next(batches) == 10


def test_an_error_of_a_type_with_other_arguments():
    with pytest.raises(RuntimeError, match="Custom in DataLoader worker") as caught:
        list(DataLoader(Broken(Custom(1, 2)), num_workers=2))
    assert isinstance(caught.value.__cause__, Custom)


def test_errors_in_init_fn_and_collate():
    def fail(*args):
        raise OSError("no disk")

    for options in ({"worker_init_fn": fail}, {"collate_fn": fail}):
        with pytest.raises(OSError, match="no disk"):
            list(DataLoader(Squares(), num_workers=2, **options))


def test_breaking_out_ends_the_threads():
    for i, _ in enumerate(DataLoader(Squares(1000), num_workers=4)):
        assert len(ours()) == 4
        if i == 3:
            break
    gc.collect()
    assert ours() == []


def test_dropping_an_unused_iterator_ends_the_threads():
    it = iter(DataLoader(Squares(1000), num_workers=2))
    del it
    gc.collect()
    assert ours() == []


@pytest.mark.parametrize("begun", [0, 1])
def test_ctrl_c_while_the_threads_begin_leaves_none(monkeypatch, begun):
    start = threading.Thread.start

    def interrupted(thread):
        if thread.name == "flambeau-data-1":
            if begun:
                start(thread)
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        iter(DataLoader(Squares(1000), num_workers=2))
    del caught
    gc.collect()
    assert ours() == []


def test_nothing_is_fetched_far_ahead():
    class Counting(Squares):
        fetched = 0

        def __getitem__(self, i):
            self.fetched += 1
            return i

    data = Counting(1000)
    it = iter(DataLoader(data, batch_size=1, num_workers=2, prefetch_factor=3))
    next(it)
    deadline = time.monotonic() + 5
    while data.fetched < 6 and time.monotonic() < deadline:
        pass
    assert data.fetched == 6
    del it


def test_timeout_names_the_worker_and_its_stack(no_thread_is_left):
    release = threading.Event()

    class Stuck(Squares):
        def __getitem__(self, i):
            release.wait(20)
            return i

    loader = DataLoader(Stuck(), num_workers=1, timeout=0.05)
    it = iter(loader)
    threading.Timer(0.5, release.set).start()
    with pytest.raises(RuntimeError, match="batch 0 did not come within timeout") as caught:
        next(it)
    assert "release.wait(20)" in str(caught.value)
    no_thread_is_left += ours()


def test_who_gives_up_on_a_batch_does_not_wait_for_its_worker(no_thread_is_left):
    left = threading.Event()

    class Slow(Squares):
        def __getitem__(self, i):
            left.wait(3)
            left.set()
            return i

    def first():
        for _ in DataLoader(Slow(), num_workers=1, timeout=0.05):
            pass

    with pytest.raises(RuntimeError, match="batch 0 did not come within timeout"):
        first()
    assert not left.is_set()
    left.set()
    no_thread_is_left += ours()


def test_worker_info():
    class Who(Squares):
        def __getitem__(self, i):
            info = get_worker_info()
            return (info.id, info.num_workers, info.dataset is self)

    assert get_worker_info() is None
    started = []
    loader = DataLoader(
        Who(8), batch_size=None, num_workers=2, worker_init_fn=started.append, collate_fn=tuple
    )
    assert {(n, same) for _, n, same in loader} == {(2, True)}
    assert sorted(started) == [0, 1]


def test_two_iterators_at_once():
    loader = DataLoader(Squares(6), batch_size=2, num_workers=2)
    pairs = [(a.tolist(), b.tolist()) for a, b in zip(loader, loader)]
    assert all(a == b for a, b in pairs) and len(pairs) == 3


def test_tensors_come_out_stacked():
    data = TensorDataset(fl.arange(6).reshape(3, 2), fl.arange(3))
    x, y = next(iter(DataLoader(data, batch_size=3)))
    assert x.shape == (3, 2) and y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "options, text",
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"),
        ({"batch_size": 0}, "batch_size should be a positive integer value"),
        ({"batch_size": None, "drop_last": True}, "drop_last"),
        ({"shuffle": True, "sampler": [1]}, "shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler"),
        ({"multiprocessing_context": "fork"}, "needs num_workers > 0"),
        ({"multiprocessing_context": "threads", "num_workers": 1}, "'threads'; expected one of"),
    ],
    ids=str,
)
def test_options_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(Squares(), **options)


def test_an_iterable_dataset_takes_no_sampler():
    with pytest.raises(ValueError, match="sets its own order"):
        DataLoader(Stream(3), shuffle=True)


class Missing(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return {"there": 1}["the key"]


def test_a_key_error_of_a_worker_can_be_read():
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Missing(), num_workers=1))
    text = str(caught.value)
    assert "KeyError in DataLoader worker 0 of 1, batch indices [0]\nTraceback" in text and "\\n" not in text


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_has_a_length(workers):
    loader = DataLoader(Squares(10), batch_size=4, num_workers=workers)
    batches = iter(loader)
    assert len(batches) == 3 and iter(batches) is batches
    assert len(list(batches)) == 3
    del batches
    with pytest.raises(TypeError):
        len(iter(DataLoader(Stream(3))))


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"])
def test_what_batches_are_made_by_is_fixed(name):
    loader = DataLoader(fl.utils.data.TensorDataset(fl.arange(4)), batch_size=2)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, 4)
    loader.num_workers = 1  # is asked for anew by each pass
    assert [len(batch) for (batch,) in loader] == [2, 2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_subclass_puts_another_sampler_in_place(num_workers):
    """As loaders do that keep their workers over all epochs: the flag has the name that it has in PyTorch's."""

    class Twice(DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = list(self.batch_sampler) * 2
            self._DataLoader__initialized = True

    loader = Twice(fl.utils.data.TensorDataset(fl.arange(4)), batch_size=2, num_workers=num_workers)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1], [2, 3], [0, 1], [2, 3]]
    with pytest.raises(ValueError, match="batch_sampler attribute should not be set after DataLoader is initialized"):
        loader.batch_sampler = None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_subclass_has_datasets_read_a_batch_at_once(num_workers):
    class Rows(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return [10 * i for i in index]

    class AtOnce(DataLoader):
        def __iter__(self):
            self.begun, self.collate_fn = True, tuple
            return super().__iter__()

        @property
        def _auto_collation(self):
            return not hasattr(self, "begun") and super()._auto_collation

        @property
        def _index_sampler(self):
            return self.batch_sampler

    loader = AtOnce(Rows(), batch_size=2, num_workers=num_workers)
    assert list(loader) == [(0, 10), (20, 30), (40,)]
    assert len(loader) == 3


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_begin_with_the_pass(num_workers):
    """The order is drawn by `iter`: what is seeded or drawn afterwards has no part in it."""
    loader = DataLoader(fl.utils.data.TensorDataset(fl.arange(8)), batch_size=4, shuffle=True, num_workers=num_workers)
    orders = []
    for later in (None, 5):
        fl.manual_seed(1)
        batches = iter(loader)
        if later is not None:
            fl.manual_seed(later)
        before = fl.get_rng_state()
        orders.append([batch.tolist() for (batch,) in batches])
        assert fl.equal(fl.get_rng_state(), before)
    assert orders[0] == orders[1]


def test_a_samplers_error_comes_with_the_pass():
    def broken():
        raise LookupError("no order")
        yield

    class Sampler:
        def __iter__(self):
            return broken()

    loader = DataLoader(fl.utils.data.TensorDataset(fl.arange(8)), sampler=Sampler(), num_workers=2)
    with pytest.raises(LookupError, match="no order"):
        iter(loader)


class Kept:
    """A dataset that is as it is: what each test adds is how it would be copied."""

    def __init__(self, n):
        self.inner = list(range(n))

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, i):
        return self.inner[i], getattr(get_worker_info().dataset, "mark", None)


class Delegating(Kept):
    def __getattr__(self, name):
        return getattr(self.inner, name)


class NotPickled(Kept):
    def __reduce_ex__(self, protocol):
        raise TypeError("holds an open file")


class Slotted(Kept):
    __slots__ = ("other",)

    def __init__(self, n):
        super().__init__(n)
        self.other = n

    def __len__(self):
        return self.other


class OnlySlots:
    __slots__ = ("mark", "n")

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i, get_worker_info().dataset.mark


class OwnCopy(Kept):
    def __copy__(self):
        made = OwnCopy(0)
        made.inner = self.inner
        return made


def mark(worker):
    get_worker_info().dataset.mark = worker


@pytest.mark.parametrize("kind", [Kept, Delegating, NotPickled, Slotted, OnlySlots, OwnCopy])
def test_workers_have_a_dataset_object_of_their_own(kind):
    dataset = kind(8)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, worker_init_fn=mark, collate_fn=tuple)
    assert list(loader) == [(i, i % 2) for i in range(8)]
    assert "mark" not in getattr(dataset, "__dict__", {})


class Closing(Kept):
    closed = False

    def __del__(self):
        self.inner.clear()


class BrokenCopy(Kept):
    def __copy__(self):
        raise RuntimeError("no copies")


class OwnMemory(list):
    def __copy__(self):
        raise AssertionError("its samples would be copied")


@pytest.mark.parametrize("make", [Closing, BrokenCopy, lambda n: OwnMemory(range(n)), lambda n: list(range(n)), fl.arange, np.arange])
def test_a_dataset_that_has_no_copies_is_shared(make):
    dataset, seen = make(8), []
    loader = DataLoader(dataset, batch_size=None, num_workers=2, worker_init_fn=lambda _: seen.append(get_worker_info().dataset), collate_fn=lambda x: x)
    for _ in range(2):
        assert len(list(loader)) == 8
    assert len(seen) == 4 and all(each is dataset for each in seen)


def test_memory_is_not_pinned_and_a_warning_says_so():
    loader = DataLoader([1, 2], pin_memory=True)
    with pytest.warns(UserWarning, match="pin_memory = True, but there is no accelerator"):
        assert [x.tolist() for x in loader] == [[1], [2]]


def test_a_loader_of_a_stream_has_samplers_that_give_none():
    """Frameworks look at them, and put their own in place."""
    loader = DataLoader(Stream(3), batch_size=2)
    assert list(itertools.islice(loader.sampler, 2)) == [None, None]
    assert (type(loader.batch_sampler), loader.batch_sampler.batch_size, loader.batch_sampler.sampler) == (BatchSampler, 2, loader.sampler)
    assert next(iter(loader.batch_sampler)) == [None, None]
    assert DataLoader(Stream(3), batch_size=None).batch_sampler is None
    assert len(list(loader)) == 2


class Passes(IterableDataset):
    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        yield self.passes


@pytest.mark.parametrize(("persistent", "passes"), [(False, [[1, 1]] * 3), (True, [[1, 1], [2, 2], [3, 3]])])
def test_persistent_workers_keep_their_copies_of_the_dataset(persistent, passes):
    dataset = Passes()
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
    assert [list(loader) for _ in range(3)] == passes and dataset.passes == 0


@pytest.mark.parametrize(("persistent", "calls"), [(False, [0, 0, 1, 1]), (True, [0, 1])])
def test_persistent_workers_are_initialised_once(persistent, calls):
    seen = []

    def mark(worker):
        seen.append(worker)
        get_worker_info().dataset.mark = worker

    class Marked(Passes):
        def __iter__(self):
            yield self.mark

    loader = DataLoader(Marked(), batch_size=None, num_workers=2, persistent_workers=persistent, worker_init_fn=mark)
    assert [sorted(loader) for _ in range(2)] == [[0, 1], [0, 1]] and sorted(seen) == calls


def test_persistent_workers_have_one_iterator():
    loader = DataLoader(Squares(8), batch_size=2, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    for _ in range(2):
        assert iter(loader) is batches and len(ours()) == 2 and len(batches) == 4
        assert [x.tolist() for x in batches] == [[0, 1], [4, 9], [16, 25], [36, 49]]
    assert iter(DataLoader(Squares(8), num_workers=2)) is not batches
    assert iter(loader) is batches and ours()
    del loader
    assert ours() and next(batches).tolist() == [0, 1]
    del batches
    assert ours() == []


def test_a_persistent_worker_whose_beginning_failed_begins_again():
    fails = [True]

    def init(worker):
        if fails:
            fails.clear()
            raise OSError("not yet")

    loader = DataLoader(Passes(), batch_size=None, num_workers=1, persistent_workers=True, worker_init_fn=init)
    with pytest.raises(OSError, match="not yet"):
        list(loader)
    assert list(loader) == [1] and list(loader) == [2]
