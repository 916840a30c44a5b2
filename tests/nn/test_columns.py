"""Windows as columns and back: against loops, with strides, borders and steps between windows, and in every type."""

import itertools

import numpy as np
import pytest

import flambeau as fl

F = fl.nn.functional
CASES = [
    ((5, 4), (2, 3), (1, 1), (0, 0), (1, 1)),
    ((7, 6), (2, 2), (2, 1), (1, 2), (1, 3)),
    ((8, 8), (4, 4), (1, 1), (0, 0), (4, 4)),
    ((9, 10), (2, 3), (1, 1), (0, 0), (4, 4)),  # places that no window has
    ((6, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (3, 3), (1, 1), (3, 3), (5, 2)),
    ((4, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
]


def windows(size, k, d, p, s):
    """For each column its places (tap, window, row, column) inside of the plane."""
    along = [range((n + 2 * b - e * (m - 1) - 1) // t + 1) for n, m, e, b, t in zip(size, k, d, p, s)]
    for (i, j), (r, c) in itertools.product(itertools.product(range(k[0]), range(k[1])), itertools.product(*along)):
        y, x = r * s[0] + i * d[0] - p[0], c * s[1] + j * d[1] - p[1]
        if 0 <= y < size[0] and 0 <= x < size[1]:
            yield i * k[1] + j, r * len(along[1]) + c, y, x


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "c8"])
@pytest.mark.parametrize("size, k, d, p, s", CASES)
def test_of_loops(size, k, d, p, s, dtype):
    rng = np.random.default_rng(0)
    planes = rng.integers(-9, 9, (2, 3, *size)).astype(dtype)
    x = fl.from_numpy(planes)
    columns = F.unfold(x, k, d, p, s)
    taps, places = k[0] * k[1], columns.shape[2]
    want = np.zeros((2, 3, taps, places), dtype)
    for t, w, r, c in windows(size, k, d, p, s):
        want[:, :, t, w] = planes[:, :, r, c]
    assert np.array_equal(columns.numpy(), want.reshape(2, 3 * taps, places))
    turned = fl.from_numpy(np.ascontiguousarray(planes.transpose(3, 2, 1, 0))).permute(3, 2, 1, 0)
    assert fl.equal(F.unfold(turned, k, d, p, s), columns)

    given = rng.integers(-9, 9, (2, 3 * taps, places)).astype(dtype)
    sums = np.zeros_like(planes)
    for t, w, r, c in windows(size, k, d, p, s):
        sums[:, :, r, c] += given.reshape(2, 3, taps, places)[:, :, t, w]
    assert np.array_equal(F.fold(fl.from_numpy(given), size, k, d, p, s).numpy(), sums)
    turned = fl.from_numpy(np.ascontiguousarray(given.transpose(2, 1, 0))).permute(2, 1, 0)
    assert np.array_equal(F.fold(turned, size, k, d, p, s).numpy(), sums)


@pytest.mark.slow
@pytest.mark.parametrize("size, k, d, p, s", CASES)
def test_gradients(size, k, d, p, s):
    x = fl.randn(1, 2, *size, dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(lambda x: F.unfold(x, k, d, p, s), (x,))
    columns = F.unfold(x, k, d, p, s)
    (expanded,) = fl.autograd.grad(columns.sum(), x)  # of a gradient without memory of its own for each element
    assert fl.equal(expanded, F.fold(fl.ones_like(columns), size, k, d, p, s))
    y = columns.detach().requires_grad_()
    assert fl.autograd.gradcheck(lambda y: F.fold(y, size, k, d, p, s), (y,))


def test_samples_of_vmap():
    x = fl.randn(5, 2, 3, 6, 4)
    columns = fl.func.vmap(lambda x: F.unfold(x, 2))(x)
    assert fl.equal(columns, fl.stack([F.unfold(v, 2) for v in x]))
    assert fl.equal(fl.func.vmap(lambda y: F.fold(y, (6, 4), 2))(columns), fl.stack([F.fold(v, (6, 4), 2) for v in columns]))
