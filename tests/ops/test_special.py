"""flambeau.special beside SciPy, and in float32 by its distance from exact values in ulp."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

import flambeau as fl
from flambeau import special

inf, nan = float("inf"), float("nan")


def spread(low, high, count=400, seed=0):
    """Numbers between both, and as many that are near 0 or an end in size."""
    rng = np.random.default_rng(seed)
    even = rng.uniform(low, high, count)
    small = 10.0 ** rng.uniform(-6, np.log10(max(abs(low), abs(high))), count) * np.where(even < 0, -1, 1)
    return np.concatenate([even, small[(small >= low) & (small <= high)]])


# (SciPy's function, from, to): float64 within 1e-12 of it, but for `within` of the largest value near zeros.
UNARY = {
    "airy_ai": (lambda x: sp.airy(x)[0], -30, 20),
    "bessel_j0": (sp.j0, -40, 40),
    "bessel_j1": (sp.j1, -40, 40),
    "bessel_y0": (sp.y0, 1e-6, 40),
    "bessel_y1": (sp.y1, 1e-6, 40),
    "digamma": (sp.digamma, 0.01, 30),
    "entr": (sp.entr, -1, 30),
    "erf": (sp.erf, -6, 6),
    "erfc": (sp.erfc, -6, 26),
    "erfcx": (sp.erfcx, -26, 1e6),
    "erfinv": (sp.erfinv, -1, 1),
    "exp2": (sp.exp2, -100, 100),
    "expit": (sp.expit, -40, 40),
    "expm1": (sp.expm1, -40, 40),
    "gammaln": (sp.gammaln, 0.01, 100),
    "i0": (sp.i0, -80, 80),
    "i0e": (sp.i0e, -1e4, 1e4),
    "i1": (sp.i1, -80, 80),
    "i1e": (sp.i1e, -1e4, 1e4),
    "log1p": (sp.log1p, -1, 100),
    "log_ndtr": (sp.log_ndtr, -1e4, 8),
    "modified_bessel_i0": (sp.i0, -80, 80),
    "modified_bessel_i1": (sp.i1, -80, 80),
    "modified_bessel_k0": (sp.k0, 1e-6, 80),
    "modified_bessel_k1": (sp.k1, 1e-6, 80),
    "ndtr": (sp.ndtr, -20, 8),
    "ndtri": (sp.ndtri, 1e-300, 1),
    "psi": (sp.psi, 0.01, 30),
    "scaled_modified_bessel_k0": (sp.k0e, 1e-6, 1e5),
    "scaled_modified_bessel_k1": (sp.k1e, 1e-6, 1e5),
    "sinc": (np.sinc, -20, 20),
    "spherical_bessel_j0": (lambda x: sp.spherical_jn(0, x), -30, 30),
}


def check(got, want, rtol, atol):
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", UNARY)
def test_beside_scipy(name):
    exact, low, high = UNARY[name]
    x = spread(low, high)
    with np.errstate(all="ignore"):
        want = exact(x)
        check(getattr(special, name)(fl.tensor(x)), want, 2e-12, 3e-14)
        single = x.astype(np.float32)
        want = exact(single.astype(np.float64)).astype(np.float32)
    got = getattr(special, name)(fl.tensor(single)).numpy()
    # As many values of float32 apart as 4 ulp; SciPy's own error near zeros is beside the point there.
    apart = np.abs(got.astype(np.float64) - want) / np.spacing(np.maximum(np.abs(want), np.float32(1e-7)))
    assert np.nanmax(np.where(np.isfinite(want), apart, 0)) <= 4
    assert np.array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("name", UNARY)
def test_integers_become_floats_and_halves_stay(name):
    function = getattr(special, name)
    assert function(fl.tensor([1, 2])).dtype is fl.float32
    assert function(fl.tensor([1.0, 0.5], dtype=fl.bfloat16)).dtype is fl.bfloat16
    assert function(fl.zeros(0, 2)).shape == (0, 2)


EDGES = {
    "airy_ai": {nan: nan, inf: nan, -inf: nan},
    "bessel_j0": {0.0: 1.0, inf: nan, nan: nan},
    "bessel_j1": {0.0: 0.0, inf: nan},
    "bessel_y0": {0.0: -inf, -1.0: nan, nan: nan},
    "bessel_y1": {0.0: -inf, -1.0: nan, inf: nan},
    "entr": {0.0: 0.0, -1.0: -inf, inf: -inf, nan: nan},
    "erfcx": {inf: 0.0, -inf: inf, 0.0: 1.0, nan: nan, -30.0: inf},
    "i0e": {inf: 0.0, -inf: 0.0, 0.0: 1.0, nan: nan},
    "i1e": {inf: 0.0, -inf: -0.0, 0.0: 0.0, nan: nan},
    "log_ndtr": {inf: 0.0, -inf: -inf, nan: nan},
    "modified_bessel_k0": {0.0: inf, -1.0: nan, inf: 0.0, nan: nan},
    "modified_bessel_k1": {0.0: inf, -1.0: nan, inf: 0.0, nan: nan},
    "scaled_modified_bessel_k0": {0.0: inf, inf: 0.0},
    "ndtr": {inf: 1.0, -inf: 0.0, nan: nan, 0.0: 0.5},
    "ndtri": {0.0: -inf, 1.0: inf, -0.1: nan, 1.1: nan, nan: nan, 0.5: 0.0},
    "spherical_bessel_j0": {0.0: 1.0, inf: 0.0, -inf: 0.0, nan: nan},
}


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
@pytest.mark.parametrize("name", EDGES)
def test_edges(name, dtype):
    got = getattr(special, name)(fl.tensor(list(EDGES[name]), dtype=dtype)).tolist()
    np.testing.assert_allclose(got, list(EDGES[name].values()), rtol=3e-16, atol=0)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 20, 100])
def test_polygamma(n):
    x = spread(0.2, 40)
    check(special.polygamma(n, fl.tensor(x)), sp.polygamma(n, x), 1e-11, 1e-13)
    below = -spread(0.01, 30, 40)
    if 1 < n < 30:
        import mpmath

        want = [float(mpmath.psi(n, mpmath.mpf(float(v)))) for v in below]
        check(special.polygamma(n, fl.tensor(below)), want, 1e-9, 0)
        assert fl.tensor(-2.0).polygamma(n).item() == (inf if n % 2 else -inf)


def test_polygamma_refuses():
    with pytest.raises(ValueError, match="n = -1"):
        special.polygamma(-1, fl.ones(2))
    with pytest.raises(TypeError, match="n = 1.5; expected an int"):
        special.polygamma(1.5, fl.ones(2))
    x = fl.tensor([1.0, 2.0])
    assert x.polygamma_(1) is x and x[0].item() == pytest.approx(np.pi**2 / 6)


def test_zeta():
    x, q = 1 + spread(1e-6, 40), spread(0.01, 1000, seed=1)
    n = min(len(x), len(q))
    check(special.zeta(fl.tensor(x[:n]), fl.tensor(q[:n])), sp.zeta(x[:n], q[:n]), 1e-12, 0)
    check(special.zeta(3.0, fl.tensor([-1.5, 0.5])), [sp.zeta(3.0, 0.5) + (-1.5) ** -3 + (-0.5) ** -3, sp.zeta(3.0, 0.5)], 1e-6, 0)
    assert special.zeta(fl.tensor([1.0, 0.5, 2.0, 2.5, inf]), fl.tensor([3.0, 2.0, -2.0, -1.5, 1.0])).tolist()[0] == inf
    got = special.zeta(fl.tensor([0.5, 2.5, 2.0, inf, inf]), fl.tensor([2.0, -1.5, -2.0, 1.0, 2.0])).tolist()
    np.testing.assert_array_equal(got, [nan, nan, inf, 1.0, 0.0])


def test_incomplete_gamma():
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.uniform(0.01, 50, 400), 10 ** rng.uniform(-8, 9, 600)])
    x = np.abs(np.concatenate([a[:500] * rng.uniform(0.05, 3, 500), a[500:] + rng.uniform(-4, 4, 500) * np.sqrt(a[500:])]))
    for ours, theirs in ((special.gammainc, sp.gammainc), (special.gammaincc, sp.gammaincc)):
        want = theirs(a, x)
        kept = want > 1e-200
        check(ours(fl.tensor(a[kept]), fl.tensor(x[kept])), want[kept], 2e-12, 1e-15)
    grid = np.array([nan, inf, 0.0, 1.0, 2.0])
    got = fl.igamma(fl.tensor(grid).reshape(-1, 1), fl.tensor(grid)).numpy()
    want = [[nan, 1, 0, nan, nan], [0, nan, 0, 0, 0], [nan, 1, nan, 1, 1], [nan, 1, 0, sp.gammainc(1, 1), sp.gammainc(1, 2)], [nan, 1, 0, sp.gammainc(2, 1), sp.gammainc(2, 2)]]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.isnan(fl.igamma(fl.tensor([-1.0, 1.0]), fl.tensor([1.0, -1.0])).numpy()).all()


def test_gradient_of_incomplete_gamma_by_its_first_argument_is_refused():
    a = fl.tensor([2.0]).requires_grad_()
    with pytest.raises(fl.AutogradError, match="igamma: has no formula for the gradient by 'a'"):
        fl.igamma(a, fl.tensor([1.0])).sum().backward()


POLYNOMIALS = {
    "chebyshev_polynomial_t": sp.eval_chebyt,
    "chebyshev_polynomial_u": sp.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: sp.eval_chebyu(n, x) - (sp.eval_chebyu(n - 1, x) if n else 0),
    "chebyshev_polynomial_w": lambda n, x: sp.eval_chebyu(n, x) + (sp.eval_chebyu(n - 1, x) if n else 0),
    "shifted_chebyshev_polynomial_t": sp.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": sp.eval_sh_chebyu,
    "hermite_polynomial_h": sp.eval_hermite,
    "hermite_polynomial_he": sp.eval_hermitenorm,
    "laguerre_polynomial_l": sp.eval_laguerre,
    "legendre_polynomial_p": sp.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    function = getattr(special, name)
    x = np.random.default_rng(0).uniform(-2, 2, 50)
    for n in (0, 1, 2, 5, 12, 40):
        want = POLYNOMIALS[name](n, x)
        check(function(fl.tensor(x), n), want, 1e-9, 1e-10 * np.abs(want).max())
        check(function(fl.tensor(x), fl.full((50,), n + 0.7, dtype=fl.float64)), want, 1e-9, 1e-10 * np.abs(want).max())
    assert function(fl.ones(3), -1).tolist() == [0, 0, 0]
    assert np.isnan(function(fl.tensor([nan, 0.5]), fl.tensor([2.0, nan])).numpy()).all()
    assert np.isnan(function(fl.tensor([0.5]), fl.tensor([1e30])).item())  # without an end in sight
    if name != "laguerre_polynomial_l":  # its values stay below exp(x / 2)
        # terms that overflow do not cancel to NaN, nor does what they come to lose its sign
        assert function(fl.tensor([50.0, 300.0]), 4000).tolist() == [inf, inf]
        assert function(fl.tensor([300.0, -300.0], dtype=fl.float64), 4001).tolist() == [inf, -inf]
    with pytest.raises(TypeError, match="expected a tensor among them"):
        function(0.5, 2)


def test_multigammaln():
    x = spread(2, 30)
    check(special.multigammaln(fl.tensor(x), 4), sp.multigammaln(np.maximum(x, 1.51), 4) if x.min() > 1.5 else [sp.multigammaln(v, 4) if v > 1.5 else special.multigammaln(fl.tensor(v, dtype=fl.float64), 4).item() for v in x], 1e-12, 1e-12)
    assert fl.tensor(5.0).mvlgamma(2).item() == pytest.approx(sp.multigammaln(5.0, 2))


def test_binary_and_the_rest():
    x, y = spread(-3, 3, 50), spread(0.01, 5, 50, seed=2)
    n = min(len(x), len(y))
    check(special.xlog1py(fl.tensor(x[:n]), fl.tensor(y[:n])), sp.xlog1py(x[:n], y[:n]), 1e-12, 1e-14)
    check(special.xlogy(fl.tensor(x[:n]), fl.tensor(y[:n])), sp.xlogy(x[:n], y[:n]), 1e-12, 1e-14)
    assert special.xlog1py(fl.zeros(2), fl.tensor([-1.0, nan])).tolist()[0] == 0
    a = fl.zeros(3, requires_grad=True)
    special.xlog1py(a, fl.tensor([-1.0, -2.0, np.e - 1])).sum().backward()
    assert a.grad.tolist() == pytest.approx([0, 0, 1])
    check(special.logit(fl.tensor(y[:n] / 6), 0.1), sp.logit(np.clip(y[:n] / 6, 0.1, 0.9)), 1e-12, 1e-14)
    check(special.round(fl.tensor([1.25, -0.75]), decimals=1), [1.2, -0.8], 1e-6, 0)
    check(special.logsumexp(fl.tensor(x), 0), sp.logsumexp(x), 1e-12, 0)
    check(special.softmax(fl.tensor(x), 0), sp.softmax(x), 1e-12, 1e-300)
    check(special.log_softmax(fl.tensor(x), 0), sp.log_softmax(x), 1e-12, 1e-14)


def test_out():
    out = fl.empty(3)
    assert special.i0e(fl.ones(3), out=out) is out and out[0].item() == pytest.approx(sp.i0e(1.0))
    with pytest.raises(TypeError, match="expected a tensor"):
        special.ndtr(fl.ones(3), out=3)


@pytest.mark.parametrize("name", [n for n in dir(special) if "_polynomial_" in n])
def test_polynomials_at_their_edges(name):
    polynomial = getattr(special, name)
    x = fl.tensor([0.25, nan, 0.25, 0.25, 0.25, inf], dtype=fl.float64)
    n = fl.tensor([nan, 3.0, -1.0, 0.0, 2.0**21, 1.0], dtype=fl.float64)
    got = polynomial(x, n).tolist()
    assert np.isnan(got[0]) and np.isnan(got[1]) and np.isnan(got[4])
    assert got[2:4] == [0.0, 1.0]
    assert np.isinf(got[5])


def test_the_type_of_a_softmax_by_position():
    assert special.softmax(fl.tensor([0, 0]), 0, fl.float64).tolist() == [0.5, 0.5]


def test_multigammaln_refuses_no_dimensions():
    with pytest.raises(fl.ArgumentError, match="p = 0; expected p >= 1"):
        special.multigammaln(fl.ones(2), 0)
