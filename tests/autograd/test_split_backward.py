"""A backward in two parts: some gradients now, others later, together the bits of one backward."""

from __future__ import annotations

import gc
import weakref

import pytest
from support.table import arrays, call, cases, tensors

import flambeau as fl
from flambeau import _C
from flambeau.profiler import profile

F = fl.nn.functional


def bits(grads):
    return [None if g is None else (g.dtype, tuple(g.shape), g.contiguous().numpy().tobytes()) for g in grads]


def whole(roots, grads, wanted):
    return _C.run_backward(roots, grads, False, False, wanted, False, True, leaf_hooks=False)


def split(roots, grads, first, second):
    both = _C.SplitBackward(roots, grads, first, second)
    return [*both.first(), *both.second()]


def assert_split(make, at):
    """`make` gives outputs and leaves; the leaves before `at` are asked for first."""
    outputs, leaves = make()
    dy = [fl.full_like(y, 0.5) for y in outputs]
    wanted = whole(outputs, dy, leaves)
    outputs, leaves = make()
    assert bits(split(outputs, dy, leaves[:at], leaves[at:])) == bits(wanted)
    return wanted


# ---------------------------------------------------------------------------------------------------------------- every op of the table


def _several(op):
    return len([a for a in op.sig.args if a.is_tensor]) > 1 and op.get("grad")


def _leaves_of(args):
    flat = [x for v in args.values() for x in (v if isinstance(v, list) else [v])]
    return [x for x in flat if isinstance(x, fl.Tensor) and x.requires_grad]


@pytest.mark.parametrize("op, index", cases(_several))
def test_each_argument_of_each_op_may_come_first_or_last(op, index):
    plain = arrays(op, index)

    def make():
        fl.manual_seed(0)
        args = tensors(op, plain)
        for value in args.values():
            for x in value if isinstance(value, list) else [value]:
                if isinstance(x, fl.Tensor) and x.is_floating_point():
                    x.requires_grad_()
        leaves = _leaves_of(args)
        with fl.enable_grad():
            # Written in place is what a leaf may not be.
            outputs = call(op, {name: v.clone() if op.name.endswith("_") and v is leaves[0] else v for name, v in args.items()})
        return [y for y in outputs if isinstance(y, fl.Tensor) and y.requires_grad], leaves

    try:
        outputs, leaves = make()
        whole(outputs, [fl.full_like(y, 0.5) for y in outputs], leaves)
    except (RuntimeError, TypeError) as refused:
        assert "no formula" in str(refused) or "expected" in str(refused)
        return
    for k in range(len(leaves)):
        rotated = [*range(k, len(leaves)), *range(k)]

        def turned(order=rotated):
            outputs, leaves = make()
            return outputs, [leaves[i] for i in order]

        assert_split(turned, 1)
    assert_split(make, 0)
    assert_split(make, len(leaves))


# ------------------------------------------------------------------------------------------------------------------------------ graphs


def _net(x, layers):
    h = x
    for layer in layers:
        h = layer(h)
    return h


@pytest.mark.parametrize(
    "layers, shape",
    [
        (lambda: [fl.nn.Linear(8, 16), fl.nn.ReLU(inplace=True), fl.nn.Linear(16, 4)], (5, 8)),
        (lambda: [fl.nn.Conv2d(3, 8, 3, padding=1), fl.nn.BatchNorm2d(8), fl.nn.ReLU(), fl.nn.Conv2d(8, 4, 3)], (2, 3, 9, 9)),
        (lambda: [fl.nn.Embedding(9, 8), fl.nn.LayerNorm(8), fl.nn.GELU(), fl.nn.Linear(8, 8)], None),
        (lambda: [fl.nn.LSTM(8, 12, num_layers=2), lambda out: out[0], fl.nn.Linear(12, 3)], (6, 2, 8)),
        (lambda: [fl.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)], (2, 5, 16)),
    ],
)
def test_inputs_first_parameters_later(layers, shape):
    fl.manual_seed(1)
    stack = layers()
    parameters = [p for layer in stack if isinstance(layer, fl.nn.Module) for p in layer.parameters()]
    given = fl.randint(0, 9, (4, 3)) if shape is None else fl.randn(*shape)

    def make():
        x = given if shape is None else given.clone().requires_grad_()
        return [_net(x, stack)], [*([] if shape is None else [x]), *parameters]

    found = assert_split(make, 0 if shape is None else 1)
    assert all(g is not None for g in found)


def test_sums_have_the_order_of_one_backward():
    """A weight with six uses: five products and what a custom function, which is not cut in two, gives for it."""
    fl.manual_seed(2)
    w0, given = fl.randn(6, 6) / 2, fl.randn(4, 6)

    class Scaled(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, dy):
            x, w = ctx.saved_tensors
            calls.append(1)
            return dy @ w.t(), x.t() @ dy

    calls: list[int] = []

    def make():
        x, w = given.clone().requires_grad_(), w0.clone().requires_grad_()
        h = x
        for k in range(6):
            h = (Scaled.apply(h, w) if k in (1, 4) else h @ w).tanh()
        return [h], [x, w]

    assert_split(make, 1)
    assert len(calls) == 4


def test_a_graph_of_parameters_alone_waits():
    """A weight that is computed from others, as by weight_norm; and an output that no input leads to."""
    fl.manual_seed(3)
    given = fl.randn(3, 4)

    def make():
        x, v, g = given.clone().requires_grad_(), fl.arange(12.0).view(4, 3).requires_grad_(), fl.tensor(2.0, requires_grad=True)
        w = g * v / v.norm()
        return [x @ w, (w * g).sum()], [x, v, g]

    assert_split(make, 1)


def test_an_input_that_is_also_used_for_a_weight():
    given = fl.linspace(-1, 1, 9).view(3, 3)

    def make():
        x, p = given.clone().requires_grad_(), fl.ones(3, 3, requires_grad=True)
        w = x * p + p.exp()
        return [(x @ w) * p], [x, p]

    assert_split(make, 1)


def test_writes_through_views():
    def make():
        x, p = fl.ones(3, 4, requires_grad=True), fl.full((2,), 3.0, requires_grad=True)
        h = x * 2
        h[0, 1:3] = p
        h[1, :2].mul_(p)
        return [h], [x, p]

    assert_split(make, 1)


def test_products_with_parameters_run_in_the_second_part():
    fl.manual_seed(4)
    layers = [fl.nn.Linear(8, 8), fl.nn.ReLU(), fl.nn.Linear(8, 8)]
    x = fl.randn(4, 8, requires_grad=True)
    y = _net(x, layers)
    both = _C.SplitBackward([y], [fl.ones_like(y)], [x], [p for layer in layers for p in layer.parameters()])

    def ops_of(part):
        with profile() as seen:
            part()
        return {e.key: e.count for e in seen.key_averages()}

    first, second = ops_of(both.first), ops_of(both.second)
    assert first["matmul"] == 2 and "matmul_grad_b" not in first
    assert second["matmul_grad_b"] == 2 and "matmul" not in second and "relu_backward" not in second


def test_hooks_run_once():
    layer = fl.nn.Linear(3, 3)
    x = fl.ones(2, 3, requires_grad=True)
    seen = []
    h = layer(x)
    h.register_hook(lambda g: seen.append("tensor") or g * 2)
    h.grad_fn.register_hook(lambda *g: seen.append("node"))
    layer.weight.register_hook(lambda g: seen.append("leaf"))
    both = _C.SplitBackward([h * 3], [fl.ones(2, 3)], [x], [layer.weight, layer.bias])
    both.first()
    assert seen == ["tensor", "node"]
    dw, db = both.second()
    assert seen == ["tensor", "node"]  # those of leaves are the caller's
    assert (dw == 12).all() and (db == 12).all()


def test_what_leads_nowhere_is_none():
    x, p, q = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    assert bits(split([x * p], [fl.ones(2)], [x], [p, q])) == bits([fl.ones(2), fl.ones(2), None])
    assert split([x * p], [fl.ones(2)], [], []) == []
    assert x.grad is None and p.grad is None


def test_the_parts_come_in_order_and_once():
    x = fl.ones(2, requires_grad=True)
    both = _C.SplitBackward([(x * 2).sum()], [None], [x], [])
    with pytest.raises(RuntimeError, match="expected the first part, then the second"):
        both.second()
    both.first()
    with pytest.raises(RuntimeError, match="each once"):
        both.first()
    both.second()
    with pytest.raises(RuntimeError, match="each once"):
        both.second()
    with pytest.raises(RuntimeError, match="does not require grad"):
        _C.SplitBackward([(x * 2).sum()], [None], [fl.ones(2)], [])


def test_what_is_used_again_is_refused():
    """The graph is used up part by part: a second backward is refused, and a written parameter is noticed in the second part."""
    x, w = fl.ones(2, 2, requires_grad=True), fl.ones(2, 2, requires_grad=True)
    y = (x @ w).exp()
    both = _C.SplitBackward([y], [fl.ones(2, 2)], [x], [w])
    both.first()
    with fl.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match=r"saved for backward at .*test_split_backward.py.*, and mul_"):
        both.second()
    with pytest.raises(RuntimeError, match="through the graph a second time"):
        y.backward(fl.ones(2, 2))


def test_the_graph_goes_with_the_second_part():
    class Kept(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark = Mark()
            marks.append(weakref.ref(ctx.mark))
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy

    class Mark:
        pass

    marks = []
    gc.disable()
    try:
        x, w = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True)
        both = _C.SplitBackward([Kept.apply(x) * w], [fl.ones(3)], [x], [w])
        both.first()
        assert marks[0]() is not None
        both.second()
        assert marks[0]() is None
    finally:
        gc.enable()


def test_a_first_part_that_failed_has_no_second():
    def bad(grad):
        raise ValueError("boom")

    x, w = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True)
    many = fl.cat([x * float(i) for i in range(200)] + [w])
    z = (x * 2).exp()
    z.register_hook(bad)
    both = _C.SplitBackward([fl.addcmul(x * 1.0, x * 2.0, w), many, z], [fl.ones(3), fl.ones(603), fl.ones(3)], [x], [w])
    with pytest.raises(ValueError, match="boom"):
        both.first()
    with pytest.raises(RuntimeError, match="expected the first part, then the second"):
        both.second()


def test_the_second_part_is_not_asked_for_inside_of_the_first():
    x, w = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: both.second() and None)
    both = _C.SplitBackward([h * w], [fl.ones(3)], [x], [w])
    with pytest.raises(RuntimeError, match="expected the first part, then the second"):
        both.first()


def test_gradients_that_wait_may_not_be_written():
    x, w = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True)
    dy = fl.ones(3)
    both = _C.SplitBackward([x * w], [dy], [x], [w])
    both.first()
    dy.zero_()
    with pytest.raises(RuntimeError, match="was written by zero_ between both parts"):
        both.second()


def test_what_nobody_wants_is_left_alone():
    """As in one backward: no hooks on the way to a leaf that was not asked for."""
    x, w, q = (fl.ones(3, requires_grad=True) for _ in range(3))
    seen = []
    h = q * 2
    h.register_hook(lambda grad: seen.append(1))
    y = x * w + h
    assert bits(split([y], [fl.ones(3)], [x], [w])) == bits([fl.ones(3), fl.ones(3)])
    y = x * w + h
    whole([y], [fl.ones(3)], [x, w])
    assert seen == [] and h.grad_fn is not None
