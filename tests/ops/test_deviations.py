"""Deviations of numbers that are equal, of which programs ask whether they are 0 (`scale[scale == 0] = 1`)."""

import numpy as np
import pytest

import flambeau as fl

SHAPES = [((1000,), None), ((1000, 5), 0), ((5, 1000), 1), ((1000, 5), None), ((10, 100, 7), (0, 1)), ((3, 1000, 64), 1), ((100, 17, 3), (0, 2)), ((2,), 0), ((3_000_000,), None)]


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16, fl.float16], ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_of_equal_numbers(shape, dim, dtype):
    for value in (0.3, 0.1, 1e6 + 0.1, -7.77, 1e-30, 0.0):
        x = fl.full(shape, value, dtype=dtype)
        if not x.isfinite().all():
            continue
        for result in (x.std(dim), x.var(dim, correction=0), *fl.std_mean(x, dim)[:1], *fl.var_mean(x, dim)[:1]):
            assert not result.any()
        for mean in (fl.std_mean(x, dim)[1], fl.var_mean(x, dim)[1]):
            assert (mean == x.flatten()[0]).all()


def test_of_some_equal_numbers_among_others():
    x = fl.randn(3, 4, 2000, dtype=fl.float64).transpose(1, 2) + 5
    x[1, :, 2] = 0.1
    plain = x.numpy().std(1)
    got = x.std(1, correction=0)
    assert got[1, 2] == 0
    plain[1, 2] = 0
    fl.testing.assert_close(got, fl.tensor(plain), rtol=1e-12, atol=0)
    out = fl.empty(4, 3, dtype=fl.float64).t()
    assert fl.equal(fl.std(x, 1, correction=0, out=out), got) and fl.equal(out, got)


def test_of_nearly_equal_numbers():
    x = fl.full((1000, 2), 0.1)
    x[3, 0] = x[3, 0].nextafter(fl.tensor(1.0))
    assert (x.std(0) > 0).tolist() == [True, False]


def test_of_nothing():
    for correction in (-1, 0, 1):
        assert fl.std(fl.empty(3, 0), 1, correction=correction).isnan().all() and fl.var_mean(fl.empty(0), correction=correction)[0].isnan()


@pytest.mark.parametrize("mean", [1e3, 1e6, 1e8])
def test_deviations_that_are_small_beside_the_mean(mean):
    x = (np.random.default_rng(1).normal(size=(4, 1000)) * np.spacing(np.float32(mean)) * 2 + mean).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(fl.tensor(x).std(1).numpy(), wide.std(1, ddof=1), rtol=1e-6)
    var, middle = fl.var_mean(fl.tensor(x).T, 0)
    np.testing.assert_allclose(var.numpy(), wide.var(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(middle.numpy(), wide.mean(1), rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-30, 1e-42, 1e30, 1e38])
def test_deviations_whose_squares_are_no_numbers_of_the_type(scale):
    x = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]], np.float32) * np.float32(scale)
    np.testing.assert_allclose(fl.tensor(x).std(1).numpy(), x.astype(np.float64).std(1, ddof=1), rtol=1e-6)
    assert fl.std_mean(fl.tensor(x[1]))[1] == x[1, 0]


@pytest.mark.parametrize("call", [lambda x: x[0, 0].std(), lambda x: fl.var(x[:, :1], 1), lambda x: fl.std_mean(x, 0, correction=2), lambda x: fl.var_mean(x[:1], 0), lambda x: x[:0].var(1)])
def test_no_degree_of_freedom_is_warned_of(call):
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        call(fl.ones(2, 3))


@pytest.mark.parametrize("call", [lambda x: x.std(), lambda x: x.var(1), lambda x: x[:, :1].var(1, correction=0), lambda x: fl.var_mean(x, (0, 1))])
def test_enough_of_them_are_not(call, recwarn):
    call(fl.ones(2, 3))
    assert not recwarn.list
