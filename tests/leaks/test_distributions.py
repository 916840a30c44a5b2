"""No distribution and no transform leaves memory behind: made, drawn from, asked, inverted, copied; without the collector."""

from __future__ import annotations

import contextlib
import copy

import numpy as np
import pytest
from support.distributions import PARAMETERS
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import distributions as D

ATTRIBUTES = ("mean", "mode", "variance", "stddev", "support", "logits", "probs", "covariance_matrix", "precision_matrix", "scale_tril")


def parameters(name):
    given = PARAMETERS[name](np.random.default_rng(0), (2,))
    return {k: fl.tensor(v, requires_grad=True) if isinstance(v, np.ndarray) else v for k, v in given.items()}


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_distribution(name):
    kind = getattr(D, name.split(":")[0])

    def action():
        made = kind(**parameters(name))
        for attribute in ATTRIBUTES:
            with contextlib.suppress(AttributeError, NotImplementedError):
                getattr(made, attribute)
        drawn = made.rsample() if made.has_rsample else made.sample()
        made.log_prob(drawn).sum().backward()
        for ask in (made.entropy, lambda: made.cdf(drawn), lambda: made.icdf(fl.full_like(drawn, 0.3)), lambda: D.kl_divergence(made, made)):
            with contextlib.suppress(NotImplementedError):
                ask()
        made.expand((3, 2)).sample()
        with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
            kind(**{k: v * np.nan for k, v in parameters(name).items()}, validate_args=True)

    assert_nothing_stays(action)


# What a transform needs, and an x of it; those that need nothing and take any numbers have no entry.
ARGUMENTS = {
    "AffineTransform": lambda: (fl.ones(4), 2.0), "PowerTransform": lambda: (fl.full((4,), 2.0),), "ReshapeTransform": lambda: ((4,), (2, 2)),
    "ComposeTransform": lambda: ([D.ExpTransform(), D.AffineTransform(0.0, fl.ones(4))],), "IndependentTransform": lambda: (D.ExpTransform(), 1),
    "CatTransform": lambda: ([D.ExpTransform(), D.SigmoidTransform()], 0, [2, 2]), "StackTransform": lambda: ([D.ExpTransform()] * 4,),
    "CumulativeDistributionTransform": lambda: (D.Normal(fl.zeros(4), 1.0),),
}  # fmt: skip
GIVEN = {
    "LowerCholeskyTransform": lambda: fl.eye(2),
    "PositiveDefiniteTransform": lambda: fl.eye(2),
    "CorrCholeskyTransform": lambda: fl.rand(3),
}


@pytest.mark.parametrize("cache_size", [0, 1])
@pytest.mark.parametrize("name", [n for n in D.transforms.__all__ if n not in ("Transform", "identity_transform")])
def test_transform(name, cache_size):
    def action():
        transform = getattr(D, name)(*ARGUMENTS.get(name, tuple)(), cache_size=cache_size)
        x = GIVEN.get(name, lambda: fl.rand(4))().requires_grad_()
        y = transform(x)
        back = transform.inv
        assert back(y).shape == x.shape and back.inv(x).shape == y.shape
        if transform.bijective:
            (transform.log_abs_det_jacobian(x, y).sum() + back.log_abs_det_jacobian(y, x).sum() + y.sum()).backward()
        copy.deepcopy(getattr(D, name)(*ARGUMENTS.get(name, tuple)(), cache_size=cache_size).inv)

    assert_nothing_stays(action)


@pytest.mark.parametrize("make", [lambda: D.ExpTransform(cache_size=1), lambda: D.ComposeTransform([D.ExpTransform(), D.TanhTransform()])])
def test_an_inverse_is_there_for_as_long_as_somebody_holds_it(make):
    transform = make()
    inverse = transform.inv
    assert transform.inv is inverse and inverse.inv is transform
    x = fl.rand(3)
    assert fl.allclose(make().inv.inv(x), transform(x)) and fl.allclose(make().inv(transform(x)), x, atol=1e-6)
