"""Transforms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions._transforms_base import check_event
from flambeau.distributions._transforms_elementwise import _Plain
from flambeau.distributions.utils import Shape, size, tril_matrix_to_vec, vec_to_tril_matrix
from flambeau.linalg import cholesky
from flambeau.nn import functional as F


class SoftmaxTransform(_Plain):
    """y = softmax(x) over the last axis, and x = log(y): not bijective, since a shift of x changes nothing."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Shape:
        check_event("SoftmaxTransform", shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """From vectors of n - 1 numbers to simplexes of n: each number says which part of the rest is taken.

    Where all numbers are 0, all parts are equal.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _fl_offset(n: int, like: Tensor) -> Tensor:
        return ops.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        taken = _inside(ops.sigmoid(x - self._fl_offset(x.shape[-1], x)))
        left = (1 - taken).cumprod(-1)
        return F.pad(taken, (0, 1), value=1.0) * F.pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=fl.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._fl_offset(head.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._fl_offset(x.shape[-1], x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        check_event("StickBreakingTransform", shape, 1)
        return size(shape[:-1], (shape[-1] + 1,))

    def inverse_shape(self, shape: Shape) -> Shape:
        check_event("StickBreakingTransform", shape, 1)
        return size(shape[:-1], (shape[-1] - 1,))


def _inside(y: Tensor) -> Tensor:
    info = fl.finfo(y.dtype)
    return y.clamp(min=info.tiny, max=1.0 - info.eps)


class CorrCholeskyTransform(_Plain):
    """From vectors of n (n - 1) / 2 numbers to Cholesky factors of [n, n] correlation matrices.

    tanh of the numbers are canonical partial correlations, from which rows of norm 1 are made, as sticks are broken
    (Lewandowski, Kurowicka and Joe, "Generating random correlation matrices", 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = fl.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        r = r + ops.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        shifted = F.pad(left[..., :-1], (1, 0), value=1.0)
        part = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (part.log1p() - part.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        of_sticks = tril_matrix_to_vec(left, diag=-2).log().sum(-1) / 2
        of_tanh = -2 * (x + F.softplus(-2 * x) - 0.6931471805599453).sum(-1)
        return of_sticks + of_tanh

    def forward_shape(self, shape: Shape) -> Shape:
        check_event("CorrCholeskyTransform", shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: {shape[-1]} numbers; expected n (n - 1) / 2 of them for matrices [n, n]")
        return size(shape[:-1], (n, n))

    def inverse_shape(self, shape: Shape) -> Shape:
        check_event("CorrCholeskyTransform", shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: matrices [{shape[-2]}, {shape[-1]}]; expected square ones")
        return size(shape[:-2], (shape[-1] * (shape[-1] - 1) // 2,))


class LowerCholeskyTransform(_Plain):
    """From square matrices to lower triangular ones with positive diagonals: exp of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + fl.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + fl.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(_Plain):
    """From square matrices to positive definite ones: L @ L.mT of the factors that `LowerCholeskyTransform` makes."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))
