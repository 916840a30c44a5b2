"""`LKJCholesky`: Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._matrices import log_multigamma
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all, size


class LKJCholesky(Distribution):
    """L with L @ L.mT a correlation matrix [dim, dim] of density proportional to det^(concentration - 1).

    With `concentration` 1 all correlation matrices are alike; above, those near the identity are favoured. Draws are made
    by the onion method (Lewandowski, Kurowicka and Joe, "Generating random correlation matrices", 2009, section 3.2).

    Raises:
        TypeError: `dim` is no number.
        ValueError: `dim` is below 2, or no whole number's type.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import LKJCholesky
        >>> lower = LKJCholesky(3, 0.5).sample()
        >>> fl.allclose((lower @ lower.T).diagonal(), fl.ones(3))
        True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if not isinstance(dim, (int, float)):
            raise TypeError(f"LKJCholesky: dim = {dim!r} is a {type(dim).__name__}; expected an int >= 2")
        if isinstance(dim, float) or dim < 2:
            raise ValueError(f"LKJCholesky: Expected dim to be an integer greater than or equal to 2. Found dim={dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        before = ops.arange(dim, dtype=self.concentration.dtype).sub(1).clamp(min=0)  # [dim]
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(0.5 * before + 0.5, marginal.unsqueeze(-1) - 0.5 * before)  # of the squared norms left of the diagonal
        super().__init__(self.concentration.size(), (dim, dim), validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new.dim, new._beta = self.dim, self._beta.expand(size(batch_shape, (self.dim,)))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with fl.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = ops.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
            norm = noise.square().sum(-1, keepdim=True).sqrt()
            on_sphere = ops.where(norm > 0, noise / norm, 0.0)  # no entries are left of the first row's diagonal
            rows = y.sqrt() * on_sphere
            diagonal = (1 - rows.square().sum(-1)).clamp(min=fl.finfo(y.dtype).tiny).sqrt()
            return rows + fl.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ops.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + log_multigamma(alpha - 0.5, n) - ops.lgamma(alpha) * n
        return (order * diagonal.log()).sum(-1) - norm
