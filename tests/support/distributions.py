"""Parameters of every distribution at random: the same numbers for any library."""

from __future__ import annotations

import numpy as np


def _positive(rng, shape, low=0.3, high=4.0):
    return rng.uniform(low, high, shape)


def _simplex(rng, shape, n=4):
    return rng.dirichlet(np.ones(n), shape)


def _lower(rng, shape, n=3):
    return np.tril(rng.normal(size=(*shape, n, n)) * 0.5, -1) + np.eye(n) * rng.uniform(0.5, 2, (*shape, n, 1))


def _covariance(rng, shape, n=3):
    lower = _lower(rng, shape, n)
    return lower @ lower.swapaxes(-1, -2)


def _loc_scale(rng, s):
    return {"loc": rng.normal(size=s), "scale": _positive(rng, s)}


# Name: parameters by a generator and a batch shape. A second way to say the same stands under NAME:what.
PARAMETERS = {
    "Bernoulli": lambda rng, s: {"probs": rng.uniform(0.05, 0.95, s)},
    "Bernoulli:logits": lambda rng, s: {"logits": rng.normal(size=s)},
    "Beta": lambda rng, s: {"concentration1": _positive(rng, s), "concentration0": _positive(rng, s)},
    "Binomial": lambda rng, s: {"total_count": 7, "probs": rng.uniform(0.05, 0.95, s)},
    "Binomial:logits": lambda rng, s: {"total_count": 3, "logits": rng.normal(size=s)},
    "Categorical": lambda rng, s: {"probs": _simplex(rng, s)},
    "Categorical:logits": lambda rng, s: {"logits": rng.normal(size=(*s, 5))},
    "Cauchy": _loc_scale,
    "Chi2": lambda rng, s: {"df": _positive(rng, s)},
    "ContinuousBernoulli": lambda rng, s: {"probs": rng.uniform(0.05, 0.95, s)},
    "ContinuousBernoulli:half": lambda rng, s: {"probs": rng.uniform(0.4992, 0.5008, s)},
    "Dirichlet": lambda rng, s: {"concentration": _positive(rng, (*s, 4))},
    "Exponential": lambda rng, s: {"rate": _positive(rng, s)},
    "FisherSnedecor": lambda rng, s: {"df1": _positive(rng, s), "df2": _positive(rng, s, 1, 9)},
    "Gamma": lambda rng, s: {"concentration": _positive(rng, s), "rate": _positive(rng, s)},
    "GeneralizedPareto": lambda rng, s: {**_loc_scale(rng, s), "concentration": rng.uniform(-0.4, 0.4, s)},
    "Geometric": lambda rng, s: {"probs": rng.uniform(0.05, 0.95, s)},
    "Geometric:logits": lambda rng, s: {"logits": rng.normal(size=s)},
    "Gumbel": _loc_scale,
    "HalfCauchy": lambda rng, s: {"scale": _positive(rng, s)},
    "HalfNormal": lambda rng, s: {"scale": _positive(rng, s)},
    "InverseGamma": lambda rng, s: {"concentration": _positive(rng, s, 1.0, 5.0), "rate": _positive(rng, s)},
    "Kumaraswamy": lambda rng, s: {"concentration1": _positive(rng, s), "concentration0": _positive(rng, s)},
    "LKJCholesky": lambda rng, s: {"dim": 3, "concentration": _positive(rng, s)},
    "Laplace": _loc_scale,
    "LogNormal": lambda rng, s: {"loc": rng.normal(size=s), "scale": _positive(rng, s, 0.2, 1.0)},
    "LogisticNormal": lambda rng, s: {"loc": rng.normal(size=(*s, 3)), "scale": _positive(rng, (*s, 3))},
    "LowRankMultivariateNormal": lambda rng, s: {
        "loc": rng.normal(size=(*s, 3)), "cov_factor": rng.normal(size=(*s, 3, 2)), "cov_diag": _positive(rng, (*s, 3)),
    },
    "Multinomial": lambda rng, s: {"total_count": 6, "probs": _simplex(rng, s)},
    "MultivariateNormal": lambda rng, s: {"loc": rng.normal(size=(*s, 3)), "covariance_matrix": _covariance(rng, s)},
    "MultivariateNormal:precision": lambda rng, s: {"loc": rng.normal(size=(*s, 3)), "precision_matrix": _covariance(rng, s)},
    "MultivariateNormal:tril": lambda rng, s: {"loc": rng.normal(size=(*s, 3)), "scale_tril": _lower(rng, s)},
    "NegativeBinomial": lambda rng, s: {"total_count": _positive(rng, s), "probs": rng.uniform(0.05, 0.9, s)},
    "NegativeBinomial:logits": lambda rng, s: {"total_count": _positive(rng, s), "logits": rng.normal(size=s)},
    "Normal": _loc_scale,
    "OneHotCategorical": lambda rng, s: {"probs": _simplex(rng, s)},
    "OneHotCategoricalStraightThrough": lambda rng, s: {"logits": rng.normal(size=(*s, 4))},
    "Pareto": lambda rng, s: {"scale": _positive(rng, s), "alpha": _positive(rng, s, 0.5, 5.0)},
    "Poisson": lambda rng, s: {"rate": _positive(rng, s, 0.3, 20.0)},
    "RelaxedBernoulli": lambda rng, s: {"temperature": np.array(0.7), "probs": rng.uniform(0.05, 0.95, s)},
    "RelaxedOneHotCategorical": lambda rng, s: {"temperature": np.array(0.7), "logits": rng.normal(size=(*s, 4))},
    "StudentT": lambda rng, s: {"df": _positive(rng, s, 0.5, 6.0), **_loc_scale(rng, s)},
    "Uniform": lambda rng, s: (lambda low: {"low": low, "high": low + _positive(rng, s)})(rng.normal(size=s)),
    "VonMises": lambda rng, s: {"loc": rng.uniform(-3, 3, s), "concentration": _positive(rng, s, 0.01, 80.0)},
    "Weibull": lambda rng, s: {"scale": _positive(rng, s), "concentration": _positive(rng, s)},
    "Wishart": lambda rng, s: {"df": rng.uniform(3.2, 6, s), "covariance_matrix": _covariance(rng, s)},
    "Wishart:tril": lambda rng, s: {"df": rng.uniform(3.2, 6, s), "scale_tril": _lower(rng, s)},
}  # fmt: skip


def parameters(name, batch, seed, lib, dtype="float64", grad=False):
    """The parameters of a distribution as tensors of `lib`; numbers that are no arrays stay."""
    rng = np.random.default_rng([seed, len(batch), sum(batch), *name.encode()])
    given = PARAMETERS[name](rng, batch)
    tensors = {}
    for key, value in given.items():
        is_array = isinstance(value, (np.ndarray, float))
        tensors[key] = lib.tensor(value, dtype=getattr(lib, dtype), requires_grad=grad) if is_array else value
    return tensors


def make(name, batch, seed, lib, dtype="float64", grad=False, **kwargs):
    """A distribution of `lib`, and its parameters."""
    given = parameters(name, batch, seed, lib, dtype, grad)
    return getattr(lib.distributions, name.split(":")[0])(**given, **kwargs), given
