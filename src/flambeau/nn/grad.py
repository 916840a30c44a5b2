"""Gradients of convolutions, as functions: of the input from its shape, and of the weight from its shape.

>>> import flambeau as fl
>>> dy = fl.ones(1, 1, 2, 2)
>>> fl.nn.grad.conv2d_input((1, 1, 3, 3), fl.ones(1, 1, 2, 2), dy)
tensor([[[[1., 2., 1.],
          [2., 4., 2.],
          [1., 2., 1.]]]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.autograd import enable_grad, grad, inference_mode, is_grad_enabled

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _shape(what: str, size: Any) -> tuple[int, ...]:
    if not isinstance(size, Sequence):
        raise TypeError(f"{what} = {size!r}; expected the shape of a tensor")
    return tuple(size)


def _of(conv: Callable[..., Tensor], shape: tuple[int, ...], other: Tensor, swapped: bool, dy: Tensor, options: tuple[Any, ...]) -> Tensor:
    """A convolution is linear in each of its operands, so that its gradient does not depend on where it is taken.

    It is recorded, whatever the mode is, and for that operands that were made in inference_mode are copied.
    """
    create = is_grad_enabled() and (other.requires_grad or dy.requires_grad)
    with inference_mode(False), enable_grad():
        other, dy = (t.clone() if t.is_inference() else t for t in (other, dy))
        wanted = ops.zeros(shape, dtype=other.dtype, device=other.device).requires_grad_()
        y = conv(other, wanted, None, *options) if swapped else conv(wanted, other, None, *options)
        return grad(y, wanted, dy, create_graph=create)[0]


def _input(n: int) -> Callable[..., Tensor]:
    conv = getattr(ops, f"conv{n}d")

    def gradient(
        input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        shape = _shape(f"conv{n}d_input: input_size", input_size)
        return _of(conv, shape, weight, False, grad_output, (stride, padding, dilation, groups))

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_input"
    gradient.__doc__ = f"The gradient of `conv{n}d` with respect to an input of shape `input_size`; `grad_output` is its result's."
    return gradient


def _weight(n: int) -> Callable[..., Tensor]:
    conv = getattr(ops, f"conv{n}d")

    def gradient(
        input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        shape = _shape(f"conv{n}d_weight: weight_size", weight_size)
        return _of(conv, shape, input, True, grad_output, (stride, padding, dilation, groups))

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_weight"
    gradient.__doc__ = f"The gradient of `conv{n}d` with respect to a weight of shape `weight_size`; `grad_output` is its result's."
    return gradient


conv1d_input, conv2d_input, conv3d_input = map(_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight, (1, 2, 3))
