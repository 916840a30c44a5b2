"""Usual calls, which are ops by a kept plan, beside the way of all calls, which a wanted gradient takes."""

from __future__ import annotations

import itertools

import pytest

import flambeau as fl
from flambeau.fft import _plans

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
ALL = [name + end for name in ONE for end in ("", "2", "n")]
REAL = {"rfft", "ihfft"}


def outcome(function, x, *args, **kwargs):
    """Result or error."""
    try:
        return function(x, *args, **kwargs).detach()
    except Exception as error:
        return type(error), str(error)


def both(name, x, *args, **kwargs):
    """By a plan, where there is one, and without."""
    function = getattr(fl.fft, name)
    return outcome(function, x, *args, **kwargs), outcome(function, x.detach().requires_grad_(), *args, **kwargs)


def assert_same(a, b):
    if isinstance(a, tuple):
        assert a == b
    else:
        assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride() and fl.equal(a, b)


def numbers(name, *shape, double=False):
    real = name.rstrip("2n") in REAL
    return fl.randn(shape, dtype=(fl.float64 if double else fl.float32) if real else (fl.complex128 if double else fl.complex64))


SIZES = [(), (5,), (12,), (4, 6), (9, 3), (-1, 7), (0, 4), (2, 2, 2)]
DIMS = [(), (-1,), (0,), (1, 0), (-2, -1), (0, -1), (1, 1), (7,)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_a_plan_gives_what_all_calls_give(name, double):
    x = numbers(name, 2, 6, 5, double=double)
    for s, dim, norm in itertools.product(SIZES, DIMS, [None, "ortho", "forward", "other"]):
        if name in ONE:
            if len(s) > 1 or len(dim) > 1:
                continue
            given = {"n": s[0] if s else None, **({"dim": dim[0]} if dim else {})}
        else:
            given = {"s": s or None, **({"dim": dim} if dim else {})}
        assert_same(*both(name, x, **given, norm=norm))


@pytest.mark.parametrize("name", ALL)
def test_usual_calls_have_a_plan(name):
    for x in (numbers(name, 4, 8), numbers(name, 4, 8).t()):
        _plans._plan.cache_clear()
        getattr(fl.fft, name)(x)
        getattr(fl.fft, name)(x, norm="ortho")
        getattr(fl.fft, name)(x)
        found = _plans._plan.cache_info()
        assert (found.hits, found.misses) == (1, 2)


@pytest.mark.parametrize("dtype", [fl.float16, fl.int64, fl.bool, fl.float32, fl.complex64])
@pytest.mark.parametrize("name", ALL)
def test_types(name, dtype):
    x = (fl.rand(4, 6) * 3).to(dtype)
    a = outcome(getattr(fl.fft, name), x)
    if dtype.is_floating_point or dtype.is_complex:
        assert_same(*both(name, x))
    else:
        assert_same(a, outcome(getattr(fl.fft, name), x.to(fl.float32)))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 4), (37, 41), (3, 4099)])
@pytest.mark.parametrize("name", ALL)
def test_shapes(name, shape):
    assert_same(*both(name, numbers(name, *shape)))


def test_lists_are_as_tuples():
    x = fl.randn(4, 6)
    assert fl.equal(fl.fft.rfft2(x, [8, 4], [1, 0]), fl.fft.rfft2(x, (8, 4), (1, 0)))


def test_tensors_that_say_axes_are_read_at_each_call():
    x, d = fl.randn(4, 6).to(fl.complex64), fl.tensor(0)
    first = fl.fft.fftn(x, dim=(d,))
    d.fill_(1)
    assert fl.equal(first, fl.fft.fft(x, dim=0)) and fl.equal(fl.fft.fftn(x, dim=(d,)), fl.fft.fft(x, dim=1))


def test_subclasses_and_meta():
    class Mine(fl.Tensor):
        pass

    assert type(fl.fft.fft(fl.randn(4).to(fl.complex64).as_subclass(Mine))) is Mine
    y = fl.fft.rfft2(fl.empty(4, 6, device="meta"))
    assert y.is_meta and y.shape == (4, 4) and y.dtype is fl.complex64


def test_no_gradient_is_recorded_where_none_is_wanted():
    x = fl.randn(4, requires_grad=True)
    with fl.no_grad():
        assert not fl.fft.rfft(x).requires_grad
    assert fl.fft.rfft(x).requires_grad
