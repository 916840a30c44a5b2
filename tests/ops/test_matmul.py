"""Products of operands with axes that are repeated, or of size 1."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("dtype", [fl.int64, fl.int32, fl.uint8], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 1), (1, 9, 4), (7, 66, 35), (64, 1, 64), (5, 0, 3)], ids=str)
def test_whole_numbers(sizes, dtype):
    """Rows beside rows, rows beside columns and what is neither; sums wrap round."""
    m, k, n = sizes
    rng = np.random.default_rng(0)
    top = np.iinfo(str(dtype).removeprefix("flambeau.")).max
    a, b = (rng.integers(0 if dtype == fl.uint8 else -top, top, shape).astype(str(dtype).removeprefix("flambeau.")) for shape in ((m, k), (k, n)))
    with np.errstate(over="ignore"):
        want = a @ b
    x, y = fl.tensor(a), fl.tensor(b)
    for left in (x, x.t().contiguous().t(), fl.stack([x, x], -1)[..., 0]):
        for right in (y, y.t().contiguous().t(), fl.stack([y, y], -1)[..., 0]):
            assert np.array_equal((left @ right).numpy(), want)
    if n > 0:
        assert np.array_equal((x @ y[:, 0]).numpy(), want[:, 0])
    assert np.array_equal((x[0] @ y).numpy(), want[0])
