"""One index per row, expanded over all other axes, as networks on graphs give it: what the same index written out gives."""

import itertools

import numpy as np
import pytest

import flambeau as fl

SHAPES = [((5, 4), 0, 7), ((5, 4), 1, 6), ((3, 5, 4), 1, 8), ((2, 3, 5), 2, 4), ((4, 1), 0, 3), ((6, 2, 3), 0, 9)]


def operands(shape, dim, k, dtype, index_dtype="int64"):
    rng = np.random.default_rng([dim, k, *shape])
    wanted = list(shape)
    wanted[dim] = k
    line = fl.tensor(rng.integers(0, shape[dim], k)).to(getattr(fl, index_dtype))
    expanded = line.reshape([k if d == dim else 1 for d in range(len(shape))]).expand(wanted)
    numbers = [fl.tensor(rng.integers(-4, 5, s) / 2).to(dtype) for s in (shape, wanted)]
    return numbers[0], expanded, numbers[1]


CALLS = {
    "scatter": lambda x, d, i, s: x.scatter(d, i, s),
    "scatter of a number": lambda x, d, i, s: x.scatter(d, i, 2),
    "scatter_ of a number": lambda x, d, i, s: x.clone().scatter_(d, i, 2),
    "scatter_add": lambda x, d, i, s: x.scatter_add(d, i, s),
    "gather": lambda x, d, i, s: x.gather(d, i),
    **{
        f"{how}, {own}": lambda x, d, i, s, how=how, own=own: x.scatter_reduce(d, i, s, how, include_self=own)
        for how, own in itertools.product(("sum", "prod", "mean", "amax", "amin"), (True, False))
    },
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16, fl.int64, fl.uint8], ids=str)
@pytest.mark.parametrize("shape, dim, k", SHAPES, ids=str)
def test_is_the_index_written_out(shape, dim, k, dtype, name):
    x, index, src = operands(shape, dim, k, dtype)
    call = CALLS[name]
    want = call(x, dim, index.contiguous(), src)
    assert fl.equal(call(x, dim, index, src), want)
    turned = src.transpose(0, -1).contiguous().transpose(0, -1)  # src in another order
    assert fl.equal(call(x, dim, index, turned), want)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape, dim, k", SHAPES, ids=str)
def test_gradients(shape, dim, k, name):
    x, index, src = operands(shape, dim, k, fl.float64)
    found = []
    for at in (index, index.contiguous()):
        leaves = [t.clone().requires_grad_() for t in (x, src)]
        y = CALLS[name](leaves[0], dim, at, leaves[1])
        (y * fl.arange(y.numel(), dtype=fl.float64).reshape(y.shape)).sum().backward()
        found.append([t.grad for t in leaves])
    for a, b in zip(*found):
        assert (a is None) == (b is None) and (a is None or fl.allclose(a, b, rtol=1e-13, equal_nan=True))


def test_nan_stays():
    x = fl.tensor([[1.0, float("nan")], [3.0, 4.0]])
    src = fl.tensor([[float("nan"), 5.0], [7.0, float("nan")]])
    index = fl.tensor([[0], [1]]).expand(2, 2)
    for how in ("amax", "amin", "sum", "mean"):
        y = x.scatter_reduce(0, index, src, how)
        assert y.isnan().tolist() == [[True, True], [False, True]]
        assert y[1, 0].item() == {"amax": 7.0, "amin": 3.0, "sum": 10.0, "mean": 5.0}[how]


def test_of_a_part_of_the_columns():
    x, index, src = operands((5, 4), 0, 7, fl.float32)
    part = index[:, :3]
    want = x.scatter_add(0, part.contiguous(), src)
    assert fl.equal(x.scatter_add(0, part, src), want) and fl.equal(want[:, 3], x[:, 3])
    assert fl.equal(x.gather(0, part), x.gather(0, part.contiguous()))


def test_what_is_out_of_range_is_named():
    index = fl.tensor([0, 5]).unsqueeze(1).expand(2, 3)
    for call in (lambda: fl.zeros(4, 3).scatter_add_(0, index, fl.ones(2, 3)), lambda: fl.zeros(4, 3).gather(0, index)):
        with pytest.raises(IndexError, match=r"index 5 is out of bounds for dimension 0 with size 4 at element \[1, 0\]"):
            call()


def test_rows_that_a_reduction_does_not_meet():
    """include_self = False leaves them, and their gradient, as they are."""
    x = fl.tensor([[1.0, float("nan")], [3.0, 4.0]], requires_grad=True)
    index = fl.tensor([[1]]).expand(1, 2)
    for how in ("amax", "amin", "mean", "prod", "sum"):
        y = x.scatter_reduce(0, index, fl.full((1, 2), 9.0), how, include_self=False)
        assert y[1].tolist() == [9.0, 9.0] and y[0, 0].item() == 1.0
        (grad,) = fl.autograd.grad(y.nansum() if how != "mean" else y.sum(), x)
        assert grad[1].tolist() == [0.0, 0.0]
