"""Convolutions from and to few channels, by products and sums: beside the same in float64, which goes another way."""

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

# (from channels, to channels, size, kernel, stride, padding, dilation, batch)
SHAPES = [
    (16, 3, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    (17, 1, (8, 8), (5, 5), (1, 1), (2, 2), (1, 1), 9),
    (32, 4, (13, 7), (3, 2), (1, 1), (0, 1), (2, 1), 3),
    (16, 2, (6, 6), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (16, 3, (8, 8), (3, 3), (1, 1), (4, 3), (1, 1), 2),  # padding beyond the kernel
    (16, 3, (40, 33), (9, 9), (1, 1), (4, 4), (1, 1), 1),  # in pieces
    (20, 3, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    (16, 3, (31,), (7,), (1,), (3,), (2,), 4),
    (3, 16, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    (3, 17, (15, 14), (4, 4), (2, 2), (1, 1), (1, 1), 9),
    (1, 24, (16, 9), (3, 5), (3, 2), (0, 2), (1, 2), 3),
    (4, 16, (11, 11), (1, 1), (2, 3), (0, 0), (1, 1), 2),  # elements that no tap reads
    (2, 16, (10, 10), (2, 2), (3, 3), (0, 0), (1, 1), 2),
    (2, 16, (10, 10), (2, 2), (2, 2), (0, 0), (3, 2), 2),
    (3, 16, (40, 37), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (8, 32, (6, 6), (3, 3), (2, 2), (1, 1), (1, 1), 5),
    (3, 16, (3, 3), (3, 3), (2, 2), (0, 0), (1, 1), 2),  # one position
    (2, 32, (64,), (5,), (2,), (2,), (1,), 3),
    (32, 1, (1000,), (7,), (1,), (3,), (1,), 1),
    (2, 16, (1001,), (16,), (8,), (4,), (1,), 1),
    (1, 16, (50,), (2,), (3,), (0,), (2,), 2),
]


def parts(shape: tuple, dtype: fl.dtype, transposed: bool) -> list[np.ndarray]:
    n_in, n_out, size, kernel, stride, padding, dilation, batch = shape
    rng = np.random.default_rng(3)
    op = {(1, False): F.conv1d, (2, False): F.conv2d, (1, True): F.conv_transpose1d, (2, True): F.conv_transpose2d}[len(size), transposed]
    weight = (n_out, n_in, *kernel)
    bias = n_in if transposed else n_out
    x = fl.tensor(rng.standard_normal((batch, n_out if transposed else n_in, *size)), dtype=dtype).requires_grad_()
    w = fl.tensor(rng.standard_normal(weight), dtype=dtype).requires_grad_()
    b = fl.tensor(rng.standard_normal(bias), dtype=dtype).requires_grad_()
    y = op(x, w, b, stride=stride, padding=padding, dilation=dilation)
    y.backward(fl.tensor(rng.standard_normal(tuple(y.shape)), dtype=dtype))
    return [t.numpy() for t in (y.detach(), x.grad, w.grad, b.grad)]


@pytest.mark.parametrize("transposed", [False, True], ids=["forwards", "transposed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_and_gradients(shape, transposed):
    for ours, exact in zip(parts(shape, fl.float32, transposed), parts(shape, fl.float64, transposed)):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[5], SHAPES[9], SHAPES[14], SHAPES[18], SHAPES[19]], ids=str)
def test_threads_change_no_bit_of_a_last_layer_and_of_a_first_ones_data_gradient(shape):
    before, found = fl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            y, dx, dw, _ = parts(shape, fl.float32, False)
            found.append([y, dw] if shape[1] <= 4 else [dx])
    finally:
        fl.set_num_threads(before)
    for other in found[1:]:
        for first, second in zip(found[0], other):
            np.testing.assert_array_equal(first, second)
