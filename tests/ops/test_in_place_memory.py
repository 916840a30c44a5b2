"""What changes a part of a large tensor in place takes time and memory for that part."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import bits
from support.table import OPS

import flambeau as fl

ROWS, WIDTH = 4096, 64
INDEX = fl.tensor([5, 0, 4095])
SPREAD = INDEX.unsqueeze(1).expand(3, WIDTH)
FEW = fl.arange(3.0 * WIDTH).reshape(3, WIDTH)
PART = fl.zeros(ROWS, WIDTH, dtype=fl.bool)
PART[7, :3] = True

STATEMENTS = {
    "index_add_": lambda x: x.index_add_(0, INDEX, FEW), "index_copy_": lambda x: x.index_copy_(0, INDEX, FEW), "index_fill_": lambda x: x.index_fill_(0, INDEX, 2.0),
    "index_put_": lambda x: x.index_put_((INDEX,), FEW), "index_put_, accumulate": lambda x: x.index_put_((INDEX,), FEW, True),
    "index_put_, one value": lambda x: x.index_put_((INDEX,), fl.tensor(3.0)), "setitem": lambda x: x.__setitem__((INDEX, slice(3)), 1.0),
    "index_reduce_": lambda x: x.index_reduce_(0, INDEX, FEW, "amax"), "put_": lambda x: x.put_(INDEX, FEW[:, 0]),
    "scatter_": lambda x: x.scatter_(0, SPREAD, FEW), "scatter_ of a number": lambda x: x.scatter_(0, SPREAD, 2.0),
    "scatter_, reduce": lambda x: x.scatter_(0, SPREAD, FEW, reduce="multiply"), "scatter_ of a number, reduce": lambda x: x.scatter_(0, SPREAD, 2.0, reduce="add"),
    "scatter_add_": lambda x: x.scatter_add_(0, SPREAD, FEW), "scatter_reduce_": lambda x: x.scatter_reduce_(0, SPREAD, FEW, "mean", include_self=False),
    "masked_scatter_": lambda x: x.masked_scatter_(PART, FEW), "masked_fill_": lambda x: x.masked_fill_(PART, 3.0),
    "tril_": lambda x: x.tril_(), "triu_": lambda x: x.triu_(1), "fill_diagonal_": lambda x: x.fill_diagonal_(1.0),
    "addmm_": lambda x: x.addmm_(fl.ones(ROWS, 2), fl.ones(2, WIDTH), beta=0.5), "addr_": lambda x: x.addr_(fl.ones(ROWS), fl.ones(WIDTH), alpha=2),
    "baddbmm_": lambda x: x.view(2, -1, WIDTH).baddbmm_(fl.ones(2, ROWS // 2, 2), fl.ones(2, 2, WIDTH)), "addmv_": lambda x: x.view(-1).addmv_(fl.ones(ROWS * WIDTH, 1), fl.ones(1)),
    "renorm_": lambda x: x.renorm_(2, 0, 5.0), "bitwise_not_": lambda x: x.view(fl.int32).bitwise_not_(),
}  # fmt: skip


def numbers():
    return fl.tensor(np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32))


WHOLE = [name for name in STATEMENTS if name != "addmv_"]  # whose matrix is as large
PARTS = [name for name in STATEMENTS if name.startswith(("index_", "scatter", "put", "setitem"))]


@pytest.mark.eager("memory at a moment")
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name, turned", [(name, False) for name in WHOLE] + [(name, True) for name in PARTS])
def test_no_copy_is_made(name, turned):
    lying = (lambda: numbers().t().contiguous().t()) if turned else numbers
    x = lying()
    STATEMENTS[name](lying())  # what is made once
    before, version, place = fl.memory_stats()["allocated_bytes"], x._version, x.data_ptr()
    fl.reset_peak_memory_stats()
    STATEMENTS[name](x)
    taken = fl.memory_stats()["peak_allocated_bytes"] - before
    assert taken < 1.2 * x.numel()  # bytes, of operands of their own and masks; a copy is 4 for an element
    assert x._version > version and x.data_ptr() == place


def test_parts_of_what_does_not_lie_in_rows():
    """Indices that come twice, from the end, and as a line that was expanded; complex numbers; and what is read so."""
    index = fl.tensor([7, -1 % ROWS, 7])
    for dtype in (fl.float32, fl.complex64, fl.bfloat16, fl.int64, fl.bool):
        start = (numbers() * 4).to(dtype)
        lying = [start.t().contiguous().t(), fl.zeros(ROWS, 2 * WIDTH, dtype=dtype)[:, 1::2].copy_(start), start.flip(0)[::2].flip(0)]
        few = (fl.arange(3.0 * WIDTH).reshape(3, WIDTH) % 5 - 1).to(dtype)
        for x in lying:
            rows = x.shape[0]
            at = index % rows
            spread = at.unsqueeze(1).expand(3, WIDTH)
            for call in (
                lambda t: t.index_add_(0, at, few), lambda t: t.index_copy_(0, at, few), lambda t: t.index_fill_(0, fl.tensor([-3, 2]), 1),
                lambda t: t.scatter_(0, spread, few), lambda t: t.scatter_add_(0, spread.contiguous(), few), lambda t: t.put_(at, few[:, 0]),
                lambda t: t.index_add_(0, at, few, alpha=2) if dtype is not fl.bool else t, lambda t: t.scatter_(0, spread[:2, :3], 0),
            ):  # fmt: skip
                got, want = call(fl.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x)), call(x.contiguous().clone())
                if dtype is fl.bfloat16:  # sums of a part are rounded once, those of a large tensor at each step
                    assert fl.allclose(got, want, rtol=0.02, atol=0.1)
                else:
                    assert bits(got.contiguous()) == bits(want)
            assert bits(x.gather(0, spread)) == bits(x.contiguous().gather(0, spread))
            assert bits(x.gather(0, spread[:2, :3].contiguous())) == bits(x.contiguous().gather(0, spread[:2, :3]))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", STATEMENTS)
def test_what_does_not_lie_in_rows_gets_the_same(name):
    if name in ("baddbmm_", "addmv_", "bitwise_not_"):
        pytest.skip("takes a view, which there is none of")
    want = numbers()
    STATEMENTS[name](want)
    turned, wide, lent = numbers().t().contiguous().t(), fl.zeros(ROWS, 2 * WIDTH)[:, ::2].copy_(numbers()), fl.from_numpy(numbers().numpy().copy())
    for x in (turned, wide, lent):
        STATEMENTS[name](x)
        assert fl.allclose(x, want, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", STATEMENTS)
def test_histories(name):
    """What is written into a view is the base's history, too."""
    if name == "bitwise_not_":
        pytest.skip("no gradient")
    found = []
    for view in (False, True):
        leaf = numbers().requires_grad_()
        x = leaf * 2
        STATEMENTS[name](x.view(ROWS, WIDTH) if view else x)
        (x * numbers().cos()).sum().backward()
        found.append((bits(x), leaf.grad))
    assert found[0][0] == found[1][0] and fl.allclose(found[0][1], found[1][1])


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", [name for name in STATEMENTS if name != "setitem"])
def test_a_replay_writes_there_too(name):
    x, want = numbers(), numbers()
    step = fl.compile(lambda x: STATEMENTS[name](x).sum(), mode="replay")
    for call in range(5):
        assert bits(step(x)) == bits(STATEMENTS[name](want).sum()), call
    assert bits(x) == bits(want)


# In place these make their result apart, and copy it.
APART = {
    "ldexp": "a composition", "addbmm": "a sum of products that is made first", "cumsum": "a scan, whose result may have another type",
    "cumprod": "a scan, whose result may have another type",
}  # fmt: skip


def test_what_is_made_apart_is_listed():
    """A kernel that may write over its first argument says so: `inplace: over` (docs/op-table.md)."""
    assert {op.name for op in OPS if op.get("inplace") is True and "each" not in op.keys} == set(APART)
