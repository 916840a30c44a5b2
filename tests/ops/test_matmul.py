"""Products of operands with axes that are repeated, or of size 1."""

from __future__ import annotations

import pytest
from support.compare import assert_near

import flambeau as fl


@pytest.mark.parametrize("shape", [(3, 1, 1, 8), (3, 1, 6, 8), (1, 1, 6, 8), (1, 3, 1, 8), (3, 2, 1, 8)])
@pytest.mark.parametrize("call", [lambda a, b: a @ b, lambda a, b: fl.nn.functional.linear(a, b.t())], ids=["matmul", "linear"])
def test_repeated_rows_beside_an_axis_of_size_one(shape, call):
    """The strides of an axis of size 1 once were taken for those of rows: [3, 1, 6, 8] with strides (8, 8, 0, 1)."""
    x = fl.randn(shape, dtype=fl.float64)
    a = x.expand(*(6 if size == 1 and d == 2 else size for d, size in enumerate(shape)))
    b = fl.randn(8, 5, dtype=fl.float64)
    assert_near(call(a, b), call(a.contiguous(), b))
