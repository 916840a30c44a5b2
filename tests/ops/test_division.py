"""Quotients and rests of any numbers: exact, with NumPy's signs, also where a vector loop leaves them to libm."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import flambeau as fl

RNG = np.random.default_rng(0)


def numbers(dtype: str, kind: str, n: int = 20000) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays: any bit patterns, neighbours of one, or quotients that are often whole."""
    if kind == "any":
        raw = {"float32": np.uint32, "float64": np.uint64}[dtype]
        return tuple(RNG.integers(0, np.iinfo(raw).max, n, dtype=raw).view(dtype) for _ in range(2))
    if kind == "near":
        return (RNG.standard_normal(n) * 100).astype(dtype), RNG.standard_normal(n).astype(dtype)
    return RNG.integers(-1000, 1000, n).astype(dtype), (RNG.integers(1, 50, n) * RNG.choice([-1, 1], n) / 4).astype(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["any", "near", "whole"])
def test_rests_of_floats_are_exact(dtype, kind):
    a, b = numbers(dtype, kind)
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)
        python = np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    x, y = fl.tensor(a), fl.tensor(b)
    np.testing.assert_array_equal(fl.fmod(x, y).numpy(), rest)
    np.testing.assert_array_equal(np.signbit(fl.fmod(x, y).numpy()[rest == 0]), np.signbit(rest[rest == 0]))
    np.testing.assert_array_equal(fl.remainder(x, y).numpy(), python)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["any", "near", "whole"])
def test_whole_quotients_of_floats(dtype, kind):
    a, b = numbers(dtype, kind, 3000)
    got = fl.floor_divide(fl.tensor(a), fl.tensor(b)).numpy()
    exact = 2.0 ** (24 if dtype == "float32" else 52)
    for x, y, q in zip(a, b, got, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)) or y == 0:
            continue
        want = Fraction(float(x)) / Fraction(float(y))
        if abs(want) < exact / 2:
            assert q == math.floor(want), (x, y)
    zero = got == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(a[zero]) != np.signbit(b[zero]))


@pytest.mark.parametrize("f", [fl.fmod, fl.remainder, fl.floor_divide])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_nan_and_zeros_divide_as_numpy_says(f, dtype):
    ends = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-45, 1e38], dtype)
    a, b = (g.ravel() for g in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)
        want = {
            "fmod": rest,
            "remainder": np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest),
            "floor_divide": np.where(b == 0, a / b, np.floor_divide(a, b)),
        }[f.__name__]
    got = f(fl.tensor(a), fl.tensor(b)).numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_from_end_to_end(dtype):
    info = np.iinfo(dtype)
    a = RNG.integers(info.min, info.max, 20000, dtype=dtype, endpoint=True)
    b = RNG.integers(info.min, info.max, 20000, dtype=dtype, endpoint=True)
    b[::2] = RNG.integers(1, 50, 10000) * RNG.choice([-1, 1], 10000)
    b[::7], b[b == 0] = -1, 3
    a[:20], a[20:40], b[40:60] = info.min, info.max, info.min
    if dtype == "int64":  # what doubles can not tell apart
        a[60:80], b[60:80] = 2**53 + np.arange(20) - 10, 2**53 + np.arange(20)[::-1] - 10
        a[80:100], b[80:100] = -(a[60:80]), b[60:80]
        a[100:102], b[100:102] = [2**53, -(2**53)], 2**53 + 1
    x, y = fl.tensor(a), fl.tensor(b)
    with np.errstate(all="ignore"):
        assert np.array_equal(fl.fmod(x, y).numpy(), np.fmod(a, b))
        assert np.array_equal((x % y).numpy(), np.remainder(a, b))
        assert np.array_equal((x // y).numpy(), np.floor_divide(a, b))
        assert np.array_equal(fl.div(x, y, rounding_mode="trunc").numpy(), (a - np.fmod(a, b)) // b)
    assert np.array_equal((x % 7).numpy(), a % 7) and np.array_equal((x // -3).numpy(), a // -3)


def test_integers_of_64_bits_that_doubles_hold():
    """Up to 2^51 quotients are taken by doubles: at the ends, next to products, and of every length."""
    ends = [v + d for v in (0, 2**26, 2**50, 2**51 - 4, 2**51) for d in range(-3, 4) if v + d < 2**51] + [-(2**51)]
    b = np.unique(np.concatenate([ends, -np.array(ends), 2 ** RNG.integers(1, 51, 200) - RNG.integers(0, 3, 200), RNG.integers(1, 2**25, 100)]))
    b = b[(b != 0) & (b < 2**51) & (b >= -(2**51))]
    near = (b[:, None] * RNG.integers(-9, 10, 50)).ravel()
    a = np.concatenate([near, near + 1, near - 1, RNG.integers(-(2**51), 2**51, 1000), b])
    a = a[(a < 2**51) & (a >= -(2**51))]
    a, b = RNG.permutation(np.resize(a, 120_000)), RNG.permutation(np.resize(b, 120_000))
    x, y = fl.tensor(a), fl.tensor(b)
    assert np.array_equal((x // y).numpy(), a // b) and np.array_equal((x % y).numpy(), a % b)
    assert np.array_equal(fl.fmod(x, y).numpy(), np.fmod(a, b))
    assert np.array_equal(fl.div(x, y, rounding_mode="trunc").numpy(), (a - np.fmod(a, b)) // b)
    for number in (1, -1, 3, -3, 7, 2**50, -(2**51), 2**51 - 1, 2**51, 2**60, -(2**63)):
        assert np.array_equal((x // number).numpy(), a // number) and np.array_equal((x % number).numpy(), a % number)


def test_small_integers_and_numbers():
    x = fl.tensor([-128, -7, 0, 7, 127], dtype=fl.int8)
    assert (x // 2).tolist() == [-64, -4, 0, 3, 63] and (x % 5).tolist() == [2, 3, 0, 2, 2]
    assert (x // -1).tolist() == [-128, 7, 0, -7, -127]
    assert fl.fmod(x, -5).tolist() == [-3, -2, 0, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_quotient_by_one_number_is_rounded_once(dtype):
    """Also where it is a product: by a power of two, of every exponent that there is."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(1)
    any_bits = rng.integers(0, 2**info.bits, 500, dtype=f"uint{info.bits}").view(dtype)
    edges = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, info.max, info.tiny, info.smallest_subnormal, -3 * info.smallest_subnormal], dtype)
    a = np.concatenate([any_bits, edges])
    powers = np.ldexp(np.ones(1, dtype), np.arange(info.minexp - info.nmant, info.maxexp)).astype(dtype)
    x = fl.tensor(a)
    for b in [*powers, *-powers[::9], *rng.standard_normal(40).astype(dtype), *edges]:
        with np.errstate(all="ignore"):
            want = a / b
        for got in (x / float(b), x / fl.tensor(b)):
            np.testing.assert_array_equal(got.numpy(), want, err_msg=repr(b))
            sure = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got.numpy())[sure], np.signbit(want)[sure], err_msg=repr(b))
