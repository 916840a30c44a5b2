"""Distributions that are given probabilities or their logits: one is kept, the other follows when it is wanted."""

from __future__ import annotations

from typing import Any

from flambeau import Size, Tensor
from flambeau.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


class ProbsOrLogits:
    """Mixin of `probs` and `logits`. `_fl_binary`: a probability of its own each, or along the last axis."""

    _fl_binary = True

    def _fl_set_given(self, probs: Tensor | None, logits: Tensor | None) -> None:
        if probs is not None:
            self.probs = probs
        else:
            self.logits = logits

    @lazy_property
    def logits(self) -> Any:
        """Log odds, or along the last axis logarithms of probabilities."""
        return probs_to_logits(self.probs, is_binary=self._fl_binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._fl_binary)

    @property
    def _param(self) -> Tensor:
        given: Tensor = self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]
        return given

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()


def one_given(name: str, probs: Any, logits: Any) -> None:
    """Refuses both and neither.

    Raises:
        ValueError: both of probs and logits are given, or neither.
    """
    if (probs is None) == (logits is None):
        given = "neither" if probs is None else "both"
        raise ValueError(f"{name}: Either `probs` or `logits` must be specified, but not both; got {given}")
