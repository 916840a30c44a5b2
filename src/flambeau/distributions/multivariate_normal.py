"""`MultivariateNormal`: normal vectors with a covariance."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau._errors import AssertedValueError
from flambeau.distributions import constraints
from flambeau.distributions._matrices import (
    half_log_det,
    half_mahalanobis,
    precision_to_scale_tril,
)
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, checked_tensor, lazy_property, size
from flambeau.linalg import cholesky
from flambeau.linalg._old import cholesky_solve


class MultivariateNormal(Distribution):
    """The normal distribution of vectors [n] with the mean `loc` and one of three ways to say the covariance.

    Args:
        covariance_matrix: [.., n, n], positive definite.
        precision_matrix: its inverse.
        scale_tril: lower triangular with a positive diagonal; scale_tril @ scale_tril.mT is the covariance.

    Raises:
        ValueError: not exactly one of the three, or too few axes.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import MultivariateNormal
        >>> MultivariateNormal(fl.zeros(2), covariance_matrix=fl.eye(2)).log_prob(fl.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if checked_tensor("MultivariateNormal", "loc", loc).ndim < 1:
            raise ValueError("MultivariateNormal: loc must be at least one-dimensional")
        name, matrix = one_matrix("MultivariateNormal", covariance_matrix, precision_matrix, scale_tril)
        batch = fl.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand(size(batch, loc.shape[-1:]))
        self.__dict__[name] = matrix.expand(size(batch, matrix.shape[-2:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        factor_of = {"scale_tril": lambda m: m, "covariance_matrix": cholesky, "precision_matrix": precision_to_scale_tril}[name]
        self._unbroadcasted_scale_tril = factor_of(matrix)

    def _fl_expand_more(self, new: Any, batch_shape: Shape) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _fl_whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(size(self._batch_shape, self._event_shape, self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._fl_whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._fl_whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._fl_whole(cholesky_solve(ops.eye(self._event_shape[0], dtype=self.loc.dtype), self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(size(self._batch_shape, self._event_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = ops.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        norm = self._event_shape[0] * math.log(2 * math.pi) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        return -half_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc) - norm

    def entropy(self) -> Tensor:
        entropy = self._event_shape[0] * (1.0 + math.log(2 * math.pi)) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)


def one_matrix(name: str, covariance: Tensor | None, precision: Tensor | None, scale_tril: Tensor | None) -> tuple[str, Tensor]:
    """The one of the three that is given, with its name.

    Raises:
        ValueError: not exactly one, or one with less than two axes.
    """
    every = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": scale_tril}
    given = [(key, value) for key, value in every.items() if value is not None]
    if len(given) != 1:
        raise AssertedValueError(
            f"{name}: Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified, got {[key for key, _ in given]}"
        )
    key, value = given[0]
    if checked_tensor(name, key, value).ndim < 2:
        raise ValueError(f"{name}: {key} must be at least two-dimensional, [.., n, n], got shape {list(value.shape)}")
    return key, value
