"""Data pipes: steps over samples, several pipes of one, shares of workers."""

import pickle
import types

import pytest

import flambeau as fl
from flambeau.utils.data import DataLoader, IterDataPipe, functional_datapipe
from flambeau.utils.data.datapipes import iter as pipes
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.graph import traverse_dps


def ten():
    return pipes.IterableWrapper(range(10))


def even(x):
    return x % 2


STEPS = {
    "map": (lambda: ten().map(lambda x: 2 * x), list(range(0, 20, 2))),
    "a column": (lambda: pipes.IterableWrapper([(1, 2), (3, 4)]).map(lambda a: a + 10, input_col=1), [(1, 12), (3, 14)]),
    "columns": (lambda: pipes.IterableWrapper([(1, 2), (3, 4)]).map(lambda a, b: a + b, input_col=[0, 1]), [(3,), (7,)]),
    "a column at the end": (lambda: pipes.IterableWrapper([(1, 2)]).map(lambda a, b: a + b, input_col=[0, 1], output_col=-1), [(1, 2, 3)]),
    "a key": (lambda: pipes.IterableWrapper([{"a": 1}]).map(lambda a: a + 10, input_col="a", output_col="b"), [{"a": 1, "b": 11}]),
    "filter": (lambda: ten().filter(lambda x: x > 7), [8, 9]),
    "batch": (lambda: ten().batch(4), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
    "batches that are full": (lambda: ten().batch(4, drop_last=True), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "unbatch": (lambda: ten().batch(2).batch(2).unbatch(unbatch_level=2), list(range(10))),
    "unbatch all": (lambda: ten().batch(2).batch(2).unbatch(unbatch_level=-1), list(range(10))),
    "concat": (lambda: ten().concat(pipes.IterableWrapper([1])), [*range(10), 1]),
    "zip": (lambda: ten().zip(pipes.IterableWrapper("ab")), [(0, "a"), (1, "b")]),
    "mux": (lambda: ten().mux(pipes.IterableWrapper("ab")), [0, "a", 1, "b"]),
    "groups": (lambda: pipes.IterableWrapper(["a1", "b1", "b2", "a2"]).groupby(lambda x: x[0]), [["a1", "a2"], ["b1", "b2"]]),
    "groups of a size": (lambda: pipes.IterableWrapper(["a1", "b1", "b2", "a2", "c1"]).groupby(lambda x: x[0], buffer_size=3, group_size=2), [["b1", "b2"], ["a1", "a2"], ["c1"]]),
    "groups with keys": (lambda: ten().groupby(lambda x: x % 3, keep_key=True, buffer_size=4), [(0, [0, 3]), (1, [1, 4]), (2, [2, 5]), (0, [6, 9]), (1, [7]), (2, [8])]),
    "shuffle": (lambda: ten().shuffle().set_seed(3), [3, 9, 2, 4, 7, 6, 0, 8, 1, 5]),
    "shuffle in a buffer": (lambda: ten().shuffle(buffer_size=3).set_seed(1), [0, 2, 3, 1, 5, 6, 8, 9, 4, 7]),
    "no shuffle": (lambda: ten().shuffle().set_shuffle(False), list(range(10))),
    "collate": (lambda: ten().batch(5).collate(sum), [10, 35]),
    "share": (lambda: _share(), [1, 4, 7]),
    "sampler": (lambda: pipes.Sampler(SequenceWrapper([3, 4])), [0, 1]),
    "indices": (lambda: SequenceWrapper([5, 6, 7]).map(lambda x: -x).batch(2), [[-5, -6], [-7]]),
    "indices of several": (lambda: SequenceWrapper([5]).concat(SequenceWrapper([6])).zip(SequenceWrapper([7, 8])), [(5, 7), (6, 8)]),
    "indices shuffled": (lambda: SequenceWrapper(range(8)).shuffle().set_seed(1), [3, 6, 1, 5, 7, 0, 4, 2]),
}


def _share():
    pipe = ten().sharding_filter()
    pipe.apply_sharding(3, 1)
    return pipe


@pytest.mark.parametrize("step", STEPS)
def test_steps(step):
    """The orders of seeds are PyTorch's."""
    make, wanted = STEPS[step]
    pipe = make()
    assert list(pipe) == wanted
    if "groups" not in step and step not in ("filter", "unbatch", "unbatch all"):
        assert len(pipe) == len(wanted)


def test_several_pipes_of_one():
    for once_more in range(2):
        first, second = ten().fork(2)
        assert list(zip(first, second, strict=True)) == [(i, i) for i in range(10)], once_more
    odds = ten().demux(2, even)
    assert [list(pipe) for pipe in odds] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]] and list(odds[0]) == [0, 2, 4, 6, 8]
    kept = ten().demux(2, lambda x: None if x == 3 else x % 2, drop_none=True)
    assert list(kept[1]) == [1, 5, 7, 9]
    with pytest.raises(BufferError, match="more than buffer_size = 2 items wait"):
        list(ten().demux(2, even, buffer_size=2)[0])
    with pytest.raises(ValueError, match="classifier_fn returned 2; expected 0 to 1"):
        list(ten().demux(2, lambda x: 2)[0])


def test_copies_for_several_pipes():
    source = [[1, [2]]]
    for how, same, inner in ((None, True, True), ("shallow", False, True), ("deep", False, False)):
        ((a,), (b,)) = map(list, pipes.IterableWrapper(source).fork(2, copy=how))
        assert a == b == source[0] and (a is b, a[1] is b[1]) == (same, inner)
    assert list(pipe := ten().fork(1)) == list(range(10)) and isinstance(pipe, pipes.IterableWrapper)
    with pytest.raises(ValueError, match="fork: copy = 'other'; expected None, 'shallow' or 'deep'"):
        ten().fork(2, copy="other")
    for name, make in {"fork": lambda: ten().fork(2, -1), "demux": lambda: ten().demux(2, even, buffer_size=-1)}.items():
        with pytest.warns(UserWarning, match=f"{name}: buffer_size is below 0"):
            make()


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: ten().map(lambda: 1), ValueError, r"map: <lambda>\(\) is called with 1 arguments"),
        (lambda: ten().map(even, input_col=[0, 1]), ValueError, r"map: even\(.*\) is called with 2 arguments"),
        (lambda: ten().map(lambda x, *, y: x), ValueError, "missing a required argument: 'y'"),
        (lambda: ten().filter(3), TypeError, "filter: the function is a int; expected something to call"),
        (lambda: SequenceWrapper([1]).map(None), TypeError, "map: the function is a NoneType"),
        (lambda: ten().concat([1]), TypeError, "concat: argument 1 is a list; expected an IterDataPipe"),
        (lambda: SequenceWrapper([1]).zip([1]), TypeError, "zip: argument 1 is a list; expected an MapDataPipe"),
        (lambda: ten().batch(0), AssertionError, "batch: batch_size = 0; expected more than 0"),
        (lambda: ten().shuffle(buffer_size=0), AssertionError, "shuffle: buffer_size = 0"),
    ],
)
def test_steps_refuse(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_functions_with_more_than_they_need():
    assert list(ten().map(int)) == list(ten().map(lambda x, y=0: x)) == list(ten().map(lambda *xs: xs[0])) == list(range(10))


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_share_one_order(workers):
    fl.manual_seed(0)
    for shuffle in (True, False):
        loader = DataLoader(ten().shuffle().sharding_filter(), batch_size=5, shuffle=shuffle, num_workers=workers)
        for _ in range(3):
            found = [x for batch in loader for x in batch.tolist()]
            assert sorted(found) == list(range(10))
            assert shuffle or found == ([0, 2, 4, 6, 8, 1, 3, 5, 7, 9] if workers else list(range(10)))


def test_a_loader_that_shuffles_what_does_not():
    with pytest.warns(UserWarning, match=r"has no shuffle\(\)"):
        loader = DataLoader(ten(), batch_size=10, shuffle=True)
    assert sorted(next(iter(loader)).tolist()) == list(range(10))


def test_names_of_ones_own():
    @functional_datapipe("plus_of_this_test")
    class Plus(IterDataPipe):
        def __init__(self, source, n):
            self.source, self.n = source, n

        def __iter__(self):
            return (x + self.n for x in self.source)

    try:
        pipe = ten().plus_of_this_test(5)
        assert list(pipe) == list(range(5, 15))
        graph = traverse_dps(pipe.batch(2))
        ((batcher, below),) = graph.values()
        assert isinstance(batcher, pipes.Batcher) and [type(p) for p, _ in below.values()] == [Plus]
        with pytest.raises(Exception, match="'plus_of_this_test' is taken"):
            functional_datapipe("plus_of_this_test")(Plus)
    finally:
        del IterDataPipe.functions["plus_of_this_test"]
    with pytest.raises(AttributeError, match="'IterableWrapperIterDataPipe' object has no attribute 'plus_of_this_test'"):
        ten().plus_of_this_test(5)
    with pytest.raises(TypeError, match="is not derived from IterDataPipe"):
        functional_datapipe("x")(types.SimpleNamespace)


def test_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / name).write_text(name)
    found = pipes.FileLister(str(tmp_path), "*.txt").open_files().read_from_stream()
    assert [text for _, text in found] == ["a.txt", "b.txt"]


def test_pipes_can_be_pickled_and_iterated_again():
    pipe = pickle.loads(pickle.dumps(ten().batch(4)))
    assert list(pipe) == list(pipe) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
