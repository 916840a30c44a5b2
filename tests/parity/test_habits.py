"""What published programs do beside calling ops and asking for gradients, run by both libraries (`programs.py`)."""

from __future__ import annotations

import copy
import io
import math
import numbers
import operator
import pickle
import warnings
from array import array
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, asserted, data, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


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


def packed_sequences(lib):
    rnn = part(lib, "nn.utils.rnn")
    packed = rnn.pack_sequence([data(lib, 2, 3), data(lib, 4, 3)], enforce_sorted=False)
    wrong = [refusal(lambda: rnn.pack_padded_sequence(data(lib, 2, 4, 3), [2, 4], batch_first=True)), refusal(lambda: rnn.pack_padded_sequence(data(lib, 2, 4, 3), [4, 0], batch_first=True))]
    types = [getattr(packed, name)().data.dtype for name in ("double", "float", "half", "long", "int", "short", "char", "byte")]
    return [packed.is_cuda, packed.cpu() is packed, packed.to(lib.float64).sorted_indices, types, *packed, *map(Refused, wrong)]


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


def indices_from_the_end(lib):
    x = lib.zeros(2, 3)
    found = [x.index_fill(1, lib.tensor([-1, 0]), 5.0), x.clone().index_fill_(-2, lib.tensor([-2]), lib.tensor(3.0))]
    calls = [
        lambda: x.index_fill(1, lib.tensor([-4]), 5.0), lambda: x.index_select(1, lib.tensor([-1])), lambda: x.index_add(1, lib.tensor([-1]), x[:, :1]),
        lambda: x.index_select(0, lib.zeros(1, 1, dtype=lib.long)), lambda: x[1.5], lambda: x[{}], lambda: x[0, 1.5], lambda: x["a"], lambda: x[object()],
    ]  # fmt: skip
    return found + [Refused(refusal(call)) for call in calls]


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



@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("habit", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_do_the_same(habit):
    same(habit(fl), habit(torch), habit.__name__, strides=False)


def test_copied_and_pickled_modules_are_compiled_too():
    m = fl.nn.Linear(2, 2)
    m.compile()
    x = fl.ones(1, 2)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        with fl.no_grad():
            other.weight.zero_()
        assert fl.equal(other(x)[0], m.bias), "a copy calls itself, and not the module that it was copied from"
    assert not fl.equal(m(x)[0], m.bias)
