"""`OneHotCategorical`: one of several, as a vector."""

from __future__ import annotations

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape
from flambeau.nn import functional as F


class OneHotCategorical(Distribution):
    """Vectors with a one at the index that `Categorical` would draw.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import OneHotCategorical
        >>> OneHotCategorical(fl.tensor([0.0, 1.0])).sample()
        tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _fl_expand_more(self, new: object, batch_shape: Shape) -> None:
        new.__dict__["_categorical"] = self._categorical.expand(batch_shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities, which sum to 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> fl.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = ops.eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view(n, *[1] * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws pass their gradient on to the probabilities (Bengio et al., arXiv:1308.3432)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        draws = self.sample(sample_shape)
        return draws + (self.probs - self.probs.detach())
