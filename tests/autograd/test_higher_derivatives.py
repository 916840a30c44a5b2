"""Derivatives of derivatives of functions whose slopes have kernels of their own, by finite differences of the one before."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.autograd import grad, gradcheck

CASES = {
    "special.i1e": (fl.special.i1e, 2),
    "special.i0e": (fl.special.i0e, 3),
    "special.i1": (fl.special.i1, 3),
    "special.i0": (fl.special.i0, 4),
    "sinc": (fl.sinc, 3),
    **{f"norm of {p}": ((lambda x, p=p: fl.linalg.vector_norm(x.view(1, 4), p, 1)), 3) for p in (2.5, 3.0, 0.5, -1.0)},
    "normalize": (lambda x: fl.nn.functional.normalize(x.view(2, 2), 2.5), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_by_differences(name):
    function, order = CASES[name]
    fl.manual_seed(0)
    x = fl.tensor([0.7, -1.3, 2.5, -0.4], dtype=fl.float64, requires_grad=True)
    steps = [fl.rand(4, dtype=fl.float64) + 0.5 for _ in range(order)]

    def last_but_one(x):
        y = function(x)
        for step in steps[:-1]:
            y = grad((y * step[: y.shape[-1]]).sum(), x, create_graph=True)[0]
        return y

    assert gradcheck(last_but_one, (x,), eps=1e-5, atol=1e-4, rtol=1e-4)


def test_at_zero():
    x = fl.zeros(1, dtype=fl.float64, requires_grad=True)
    for name, order, value in (("i1e", 2, 0.0), ("i0e", 3, 0.0), ("i1", 3, 0.375), ("i0", 4, 0.375), ("sinc", 3, 0.0)):
        y = getattr(fl.special, name)(x)
        for _ in range(order):
            (y,) = grad(y.sum(), x, create_graph=True)
        assert y.item() == value, name
    w = fl.tensor([0.0, 2.0], dtype=fl.float64, requires_grad=True)
    y = fl.linalg.vector_norm(w, 3.0)
    for _ in range(3):
        (y,) = grad(y.sum(), w, create_graph=True)
    assert y.isfinite().all()
