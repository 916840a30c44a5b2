"""Indices that a gradient reads may have changed since they were checked: they are refused, and nothing is written beside."""

import pytest

import flambeau as fl
from flambeau.autograd.graph import saved_tensors_hooks

F = fl.nn.functional
# The leaves are gone when backward ends, so that their gradients would not be computed; tests/graph/test_lazy.py has these errors.
pytestmark = pytest.mark.eager("when indices are read")


def table(indices):
    return F.embedding(indices, fl.rand(4, 3, requires_grad=True))


def images(channels_last):
    x = fl.rand(2, 16, 8, 8, requires_grad=True)
    return F.conv2d(x, fl.rand(16, 16, 1, 1)) if channels_last else x * 1


def square(**kwargs):
    return fl.rand(3, 4, requires_grad=True)


# Each gives what goes backward, and the indices that its node keeps.
CASES = {
    "embedding": lambda: (table(i := fl.tensor([1, 2, 1])), i),
    "embedding int32": lambda: (table(i := fl.tensor([1, 2, 1], dtype=fl.int32)), i),
    "max": lambda: square().max(1),
    "min": lambda: square().min(0),
    "median": lambda: square().median(1),
    "kthvalue": lambda: square().kthvalue(2, 1),
    "mode": lambda: square().mode(1),
    "sort": lambda: square().sort(1),
    "topk": lambda: square().topk(2),
    "cummax": lambda: square().cummax(1),
    "max_pool1d": lambda: F.max_pool1d(fl.rand(2, 3, 8, requires_grad=True), 2, return_indices=True),
    "max_pool2d": lambda: F.max_pool2d(images(False), 2, return_indices=True),
    "max_pool2d channels last": lambda: F.max_pool2d(images(True), 2, return_indices=True),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(images(False), 3, return_indices=True),
    "gather": lambda: (square().gather(1, i := fl.zeros(3, 2, dtype=fl.int64)), i),
    "index_select": lambda: (square().index_select(1, i := fl.tensor([0, 3])), i),
    "take": lambda: (square().take(i := fl.tensor([0, 3])), i),
    "x[i]": lambda: (square()[i := fl.tensor([0, 2])], i),
    "nll_loss": lambda: (F.nll_loss(square(), i := fl.tensor([0, 1, 2])), i),
    "cross_entropy": lambda: (F.cross_entropy(square(), i := fl.tensor([0, 1, 2])), i),
}


@pytest.mark.parametrize("wrong", [10**6, -(10**6)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_indices_that_numpy_wrote(case, wrong):
    y, indices = case()
    indices.numpy()[...] = wrong
    with pytest.raises((IndexError, ValueError), match=r"1000\d{3}\b"):
        y.sum().backward()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_indices_that_a_hook_gives_back(case):
    with saved_tensors_hooks(lambda x: x, lambda x: x if x.is_floating_point() else x + 10**6):
        y, _ = case()
    with pytest.raises((IndexError, ValueError), match=r"1000\d{3}\b"):
        y.sum().backward()


SECOND = {
    "embedding": ((4, 3), lambda x: (F.embedding(i := fl.tensor([1, 2, 1]), x, padding_idx=0), i)),
    "max": ((3, 4), lambda x: x.max(1)),
    "max_pool2d": ((2, 3, 8, 8), lambda x: F.max_pool2d(x, 2, return_indices=True)),
}


@pytest.mark.parametrize(("shape", "f"), SECOND.values(), ids=SECOND)
def test_the_second_derivative_reads_them_again(shape, f):
    x, w = fl.rand(shape, requires_grad=True), fl.ones((), requires_grad=True)
    y, indices = f(x)
    (g,) = fl.autograd.grad((y * w).sum(), x, create_graph=True)
    indices.numpy()[...] = 10**6
    with pytest.raises(IndexError, match=r"1000\d{3}\b"):
        g.sum().backward()
