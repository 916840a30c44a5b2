"""Programs write into what these return, and their gradients are as if they had not kept it: PyTorch's keep the inputs."""

import pytest

import flambeau as fl

CALLS = {
    "div": (lambda x: 3.0 / x, lambda x: -3.0 / x**2),
    "div of tensors": (lambda x: fl.full_like(x, 3.0) / x, lambda x: -3.0 / x**2),
    "pow 0.5": (lambda x: x**0.5, lambda x: 0.5 * x**-0.5),
    "pow -0.5": (lambda x: x**-0.5, lambda x: -0.5 * x**-1.5),
    "pow -1": (lambda x: x**-1, lambda x: -(x**-2.0)),
    "pow 2": (lambda x: x**2, lambda x: 2 * x),
    "pow 1.7": (lambda x: x**1.7, lambda x: 1.7 * x**0.7),
    "pow_ 0.5": (lambda x: (x * 1).pow_(0.5), lambda x: 0.5 * x**-0.5),
    "pow_ -0.5": (lambda x: (x * 1).pow_(-0.5), lambda x: -0.5 * x**-1.5),
    "pow_ -1": (lambda x: (x * 1).pow_(-1), lambda x: -(x**-2.0)),
    "div_": (lambda x: fl.full_like(x, 3.0).div_(x), lambda x: -3.0 / x**2),
    "erfinv": (lambda x: (x / 10).erfinv(), lambda x: 0.0886226925452758 * fl.exp((x / 10).erfinv() ** 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradient(name):
    call, slope = CALLS[name]
    x = fl.tensor([0.5, 2.0, 4.0], dtype=fl.float64, requires_grad=True)
    y = call(x)
    kept = y.detach().clone()
    y.mul_(2).masked_fill_(y == float("inf"), 0.0)
    y.sum().backward()
    assert fl.allclose(x.grad, 2 * slope(x.detach()), rtol=1e-12)
    assert fl.equal(y.detach(), 2 * kept)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1.0])
def test_roots_have_second_derivatives(exponent):
    x = fl.tensor([0.5, 2.0], dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradgradcheck(lambda t: t**exponent, (x,))
    assert fl.equal((x**exponent).detach(), x.detach() ** exponent)
