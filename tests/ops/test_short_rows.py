"""Rows shorter than a block, which go several at once, and blocks that one rare element sends another way: each with the bits it has alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.compare import array, bits

import flambeau as fl
from flambeau.nn import functional as F  # noqa: N812

RNG = np.random.default_rng(11)
LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 63, 64, 65, 130]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "nansum"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_that_are_folded_together_are_those_that_are_folded_alone(name, dtype, n):
    if name == "nansum" and dtype == "int64":
        pytest.skip("there is no NaN among integers")
    x = fl.tensor(RNG.standard_normal((27, n + 2)) * 3).to(getattr(fl, dtype))
    if dtype != "int64":
        x[5, n // 2] = fl.nan
    for view in (x[:, :n].contiguous(), x[:, 1 : n + 1]):
        together = getattr(view, name)(-1)
        alone = fl.cat([getattr(row, name)(-1, keepdim=False).reshape(1) for row in view.unbind()])
        assert bits(together) == bits(alone)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("fold", [lambda x: x.norm(3, -1), lambda x: x.var(-1, correction=0), lambda x: x.logsumexp(-1), lambda x: (x > 0).any(-1)])
def test_folds_of_short_rows_are_right(fold, n):
    a = RNG.standard_normal((19, n))
    exact = [np.linalg.norm(a, 3, -1), a.var(-1), np.log(np.exp(a).sum(-1)), (a > 0).any(-1)]
    got = array(fold(fl.tensor(a)))
    assert any(np.allclose(got, want, rtol=1e-12, atol=1e-15) for want in exact)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("rows, n", list(itertools.product([1, 15, 16, 33], LENGTHS)))
def test_the_first_of_the_largest_and_smallest_of_a_row(dtype, rows, n):
    a = RNG.integers(-100, 100, (rows, n)) // 30 * 30
    x = fl.tensor(np.abs(a) if dtype in ("uint8", "bool") else a).to(getattr(fl, dtype))
    a = array(x.double())
    assert np.array_equal(array(x.argmax(-1)), a.argmax(-1)) and np.array_equal(array(x.argmin(-1)), a.argmin(-1))
    values, at = x.max(-1)
    assert np.array_equal(array(at), a.argmax(-1)) and np.array_equal(array(values.double()), a.max(-1)) and values.dtype is x.dtype
    if rows > 1:
        assert np.array_equal(array(x.argmax(0)), a.argmax(0)) and np.array_equal(array(x.t().argmin(0)), a.argmin(-1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("n", LENGTHS)
def test_the_first_nan_of_a_row_is_its_extreme(dtype, n):
    a = RNG.standard_normal((35, n))
    a[3, n - 1] = a[4, n // 2 :] = a[20] = a[34, 0] = np.nan
    x = fl.tensor(a).to(getattr(fl, dtype))
    a = array(x.double())
    assert np.array_equal(array(x.argmax(1)), a.argmax(1)) and np.array_equal(array(x.argmin(1)), a.argmin(1))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("n", [200_000, 400_001])
def test_the_first_extreme_of_one_long_row_of_integers(dtype, n):
    limits = np.iinfo(dtype)
    a = RNG.integers(limits.min + 1, limits.max - 1, n, dtype=dtype)
    for at in (0, 131_071, 131_072, n - 1):
        b = a.copy()
        b[at:] = np.where(np.arange(n - at) % 1000 == 0, limits.max, b[at:])
        assert fl.tensor(b).argmax().item() == b.argmax() == at
        b[at:] = np.where(b[at:] == limits.max, limits.min, b[at:])
        assert fl.tensor(b).argmin().item() == b.argmin() == at


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("layout", [lambda t: t, lambda t: t.t().contiguous().t()], ids=["rows", "columns"])
@pytest.mark.parametrize("at", [(0, 0), (0, 2), (699, 1), (350, 0)], ids=str)
def test_the_first_target_that_is_no_class_is_named(dtype, layout, at):
    target = fl.full((700, 3), 4, dtype=getattr(fl, dtype))
    target[0, 1] = target[699, 2] = 255  # ignored
    x = fl.randn(700, 5, 3).log_softmax(1)
    F.nll_loss(x, layout(target), ignore_index=255)
    target[at], target[699, 2] = 5, 5
    with pytest.raises(IndexError, match=rf"Target 5 is out of bounds at element \[{at[0]}, {at[1]}\]; expected 0 <= target < 5"):
        F.nll_loss(x, layout(target), ignore_index=255)


def test_indices_of_an_empty_table_are_refused():
    with pytest.raises(IndexError, match="index out of range in self: indices has the value 0 at element 0; expected 0 <= index < 0"):
        F.embedding(fl.zeros(3, dtype=fl.int64), fl.zeros(0, 4))
    assert F.embedding(fl.zeros(0, dtype=fl.int64), fl.zeros(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_where_all_is_ignored_or_there_is_no_class(reduction):
    want = {"none": [0.0, 0.0], "sum": 0.0}.get(reduction)
    for classes in (0, 3):
        x = fl.full((2, classes), fl.nan, requires_grad=True)
        loss = F.nll_loss(x, fl.full((2,), -100), reduction=reduction)
        loss.sum().backward()
        assert loss.isnan().item() if want is None else loss.tolist() == want
        assert x.grad.tolist() == [[0.0] * classes] * 2 or reduction == "mean"


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 300])
def test_an_element_of_erfinv_does_not_depend_on_its_neighbours(dtype, n):
    x = fl.tensor(RNG.uniform(-0.999, 0.999, n), dtype=dtype)
    before = x.erfinv()
    for value, want in ((1.0, fl.inf), (-1.0, -fl.inf), (fl.nan, fl.nan), (1.5, fl.nan)):
        y = x.clone()
        y[n // 2] = value
        y.erfinv_()
        assert str(y[n // 2].item()) == str(want)
        y[n // 2] = before[n // 2]
        assert bits(y) == bits(before)


def test_lgamma_at_its_edges():
    x = fl.tensor([1.0, 2.0, 0.0, -0.0, -1.0, -7.0, -1e306, 2.5e305, 3e305, fl.inf, -fl.inf, fl.nan, 5e-324, 3.0, 8.0], dtype=fl.float64)
    got = x.lgamma().tolist()
    assert got[:2] == [0.0, 0.0] and got[2:7] == [fl.inf] * 5 and got[8:11] == [fl.inf] * 3 and str(got[11]) == "nan"
    assert got[7] == pytest.approx(1.7555118602376452e308, rel=1e-13)
    assert got[12:] == pytest.approx([744.4400719213812, 0.6931471805599453, 8.525161361065415], rel=1e-15)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.5, 3.0, fl.inf, -fl.inf])
@pytest.mark.parametrize("dim", [None, 1])
def test_gradients_of_norms(p, dim):
    a = RNG.standard_normal((4, 5))
    a[1, 2] = 0
    x = fl.tensor(a, requires_grad=True)
    y = x.norm(p, dim, keepdim=True)
    w = fl.tensor(RNG.standard_normal(y.shape))
    (y * w).sum().backward()
    r, b = array(y.detach()), np.abs(a)
    if p == 0:
        slope = np.zeros_like(a)
    elif np.isinf(p):
        slope = np.sign(a) * (b == r) / (b == r).sum(dim, keepdims=True)
    else:
        slope = np.sign(a) * (b / r) ** (p - 1)
    np.testing.assert_allclose(array(x.grad), slope * array(w), rtol=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5, 3.0, fl.inf])
def test_second_derivatives_of_norms(p):
    x = fl.tensor(RNG.standard_normal((3, 4)), requires_grad=True)
    assert fl.autograd.gradgradcheck(lambda x: x.norm(p, 1), (x,))


@pytest.mark.parametrize("a, b", [((2, 3), (3, 200)), ((300,), (150,)), ((40, 1), (2, 3)), ((1, 50), (60, 1)), ((2, 2, 2), (130,)), ((3, 4), (0, 140))], ids=str)
def test_kron_of_long_rows(a, b):
    p, q = RNG.standard_normal(a), RNG.standard_normal(b)
    assert np.array_equal(array(fl.kron(fl.tensor(p), fl.tensor(q))), np.kron(p, q))


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 7), (14, 13), (200, 100)], ids=str)
def test_the_mean_of_a_whole_plane(dtype, size):
    x = fl.tensor(RNG.standard_normal((3, 5, *size))).to(dtype)
    got = F.adaptive_avg_pool2d(x, 1)
    assert got.shape == (3, 5, 1, 1)
    assert bits(got) == bits(x.mean((2, 3), keepdim=True))


@pytest.mark.parametrize("name", ["amax", "amin", "any", "all", "max", "min"])
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
@pytest.mark.parametrize("n", [*LENGTHS, 257, 600, 5000])
def test_small_integers_are_folded_as_they_lie(name, dtype, n):
    kind = np.dtype(dtype)
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    x = RNG.integers(low, high, (11, n + 3), endpoint=True, dtype=np.int64 if dtype != "bool" else np.uint8).astype(kind)
    x[3] = x[3, 0]  # one value alone
    x[4, n // 2], x[5, n - 1], x[6], x[7] = low, high, low, high
    wanted = {"amax": np.max, "amin": np.min, "any": np.any, "all": np.all}.get(name) or getattr(np, name)
    for view in (np.ascontiguousarray(x[:, :n]), x[:, 1 : n + 1], x[:, :n].T, x[::2, :n:2]):
        y = fl.from_numpy(view)
        assert getattr(y, name)().item() == wanted(view)
        if name in ("max", "min"):
            continue
        for dim in (0, 1):
            assert np.array_equal(array(getattr(y, name)(dim)), wanted(view, axis=dim)), (view.strides, dim)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [*LENGTHS, 200])
def test_scans_of_halves_are_rounded_once_for_each_element(name, dtype, n):
    for rows in (1, 3, 8, 11):
        x = fl.tensor(1 + 0.05 * RNG.standard_normal((rows, n))).to(getattr(fl, dtype))
        wanted = getattr(x.double(), name)(1).float().to(x.dtype)
        assert bits(getattr(x, name)(1)) == bits(wanted)
        assert bits(getattr(x.T, name)(0)) == bits(wanted.T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_largest_halves_so_far(dtype):
    x = fl.tensor(RNG.standard_normal((5, 150))).to(getattr(fl, dtype))
    x[2, 70] = fl.nan
    for name in ("cummax", "cummin"):
        got, wanted = getattr(x, name)(1), getattr(x.double(), name)(1)
        assert bits(got.values) == bits(wanted.values.to(x.dtype)) and fl.equal(got.indices, wanted.indices)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 16, 31, 32, 33])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c16"])
def test_rows_of_operands_that_repeat_or_lie_apart(columns, dtype):
    rng = np.random.default_rng(columns)
    a, b = ((rng.standard_normal((n, 40)) * 9).astype(dtype) for n in (37, 53))
    x, y = fl.from_numpy(a), fl.from_numpy(b)
    want = a[:, None, :columns] - b[:, :columns]
    assert np.array_equal((x[:, None, :columns] - y[:, :columns]).numpy(), want)
    assert np.array_equal((x[:, None, 1 : columns + 1] * y[:, 3 : columns + 3]).numpy(), a[:, None, 1 : columns + 1] * b[:, 3 : columns + 3])
    every = fl.from_numpy(b.copy())  # every second element of rows
    room, half = every[:, : 2 * columns : 2], np.array(b[:, : 2 * columns : 2])
    room += 1
    assert np.array_equal(every[:, : 2 * columns : 2].numpy(), half + 1) and np.array_equal(every[:, 1::2].numpy(), b[:, 1::2])
    whole = fl.zeros(37, 53, 40, dtype=x.dtype)
    whole[:, :, :columns] = fl.from_numpy(want)
    assert np.array_equal(whole[:, :, :columns].numpy(), want) and not whole[:, :, columns:].any()
    turned = fl.from_numpy(np.ascontiguousarray(want.transpose(1, 0, 2))).transpose(0, 1)
    assert np.array_equal((turned + x[:, None, :columns]).numpy(), want + a[:, None, :columns])
    assert np.array_equal(turned.contiguous().numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("rows, columns", [(4096, 1), (5000, 2), (70_001, 3), (66_000, 4), (4099, 128), (4097, 7)])
def test_extremes_down_a_few_long_columns(rows, columns, dtype):
    """Many rows side by side are one: the first of equal ones wins, and the first that is no number."""
    rng = np.random.default_rng(rows)
    x = rng.integers(0, 2 if dtype == "bool" else 60, (rows, columns)).astype(dtype)
    x[rows // 3] = x[rows - 1] = x.max()
    x[rows // 5] = x[rows // 2] = x.min()
    if dtype.startswith("float"):
        x[rows // 4 :: 999, 0] = np.nan
    t = fl.tensor(x)
    assert np.array_equal(t.argmax(0).numpy(), x.argmax(0)) and np.array_equal(t.argmin(0).numpy(), x.argmin(0))
    values, indices = t.max(0)
    assert np.array_equal(indices.numpy(), x.argmax(0)) and np.array_equal(values.numpy(), x.max(0), equal_nan=dtype.startswith("float"))
    both = fl.stack([t, t.flip(0)])
    assert np.array_equal(both.argmin(1).numpy(), np.stack([x.argmin(0), x[::-1].argmin(0)]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "complex64"])
@pytest.mark.parametrize("shape, k", [((3000, 5), 1), ((40, 50, 6), 2), ((5, 4), 8), ((7, 9), 9), ((300, 1), 1)])
def test_a_few_places_of_each_row(shape, k, dtype):
    rng = np.random.default_rng(k)
    x = rng.integers(0, 100, shape).astype(dtype)
    index = np.stack([rng.permuted(np.arange(shape[-1]).repeat(2))[:k] for _ in range(int(np.prod(shape[:-1])))]).reshape(*shape[:-1], -1)
    src = rng.integers(0, 100, index.shape).astype(dtype)
    t, at = fl.tensor(x), fl.tensor(index)
    assert np.array_equal(t.gather(-1, at).numpy(), np.take_along_axis(x, index, -1))
    want, filled = x.copy(), x.copy()
    for j in range(index.shape[-1]):  # of equal indices the last stays
        np.put_along_axis(want, index[..., j : j + 1], src[..., j : j + 1], -1)
    np.put_along_axis(filled, index, 7, -1)
    assert np.array_equal(t.scatter(-1, at, fl.tensor(src)).numpy(), want) and np.array_equal(t.clone().scatter_(-1, at, fl.tensor(src)).numpy(), want)
    assert np.array_equal(t.scatter(-1, at, 7).numpy(), filled)
    part = at[: len(at) // 2]  # not of all rows
    assert np.array_equal(t.gather(-1, part).numpy(), np.take_along_axis(x[: len(part)], part.numpy(), -1))
