"""Any byte but 0 is true: memory that was written as bytes, or is somebody else's, gives what clean bools give, in every op that takes them."""

from __future__ import annotations

import numpy as np
import pytest
from support.table import arrays, call, cases, map_arrays, tensors

import flambeau as fl

BYTES = np.array([2, 255, 128, 3, 1, 64, 254], dtype=np.uint8)


def odd(x):
    """The same truth in other bytes."""
    flat = x.reshape(-1).numpy().view(np.uint8)
    return fl.tensor(np.where(flat != 0, np.resize(BYTES, flat.shape), 0).astype(np.uint8)).view(x.shape).view(fl.bool)


def odd_everywhere(args):
    def one(v):
        if isinstance(v, list):
            return [one(x) for x in v]
        return odd(v) if isinstance(v, fl.Tensor) and v.dtype is fl.bool else v

    return {name: one(v) for name, v in args.items()}


def seen(results):
    out = []
    for r in results:
        a = r.numpy() if isinstance(r, fl.Tensor) else np.asarray(r)
        out.append((a.dtype.name, a.shape, (a.view(np.uint8) != 0).tobytes() if a.dtype == bool else a.tobytes()))
    return out


def _takes_tensors(op):
    return any(a.is_tensor for a in op.sig.args)


@pytest.mark.parametrize("op, index", cases(_takes_tensors))
def test_ops_of_bools(op, index):
    """Each sample with its arrays as they are, then all of them as bools where the op takes those."""
    plain = arrays(op, index)
    tried = 0
    for convert in (lambda a: a, lambda a: a > 0):
        given = map_arrays(plain, convert)
        if not any(isinstance(a, np.ndarray) and a.dtype == bool for v in given.values() for a in (v if isinstance(v, list) else [v])):
            continue
        try:
            fl.manual_seed(0)
            expected = call(op, tensors(op, given))
        except (TypeError, ValueError, RuntimeError, IndexError):
            continue  # not for bools
        fl.manual_seed(0)
        got = call(op, odd_everywhere(tensors(op, given)))
        # Copies of bytes are copies: what they mean is compared.
        assert seen(got) == seen(expected)
        tried += 1
    if not tried:
        pytest.skip("not for bools")


USES = {
    "tolist": lambda m, x: m.tolist(),
    "item": lambda m, x: [v.item() for v in m],
    "bool": lambda m, x: [bool(v) for v in m],
    "repr": lambda m, x: repr(m) == repr(~~m),
    "a mask": lambda m, x: x[m],
    "a mask that is written": lambda m, x: [y := x.clone(), y.__setitem__(m, 9.0)][:1],
    "a mask of rows": lambda m, x: x.view(8, 5)[m[:8]],
    "a mask of attention": lambda m, x: fl.nn.functional.scaled_dot_product_attention(x[:8].view(1, 8, 1), x[:8].view(1, 8, 1), x[:8].view(1, 8, 1), attn_mask=m[:8].expand(8, 8)),
    "columns": lambda m, x: [m.view(8, 5).sum(0), m.view(8, 5).sum(1), m.view(8, 5).any(0), m.view(8, 5).all(1), m.view(8, 5).T.max(0)[0]],
    "types": lambda m, x: [m.to(t) for t in (fl.uint8, fl.int8, fl.int16, fl.int32, fl.int64, fl.float16, fl.float32, fl.float64)],
    "sorted": lambda m, x: [m.sort()[0].int(), m.unique(), m.topk(3)[0].int(), m.int().kthvalue(4)[0]],
    "products": lambda m, x: m.view(8, 5).float() @ m.view(5, 8).float(),
    "added to": lambda m, x: [fl.zeros(40, dtype=fl.bool).index_add_(0, fl.arange(40), m), fl.zeros(40, dtype=fl.bool).scatter_(0, fl.arange(40), m)],
    "equal": lambda m, x: [fl.equal(m, ~~m), fl.tensor(fl.equal(~m, m))],
    "a copy": lambda m, x: m.clone().int(),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_uses(name):
    m = fl.tensor(np.arange(40) % 3 == 0)
    x = fl.arange(40).float()

    def flat(r):
        return seen(r if isinstance(r, (list, tuple)) else [r])

    assert flat(USES[name](odd(m), x)) == flat(USES[name](m, x))


def test_many_elements():
    """More than a vector, a tile and a thread's part of it."""
    m = fl.tensor(np.random.default_rng(0).random(300_007) < 0.3)
    o = odd(m)
    assert o.sum().item() == m.sum().item() == fl.count_nonzero(o).item()
    for f in (lambda m: m.nonzero(), lambda m: m.cumsum(0), lambda m: m & ~m, lambda m: m.float().mean(), lambda m: fl.arange(300_007)[m], lambda m: m ^ m.flip(0)):
        assert seen([f(o)]) == seen([f(m)])


@pytest.mark.parametrize("how, expected", [("amin", [False, True, True]), ("amax", [True, True, True]), ("prod", [False, True, True]), ("sum", [True, True, True])])
def test_where_a_reduction_of_bools_starts(how, expected):
    """Without the element itself: from the other end of the type, which for a bool is False or True."""
    x = fl.tensor([True, False, True])
    source = fl.tensor([True, False, True, True])
    index = fl.tensor([0, 0, 1, 1])
    for s in (source, odd(source)):
        assert x.scatter_reduce(0, index, s, how, include_self=False).tolist() == expected
    assert fl.tensor([False] * 2).scatter_reduce(0, fl.tensor([1]), fl.tensor([False]), "amax", include_self=False).tolist() == [False, False]
    assert fl.tensor([False] * 2).scatter_reduce(0, fl.tensor([1]), fl.tensor([True]), "amin", include_self=False).tolist() == [False, True]


def test_bools_are_made():
    assert fl.arange(2, dtype=fl.bool).tolist() == [False, True]
    assert fl.full((2,), 0.5, dtype=fl.bool).tolist() == [True, True]
    drawn = fl.randint(0, 2, (1000,), dtype=fl.bool)
    assert 400 < drawn.sum().item() < 600 and set(drawn.view(fl.uint8).tolist()) == {0, 1}
