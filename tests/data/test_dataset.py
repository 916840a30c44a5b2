"""Datasets and samplers."""

import warnings

import pytest

import flambeau as fl
from flambeau.utils import data as D


class Count(D.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def test_tensor_dataset():
    d = D.TensorDataset(fl.arange(3), fl.arange(6).reshape(3, 2))
    a, b = d[1]
    assert len(d) == 3 and a.item() == 1 and b.tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"tensor 1 has shape \[2\], tensor 0 \[3\]"):
        D.TensorDataset(fl.zeros(3), fl.zeros(2))


def test_concat_subset_stack_chain():
    d = D.Subset(range(10), [7, 8]) + D.Subset(range(10), [1])
    assert [d[i] for i in range(3)] == [7, 8, 1] and d[-1] == 1 and len(d) == 3
    with pytest.raises(IndexError, match="absolute value of index should not exceed dataset length"):
        d[3]
    assert D.StackDataset(a=range(3), b="xyz")[1] == {"a": 1, "b": "y"}
    assert D.StackDataset(range(3), "xyz")[2] == (2, "z")
    with pytest.raises(ValueError, match=r"\[3, 2\]"):
        D.StackDataset(range(3), "xy")
    assert list(Count(2) + Count(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(ValueError, match="use ChainDataset"):
        D.ConcatDataset([Count(2)])


def test_random_split():
    g = fl.Generator()
    g.manual_seed(1)
    a, b = D.random_split(range(10), [7, 3], generator=g)
    assert len(a) == 7 and len(b) == 3
    assert sorted([a[i] for i in range(7)] + [b[i] for i in range(3)]) == list(range(10))
    assert [len(p) for p in D.random_split(range(10), [0.35, 0.35, 0.3])] == [4, 3, 3]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset"):
        D.random_split(range(10), [7, 4])


def test_a_sampler_initialises_the_bases_beside_it():
    class Log:
        def __init__(self):
            self.log = []

    class Every(D.Sampler, Log):
        def __iter__(self):
            self.log.append(1)
            return iter([0])

    every = Every()
    assert list(every) == [0] and every.log == [1]


def test_random_samplers():
    fl.manual_seed(0)
    order = list(D.RandomSampler(range(20)))
    assert sorted(order) == list(range(20)) and order != sorted(order)
    assert len(list(D.RandomSampler(range(3), num_samples=7))) == 7
    drawn = list(D.RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}
    assert sorted(D.SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    drawn = list(D.WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert 0 not in drawn and 230 < drawn.count(2) < 360
    assert D.WeightedRandomSampler([0.1, 3], 1).weights.tolist() == [0.1, 3]
    assert sorted(D.WeightedRandomSampler([1.0, 1.0], 2, replacement=False)) == [0, 1]


def test_batch_sampler():
    s = D.BatchSampler(D.SequentialSampler(range(5)), 2, drop_last=True)
    assert list(s) == [[0, 1], [2, 3]] and len(s) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        D.BatchSampler([], 0, False)
    with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
        D.RandomSampler(range(3), num_samples=0)


@pytest.mark.parametrize("lengths", [[1], [1.0], [0.7, 0.3], [1, 0], [0.5, 0.25, 0.25]], ids=str)
def test_a_single_sample_can_be_split(lengths):
    parts = D.random_split(D.TensorDataset(fl.arange(1)), lengths)
    assert [len(part) for part in parts] == [1] + [0] * (len(lengths) - 1)


@pytest.mark.parametrize("drop_last, sizes", [(False, [4, 4, 4]), (True, [3, 3, 3])])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_sampler_shares_all_indices(shuffle, drop_last, sizes):
    shares = [D.DistributedSampler(range(11), 3, rank, shuffle, drop_last=drop_last) for rank in range(3)]
    orders = [list(share) for share in shares]
    assert [len(order) for order in orders] == [len(share) for share in shares] == sizes
    together = [i for row in zip(*orders) for i in row]
    assert set(together) == set(range(11)) if not drop_last else len(set(together)) == 9
    if not shuffle:
        assert together[:9] == list(range(9))
    for share in shares:
        share.set_epoch(1)
    assert ([list(share) for share in shares] != orders) == shuffle


@pytest.mark.parametrize("args, text", [((), "num_replicas = None, rank = None; expected both"), ((2, 2), r"Invalid rank 2, rank should be in the interval \[0")])
def test_distributed_sampler_errors(args, text):
    with pytest.raises(ValueError, match=text):
        D.DistributedSampler(range(3), *args)


class Fetched(D.Dataset):
    """Knows how to get several samples at once, and counts how often it was asked."""

    def __init__(self, factor=1):
        self.factor, self.calls = factor, []

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return i * self.factor

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [i * self.factor for i in indices]


def test_a_subset_passes_a_whole_batch_on():
    base = Fetched()
    loader = D.DataLoader(D.Subset(base, [7, 5, 3]), batch_size=2)
    assert [b.tolist() for b in loader] == [[7, 5], [3]] and base.calls == [[7, 5], [3]]
    assert D.Subset(range(5), [4, 2]).__getitems__([1, 0]) == [2, 4]
    assert D.Subset(D.Subset(base, [9, 8]), [1]).__getitems__([0]) == [8]


def test_stacked_datasets_pass_a_whole_batch_on():
    a, b = Fetched(), Fetched(10)
    assert D.StackDataset(a, b).__getitems__([1, 2]) == [(1, 10), (2, 20)]
    assert D.StackDataset(x=a, y=range(10)).__getitems__([3]) == [{"x": 3, "y": 3}]
    assert a.calls == [[1, 2], [3]] and b.calls == [[1, 2]]


@pytest.mark.parametrize("base", [D.Subset, D.StackDataset])
def test_a_class_that_gives_other_samples_gives_them_in_batches_too(base):
    class Mine(base):
        def __getitem__(self, i):
            return -i

    dataset = Mine(range(4), range(4)) if base is D.Subset else Mine(range(4))
    assert [b.tolist() for b in D.DataLoader(dataset, batch_size=4)] == [[0, -1, -2, -3]]


def test_too_few_samples_of_a_batch_are_refused():
    class Short(Fetched):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match="Short.__getitems__: gave 1 samples for 2 indices"):
        D.Subset(Short(), [1, 2]).__getitems__([0, 1])


def test_an_order_of_no_samples_is_refused():
    for make in (lambda: D.RandomSampler([]), lambda: D.DataLoader([], shuffle=True)):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
            make()
    assert list(D.DataLoader([])) == []
    with pytest.raises(ValueError, match="replacement should be a boolean value"):
        D.WeightedRandomSampler([0.5], 1, 5)


def test_an_index_before_the_first_of_several_datasets_is_of_both_kinds():
    for kind in (IndexError, ValueError):
        with pytest.raises(kind, match="absolute value of index should not exceed dataset length"):
            D.ConcatDataset([[1, 2], [3]])[-4]


def test_a_part_without_samples_warns():
    with pytest.warns(UserWarning, match="random_split: part 1 of 2 gets none of the 3 samples"):
        assert [len(p) for p in D.random_split(range(3), [1.0, 0.0])] == [3, 0]
    with warnings.catch_warnings():  # who says 0 means it
        warnings.simplefilter("error")
        assert [len(p) for p in D.random_split(range(3), [3, 0])] == [3, 0]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: D.ConcatDataset(2), TypeError, "ConcatDataset: datasets is a int; expected a list of datasets"),
        (lambda: D.ConcatDataset([[1], 2]), TypeError, r"ConcatDataset: datasets\[1\] is a int, which has no length"),
        (lambda: D.random_split(3, [1]), TypeError, "random_split: dataset is a int, which has no length"),
        (lambda: D.random_split([1, 2], 2), TypeError, "random_split: lengths = 2; expected a list of numbers"),
        (lambda: D.random_split([1, 2], "ab"), TypeError, "random_split: lengths = 'ab'; expected a list of numbers"),
        (lambda: D.TensorDataset(fl.ones(1), 3), AttributeError, r"TensorDataset: tensors\[1\] is a int; expected a Tensor"),
        (lambda: D.DataLoader([1], timeout="x"), TypeError, "DataLoader: timeout = 'x' is a str; expected seconds >= 0"),
        (lambda: D.WeightedRandomSampler(3, 1), ValueError, "WeightedRandomSampler: weights is a int"),
        (lambda: D.default_collate([]), IndexError, "default_collate: batch has no samples"),
        (lambda: D.default_collate(3), TypeError, "default_collate: batch is a int"),
    ],
)
def test_arguments_of_other_types_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
