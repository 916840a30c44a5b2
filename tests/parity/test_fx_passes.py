"""Passes over graphs, run by PyTorch's `torch.fx.passes` and by ours: the same graphs come of them, and the same numbers."""

from __future__ import annotations

import importlib
import operator
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402


def part(lib, name):
    return importlib.import_module(f"{lib.__name__}.fx.{name}")


def texts(graph):
    return str(graph).replace("flambeau", "torch")


class Refused:
    """A call that PyTorch refuses; so must ours, with an exception of one of its classes."""

    def __init__(self, call):
        self.kinds = ()
        try:
            call()
        except Exception as error:
            self.kinds = type(error).__mro__

    def __repr__(self):
        return "refused" if self.kinds else "taken"


def net(lib, seed=0):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
            self.head = nn.Linear(8, 4)
            self.scale = nn.Parameter(lib.zeros(4))
            self.register_buffer("shift", lib.zeros(4))

        def forward(self, x, y):
            h = self.body(x + self.scale)
            a, b = lib.chunk(self.head(h), 2, dim=1)
            z = lib.relu(a) * b + self.shift[:2]
            return z, lib.sigmoid(y).sum() + z.mean(), self.scale

    made = Net()
    rng = np.random.default_rng(seed)
    with lib.no_grad():
        for value in (*made.parameters(), *made.buffers()):
            value.copy_(lib.tensor(rng.standard_normal(tuple(value.shape)).astype(np.float32)))
    return made


def inputs(lib):
    rng = np.random.default_rng(7)
    return [lib.tensor(rng.standard_normal((3, 4)).astype(np.float32)) for _ in range(2)]


def numbers(value):
    return [numbers(v) for v in value] if isinstance(value, (tuple, list)) else np.round(value.detach().numpy(), 4).tolist()


def tagged(lib, tags):
    gm = part(lib, "_symbolic_trace").symbolic_trace(net(lib))
    calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
    for i, node in enumerate(calls):
        node.tag = tags[i * len(tags) // len(calls)]
    return gm


def splits(lib):
    utils = part(lib, "passes.split_utils")
    found = []
    for tags in (["a"], ["a", "b"], ["one", "two", "three", "four"]):
        for options in ({}, {"return_tuple": True}):
            made, paths = utils.split_by_tags(tagged(lib, tags), tags, return_fqn_mapping=True, **options)
            found += [texts(made.graph), paths, numbers(made(*inputs(lib))), *(texts(getattr(made, tag).graph) for tag in tags)]
            found += [[name for name, _ in made.named_parameters()], [name for name, _ in made.named_buffers()]]
    gm = tagged(lib, ["b", "a"])
    found += [Refused(lambda: utils.split_by_tags(gm, ["a", "b"])), Refused(lambda: utils.split_by_tags(part(lib, "_symbolic_trace").symbolic_trace(net(lib)), ["a"]))]
    module = net(lib)
    utils.setattr_recursive(module, "body.0.tag", 3)
    utils.setattr_recursive(module, "tag", 4)
    return [*found, utils.getattr_recursive(module, "body.0.tag"), utils.getattr_recursive(module, "tag"), utils.getattr_recursive(module, "body.7")]


def fetched(lib):
    fetch, trace = part(lib, "passes.param_fetch"), part(lib, "_symbolic_trace").symbolic_trace
    nn = lib.nn
    layers = [nn.Linear(2, 1), nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1), nn.MaxPool2d(2), nn.ReLU()]
    found = [{k: str(v) if not hasattr(v, "shape") else tuple(v.shape) for k, v in fetch.extract_attrs_for_lowering(layer).items()} for layer in layers]
    gm = trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()))
    fetch.lift_lowering_attrs_to_nodes(gm)
    attached = [sorted(node.attrs_for_lowering) for node in gm.graph.nodes if node.op == "call_module"]
    for attributes in found:  # where PyTorch has the class is known to `flambeau run`
        attributes["name"] = attributes["name"].rpartition(".")[2]
    return [found, attached, fetch.default_matching("weight", 3), Refused(lambda: fetch.extract_attrs_for_lowering(nn.Tanh()))]


def sizes_and_targets(lib):
    change, trace = part(lib, "passes.graph_manipulation"), part(lib, "_symbolic_trace").symbolic_trace
    gm = trace(lib.nn.Sequential(lib.nn.Linear(4, 2), lib.nn.ReLU()))
    change.get_size_of_all_nodes(gm, [lib.ones(3, 4)])
    sizes = [tuple(node.size_bytes) for node in gm.graph.nodes if node.op != "output"]
    other = trace(lambda x: (x + 1) * (x + 2))
    change.replace_target_nodes_with(other, "call_function", operator.add, "call_function", lib.sub)
    return [sizes, texts(other.graph), numbers(other(lib.ones(2))), Refused(lambda: change.get_size_of_all_nodes(trace(lambda x: x)))]


def supported(lib):
    rules, trace = part(lib, "passes.operator_support"), part(lib, "_symbolic_trace").symbolic_trace
    shapes = part(lib, "passes.shape_prop").ShapeProp
    tools = part(lib, "passes.tools_common")
    gm = trace(net(lib))
    shapes(gm).propagate(*inputs(lib))
    modules = dict(gm.named_modules())
    name = lib.__name__
    table = {f"{name}.nn.modules.linear.Linear": None, "_operator.add": (([lib.float32], [lib.int64]), {}), f"{name}.relu": (([lib.float64],), {}), "sum": ((None,), {}), "mean": None}
    tabled = rules.OperatorSupport(table)
    every = [
        tabled, rules.create_op_support(lambda submodules, node: node.op == "call_method"), rules.OpSupports.decline_if_node_in_names({"add", "body_0"}),
        rules.chain(tabled, rules.OpSupports.decline_if_node_in_names({"add"})), rules.any_chain(tabled, rules.create_op_support(lambda m, n: "z" in n.name)),
    ]  # fmt: skip
    tensors = [n for n in gm.graph.nodes if n.op == "call_function" and all("tensor_meta" in a.meta for a in n.all_input_nodes)]
    by_type = [rules.OpSupports.decline_if_input_dtype(d).is_node_supported(modules, n) for n in tensors for d in (lib.float32, lib.int64)]
    targets = [tools.get_node_target(modules, n).replace(name, "torch") for n in gm.graph.nodes if n.op in tools.CALLABLE_NODE_OPS]
    return [[[rule.is_node_supported(modules, node) for node in gm.graph.nodes] for rule in every], by_type, targets, [tools.is_node_output_tensor(n) for n in gm.graph.nodes],
            Refused(lambda: tools.get_node_target(modules, next(iter(gm.graph.nodes))))]  # fmt: skip


def orders(lib):
    tools, trace = part(lib, "passes.tools_common"), part(lib, "_symbolic_trace").symbolic_trace
    found = []
    for sort in (tools.legalize_graph, tools.stable_topological_sort):
        gm = trace(lambda x, y: (lib.relu(x) + 1) * (y - lib.sin(x)))
        nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
        nodes[-1].append(nodes[0])
        nodes[2].append(nodes[1])
        found.append(texts(sort(gm).graph))
    return found


def random_graph(lib, seed):
    """A graph of sums and sines over what is there, and which of its nodes are supported."""
    draw = random.Random(seed)
    graph = part(lib, "graph").Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(draw.randint(3, 14)):
        if draw.random() < 0.2:
            pair = graph.call_function(lib.chunk, (draw.choice(nodes), 2))
            nodes += [graph.call_function(operator.getitem, (pair, i)) for i in range(2)]
            nodes[-2] = graph.call_function(lib.cat, ((nodes[-2], nodes[-2]),))
            nodes[-1] = graph.call_function(lib.cat, ((nodes[-1], nodes[-1]),))
        else:
            nodes.append(graph.call_function(*draw.choice([(operator.add, (draw.choice(nodes), draw.choice(nodes))), (lib.sin, (draw.choice(nodes),)), (operator.mul, (draw.choice(nodes), 0.5))])))
    graph.output(tuple(nodes[-3:]))
    gm = part(lib, "graph_module").GraphModule(lib.nn.Module(), graph)
    names = {node.name for node in graph.nodes if node.op == "call_function" and draw.random() < 0.7}
    return gm, part(lib, "passes.operator_support").create_op_support(lambda submodules, node: node.name in names)


def partitions(lib):
    infra = part(lib, "passes.infra.partitioner")
    found = []
    for seed in range(60):
        for options in ({}, {"allows_single_node_partition": True}, {"skip_horizontal_fusion": True}, {"non_compute_ops": ["_operator.mul"]},
                        {"allowed_single_node_partition_ops": ["_operator.add"]}):  # fmt: skip
            gm, support = random_graph(lib, seed)
            x = [lib.linspace(0, 1, 4), lib.linspace(2, 3, 4)]
            before = numbers(gm(*x))
            maker = infra.CapabilityBasedPartitioner(gm, support, **options)
            made = maker.propose_partitions()
            found.append([[node.name for node in p.nodes] for p in made])
            maker.remove_bookend_non_compute_ops(made)
            found.append([[node.name for node in p.nodes] for p in made])
            fused = maker.fuse_partitions(made, "part_")
            fused.recompile()
            found += [texts(fused.graph), numbers(fused(*x)) == before, [texts(m.graph) for _, m in fused.named_children()]]
    some = infra.Partition(3, [1, 2], [5, 4])
    some.add_node(7)
    some.remove_node(1)
    return [*found, repr(some), some.size(), Refused(lambda: infra.Partition(0, [1], [1, 2]))]


def passes_in_order(lib):
    base, manager = part(lib, "passes.infra.pass_base"), part(lib, "passes.infra.pass_manager")
    trace, seen = part(lib, "_symbolic_trace").symbolic_trace, []

    class Double(base.PassBase):
        def requires(self, graph_module):
            seen.append("requires")

        def call(self, graph_module):
            for node in graph_module.graph.nodes:
                if node.target is operator.add:
                    node.target = operator.mul
                    return base.PassResult(graph_module, True)
            return base.PassResult(graph_module, False)

        def ensures(self, graph_module):
            seen.append("ensures")

    def clean(gm):
        seen.append("clean")
        gm.graph.eliminate_dead_code()

    def nothing(gm):
        seen.append("nothing")
        return base.PassResult(gm, False)

    wrap, before = manager.pass_result_wrapper, manager.this_before_that_pass_constraint
    wrapped = wrap(clean)
    double = Double()
    made = manager.PassManager([double, wrapped], [before(wrapped, double)], steps=3, run_checks_after_each_pass=True)
    made.add_checks(lambda module: seen.append("check"))
    result = made(trace(lambda x: x + (x + 3)))
    still = manager.PassManager([nothing], steps=5)(trace(lambda x: x + 1))
    more = manager.PassManager()
    more.add_pass(nothing)
    more.add_pass(wrapped)
    more.add_constraint(before(wrapped, nothing))
    wrong = [Refused(more.validate_constraints)]
    more.solve_constraints()
    more.validate_constraints()
    circle = manager.PassManager([wrapped, nothing], [before(wrapped, nothing), before(nothing, wrapped)])
    wrong += [Refused(circle.solve_constraints), Refused(lambda: manager.PassManager([clean])(trace(lambda x: x))), Refused(lambda: more.add_checks(lambda a, b: 0))]
    return [seen, texts(result.graph_module.graph), result.modified, still.modified, more.passes == [wrapped, nothing], wrapped.__name__, wrap(double).__name__, *wrong]


def annotated(lib):
    annotate, trace = part(lib, "annotate").annotate, part(lib, "_symbolic_trace").symbolic_trace
    gm = trace(lambda x: annotate(x + 1, int) * annotate(2, float))
    return [gm.code.replace("flambeau", "torch"), annotate(3, int), Refused(lambda: trace(lambda x: annotate(annotate(x + 1, int), int)))]


def same(ours, theirs, where):
    if isinstance(theirs, Refused):
        assert ours.kinds and any(kind in ours.kinds for kind in theirs.kinds[:1]), f"{where}: {ours.kinds} here, {theirs.kinds} there"
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), f"{where}: {ours} here, {theirs} there"
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, f"{where}[{i}]")
    else:
        assert ours == theirs, f"{where}: {ours}\n{theirs}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [splits, fetched, sizes_and_targets, supported, orders, partitions, passes_in_order, annotated], ids=lambda f: f.__name__)
def test_passes_do_the_same(program):
    same(program(fl), program(torch), program.__name__)
