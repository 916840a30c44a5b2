"""`Categorical`: one of several."""

from __future__ import annotations

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._probs import ProbsOrLogits, one_given
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, checked_tensor


class Categorical(ProbsOrLogits, Distribution):
    """Indices 0 .. n - 1 with the probabilities of the last axis of `probs` [.., n], which need not sum to 1.

    Raises:
        ValueError: both `probs` and `logits` are given, or neither, or one without an axis.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Categorical
        >>> Categorical(fl.tensor([1.0, 3.0])).log_prob(fl.tensor(1)).exp()
        tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _fl_binary = False

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        one_given("Categorical", probs, logits)
        given = logits if probs is None else probs
        assert given is not None  # one of them is
        key = "logits" if probs is None else "probs"
        if checked_tensor("Categorical", key, given).ndim < 1:
            raise ValueError(f"Categorical: `{key}` parameter must be at least one-dimensional")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _fl_expand_more(self, new: object, batch_shape: object) -> None:
        new.__dict__["_num_events"] = self._num_events

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return ops.full(self._extended_shape(), fl.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return ops.full(self._extended_shape(), fl.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        sample_shape = self._fl_sizes(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        count = sample_shape.numel()
        shape = self._extended_shape(sample_shape)
        if count == 0 or rows.shape[0] == 0:
            return ops.empty(shape, dtype=fl.int64, device=rows.device)
        return ops.multinomial(rows, count, True).T.reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, log_pmf = fl.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_pmf.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=fl.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events, dtype=fl.int64, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values
