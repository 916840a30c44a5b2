"""Tensors of nothing, of numbers and of arrays."""
import numpy as np
from typing_extensions import assert_type

import flambeau as fl

assert_type(fl.zeros(2, 3, dtype=fl.float64), fl.Tensor)
assert_type(fl.ones((2, 3), device="cpu", requires_grad=True), fl.Tensor)
assert_type(fl.full((2,), 1.5), fl.Tensor)
assert_type(fl.arange(0, 10, 2), fl.Tensor)
assert_type(fl.linspace(0, 1, 5), fl.Tensor)
assert_type(fl.tensor([[1, 2], [3, 4]], dtype=fl.float32), fl.Tensor)
assert_type(fl.from_numpy(np.ones((2, 2))), fl.Tensor)
assert_type(fl.as_tensor([1.0, 2.0]), fl.Tensor)
assert_type(fl.eye(3), fl.Tensor)
assert_type(fl.randn(2, generator=fl.Generator().manual_seed(3)), fl.Tensor)
assert_type(fl.zeros_like(fl.ones(2)), fl.Tensor)
print(fl.empty(0).shape)
