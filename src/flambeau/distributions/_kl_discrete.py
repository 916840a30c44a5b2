"""Divergences between distributions of counts and categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.one_hot_categorical import OneHotCategorical
from flambeau.distributions.poisson import Poisson
from flambeau.nn import functional as F


def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    # A result that never comes under p adds nothing; one that comes and is impossible under q adds infinity.
    ones = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, fl.inf, ones))
    zeros = ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, fl.inf, zeros))
    return ones + zeros


def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            f"kl_divergence: binomial distributions of {p.total_count} and {q.total_count} trials; expected no more in q than in p"
        )
    value = p.total_count * (p.probs * (p.logits - q.logits) + ops.log1p(-p.probs) - ops.log1p(-q.probs))
    return ops.where(p.total_count > q.total_count, fl.inf, value)


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(q.probs == 0, fl.inf, terms)
    return ops.where(p.probs == 0, 0.0, terms).sum(-1)


def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return ops.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def _infinite(p: Poisson, q: Any) -> Tensor:
    return ops.full_like(p.rate + q.probs, fl.inf)


def divergences() -> dict[tuple[type, type], Callable[[Any, Any], Tensor]]:
    """Functions by the types of p and q."""
    return {
        (Bernoulli, Bernoulli): _bernoulli, (Bernoulli, Poisson): _bernoulli_poisson, (Binomial, Binomial): _binomial,
        (Categorical, Categorical): _categorical, (Geometric, Geometric): _geometric, (OneHotCategorical, OneHotCategorical): _one_hot,
        (Poisson, Bernoulli): _infinite, (Poisson, Binomial): _infinite, (Poisson, Poisson): _poisson,
    }  # fmt: skip
