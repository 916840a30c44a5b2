"""Products of operands with axes that are repeated, or of size 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.compare import assert_near, bits

import flambeau as fl


@pytest.mark.parametrize("shape", [(3, 1, 1, 8), (3, 1, 6, 8), (1, 1, 6, 8), (1, 3, 1, 8), (3, 2, 1, 8)])
@pytest.mark.parametrize("call", [lambda a, b: a @ b, lambda a, b: fl.nn.functional.linear(a, b.t())], ids=["matmul", "linear"])
def test_repeated_rows_beside_an_axis_of_size_one(shape, call):
    """The strides of an axis of size 1 once were taken for those of rows: [3, 1, 6, 8] with strides (8, 8, 0, 1)."""
    x = fl.randn(shape, dtype=fl.float64)
    a = x.expand(*(6 if size == 1 and d == 2 else size for d, size in enumerate(shape)))
    b = fl.randn(8, 5, dtype=fl.float64)
    assert_near(call(a, b), call(a.contiguous(), b))


@pytest.mark.parametrize("dtype", [fl.int64, fl.int32, fl.uint8], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 1), (1, 9, 4), (7, 66, 35), (64, 1, 64), (5, 0, 3)], ids=str)
def test_whole_numbers(sizes, dtype):
    """Rows beside rows, rows beside columns and what is neither; sums wrap round."""
    m, k, n = sizes
    rng = np.random.default_rng(0)
    top = np.iinfo(str(dtype).removeprefix("flambeau.")).max
    a, b = (rng.integers(0 if dtype == fl.uint8 else -top, top, shape).astype(str(dtype).removeprefix("flambeau.")) for shape in ((m, k), (k, n)))
    with np.errstate(over="ignore"):
        want = a @ b
    x, y = fl.tensor(a), fl.tensor(b)
    for left in (x, x.t().contiguous().t(), fl.stack([x, x], -1)[..., 0]):
        for right in (y, y.t().contiguous().t(), fl.stack([y, y], -1)[..., 0]):
            assert np.array_equal((left @ right).numpy(), want)
    if n > 0:
        assert np.array_equal((x @ y[:, 0]).numpy(), want[:, 0])
    assert np.array_equal((x[0] @ y).numpy(), want[0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 3, 1), (3, 3, 3), (4, 4, 4), (2, 5, 8), (16, 16, 8), (1, 9, 1), (7, 40, 1), (3, 0, 2), (5, 3, 9)])
def test_many_small_products(m, k, n, dtype):
    rng = np.random.default_rng(m * 100 + k * 10 + n)
    a, b = rng.standard_normal((6, 1, m, k)).astype(dtype), rng.standard_normal((5, k, n)).astype(dtype)
    want = a @ b
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "f4" else {"rtol": 1e-13, "atol": 1e-13}
    turned = [fl.from_numpy(np.ascontiguousarray(v.swapaxes(-1, -2))).mT for v in (a, b)]
    for x, y in itertools.product((fl.from_numpy(a), turned[0]), (fl.from_numpy(b), turned[1])):
        assert np.allclose((x @ y).numpy(), want, **close)
        assert np.allclose(fl.bmm(x[:5, 0], y).numpy(), a[:5, 0] @ b, **close)
        assert np.allclose((x[:, :, :, ::2] @ y[:, ::2, :]).numpy(), a[:, :, :, ::2] @ b[:, ::2, :], **close)


@pytest.mark.parametrize("k", range(1, 9))
def test_many_short_rows_by_one_vector(k):
    rng = np.random.default_rng(k)
    a, v = rng.standard_normal((1000, k + 2)), rng.standard_normal(2 * k)
    for rows in (a[:, :k].copy(), a[:, :k], a.copy(order="F")[:, 1 : k + 1]):
        x = fl.from_numpy(rows)
        assert np.allclose((x @ fl.from_numpy(v[:k])).numpy(), rows @ v[:k], rtol=1e-13, atol=1e-13)
        assert np.allclose((x @ fl.from_numpy(v)[::2]).numpy(), rows @ v[::2], rtol=1e-13, atol=1e-13)
        assert np.allclose(fl.addmv(fl.ones(1000, dtype=fl.float64), x, fl.from_numpy(v[:k]), alpha=2).numpy(), 1 + 2 * (rows @ v[:k]), rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "k", "n"), [(64, 256, 1024), (5, 512, 128), (260, 256, 256), (16, 128, 640), (33, 96, 512), (13, 512, 512), (300, 64, 2048)])
def test_rows_a_power_of_two_apart(m, k, n):
    """Of weights that are kept, before and after they are written, and of either operand turned: whole numbers, so that sums are exact."""
    rng = np.random.default_rng(m)
    a, b, bias = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (n, k), (n,)))
    x, w, c = fl.tensor(a), fl.tensor(b), fl.tensor(bias)
    for _ in range(4):
        assert np.array_equal(fl.nn.functional.linear(x, w, c).numpy(), a @ b.T + bias)
        assert np.array_equal(fl.nn.functional.linear(x[: m // 2], w).numpy(), a[: m // 2] @ b.T)
    w.mul_(2)
    for _ in range(3):
        assert np.array_equal(fl.nn.functional.linear(x, w, c).numpy(), a @ b.T * 2 + bias)
    turned = fl.tensor(np.ascontiguousarray(b.T))
    assert np.array_equal((x @ turned).numpy(), a @ b.T)
    assert np.array_equal((fl.tensor(np.ascontiguousarray(a.T)).t() @ turned).numpy(), a @ b.T)
    assert np.array_equal(fl.addmm(c, x, turned, beta=2, alpha=0.5).numpy(), 2 * bias + 0.5 * (a @ b.T))
    x.requires_grad_(), w.requires_grad_()
    fl.nn.functional.linear(x, w).backward(y := fl.tensor(rng.integers(-3, 4, (m, n)).astype(np.float32)))
    assert np.array_equal(x.grad.numpy(), y.numpy() @ b * 2) and np.array_equal(w.grad.numpy(), y.numpy().T @ a)


@pytest.mark.slow
def test_recurrent_layers_of_such_sizes():
    fl.manual_seed(0)
    for cls in (fl.nn.LSTM, fl.nn.GRU, fl.nn.RNN):
        net = cls(64, 128)
        x = fl.randn(7, 40, 64)
        exact = cls(64, 128).double()
        exact.load_state_dict({key: v.double() for key, v in net.state_dict().items()})
        for _ in range(3):
            assert fl.allclose(net(x)[0].double(), exact(x.double())[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(180, 32, 96), (45, 32, 96), (128, 512, 300), (256, 384, 384), (512, 64, 77), (77, 1000, 512), (16, 1024, 1024), (1024, 96, 64), (13, 1, 4096)])
def test_a_weight_that_is_used_again_gives_the_same_bits(m, n, k):
    """What is kept of it must not show: a copy of a layer, or one that was loaded, gives what the layer does that has been used."""
    fl.manual_seed(0)
    x, w, b = fl.randn(m, k), fl.randn(n, k), fl.randn(n)
    for bias in (b, None):
        found = [fl.nn.functional.linear(x, w, bias) for _ in range(8)]
        found += [fl.nn.functional.linear(x, w.clone(), bias), fl.nn.functional.linear(x.clone().requires_grad_(), w.clone().requires_grad_(), bias).detach()]
        assert all(fl.equal(found[0], y) for y in found[1:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 3, 8, 10, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 130])
def test_short_rows_by_a_column(k, dtype):
    """A row has the sum that it has alone, whatever lies behind it, and the matrix is not left."""
    rng = np.random.default_rng(k)
    a, x = rng.standard_normal((70, k)).astype(dtype), rng.standard_normal(k).astype(dtype)
    a[10::7, 0] = np.nan
    a[12::11, 0] = np.inf
    rows, column = fl.tensor(a), fl.tensor(x)
    with np.errstate(invalid="ignore"):
        assert np.allclose((rows @ column).numpy(), a @ x, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-13, equal_nan=True)
    for first, end in ((0, 1), (3, 20), (40, 70), (69, 70)):
        assert bits(rows[first:end].contiguous() @ column) == bits((rows @ column)[first:end])
    wide = fl.full((70, k + 3), fl.nan, dtype=rows.dtype)
    wide[:, 1 : k + 1] = rows
    assert bits(wide[:, 1 : k + 1] @ column) == bits(rows @ column)
    bias = fl.tensor([0.5], dtype=rows.dtype)
    assert bits(fl.nn.functional.linear(rows, column[None], bias)[:, 0]) == bits(rows @ column + bias)


@pytest.mark.parametrize("m, k", [(1, 70_000), (3, 40_000), (64, 33_000), (256, 32_769)])
def test_few_long_sums(m, k):
    rng = np.random.default_rng(m)
    a, x = rng.standard_normal((m, k)), rng.standard_normal(k)
    rows, column = fl.tensor(a), fl.tensor(x)
    for matrix in (rows, rows.t().contiguous().t()):
        assert np.allclose((matrix @ column).numpy(), a @ x, rtol=1e-10, atol=1e-9)
    assert np.allclose(fl.addmv(fl.ones(m, dtype=fl.float64), rows, column, beta=2, alpha=0.5).numpy(), 2 + 0.5 * (a @ x), rtol=1e-10, atol=1e-9)
