"""topk, ranks and sorts by keys, and gather, scatter_add and bounds of indices: every element type, ties, NaN and odd shapes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support.compare import NUMPY_TYPES, array, bits

import flambeau as fl

NAN, INF = math.nan, math.inf
TYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def few_values(dtype, *shape, seed=0):
    """Small integers with many ties, all exact in every type."""
    low = 0 if dtype == "uint8" else -9
    return fl.tensor(np.random.default_rng(seed).integers(low, 20, shape)).to(getattr(fl, dtype))


def first_k(values, k, largest):
    """Positions of the k largest (smallest) of a row: NaN is the largest, equal ones keep their order."""
    order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), 0 if math.isnan(values[i]) else values[i]))
    if largest:  # stable in this direction too
        order = sorted(range(len(values)), key=lambda i: (not math.isnan(values[i]), 0 if math.isnan(values[i]) else -values[i]))
    return order[:k]


# ---------------------------------------------------------------- topk


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("n", "k"), [(10, 1), (10, 5), (16, 8), (17, 3), (1100, 5), (1100, 64), (200, 65), (2500, 40)])
def test_topk_takes_the_first_of_equal_elements(dtype, largest, n, k):
    x = few_values(dtype, 3, n, seed=n)
    values, indices = x.topk(k, 1, largest=largest)
    for row, got in zip(array(x).tolist(), indices.tolist(), strict=True):
        assert got == first_k(row, k, largest)
    assert bits(values) == bits(x.gather(1, indices))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n", [8, 64, 1200])
def test_topk_counts_nan_as_largest_and_both_zeros_as_equal(dtype, largest, n):
    x = few_values(dtype, 1, n).flatten()
    for at, special in enumerate([-0.0, NAN, INF, 0.0, -INF, NAN]):
        x[at * n // 6] = special
    k = min(n // 2, 30)
    values, indices = x.topk(k, largest=largest)
    assert indices.tolist() == first_k(array(x).tolist(), k, largest)
    assert bits(values) == bits(x[indices])


@pytest.mark.parametrize("k", [0, 1])
def test_topk_of_a_number_is_the_number(k):
    """It has no axis that k could make shorter; with k = 0 the results were memory that nobody had written."""
    for value in range(1, 100):
        values, indices = fl.tensor(value, dtype=fl.uint8).topk(k)
        assert (values.shape, values.item(), indices.item()) == ((), value, 0)


def test_topk_of_sorted_rows():
    for n, k in itertools.product((100, 5000), (1, 8, 9, 33, 64, 65)):
        for dtype in (fl.float32, fl.int64):
            up = fl.arange(n, dtype=dtype)
            for row in (up, up.flip(0), fl.cat([up, up.flip(0), up])):
                want = array(row.sort(descending=True, stable=True)[1])[:k]
                np.testing.assert_array_equal(array(row.topk(k)[1]), want, err_msg=f"{n} {k} {dtype}")


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0])
def test_topk_of_one_value_is_the_front_of_the_row(value, largest):
    x = fl.full((300,), value)
    values, indices = x.topk(7, largest=largest)
    assert indices.tolist() == list(range(7)) and bits(values) == bits(x[:7])


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_topk_of_rows_in_order(order, dtype):
    x = (fl.arange(5000) * order).to(getattr(fl, dtype))
    assert x.topk(9).indices.tolist() == (list(range(4999, 4990, -1)) if order > 0 else list(range(9)))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("sorted", [True, False])
def test_topk_along_any_axis_of_any_strides(dim, sorted):
    x = few_values("float32", 40, 33, 50).transpose(0, 1)[:, ::2]
    values, indices = x.topk(6, dim, sorted=sorted)
    expected = -np.sort(-array(x), dim).take(range(6), dim)
    assert bits(x.gather(dim, indices)) == bits(values)
    assert np.array_equal(-np.sort(-array(values), dim), expected)
    if sorted:
        assert np.array_equal(array(values), expected)


def test_topk_of_nothing():
    values, indices = fl.zeros(0, 5).topk(2)
    assert values.shape == indices.shape == (0, 2)
    assert fl.zeros(3, 5).topk(0).values.shape == (3, 0)
    assert fl.tensor(2.0).topk(1).indices.item() == 0


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_topk_tells_apart_what_32_bits_do_not(dtype):
    x = (fl.arange(100) % 7 + 2**40).to(getattr(fl, dtype))
    assert x.topk(3).indices.tolist() == [6, 13, 20]


# ---------------------------------------------------------------- median, kthvalue, unique


def in_order(row):
    """Positions in ascending order: NaN last, equal ones as they stand."""
    return first_k(row, len(row), False)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 200, 2049, 7001])
def test_the_ranked_element_is_the_first_of_equals_that_has_the_rank(dtype, n):
    x = few_values(dtype, 2, n, seed=n)
    places = [in_order(row) for row in array(x).tolist()]
    for rank in {0, n // 3, (n - 1) // 2, n - 1}:
        values, indices = x.kthvalue(rank + 1, 1)
        assert indices.tolist() == [order[rank] for order in places]
        assert bits(values) == bits(x.gather(1, indices[:, None])[:, 0])
    assert x.median(1).indices.tolist() == [order[(n - 1) // 2] for order in places]
    assert x.t().contiguous().median(0).indices.tolist() == [order[(n - 1) // 2] for order in places]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_ranks_among_elements_that_lie_far_apart_or_close_together(dtype):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(6000) * 10.0 ** rng.integers(-30, 30, 6000)
    whole = rng.integers(-(2**31), 2**31, 6000) << (32 if dtype == "int64" else 0)
    close = (2**30 if dtype == "int32" else 2**52) + rng.integers(0, 3, 6000)
    for a in [whole, close] if dtype.startswith("int") else [wide, 1 + rng.random(6000) * 1e-6, close]:
        a = a.astype(dtype)
        x, order = fl.tensor(a), np.argsort(a, kind="stable")
        for rank in (0, 1, 2999, 5999):
            assert x.kthvalue(rank + 1).indices.item() == order[rank]
        for k in (1, 9, 100, 1500, 1501, 6000):
            assert x.topk(k, largest=False).indices.tolist() == order[:k].tolist()
        assert x.argsort(stable=True).tolist() == order.tolist()
        assert x.argsort(descending=True, stable=True).tolist() == (len(a) - 1 - np.argsort(a[::-1], kind="stable"))[::-1].tolist()
        assert array(x.unique()).tolist() == np.unique(a).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [9, 5000])
def test_the_median_of_what_holds_nan_is_the_first_nan(dtype, n):
    x = few_values(dtype, n)
    want = array(x).tolist()
    x[n - 1] = x[n // 2] = NAN
    assert math.isnan(x.median().item()) and x.median(0).indices.item() == n // 2
    del want[n - 1], want[n // 2]
    assert x.nanmedian().item() == sorted(want)[(n - 3) // 2]
    all_nan = fl.full((n,), NAN, dtype=x.dtype)
    assert math.isnan(all_nan.nanmedian().item()) and all_nan.median(0).indices.item() == 0
    assert x.kthvalue(n - 1).indices.item() == n // 2 and x.kthvalue(n).indices.item() == n - 1


@pytest.mark.parametrize("ends", [(-(2**63), 2**63 - 1), (-(2**63), -(2**63) + 5), (2**63 - 6, 2**63 - 1), (-(2**40), 2**40)], ids=str)
@pytest.mark.parametrize("n", [2, 255, 256, 5000])
def test_sorts_of_integers_at_the_ends_of_their_range(ends, n):
    a = np.random.default_rng(n).integers(*ends, n, endpoint=True)
    a[:2] = ends
    x = fl.tensor(a)
    order = np.argsort(a, kind="stable")
    values, indices = x.sort(stable=True)
    assert values.tolist() == a[order].tolist() and indices.tolist() == order.tolist()
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    want = np.unique(a, return_inverse=True, return_counts=True)
    assert [values.tolist(), inverse.tolist(), counts.tolist()] == [w.tolist() for w in want]


def test_unique_of_nothing_of_one_and_of_nan():
    for x in (fl.zeros(0), fl.zeros(0, 3, dtype=fl.int64)):
        values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
        assert values.shape == counts.shape == (0,) and inverse.shape == x.shape
    assert fl.tensor(5).unique().tolist() == [5]
    values, inverse, counts = fl.tensor([NAN, 1.0, NAN, -0.0, 0.0]).unique(return_inverse=True, return_counts=True)
    assert [str(v) for v in values.tolist()] == ["-0.0", "1.0", "nan", "nan"]
    assert inverse.tolist() == [2, 1, 3, 0, 0] and counts.tolist() == [2, 1, 1, 1]
    values, inverse, counts = fl.unique_consecutive(fl.tensor([2, 2, 1, 2]), return_inverse=True, return_counts=True)
    assert [values.tolist(), inverse.tolist(), counts.tolist()] == [[2, 1, 2], [0, 0, 1, 2], [2, 1, 1]]


# ---------------------------------------------------------------- gather and scatter_add

SHAPES = [((7,), (4,), 0), ((5, 6), (5, 6), 0), ((5, 6), (3, 9), 1), ((4, 5, 6), (4, 8, 3), 1), ((4, 5, 6), (2, 5, 6), 2), ((40, 700), (40, 700), 1)]


def a_case(dtype, shape, index_shape, dim, index_dtype="int64"):
    x, src = few_values(dtype, *shape), few_values(dtype, *index_shape, seed=1)
    index = fl.tensor(np.random.default_rng(2).integers(0, shape[dim], index_shape)).to(getattr(fl, index_dtype))
    return x, src, index


def places(index, dim):
    """(position in index, position in x) of every element, in order."""
    for at in itertools.product(*map(range, index.shape)):
        to = list(at)
        to[dim] = index[at]
        yield at, tuple(to)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "index_shape", "dim"), SHAPES)
def test_gather_and_scatter_add_go_where_the_index_says(dtype, shape, index_shape, dim):
    x, src, index = a_case(dtype, shape, index_shape, dim)
    at = index.numpy()
    picked, summed = array(src).copy(), array(x).astype(np.float64 if "float" in dtype else NUMPY_TYPES[dtype])
    for i, to in places(at, dim):
        picked[i] = array(x)[to] if x.numel() < 1000 else picked[i]
    if x.numel() < 1000:
        assert np.array_equal(array(x.gather(dim, index)), picked)
    else:
        assert np.array_equal(array(x.gather(dim, index)), np.take_along_axis(array(x), at, dim))
    source = array(src)
    for i, to in places(at, dim):
        summed[to] += source[i]
    assert np.array_equal(array(x.scatter_add(dim, index, src)).astype(summed.dtype), summed)


@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_add_adds_every_duplicate(dim):
    x = fl.zeros(6, 5)
    index = fl.full((6, 5), 2)
    y = x.scatter_add(dim, index, fl.ones(6, 5))
    assert y.sum(1 - dim).tolist() == [(30.0 if i == 2 else 0.0) for i in range(x.shape[dim])]


@pytest.mark.parametrize("dim", [0, 1])
def test_gather_and_scatter_add_of_strided_operands(dim):
    x, src = fl.arange(20.0).reshape(4, 5).t(), fl.arange(40.0).reshape(5, 8)[:, ::2]
    index = (fl.arange(20).reshape(4, 5) % 4).t()
    assert bits(x.gather(dim, index)) == bits(x.contiguous().gather(dim, index.contiguous()))
    assert bits(x.scatter_add(dim, index, src)) == bits(x.contiguous().scatter_add(dim, index.contiguous(), src.contiguous()))


@pytest.mark.parametrize("name", ["gather", "scatter_add", "index_select", "scatter_add_"])
@pytest.mark.parametrize("bad", [-1, 5, 2**40, -(2**62)])
@pytest.mark.parametrize("n", [3, 70000])
def test_an_index_outside_is_refused_before_anything_changes(name, bad, n):
    x = fl.zeros(2, 5)
    index = fl.zeros(2, n, dtype=fl.int64)
    index[1, n - 2] = bad
    call = {
        "gather": lambda: x.gather(1, index),
        "index_select": lambda: x.index_select(1, index[1]),
        "scatter_add": lambda: x.scatter_add(1, index, fl.ones(2, n)),
        "scatter_add_": lambda: x.scatter_add_(1, index, fl.ones(2, n)),
    }[name]
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 1 with size 5"):
        call()
    assert x.count_nonzero().item() == 0


@pytest.mark.parametrize("view", [lambda i: i.t(), lambda i: i[:, ::3], lambda i: i[::2], lambda i: i[:1].expand(4, 9)], ids=["t", "step", "rows", "expand"])
def test_strided_indices_are_checked_where_they_are(view):
    index = fl.zeros(6, 9, dtype=fl.int64)
    fl.zeros(6, 9)[view(index)]
    view(index)[0, 0] = 6
    with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 6"):
        fl.zeros(6, 9)[view(index)]


def test_elements_between_the_indices_do_not_count():
    index = fl.full((4, 6), 99)
    index[:, ::2] = 1
    assert fl.arange(3.0)[index[:, ::2]].tolist() == [[1.0] * 3] * 4


def test_no_indices_are_no_error():
    empty = fl.zeros(0, 4, dtype=fl.int64)
    assert fl.zeros(3, 4).gather(0, empty).shape == (0, 4)
    assert fl.ones(3, 4).scatter_add(0, empty, fl.zeros(0, 4)).tolist() == [[1.0] * 4] * 3


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_bincount_refuses_what_is_negative_in_any_type(dtype):
    x = fl.arange(100).to(getattr(fl, dtype))
    assert fl.bincount(x).tolist() == [1] * 100
    if dtype == "uint8":
        return
    x[97] = -3
    with pytest.raises(ValueError, match="x holds -3; expected no negative numbers"):
        fl.bincount(x)
