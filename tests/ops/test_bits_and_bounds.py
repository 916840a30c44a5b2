"""Loops over bits and blocks: 16-bit floats by their bits, checks of indices, rows that are scattered into, scans of 16-bit rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

import flambeau as fl

HALVES = [fl.float16, fl.bfloat16]


def every_bit_pattern(dtype: fl.dtype) -> fl.Tensor:
    return fl.arange(65536, dtype=fl.int32).to(fl.int16).view(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("op", ["neg", "abs"])
def test_signs_of_every_16_bit_float_are_those_of_the_float_that_it_is(dtype: fl.dtype, op: str) -> None:
    x = every_bit_pattern(dtype)
    expected = getattr(x.float(), op)().numpy()
    for given in (x, x.view(256, 256).t().contiguous().t().reshape(-1), fl.stack([x, x], 1)[:, 0]):
        y = getattr(given, op)()
        assert y.dtype is dtype
        np.testing.assert_array_equal(y.float().numpy(), expected)
    # of zeros and NaN, too
    sign = fl.signbit(getattr(x, op)())
    assert fl.equal(sign, ~fl.signbit(x) if op == "neg" else fl.zeros_like(sign))
    z = x.clone()
    assert getattr(z, op + "_")() is z
    assert fl.equal(z.view(fl.int16), getattr(x, op)().view(fl.int16))


def test_every_float_is_rounded_to_the_nearest_bfloat16_in_rows_of_any_length() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32)
    bits[::61] = 0x7F800001 | (bits[::61] & 0x807FFFFF)  # NaN here and there
    x = bits.view(np.float32)
    nearest = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint32) << 16
    expected = np.where(np.isnan(x), np.float32(np.nan), nearest.view(np.float32))
    for n in (1, 15, 16, 17, 64, 127, 128, 129, 4099):
        given = fl.tensor(x[:n])
        np.testing.assert_array_equal(given.bfloat16().float().numpy(), expected[:n])
        np.testing.assert_array_equal((given.bfloat16() * 1).float().numpy(), expected[:n])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n", [64, 511, 512, 513, 1500])
def test_sums_and_products_of_16_bit_rows_go_on_from_piece_to_piece(dtype: fl.dtype, n: int) -> None:
    x = fl.tensor(np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)).to(dtype)
    wide = x.double().numpy()
    np.testing.assert_array_equal(x.cumsum(1).double().numpy(), fl.tensor(np.cumsum(wide, 1).astype(np.float32)).to(dtype).double().numpy())
    near = (x * 0.01 + 1).double().numpy()
    found = (x * 0.01 + 1).cumprod(1).double().numpy()
    np.testing.assert_allclose(found, np.cumprod(near, 1), rtol=2 * fl.finfo(dtype).eps)
    y = x.float().requires_grad_()
    y.to(dtype).cumsum(1).backward(x)  # of which the gradient is a sum from the end
    np.testing.assert_array_equal(y.grad.double().numpy(), fl.tensor(np.cumsum(wide[:, ::-1], 1)[:, ::-1].astype(np.float32)).to(dtype).double().numpy())


@pytest.mark.parametrize("dtype", [fl.int64, fl.int32], ids=str)
@pytest.mark.parametrize("n", [1, 31, 32, 33, 511, 512, 513, 4096, 4097, 70_000])
def test_one_index_out_of_bounds_is_found_wherever_it_stands(dtype: fl.dtype, n: int) -> None:
    x = fl.arange(7.0)
    index = fl.arange(n) % 7
    np.testing.assert_array_equal(x[index.to(dtype)].numpy(), np.arange(n) % 7)
    for at in {0, n // 2, n - 1}:
        for wrong in (7, -8, 2**31 - 1, -(2**31), *((2**63 - 1, -(2**63)) if dtype is fl.int64 else ())):
            bad = index.to(dtype)
            bad[at] = wrong
            with pytest.raises(IndexError, match=str(wrong)):
                x[bad]
            if dtype is fl.int64:
                with pytest.raises(IndexError, match=str(wrong)):
                    fl.take(x, bad)
        bad = index.to(dtype)
        bad[at] = -1  # counts from the end for an index, and is none of gather's
        assert float(x[bad][at]) == 6
        with pytest.raises(IndexError, match="-1"):
            x.gather(0, bad.long())


@pytest.mark.parametrize("n", [3, 512, 1025])
def test_targets_to_ignore_stand_among_others(n: int) -> None:
    logits = fl.zeros(n, 5)
    target = fl.arange(n) % 5
    target[::3] = -100
    assert float(fl.nn.functional.cross_entropy(logits, target)) == pytest.approx(np.log(5))
    assert np.isnan(float(fl.nn.functional.cross_entropy(logits, fl.full((n,), -100))))
    for wrong in (5, -1, 2**63 - 1, -(2**63)):
        target[n - 2] = wrong
        with pytest.raises(IndexError, match=str(wrong)):
            fl.nn.functional.cross_entropy(logits, target)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16, fl.int64, fl.uint8], ids=str)
@pytest.mark.parametrize("shape", [(5,), (7,), (3, 9), (6, 4)])
@pytest.mark.parametrize("dim", [0, -1])
def test_rows_are_scattered_into_in_order(dtype: fl.dtype, shape: tuple[int, ...], dim: int) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, shape[dim], shape)
    x, source = (fl.tensor(rng.integers(0, 9, shape)).to(dtype) for _ in range(2))
    put, added = x.double().numpy().copy(), x.double().numpy().copy()
    marked, most = put.copy(), put.copy()
    for place in np.ndindex(*shape):  # the last of equals stays
        to = list(place)
        to[dim] = index[place]
        value = float(source[place])
        put[tuple(to)] = value
        marked[tuple(to)] = 3
        added[tuple(to)] += value
        most[tuple(to)] = max(most[tuple(to)], value)
    at = fl.tensor(index)
    np.testing.assert_array_equal(x.scatter(dim, at, source).double().numpy(), put)
    np.testing.assert_array_equal(x.scatter(dim, at, 3).double().numpy(), marked)
    np.testing.assert_array_equal(x.scatter_add(dim, at, source).double().numpy(), added)
    np.testing.assert_array_equal(x.scatter_reduce(dim, at, source, "amax").double().numpy(), most)


def test_means_of_whole_rows_where_some_get_nothing() -> None:
    x = fl.arange(80.0).view(4, 20)
    source = fl.ones(3, 20) * fl.tensor([[10.0], [20.0], [40.0]])
    index = fl.tensor([[1], [1], [3]]).expand(3, 20)
    for self_too in (True, False):
        found = x.scatter_reduce(0, index, source, "mean", include_self=self_too).numpy()
        expected = x.numpy().copy()
        expected[1] = (expected[1] + 30) / 3 if self_too else 15
        expected[3] = (expected[3] + 40) / 2 if self_too else 40
        np.testing.assert_array_equal(found, expected)


def test_erf_of_small_and_large_numbers() -> None:
    x = np.concatenate([np.geomspace(1e-44, 1, 4000), np.linspace(0, 5, 4001), [np.inf]]).astype(np.float32)
    exact = special.erf(x.astype(np.float64))
    spacing = np.spacing(exact.astype(np.float32)).astype(np.float64)
    for sign in (1, -1):
        found = fl.tensor(sign * x).erf().double().numpy()
        assert np.max(np.abs(found - sign * exact) / spacing) < 3
    assert np.isnan(float(fl.tensor(np.nan, dtype=fl.float32).erf()))
    assert np.signbit(fl.tensor(-0.0).erf().numpy())


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
def test_parts_of_numbers_of_every_size(dtype: fl.dtype) -> None:
    wide = np.float32 if dtype is fl.float32 else np.float64
    least = float(np.finfo(wide).smallest_subnormal)
    x = np.concatenate([np.geomspace(least, np.finfo(wide).max, 999, dtype=wide), [0, 1, 0.5, np.inf, np.nan]]).astype(wide)
    x = np.concatenate([x, -x])
    mantissa, exponent = fl.frexp(fl.tensor(x))
    m, e = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), m)
    np.testing.assert_array_equal(np.signbit(mantissa.numpy())[~np.isnan(x)], np.signbit(x)[~np.isnan(x)])
    np.testing.assert_array_equal(exponent.numpy(), np.where(np.isfinite(x), e, 0))


@pytest.mark.parametrize("shape, dim, size, step", [((12,), 0, 3, 1), ((12,), 0, 4, 5), ((3, 11, 4), 1, 5, 2), ((2, 9), 1, 9, 1), ((1, 40_000), 1, 512, 128), ((), 0, 1, 1)])
def test_windows_are_added_back_where_they_were(shape: tuple[int, ...], dim: int, size: int, step: int) -> None:
    x = fl.zeros(shape, dtype=fl.float64, requires_grad=True)
    y = x.unfold(dim, size, step)
    dy = np.random.default_rng(0).integers(-9, 9, tuple(y.shape)).astype(np.float64)
    y.backward(fl.tensor(dy))
    expected = np.zeros(shape or (1,))
    lines = np.moveaxis(expected, dim, -1)
    windows = np.moveaxis(dy.reshape((1, size) if not shape else dy.shape), dim, -2)
    for w in range(windows.shape[-2]):
        lines[..., w * step : w * step + size] += windows[..., w, :]
    np.testing.assert_array_equal(x.grad.numpy(), expected.reshape(shape))


def test_combinations_are_in_the_order_of_itertools() -> None:
    for n in (0, 1, 2, 5, 7):
        x = fl.arange(n) * 10
        for r in (0, 1, 2, 3, 5, 8):
            for again in (False, True):
                choose = itertools.combinations_with_replacement if again else itertools.combinations
                found = fl.combinations(x, r, again)
                if r == 0:
                    assert found.shape == (0,)
                    continue
                expected = np.array(list(choose(range(0, 10 * n, 10), r)), dtype=np.int64).reshape(-1, r)
                assert found.dtype is fl.int64 and tuple(found.shape) == expected.shape
                np.testing.assert_array_equal(found.numpy(), expected)


def test_combinations_of_more_than_there_are_take_no_time() -> None:
    x = fl.tensor([3.0])
    assert fl.combinations(x, 2**40).shape == (0, 2**40)
    assert fl.equal(fl.combinations(x, 10**6, True), fl.full((1, 10**6), 3.0))


@pytest.mark.parametrize("dtype", [fl.float32, fl.int64, fl.bfloat16], ids=str)
def test_axes_that_repeat_are_reduced_with_the_others(dtype: fl.dtype) -> None:
    rng = np.random.default_rng(2)
    for shape, full in [((1, 5, 7), (4, 5, 7)), ((6, 1), (6, 300)), ((1, 1), (3, 5)), ((3, 1, 8), (3, 9, 8)), ((1, 4, 1, 5), (3, 4, 6, 5))]:
        small = fl.tensor(rng.integers(-9, 9, shape)).to(dtype)
        x = small.expand(full)
        values = np.broadcast_to(small.double().numpy(), full)
        for dims in [None, *itertools.chain.from_iterable(itertools.combinations(range(len(full)), k) for k in range(1, len(full) + 1))]:
            given = () if dims is None else (dims,)
            np.testing.assert_allclose(x.sum(*given).double().numpy(), values.sum(dims), rtol=2**-8 if dtype is fl.bfloat16 else 0)
            np.testing.assert_array_equal(fl.amax(x, dims or tuple(range(len(full)))).double().numpy(), values.max(dims))
            np.testing.assert_array_equal((x != 0).all(dims or tuple(range(len(full)))).numpy(), (values != 0).all(dims))


def test_gradients_of_running_products_of_many_lines() -> None:
    rng = np.random.default_rng(4)
    for shape, dim in [((19, 6), 1), ((6, 19), 0), ((3, 5, 7), 1), ((9,), 0), ((300, 40), 1)]:
        x = rng.standard_normal(shape)
        x.reshape(-1)[:: max(3, x.size // 7)] = 0
        dy = rng.standard_normal(shape)
        given = fl.tensor(x, requires_grad=True)
        given.cumprod(dim).backward(fl.tensor(dy))
        lines, grads = np.moveaxis(x, dim, -1), np.moveaxis(dy, dim, -1)
        expected = np.zeros_like(lines)
        for k in range(lines.shape[-1]):
            rest = lines.copy()
            rest[..., k] = 1
            expected[..., k] = (np.cumprod(rest, -1) * grads)[..., k:].sum(-1)
        np.testing.assert_allclose(np.moveaxis(given.grad.numpy(), dim, -1), expected, rtol=1e-9, atol=1e-12)
