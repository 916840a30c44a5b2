"""Products with weights that all samples share, whose gradients are wanted per sample.

A stand-in of a weight inside of `vmap` is one tensor repeated without memory of its own (stride 0). Its product with a batch is one
product with the weight as it is; only the weight's gradient has a part for each sample.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd.function import Function
from flambeau.func._levels import shape_of


def is_shared(x: Tensor) -> bool:
    """True for one tensor repeated along axis 0 whose gradient is wanted."""
    return type(x) is Tensor and x.ndim > 0 and x.shape[0] > 1 and x.stride()[0] == 0


class SharedLinear(Function):
    """x W^T + b for x [B, ..., in], W [B, out, in], which is one matrix repeated, and b [B, out], one row repeated, or none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return ops.linear(x, weight[0], None if bias is None else bias[0])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = shared_linear(dy, ops.transpose(weight, 1, 2))
        if ctx.needs_input_grad[1]:
            dw = _outer(dy, x)
        wanted = ctx.needs_input_grad
        if len(wanted) == 2:
            return dx, dw
        axes = tuple(range(1, dy.ndim - 1))
        return dx, dw, (ops.sum(dy, axes) if axes else dy) if wanted[2] else None


def shared_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [B, ..., in] times one matrix [out, in], repeated as weight [B, out, in], plus one row repeated as bias [B, out]."""
    if _C.is_grad_enabled() and (weight.requires_grad or (bias is not None and bias.requires_grad)):
        return SharedLinear.apply(x, weight, *(() if bias is None else (bias,)))  # type: ignore[no-any-return]
    return ops.linear(x, weight[0], None if bias is None else bias[0])


def _outer(dy: Tensor, x: Tensor) -> Tensor:
    """The sum over all axes but the first and the last of dy_i x_j: [B, out, in]."""
    rows = [ops.reshape(t, (t.shape[0], math.prod(t.shape[1:-1]), t.shape[-1])) for t in (dy, x)]
    if rows[0].shape[1] == 1:
        return ops.mul(ops.transpose(rows[0], 1, 2), rows[1])  # nothing is summed
    return ops.matmul(ops.transpose(rows[0], 1, 2), rows[1])


class SharedConvolution(Function):
    """Convolutions of x [B, N, C, *] with weight [B, O, C/g, *], which is one weight repeated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how = (stride, padding, dilation, groups)
        return _unmerged(ops.convolution(_merged(x), weight[0], None, stride, padding, dilation, groups), x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        dx = dw = None
        if ctx.needs_input_grad[0]:
            if _C.is_grad_enabled() and weight.requires_grad:
                wide = (grouped(dy), _flat(weight), [x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]])
                dx = ungrouped(ops.conv_backward_data(*wide, stride, padding, dilation, groups * x.shape[0]), x.shape[0])
            else:
                merged = _merged(x)
                dx = _unmerged(ops.conv_backward_data(_merged(dy), weight[0], list(merged.shape), stride, padding, dilation, groups), x)
        if ctx.needs_input_grad[1]:
            shape = [weight.shape[0] * weight.shape[1], *weight.shape[2:]]
            flat = ops.conv_backward_weight(grouped(dy), grouped(x), shape, stride, padding, dilation, groups * x.shape[0])
            dw = ops.view(flat, tuple(weight.shape))
        return dx, dw, None, None, None, None


def _merged(x: Tensor) -> Tensor:
    return ops.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _unmerged(y: Tensor, like: Tensor) -> Tensor:
    return ops.view(y, (like.shape[0], like.shape[1], *y.shape[1:]))


def _flat(weight: Tensor) -> Tensor:
    return ops.reshape(weight, (weight.shape[0] * weight.shape[1], *weight.shape[2:]))


def grouped(x: Tensor) -> Tensor:
    """[B, N, C, *] -> [N, B C, *]."""
    shape = shape_of(x)
    return ops.reshape(ops.transpose(x, 0, 1), (shape[1], shape[0] * shape[2], *shape[3:]))


def ungrouped(y: Tensor, batch: int) -> Tensor:
    """[N, B C, *] -> [B, N, C, *]."""
    shape = shape_of(y)
    return ops.transpose(ops.reshape(y, (shape[0], batch, shape[1] // batch, *shape[2:])), 0, 1)


def grouped_convolution(x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    """Convolutions of x [B, N, C, *] with weights [B, O, C/g, *] of their own."""
    batch = shape_of(x)[0]
    shape = shape_of(weight)
    flat = ops.reshape(weight, (shape[0] * shape[1], *shape[2:]))
    return ungrouped(ops.convolution(grouped(x), flat, None, stride, padding, dilation, groups * batch), batch)
