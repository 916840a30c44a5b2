"""`out=`: any function writes its result into tensors of the caller."""

from __future__ import annotations

import pytest

import flambeau as fl

X = [[1.0, -2.0], [3.0, 4.0]]

CALLS = {
    "add": lambda x, **kw: fl.add(x, x, **kw),
    "mm": lambda x, **kw: fl.mm(x, x, **kw),
    "sum": lambda x, **kw: fl.sum(x, 1, **kw),
    "cat": lambda x, **kw: fl.cat([x, x], **kw),
    "abs": lambda x, **kw: fl.abs(x, **kw),
    "vstack": lambda x, **kw: fl.vstack([x, x], **kw),
    "quantile": lambda x, **kw: fl.quantile(x, 0.5, **kw),
    "arange": lambda x, **kw: fl.arange(5, dtype=fl.float32, **kw),
}


@pytest.mark.parametrize("name", CALLS)
def test_result_is_written_into_out(name):
    x, call = fl.tensor(X), CALLS[name]
    want = call(x)
    out = fl.full(want.shape, 7.0)
    assert call(x, out=out) is out
    assert fl.equal(out, want)


@pytest.mark.parametrize("name", CALLS)
def test_empty_out_is_resized_without_a_warning(name, recwarn):
    x, call = fl.tensor(X), CALLS[name]
    out = fl.empty(0)
    assert call(x, out=out) is out
    assert fl.equal(out, call(x))
    assert not recwarn


def test_out_of_another_shape_is_resized_with_a_warning():
    with pytest.warns(UserWarning, match=r"add: out has shape \[3\] and is resized to \[2, 2\]"):
        fl.add(fl.tensor(X), 1, out=fl.empty(3))


def test_several_results():
    values, indices = fl.empty(2), fl.empty(2, dtype=fl.int64)
    found = fl.max(fl.tensor(X), 1, out=(values, indices))
    assert found.values is values and found.indices is indices
    assert (values.tolist(), indices.tolist()) == ([1.0, 4.0], [0, 1])


def test_out_may_be_an_argument():
    x = fl.tensor(X)
    fl.mm(x, x, out=x)
    assert x.tolist() == [[-5.0, -10.0], [15.0, 10.0]]


def test_wider_type_is_filled():
    assert fl.add(fl.tensor([1]), 1, out=fl.empty(1, dtype=fl.float64)).tolist() == [2.0]


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: fl.sqrt(fl.tensor(X), out=fl.empty(2, 2, dtype=fl.int64)), fl.DTypeError, r"sqrt: the result is flambeau.float32, out is flambeau.int64"),
        (lambda: fl.add(fl.tensor(X), 1, out=[1.0]), TypeError, "add: out = list; expected a tensor"),
        (lambda: fl.max(fl.tensor(X), 1, out=fl.empty(2)), TypeError, "max: out = Tensor; expected a tuple of 2 tensors"),
        (lambda: fl.add(fl.tensor(X, requires_grad=True), 1, out=fl.empty(2, 2)), fl.AutogradError, "out= records no gradient"),
    ],
)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_without_grad_mode_a_tensor_may_require_grad():
    x = fl.tensor(X, requires_grad=True)
    with fl.no_grad():
        assert fl.neg(x, out=fl.empty(2, 2)).tolist() == [[-1.0, 2.0], [-3.0, -4.0]]


def test_methods_have_no_out():
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        fl.tensor(X).add(1, out=fl.empty(2, 2))
