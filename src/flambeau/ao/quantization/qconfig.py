"""Which observers a quantised model would have."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.nn.module import Module

__all__ = ["QConfig", "QConfigAny"]


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """What makes the observers of activations and of weights: classes, or what their `with_args` returned.

    Raises:
        ValueError: an observer is given itself.
    """

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        for name, value in (("activation", activation), ("weight", weight)):
            if isinstance(value, Module):
                raise ValueError(f"QConfig: {name} is a {type(value).__name__}; expected its class, or class.with_args(...)")
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None
