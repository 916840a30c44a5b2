"""`kl_divergence(p, q)`: the expectation under p of log p(x) - log q(x).

Which function computes it is looked up by the types of both, as `register_kl` noted them: the most specific pair counts.

Example:
    >>> from flambeau.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau._warn import warn
from flambeau.distributions import _kl_continuous, _kl_discrete, _kl_vectors
from flambeau.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Tensor]

_registry: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator that notes a function of p and q as the divergence between distributions of two types.

    The types are most often subclasses of `Distribution`; a library's own base class may be one of them.

    Raises:
        TypeError: something that is no class.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: {name} = {kind!r}; expected a class of distributions")

    def note(function: Divergence) -> Divergence:
        _registry[type_p, type_q] = function
        _lookup.cache_clear()
        return function

    return note


def _order(kinds: tuple[type, ...], others: tuple[type, ...]) -> int:
    """-1 where the first pair is more specific, in the order of its entries, 1 where the second is."""
    for a, b in zip(kinds, others, strict=True):
        if a is not b:
            return -1 if issubclass(a, b) else 1
    return 0


def _order_from_q(kinds: tuple[type, ...], others: tuple[type, ...]) -> int:
    return _order(kinds[::-1], others[::-1])


@functools.cache
def _lookup(type_p: Any, type_q: Any) -> Divergence | None:
    pairs = [pair for pair in _registry if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not pairs:
        return None
    by_p = min(pairs, key=functools.cmp_to_key(_order))
    by_q = min(pairs, key=functools.cmp_to_key(_order_from_q))
    if _registry[by_p] is not _registry[by_q]:
        warn(
            f"kl_divergence of {type_p.__name__} and {type_q.__name__} is ambiguous; register one for "
            f"({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
        )
    return _registry[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of Kullback and Leibler from q to p, in nats, of the batch shape of both.

    Raises:
        NotImplementedError: none is known for the types of p and q.
    """
    kinds: tuple[Any, Any] = type(p), type(q)
    function = _lookup(*kinds)
    if function is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; register one")
    return function(p, q)


for _family in (_kl_continuous, _kl_discrete, _kl_vectors):
    for _pair, _function in _family.divergences().items():
        register_kl(*_pair)(_function)
