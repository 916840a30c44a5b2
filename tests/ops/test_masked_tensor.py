"""Tensors with a mask: what keeps the mask, what moves it, what goes over axes, and what is refused."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import flambeau as fl
from flambeau.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

NAN = float("nan")


def data():
    return fl.tensor([[1.0, NAN, 3.0], [4.0, 5.0, NAN]])


def mask():
    return fl.tensor([[True, False, True], [True, False, False]])


@pytest.fixture
def x():
    return MaskedTensor(data(), mask())


def filled(value):
    """The elements, with -1 for those that do not count."""
    assert is_masked_tensor(value)
    return value.to_tensor(-1).tolist()


def test_shown(x):
    assert (
        repr(x)
        == "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n    [  4.0000,       --,       --]\n  ]\n)"
    )
    assert (
        repr(x[0, 1]) == "MaskedTensor(--, False)"
        and f"{x[0, 0]}" == "MaskedTensor(  1.0000, True)"
    )
    assert repr(x.int()[1]) == "MaskedTensor(\n  [4,       --,       --]\n)"
    assert repr(x[:0]) == "MaskedTensor(\n  []\n)"


def test_parts_and_geometry(x):
    assert isinstance(x, fl.Tensor) and fl.is_tensor(x) and not is_masked_tensor(x.get_data())
    assert (x.shape, x.ndim, len(x), x.dtype, x.device.type, x.is_leaf) == (
        (2, 3),
        2,
        2,
        fl.float32,
        "cpu",
        True,
    )
    assert (
        x.get_mask().tolist() == mask().tolist() and x.to_dense() is x and x.requires_grad is False
    )
    given = data()
    assert masked_tensor(given, mask()).get_data()._storage_ptr() != given._storage_ptr()


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda x: x + 1, [[2, -1, 4], [5, -1, -1]]),
        (lambda x: 1 - x, [[0, -1, -2], [-3, -1, -1]]),
        (lambda x: x * x, [[1, -1, 9], [16, -1, -1]]),
        (lambda x: x / fl.tensor([1.0, 2.0, 3.0]), [[1, -1, 1], [4, -1, -1]]),
        (lambda x: 2**x, [[2, -1, 8], [16, -1, -1]]),
        (lambda x: -x.neg().abs(), [[-1, -1, -3], [-4, -1, -1]]),
        (lambda x: fl.clamp(x, max=2), [[1, -1, 2], [2, -1, -1]]),
        (lambda x: x.clone().mul_(2), [[2, -1, 6], [8, -1, -1]]),
        (lambda x: x.double().sqrt().square().round(), [[1, -1, 3], [4, -1, -1]]),
        (lambda x: (x > 2).int(), [[0, -1, 1], [1, -1, -1]]),
        (lambda x: fl.ones(2, 2, 3)[:, :1] + x[:1], [[[2, -1, 4]], [[2, -1, 4]]]),
    ],
)
def test_by_element(x, compute, expected):
    assert filled(compute(x)) == expected


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda x: x[0], [1, -1, 3]),
        (lambda x: x[:, 0], [1, 4]),
        (lambda x: x[fl.tensor([1, 0, 1])], [[4, -1, -1], [1, -1, 3], [4, -1, -1]]),
        (lambda x: x[fl.tensor([False, True])], [[4, -1, -1]]),
        (lambda x: x.index_select(1, fl.tensor([2, 0])), [[3, 1], [-1, 4]]),
        (lambda x: x.gather(1, fl.tensor([[2], [0]])), [[3], [4]]),
        (lambda x: x.T, [[1, 4], [-1, -1], [3, -1]]),
        (lambda x: x.reshape(3, 2), [[1, -1], [3, 4], [-1, -1]]),
        (lambda x: x.unsqueeze(0).transpose(0, 1), [[[1, -1, 3]], [[4, -1, -1]]]),
        (lambda x: fl.cat([x, fl.zeros(1, 3)]), [[1, -1, 3], [4, -1, -1], [0, 0, 0]]),
        (lambda x: fl.stack([x[0], x[1]], 1), [[1, 4], [-1, -1], [3, -1]]),
        (lambda x: x.split(1)[1], [[4, -1, -1]]),
        (lambda x: list(x)[1], [4, -1, -1]),
        (lambda x: x.expand(2, 2, 3)[1], [[1, -1, 3], [4, -1, -1]]),
        (lambda x: fl.where(mask(), x, 7.0), [[1, 7, 3], [4, 7, 7]]),
        (
            lambda x: fl.where(
                fl.tensor([True, False, False]), x, MaskedTensor(fl.zeros(2, 3), ~mask())
            ),
            [[1, 0, -1], [4, 0, 0]],
        ),
    ],
)
def test_moved(x, move, expected):
    assert filled(move(x)) == expected


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (lambda x: x.sum(), 8),
        (lambda x: x.sum(0), [5, -1, 3]),
        (lambda x: fl.sum(x, 1, keepdim=True), [[4], [4]]),
        (lambda x: x.sum(axis=1), [4, 4]),
        (lambda x: fl.mean(x, dim=(0, 1)), 8 / 3),
        (lambda x: x.prod(0), [4, -1, 3]),
        (lambda x: x.amax(1), [3, 4]),
        (lambda x: x.amin(0), [1, -1, 3]),
        (lambda x: x.argmax(1), [2, 0]),
        (lambda x: (x > 1).all(0).int(), [0, -1, 1]),
        (lambda x: (x > 1).any(0).int(), [1, -1, 1]),
        (lambda x: x.var(1, unbiased=False), [1, 0]),
        (lambda x: fl.std(x[0], False), 1),
        (lambda x: x[:, :1].norm(1), 5),
        (lambda x: fl.cumsum(x, 1)[:, 2].round(), [4, -1]),
        (lambda x: fl.softmax(x - x, 1), [[0.5, -1, 0.5], [1, -1, -1]]),
    ],
)
def test_over_axes(x, fold, expected):
    assert (
        filled(fold(x)) == pytest.approx(expected)
        if not isinstance(expected, list)
        else filled(fold(x)) == expected
    )


def test_gradients_are_masked():
    x = masked_tensor(
        fl.tensor([-1.0, 4.0, 0.0]), fl.tensor([False, True, False]), requires_grad=True
    )
    x.sqrt().log().sum().backward()
    assert isinstance(x.grad, MaskedTensor) and filled(x.grad) == [-1, 0.125, -1]
    x.grad = None
    (x * 2).backward(fl.tensor([NAN, 3.0, NAN]))  # of what does not count nothing comes back
    assert x.grad.get_data().tolist() == [0.0, 6.0, 0.0]


def test_gradients_go_to_the_data_of_as_masked_tensor():
    given = fl.tensor([1.0, 2.0], requires_grad=True)
    y = as_masked_tensor(given, fl.tensor([False, True])) * 3
    assert y.requires_grad and y.grad_fn is not None and not y.is_leaf
    y.sum().backward()
    assert (
        given.grad.tolist() == [0.0, 3.0] and not MaskedTensor(given, mask()[0, :2]).requires_grad
    )


def test_assignments(x):
    plain = fl.zeros(2, 3)
    plain[0] = x[0, :]
    assert plain[0, ::2].tolist() == [1.0, 3.0]
    assert fl.zeros(3).copy_(x.sum(0)).tolist() == [5.0, 0.0, 3.0]
    x[:, 0] = 9.0
    x[0] = MaskedTensor(fl.arange(3.0), mask()[0])
    assert filled(x) == [[0, -1, 2], [9, -1, -1]]
    with pytest.raises(
        ValueError,
        match=r"__setitem__: Input masks must match. They let through 2 of \[3\] and 1 of \[3\] elements",
    ):
        x[0] = x[1]


def test_copies(x):
    for made in (
        copy.deepcopy(x),
        copy.copy(x),
        pickle.loads(pickle.dumps(x)),
        x.clone(),
        x.detach(),
    ):
        assert filled(made) == filled(x)
    assert x.sum().item() == 8.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x + MaskedTensor(data(), ~mask()), ValueError, r"add: Input masks must match. They let through 3 of \[2, 3\] and 3 of"),
        (lambda x: x @ x.T, TypeError, r"matmul: is not there for tensors with a mask; use get_data\(\), or to_tensor\(value\)"),
        (lambda x: x.numpy(), TypeError, "numpy: is not there for tensors with a mask"),
        (lambda x: x.tolist(), TypeError, "tolist: is not there for tensors with a mask"),
        (lambda x: bool(x.sum()), TypeError, "bool: is not there for tensors with a mask"),
        (lambda x: x[0, 1].item(), ValueError, "item: the element does not count"),
        (lambda x: fl.zeros(2, 3).add_(x), TypeError, "add_: a tensor without a mask can not take what has one"),
        (lambda x: x.unsqueeze_(0), TypeError, "data: a tensor with a mask has its shape and elements for good"),
        (lambda x: x[MaskedTensor(fl.tensor([0]), fl.tensor([True]))], TypeError, "__getitem__: an index with a mask"),
        (lambda x: fl.where(x > 0), TypeError, "where: a condition with a mask and nothing to choose from"),
        (lambda x: MaskedTensor(x, mask()), TypeError, "data is a MaskedTensor; data must be a Tensor, dense and without a mask"),
        (lambda x: MaskedTensor(fl.ones(2), [True, False]), TypeError, "mask is a list; mask must be a Tensor"),
        (lambda x: MaskedTensor(fl.ones(2), fl.ones(2)), TypeError, "the mask is of .*float32; mask must have dtype bool"),
        (lambda x: MaskedTensor(fl.ones(2), mask()), ValueError, r"data has shape \[2\], the mask \[2, 3\]; data.size\(\) must equal mask.size"),
        (lambda x: MaskedTensor(fl.ones(2).to_sparse(), mask()), TypeError, "data is a .*; data must be a Tensor, dense"),
        (lambda x: copy.deepcopy(masked_tensor(data(), mask(), True).exp()), fl.AutogradError, "is the result of a computation; call .detach"),
    ],
)  # fmt: skip
def test_refused(x, call, error, text):
    with pytest.raises(error, match=text):
        call(x)


def test_is_not_saved_as_an_ordinary_tensor(x):
    with pytest.raises((TypeError, ValueError)):
        fl.save({"x": x}, io.BytesIO())
