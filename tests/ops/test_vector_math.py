"""Errors of vector functions in units of the last place, as csrc/base/vmath*.h states them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import flambeau as fl
from flambeau._C import ops


def ulps(got, want, terms=0):
    """The largest error, in units of the last place of float32 results or of larger `terms` that they are a sum of."""
    unit = np.spacing(np.maximum(np.abs(want), terms).astype(np.float32)).astype(np.float64)
    return (np.abs(got.astype(np.float64) - want) / unit).max()


@pytest.mark.parametrize(("low", "high"), [(-4, 8), (-14.5, -4), (-1e-3, 1e-3)])
def test_gelu_is_right_to_the_last_places_in_both_tails(low, high):
    x = np.linspace(low, high, 200001).astype(np.float32)
    wide = x.astype(np.float64)
    assert ulps(fl.nn.functional.gelu(fl.tensor(x)).numpy(), wide * special.ndtr(wide)) < 4


def test_the_gradient_of_gelu():
    x = np.linspace(-14, 14, 200001).astype(np.float32)
    wide = x.astype(np.float64)
    density = np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    want = special.ndtr(wide) + wide * density
    got = ops.gelu_erf_backward(fl.ones(len(x)), fl.tensor(x)).numpy()
    terms = np.where(x < 0, np.maximum(special.ndtr(wide), -wide * density), 0)
    assert ulps(got, want, terms) < 4


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_slopes_at_the_ends(dtype):
    x = fl.tensor([fl.inf, -fl.inf, fl.nan, 1e30, -1e30, 3e38, -3e38, 0.0, -0.0], dtype=dtype)
    one = fl.ones(len(x), dtype=dtype)
    for f in (ops.gelu_erf_backward, ops.gelu_tanh_backward):
        got = f(one, x).tolist()
        assert got[2] != got[2] and got[:2] + got[3:] == [1, 0, 1, 0, 1, 0, 0.5, 0.5]
    for f, at_zero in ((ops.silu_backward, 0.5), (ops.mish_backward, 0.6)):
        got = f(one, x)
        assert got[2].isnan() and got[3:7].tolist() == [1, 0, 1, 0] and got[7:].tolist() == pytest.approx([at_zero] * 2)
    for f in (ops.gelu_erf_second, ops.gelu_tanh_second, ops.silu_second, ops.mish_second, lambda x: ops.erf_backward(one, x)):
        got = f(x)
        assert got[2].isnan() and got[3:7].tolist() == [0, 0, 0, 0] and got[7] == got[8] > 0


def test_gelu_at_the_ends():
    x = fl.tensor([fl.inf, fl.nan, -1e30, -20.0, 1e30, 20.0, 0.0, 1e-40])
    y = fl.nn.functional.gelu(x).numpy()
    assert y[0] == np.inf and np.isnan(y[1])
    assert y[2:7].tolist() == [0.0, 0.0, np.float32(1e30), 20.0, 0.0]
    assert abs(float(y[7]) - float(np.float32(5e-41))) <= 2.0**-149  # a step of the denormals


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, 2.0, 1.7, 0, 4, -2])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_powers_whether_they_have_ops_of_their_own_or_not(exponent, dtype):
    x = fl.tensor([0.25, 1.0, 3.5, 1e-3, 700.0], dtype=dtype, requires_grad=True)
    want = x.detach().numpy().astype(np.float64) ** exponent
    rtol = 1e-6 if dtype == fl.float32 else 1e-14
    for y in (x**exponent, x.pow(exponent), fl.pow(x, exponent), fl.pow(x, fl.tensor(float(exponent), dtype=dtype))):
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=rtol)
    (x**exponent).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), exponent * x.detach().numpy().astype(np.float64) ** (exponent - 1), rtol=rtol)
    z = x.detach().clone()
    assert z.pow_(exponent) is z
    z **= 1
    np.testing.assert_allclose(z.numpy(), want, rtol=rtol)


# Bases and exponents of doubles: near 1 with large exponents, all of the range, results that are denormal, negative bases.
POWERS = {
    "near 1": lambda r, n: (1 + r.normal(size=n) * 1e-3, r.normal(size=n) * 2e5),
    "next to 1": lambda r, n: (1 - 2.0**-53 * r.integers(1, 8, n), r.uniform(-1, 1, n) * 2.0**63),
    "without an exponent": lambda r, n: (r.uniform(0.7072, 1.41, n), r.uniform(-2200, 2200, n)),
    "all sizes": lambda r, n: (np.exp(r.uniform(-745, 700, n)), r.uniform(-1.05, 1.05, n)),
    "denormal results": lambda r, n: (r.uniform(1.5, 10, n), r.uniform(-330, -290, n)),
    "negative": lambda r, n: (-r.uniform(0, 10, n), r.integers(-30, 30, n).astype(float)),
}


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the reference is NumPy's longdouble")
@pytest.mark.parametrize("name", POWERS)
def test_powers_of_doubles_are_right_to_the_last_places(name):
    x, y = POWERS[name](np.random.default_rng(0), 100_003)
    got = fl.pow(fl.tensor(x), fl.tensor(y)).numpy()
    for k in range(0, len(x), 10_007):  # a number for either operand takes loops of its own
        assert fl.pow(fl.tensor(x), y[k])[k].item() == fl.pow(x[k], fl.tensor(y))[k].item() == got[k]
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        want = wide.astype(np.float64)
        finite = np.isfinite(want) & (want != 0)
        errors = np.abs(got[finite] - wide[finite]) / np.spacing(np.abs(want[finite]))
    assert errors.max() < 2
    assert got[~finite].tolist() == want[~finite].tolist()


def test_powers_of_doubles_at_the_ends():
    ends = [0.0, 1.0, np.inf, 0.5, 2.0, 3.0, 1.5, 0.1, 5e-324, 1e-310, 2.0**-1022, 1.7976931348623157e308, 1 + 2.0**-52, 1 - 2.0**-53]
    ends += [2.0**52 + 1, 2.0**53 + 1, 1e18, 1e300, 1023.0, 1024.0, 1074.0, 1075.0, 1076.0]
    ends = [v * sign for v in ends for sign in (1, -1)] + [np.nan]
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    got = fl.pow(fl.tensor(x), fl.tensor(y)).numpy()
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))
    np.testing.assert_allclose(got, want, rtol=5e-16, atol=5e-324)


def test_powers_in_place_are_those_out_of_place():
    x = fl.tensor([-0.0, -fl.inf, fl.inf, 2.0, fl.nan])
    for exponent in (0.5, -0.5, -1, 2, 3, 1.5):
        y = x.clone()
        y **= exponent
        assert str(y.tolist()) == str((x**exponent).tolist()) == str(x.clone().pow_(exponent).tolist()), exponent


def test_the_gradient_of_a_cube_in_16_bits_is_rounded_once():
    x = fl.tensor([300.0, 1e-4], dtype=fl.float16, requires_grad=True)
    (x**3).backward(fl.tensor([1e-3, 1024.0], dtype=fl.float16))
    np.testing.assert_allclose(x.grad.float().numpy(), [270, 3.07e-5], rtol=5e-3)


def test_a_power_is_called_pow_in_errors():
    with pytest.raises(fl.ShapeError, match="^pow: "):
        fl.ones(3) ** fl.ones(4)


def test_powers_of_integers_stay_integers_or_refuse():
    x = fl.tensor([-3, 0, 5])
    assert (x**2).tolist() == [9, 0, 25] and (x**3).tolist() == [-27, 0, 125] and (x**2).dtype == fl.int64
    with pytest.raises(fl.DTypeError, match="pow"):
        x.pow_(0.5)
    assert x.tolist() == [-3, 0, 5]


def test_logarithms_of_what_is_rare_among_others():
    """Blocks of numbers that all have the usual path, and blocks where one does not: the same elements."""
    rng = np.random.default_rng(3)
    rare = [0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 5e-324, 1.0, 2.0]
    for name, of in [("log", np.log), ("logit", special.logit)]:
        for dtype, tolerance in [("f4", 4e-7), ("f8", 8e-16)]:
            a = rng.uniform(0.01, 0.99, 1500).astype(dtype)
            alone = getattr(fl, name)(fl.from_numpy(a)).numpy()
            b = a.copy()
            b[np.arange(len(rare)) * 107 + 50] = rare
            with np.errstate(all="ignore"):
                want = of(b.astype("f8"))
            got = getattr(fl, name)(fl.from_numpy(b)).numpy()
            same = a == b
            assert np.allclose(got[same], alone[same], rtol=tolerance, atol=0)
            assert np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True), name
