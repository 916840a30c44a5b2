"""Gradients through draws: implicit ones against derivatives of distribution functions, all against moments."""

import numpy as np
import pytest
import scipy.stats as st
from support.distributions import PARAMETERS, make

import flambeau as fl
from flambeau import distributions as D


def slope(cdf, x, a, pdf):
    """-dF/da over the density, by a central difference of a few steps (Richardson)."""
    def difference(h):
        return (cdf(x, a + h) - cdf(x, a - h)) / (2 * h)

    h = 1e-3 * a if a < 1 else 1e-3 * a**0.5
    return -(4 * difference(h / 2) - difference(h)) / 3 / pdf(x)


@pytest.mark.parametrize("q", [1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 0.9999])
@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 2.5, 20.0, 300.0, 5e4])
def test_a_gamma_draw_moves_with_its_shape(a, q):
    x = st.gamma.ppf(q, a)
    got = fl._C.ops.standard_gamma_grad(fl.tensor(a, dtype=fl.float64), fl.tensor(x, dtype=fl.float64)).item()
    assert got == pytest.approx(slope(st.gamma.cdf, x, a, lambda v: st.gamma.pdf(v, a)), rel=2e-5)


def test_a_gamma_draw_of_a_large_shape_moves_as_one_of_a_less_large():
    z = np.linspace(-4, 4, 9)
    for below, above in ((0.999e6, 1.001e6),):
        slopes = []
        for a in (below, above):
            x = fl.tensor(st.gamma.ppf(st.norm.cdf(z), a), dtype=fl.float64)
            slopes.append(fl._C.ops.standard_gamma_grad(fl.full((9,), a, dtype=fl.float64), x).numpy())
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=2e-5)


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("a, b", [(0.1, 0.2), (0.5, 3.0), (3.0, 0.5), (1.0, 1.0), (7.0, 4.0), (200.0, 30.0), (0.02, 50.0), (2000.0, 1e4)])
def test_a_beta_draw_moves_with_its_first_parameter(a, b, q):
    x = st.beta.ppf(q, a, b)
    if not 1e-12 < x < 1 - 1e-12:
        return
    got = fl._C.ops.dirichlet_grad(*(fl.tensor(v, dtype=fl.float64) for v in (x, a, a + b))).item() * (1 - x)
    assert got == pytest.approx(slope(lambda v, p: st.beta.cdf(v, p, b), x, a, lambda v: st.beta.pdf(v, a, b)), rel=1e-4)


def test_a_gamma_distribution_function_has_both_derivatives():
    a = fl.tensor([0.3, 1.0, 4.0, 30.0], dtype=fl.float64, requires_grad=True)
    x = fl.tensor([0.5, 0.1, 9.0, 28.0], dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(fl._C.ops.gamma_cdf, (a, x))
    np.testing.assert_allclose(fl._C.ops.gamma_cdf(a, x).detach().numpy(), st.gamma.cdf([0.5, 0.1, 9, 28], [0.3, 1, 4, 30]), rtol=1e-12)


CHECKED = [n for n in PARAMETERS if n not in ("Geometric:logits",)]


@pytest.mark.parametrize("name", CHECKED)
def test_log_prob_by_differences(name):
    ours, given = make(name, (2,), 3, fl, grad=True)
    value = ours.sample((2,))
    kind = name.split(":")[0]
    tensors = {k: v for k, v in given.items() if isinstance(v, fl.Tensor)}
    def log_prob(*values):
        return getattr(D, kind)(**{**given, **dict(zip(tensors, values))}, validate_args=False).log_prob(value)

    inputs = tuple(tensors.values())
    if "matrix" in "".join(tensors):
        inputs = tuple(v.detach().requires_grad_() if "matrix" not in k else v.detach() for k, v in tensors.items())
    if kind not in ("Wishart", "MultivariateNormal") or "tril" not in name:
        assert fl.autograd.gradcheck(log_prob, inputs, atol=1e-5, rtol=1e-3)


WITH_RSAMPLE = [n for n in PARAMETERS if make(n, (), 0, fl)[0].has_rsample]
# Too heavy tails for means of draws, ends that move, or where draws do not depend on a parameter to first order.
HEAVY = ("ContinuousBernoulli:half", "Uniform", "Cauchy", "HalfCauchy", "FisherSnedecor", "StudentT", "Pareto", "InverseGamma", "GeneralizedPareto", "Wishart", "Wishart:tril")


@pytest.mark.parametrize("name", [n for n in WITH_RSAMPLE if n not in HEAVY and "StraightThrough" not in n])
def test_the_mean_gradient_of_a_function_of_draws(name):
    """d E[f(x)] / d parameter: through draws, and by weights exp(log_prob) of the same draws (the score function)."""
    fl.manual_seed(5)
    ours, given = make(name, (), 6, fl, grad=True)
    draws = ours.rsample((60_000,))
    f = fl.tanh(draws).reshape(60_000, -1).sum(-1)
    through = fl.autograd.grad(f.mean(), [v for v in given.values() if v.requires_grad], allow_unused=True, retain_graph=True)
    fixed = draws.detach()
    weight = (f.detach() - f.detach().mean()) * ours.log_prob(fixed)
    score = fl.autograd.grad(weight.mean(), [v for v in given.values() if v.requires_grad], allow_unused=True)
    for a, b in zip(through, score):
        if a is not None and "matrix" not in "".join(given) and name != "Dirichlet":
            np.testing.assert_allclose(a.numpy(), np.zeros(a.shape) if b is None else b.numpy(), atol=0.04)


@pytest.mark.slow
def test_dirichlet_gradients_of_moments():
    """d E[x_0^2] / d concentration in closed form."""
    fl.manual_seed(1)
    a = fl.tensor([0.7, 2.0, 4.0], dtype=fl.float64, requires_grad=True)
    draws = D.Dirichlet(a).rsample((200_000,))
    (got,) = fl.autograd.grad(draws[:, 0].square().mean(), a)
    total = a.sum()
    (want,) = fl.autograd.grad(a[0] * (a[0] + 1) / (total * (total + 1)), a)
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=3e-3)


def test_straight_through_passes_the_gradient_to_probabilities():
    probs = fl.tensor([0.2, 0.8], requires_grad=True)
    draws = D.OneHotCategoricalStraightThrough(probs).rsample((3,))
    assert set(np.round(draws.detach().numpy(), 6).ravel()) <= {0.0, 1.0}
    (draws * fl.tensor([1.0, 2.0])).sum().backward()
    assert probs.grad is not None and probs.grad.abs().sum() > 0


def test_draws_without_gradients_record_nothing():
    loc = fl.zeros(3, requires_grad=True)
    assert not D.Normal(loc, 1.0).sample().requires_grad and D.Normal(loc, 1.0).rsample().requires_grad


def test_second_derivatives_of_implicit_draws_are_refused():
    a = fl.tensor(2.0, requires_grad=True)
    (first,) = fl.autograd.grad(D.Gamma(a, 1.0).rsample(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="standard_gamma_grad"):
        first.backward()
