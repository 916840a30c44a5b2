"""Anomaly detection names the op that made NaN and the lines of its forward call."""

from __future__ import annotations

import inspect

import pytest

import flambeau as fl


def forward(x):
    return x.sqrt() * 2


def test_the_forward_line_is_named():
    x = fl.tensor([-1.0, 4.0], requires_grad=True)
    with fl.autograd.set_detect_anomaly(True):
        line = inspect.currentframe().f_lineno + 1
        y = forward(x)
        with pytest.raises(fl.AutogradError) as caught:
            y.sum().backward()
    text = str(caught.value)
    assert text.startswith("Function 'SqrtBackward0' returned nan values in its 0th output; the forward call was at")
    first, second = text.split("\n")[1:3]
    assert "test_anomaly.py:13, in forward (`return x.sqrt() * 2`)" in first
    assert f"test_anomaly.py:{line}, in test_the_forward_line_is_named" in second
    assert x.grad is None


def test_calls_that_give_up_the_lock_are_named_too():
    x = fl.full((300, 300), -1.0).requires_grad_()
    with fl.autograd.set_detect_anomaly(True):
        y = x.log().sqrt()
        with pytest.raises(fl.AutogradError, match=r"(?s)SqrtBackward0.*test_anomaly.py.*x.log\(\).sqrt\(\)"):
            y.sum().backward()


class Bad(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, dy):
        return dy * float("nan")


def test_custom_functions():
    x = fl.ones(2, requires_grad=True)
    with fl.autograd.set_detect_anomaly(True):
        y = Bad.apply(x)
        with pytest.raises(fl.AutogradError, match="'BadBackward'.*0th output"):
            y.sum().backward()


def test_graphs_from_before_are_checked_without_a_line():
    x = fl.tensor([-1.0], requires_grad=True)
    y = x.sqrt()
    with fl.autograd.set_detect_anomaly(True), pytest.raises(fl.AutogradError, match="0th output$"):
        y.backward()


def test_switches():
    fl.autograd.set_detect_anomaly(True)
    try:
        assert fl.is_anomaly_enabled() and fl.is_anomaly_check_nan_enabled()
        with fl.autograd.set_detect_anomaly(False):
            assert not fl.is_anomaly_enabled()
        assert fl.is_anomaly_enabled()
    finally:
        fl.autograd.set_detect_anomaly(False)
    assert not fl.is_anomaly_enabled()
    with pytest.warns(UserWarning, match="anomaly"), fl.autograd.detect_anomaly(check_nan=False):
        assert fl.is_anomaly_enabled() and not fl.is_anomaly_check_nan_enabled()
    assert not fl.is_anomaly_enabled()


def test_finite_gradients_pass():
    x = fl.randn(4, 4).requires_grad_()
    with fl.autograd.set_detect_anomaly(True):
        (dx,) = fl.autograd.grad((x @ x).exp().sum(), x, create_graph=True)
        dx.sum().backward()
    assert not x.grad.isnan().any()
