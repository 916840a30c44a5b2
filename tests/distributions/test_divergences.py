"""Divergences against means over draws, formulas and the rules of dispatch."""

import itertools

import numpy as np
import pytest
from support.distributions import PARAMETERS, make

import flambeau as fl
from flambeau import distributions as D
from flambeau.distributions import kl

ONE_EACH = [n for n in PARAMETERS if ":" not in n]


def known(p, q):
    return kl._lookup(getattr(D, p), getattr(D, q)) is not None


# Of draws with a few huge ones, means converge too slowly to say much.
TOO_WILD = {("Pareto", q) for q in ONE_EACH} | {("Gumbel", "Gumbel"), ("Laplace", "Gumbel"), ("Normal", "Gumbel"), ("Gamma", "Gumbel")}
PAIRS = [(p, q) for p, q in itertools.product(ONE_EACH, ONE_EACH) if known(p, q) and (p, q) not in TOO_WILD]


def mean_difference(p, q, n=60_000):
    fl.manual_seed(11)
    x = p.sample((n,))
    terms = (p.log_prob(x) - q.log_prob(x)).numpy()
    return terms.mean(0), terms.std(0) / np.sqrt(n)


@pytest.mark.parametrize("p, q", PAIRS)
def test_against_means_over_draws(p, q):
    a, b = make(p, (3,), 21, fl, validate_args=False)[0], make(q, (3,), 22, fl, validate_args=False)[0]
    try:
        got = D.kl_divergence(a, b).numpy()
    except NotImplementedError:
        return  # two exponential families, or other transforms
    if {p, q} & {"OneHotCategorical", "OneHotCategoricalStraightThrough"}:
        p_, q_ = a._categorical, b._categorical
        want, error = mean_difference(p_, q_)
    else:
        want, error = mean_difference(a, b)
    finite = np.isfinite(got)
    assert (got[finite] > -1e-9).all()
    if finite.any():
        np.testing.assert_array_less(np.abs(got - want)[finite], 6 * error[finite] + 2e-3)


@pytest.mark.parametrize("name", ONE_EACH)
def test_of_itself_it_is_zero(name):
    d = make(name, (3,), 5, fl)[0]
    if not known(name, name):
        return
    try:
        value = D.kl_divergence(d, d)
    except NotImplementedError:
        assert name.startswith("Relaxed")  # known are only those of their transforms
        return
    np.testing.assert_allclose(value.numpy(), 0, atol=1e-9)


def numeric(p, q, low, high):
    x = fl.linspace(low, high, 400_001, dtype=fl.float64)
    density = p.log_prob(x).exp()
    return float(np.trapezoid((density * (p.log_prob(x) - q.log_prob(x))).nan_to_num(0.0).numpy(), x.numpy()))


@pytest.mark.parametrize(
    "p, q, low, high",
    [
        (D.Gumbel(0.3, 1.2), D.Gumbel(-0.5, 2.0), -8, 40),
        (D.Normal(0.3, 0.7), D.Gumbel(1.0, 2.0), -8, 8),
        (D.Normal(0.3, 0.7), D.Laplace(1.0, 2.0), -8, 8),
        (D.Laplace(0.3, 0.7), D.Normal(1.0, 2.0), -20, 20),
        (D.Gamma(2.0, 1.5), D.Gumbel(1.0, 2.0), 1e-9, 40),
        (D.Pareto(1.0, 5.0), D.Exponential(0.7), 1, 400),
        (D.Pareto(1.0, 5.0), D.Gamma(2.0, 0.7), 1, 400),
        (D.Pareto(1.0, 5.0), D.Pareto(0.5, 2.0), 1, 2000),
        (D.Pareto(1.0, 5.0), D.Normal(0.5, 2.0), 1, 200),
        (D.Uniform(0.2, 0.9), D.Beta(2.0, 3.0), 0.2, 0.9 - 1e-9),
        (D.Uniform(1.0, 3.0), D.Pareto(0.5, 3.0), 1, 3 - 1e-9),
        (D.Cauchy(0.0, 1.0), D.Cauchy(2.0, 3.0), -20_000, 20_000),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, D.Distribution) else "",
)
def test_against_integrals(p, q, low, high):
    p._validate_args = q._validate_args = False
    got = D.kl_divergence(p, q).item()
    assert got == pytest.approx(numeric(p, q, low, high), rel=5e-3)


@pytest.mark.parametrize(
    "p, q",
    [
        (D.Uniform(0.0, 2.0), D.Uniform(0.5, 3.0)), (D.Normal(0.0, 1.0), D.Gamma(1.0, 1.0)), (D.Gamma(1.0, 1.0), D.Beta(1.0, 1.0)),
        (D.Pareto(1.0, 1.0), D.Pareto(2.0, 1.0)), (D.Poisson(1.0), D.Bernoulli(0.5)), (D.Bernoulli(0.5), D.Bernoulli(0.0)),
        (D.Uniform(-1.0, 0.5), D.Exponential(1.0)), (D.Categorical(fl.tensor([0.5, 0.5])), D.Categorical(fl.tensor([1.0, 0.0]))),
    ],
)  # fmt: skip
def test_infinite_where_q_has_nothing(p, q):
    assert D.kl_divergence(p, q).item() == np.inf


def test_results_that_never_come_add_nothing():
    assert D.kl_divergence(D.Bernoulli(0.0), D.Bernoulli(0.5)).item() == pytest.approx(np.log(2))
    assert D.kl_divergence(D.Bernoulli(1.0), D.Bernoulli(1.0)).item() == pytest.approx(0, abs=1e-6)
    assert D.kl_divergence(D.Categorical(fl.tensor([0.0, 1.0])), D.Categorical(fl.tensor([0.5, 0.5]))).item() == pytest.approx(np.log(2))


class Family(D.ExponentialFamily):
    """A normal distribution that says nothing but its exponential family."""

    arg_constraints = {}

    def __init__(self, loc, scale):
        self.inner = D.Normal(loc, scale)
        super().__init__(self.inner.batch_shape)

    _natural_params = property(lambda self: self.inner._natural_params)
    _mean_carrier_measure = 0

    def _log_normalizer(self, x, y):
        return -x.square() / (4 * y) + 0.5 * fl.log(-fl.pi / y)


def test_an_exponential_family_needs_no_formula():
    a, b = Family(fl.tensor(0.3), fl.tensor(1.5)), Family(fl.tensor(-0.2), fl.tensor(0.7))
    assert D.kl_divergence(a, b).item() == pytest.approx(D.kl_divergence(a.inner, b.inner).item(), rel=1e-5)
    assert a.entropy().item() == pytest.approx(a.inner.entropy().item(), rel=1e-5)
    with pytest.raises(NotImplementedError, match="which are two"):
        D.kl_divergence(a, b.inner)


def test_independent_axes_are_summed():
    p, q = D.Normal(fl.zeros(4, 3), 1.0), D.Normal(fl.ones(4, 3), 2.0)
    got = D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1))
    assert fl.allclose(got, D.kl_divergence(p, q).sum(-1))
    with pytest.raises(NotImplementedError, match="with 1 and 2 axes"):
        D.kl_divergence(D.Independent(p, 1), D.Independent(q, 2))


def test_the_most_specific_pair_counts():
    class Base(D.Normal):
        pass

    class Derived(Base):
        pass

    try:
        D.register_kl(Base, D.Normal)(lambda p, q: fl.tensor(1.0))
        D.register_kl(Derived, D.Normal)(lambda p, q: fl.tensor(2.0))
        q = D.Normal(0.0, 1.0)
        assert D.kl_divergence(Base(0.0, 1.0), q).item() == 1 and D.kl_divergence(Derived(0.0, 1.0), q).item() == 2
        assert D.kl_divergence(q, q).item() == 0
        D.register_kl(Base, Derived)(lambda p, q: fl.tensor(3.0))
        with pytest.warns(RuntimeWarning, match="of Derived and Derived is ambiguous"):
            assert D.kl_divergence(Derived(0.0, 1.0), Derived(0.0, 1.0)).item() == 2
        D.register_kl(Derived, Derived)(lambda p, q: fl.tensor(4.0))
        assert D.kl_divergence(Derived(0.0, 1.0), Derived(0.0, 1.0)).item() == 4
    finally:
        for pair in [pair for pair in kl._registry if Base in pair or Derived in pair]:
            del kl._registry[pair]
        kl._lookup.cache_clear()


def test_what_is_not_known_is_refused():
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type Categorical"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Categorical(fl.ones(2)))
