"""Tracing: what is recorded of functions and modules, and what is refused."""

from __future__ import annotations

import builtins
import functools
import linecache
import math
import operator
import threading
from collections import namedtuple

import pytest

import flambeau as fl
import flambeau.fx as fx
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.fx.proxy import ParameterProxy, TraceError
from flambeau.nn.functional import dropout as bare_dropout

pytestmark = pytest.mark.eager("programs are traced and their code compared")
Pair = namedtuple("Pair", "left right")


def lines(traced):
    return [line.partition(";")[0] for line in traced.code.strip().splitlines()[1:]]


def test_a_function(x):
    def f(a, b=2.0):
        return fl.relu(a).sum(0, keepdim=True) * b

    traced = fx.symbolic_trace(f)
    assert traced.code.strip().splitlines() == [
        "def forward(self, a, b = 2.0):",
        "    relu = flambeau.relu(a);  a = None",
        "    sum_1 = relu.sum(0, keepdim = True);  relu = None",
        "    mul = sum_1 * b;  sum_1 = b = None",
        "    return mul",
    ]
    assert fl.equal(traced(x), f(x)) and fl.equal(traced(x, b=3.0), f(x, 3.0))
    assert type(traced).__name__ == "f"


def test_a_module_with_submodules_parameters_and_buffers(net, x):
    traced = fx.symbolic_trace(net)
    traced.graph.lint()
    kinds = [(n.op, n.target) for n in traced.graph.nodes]
    assert ("call_module", "blocks.0.fc") in kinds and ("get_attr", "blocks.1.shift") in kinds and ("get_attr", "plain") in kinds
    assert ("call_module", "named.a-b") in kinds and ("call_module", "seq.0") in kinds and ("get_attr", "blocks.0.fc.bias") in kinds
    assert fl.equal(traced(x), net(x))
    assert traced.named.k is net.named["k"] and traced.p is net.p


def test_a_graph_module_trains(net, x):
    traced = fx.symbolic_trace(net)
    optimizer = fl.optim.SGD(traced.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        loss = traced(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert sorted(name for name, _ in traced.named_parameters()) == sorted(name for name, _ in net.named_parameters())
    assert "blocks.0.shift" in traced.state_dict()


UNARY = [("neg", lambda x: -x), ("invert", lambda x: ~x), ("pos", lambda x: +x), ("abs", abs)]
BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor eq ne lt gt le ge".split()


@pytest.mark.parametrize(("name", "f"), UNARY, ids=[name for name, _ in UNARY])
def test_operators_of_one(name, f):
    node = list(fx.symbolic_trace(lambda x: f(x)).graph.nodes)[1]
    assert (node.op, node.target) == ("call_function", getattr(operator, name))


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_on_both_sides(name):
    f = getattr(operator, name)
    left, right = list(fx.symbolic_trace(lambda x: (f(x, 3), f(3, x))).graph.nodes)[1:3]
    assert left.target is f and left.args[1] == 3
    swapped = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
    if name in ("eq", "ne", *swapped):  # Python turns comparisons around
        assert right.target is getattr(operator, swapped.get(name, name))
    else:
        assert right.target is f and right.args[0] == 3


WHOLE = {
    "relu": lambda x: F.relu(x), "dropout": lambda x: F.dropout(x, 0.5, False), "softmax": lambda x: F.softmax(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "pad": lambda x: F.pad(x, (1, 1)), "mse_loss": lambda x: F.mse_loss(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, x.argmax(1)), "normalize": lambda x: F.normalize(x), "silu": lambda x: F.silu(x),
    "linear": lambda x: F.linear(x, x), "gelu": lambda x: F.gelu(x), "einsum": lambda x: fl.einsum("ij,kj->ik", x, x),
    "cdist": lambda x: fl.cdist(x, x), "tensordot": lambda x: fl.tensordot(x, x, dims=([1], [1])), "cat": lambda x: fl.cat([x, x]),
    "linalg_norm": lambda x: fl.linalg.norm(x), "fft_fft": lambda x: fl.fft.fft(x), "special_expm1": lambda x: fl.special.expm1(x),
    "stack": lambda x: fl.stack((x, x)), "meshgrid": lambda x: fl.meshgrid([x[0], x[1]], indexing="ij"), "where": lambda x: fl.where(x > 0, x, 0),
    "unique": lambda x: fl.unique(x), "zeros_like": lambda x: fl.zeros_like(x), "broadcast_tensors": lambda x: fl.broadcast_tensors(x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_functions_are_recorded_whole_whether_native_or_not(name, x):
    f = WHOLE[name]
    traced = fx.symbolic_trace(f)
    assert name in [n.name for n in traced.graph.nodes if n.op == "call_function"]
    assert len([n for n in traced.graph.nodes if n.op == "call_function" and n.name.startswith(name)]) == 1
    ours, wanted = traced(x), f(x)
    for a, b in zip(ours, wanted) if isinstance(wanted, (tuple, list)) else [(ours, wanted)]:
        assert fl.allclose(fl.as_tensor(a), fl.as_tensor(b))


def test_functions_that_were_imported_by_name_are_recorded_whole(x):
    held = functools.partial(F.softmax, dim=1)
    traced = fx.symbolic_trace(lambda x: held(bare_dropout(x, training=False)))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [F.dropout, F.softmax]


def test_functions_are_what_they_were_after_a_trace():
    before = F.dropout.__code__
    seen = []
    fx.symbolic_trace(lambda x: seen.append(F.dropout.__code__) or x)
    assert seen[0] is not before and F.dropout.__code__ is before
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: x if x else x)
    assert F.dropout.__code__ is before
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    assert F.dropout.__code__ is not before
    assert F.dropout(proxy).node.target is F.dropout
    del proxy
    assert F.dropout.__code__ is before


def test_another_thread_computes_while_one_traces(x):
    layer = nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1))
    results = []

    def f(a):
        thread = threading.Thread(target=lambda: results.append((layer(x), F.softmax(x, -1))))
        thread.start()
        thread.join()
        return F.softmax(a, -1)

    traced = fx.symbolic_trace(f)
    assert fl.equal(results[0][0], layer(x)) and fl.equal(results[0][1], F.softmax(x, -1))
    assert len(traced.graph.nodes) == 3


def test_constants_become_attributes(x):
    w = fl.arange(4.0)
    traced = fx.symbolic_trace(lambda x: (x + w, w + x, fl.cat([x, w[None]])))
    assert [n.target for n in traced.graph.nodes if n.op == "get_attr"][0] == "_tensor_constant0"
    assert fl.equal(traced(x)[1], w + x)
    assert "_tensor_constant0" in traced.state_dict()


def test_all_kinds_of_arguments(x):
    def f(a, *args, b=1, **kwargs):
        return Pair(a[1:, None, ...], {"k": [a + b, slice(1, 2)]}), args, kwargs

    traced = fx.symbolic_trace(f)
    assert traced.code.strip().splitlines()[0] == "def forward(self, a, b = 1, *args, **kwargs):"
    pair, args, kwargs = traced(x, 2, 3, c=4)
    assert pair.left.shape == (2, 1, 4) and fl.equal(pair.right["k"][0], x + 2) and args == (3,) and kwargs == {"c": 4}


def test_unpacking_says_how_many(x):
    def f(a):
        n, m = a.shape
        return a.view(m, n)

    assert fx.symbolic_trace(f)(x).shape == (4, 3)


REFUSED = {
    "if": (lambda x: x if x.sum() > 0 else -x, TraceError, "control flow.* gt is true.*concrete_args"),
    "for": (lambda x: [y for y in x], TraceError, "cannot be iterated: the length of x.*wrap"),
    "star": (lambda x: fl.cat([*x]), TraceError, "cannot be iterated"),
    "in": (lambda x: x in [1], TraceError, "control flow"),
    "len": (lambda x: x.__len__(), RuntimeError, r"the length of x is not known.*fx.wrap\('len'\)"),
    "key": (lambda x: fl.add(x, {x.size(0): 1}), TraceError, "has the traced value size as a key"),
    "value": (lambda x: x.add(object()), NotImplementedError, "is a object, of which a graph can not be made"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_known_is_refused(name):
    f, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        fx.symbolic_trace(f)
    assert not fx._symbolic_trace.is_fx_tracing()


def test_bad_roots():
    with pytest.raises(TypeError, match="root is a int; expected a Module or a function"):
        fx.symbolic_trace(3)
    with pytest.raises(TypeError, match="len is not written in Python"):
        fx.symbolic_trace(len)

    class Makes(nn.Module):
        def forward(self, x):
            return nn.Linear(4, 4)(x)

    with pytest.raises(NameError, match="module Linear is not installed as a submodule of Makes; make it in __init__"):
        fx.symbolic_trace(Makes())


def test_concrete_args(x):
    def f(a, flag, scale=2, mode=None):
        return a * scale if flag and mode is None else a

    traced = fx.symbolic_trace(f, {"flag": True, "scale": 2, "mode": None})
    assert fl.equal(traced(x, True), x * 2)
    for args, text in (((False,), "flag has been specialized to have value True"), ((True, 2, 1), "mode has been specialized")):
        with pytest.raises(AssertionError, match=text):
            traced(x, *args)
    traced.graph.eliminate_dead_code()
    assert any(n.name == "_assert" for n in traced.graph.nodes)
    with pytest.raises(ValueError, match="concrete_args has 'flags'; expected names among a, flag, scale, mode"):
        fx.symbolic_trace(f, {"flags": True})
    with pytest.raises(NotImplementedError, match=r"concrete_args\['scale'\] is a tuple with PH in it"):
        fx.symbolic_trace(f, {"scale": (fx.PH, 1)})
    with pytest.warns(UserWarning, match="does not check that mode is the list"):
        fx.symbolic_trace(f, {"flag": True, "mode": [1]})


def test_decorated_functions_and_methods(x):
    def decorated(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)

        return inner

    @decorated
    def f(a, *, b=2):
        return a * b

    assert fl.equal(fx.symbolic_trace(f)(x, b=3), x * 3)

    class Holder:
        def method(self, a):
            return a + 1

        def __call__(self, a):
            return a + 2

    assert fl.equal(fx.symbolic_trace(Holder().method)(x), x + 1)


def test_asserts_are_traced_if_wanted(x):
    class Tracer(fx.Tracer):
        trace_asserts = True

    space = {}
    exec("def f(a):\n    assert a.shape[0] > 2, 'few'\n    return a\n", space)  # pytest writes the asserts of this file anew
    f = space["f"]
    traced = fx.GraphModule({}, Tracer().trace(f))
    assert fl.equal(traced(x), x)
    with pytest.raises(AssertionError):
        traced(x[:2])
    with pytest.raises(TraceError):
        fx.symbolic_trace(f)


def test_tracers_of_ones_own(net, x):
    class Blocks(fx.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, path):
            return type(m).__name__ == "Block" or super().is_leaf_module(m, path)

    graph = Blocks().trace(net)
    assert [n.target for n in graph.nodes if n.op == "call_module"][:2] == ["blocks.0", "blocks.1"]
    assert fl.equal(fx.GraphModule(net, graph)(x), net(x))

    class Deep(fx.Tracer):
        def is_leaf_module(self, m, path):
            return False

    graph = Deep().trace(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    assert [n.op for n in graph.nodes] == ["placeholder", "get_attr", "get_attr", "call_function", "call_function", "output"]

    class Shapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fl.ones(3))

        def forward(self, x):
            assert isinstance(self.w, ParameterProxy)
            return x * self.w if self.w.shape[0] == 3 else x

    assert "mul" in fx.GraphModule(Shapes(), fx.Tracer(param_shapes_constant=True).trace(Shapes())).code


def test_a_tracer_may_override_create_proxy_without_a_factory():
    """As torchvision's does, which notes where nodes come from; timm traces with constant shapes by it."""

    class Noting(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
            made.append(kind)
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(fl.tensor([2.0, 3.0]))

        def forward(self, x):
            return x * self.scale

    made = []
    module = fx.GraphModule(Scaled(), Noting(param_shapes_constant=True).trace(Scaled()))
    assert made == ["placeholder", "get_attr", "call_function"]
    assert module(fl.ones(2)).tolist() == [2.0, 3.0]


def test_where_nodes_come_from(net):
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    nodes = {n.name: n for n in tracer.trace(net).nodes}
    assert "conftest.py" in nodes["blocks_0_fc"].stack_trace
    assert [path for path, _ in nodes["blocks_0_fc"].meta["nn_module_stack"].values()] == ["blocks.0", "blocks.0.fc"]


# ---------------------------------------------------------------------- wrap


@fx.wrap
def clipped(x):
    return x if float(x.max()) < 0.5 else x.clamp(max=0.5)


def by_name(x):
    return x.tolist()[0][0] + x


fx.wrap("by_name")
fx.wrap("len")
fx.wrap("sqrt")
sqrt = math.sqrt


def test_wrapped_functions(x):
    traced = fx.symbolic_trace(lambda x: clipped(x) + by_name(x) * len(x) + sqrt(x.sum() ** 2) + math.floor(x.sum()))
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert {clipped, by_name, builtins.len, math.sqrt, math.floor} <= set(targets)
    assert fl.allclose(traced(x), clipped(x) + by_name(x) * 3 + abs(x.sum()) + math.floor(x.sum()))
    assert clipped(x).max() <= 0.5 and len([1]) == 1
    again = fx.symbolic_trace(traced)  # wrapped functions stay so
    assert clipped in [n.target for n in again.graph.nodes]


def test_wrap_refuses():
    with pytest.raises(TypeError, match="fn_or_name is a int"):
        fx.wrap(3)
    with pytest.raises(NotImplementedError, match=r"fx.wrap\('f'\) must be called at the top level of a module"):
        fx.wrap("f")


def test_errors_show_the_generated_line(x):
    traced = fx.symbolic_trace(lambda a: fl.matmul(a, a))
    with pytest.raises(RuntimeError) as error:
        traced(x)
    trace = error.traceback[-1]
    assert str(trace.path).startswith("<eval_with_key>") or "eval_with_key" in str(trace.frame.code.raw.co_filename)
    name = trace.frame.code.raw.co_filename
    assert "flambeau.matmul(a, a)" in linecache.getline(name, trace.lineno + 1)
    del error, trace
    traced.graph = fx.Graph()
    assert traced.code.strip().endswith("pass")


@pytest.mark.slow
def test_importing_the_library_does_not_import_fx():
    import subprocess
    import sys

    code = "import sys, flambeau; print([m for m in sys.modules if m.startswith('flambeau.fx')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
