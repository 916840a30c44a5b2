"""`record`: which graph a function becomes. `run`: the bits of eager mode, and nothing that a graph says is believed."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from support.both import forms
from support.compare import bits

import flambeau as fl
from flambeau import _C, nn
from flambeau.graph import (
    Buffer,
    Draw,
    DType,
    Graph,
    GraphError,
    Node,
    Ref,
    Value,
    example,
    passes,
    record,
)

F = nn.functional
pytestmark = pytest.mark.eager("has regions of its own")


def kinds(graph):
    return [(b.kind, b.name) for b in graph.buffers if b.kind not in ("intermediate", "output")]


# ---------------------------------------------------------------- what becomes of a function


def test_arguments_are_those_that_are_passed():
    scale = fl.tensor([2.0, 3.0])

    def f(x, *more, n):
        return x * scale + more[0] ** n, {"last": more[1], "none": None}

    g = record(lambda x, *more: f(x, *more, n=3), fl.ones(2), fl.ones(2), fl.zeros(4))
    assert kinds(g) == [("argument", "x"), ("argument", "more.0"), ("argument", "more.1"), ("constant", None)]
    assert forms(g.run(fl.ones(2), fl.ones(2) * 2, fl.ones(4))) == forms([fl.tensor([10.0, 11.0]), fl.ones(4)])


def test_numbers_are_part_of_the_graph():
    g = record(lambda x, n: x * n, fl.ones(2), 3)
    assert g.run(fl.ones(2))[0].tolist() == [3, 3]


def test_modules_hold_parameters():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    g = record(net, fl.rand(4, 3))
    names = ["0.weight", "0.bias", "1.num_batches_tracked", "1.running_mean", "1.running_var", "1.weight", "1.bias"]
    assert kinds(g) == [("argument", "input"), *(("parameter", name) for name in names)]
    assert [g.buffers[g.values[i].buffer].name for i in g.inputs[1:]] == names
    written = {g.buffers[g.values[v].buffer].name for node in g.nodes for v in node.writes}
    assert written == {"1.num_batches_tracked", "1.running_mean", "1.running_var"}
    assert all(node.source for node in g.nodes)


def test_leaves_and_written_memory_are_parameters():
    w, count, table = fl.rand(3, requires_grad=True), fl.zeros(()), fl.rand(3)

    def f(x):
        count.add_(1)
        return x * w + table

    g = record(f, fl.ones(3))
    assert sorted(kind for kind, _ in kinds(g)) == ["argument", "constant", "parameter", "parameter"]
    assert count.item() == 1  # the function was called
    g.run(fl.ones(3))
    assert count.item() == 2


def test_what_is_recorded_is_not_computed():
    before = _C.graph.stats()["pruned"]
    record(lambda x: x.exp().sum(), fl.ones(3))
    assert _C.graph.stats()["pruned"] - before >= 2


def test_constants_are_as_they_were():
    table = fl.ones(2)
    g = record(lambda x: x + table, fl.ones(2))
    table.zero_()
    assert g.run(fl.ones(2))[0].tolist() == [2, 2]


def test_views_and_writes_in_place():
    def f(x):
        y = x.t()[1:]
        z = y * 2
        z[0].add_(1)
        x[:, 0].mul_(3)
        return z, z[0], x, y

    g = record(f, fl.ones(2, 3))
    x, other = fl.rand(2, 3), None
    other = x.clone()
    found, expected = g.run(x), f(other)
    assert forms([*found, x]) == forms([*expected, other])
    found[0].zero_()
    assert found[1].tolist() == [0, 0]  # still a view of it
    assert found[3]._storage_ptr() == x._storage_ptr()


def test_positions_of_some_axes(tmp_path):
    def f(x, at):
        x[:, at] += 1
        return x[:, at] * 2, x[..., [0]], x[[1, 0], :, None]

    g = record(f, fl.ones(2, 3), fl.tensor([2, 0]))
    g.save(tmp_path / "g.json")
    for graph in (g, Graph.load(tmp_path / "g.json")):
        x, at = fl.rand(2, 3), fl.tensor([1, 2])
        other = x.clone()
        found, expected = graph.run(x, at), f(other, at)
        assert forms([*found, x]) == forms([*expected, other])


def test_an_input_twice():
    g = record(lambda x, y: x * y, *([fl.ones(2)] * 2))
    x = fl.rand(2)
    assert bits(g.run(x, x)[0]) == bits(x * x)
    with pytest.raises(GraphError, match="input 1 lies apart from another input; the graph has both in buffer 0"):
        g.run(x, fl.rand(2))


def test_memory_around_an_input():
    whole = fl.arange(6).float()
    g = record(lambda x: x + whole[3:], whole[:3])
    assert g.run(whole[:3])[0].tolist() == [3, 5, 7]
    with pytest.raises(GraphError, match="input 1 lies apart"):
        g.run(fl.ones(3))


def test_gradients_are_nodes():
    w = fl.rand(3, requires_grad=True)
    g = record(lambda x: fl.autograd.grad((x * w).exp().sum(), w), fl.ones(3))
    x = fl.rand(3)
    assert forms(g.run(x)) == forms(fl.autograd.grad((x * w).exp().sum(), w))


@pytest.mark.slow
def test_training_step():
    """Parameters, running averages and gradients as in eager mode, step after step, with draws in their order."""

    def make():
        fl.manual_seed(4)
        net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(36, 3))

        def step(x, target):
            loss = F.cross_entropy(net(x), target)
            with fl.no_grad():
                for p, g in zip(net.parameters(), fl.autograd.grad(loss, list(net.parameters()))):
                    p.sub_(g, alpha=0.1)
            return loss

        return net, step

    x, target = fl.randn(5, 2, 5, 5), fl.tensor([0, 1, 2, 1, 0])
    net, step = make()
    expected = [step(x, target) for _ in range(4)]
    other, other_step = make()
    g = record(other_step, x, target)  # a step of its own
    found = [g.run(x, target)[0] for _ in range(3)]
    assert forms([*found, *other.state_dict().values()]) == forms([*expected[1:], *net.state_dict().values()])


def test_a_file_and_a_state_dict(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    g = record(net, fl.rand(5, 3))
    g.save(tmp_path / "net.graph")
    loaded = Graph.load(tmp_path / "net.graph")
    assert loaded == g
    names = [loaded.buffers[loaded.values[i].buffer].name for i in loaded.inputs[1:]]
    x = fl.rand(5, 3)
    fl.manual_seed(2)
    expected = net(x)
    fl.manual_seed(2)
    state = net.state_dict()
    (found,) = loaded.run(x, *(state[name] for name in names))
    assert bits(found) == bits(expected)
    with pytest.raises(GraphError, match="run: 1 inputs; the graph has 1 arguments and 4 parameters"):
        loaded.run(x)


def test_draws(tmp_path):
    g = record(lambda x: (fl.rand_like(x), F.dropout(x, 0.5)), fl.ones(20))
    assert sum(arg == Draw() for node in g.nodes for arg in node.args) == 2
    assert ", draw)" in str(g) or "draw" in str(g)
    first, second = g.run(fl.ones(20)), g.run(fl.ones(20))
    assert forms(first) != forms(second)
    # A pass neither leaves them out nor merges them.
    twice = record(lambda x: (fl.rand_like(x), fl.rand_like(x) + fl.rand_like(x)), fl.ones(3))
    assert passes.run(twice, inplace_sums=False) == twice
    lost = replace(twice, outputs=twice.outputs[1:])
    drawn = sum(Draw() in node.args for node in passes.prune(replace(lost, buffers=lost.buffers)).nodes)
    assert drawn == 3
    with pytest.raises(GraphError, match="argument 1: Draw"):
        replace(twice, nodes=(Node("exp", (Ref(0), (Draw(),)), (twice.nodes[0].outs[0],)), *twice.nodes[1:])).validate()


def test_memory_that_the_function_makes():
    def filled(x):
        a = fl.empty(2, 3)
        a[0] = x
        a[1].copy_(x * 2)
        return a.t()

    g = record(filled, fl.ones(3))
    assert [node.op for node in g.nodes].count("empty") == 1
    for x in (fl.rand(3), fl.rand(3)):
        assert forms(g.run(x)) == forms([filled(x)])

    def added(x):
        a = fl.zeros(3)
        a += x
        return a

    with pytest.raises(GraphError, match=r"record: add_ \(test_record.py:\d+\) writes to memory that is neither an input nor held by"):
        record(added, fl.ones(3))
    g = record(lambda x: fl.zeros(3).clone().add_(x), fl.ones(3))
    assert g.run(fl.ones(3))[0].tolist() == g.run(fl.ones(3))[0].tolist() == [1, 1, 1]


def test_passes_and_plans_of_recordings():
    def f(x):
        a = x.exp() + x.exp()
        unused = a.sin()  # noqa: F841
        return a + a.relu()

    g = record(f, fl.ones(4))
    x = fl.rand(4)
    for made in (g, passes.run(g), passes.cse(g), passes.inplace_sums(g)):
        assert bits(made.run(x)[0]) == bits(f(x))
    assert len(passes.run(g).nodes) < len(g.nodes)
    assert g.plan().total > 0 and "exp" in g.dot()


def test_inside_of_a_region_and_under_modes():
    with fl.lazy():
        x = fl.ones(3) * 2
        g = record(lambda x: x @ x, x)
        y = x + 1
        with fl.autocast("cpu"):
            (z,) = g.run(y)
        assert z.dtype == fl.float32 and z.item() == 27
    g = record(lambda x: x * 2, fl.ones(2, requires_grad=True))
    (y,) = g.run(fl.ones(2, requires_grad=True))
    assert not y.requires_grad


# ---------------------------------------------------------------- what no graph can do


@pytest.mark.parametrize("read", [
    lambda y: y.item(), lambda y: bool(y), lambda y: y.numpy(), lambda y: y.tolist(), lambda y: float(y), lambda y: str(y), lambda y: y.reshape(1).nonzero(),
], ids=["item", "bool", "numpy", "tolist", "float", "str", "nonzero"])  # fmt: skip
def test_a_value_that_is_read(read):
    def f(x):
        y = x.sum()
        read(y * 2)
        return y + 1

    with pytest.raises(GraphError, match=r"record: test_record.py:\d+ \(in <lambda>\) reads a value"):
        record(f, fl.ones(3))
    assert not _C.graph.recording()


READS = {
    "item": lambda x, i: x * x[0].item(),
    "bool": lambda x, i: x if x[0] else -x,
    "tolist": lambda x, i: x * x.tolist()[0],
    "print": lambda x, i: x * len(str(x)),
    "number": lambda x, i: fl.full((2,), x[0]),
    "list": lambda x, i: fl.tensor([x[0], x[1]]),
    "slice": lambda x, i: x[i:],
    "equal": lambda x, i: x * fl.equal(x, x),
    "lengths": lambda x, i: nn.utils.rnn.pack_padded_sequence(x[:, None, None], i[None]).data,
}


@pytest.mark.parametrize("name", READS)
def test_a_value_of_an_input_that_is_read(name):
    """It is there before the recording begins, so that nothing has to run for it."""
    with pytest.raises(GraphError, match=r"record: test_record.py:\d+ \(in <lambda>\) reads a value"):
        record(READS[name], fl.ones(3), fl.tensor(2))


@pytest.mark.parametrize("function", [
    lambda x: x.nonzero(), lambda x: x.unique(), lambda x: x[x.bool()], lambda x: fl.masked_select(x, x.bool()), lambda x: fl.bincount(x),
], ids=["nonzero", "unique", "mask", "masked_select", "bincount"])  # fmt: skip
def test_a_size_that_follows_from_an_input(function):
    with pytest.raises(GraphError, match=r"record: test_record.py:\d+ \(in <lambda>\)(: the size of a result follows from| reads a) value"):
        record(function, fl.tensor([1, 0, 2]))


def test_a_generator_that_is_seeded():
    def f(x):
        fl.manual_seed(3)
        return fl.rand(3) + x

    with pytest.raises(GraphError, match=r"test_record.py:\d+ \(in f\): a generator was seeded: a graph can not do that"):
        record(f, fl.ones(3))


def test_a_generator_of_the_functions_own():
    own = fl.Generator()
    with pytest.raises(GraphError, match="record: the function draws from a generator of its own"):
        record(lambda x: x + fl.rand(3, generator=own) + fl.rand(3), fl.ones(3))
    assert [node.op for node in record(lambda x: x + fl.rand(3, generator=fl.default_generator), fl.ones(3)).nodes][-1] == "add"


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_parts(reentrant):
    """Without draws they are recorded as they run; the draws of a second run are those of the first, which a graph does not know of."""
    layer, x = nn.Linear(3, 3), fl.rand(2, 3).requires_grad_()

    def gradient(part):
        def f(x):
            y = fl.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
            y.sum().backward()
            return layer.weight.grad

        return f

    plain = gradient(lambda x: layer(x).tanh())
    expected = plain(x).clone()
    layer.weight.grad = layer.bias.grad = x.grad = None
    g = record(plain, x)
    layer.weight.grad = layer.bias.grad = x.grad = None
    assert bits(g.run(x)[0]) == bits(expected)
    with pytest.raises(GraphError, match="record: a checkpointed part draws random numbers"):
        record(gradient(lambda x: F.dropout(layer(x), 0.5)), x)


def test_what_is_there_without_elements():
    g = record(lambda x: x.expand(2, 0).clone(), fl.ones(1, 0))
    assert g.run(fl.ones(1, 0))[0].shape == (2, 0)


def test_the_meta_device():
    with pytest.raises(GraphError, match="record: input 1 is on meta"):
        record(lambda x, y: x + y, fl.ones(3), fl.ones(3, device="meta"))
    with pytest.raises(GraphError, match="record: output 0 is on meta"):
        record(lambda: fl.ones(3, device="meta") + 1)


def test_a_default_device_is_not_the_graphs(tmp_path):
    """A region on meta is about what a program makes, and not about constants and memory of graphs."""
    x, steps = fl.ones(3), fl.arange(3)
    with fl.device("meta"):
        g = record(lambda x: (x * steps, fl.rand_like(x).fill_(2)), x)
        g.save(tmp_path / "g")
        for graph in (g, Graph.load(tmp_path / "g")):
            assert [y.tolist() for y in graph.run(x)] == [[0, 1, 2], [2, 2, 2]]


@pytest.mark.slow
def test_threads_that_make_tuples_meanwhile():
    """A tuple that is being made may have no other owner: CPython raises SystemError there."""
    net, x, found, done = nn.Linear(3, 3), fl.ones(2, 3), [], threading.Event()

    def make():
        try:
            while not done.is_set():
                assert tuple(i for i in range(200)) == tuple(range(200))
        except SystemError as error:
            found.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            record(net, x)
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not found


def test_the_line_that_reads():
    def f(x):
        y = x * 2
        if y.sum() > 3:
            y = y + 1
        return y

    line = f.__code__.co_firstlineno + 2
    with pytest.raises(GraphError, match=rf"record: test_record.py:{line} \(in f\) reads a value"):
        record(f, fl.ones(3))


def test_memory_of_numpy():
    shared = fl.from_numpy(np.ones(3, np.float32))
    with pytest.raises(GraphError, match=r"record: input 1 shares its memory with others \(NumPy\)"):
        record(lambda x, y: x + y, fl.ones(3), shared)
    with pytest.raises(GraphError, match=r"test_record.py:\d+ \(in <lambda>\) reads a value, or uses memory that is shared"):
        record(lambda x: x + shared, fl.ones(3))


def test_what_it_must_return():
    with pytest.raises(TypeError, match="record: the function returned a int; expected tensors"):
        record(lambda x: [x, 3], fl.ones(3))


def test_an_exception_of_the_function():
    x = fl.zeros(3)

    def f(x):
        x.add_(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        record(f, x)
    assert not _C.graph.recording() and x.tolist() == [1, 1, 1]
    assert record(lambda x: x + 1, x).run(x)[0].tolist() == [2, 2, 2]


# ---------------------------------------------------------------- graphs that lie


X = Ref(0)


def one(op="exp", args=(X,), outs=(1,), writes=(), sizes=(2,), dtype="float32", nbytes=8, kind="output", source=None, strides=None):
    """A graph of one node over one argument of two floats."""
    strides = strides or tuple(int(np.prod(sizes[i + 1 :])) for i in range(len(sizes)))
    buffers, values = [Buffer("argument", 8)], [Value(0, "float32", (2,), (1,))]
    if outs:
        buffers.append(Buffer(kind, nbytes))
        values.append(Value(1, dtype, sizes, strides))
    return Graph(buffers, values, [Node(op, args, outs, writes, source)], [0], outs or [0], {})


LIES = {
    "op": (one("no_such_op"), r"node 0 \(no_such_op\): there is no such op"),
    "dunder": (one("__class__"), "there is no such op"),
    "source": (one("no_such_op", source="a.py:3"), r"node 0 \(no_such_op, a.py:3\): there is no such op"),
    "number of arguments": (one("exp", (Ref(0), 1)), "2 arguments; expected 1: x"),
    "kind of argument": (one("exp", ("x",)), "exp: "),
    "none": (one("exp", (None,)), "exp: "),
    "a huge number": (one("mul", (Ref(0), 10**400)), r"node 0 \(mul\): a Python integer"),
    "shape": (one(sizes=(1,), nbytes=4), r"value %1 is float32 of shape \[2\], strides \[1\], on cpu; the graph says float32 of shape \[1\]"),
    "dtype": (one(dtype="int32"), "is float32 .*; the graph says int32"),
    "strides": (one("expand", (Ref(0), (2, 2)), sizes=(2, 2), nbytes=16), "there is no such op"),
    "bytes": (one(nbytes=800), "value %1 is not all of a new buffer"),
    "into the argument": (
        Graph([Buffer("argument", 8)], [Value(0, "float32", (2,), (1,)), Value(0, "float32", (1,), (1,), 1)], [Node("sum", (Ref(0), None, True, None), (1,))], [0], [1], {}),
        "not all of a new buffer",
    ),
    "hidden write": (one("exp_", outs=()), r"value %0 is written by the op; the graph says otherwise"),
    "no write": (one("exp", writes=(0,)), "value %0 is not written by the op; the graph says otherwise"),
    "number of outputs": (one("exp_", (Ref(0),), (1,), (0,)), "value %1 is not all of a new buffer"),
    "index": (one("gather", (Ref(0), 0, Ref(0))), "gather: "),
}  # fmt: skip


@pytest.mark.parametrize("graph, text", LIES.values(), ids=LIES)
def test_lies(graph, text, tmp_path):
    graph.save(tmp_path / "graph")
    x = fl.ones(2)
    with pytest.raises(GraphError, match=text):
        Graph.load(tmp_path / "graph").run(x)
    assert not _C.graph.recording()


def test_memory_outside_of_the_input_is_not_reached():
    values = [Value(0, "float32", (2,), (1,), 2), Value(0, "float32", (4,), (1,), 0), Value(1, "float32", (4,), (1,))]
    g = Graph([Buffer("argument", 16), Buffer("output", 16)], values, [Node("exp", (Ref(1),), (2,))], [0], [2], {}).validate()
    secret = fl.rand(8)
    with pytest.raises(GraphError, match="value %1 lies outside of what was given for buffer 0"):
        g.run(secret[4:6])


@pytest.mark.parametrize("inputs, text", [
    ([], "run: 0 inputs; the graph has 3 arguments and 0 parameters|run: 0 inputs"),
    ([fl.ones(8, 16), fl.eye(16), 3], "run: input 2 is a int; expected a tensor"),
    ([fl.ones(8, 16), fl.eye(16), fl.zeros(15)], r"run: input 2 is float32 of shape \[15\], strides \[1\], on cpu; expected float32 of shape \[16\]"),
    ([fl.ones(8, 16), fl.eye(16), fl.zeros(16, device="meta")], "on meta; expected .* on cpu"),
], ids=["number", "type", "shape", "device"])  # fmt: skip
def test_inputs(inputs, text):
    with pytest.raises(GraphError, match=text):
        example().run(*inputs)


def test_element_types_are_arguments():
    g = record(lambda x: x.to(fl.float64), fl.ones(2))
    assert DType("float64") in [arg for node in g.nodes for arg in node.args]
    assert g.run(fl.ones(2))[0].dtype == fl.float64


def test_nothing_leaks():
    net = nn.Linear(3, 3)
    x = fl.rand(2, 3)
    for _ in range(3):
        record(net, x).run(x)
    before = _C.live_objects()
    for _ in range(3):
        record(net, x).run(x)
    assert _C.live_objects() == before


def test_recorded_says_whether_a_buffer_has_an_owner():
    x = fl.ones(3)
    with fl.lazy():
        y = x * 2
        z = y + 1  # noqa: F841
        del y
        assert [owned for _, _, owned, _ in _C.graph.recorded()["buffers"]] == [True, False, True]


# ---- indices that are computed


ROUTED = {
    "index": lambda x, at: x[at],
    "embedding": lambda x, at: nn.functional.embedding(at, x),
    "gather": lambda x, at: x.gather(0, at[:, None].expand(-1, x.shape[1])),
    "put": lambda x, at: x.clone().index_add_(0, at, x[: at.shape[0]]),
    "loss": lambda x, at: nn.functional.nll_loss(x[: at.shape[0]], at),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUTED)
def test_indices_that_the_graph_computes(name):
    def f(x, bias):
        return ROUTED[name](x, x.sum(1).argsort()[:2] + bias)

    x, none = fl.randn(4, 4), fl.zeros(2, dtype=fl.int64)
    g = record(f, x, none)
    for _ in range(2):
        x = fl.randn(4, 4)
        assert forms(g.run(x, none)) == forms([f(x, none)])
    with pytest.raises(GraphError, match=r"node \d+ .*(out of bounds|expected 0 <= )"):
        g.run(x, none + 4)


@pytest.mark.parametrize("name", ["index", "embedding", "gather", "put"])
def test_indices_are_checked_before_they_are_used_where_the_recorded_call_runs(name):
    """What is written is computed when the function has been recorded; a wrong index is found there, before memory is read or written."""
    wrong = fl.full((2,), 1 << 40)
    written = fl.zeros(4)

    def f(x, at):
        written.copy_(ROUTED[name](x, at + 1)[0])
        return x

    with pytest.raises((GraphError, IndexError)):
        record(f, fl.randn(4, 4), wrong)
        written.tolist()
    with pytest.raises(IndexError), fl.lazy():
        ROUTED[name](fl.randn(4, 4), wrong + 1)


def test_regions_check_at_once_after_a_recording_that_ended_within():
    def f(x):
        fl.lazy().__exit__(None, None, None)
        return x + 1

    with pytest.raises(Exception):  # noqa: B017 (whatever a region that ended too early gives)
        record(f, fl.ones(2))
    _C.graph.settle()
    with fl.lazy(), pytest.raises(IndexError):
        fl.ones(3)[fl.tensor([1]) + 100]


def test_a_value_that_was_read_before_the_recording_does_not_hide_one_that_is_read_in_it():
    x = fl.tensor([1.0, 2.0])
    with fl.lazy():
        assert (x * 2)[0].item() == 2
        with pytest.raises(GraphError, match="reads a value"):
            record(lambda a: a * a[0].item(), x)
        assert record(lambda a: a * 3, x).run(x)[0].tolist() == [3, 6]
