"""Convolution, or linear layer, and batch norm by its running statistics as one layer, for prediction."""

from __future__ import annotations

import copy
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau.autograd import no_grad
from flambeau.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


@wants_tensors
def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the convolution that does both; `transpose`: of a transposed one, [I, O, ...]."""
    with no_grad():
        wide = conv_w.transpose(0, 1).contiguous() if transpose else conv_w
        weight, bias = ops.fold_batch_norm(wide, conv_b, bn_rm, bn_rv, bn_w, bn_b, bn_eps)
        weight = weight.transpose(0, 1).contiguous() if transpose else weight
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_w.requires_grad if conv_b is None else conv_b.requires_grad)


@wants_tensors
def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the linear layer that does both."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(op: str, layer: Any, bn: Any, transpose: bool) -> Any:
    if layer.training or bn.training:
        raise AssertionError(f"{op}: Fusion only for eval! Call eval() on both layers first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(f"{op}: the batch norm has no running statistics")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


@wants_tensors
def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what `conv` and then `bn` do in evaluation.

    Args:
        transpose: `conv` is a transposed convolution without groups.

    Raises:
        AssertionError: a layer is training, or `bn` has no running statistics.

    >>> import flambeau as fl
    >>> conv, bn = fl.nn.Conv2d(3, 4, 3).eval(), fl.nn.BatchNorm2d(4).eval()
    >>> x = fl.randn(1, 3, 5, 5)
    >>> fl.allclose(fl.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    True
    """
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


@wants_tensors
def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what `linear` and then `bn` do in evaluation.

    Raises:
        AssertionError: a layer is training, `bn` has no running statistics, or another number of features.
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(f"fuse_linear_bn_eval: {linear.out_features} and {bn.num_features} features; expected as many")
    if bn.num_features != linear.out_features:  # one mean and one variance for all features
        one, bn = bn, copy.copy(bn)
        for table in ("_parameters", "_buffers"):
            wide = {name: x.expand(linear.out_features) for name, x in getattr(one, table).items() if x is not None and x.ndim}
            bn.__dict__[table] = {**getattr(one, table), **wide}
    return _fused("fuse_linear_bn_eval", linear, bn, False)
