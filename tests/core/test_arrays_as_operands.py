"""A NumPy array on either side of an operator is read in place and gives a tensor."""

import numpy as np
import pytest

import flambeau as fl


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_either_side(dtype):
    a, x = np.arange(1, 4).astype(dtype), fl.tensor([2.0, 4.0, 8.0])
    for got, want in ((a * x, a * x.numpy()), (x - a, x.numpy() - a), (a / x, a / x.numpy()), (x < a, x.numpy() < a)):
        assert isinstance(got, fl.Tensor)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_gradient_flows_past_an_array():
    x = fl.ones(3, requires_grad=True)
    (np.arange(3.0, dtype=np.float32) * x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 2.0]


def test_an_integer_divided_by_the_number_zero_is_refused():
    with pytest.raises(ValueError, match="floor_divide: integer division by 0"):
        fl.tensor([1, 2]) // 0
    with pytest.raises(ValueError, match="remainder: integer division by 0"):
        fl.tensor([1, 2]) % 0
    assert (fl.tensor([1.0]) // 0).item() == float("inf")
