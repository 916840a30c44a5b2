"""`Wishart`: sums of outer products of normal vectors."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau._warn import warn
from flambeau.distributions import constraints
from flambeau.distributions._matrices import (
    half_log_det,
    log_multigamma,
    multidigamma,
    precision_to_scale_tril,
)
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.multivariate_normal import one_matrix
from flambeau.distributions.utils import Shape, checked_tensor, is_number, lazy_property, size
from flambeau.linalg import cholesky
from flambeau.linalg._old import cholesky_solve


class Wishart(ExponentialFamily):
    """The Wishart distribution of `df` degrees of freedom over positive definite matrices [n, n].

    Draws are made by the decomposition of Bartlett (Odell and Feiveson, JASA 61, 1966).

    Args:
        covariance_matrix, precision_matrix, scale_tril: as of `MultivariateNormal`, exactly one.

    Raises:
        ValueError: `df` is not above n - 1, not exactly one matrix, or one with too few axes.

    Warns:
        UserWarning: `df` is below n, where draws are likely to be singular.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import Wishart
        >>> Wishart(3.0, covariance_matrix=fl.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril)
        n = matrix.shape[-1]
        df = fl.tensor(df, dtype=matrix.dtype) if is_number(df) else checked_tensor("Wishart", "df", df)
        batch = fl.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Wishart: Value of df={df} expected to be greater than ndim - 1 = {n - 1}")
        if bool((self.df < n).any()):
            warn(f"Wishart: df = {df} is below {n}: draws are likely to be singular")
        self.__dict__[name] = matrix.expand(size(batch, (n, n)))
        super().__init__(batch, (n, n), validate_args=validate_args)
        factor_of = {"scale_tril": lambda m: m, "covariance_matrix": cholesky, "precision_matrix": precision_to_scale_tril}[name]
        self._unbroadcasted_scale_tril = factor_of(matrix)

    def _fl_expand_more(self, new: Any, batch_shape: Shape) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _fl_whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(size(self._batch_shape, self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._fl_whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance of the normal vectors."""
        return self._fl_whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._fl_whole(cholesky_solve(ops.eye(self._event_shape[0], dtype=factor.dtype), factor))

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[0] - 1
        return factor.masked_fill(factor <= 0, fl.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Shape = ()) -> Tensor:
        """Draws that may be singular (Bartlett, 1933)."""
        n = self._event_shape[0]
        freedom = self.df.unsqueeze(-1) - ops.arange(n, dtype=self._unbroadcasted_scale_tril.dtype)
        roots = Chi2(freedom, validate_args=False).rsample(sample_shape).sqrt()
        diagonal = fl.diag_embed(roots.clamp(min=fl.finfo(roots.dtype).eps))
        noise = ops.randn(self._extended_shape(sample_shape), dtype=self._unbroadcasted_scale_tril.dtype).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (diagonal + noise)
        return factor @ factor.mT

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Draws; singular ones are drawn again, `max_try_correction` (default: 10) times.

        Warns:
            UserWarning: there were singular draws.
        """
        draws = self._bartlett_sampling(sample_shape)
        singular = ~self.support.check(draws.detach())
        if bool(singular.any()):
            warn("Wishart: some draws are singular and are made again")
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not bool(singular.any()):
                break
            draws = ops.where(singular[..., None, None], self._bartlett_sampling(sample_shape), draws)
            singular = ~self.support.check(draws.detach())
        return draws

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        trace = cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = self.df * (n * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)) + log_multigamma(self.df / 2, n)
        return (self.df - n - 1) * half_log_det(cholesky(value)) - trace / 2 - norm

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        half_det = half_log_det(self._unbroadcasted_scale_tril)
        of_degrees = log_multigamma(self.df / 2, n) - (self.df - n - 1) / 2 * multidigamma(self.df / 2, n) + self.df * n / 2
        return (n + 1) * (n * math.log(2) / 2 + half_det) + of_degrees

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[0] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[0]
        freedom = y + (n + 1) / 2
        return freedom * (n * math.log(2) - 2 * half_log_det(cholesky(-2 * x))) + log_multigamma(freedom, n)
