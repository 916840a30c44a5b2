"""Layers that multiply by a matrix."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

T = TypeVar("T")


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: T) -> T:
        return input


class Linear(Module):
    """y = x W^T + b.

    Shape: [*, in_features] -> [*, out_features]; weight [out_features, in_features].

    Weight and bias start as U(-k, k), k = 1 / sqrt(in_features).

    >>> import flambeau as fl
    >>> fl.nn.Linear(4, 2)(fl.zeros(3, 4)).shape
    flambeau.Size([3, 2])
    """

    __constants__ = ["in_features", "out_features"]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty(out_features, in_features, device=device, dtype=dtype))
        if self.weight.dtype == _C.float32 and not self.weight.is_meta:
            _C.make_products_ahead()
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters  # the dict first: it spares the slow path of __getattr__
        weight = p["weight"] if "weight" in p else self.weight
        return F.linear(input, weight, p["bias"] if "bias" in p else self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that printed models and checkpoints know."""


class Bilinear(Module):
    """y_k = x1^T W_k x2 + b_k.

    Shape: [*, in1_features], [*, in2_features] -> [*, out_features].
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            ops.empty(out_features, in1_features, in2_features, device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
