"""What is written to and what is read lie partly in the same memory: ops that write in place, and with `out=`, give what they give where they do not."""

from __future__ import annotations

import numpy as np
import pytest
from support.table import arrays, cases, map_arrays, tensors

import flambeau as fl
from flambeau import _C

RANDOM = "ops/random.yaml"


def _written_to(op):
    """The argument that a call by `method` writes to, and that method; nothing where no form of the op writes to one."""
    if op.file == RANDOM or not op.get("samples"):
        return None
    if op.name.endswith("_"):
        return op.first_tensor, op.name
    return (op.first_tensor, op.name + "_") if op.get("inplace") else None


def _places(args, written):
    """Arguments that can lie an element further on in the memory of what is written to: (name, position in a list or None)."""
    target = args[written]
    out = []
    for name, value in args.items():
        if name == written:
            continue
        for position, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, np.ndarray) and item.dtype == target.dtype and item.size:
                out.append((name, position))
    return out


def _moved(op, args, written, place, apart):
    """Calls the op with the argument at `place` one element behind what is written to, or with a copy of what lies there."""
    name, position = place
    target, other = args[written], args[name] if position is None else args[name][position]
    memory = np.zeros(max(target.size, other.size + 1), target.dtype)
    memory[1 : other.size + 1] = other.ravel()
    memory[: target.size] = target.ravel()  # what of the other lies in here has these values
    base = fl.tensor(memory)
    x = base[: target.size].view(target.shape)
    y = base[1 : other.size + 1].view(other.shape)
    given = {**tensors(op, map_arrays(args, np.copy)), written: x}
    y = y.clone() if apart else y
    if position is None:
        given[name] = y
    else:
        given[name] = [*given[name][:position], y, *given[name][position + 1 :]]
    try:
        getattr(_C.ops, _written_to(op)[1])(**given)
    except (ValueError, RuntimeError, TypeError, IndexError) as error:
        return type(error).__name__, None
    return "written", base.numpy()[: target.size].copy()


def _has_places(op, index):
    args, written = arrays(op, index), _written_to(op)[0]
    return isinstance(args.get(written), np.ndarray) and args[written].size > 0 and bool(_places(args, written))


@pytest.mark.parametrize("op, index", [case for case in cases(_written_to) if _has_places(*case.values)])
def test_an_argument_in_the_memory_that_is_written_to(op, index):
    args, written = arrays(op, index), _written_to(op)[0]
    for place in _places(args, written):
        how, expected = _moved(op, args, written, place, apart=True)
        found, values = _moved(op, args, written, place, apart=False)
        assert found == how, f"{op.where}: {op.ident}: {place}: {found}, apart: {how}"
        if expected is not None:
            np.testing.assert_array_equal(values, expected, err_msg=f"{op.where}: {op.ident}: {place}")


INDEX = fl.tensor([1, 2, 3, 4, 5, 0])


@pytest.mark.parametrize("statement", [
    "x.index_put_((INDEX,), y)", "x.index_put_((INDEX,), y, accumulate=True)", "x.__setitem__(INDEX, y)", "x.__setitem__(INDEX[:3], y[:3])", "x.put_(INDEX, y)",
    "x.view(2, 3).__setitem__((slice(None), INDEX[:2]), y.view(2, 3)[:, :2])", "x.index_copy_(0, INDEX, y)", "x.index_add_(0, INDEX, y)",
    "x.scatter_(0, INDEX, y)", "x.scatter_add_(0, INDEX, y)", "x.scatter_reduce_(0, INDEX, y, 'amax')", "x.masked_scatter_(y > 1, y)", "x.__setitem__(y < 6, y[1:])",
    "x.copy_(y.flip(0))", "x.view(2, 3).copy_(y.view(3, 2).t())", "x[1:].copy_(y[:-1])", "x[:-1].copy_(y[1:])", "x[1:].mul_(y[:-1])", "x.__setitem__(slice(1, None), y[:-1])",
    "x.view(2, 3)[:, :2].addmm_(y.view(2, 3), y.view(3, 2))", "x.view(2, 3).addr_(y[:2], y[3:])", "x[:3].addmv_(y.view(3, 2), y[2:4])", "x.fill_(y[2])", "x.div_(y[1])",
    "fl.cumsum(y[:-1], 0, out=x[1:])", "fl.add(y[:-1], y[:-1], out=x[1:])", "fl.sum(y.view(2, 3), 0, out=x[1:4])", "fl.gather(y, 0, INDEX, out=x)", "fl.index_select(y, 0, INDEX, out=x)",
    "fl.cat([y[3:], y[:3]], out=x)", "fl.stack([y[3:], y[:3]], out=x.view(2, 3))", "fl.sort(y, descending=True, out=(x, INDEX.clone()))", "fl.take(y, INDEX, out=x)",
    "fl.mm(y.view(3, 2), y.view(2, 3)[:, :2], out=x.view(3, 2))", "fl.where(y[1:] > 2, y[:-1], -y[:-1], out=x[1:])",
])  # fmt: skip
def test_statements(statement):
    """`x` is written to; `y` is the same tensor, or a copy."""
    x, apart = fl.arange(1.0, 7.0), fl.arange(1.0, 7.0)
    eval(statement, {"fl": fl, "INDEX": INDEX, "x": x, "y": x})
    eval(statement, {"fl": fl, "INDEX": INDEX, "x": apart, "y": apart.clone()})
    assert fl.equal(x, apart), f"{x.tolist()}, apart: {apart.tolist()}"
    assert not fl.equal(x, fl.arange(1.0, 7.0))


def test_storages_over_one_array():
    """Two tensors of one array of NumPy's share bytes, not a storage."""

    def pair():
        a = np.arange(40.0).reshape(5, 8)
        return a, fl.from_numpy(a)[1:5, :4], fl.from_numpy(a)[:4, :4]

    a, x, v = pair()
    want = a[:4, :4].copy()
    x[fl.tensor([0, 1, 2, 3])] = v
    assert np.array_equal(a[1:, :4], want)
    for call in (lambda x, v: x.index_copy_(0, fl.tensor([0, 1, 2, 3]), v), lambda x, v: x.scatter_(0, fl.arange(4)[:, None].expand(4, 4), v),
                 lambda x, v: x.masked_scatter_(fl.ones(4, 4, dtype=fl.bool), v)):  # fmt: skip
        a, x, v = pair()
        call(x, v)
        assert np.array_equal(a[1:, :4], want)
    a = np.arange(9.0).reshape(3, 3)
    want = 2 * a + np.outer(a[0], np.ones(3))
    fl.from_numpy(a).addr_(fl.from_numpy(a)[0], fl.ones(3, dtype=fl.float64), beta=2)
    assert np.array_equal(a, want)


def test_a_write_that_is_refused_changes_nothing():
    base = fl.ones(2, 2)
    with fl.no_grad():
        view = base[:]
    for call in (lambda v, w: v.addr_(w, fl.ones(2), beta=3), lambda v, w: v.addmm_(w[:, None], fl.ones(1, 2)),
                 lambda v, w: v.index_add_(0, fl.tensor([0, 1]), w[:, None] * fl.ones(2, 2))):  # fmt: skip
        with pytest.raises(fl._C.AutogradError):
            call(view, fl.ones(2, requires_grad=True))
        assert base.tolist() == [[1, 1], [1, 1]]
