"""What published programs do beside calling ops, run by both libraries: each function gets the library, and what it returns is compared.

Tensors are compared by type, shape and values, everything else by its text.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import math
import numbers
import operator
import pickle
import re
import warnings
from array import array
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402


def part(lib, name):
    return importlib.import_module(f"{lib.__name__}.{name}")


def data(lib, *shape, seed=0, **options):
    return lib.tensor(np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32), **options)


def refusal(call):
    """Which of Python's exceptions a call's is."""
    try:
        call()
    except Exception as error:
        kinds = (IndexError, KeyError, AttributeError, ValueError, RuntimeError, TypeError)
        return {kind.__name__ for kind in kinds if isinstance(error, kind)}
    return set()


def asserted(call):
    """Whether a call is refused by an AssertionError."""
    try:
        call()
    except AssertionError:
        return True
    return False


class Refused(set):
    """Classes of exceptions, PyTorch's among ours."""


def numpy_scalars_in_lists(lib):
    lists = [
        [np.float64(1), 2], [1, np.float64(2)], [np.float32(1)], [1.0, np.float32(2)], [np.int32(1)], [1, np.int8(3)], [np.bool_(True)],
        [np.uint8(3), np.int8(4)], [np.float16(1)], [[np.float64(1)], [2.0]], [np.complex64(1)], [lib.tensor(1.0, dtype=lib.float64), 2], [lib.tensor(1), 2.0],
    ]
    return [lib.tensor(x) for x in lists] + [lib.as_tensor(x) for x in lists]


def numpy_types(lib):
    return [(type(lib.ones(1, dtype=getattr(lib, d)).numpy().dtype).__name__, lib.ones(1, dtype=getattr(lib, d)).numpy().dtype.num) for d in ("int64", "uint64", "int32")]


def einsum_of_labels(lib):
    x, y = data(lib, 2, 3), data(lib, 3, 4)
    return [lib.einsum(x, [0, 1], y, [1, 2], [0, 2]), lib.einsum(x, [0, 1], y, [1, 2]), lib.einsum(x, [..., 1], [1, ...]), lib.einsum(x, [30, 2], [2, 30])]


def even_splits(lib):
    x = lib.arange(24).view(2, 3, 4)
    wrong = [refusal(lambda: x.hsplit(2)), refusal(lambda: lib.vsplit(x, 3)), refusal(lambda: lib.dsplit(x, 3)), refusal(lambda: lib.vsplit(x[0, 0], 2)), refusal(lambda: lib.dsplit(x[0], 2))]
    return [lib.hsplit(x, 3), lib.vsplit(x, 2), lib.dsplit(x, 2), lib.hsplit(x[0, 0], 2), lib.dsplit(x, [1]), *map(Refused, wrong)]


def copies_share(lib):
    x = data(lib, 3, requires_grad=True)
    x.tag = 5
    y = copy.copy(x)
    layer = lib.nn.Linear(2, 2)
    return [y is x, y.data_ptr() == x.data_ptr(), y.requires_grad, y.tag, copy.copy(layer.weight).data_ptr() == layer.weight.data_ptr(), list(reversed(lib.arange(3))), reversed(lib.arange(6).view(3, 2))]


def capsules(lib):
    dlpack = part(lib, "utils.dlpack") if lib is torch else lib
    x = lib.arange(4.0)
    y = dlpack.from_dlpack(dlpack.to_dlpack(x))
    y[0] = 5
    return [x, y]


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


def packed_sequences(lib):
    rnn = part(lib, "nn.utils.rnn")
    packed = rnn.pack_sequence([data(lib, 2, 3), data(lib, 4, 3)], enforce_sorted=False)
    wrong = [refusal(lambda: rnn.pack_padded_sequence(data(lib, 2, 4, 3), [2, 4], batch_first=True)), refusal(lambda: rnn.pack_padded_sequence(data(lib, 2, 4, 3), [4, 0], batch_first=True))]
    types = [getattr(packed, name)().data.dtype for name in ("double", "float", "half", "long", "int", "short", "char", "byte")]
    return [packed.is_cuda, packed.cpu() is packed, packed.to(lib.float64).sorted_indices, types, *packed, *map(Refused, wrong)]


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


def texts(lib):
    nn = lib.nn
    lists = nn.ParameterList([lib.ones(2)]), nn.ParameterDict({"x": lib.ones(2, 2), "y": lib.zeros(1)})
    normed = part(lib, "nn.utils.parametrizations").weight_norm(nn.Linear(2, 2))
    missing = nn.Linear(1, 1).load_state_dict({}, strict=False)
    params = [lib.ones(1, requires_grad=True)]
    optimizers = [getattr(lib.optim, name)(params) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")]
    infos = [lib.finfo(getattr(lib, d)) for d in ("float16", "bfloat16", "float32", "float64")]
    return [str(x) for x in (*lists, normed, missing, *optimizers, *infos)] + [type(missing).__name__, type(nn.Conv2d(1, 1, 3)._reversed_padding_repeated_twice).__name__]


def hooks_of_all_optimizers(lib):
    hooks, seen = part(lib, "optim.optimizer"), []
    handles = [
        hooks.register_optimizer_step_pre_hook(lambda o, a, k: seen.append("before")),
        hooks.register_optimizer_step_post_hook(lambda o, a, k: seen.append(type(o).__name__)),
    ]
    x = lib.ones(1, requires_grad=True)
    own = lib.optim.SGD([x], 0.1)
    own.register_step_pre_hook(lambda o, a, k: seen.append("own before"))
    own.register_step_post_hook(lambda o, a, k: seen.append("own after"))
    own.step()
    for handle in handles:
        handle.remove()
    own.step()
    return [seen, Refused(refusal(lambda: lib.optim.AdamW([x], foreach=True, fused=True)))]


def warnings_of_schedules(lib):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schedule = lib.optim.lr_scheduler.StepLR(lib.optim.SGD([lib.ones(1, requires_grad=True)], 0.1), 1)
        schedule.step()
        first = len(caught)
        schedule.step(5)
        return [first, str(caught[0].message)[:66], len(caught) > first]


def schedules_in_turn_are_quiet(lib):
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], 0.1)
    rates = lib.optim.lr_scheduler
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule = rates.SequentialLR(optimizer, [rates.LinearLR(optimizer, 0.1, total_iters=2), rates.CosineAnnealingWarmRestarts(optimizer, 2), rates.ExponentialLR(optimizer, 0.9)], [2, 4])
        found = []
        for _ in range(7):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr()[0])
    return [lib.tensor(found)]


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


def batches_of_own_classes(lib):
    collating = part(lib, "utils.data._utils.collate" if lib is torch else "utils.data.collate")

    class Graph:
        def __init__(self, n):
            self.n = n

    table = {**collating.default_collate_fn_map, Graph: lambda batch, *, collate_fn_map=None: [g.n for g in batch]}
    wrong = [refusal(lambda: collating.default_collate([lib.ones(2), lib.ones(3)])), refusal(lambda: collating.default_collate([[1, 2], [3]])), refusal(lambda: collating.collate([1, 2]))]
    return [collating.collate([(Graph(1), 2.0, "a"), (Graph(2), 3.0, "b")], collate_fn_map=table), *map(Refused, wrong)]


class Span:
    """A stream whose part a worker takes is set by `worker_init_fn`, as PyTorch's documentation has it."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def __iter__(self):
        return iter(range(self.start, self.end))


def streams_in_parts(lib):
    loading = part(lib, "utils.data")

    class Stream(Span, loading.IterableDataset):
        pass

    def init(i):
        info = loading.get_worker_info()
        start, end = info.dataset.start, info.dataset.end
        each = math.ceil((end - start) / info.num_workers)
        info.dataset.start = start + i * each
        info.dataset.end = min(info.dataset.start + each, end)

    stream = Stream(3, 8)
    loader = loading.DataLoader(stream, batch_size=None, num_workers=2, worker_init_fn=init, multiprocessing_context="fork")
    return [sorted(int(x) for x in loader), sorted(int(x) for x in loader), stream.start, stream.end]


def sizes_of_pictures(lib):
    x = data(lib, 1, 2, 4, 4)
    resize = lib.nn.functional.interpolate
    wrong = [refusal(lambda: resize(x, size=(1, 2, 3))), refusal(lambda: resize(x, scale_factor=(2.0, 2.0, 2.0)))]
    return [resize(x, size=(2, 3)), *map(Refused, wrong)]


def modules_compile_themselves(lib):
    m = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.Tanh())
    with lib.no_grad():
        for p in m.parameters():
            p.fill_(0.1)
    m.compile(backend="eager")
    seen = []
    m.register_forward_hook(lambda module, args, out: seen.append(tuple(out.shape)))
    y = m(data(lib, 4, 3))
    y.sum().backward()
    return [y, m[0].weight.grad, seen, list(m.state_dict()), type(m).__name__]


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


def indices_from_the_end(lib):
    x = lib.zeros(2, 3)
    found = [x.index_fill(1, lib.tensor([-1, 0]), 5.0), x.clone().index_fill_(-2, lib.tensor([-2]), lib.tensor(3.0))]
    calls = [
        lambda: x.index_fill(1, lib.tensor([-4]), 5.0), lambda: x.index_select(1, lib.tensor([-1])), lambda: x.index_add(1, lib.tensor([-1]), x[:, :1]),
        lambda: x.index_select(0, lib.zeros(1, 1, dtype=lib.long)), lambda: x[1.5], lambda: x[{}], lambda: x[0, 1.5], lambda: x["a"], lambda: x[object()],
    ]  # fmt: skip
    return found + [Refused(refusal(call)) for call in calls]


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


def numbers_of_buffers(lib):
    made = [lib.tensor(x) for x in (array("d", [1, 2]), array("f", [1.5]), array("i", [1]), array("b", [-1]), bytearray(b"ab"), memoryview(b"ab"))]
    made += [lib.as_tensor(array("d", [1])), lib.tensor(array("d", [1]), dtype=lib.float64), lib.tensor(array("B", [1]), dtype=lib.uint8)]
    return made + [Refused(refusal(lambda: lib.tensor(b"ab"))), Refused(refusal(lambda: lib.Size(["a"]))), list(lib.Size((True, np.int64(2))))]


def lists_of_arrays(lib):
    one, two = np.ones(2), np.arange(2)
    lists = [
        [one, one], [[one], [one]], (np.ones(1), np.ones(1)), [np.ones(1, np.float32)], [two, [5, 6]], [np.ones((2, 1)), np.ones((2, 1))], [np.array([True])],
        [np.ones(0), np.ones(0)], [np.float64(1), np.float64(2)], [[[np.int8(1)]]],
    ]  # fmt: skip
    return [lib.tensor(x) for x in lists] + [Refused(refusal(lambda: lib.tensor([one, np.ones(3)])))]


def strides_of_results(lib):
    a, b, c = lib.ones(2, 3, 4).permute(2, 0, 1), lib.ones(4, 2, 3), lib.ones(3)
    cut = lib.ones(4, 2, 6)[..., ::2]
    results = [a * 2, a + b, b + a, a + c, c + a, a + a, cut * 2, cut + a, a + cut, lib.where(a > 0, b, a), a.clamp(0, 1), a.transpose(0, 1) + b.transpose(0, 1),
               lib.nn.functional.dropout(a, 0.5), lib.lerp(a, b, 0.5), a[:, :1] + b, b[:, :1] + a, a.unsqueeze(0) * lib.ones(2, 1, 1, 1), b.transpose(0, 2) + c[:, None, None]]  # fmt: skip
    return [(tuple(y.shape), y.stride()) for y in results]


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


def lists_with_arrays_behind_numbers(lib):
    a = np.array([3, 4])
    lists = [[[1, 2], a], [(1, 2), lib.tensor([3, 4])], [[[1, 2]], [a]], [[1, 2], a.astype(np.int8)]]
    return [lib.tensor(x) for x in lists]


def numbers_in_bytes(lib):
    x = lib.tensor([0, 1, 2, 100], dtype=lib.uint8)
    y = x.clone()
    y[0] = -2
    made = [x + 300, x - -1, x * -1, -1 - x, x & -1, x ^ 300, lib.full((2,), -1, dtype=lib.uint8), lib.tensor([-1, -255], dtype=lib.uint8), y,
            x.masked_fill(x > 1, -1), lib.where(x > 1, x, -1), lib.tensor([1, -1], dtype=lib.int8) + 200, lib.arange(-1, 3, dtype=lib.uint8)]  # fmt: skip
    wrong = [lambda: lib.full((1,), -256, dtype=lib.uint8), lambda: x.clone().fill_(-1.5), lambda: x.masked_fill(x > 1, 256)]
    return made + [Refused(refusal(call)) for call in wrong]


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


def devices_that_are_not_there(lib):
    names = ["cuda", "mps", "xpu", "hpu", "cuda:1", "xpu:0"]
    made = [(lib.device(n).type, lib.device(n).index, str(lib.device(n)), lib.device(n) == lib.device("mps")) for n in names]
    return [made, isinstance(failure(lambda: lib.ones(2).to("cuda")), AssertionError), [failure(lambda n=n: lib.ones(2).to(n)) is not None for n in names]]


def failure(call):
    try:
        call()
    except Exception as error:
        return error
    return None


def empty_addresses(lib):
    return lib.zeros(0).data_ptr(), lib.ones(3)[3:].data_ptr()


def classes_of_refusals(lib):
    calls = [lambda: lib.tensor(None), lambda: lib.tensor([None]), lambda: lib.from_numpy(np.ones(2, ">f4")), lambda: lib.tensor(np.ones(2, ">f4"))]
    return [Refused(refusal(call)) for call in calls]


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


def packed_sequences_are_made(lib):
    rnn = part(lib, "nn.utils.rnn")
    make, x, sizes, order = rnn.PackedSequence, lib.arange(6.0).view(3, 2), lib.tensor([2, 1]), lib.tensor([1, 0])
    made = [make(x, sizes), make((x, sizes)), make([x, sizes]), make((x, sizes), None, order), make(x, sizes, order), make(x, sizes, None, order), make._make([x, sizes, None, None])]
    made += [pickle.loads(pickle.dumps(made[4])), copy.deepcopy(made[4]), made[4]._replace(data=x * 2), made[4].to(lib.float64), made[4].cpu(), made[4].half(), made[4].long()]
    plain = [made[0][:2], len(made[0]), make._fields, made[0] is made[0].to(lib.float32), type(made[9]).__name__, make.__mro__[1].__name__, made[0].is_cuda, list(made[4]._asdict())]
    plain += [asserted(lambda: make(x)), asserted(lambda: make((x,))), asserted(lambda: made[0].cuda())]
    wrong = [refusal(lambda: make()), refusal(lambda: make(x, sizes.to("meta")))]
    return [*map(str, made), *map(str, plain), rnn.pad_packed_sequence(made[3]), lib.nn.LSTM(2, 1)(made[1])[0].data.shape, *map(Refused, wrong)]


def attributes_of_saved_tensors(lib):
    p, x, b, layer = lib.nn.Parameter(lib.ones(2)), lib.zeros(2), lib.nn.Buffer(lib.ones(1), persistent=False), lib.nn.Linear(1, 1)
    p.scale, p.parts, x.tag, b.extra, layer.weight.is_small = 3, ["a", lib.ones(1)], {"k": (1, None)}, "e", True
    file = io.BytesIO()
    lib.save({"p": p, "x": x, "b": b, "again": [p, x], "part": x[:1], "layer": layer.weight}, file, **({} if lib is torch else {"format": "pt"}))
    file.seek(0)
    read = lib.load(file, weights_only=True)
    return [read["p"].scale, read["p"].parts, read["p"].requires_grad, read["x"].tag, read["b"].extra, read["b"].persistent, read["layer"].is_small, read["again"][0] is read["p"], read["again"][1] is read["x"]]


class OwnCall:
    """Modules that say themselves what a call is."""

    def __init__(self, lib):
        class Scaled(lib.nn.Module):
            def __call__(self, x, scale=2):
                return super().__call__(x) * scale

            def forward(self, x):
                return x + 1

        class Thrice(lib.nn.Module):
            def _call_impl(self, *args, **kwargs):
                return self.forward(*args, **kwargs) * 3

            def forward(self, x):
                return x + 1

        class Net(lib.nn.Module):
            def __init__(self, inner, *more):
                super().__init__()
                self.inner, self.more = inner, more

            def forward(self, x):
                return self.inner(x, *self.more) - 1

        self.nets = [Net(Scaled()), Net(Scaled(), 4), Net(Thrice()), Scaled(), Thrice()]


def calls_of_modules_own(lib):
    fx, nets = part(lib, "fx"), OwnCall(lib).nets

    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    shown = [[(n.op, getattr(n.target, "__name__", n.target), str(n.args), str(n.kwargs)) for n in tracer.trace(net).nodes] for net in nets for tracer in (fx.Tracer(), Whole())]
    return [*shown, *(fx.symbolic_trace(net).code for net in nets), *(fx.symbolic_trace(net)(lib.ones(2)) for net in nets)]


def arguments_by_name(lib):
    schemas, F, T, nn = part(lib, "fx.operator_schemas"), lib.nn.functional, lib.Tensor, lib.nn
    normal = schemas.normalize_function
    calls = [
        (lib.add, ("x", "y"), {}, (T, T)), (lib.relu, ("x",), {}, (T,)), (F.linear, ("x", "y"), {}), (lib.sum, ("x", 1), {}, (T, int)), (operator.add, ("x", "y"), {}), (F.linear, ("x",), {}),
        (lib.softmax, ("x", 1), {}, (T, int)), (lambda a, b=2: a, ("x",), {}), (lib.max, ("x",), {}, (T,)), (lib.max, ("x", 1), {}, (T, int)), (lib.max, ("x", "y"), {}, (T, T)), (F.dropout, ("x",), {}),
        (F.batch_norm, ("x", "y", "y"), {}), (F.cross_entropy, ("x", "y"), {}), (F.layer_norm, ("x", [2]), {}),
    ]  # fmt: skip
    named = [(F.relu, ("x",), {}), (F.max_pool2d, ("x", 2), {"return_indices": True}), (F.gelu, ("x",), {}), (lib.matmul, ("x", "y"), {})]
    root = nn.ModuleDict({"l": nn.Linear(2, 2), "c": nn.ConvTranspose1d(1, 1, 1), "own": OwnCall(lib).nets[0]})
    layers = [schemas.normalize_module(root, name, ("x",), {}, only) for name in root for only in (False, True)]
    hints = [schemas.create_type_hint(h) for h in ([int, int], (int, float), [T], [], 3, (int,), [T, nn.Parameter])]
    pairs = [(int, int), (list[int], list[int]), (float, int), (T, nn.Parameter), (str, int), (Any, int), (numbers.Number, float), (list[T], list)]
    wrong = [refusal(lambda: normal(lib.max, ("x", "y"))), refusal(lambda: schemas.normalize_module(root, "nope", ())), refusal(lambda: schemas.check_for_mutable_operation(lib.relu_, (lib.ones(1),), {}))]
    traced = part(lib, "fx").symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    of_nodes = [node.normalized_arguments(traced, normalize_to_only_use_kwargs=only) for node in traced.graph.nodes for only in (False, True)]
    return [*(normal(*call) for call in calls), *(normal(*call, normalize_to_only_use_kwargs=True) for call in named), *layers, *hints, [schemas.type_matches(*pair) for pair in pairs],
            schemas.check_for_mutable_operation(lib.add, (T, T), {}), *of_nodes, *map(Refused, wrong)]  # fmt: skip


def smaller_methods(lib):
    nn, norm = lib.nn, lib.nn.BatchNorm1d(2)
    lib.func.replace_all_batch_norm_modules_(nn.Sequential(norm))
    mha, x, keys = nn.MultiheadAttention(4, 2, batch_first=True), lib.ones(2, 3, 4), lib.zeros(2, 3)
    masks = [mha.merge_masks(*pair, x) for pair in ((None, None), (None, keys), (lib.ones(3, 3), None), (lib.ones(3, 3), keys + 1), (lib.ones(4, 3, 3), keys))]
    pareto = lib.distributions.GeneralizedPareto(0.0, 1.0, 0.5)
    conv = nn.utils.convert_conv2d_weight_memory_format(nn.Sequential(nn.Conv2d(2, 3, 2)), lib.channels_last)[0]
    kwargs = [nn.factory_kwargs(k) for k in (None, {"dtype": lib.float64}, {"factory_kwargs": {"device": "cpu"}, "dtype": lib.int8})]
    wrong = [refusal(lambda: nn.factory_kwargs({"size": 1})), refusal(lambda: nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})), refusal(lambda: nn.Linear(1, 1).register_backward_hook(print, True)),
             refusal(lambda: nn.functional.gumbel_softmax(x, generator=None))]  # fmt: skip
    return [norm._buffers, norm.track_running_stats, *masks, pareto.log_cdf(lib.tensor([0.5, 2.0])), pareto.log_survival_function(lib.tensor([0.5, 2.0])), lib.utils.data.ConcatDataset.cumsum([[1, 2], [3]]),
            conv.weight.is_contiguous(memory_format=lib.channels_last), *[sorted(k.items()) for k in kwargs], nn.Identity().xpu(), nn.Identity().mtia(0), *map(Refused, wrong)]  # fmt: skip


def marks_of_data_pipes(lib):
    data_ = part(lib, "utils.data")

    class Pipe(data_.IterDataPipe):
        def __init__(self, n=2):
            self.n = n

        def __iter__(self):
            yield from range(self.n)

    always, seldom = data_.non_deterministic(Pipe), data_.non_deterministic(lambda n: n > 2)(Pipe)

    def length(pipe, more=0):
        return len(list(pipe)) + more

    length.__annotations__ = {"pipe": data_.IterDataPipe, "more": int}
    length = data_.argument_validation(length)
    with data_.guaranteed_datapipes_determinism(), data_.runtime_validation_disabled():
        wrong = [refusal(always), refusal(lambda: seldom(3))]
        few = list(seldom(2))
    wrong += [refusal(lambda: length([1])), refusal(lambda: data_.non_deterministic(int)), refusal(lambda: data_.non_deterministic(3)), refusal(lambda: data_.runtime_validation(length)), refusal(lambda: data_.non_deterministic(lambda n: 1)(Pipe)(1))]
    return [few, list(always(1)), list(seldom(3)), *map(Refused, wrong)]


def shared_sums(lib):
    w = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.Adagrad([w], lr=0.5, initial_accumulator_value=0.25)
    optimizer.share_memory()
    shared = optimizer.state[w]["sum"].is_shared()
    w.grad = lib.ones(2)
    optimizer.step()
    return [shared, optimizer.state[w]["sum"].is_shared(), optimizer.state[w]["sum"], optimizer.state[w]["step"], w, callable(lib.optim.Optimizer.profile_hook_step(print))]


def tensors_as_they_are_asked_for(lib):
    made = []
    for copies in (None, True):
        for wanted in (None, True, False):
            for dtype in (None, lib.float64):
                leaf = lib.ones(2, requires_grad=True)
                for x in (leaf * 2, lib.ones(2), leaf):
                    y = lib.asarray(x, copy=copies, requires_grad=wanted, dtype=dtype)
                    made.append((y.requires_grad, y.is_leaf, y is x, str(y.dtype).partition(".")[2]))
    wrong = [refusal(lambda: lib.asarray(lib.ones(2), copy=False, dtype=lib.float64)), refusal(lambda: lib.asarray([1], copy=False))]
    return [made, *map(Refused, wrong), lib.atleast_1d(), lib.atleast_2d(), lib.atleast_3d(), lib.broadcast_tensors(leaf, lib.ones(1))[0] is leaf]


def states_before_the_first_forward(lib):
    lazy = lib.nn.Sequential(lib.nn.LazyLinear(3), lib.nn.LazyBatchNorm1d())
    state = lazy.state_dict()
    loaded = lib.nn.Sequential(lib.nn.LazyLinear(3), lib.nn.LazyBatchNorm1d()).load_state_dict(state)
    wrong = refusal(lambda: lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3)).load_state_dict(state))
    return [{k: type(v).__name__ for k, v in state.items()}, loaded, Refused(wrong), lazy(lib.ones(2, 4)).shape]


def batches_of_backwards(lib):
    x, w = data(lib, 5, requires_grad=True), lib.ones(5, requires_grad=True)
    y, rows = x**3, lib.eye(5)
    vmap, grad = lib.func.vmap, lib.autograd.grad
    twice = vmap(lambda v: grad(y.sin(), x, v, create_graph=True)[0])(rows)
    nested = vmap(vmap(lambda v: grad(y, x, v, retain_graph=True)[0]))(rows.view(5, 1, 5).expand(5, 2, 5))
    wrong = refusal(lambda: vmap(lambda v: grad(y, w, v, retain_graph=True)[0])(rows))
    return [vmap(lambda v: grad(y, x, v, retain_graph=True))(rows), twice, grad(twice.sum(), x)[0], nested, Refused(wrong)]


def sparse_products_and_diagonals(lib):
    dense = lib.tensor([[1.0, 0, 2], [0, 0, 0], [0, -3, 0]])
    b = data(lib, 3, 2, requires_grad=True)
    found = []
    for how in ("sum", "mean", "amax", "amin", "max", "min"):
        y = lib.sparse.mm(dense.to_sparse_csr(), b, how)
        found += [y, lib.autograd.grad(y.sum(), b)[0]]
    spdiags, rows = lib.sparse.spdiags, lib.arange(1, 7).view(2, 3)
    shapes = [(3, 3), (5, 5), (2, 4)]
    diagonals = [spdiags(rows, lib.tensor([k, k - 1]), shape).to_dense() for shape in shapes for k in (-1, 0, 1)]
    wrong = [
        refusal(lambda: lib.sparse.mm(dense.to_sparse_csr(), b, "what")), refusal(lambda: spdiags(rows, lib.tensor([1]), (3, 3))),
        refusal(lambda: spdiags(rows, lib.tensor([1, 1]), (3, 3))), refusal(lambda: spdiags(rows, lib.tensor([1.0, 2.0]), (3, 3))),
        refusal(lambda: spdiags(rows, lib.tensor([1, 2]), (3, 3, 3))), refusal(lambda: spdiags(rows, lib.tensor([1, 2]), (3, 3), lib.strided)),
    ]  # fmt: skip
    return [found, diagonals, spdiags(rows[0], lib.tensor([1]), (3, 4), lib.sparse_csr).col_indices(), *map(Refused, wrong)]


def patterns_of_axes(lib):
    x = lib.arange(24.0).view(2, 3, 4)
    rearrange = lib.func.rearrange
    patterns = ["a b c -> c (a b)", "a ... -> ... a", "... a -> (a ...)", "... -> (...)", "a b c -> a () b c 1", "a_1 b c->c b a_1", "a ... c -> c (...) a"]
    found = [rearrange(x, p) for p in patterns] + [rearrange([x, x], "n a b c -> a n b c"), rearrange(x, "a b (c d) -> d a (b c)", c=2), rearrange(x[:, :1], "a 1 c -> c a")]
    wrong = ["a b c -> a b", "a b -> b a", "a a b -> a b", "a b c", "a b c -> ... a b c", "(...) -> ...", "a b c -> a b ((c))", "a b 4 -> a b", "a b (c -> c", "a ? c -> c"]
    return [found, *(Refused(refusal(lambda p=p: rearrange(x, p))) for p in wrong), Refused(refusal(lambda: rearrange(x, "a b c -> c b a", z=1)))]


def classes_of_what_is_close(lib):
    x, close = lib.ones(2), part(lib, "testing").assert_close
    close([1.0, None], (1.0, None))
    close(x, lib.nn.Parameter(x))
    pairs = [(x, x.numpy()), (x.numpy(), x), (1.0, lib.tensor(1.0)), ("a", "a"), (x, [1.0, 1.0])]
    return [Refused(refusal(lambda a=a, b=b: close(a, b))) for a, b in pairs]


def storages_as_text(lib):
    texts = [repr(x) for x in (lib.tensor([1, 300]).untyped_storage(), lib.tensor([1.5, -2.0]).storage(), lib.zeros(0).untyped_storage())]
    return [texts, repr(lib.nn.Unflatten(1, lib.Size([2, 3]))), repr(lib.nn.Unflatten(1, [2, 3])), repr(lib.set_grad_enabled(True)).rpartition(".")[2]]


def states_of_parameters(lib):
    class Own(lib.nn.Parameter):
        def __getstate__(self):
            return {"kept": self.scale * 2}

    class Plain(lib.nn.Parameter):
        pass

    found = []
    for kind in (Own, Plain):
        p = kind(lib.ones(2), requires_grad=False)
        p.scale = 3
        again = pickle.loads(pickle.dumps(p))
        found += [type(again).__name__, again, again.requires_grad, sorted(again.__dict__.items())]
    return found


def handles_of_programs(lib):
    from collections import OrderedDict

    handle_of = type(lib.nn.Linear(1, 1).register_forward_hook(print))
    hooks, marks = OrderedDict(), [OrderedDict(), OrderedDict()]
    handles = [handle_of(hooks), handle_of(hooks, extra_dict=marks[0]), handle_of(hooks_dict=hooks, extra_dict=marks)]
    for handle in handles:
        for table in (hooks, *marks):
            table[handle.id] = handle
    left = []
    for handle in handles:
        handle.remove()
        left.append([len(table) for table in (hooks, *marks)])
    return [left, *map(Refused, [refusal(lambda: handle_of(hooks, marks[0]))])]


def lazy_layers_by_position(lib):
    nn, x = lib.nn, lib.ones(1, 2, 5, dtype=lib.float64)
    made = [nn.LazyConv1d(8, 3, 1, 0, 1, 1, True, "zeros", None, lib.float64), nn.LazyConvTranspose1d(4, 3, 2, 1, 1, 2, False, 1, "zeros", None, lib.float64), nn.LazyConv1d(8, kernel_size=(3,), bias=False, dtype=lib.float64)]
    shown = [str(layer) for layer in made] + [layer(x).shape for layer in made] + [str(layer) for layer in made]
    by_hand = nn.LazyConv1d(8, 3)
    by_hand.initialize_parameters(lib.ones(1, 2, 5), 3, more=2)
    return [*shown, by_hand.weight.shape, nn.CrossMapLRN2d(2)]


HABITS = [f for f in list(globals().values()) if inspect.isfunction(f) and list(inspect.signature(f).parameters) == ["lib"]]


def same(ours, theirs, where):
    if isinstance(theirs, torch.Tensor):
        assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2], where
        assert tuple(ours.shape) == tuple(theirs.shape), where
        np.testing.assert_allclose(ours.detach().float().numpy(), theirs.detach().float().numpy(), rtol=2e-5, atol=2e-6, err_msg=where)
    elif isinstance(theirs, Refused):
        assert theirs and theirs <= ours, f"{where}: {ours} here, {theirs} there"
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, f"{where}[{i}]")
    else:
        assert str(ours).replace("flambeau", "torch") == str(theirs), where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("habit", HABITS, ids=lambda f: f.__name__)
def test_both_do_the_same(habit):
    same(habit(fl), habit(torch), habit.__name__)


def test_copied_and_pickled_modules_are_compiled_too():
    m = fl.nn.Linear(2, 2)
    m.compile()
    x = fl.ones(1, 2)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        with fl.no_grad():
            other.weight.zero_()
        assert fl.equal(other(x)[0], m.bias), "a copy calls itself, and not the module that it was copied from"
    assert not fl.equal(m(x)[0], m.bias)
