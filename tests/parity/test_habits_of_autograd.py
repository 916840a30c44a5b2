"""What published programs ask of autograd, run by both libraries (`programs.py`): nodes, hooks, gradients of gradients, what is refused."""

from __future__ import annotations

import re
import warnings

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, asserted, data, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def functions_by_name(lib):
    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, offset=1.0):
            ctx.factor = factor
            return x * factor + offset

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(x, k, shift=0.0):
            return x**3 * k + shift

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])
            ctx.k, ctx.given = inputs[1], len(inputs)

        @staticmethod
        def backward(ctx, g):
            return (3 * ctx.saved_tensors[0] ** 2 * g * ctx.k, *[None] * (len(ctx.needs_input_grad) - 1))

    x = data(lib, 3, requires_grad=True)
    y, z = Scale.apply(x, factor=2.5), Cube.apply(x, k=2.0)
    (y.sum() + z.sum()).backward()
    return [y, z, x.grad, type(y.grad_fn).__name__, type(z.grad_fn).__name__]


def names_of_nodes(lib):
    x = data(lib, 3, requires_grad=True)
    y = (x * 2).relu().sum()
    found, node = [], y.grad_fn
    while node is not None:
        found.append((type(node).__name__, re.sub("0x[0-9a-f]+", "0x", repr(node))))
        node = node.next_functions[0][0] if node.next_functions else None
    return [found, y.grad_fn == y.grad_fn, len({y.grad_fn, y.grad_fn})]


def batched_gradients(lib):
    x = data(lib, 4, requires_grad=True)
    y = x.sin() * x.flip(0)
    rows = lib.autograd.grad(y, x, lib.eye(4), is_grads_batched=True, create_graph=True)[0]
    again = lib.autograd.grad(rows.sum(), x)[0]
    other = lib.ones(2, requires_grad=True)
    unused = lib.autograd.grad((x * 2), [x, other], lib.eye(4), is_grads_batched=True, allow_unused=True)
    return [rows, again, unused[0], unused[1] is None]


def gradients_of_convolutions(lib):
    grad = part(lib, "nn.grad")
    found = []
    for n in (1, 2, 3):
        x, w = data(lib, 2, 4, *[7] * n), data(lib, 6, 2, *[3] * n)
        options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
        y = getattr(lib.nn.functional, f"conv{n}d")(x, w, **options)
        dy = lib.ones_like(y)
        found += [getattr(grad, f"conv{n}d_input")(x.shape, w, dy, **options), getattr(grad, f"conv{n}d_weight")(x, w.shape, dy, **options)]
    return found


def checkpoints(lib):
    checkpoint = part(lib, "utils.checkpoint").checkpoint
    entered = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exc):
            pass

    x = data(lib, 3, requires_grad=True)
    y = checkpoint(lambda x, k: (x * k).exp(), x, k=2.0, use_reentrant=False, context_fn=lambda: (Note("first"), Note("again")), early_stop=True)
    y.sum().backward()
    return [y, x.grad, entered, Refused(refusal(lambda: checkpoint(lambda x, k: x * k, x, k=2.0, use_reentrant=True)))]


def views_without_grad(lib):
    seen = []
    for base in (data(lib, 2, 2, requires_grad=True), data(lib, 2, 2, requires_grad=True) * 1, data(lib, 2, 2)):
        with lib.no_grad():
            views = [base[1:], base.view(-1), base.reshape(4), base.expand(3, 2, 2), base.t(), *base.unbind(), *base.split(1), base.view(lib.int32), base.detach(), base * 1]
        seen += [(v.requires_grad, v.is_leaf, v.grad_fn is None) for v in views]
        seen += [base.view(lib.int32).requires_grad, base.view(lib.uint8).is_leaf]
        if base.requires_grad:
            seen.append(refusal(lambda: views[0].add_(1)))
    return seen


def gradients_of_gradients(lib):
    nn, seen = lib.nn, []
    layers = {
        "LSTM": nn.LSTM(3, 4, 2, bidirectional=True), "GRU": nn.GRU(3, 4, 2, bidirectional=True), "projected": nn.LSTM(3, 4, proj_size=2),
        "LSTMCell": nn.LSTMCell(3, 4), "GRUCell": nn.GRUCell(3, 4), "RNN": nn.RNN(3, 4),
    }  # fmt: skip
    for name, layer in layers.items():
        for k, p in enumerate(layer.parameters()):
            p.data = data(lib, *p.shape, seed=k) * 0.5
        x = data(lib, *((5, 2, 3) if "Cell" not in name else (2, 3)), requires_grad=True)
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        (g,) = lib.autograd.grad((y * data(lib, *y.shape)).sum(), x, create_graph=True)
        seen += [g, *lib.autograd.grad(((g.norm(2, dim=-1) - 1) ** 2).sum(), [x, *layer.parameters()], allow_unused=True)]
    return seen


def derivatives_of_high_order(lib):
    functions = (lib.nn.functional.silu, lib.nn.functional.mish, lib.nn.functional.gelu, lambda x: lib.nn.functional.gelu(x, approximate="tanh"), lib.tanh)
    seen = []
    for f in functions:
        x = lib.linspace(-6, 6, 25, dtype=lib.float64, requires_grad=True)
        y = f(x)
        for _ in range(5):
            (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
            seen.append(y)
    return seen


def gradients_of_medians(lib):
    nan = float("nan")
    found = []
    for values in ([1.0, 2.0, 2.0, 2.0, 3.0], [1.0, nan, 2.0, nan, 2.0], [[4.0, 4.0], [1.0, 4.0]], [nan, nan], []):
        for name in ("median", "nanmedian"):
            x = lib.tensor(values, requires_grad=True)
            y = getattr(x, name)()
            y.backward()
            found += [y, x.grad, y.grad_fn.name()]
            if x.dim() == 2:
                found += [lib.func.vmap(lib.func.grad(lambda row, name=name: getattr(row, name)()))(x.detach())]
    return found


def functions_asked_again(lib):
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Keeps(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = lib.ones(2, requires_grad=True)
    y = Double.apply(x)
    y.backward(lib.ones(2))
    y.backward(lib.ones(2))
    z = Keeps.apply(x)
    z.backward(lib.ones(2))
    return [x.grad, Refused(refusal(lambda: z.backward(lib.ones(2))))]


def nodes_are_objects(lib):
    z = lib.ones(2, requires_grad=True) * 2
    node = z.grad_fn
    node.metadata["note"] = [1]
    leaf = node.next_functions[0][0]
    return [node is z.grad_fn, leaf is z.grad_fn.next_functions[0][0], z.grad_fn.metadata, len({node, z.grad_fn, leaf}), node == leaf]


def gradients_lie_as_their_leaves(lib):
    leaves = (lambda: lib.ones(3, 4), lambda: lib.ones(4, 3).t(), lambda: lib.ones(6, 4)[::2], lambda: lib.ones(2, 3, 4).permute(2, 0, 1))
    uses = (lambda w: w.mT * 2, lambda w: w.mT @ lib.ones(w.shape[-2], 2), lambda w: w, lambda w: w[1:].mT, lambda w: lib.stack([w, w], -1))
    seen = []
    for make in leaves:
        for use in uses:
            for graph in (False, True):
                w = make().requires_grad_()
                use(w).sum().backward(create_graph=graph)
                seen += [w.grad.stride(), w.grad.sum().item()]
    return seen


def what_nodes_keep(lib):
    x = data(lib, 2, 3, requires_grad=True)
    y = data(lib, 2, 3, seed=1)
    return [x.exp().grad_fn._saved_result, (x * y).grad_fn._saved_other, (x * 2).tanh().grad_fn._saved_result, x.max(1).values.grad_fn._saved_indices]


def warned(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return len(seen)


def warnings_of_attributes(lib):
    x = lib.ones(2, requires_grad=True)
    kept = x * 2
    kept.retain_grad()
    return [warned(lambda: (x * 2).grad), warned(lambda: kept.grad), warned(lambda: x.grad), warned(lambda: lib.ones(2).grad), warned(lambda: lib.ones(2, 2, 2).T),
            warned(lambda: lib.ones(2, 2).T)]  # fmt: skip


def gradient_edges(lib):
    graph = part(lib, "autograd.graph")
    x, w = lib.ones(3, requires_grad=True), lib.ones(2, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    edge = graph.get_gradient_edge(y)
    found = [lib.autograd.grad(z, edge, retain_graph=True), lib.autograd.grad(z, [edge, x], retain_graph=True), lib.autograd.grad((x * 2).sum(), graph.get_gradient_edge(w), allow_unused=True)]
    found += [edge._fields, len(edge), edge.output_nr, edge == graph.get_gradient_edge(y), edge.node is y.grad_fn, graph.GradientEdge(*y.grad_fn.next_functions[0])[1]]
    (z + w.sum()).backward(inputs=[graph.get_gradient_edge(x)], retain_graph=True)
    lib.autograd.backward(edge, lib.ones(3))
    wrong = [refusal(lambda: graph.get_gradient_edge(lib.ones(1))), refusal(lambda: lib.autograd.grad((x * 2).sum(), graph.get_gradient_edge(w))), refusal(lambda: lib.autograd.backward(graph.get_gradient_edge(x * 2)))]
    return [*found, x.grad, w.grad, *map(Refused, wrong)]


def mutation_of_saved_tensors(lib):
    graph = part(lib, "autograd.graph")
    with graph.allow_mutation_on_saved_tensors():
        x = lib.ones(2, 3, requires_grad=True)
        y = x.clone()
        loss = (y**2).sum()
        y.sin_()
        loss.backward()
        nested = refusal(lambda: graph.allow_mutation_on_saved_tensors().__enter__())
        later = (y**2).sum()
    return [x.grad, y, Refused(nested), asserted(later.backward)]


def versions_that_are_told(lib):
    graph = part(lib, "autograd.graph")
    tensors = [lib.ones(3), lib.tensor(1.0), lib.ones(3, 4).t(), lib.ones(0), lib.ones(4)[1:]]
    graph.increment_version(tensors)
    graph.increment_version(tensors[0])
    with lib.inference_mode():
        without = lib.ones(2)
    graph.increment_version(without)
    x = lib.ones(3, requires_grad=True)
    y = (x * x).sum()
    graph.increment_version(x)
    wrong = [refusal(y.backward), refusal(lambda: graph.increment_version(3)), refusal(lambda: graph.increment_version([3])), refusal(lambda: graph.increment_version(None))]
    return [[t._version for t in tensors], *tensors, without, *map(Refused, wrong)]


def knobs_of_backward(lib):
    autograd, graph = part(lib, "autograd"), part(lib, "autograd.graph")
    graph.set_warn_on_accumulate_grad_stream_mismatch(True), graph.set_override_stale_capture_stream(False)
    with autograd.set_multithreading_enabled(False) as nothing:
        inside = autograd.is_multithreading_enabled()
    copies = [lib.inference_mode(False).clone().mode, type(lib.no_grad().clone()).__name__, type(lib.enable_grad().clone()).__name__, autograd.set_multithreading_enabled(True).clone().mode]
    wrong = [refusal(lambda: graph.region_activation_memory_budget("x")), refusal(lambda: graph.region_activation_memory_budget(2.0))]
    handle = graph.register_multi_grad_hook((lib.ones(1, requires_grad=True),), print)
    return [nothing, inside, autograd.is_multithreading_enabled(), *copies, handle.remove(), *map(Refused, wrong)]


def batches_of_backwards(lib):
    x, w = data(lib, 5, requires_grad=True), lib.ones(5, requires_grad=True)
    y, rows = x**3, lib.eye(5)
    vmap, grad = lib.func.vmap, lib.autograd.grad
    twice = vmap(lambda v: grad(y.sin(), x, v, create_graph=True)[0])(rows)
    nested = vmap(vmap(lambda v: grad(y, x, v, retain_graph=True)[0]))(rows.view(5, 1, 5).expand(5, 2, 5))
    wrong = refusal(lambda: vmap(lambda v: grad(y, w, v, retain_graph=True)[0])(rows))
    return [vmap(lambda v: grad(y, x, v, retain_graph=True))(rows), twice, grad(twice.sum(), x)[0], nested, Refused(wrong)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("habit", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_do_the_same(habit):
    same(habit(fl), habit(torch), habit.__name__, strides=False)
