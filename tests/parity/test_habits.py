"""What published programs do beside calling ops, run by both libraries: each function gets the library, and what it returns is compared.

Tensors are compared by type, shape and values, everything else by its text.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import re
import warnings
from array import array

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
