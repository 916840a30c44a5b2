"""Initial values: their ranges, moments and structure."""

import itertools
import math
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import init


def moments(x):
    a = x.numpy()
    return a.mean(), a.std(), np.abs(a).max()


def setup_function():
    fl.manual_seed(0)


@pytest.mark.parametrize(
    "fill, std",
    [
        (lambda w: init.uniform_(w, -3, 3), math.sqrt(3)),
        (lambda w: init.normal_(w, 0, 2), 2),
        (init.xavier_uniform_, math.sqrt(2 / (300 + 200))),
        (init.xavier_normal_, math.sqrt(2 / (300 + 200))),
        (init.kaiming_uniform_, math.sqrt(2 / 300)),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), 0.1),
    ],
)
def test_standard_deviation(fill, std):
    mean, got, _ = moments(fill(fl.empty(200, 300)))
    assert abs(mean) < 0.02 * std and got == pytest.approx(std, rel=0.02)


def test_trunc_normal_stays_inside():
    x = init.trunc_normal_(fl.empty(20000), 1.0, 2.0, 0.0, 2.0).numpy()
    assert x.min() >= 0 and x.max() <= 2 and x.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 2)])
def test_orthogonal(shape):
    w = init.orthogonal_(fl.empty(*shape), gain=2.0).reshape(shape[0], -1).numpy()
    small = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_eye_dirac_sparse_constants():
    assert init.eye_(fl.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    w = init.dirac_(fl.empty(2, 2, 3))
    assert w.tolist() == [[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
    assert (init.sparse_(fl.empty(10, 4), 0.3) == 0).sum(0).tolist() == [3, 3, 3, 3]
    assert init.ones_(fl.empty(2)).tolist() == [1, 1] and init.zeros_(fl.empty(1)).item() == 0


def test_fans_of_a_convolution():
    assert init._calculate_fan_in_and_fan_out(fl.empty(8, 4, 3, 5)) == (60, 120)


def test_gains_and_errors():
    assert init.calculate_gain("relu") == pytest.approx(math.sqrt(2))
    assert str(init.calculate_gain("linear")) == "1"
    with pytest.raises(ValueError, match="expected one of"):
        init.calculate_gain("rrelu6")
    with pytest.raises(ValueError, match=r"shape \[3\]"):
        init.xavier_uniform_(fl.empty(3))
    with pytest.raises(ValueError, match="fan_in"):
        init.kaiming_normal_(fl.empty(3, 3), mode="fan")
    x = fl.ones(2, 2)
    with pytest.raises(TypeError, match="gain = .* expected a number"):
        init.orthogonal_(x, gain=itertools.count())  # which NumPy would walk through
    assert x.tolist() == [[1, 1], [1, 1]]


def test_the_seed_decides_and_no_history_is_kept():
    w = fl.empty(3, 3, requires_grad=True)
    fl.manual_seed(3)
    first = init.kaiming_uniform_(w).tolist()
    fl.manual_seed(3)
    assert init.kaiming_uniform_(w).tolist() == first
    assert w.is_leaf and w.requires_grad


@pytest.mark.parametrize("dtype, exact", [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3)], ids=str)
def test_orthogonal_is_exact_in_the_type_of_the_tensor(shape, dtype, exact):
    w = fl.nn.init.orthogonal_(fl.empty(*shape, dtype=getattr(fl, dtype)))
    w = w.reshape(shape[0], -1).numpy()
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    assert abs(product - np.eye(len(product))).max() < exact


def test_dirac_of_nothing_walks_over_no_groups():
    assert init.dirac_(fl.empty(0, 1, 3), groups=2**32).numel() == 0
    with pytest.raises(ValueError, match="groups = 0"):
        init.dirac_(fl.empty(2, 1, 3), groups=0)


@pytest.mark.parametrize(("given", "said"), [({"mean": 10.0}, True), ({"mean": -5.0}, True), ({"mean": 4.0}, False), ({"mean": 5.0, "std": 2.0}, False), ({}, False)])
def test_a_mean_far_from_the_bounds_is_said(given, said):
    with pytest.warns(UserWarning, match="trunc_normal_: mean = .* more than 2 std") if said else warnings.catch_warnings():
        x = init.trunc_normal_(fl.empty(5), **given)
    assert x.min() >= -2 and x.max() <= 2


def test_matrices_are_filled_where_they_lie():
    """Whatever device new tensors are on, and for each sample of vmap."""
    with fl.device("meta"):
        w, eye, sparse = (fl.empty(3, 4, device="cpu") for _ in range(3))
        init.orthogonal_(w), init.eye_(eye), init.sparse_(sparse, 0.5)
    assert fl.allclose(w @ w.t(), fl.eye(3), atol=1e-5) and fl.equal(eye, fl.eye(3, 4))
    assert (sparse == 0).sum(0).tolist() == [2, 2, 2, 2]
    assert init.eye_(fl.empty(2, 3, device="meta")).shape == init.orthogonal_(fl.empty(2, 3, device="meta")).shape == (2, 3)
    several = fl.func.vmap(lambda x: init.orthogonal_(x.clone()), randomness="different")(fl.zeros(2, 3, 3))
    assert fl.allclose(several @ several.mT, fl.eye(3).expand(2, 3, 3), atol=1e-5) and not fl.equal(*several)


@pytest.mark.parametrize("dtype", [fl.int64, fl.bool, fl.complex64], ids=str)
def test_no_orthogonal_matrix_of_numbers_that_are_not_real(dtype):
    with pytest.raises(fl.DTypeError, match="expected a floating point type"):
        init.orthogonal_(fl.empty(2, 3, dtype=dtype))
