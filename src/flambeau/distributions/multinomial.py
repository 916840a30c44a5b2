"""`Multinomial`: how often each of several was drawn."""

from __future__ import annotations

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all, size


class Multinomial(Distribution):
    """Counts of each of n results in `total_count` draws with the probabilities of the last axis of `probs`.

    Raises:
        NotImplementedError: `total_count` is no int.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Multinomial
        >>> Multinomial(10, fl.tensor([1.0, 3.0])).mean
        tensor([2.5000, 7.5000])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: inhomogeneous total_count is not supported: a {type(total_count).__name__}; expected an int"
            )
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _fl_expand_more(self, new: object, batch_shape: Shape) -> None:
        new.__dict__["total_count"] = self.total_count
        new.__dict__["_categorical"] = self._categorical.expand(batch_shape)
        new.__dict__["_binomial"] = self._binomial.expand(size(batch_shape, self._event_shape))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

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
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        # [total_count, *sample_shape, *batch_shape]
        draws = self._categorical.sample(size((self.total_count,), self._fl_sizes(sample_shape)))
        ones = ops.ones(draws.shape, dtype=self.probs.dtype, device=self.probs.device).movedim(0, -1)
        counts = ops.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return counts.scatter_add(-1, draws.movedim(0, -1), ones)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        terms = (logits * value).masked_fill((value == 0) & (logits == -fl.inf), 0.0)
        return ways + terms.sum(-1)

    def entropy(self) -> Tensor:
        n = fl.tensor(self.total_count)
        log_ways = ops.lgamma(n + 1)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        of_counts = ops.exp(self._binomial.log_prob(counts)) * ops.lgamma(counts + 1)
        return n * self._categorical.entropy() - log_ways + of_counts.sum([0, -1])
