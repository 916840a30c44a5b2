"""Divergences between distributions of numbers.

Of one family they are formulas of their own, exact where p is nearly q. Of two families they are -H(p) - E_p[log q],
where log q is made of few functions of x, whose expectations under p are in the table below; infinite where q has no
density on a part of p's support.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions.beta import Beta
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.gumbel import EULER, Gumbel
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.normal import Normal
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.uniform import Uniform

Function = Callable[[Any], Any]


def _x_log_x(x: Tensor) -> Tensor:
    return ops.xlogy(x, x)


def _mean_log_of_uniform(low: Tensor, high: Tensor) -> Tensor:
    """Of log x for x between two numbers >= 0."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


# Where the support begins and ends.
_ENDS: dict[type, Function] = {
    Beta: lambda p: (0.0, 1.0),
    ContinuousBernoulli: lambda p: (0.0, 1.0),
    Exponential: lambda p: (0.0, math.inf),
    Gamma: lambda p: (0.0, math.inf),
    Gumbel: lambda p: (-math.inf, math.inf),
    Laplace: lambda p: (-math.inf, math.inf),
    Normal: lambda p: (-math.inf, math.inf),
    Pareto: lambda p: (p.scale, math.inf),
    Uniform: lambda p: (p.low, p.high),
}

# E[log x].
_LOG: dict[type, Function] = {
    Beta: lambda p: ops.digamma(p.concentration1) - ops.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: ops.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_log_of_uniform(p.low.clamp(min=0), p.high),
}

# E[log(1 - x)].
_LOG_REST: dict[type, Function] = {
    Beta: lambda p: ops.digamma(p.concentration0) - ops.digamma(p.concentration1 + p.concentration0),
    Uniform: lambda p: _mean_log_of_uniform((1 - p.high).clamp(min=0), 1 - p.low),
}


def _log_decay_of_uniform(p: Uniform, t: Tensor) -> Tensor:
    width = t * (p.high - p.low)
    return -t * p.low + ops.log(-ops.expm1(-width) / width)


# log E[exp(-t x)].
_LOG_DECAY: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: -ops.log1p(t / p.rate),
    Gamma: lambda p, t: -p.concentration * ops.log1p(t / p.rate),
    Gumbel: lambda p, t: -t * p.loc + ops.lgamma(1 + t * p.scale),
    Normal: lambda p, t: -t * p.loc + (t * p.scale).square() / 2,
    Uniform: _log_decay_of_uniform,
}


# E_p[log q], by the family of q, of p's expectations.


def _of_beta(p: Any, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
    return (a - 1) * _LOG[_family(p)](p) + (b - 1) * _LOG_REST[_family(p)](p) - norm


def _of_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return q._fl_log_norm() + p.mean * q.logits + ops.log1p(-q.probs)


def _of_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _of_gamma(p: Any, q: Gamma) -> Tensor:
    a, rate = q.concentration, q.rate
    return a * rate.log() - ops.lgamma(a) + (a - 1) * _LOG[_family(p)](p) - rate * p.mean


def _of_gumbel(p: Any, q: Gumbel) -> Tensor:
    t = q.scale.reciprocal()
    return -q.scale.log() - (p.mean - q.loc) * t - ops.exp(t * q.loc + _LOG_DECAY[_family(p)](p, t))


def _of_normal(p: Any, q: Normal) -> Tensor:
    squares = p.variance + (p.mean - q.loc).square()
    return -q.scale.log() - math.log(2 * math.pi) / 2 - squares / (2 * q.scale.square())


def _of_pareto(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _LOG[_family(p)](p)


def _of_uniform(p: Any, q: Uniform) -> Tensor:
    return -ops.log(q.high - q.low)


def _family(p: Any) -> type:
    return next(kind for kind in type(p).__mro__ if kind in _ENDS)


# The family of q: E_p[log q], and of which families of p it is known.
_CROSS: dict[type, tuple[Callable[[Any, Any], Tensor], set[type]]] = {
    Beta: (_of_beta, set(_LOG) & set(_LOG_REST)),
    ContinuousBernoulli: (_of_continuous_bernoulli, {Beta, Uniform}),
    Exponential: (_of_exponential, {Beta, ContinuousBernoulli, Gamma, Pareto, Uniform}),
    Gamma: (_of_gamma, set(_LOG)),
    Gumbel: (_of_gumbel, set(_LOG_DECAY)),
    Normal: (_of_normal, set(_ENDS)),
    Pareto: (_of_pareto, {Exponential, Gamma, Uniform}),
    Uniform: (_of_uniform, set(_ENDS)),
}


def _cross(of: Callable[[Any, Any], Tensor], p: Any, q: Any) -> Tensor:
    """-H(p) - E_p[log q], where the support of p lies in that of q."""
    (low_p, high_p), (low_q, high_q) = _ENDS[_family(p)](p), _ENDS[_family(q)](q)
    value = -p.entropy() - of(p, q)
    outside = (low_p < low_q) | (high_p > high_q)
    return ops.where(outside, fl.inf, value) if isinstance(outside, Tensor) else value


def _infinite(p: Any, q: Any) -> Tensor:
    """Of a p that has draws where q has none, whatever their parameters are."""
    return ops.full_like(p.entropy() + q.entropy(), fl.inf)


# Of one family.


def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    norms = ops.lgamma(c) + ops.lgamma(d) + ops.lgamma(a + b) - ops.lgamma(c + d) - ops.lgamma(a) - ops.lgamma(b)
    return norms + (a - c) * ops.digamma(a) + (b - d) * ops.digamma(b) + (c + d - a - b) * ops.digamma(a + b)


def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return p.mean * (p.logits - q.logits) + p._fl_log_norm() + ops.log1p(-p.probs) - q._fl_log_norm() - ops.log1p(-q.probs)


def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norms = b * ops.log(p.rate / q.rate) + ops.lgamma(b) - ops.lgamma(a)
    return norms + (a - b) * ops.digamma(a) + (q.rate - p.rate) * (a / p.rate)


def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * EULER + ops.exp(shift + ops.lgamma(1 + ratio)) - (1 + EULER)


def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * ops.exp(-distance / p.scale) - 1


def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * ops.log(p.scale / q.scale) - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, fl.inf, value)


def _uniform(p: Uniform, q: Uniform) -> Tensor:
    value = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((q.low > p.low) | (q.high < p.high), fl.inf, value)


def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    squares = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squares.log() - (4 * p.scale * q.scale).log()


def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    z = away / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * z.square()) + away * ops.erf(z / math.sqrt(2))
    return ops.log(2 * q.scale) + distance / q.scale - p.entropy()


def divergences() -> dict[tuple[type, type], Callable[[Any, Any], Tensor]]:
    """Functions by the types of p and q."""
    result: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
    for q, (of, known) in _CROSS.items():
        for p in _ENDS:
            if p in known:
                result[p, q] = lambda p, q, of=of: _cross(of, p, q)  # type: ignore[misc]
    unbounded = {Gumbel, Laplace, Normal}
    for p in unbounded:
        result.update({(p, q): _infinite for q in _CROSS if q not in unbounded})
    for p in (Exponential, Gamma, Pareto):
        result.update({(p, q): _infinite for q in (Beta, ContinuousBernoulli, Uniform)})
    result.update({(Beta, Pareto): _infinite, (ContinuousBernoulli, Pareto): _infinite})
    result.update({(Exponential, Pareto): _infinite, (Gamma, Pareto): _infinite})
    result.update({
        (Beta, Beta): _beta, (Cauchy, Cauchy): _cauchy, (ContinuousBernoulli, ContinuousBernoulli): _continuous_bernoulli,
        (Exponential, Exponential): _exponential, (Gamma, Gamma): _gamma, (Gumbel, Gumbel): _gumbel, (HalfNormal, HalfNormal): _half_normal,
        (Laplace, Laplace): _laplace, (Normal, Laplace): _normal_laplace, (Normal, Normal): _normal, (Pareto, Pareto): _pareto,
        (Uniform, Uniform): _uniform,
    })  # fmt: skip
    return result
