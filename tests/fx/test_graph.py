"""Graphs and nodes: how they are made, changed, checked, printed and written as code."""

from __future__ import annotations

import copy
import math
import operator
import pickle

import pytest

import flambeau as fl
import flambeau.fx as fx
from flambeau import nn
from flambeau.fx.immutable_collections import immutable_dict, immutable_list
from flambeau.fx.node import map_aggregate, map_arg

pytestmark = pytest.mark.eager("graphs are made and their code compared")


@pytest.fixture
def graph():
    g = fx.Graph()
    x = g.placeholder("x")
    y = g.call_function(operator.add, (x, 1))
    g.output(g.call_method("mul", (y,), {"other": x}))
    return g


def named(graph):
    return {node.name: node for node in graph.nodes}


def test_nodes_know_each_other(graph):
    x, add, mul, output = graph.nodes
    assert list(x.users) == [add, mul] and add.all_input_nodes == [x] and mul.all_input_nodes == [add, x]
    assert x.next is add and mul.prev is add and list(reversed(graph.nodes)) == [output, mul, add, x] and len(graph.nodes) == 4
    assert x < add < output and output > mul >= mul and sorted([output, x, mul]) == [x, mul, output]
    assert graph.output_node() is output and repr(add) == "add" and str(graph.nodes) == "[x, add, mul, output]"


def test_every_kind_of_node_runs():
    graph = fx.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n", int, default_value=2)
    w = graph.get_attr("part.w")
    a = graph.call_module("part.fc", (x,))
    b = graph.call_function(fl.add, (a, w), {"alpha": n})
    c = graph.call_method("sum", (b, 0), {"keepdim": True})
    graph.output({"c": c, "pair": (a, [b, 3])})
    graph.lint()
    fc, weight = nn.Linear(2, 2), nn.Parameter(fl.ones(2))
    net = fx.GraphModule({"part.fc": fc, "part.w": weight}, graph)
    x = fl.ones(3, 2)
    for out in (net(x), fx.Interpreter(net).run(x)):
        assert fl.equal(out["c"], (fc(x) + 2 * weight).sum(0, keepdim=True)) and out["pair"][1][1] == 3
    assert net(x, n=0)["pair"][1][0].equal(fc(x))
    assert sorted(net.state_dict()) == ["part.fc.bias", "part.fc.weight", "part.w"]


def test_arguments_count_their_users(graph):
    x, add, mul, _ = graph.nodes
    mul.args = (x, [x, {"k": (add, slice(add, None))}])
    mul.kwargs = {}
    assert list(add.users) == [mul] and mul.all_input_nodes == [x, add]
    mul.update_arg(1, 2)
    assert not add.users and mul.args == (x, 2)
    mul.insert_arg(1, add)
    mul.update_kwarg("out", add)
    assert mul.args == (x, add, 2) and mul.kwargs == {"out": add} and list(add.users) == [mul]
    mul.replace_input_with(add, x)
    assert mul.args == (x, x, 2) and mul.kwargs == {"out": x} and not add.users


@pytest.mark.parametrize(("change", "kind", "text"), [
    (lambda g, n: n["mul"].update_arg(3, 1), IndexError, "idx = 3, but mul has 1 positional"),
    (lambda g, n: n["mul"].insert_arg(5, 1), IndexError, "idx = 5; expected 0 <= idx <= 1"),
    (lambda g, n: n["mul"].args[0].foo(), AttributeError, "foo"),
    (lambda g, n: n["mul"].kwargs.update(a=1), TypeError, "immutable_dict.update: .*node.args = "),
    (lambda g, n: g.call_function("relu"), ValueError, "target = 'relu' has type str; a Callable is expected for call_function"),
    (lambda g, n: g.call_method(len), ValueError, "has type builtin_function_or_method; a str is expected for call_method"),
    (lambda g, n: g.create_node("bad", "x"), ValueError, "op = 'bad'; expected one of placeholder"),
    (lambda g, n: g.create_node("output", "output", 3), TypeError, "args is a int; expected a tuple"),
    (lambda g, n: g.create_node("output", "output", (), [1]), TypeError, "kwargs is a list; expected a dict"),
    (lambda g, n: g.call_function(len, (fx.Graph().placeholder("z"),)), ValueError, "argument z is a node of another graph"),
    (lambda g, n: g.inserting_before(3), TypeError, "n is a int; expected a Node"),
    (lambda g, n: g.inserting_after(fx.Graph().placeholder("z")), ValueError, "node z is not in this graph"),
    (lambda g, n: n["x"].append(fx.Graph().placeholder("z")), ValueError, "z is a node of another graph than mul|another graph"),
    (lambda g, n: g.erase_node(n["add"]), RuntimeError, "add still has 1 users in the graph: mul; .*replace_all_uses_with"),
    (lambda g, n: g.find_nodes(op="call_function"), ValueError, "target must not be None"),
    (lambda g, n: fx.Graph().output_node(), ValueError, "has no output"),
])  # fmt: skip
def test_bad_changes_change_nothing(graph, change, kind, text):
    before, names = str(graph), set(graph._names._used)
    with pytest.raises(kind, match=text):
        change(graph, named(graph))
    assert str(graph) == before and graph._names._used == names
    graph.lint()


def test_inserting_moving_and_erasing(graph):
    x, add, mul, output = graph.nodes
    with graph.inserting_before(mul):
        a = graph.call_function(fl.relu, (add,))
        b = graph.call_function(fl.tanh, (a,))
    with graph.inserting_after(x):
        c = graph.get_attr("c")
        d = graph.get_attr("d")
    with graph.inserting_before():
        e = graph.placeholder("e")
    assert list(graph.nodes) == [e, x, d, c, add, a, b, mul, output]
    assert add.replace_all_uses_with(b, lambda user: user is not a) == [mul]
    x.append(c)
    output.prepend(d)
    for node in list(graph.nodes):
        if node in (c, d, e):
            graph.erase_node(node)
    assert list(graph.nodes) == [x, add, a, b, mul, output]
    graph.lint()
    assert fx.GraphModule({}, graph)(fl.tensor(1.0)) == math.tanh(2)
    with pytest.raises(ValueError, match="c was erased"):
        graph.inserting_before(c)


def test_a_node_may_be_erased_while_the_list_is_gone_through():
    graph = fx.Graph()
    for i in range(5):
        graph.get_attr(f"a{i}")
    for node in graph.nodes:
        if node.target != "a2":
            graph.erase_node(node)
    assert [n.target for n in graph.nodes] == ["a2"]


def test_dead_code_goes_and_what_has_effects_stays(x):
    @fx.has_side_effect
    def says(a):
        return a

    def f(a):
        fl.tanh(a).sum()
        a.add(1)
        fl.rand_like(a)
        fl._assert(a.ndim == 2, "two axes")
        return a * 2

    traced = fx.symbolic_trace(f)
    graph = traced.graph
    with graph.inserting_before(graph.output_node()):
        graph.call_function(says, (named(graph)["a"],))
        graph.call_function(operator.setitem, (named(graph)["a"], 0, 1.0))
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert list(named(graph)) == ["a", "rand_like", "getattr_1", "eq", "_assert", "mul", "says", "setitem", "output"]
    assert graph.eliminate_dead_code(lambda node: False)
    assert list(named(graph)) == ["a", "mul", "output"]
    with pytest.raises(TypeError, match="fn is a int"):
        fx.has_side_effect(3)


class Quiet(nn.Identity):
    _is_impure = True


def test_modules_may_have_effects():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_module("a", (x,))
    graph.call_module("b", (x,))
    graph.output(x)
    net = fx.GraphModule({"a": Quiet(), "b": nn.Identity()}, graph)
    graph.eliminate_dead_code()
    net.delete_all_unused_submodules()
    assert [n.name for n in graph.nodes] == ["x", "a", "output"] and [name for name, _ in net.named_children()] == ["a"]


def test_lint_finds_all_faults(graph):
    x, add, mul, output = graph.nodes
    add.append(x)
    output.append(mul)
    mul.name = "add"
    graph.owning_module = nn.Linear(1, 1)
    graph.get_attr("nowhere.at")
    graph.call_module("weight", (x,))
    with pytest.raises(RuntimeError) as error:
        graph.lint()
    text = str(error.value)
    for part in (
        "argument x of node add was used before it has been defined", "argument add of node output was used before", "two nodes have the name add",
        "but Linear has no attribute 'nowhere'", "calls 'weight', which is a Parameter and no module",
    ):  # fmt: skip
        assert part in text, part


def test_text(graph):
    graph.output_node().type = fl.Tensor
    named(graph)["x"].type = fl.Tensor
    assert str(graph).splitlines() == [
        "graph():",
        "    %x : flambeau.Tensor [num_users=2] = placeholder[target=x]",
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})",
        "    %mul : [num_users=1] = call_method[target=mul](args = (%add,), kwargs = {other: %x})",
        "    return mul",
    ]
    assert graph.python_code("self").src.strip().splitlines() == [
        "def forward(self, x : flambeau.Tensor) -> flambeau.Tensor:",
        "    add = x + 1",
        "    mul = add.mul(other = x);  add = x = None",
        "    return mul",
    ]


def test_a_table(graph, capsys):
    graph.print_tabular()
    head, line, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["opcode", "name", "target", "args", "kwargs"] and set(line) == {"-", " "} and len(rows) == 4


CODE = {
    "a - b": (operator.sub, lambda a, b: (a, b)), "a += b;  name = a": (operator.iadd, lambda a, b: (a, b)),
    "(-2) ** a": (operator.pow, lambda a, b: (-2, a)), "a[(slice(1, None, None), Ellipsis, None)]": (operator.getitem, lambda a, b: (a, (slice(1, None), ..., None))),
    "a[0] = b;  name = a": (operator.setitem, lambda a, b: (a, 0, b)), "a.T": (getattr, lambda a, b: (a, "T")), "getattr(a, 'x-y')": (getattr, lambda a, b: (a, "x-y")),
    "_operator_not_(a)": (operator.not_, lambda a, b: (a,)), "math_sqrt(inf)": (math.sqrt, lambda a, b: (math.inf,)), "len([a, (b,)])": (len, lambda a, b: ([a, (b,)],)),
    "flambeau.relu(a)": (fl.relu, lambda a, b: (a,)), "flambeau.nn.functional.dropout(a)": (nn.functional.dropout, lambda a, b: (a,)),
    "flambeau_Tensor_relu(a)": (fl.Tensor.relu, lambda a, b: (a,)), "flambeau.zeros(2, flambeau.float64)": (fl.zeros, lambda a, b: (2, fl.float64)),
    "flambeau.conv2d(a, b)": (nn.functional.conv2d, lambda a, b: (a, b)), "flambeau.linalg.norm(a, device(type='cpu'))": (fl.linalg.norm, lambda a, b: (a, fl.device("cpu"))),
    "flambeau.nn.functional.gelu({'k': a})": (nn.functional.gelu, lambda a, b: ({"k": a},)),
}  # fmt: skip


@pytest.mark.parametrize("text", CODE)
def test_code_of_calls(text):
    function, args = CODE[text]
    graph = fx.Graph()
    node = graph.call_function(function, args(graph.placeholder("a"), graph.placeholder("b")), name="name")
    graph.output(node)
    code = graph.python_code("self").src
    assert text in code.strip().splitlines()[1] and ("name = " in code)
    compile(code, "code", "exec")


def test_names():
    graph = fx.Graph()
    x = graph.placeholder("input")
    given = [graph.create_node("call_function", operator.neg, (x,), name=n).name for n in "foo foo foo_1 foo_3 foo 1a a.b lambda print None".split()]
    assert (x.name, given) == ("input_1", ["foo", "foo_1", "foo_2", "foo_3", "foo_4", "_1a", "a_b", "lambda_1", "print_1", "None_1"])
    graph.output(x)
    assert graph.python_code("self").src.strip().splitlines()[:2] == ["def forward(self, input):", "    input_1 = input"]


def test_code_that_uses_things_from_elsewhere():
    def local(x):
        return x

    graph = fx.Graph()
    x = graph.placeholder("local")
    graph.output(graph.call_function(local, (x,)))
    assert fx.GraphModule({}, graph)(3) == 3


def test_generated_lines_can_be_changed(graph, x):
    net = fx.GraphModule({}, graph)
    with graph.on_generate_code(lambda before: lambda lines: ["seen = 1\n", *lines]):
        assert "    seen = 1\n" in net.recompile().src
    assert "seen" not in net.recompile().src

    class Doubled(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, **more):
            return super().gen_fn_def(free_vars, maybe_return_annotation, **more) + "\n    made = list"

        def additional_globals(self):
            return [("list", list)]

        def generate_output(self, output_args, **more):
            return f"return made([{output_args!r}])"

    graph.set_codegen(Doubled())
    net.recompile()
    assert isinstance(net(x), list)


def test_copies(graph, x):
    for copied in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert str(copied) == str(graph) and not set(copied.nodes) & set(graph.nodes)
        copied.lint()
    new = fx.Graph()
    values = {}
    assert new.graph_copy(graph, values).name == "mul" and len(values) == 3
    with pytest.raises(ValueError, match="argument x is a node of another graph"):
        new.node_copy(named(graph)["add"])


def test_lists_and_dicts_of_arguments_can_not_be_changed(graph):
    node = graph.call_function(len, ([1, {"a": [2]}],))
    assert isinstance(node.args[0], immutable_list) and isinstance(node.args[0][1], immutable_dict)
    for change in (lambda a: a.append(1), lambda a: a.__setitem__(0, 1), lambda a: a[1].pop("a"), lambda a: a[1]["a"].sort()):
        with pytest.raises(TypeError, match="can not be changed in place"):
            change(node.args[0])
    assert pickle.loads(pickle.dumps(node.args)) == node.args and hash(immutable_list([1])) == hash(immutable_list([1]))
    assert map_arg([named(graph)["x"], 1], str) == ["x", 1] and map_aggregate((1, {"a": 2}), lambda v: v + 1) == (2, {"a": 3})


@fx.wrap
def wrapped_here(x):
    return x * 2


def test_code_marks_wrapped_functions_as_pytorch_lays_it_out():
    first, second, empty, head = fx.symbolic_trace(lambda x: wrapped_here(x) + 1).code.splitlines()[:4]
    assert (first, empty) == ("", "") and second.startswith("flambeau.fx._symbolic_trace.wrap(") and head == "def forward(self, x):"
    assert fx.symbolic_trace(lambda x: x + 1).code.startswith("\n\n\ndef forward(self, x):\n")
