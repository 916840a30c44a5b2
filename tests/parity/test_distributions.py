"""Distributions beside PyTorch: shapes, moments, densities with gradients, quantiles, supports, divergences and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from beside import assert_same, torch
from support.distributions import PARAMETERS, make

import flambeau as fl

BATCHES = [(), (3,), (2, 1, 3)]
# PyTorch takes log1p(-concentration0), which is NaN above 1, and Bessel functions of seven digits; its entropy of expanded
# counts is refused. What is right is tested against SciPy.
OURS_IS_RIGHT = {("Kumaraswamy", "mode"), ("VonMises", "variance"), ("VonMises", "stddev"), ("Multinomial", "expanded entropy")}
ONE_TYPE = {"GeneralizedPareto": "float32"}  # PyTorch mixes types in others


def both(name, batch, seed=0, grad=False, **kwargs):
    dtype = ONE_TYPE.get(name, "float64")
    ours, given = make(name, batch, seed, fl, dtype, grad, **kwargs)
    theirs, also = make(name, batch, seed, torch, dtype, grad, **kwargs)
    return ours, theirs, [(given[k], also[k]) for k in given if isinstance(also[k], torch.Tensor)]


def outcome(function):
    """What a call gives: a value, or that it is not there, or that it is refused."""
    try:
        return function(), None
    except NotImplementedError:
        return None, NotImplementedError
    except (ValueError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        return None, type(error) if isinstance(error, ValueError) else Exception


def close(ours, theirs, scale=1.0, what=""):
    """float64 with this many times the usual tolerance; float32 needs less."""
    assert_same(ours, theirs, scale=scale if "64" in str(getattr(theirs, "dtype", "64")) else min(scale, 30.0), what=what)


def same_outcome(mine, yours, what, scale=1.0):
    (got, error), (want, expected) = outcome(mine), outcome(yours)
    assert error is expected or (error and expected), f"{what}: {error} and {expected}"
    if expected is None:
        close(got, want, scale, what)


def draws(theirs, shape=(4,)):
    torch.manual_seed(1)
    value = theirs.sample(shape)
    return fl.tensor(value.numpy()), value


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", list(PARAMETERS))
def test_shapes_and_moments(name, batch, seed):
    ours, theirs, _ = both(name, batch, seed)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape) and tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert bool(ours.has_rsample) == bool(theirs.has_rsample) and ours.has_enumerate_support == theirs.has_enumerate_support
    assert set(ours.arg_constraints) == set(theirs.arg_constraints)
    assert (ours.support.event_dim, ours.support.is_discrete) == (theirs.support.event_dim, theirs.support.is_discrete)
    for what in ("mean", "mode", "variance", "stddev"):
        if (name, what) not in OURS_IS_RIGHT:
            same_outcome(lambda what=what: getattr(ours, what), lambda what=what: getattr(theirs, what), what, scale=100)
    for what in ("entropy", "perplexity"):
        same_outcome(lambda what=what: getattr(ours, what)(), lambda what=what: getattr(theirs, what)(), what, scale=100)
    for expand in (True, False):
        same_outcome(lambda: ours.enumerate_support(expand), lambda: theirs.enumerate_support(expand), "enumerate_support")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", list(PARAMETERS))
def test_densities_and_their_gradients(name, batch, seed):
    ours, theirs, pairs = both(name, batch, seed, grad=True)
    x, y = draws(theirs)
    got, want = ours.log_prob(x), theirs.log_prob(y)
    close(got, want, 1e4, "log_prob")
    weights = np.random.default_rng(seed).normal(size=tuple(want.shape))
    (got * fl.tensor(weights)).sum().backward()
    (want * torch.tensor(weights)).sum().backward()
    for a, b in pairs:
        theirs_grad = torch.zeros_like(b) if b.grad is None else b.grad
        ours_grad = fl.zeros_like(a) if a.grad is None else a.grad
        if name.endswith(":tril") and b.ndim == len(batch) + 2:  # what is above the diagonal is not read, or is, and is zero
            ours_grad, theirs_grad = ours_grad.tril(), theirs_grad.tril()
        close(ours_grad, theirs_grad, 1e5, "gradient")
    assert_same(ours.support.check(x), theirs.support.check(y), what="support")
    same_outcome(lambda: ours.cdf(x), lambda: theirs.cdf(y), "cdf", scale=1e4)
    q = np.random.default_rng(seed).uniform(0.01, 0.99, tuple(theirs.batch_shape))
    same_outcome(lambda: ours.icdf(fl.tensor(q)), lambda: theirs.icdf(torch.tensor(q)), "icdf", scale=1e4)


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_expanded(name):
    ours, theirs, _ = both(name, (3,), 5)
    ours, theirs = ours.expand((2, 3)), theirs.expand((2, 3))
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape) and tuple(ours.event_shape) == tuple(theirs.event_shape)
    x, y = draws(theirs)
    close(ours.log_prob(x), theirs.log_prob(y), 1e4)
    for what in ("variance", "entropy"):
        if not {(name, what), (name, f"expanded {what}")} & OURS_IS_RIGHT:
            value = [lambda d=d, what=what: d.variance if what == "variance" else d.entropy() for d in (ours, theirs)]
            same_outcome(*value, what, scale=100)
    assert tuple(ours.sample((5,)).shape) == tuple(theirs.sample((5,)).shape)
    assert tuple(ours.expand((4, 2, 3)).sample().shape) == tuple(theirs.expand((4, 2, 3)).sample().shape)


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_values_outside(name):
    ours, theirs, _ = both(name, (3,), 2)
    x, y = draws(theirs, ())
    for change in (lambda v: v - 1000, lambda v: v + 0.4, lambda v: v * float("nan"), lambda v: v[:2], lambda v: v[..., :1], lambda v: -v, lambda v: "no"):
        def call(d, v, change=change):
            return d.log_prob(change(v.to(y.dtype) if isinstance(v, torch.Tensor) else v))
        same_outcome(lambda: call(ours, x), lambda: call(theirs, y), "value", scale=1e4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(PARAMETERS))
def test_types_of_draws(name, dtype):
    ours, _ = make(name, (2,), 0, fl, dtype)
    theirs, _ = make(name, (2,), 0, torch, dtype)
    if ONE_TYPE.get(name, dtype) != dtype:
        pytest.skip("PyTorch mixes types there")
    a, b = ours.sample((3,)), theirs.sample((3,))
    assert (tuple(a.shape), str(a.dtype).split(".")[-1]) == (tuple(b.shape), str(b.dtype).split(".")[-1])
    assert str(ours.log_prob(a).dtype).split(".")[-1] == str(theirs.log_prob(b).dtype).split(".")[-1]


PAIRS = [n for n in PARAMETERS if ":" not in n and n != "Wishart"]  # of batches of which PyTorch adds up what is per matrix


@pytest.mark.parametrize("p, q", list(itertools.product(PAIRS, PAIRS)))
def test_divergences(p, q):
    ours_p, theirs_p, _ = both(p, (3,), 1)
    ours_q, theirs_q, _ = both(q, (3,), 2)
    try:
        want = torch.distributions.kl_divergence(theirs_p, theirs_q)
    except NotImplementedError:
        return  # more is known here, and checked against Monte Carlo
    got = fl.distributions.kl_divergence(ours_p, ours_q)
    close(got, want, 1e3)


WRONG = {
    "scale": lambda d, t: d.Normal(t(0.0), t(-1.0)),
    "nan": lambda d, t: d.Normal(t(float("nan")), t(1.0)),
    "shapes": lambda d, t: d.Normal(t([1.0, 2.0]), t([1.0, 2.0, 3.0])),
    "text": lambda d, t: d.Normal("a", 1.0),
    "both": lambda d, t: d.Bernoulli(probs=t(0.5), logits=t(0.0)),
    "neither": lambda d, t: d.Bernoulli(),
    "probability": lambda d, t: d.Bernoulli(t(1.5)),
    "categorical_scalar": lambda d, t: d.Categorical(t(1.0)),
    "categorical_negative": lambda d, t: d.Categorical(t([-1.0, 2.0])),
    "dirichlet_scalar": lambda d, t: d.Dirichlet(t(1.0)),
    "uniform": lambda d, t: d.Uniform(t(1.0), t(0.0)),
    "mvn_none": lambda d, t: d.MultivariateNormal(t([0.0, 0.0])),
    "mvn_scalar": lambda d, t: d.MultivariateNormal(t(0.0), t([[1.0]])),
    "mvn_indefinite": lambda d, t: d.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])),
    "mvn_asymmetric": lambda d, t: d.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 0.5], [0.0, 1.0]])),
    "mvn_matrix": lambda d, t: d.MultivariateNormal(t([0.0, 0.0]), t([1.0, 1.0])),
    "lowrank": lambda d, t: d.LowRankMultivariateNormal(t([0.0, 0.0]), t([[1.0]]), t([1.0, 1.0])),
    "independent": lambda d, t: d.Independent(d.Normal(t([0.0]), t([1.0])), 2),
    "lkj": lambda d, t: d.LKJCholesky(1),
    "wishart": lambda d, t: d.Wishart(t(0.5), t([[1.0, 0.0], [0.0, 1.0]])),
    "mixture": lambda d, t: d.MixtureSameFamily(d.Categorical(t([1.0, 1.0])), d.Normal(t([0.0, 0.0, 0.0]), t(1.0))),
    "mixture_kind": lambda d, t: d.MixtureSameFamily(d.Normal(t([0.0]), t([1.0])), d.Normal(t([0.0]), t(1.0))),
    "mixture_scalar": lambda d, t: d.MixtureSameFamily(d.Categorical(t([1.0])), d.Normal(t(0.0), t(1.0))),
    "transform": lambda d, t: d.TransformedDistribution(d.Normal(t(0.0), t(1.0)), "exp"),
    "kl": lambda d, t: d.kl_divergence(d.Normal(t(0.0), t(1.0)), d.Poisson(t(1.0))),
    "multinomial": lambda d, t: d.Multinomial(t(3.0), t([0.5, 0.5])),
    "rsample": lambda d, t: d.Poisson(t(1.0)).rsample(),
    "cdf": lambda d, t: d.Poisson(t(1.0)).cdf(t(1.0)),
    "icdf": lambda d, t: d.Gamma(t(1.0), t(1.0)).icdf(t(0.5)),
    "cache": lambda d, t: d.ExpTransform(cache_size=2),
    "reshape": lambda d, t: d.ReshapeTransform((2, 3), (5,)),
    "registry": lambda d, t: d.biject_to(d.constraints.one_hot),
    "geometric": lambda d, t: d.Geometric(t(0.0)),
    "expand": lambda d, t: d.Normal(t([0.0, 0.0]), t(1.0)).expand((3,)),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_calls(case):
    with pytest.raises(Exception) as theirs:
        WRONG[case](torch.distributions, torch.tensor)
    with pytest.raises(Exception) as ours:
        WRONG[case](fl.distributions, fl.tensor)
    assert str(ours.value)
    if theirs.type in (ValueError, NotImplementedError):
        assert issubclass(ours.type, theirs.type), f"{ours.type} and {theirs.type}"


TRANSFORMS = {
    "Abs": (lambda d, t: d.AbsTransform(), ()), "Affine": (lambda d, t: d.AffineTransform(t(0.5), t(-2.0)), ()),
    "AffineVector": (lambda d, t: d.AffineTransform(t([0.5, 1.0, 2.0]), t([2.0, -1.0, 0.5]), event_dim=1), (3,)), "Exp": (lambda d, t: d.ExpTransform(), ()),
    "AffineNumbers": (lambda d, t: d.AffineTransform(0.5, -2.0, event_dim=1), (3,)),
    "Power": (lambda d, t: d.ComposeTransform([d.ExpTransform(), d.PowerTransform(t(1.5))]), ()), "Sigmoid": (lambda d, t: d.SigmoidTransform(), ()), "Softplus": (lambda d, t: d.SoftplusTransform(), ()),
    "Tanh": (lambda d, t: d.TanhTransform(), ()), "Softmax": (lambda d, t: d.SoftmaxTransform(), (3,)), "StickBreaking": (lambda d, t: d.StickBreakingTransform(), (3,)),
    "CorrCholesky": (lambda d, t: d.CorrCholeskyTransform(), (6,)), "LowerCholesky": (lambda d, t: d.LowerCholeskyTransform(), (3, 3)), "PositiveDefinite": (lambda d, t: d.PositiveDefiniteTransform(), (3, 3)),
    "Independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), (3,)), "Reshape": (lambda d, t: d.ReshapeTransform((6,), (2, 3)), (6,)),
    "Cat": (lambda d, t: d.CatTransform([d.ExpTransform(), d.SigmoidTransform()], dim=-1, lengths=[2, 1]), (3,)), "Stack": (lambda d, t: d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], dim=-1), (2,)),
    "Cdf": (lambda d, t: d.CumulativeDistributionTransform(d.Normal(t(0.5), t(2.0))), ()), "Compose": (lambda d, t: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.TanhTransform(), d.StickBreakingTransform()]), (3,)),
    "Inverse": (lambda d, t: d.ComposeTransform([d.SigmoidTransform(), d.SigmoidTransform().inv, d.AffineTransform(t(1.0), t(3.0)).inv]), ()),
}  # fmt: skip


def options(lib):
    return lambda v: lib.tensor(v, dtype=lib.float64)


@pytest.mark.parametrize("cache", [0, 1])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_transforms(name, batch, cache):
    make_one, event = TRANSFORMS[name]
    ours, theirs = make_one(fl.distributions, options(fl)), make_one(torch.distributions, options(torch))
    if cache:
        ours, theirs = ours.with_cache(), theirs.with_cache()
    x = np.random.default_rng(3).normal(size=(*batch, *event))
    a, b = fl.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    ya, yb = ours(a), theirs(b)
    assert_same(ya, yb, scale=1e3)
    same_outcome(lambda: ours.log_abs_det_jacobian(a, ya), lambda: theirs.log_abs_det_jacobian(b, yb), "jacobian", scale=1e4)
    same_outcome(lambda: ours.inv(ya), lambda: theirs.inv(yb), "inverse", scale=1e4)
    assert ours.bijective == theirs.bijective
    same_outcome(lambda: ours.sign, lambda: theirs.sign, "sign")
    same_outcome(lambda: ours.event_dim, lambda: theirs.event_dim, "event_dim")
    assert (ours.domain.event_dim, ours.codomain.event_dim) == (theirs.domain.event_dim, theirs.codomain.event_dim)
    assert tuple(ours.forward_shape(x.shape)) == tuple(theirs.forward_shape(x.shape)) == tuple(ya.shape)
    assert tuple(ours.inverse_shape(tuple(ya.shape))) == tuple(theirs.inverse_shape(tuple(yb.shape)))
    if name != "CorrCholesky":  # PyTorch's are equal to themselves alone
        assert (ours == make_one(fl.distributions, options(fl)).with_cache(cache)) == (theirs == make_one(torch.distributions, options(torch)).with_cache(cache))
    assert_same(ours.codomain.check(ya.detach()), theirs.codomain.check(yb.detach()))
    ya.sum().backward()
    yb.sum().backward()
    assert_same(a.grad, b.grad, scale=1e4)


CONSTRAINTS = {
    "boolean": lambda c, t: c.boolean, "one_hot": lambda c, t: c.one_hot, "nonnegative_integer": lambda c, t: c.nonnegative_integer, "positive_integer": lambda c, t: c.positive_integer,
    "integer_interval": lambda c, t: c.integer_interval(-1, t(2.0)), "real": lambda c, t: c.real, "real_vector": lambda c, t: c.real_vector, "positive": lambda c, t: c.positive, "nonnegative": lambda c, t: c.nonnegative,
    "greater_than": lambda c, t: c.greater_than(t(0.5)), "greater_than_eq": lambda c, t: c.greater_than_eq(1), "less_than": lambda c, t: c.less_than(0.5), "unit_interval": lambda c, t: c.unit_interval,
    "interval": lambda c, t: c.interval(-1.0, t(1.0)), "half_open_interval": lambda c, t: c.half_open_interval(0, 1), "simplex": lambda c, t: c.simplex, "lower_triangular": lambda c, t: c.lower_triangular,
    "lower_cholesky": lambda c, t: c.lower_cholesky, "corr_cholesky": lambda c, t: c.corr_cholesky, "square": lambda c, t: c.square, "symmetric": lambda c, t: c.symmetric, "positive_semidefinite": lambda c, t: c.positive_semidefinite,
    "positive_definite": lambda c, t: c.positive_definite, "multinomial": lambda c, t: c.multinomial(3), "independent": lambda c, t: c.independent(c.positive, 1),
    "cat": lambda c, t: c.cat([c.positive, c.real], -1, [1, 2]), "stack": lambda c, t: c.stack([c.positive, c.real, c.less_than(0.0)], -1),
}  # fmt: skip
VALUES = [
    np.array([[0.0, 1.0, 2.0], [-1.0, 0.5, np.nan], [np.inf, -np.inf, 0.0]]), np.eye(3), np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]), np.array([0.2, 0.3, 0.5]), np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]),
    np.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]), np.zeros((0, 3)), np.ones((2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("value", range(len(VALUES)))
@pytest.mark.parametrize("name", list(CONSTRAINTS))
def test_constraints(name, value):
    ours, theirs = CONSTRAINTS[name](fl.distributions.constraints, options(fl)), CONSTRAINTS[name](torch.distributions.constraints, options(torch))
    assert (ours.event_dim, ours.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    v = VALUES[value]
    if value == 6 and name in ("lower_triangular", "lower_cholesky", "corr_cholesky"):
        return  # PyTorch has no answer for no elements
    if name == "positive_semidefinite" and value == 5:
        v = v + np.eye(2) * 1e-9  # the smallest eigenvalue is not a rounded zero
    same_outcome(lambda: ours.check(fl.tensor(v)), lambda: theirs.check(torch.tensor(v)), name)
    for registry in ("biject_to", "transform_to"):
        try:
            want = getattr(torch.distributions, registry)(theirs)
        except NotImplementedError:
            with pytest.raises(NotImplementedError, match="no transform"):
                getattr(fl.distributions, registry)(ours)
            continue
        got = getattr(fl.distributions, registry)(ours)
        x = np.random.default_rng(1).normal(size={"cat": (3,), "stack": (3,), "corr_cholesky": (3,)}.get(name, (3, 3)))
        assert_same(got(fl.tensor(x)), want(torch.tensor(x)), scale=1e3, what=registry)
