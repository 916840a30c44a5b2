"""Interpreters, transformers, replaced patterns and passes."""

from __future__ import annotations

import operator

import pytest

import flambeau as fl
import flambeau.fx as fx
from flambeau import nn
from flambeau.fx.experimental.optimization import fuse, remove_dropout
from flambeau.fx.passes.shape_prop import ShapeProp, TensorMetadata
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters
from flambeau.fx.traceback import annotate, annotate_fn, preserve_node_meta

pytestmark = pytest.mark.eager("graphs are run node by node")


def test_an_interpreter_does_what_the_module_does(net, x):
    traced = fx.symbolic_trace(net)
    seen = []

    class Watch(fx.Interpreter):
        def run_node(self, n):
            seen.append((n.name, len(self.env)))
            return super().run_node(n)

    assert fl.equal(Watch(traced).run(x), net(x))
    assert [name for name, _ in seen] == [n.name for n in traced.graph.nodes] and max(held for _, held in seen) < 6
    everything = fx.Interpreter(traced, garbage_collect_values=False)
    everything.run(x)
    assert len(everything.env) == len(traced.graph.nodes)
    relu = next(n for n in traced.graph.nodes if n.name == "relu")
    some = fx.Interpreter(traced)
    assert not fl.equal(some.run(x, initial_env={relu: fl.zeros(3, 4)}), net(x))
    box = [x]
    assert fl.equal(fx.Interpreter(traced).boxed_run(box), net(x)) and box == []


def test_what_an_interpreter_gets(x):
    plain = fx.symbolic_trace(lambda x, y=2, *more: (x + y, more))
    assert fx.Interpreter(plain).run(1) == (3, ()) and fx.Interpreter(plain).run(1, 1, 5, 6) == (2, (5, 6))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter b") as error:
        fx.Interpreter(fx.symbolic_trace(lambda a, b: a + b)).run(1)
    assert "While executing %b : [num_users=1] = placeholder[target=b]" in "".join(getattr(error.value, "__notes__", [])) + str(error.value)
    with pytest.raises(TypeError, match="Linear has no graph"):
        fx.Interpreter(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match="'a.b' is not in f"):
        graph = fx.Graph()
        graph.output(graph.get_attr("a.b"))
        fx.Interpreter(plain, graph=graph).fetch_attr("a.b") if not setattr(type(plain), "__name__", "f") else None


def test_lists_come_as_lists(x):
    def takes(items, table):
        items.append(1)
        table["k"] = 2
        return len(items), table

    graph = fx.Graph()
    graph.output(graph.call_function(takes, ([graph.placeholder("x")], {"a": 0})))
    assert fx.Interpreter(fx.GraphModule({}, graph)).run(5) == (2, {"a": 0, "k": 2})


def test_transformers(net, x):
    class Negated(fx.Transformer):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            return -result if target is nn.functional.relu else result

        def call_module(self, target, args, kwargs):
            return fl.tanh(super().call_module(target, args, kwargs)) if target == "named.k" else super().call_module(target, args, kwargs)

    traced = fx.symbolic_trace(net)
    same = fx.Transformer(traced).transform()
    assert same.code == traced.code and fl.equal(same(x), net(x)) and same.seq.get_submodule("0") is net.seq[0]
    changed = Negated(traced).transform()
    assert [n.name for n in changed.graph.nodes if n.target is operator.neg] == ["neg", "neg_1"]
    assert changed.graph.output_node().args[0].target is fl.tanh
    net.blocks[0].act = net.blocks[1].act = lambda v: -fl.relu(v)
    assert fl.allclose(changed(x), fl.tanh(net(x)))


def test_patterns(x):
    traced = fx.symbolic_trace(lambda a, b: fl.relu(a + b) + fl.relu(fl.relu(a + b) * b + 1))
    matches = fx.replace_pattern(traced, lambda p, q: fl.relu(p + q), lambda p, q: fl.sigmoid(p - q))
    y = x * 2
    assert len(matches) == 3
    assert fl.allclose(traced(x, y), fl.sigmoid(x - y) + fl.sigmoid(fl.sigmoid(x - y) * y - 1))
    traced.graph.lint()


def test_patterns_with_several_results_constants_and_methods(x):
    def f(a):
        u, v = a.chunk(2, 1)
        return (u * 2).clamp(min=0) + v, fl.add(a, a, alpha=3)

    def pattern(a):
        parts = a.chunk(2, 1)
        return parts[0], parts[1]

    traced = fx.symbolic_trace(f)
    assert len(fx.replace_pattern(traced, pattern, lambda a: (a[:, 2:], a[:, :2]))) == 1
    first, second = x[:, 2:], x[:, :2]
    assert fl.allclose(traced(x)[0], (first * 2).clamp(min=0) + second)
    assert not fx.replace_pattern(traced, lambda a: a.clamp(min=1), lambda a: a)
    assert not fx.replace_pattern(traced, lambda a, b: fl.add(a, b, alpha=2), lambda a, b: a)
    assert fx.replace_pattern(traced, lambda a, b: fl.add(a, b, alpha=3), lambda a, b: a)
    assert fl.equal(traced(x)[1], x)


def test_what_is_used_elsewhere_is_not_replaced(x):
    traced = fx.symbolic_trace(lambda a: (fl.relu(s := a + 1), s))
    assert not fx.replace_pattern(traced, lambda a: fl.relu(a + 1), lambda a: a)
    traced = fx.symbolic_trace(lambda a: fl.relu(fl.relu(fl.relu(a))))
    assert len(fx.replace_pattern(traced, lambda a: fl.relu(fl.relu(a)), lambda a: fl.tanh(a))) == 1
    assert fl.allclose(traced(x), fl.relu(fl.tanh(x)))


def test_filters_and_modules_that_come_along(x):
    class Double(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(fl.full((4,), 5.0))

        def forward(self, a):
            return a * self.scale

    traced = fx.symbolic_trace(lambda a: fl.relu(a) + fl.relu(-a))
    done = replace_pattern_with_filters(traced, lambda a: fl.relu(a), Double(), [lambda match, graph, pattern: match.nodes_map[match.anchor].name == "relu_1"])
    assert len(done) == 1 and [n.name for n in done[0].replacements] == ["scale", "mul"]
    assert fl.allclose(traced(x), fl.relu(x) - 5 * x) and isinstance(traced.scale, nn.Parameter)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda g: fx.replace_pattern(3, lambda a: a, lambda a: a), TypeError, "gm is a int; expected a GraphModule"),
    (lambda g: fx.replace_pattern(g, lambda a: a, lambda a: a), ValueError, "pattern returns nothing that it computes"),
    (lambda g: fx.replace_pattern(g, lambda a: a + 1, lambda a, b: a), ValueError, "pattern takes 1 values and returns 1, replacement 2 and 1"),
])  # fmt: skip
def test_bad_patterns(call, kind, text):
    traced = fx.symbolic_trace(lambda a: a + 1)
    before = traced.code
    with pytest.raises(kind, match=text):
        call(traced)
    assert traced.code == before


def test_shapes(net, x):
    traced = fx.symbolic_trace(net)
    ShapeProp(traced).propagate(x)
    metas = {n.name: n.meta.get("tensor_meta") for n in traced.graph.nodes}
    assert metas["named_k"] == TensorMetadata(fl.Size([3, 2]), fl.float32, True, (2, 1), fl.contiguous_format, False, {})
    pictures = fx.symbolic_trace(lambda a: (a, a.sum()))
    ShapeProp(pictures).propagate(fl.ones(1, 2, 3, 4))
    assert [m.shape for m in pictures.graph.output_node().meta["tensor_meta"]] == [(1, 2, 3, 4), ()]


def test_modules_in_parts(net, x):
    traced = fx.symbolic_trace(net)
    order = {n: i for i, n in enumerate(traced.graph.nodes)}
    came_from = {}
    parts = split_module(traced, net, lambda n: order[n] // 5, came_from)
    assert fl.allclose(parts(x), net(x)) and came_from["submod_0.blocks_0_fc"] == "blocks.0.fc"
    assert sorted(name for name, _ in parts.named_parameters() if name.startswith("submod_0")) == ["submod_0.blocks_0_fc.bias", "submod_0.blocks_0_fc.weight"]
    assert all(isinstance(parts.get_submodule(n.target), fx.GraphModule) for n in parts.graph.nodes if n.op == "call_module")
    parts(x).sum().backward()
    assert net.named["k"].weight.grad is not None
    chain = fx.symbolic_trace(lambda a: fl.tanh(fl.sin(fl.cos(a))))
    with pytest.raises(RuntimeError, match="cycle exists between partitions: 0 needs 1, 1 needs 0"):
        split_module(chain, nn.Module(), lambda n: int(n.name == "sin"))
    with pytest.raises(TypeError, match="m is a Linear; expected a GraphModule"):
        split_module(nn.Linear(1, 1), nn.Linear(1, 1), lambda n: 0)


def test_networks_for_prediction():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(12, 2))
    x = fl.sin(fl.arange(32.0)).reshape(2, 1, 4, 4)
    net(x)
    with pytest.raises(ValueError, match="Sequential is in training mode.*model.eval"):
        fuse(net)
    fused = fuse(net.eval())
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["0", "2", "3", "4", "5"]
    assert fl.allclose(fused(x), net(x), atol=1e-5) and isinstance(net[1], nn.BatchNorm2d)
    assert [n.target for n in remove_dropout(net).graph.nodes if n.op == "call_module"] == ["0", "1", "2", "4", "5"]


def test_notes_of_nodes():
    def f(a):
        with annotate({"stage": 1}):
            b = a + 1
        return b * 2

    traced = fx.symbolic_trace(f)
    assert [n.meta.get("custom") for n in traced.graph.nodes] == [None, {"stage": 1}, None, None]
    noted = annotate_fn({"stage": 2})(lambda a: a + 1)
    assert [n.meta.get("custom") for n in fx.symbolic_trace(lambda a: noted(a) * 2).graph.nodes] == [None, {"stage": 2}, None, None]
    with preserve_node_meta():
        again = fx.Transformer(traced).transform()
    assert next(n for n in again.graph.nodes if n.name == "add").meta["custom"] == {"stage": 1}
