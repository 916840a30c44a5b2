"""How element loops go through memory: order of results, broadcast rows, outputs that no cache holds, joins, row sums."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import array, bits

import flambeau as fl

TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
LARGE = (1 << 25) // 4 + 7777  # float32 elements of an output past every cache


# ---------------------------------------------------------------- cast


@pytest.mark.parametrize("dtype", TYPES)
def test_a_cast_keeps_the_order_of_dense_memory(dtype):
    x = fl.arange(24).reshape(2, 3, 4).permute(2, 0, 1)
    y = x.to(getattr(fl, dtype))
    assert y.stride() == x.stride() and np.array_equal(array(y), array(x).astype(array(y).dtype))


@pytest.mark.parametrize(
    "view",
    [lambda x: x[:, ::2], lambda x: x[1:].t()[::3], lambda x: x[:1].expand(3, 8), lambda x: x[0, 0], lambda x: x[:0]],
    ids=["step", "t and step", "expanded", "0d", "empty"],
)
def test_a_cast_of_what_is_not_dense_is_row_major(view):
    x = view(fl.arange(64).reshape(8, 8))
    y = x.double()
    assert y.is_contiguous() and y.tolist() == x.tolist()


def test_a_cast_of_a_transposed_matrix_has_its_gradient():
    x = fl.randn(3, 5, requires_grad=True)
    weight = fl.arange(15.0, dtype=fl.float64).reshape(5, 3)
    (x.t().double() * weight).sum().backward()
    assert x.grad.tolist() == weight.t().tolist()


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("dtype", ["int16", "int64", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 40), (70, 33), (5, 2500), (300, 700)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
def test_a_row_and_a_column_broadcast_over_a_matrix(dtype, shape, transposed):
    rng = np.random.default_rng(0)
    kind = getattr(fl, dtype)
    x = fl.tensor(rng.integers(-50, 50, shape)).to(kind)
    x = x.t() if transposed else x
    row, column = (fl.tensor(rng.integers(-50, 50, n)).to(kind) for n in (x.shape[1], (x.shape[0], 1)))
    assert np.array_equal(array(x + row), array(x) + array(row))
    assert np.array_equal(array(column - x), array(column) - array(x))
    assert np.array_equal(array(x * 3), array(x) * 3)


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("outer", [1, 3])
def test_rows_of_a_slice_that_threads_share_out_unevenly(outer, rows):
    whole = fl.arange(float(outer * rows * 2 * 20011)).reshape(outer, rows * 2, 20011)
    x = whole[:, ::2]
    assert np.array_equal(array(x + 1.0), array(x) + 1)
    assert np.array_equal(array(x + x[:1, :1]), array(x) + array(x[:1, :1]))


# ---------------------------------------------------------------- outputs past every cache


@pytest.fixture(scope="module")
def large():
    x = fl.arange(float(LARGE)) % 201 - 100
    return x, array(x)


@pytest.mark.parametrize(
    "name", ["relu", "x + x", "x * 2.5", "x + row", "x + short row", "clone", "copy_", "bfloat16", "int32", "float64", "x > 0", "offset", "half + half"]
)
def test_large_results_are_those_of_small_ones(large, name):
    x, a = large
    if name == "half + half":
        half = fl.cat([x, x]).bfloat16()
        return np.testing.assert_array_equal(array(half + half), array(half) * 2)
    got, want = {
        "relu": lambda: (x.relu(), np.maximum(a, 0)),
        "x + x": lambda: (x + x, a + a),
        "x * 2.5": lambda: (x * 2.5, a * np.float32(2.5)),
        "x + row": lambda: (x[: 7606 * 1103].reshape(-1, 1103) + x[:1103], a[: 7606 * 1103].reshape(-1, 1103) + a[:1103]),
        "x + short row": lambda: (x[: 254250 * 33].reshape(-1, 33) + x[:33], a[: 254250 * 33].reshape(-1, 33) + a[:33]),
        "clone": lambda: (x.clone(), a),
        "copy_": lambda: (fl.zeros(LARGE).copy_(x), a),
        "bfloat16": lambda: (fl.cat([x, x]).bfloat16(), np.concatenate([a, a])),
        "int32": lambda: (x.int(), a.astype(np.int32)),
        "float64": lambda: (x.double(), a.astype(np.float64)),
        "x > 0": lambda: (x > 0, a > 0),
        "offset": lambda: (fl.zeros(LARGE + 3)[3:].copy_(x), a),
    }[name]()
    assert np.array_equal(array(got), want)


def test_a_large_tensor_written_in_place(large):
    x, a = large
    y = x.clone()
    y.mul_(2.0).add_(x)
    assert np.array_equal(array(y), a * 3)


# ---------------------------------------------------------------- fill


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 31, 1000, 300001])
def test_fill_writes_every_element_and_no_other(dtype, n):
    whole = fl.zeros(n + 2, dtype=getattr(fl, dtype))
    whole[1 : n + 1].fill_(1)
    assert whole.float().sum().item() == n and not whole[0].item() and not whole[n + 1].item()
    assert fl.full((3, 4), 1, dtype=getattr(fl, dtype)).float().sum().item() == 12


# ---------------------------------------------------------------- cat


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat_of_pieces_of_different_sizes(dtype, dim):
    kind = getattr(fl, dtype)
    parts = []
    for i, n in enumerate([3, 0, 1, 7]):
        shape = [4, 5, 6]
        shape[dim] = n
        parts.append((fl.arange(4 * 5 * 6 * n // [4, 5, 6][dim]).reshape(*shape) % 100 + i).to(kind))
    assert np.array_equal(array(fl.cat(parts, dim)), np.concatenate([array(p) for p in parts], dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_cat_that_threads_share_out_anywhere(dim):
    parts = [fl.arange(float(n)).reshape(shape) for n, shape in [(90000, (300, 300)), (90000, (300, 300)), (90000, (300, 300))]]
    assert np.array_equal(array(fl.cat(parts, dim)), np.concatenate([array(p) for p in parts], dim))


def test_cat_of_strided_and_contiguous_pieces():
    x = fl.arange(12.0).reshape(3, 4)
    assert np.array_equal(array(fl.cat([x, x.t().reshape(4, 3).t(), x[:, ::2]], 1)), np.concatenate([array(x), array(x.t().reshape(4, 3).t()), array(x)[:, ::2]], 1))
    assert fl.cat([fl.zeros(0, 3), fl.zeros(0, 3)]).shape == (0, 3)


# ---------------------------------------------------------------- sums of rows


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "prod", "norm"])
@pytest.mark.parametrize("n", [1, 31, 32, 63, 64, 65, 200, 2048, 2111, 5000])
def test_folds_of_rows_of_any_length(name, n):
    x = fl.tensor(np.random.default_rng(n).standard_normal((5, n)), dtype=fl.float64).abs() ** 0.01
    want = {"sum": np.sum, "amax": np.max, "amin": np.min, "prod": np.prod, "norm": np.linalg.norm}[name](array(x), axis=1)
    np.testing.assert_allclose(array(getattr(x, name)(dim=1)), want, rtol=1e-12)


@pytest.mark.parametrize("n", [40, 100, 3000])
def test_nan_and_infinities_reach_the_fold_of_a_row(n):
    x = fl.ones(3, n)
    x[0, n - 1], x[1, n // 2], x[2, 0] = fl.nan, fl.inf, -fl.inf
    assert [str(v) for v in x.sum(1).tolist()] == ["nan", "inf", "-inf"]
    assert [str(v) for v in x.amax(1).tolist()] == ["nan", "inf", "1.0"]


# ---------------------------------------------------------------- cross entropy


@pytest.mark.parametrize("classes", [1, 10, 3000, 40000])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_any_number_of_rows_and_classes(classes, reduction):
    rows = 2500 if classes < 100 else 9
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((rows, classes)), rng.integers(0, classes, rows)
    each = np.log(np.exp(x).sum(1)) - x[np.arange(rows), target]
    want = {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction]
    got = fl.nn.functional.cross_entropy(fl.tensor(x), fl.tensor(target), reduction=reduction)
    np.testing.assert_allclose(array(got), want, rtol=1e-9, atol=1e-12)


def test_threads_do_not_change_a_loss():
    x, target = fl.randn(500, 700), fl.arange(500)
    before = fl.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            fl.set_num_threads(threads)
            results.append(bits(fl.nn.functional.cross_entropy(x, target)))
    finally:
        fl.set_num_threads(before)
    assert results[0] == results[1]
