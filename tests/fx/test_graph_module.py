"""Modules of graphs: members, recompiling, copies and pickles."""

from __future__ import annotations

import copy
import importlib
import io
import operator
import pickle

import pytest

import flambeau as fl
import flambeau.fx as fx
from flambeau import nn

pytestmark = pytest.mark.eager("graphs are made and their code compared")


class Scaled(nn.Module):  # at the top level, so that a pickle can name what it holds
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.seq = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
        self.register_buffer("scale", fl.full((2,), 3.0))
        self.register_buffer("hidden", fl.full((2,), 1.0), persistent=False)

    def forward(self, x, n=2):
        return self.seq(self.fc(x)) * self.scale * n + self.hidden


@pytest.fixture
def traced():
    return fx.symbolic_trace(Scaled())


def test_graphs_that_change_are_compiled_again(traced, x):
    traced.eval()
    before = traced(x)
    node = traced.graph.output_node()
    with traced.graph.inserting_before(node):
        node.args = (traced.graph.call_function(operator.neg, (node.args[0],)),)
    assert fl.equal(traced(x), before)
    traced.recompile()
    assert fl.equal(traced(x), -before) and "neg = -add" in traced.code
    traced.graph = fx.symbolic_trace(Scaled()).graph
    assert fl.equal(traced(x), before) and traced.graph.owning_module is traced
    for bad in (3, None):
        with pytest.raises(TypeError, match="expected a Graph"):
            traced.graph = bad
    assert fl.equal(traced(x), before)


def test_each_has_a_forward_of_its_own(x):
    a, b = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x * 2)
    assert type(a) is not type(b) and isinstance(a, fx.GraphModule) and fl.equal(a(x), x + 1) and fl.equal(b(x), x * 2)


def test_modes_and_members_are_the_roots(x):
    root = Scaled().eval()
    traced = fx.symbolic_trace(root)
    assert not traced.training and traced.fc is root.fc
    assert list(traced.state_dict()) == list(root.state_dict())  # hidden is in neither
    traced.train()
    assert traced.seq.get_submodule("1").training


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda g: fx.GraphModule(3, g), TypeError, "root is a int; expected a Module, or a dict"),
    (lambda g: fx.GraphModule({}, 3), TypeError, "graph is a int; expected a Graph"),
    (lambda g: fx.GraphModule({"b": nn.ReLU()}, g), RuntimeError, "the graph uses a.fc, which root does not have; it has b"),
    (lambda g: fx.GraphModule(nn.Module(), g), AttributeError, "'a.fc' is not in Module: Module has no attribute 'a'"),
])  # fmt: skip
def test_bad_roots(make, kind, text):
    graph = fx.Graph()
    graph.output(graph.call_module("a.fc", (graph.placeholder("x"),)))
    with pytest.raises(kind, match=text):
        make(graph)
    assert graph.owning_module is None


def test_submodules_come_and_go(traced):
    assert traced.add_submodule("a.b.c", nn.ReLU()) and isinstance(traced.a.b.c, nn.ReLU)
    assert not traced.add_submodule("scale.c", nn.ReLU())
    with pytest.raises(TypeError, match="m is a int"):
        traced.add_submodule("d", 3)
    assert traced.delete_submodule("a.b.c") and not traced.delete_submodule("a.b.c") and not traced.delete_submodule("x.y")
    traced.delete_all_unused_submodules()
    assert sorted(name for name, _ in traced.named_modules()) == ["", "fc", "seq", "seq.0", "seq.1"]


def test_copies(traced, x):
    traced.eval()
    wanted = traced(x)
    deep = copy.deepcopy(traced)
    assert fl.equal(deep(x), wanted) and deep.code == traced.code and deep.graph is not traced.graph and deep.fc is not traced.fc
    assert not deep.training and type(deep).__name__ == "Scaled"
    with fl.no_grad():
        deep.fc.weight.zero_()
    assert fl.equal(traced(x), wanted)
    shallow = copy.copy(traced)
    assert shallow.fc is traced.fc and fl.equal(shallow(x), wanted)


def test_pickles(traced, x):
    traced.eval()
    traced.meta["note"] = 1
    back = pickle.loads(pickle.dumps(traced))
    assert fl.equal(back(x), traced(x)) and back.code == traced.code and not back.training and back.meta == {"note": 1}
    assert list(back.state_dict()) == list(traced.state_dict()) and type(back).__name__ == "Scaled"
    file = io.BytesIO()
    fl.save(traced.state_dict(), file)
    file.seek(0)
    back.load_state_dict(fl.load(file))
    with pytest.raises(ValueError, match="can not be imported, so that no pickle can name it"):
        pickle.dumps(fx.GraphModule({}, _graph_of(lambda y: y)))


def _graph_of(function):
    graph = fx.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return graph


def test_types_of_parameters_survive_a_pickle():
    def f(x: fl.Tensor, n: int = 2) -> fl.Tensor:
        return x * n

    f.__annotations__ = {"x": fl.Tensor, "n": int, "return": fl.Tensor}
    traced = fx.symbolic_trace(f)
    assert pickle.loads(pickle.dumps(traced)).code.strip() == traced.code.strip()
    assert "def forward(self, x : flambeau.Tensor, n : int = 2) -> flambeau.Tensor:" in traced.code


def test_what_is_shown(traced, capsys):
    inner = fx.Graph()
    inner.output(inner.call_module("part", (inner.placeholder("x"),)))
    outer = fx.GraphModule({"part": traced}, inner, "Outer")
    text = outer.print_readable()
    assert capsys.readouterr().out.strip() == text.strip()
    assert text.startswith("class Outer(flambeau.nn.Module):\n    def forward(self, x):\n") and "    class Scaled(flambeau.nn.Module):" in text
    assert "print_readable()" in str(traced) and "fc = self.fc(x)" in str(traced)


@pytest.mark.filterwarnings("ignore:GraphModule.to_folder")
def test_a_folder_is_imported(tmp_path, monkeypatch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.rest = nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1).double())
            self.w = nn.Parameter(fl.rand(3), requires_grad=False)
            self.register_buffer("b", fl.rand(3))
            self.register_buffer("c", fl.rand(3))

        def forward(self, x):
            return self.rest(((self.fc(x) + self.w + self.b) * self.c).double())

    net, x = Net(), fl.rand(4, 2)
    traced = fx.symbolic_trace(net)
    traced.register_buffer("c", net.c, persistent=False)
    traced.to_folder(tmp_path / "net_in_a_folder", "Written")
    assert {f.name for f in (tmp_path / "net_in_a_folder").iterdir()} == {"__init__.py", "module.py", "state_dict.pt", "rest.pt", "c.pt"}
    (tmp_path / "net_in_a_folder").rename(tmp_path / "net_elsewhere")
    monkeypatch.syspath_prepend(tmp_path)
    again = importlib.import_module("net_elsewhere").Written()
    assert fl.equal(again(x), net(x)) and list(again.state_dict()) == ["w", "b", "fc.weight", "fc.bias", "rest.1.weight", "rest.1.bias"]
    assert not again.w.requires_grad and type(again).__name__ == "Written"


def test_a_derived_class(x):
    class Power(fx.GraphModule):
        def __init__(self, n):
            super().__init__(nn.Module(), fx.Graph())
            value = fx.Proxy(self.graph.placeholder("x"))
            out = value.new_ones(value.shape[-1])
            for _ in range(n):
                out = out * value
            self.graph.output(out.node, fl.Tensor)
            self.recompile()

    power = Power(3)
    assert isinstance(power, Power) and fl.allclose(power(x), x**3)


def test_compiled_code_goes_with_its_module():
    import gc
    import linecache

    def count():
        return sum(key.startswith("<eval_with_key>") for key in linecache.cache)

    gc.collect()
    before = count()
    for _ in range(3):
        fx.symbolic_trace(lambda x: x + 1)
    gc.collect()
    assert count() == before


def test_a_folder_with_names_that_files_can_not_have_is_refused_before_anything_is_written(tmp_path):
    net = fl.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    place = tmp_path / "net"
    with pytest.raises(ValueError, match="module_name = 'a b'; expected a name that a class can have"):
        net.to_folder(place, "a b")
    net._modules["../escaped"] = nn.ReLU()
    with pytest.raises(ValueError, match="a member is called '../escaped'"):
        net.to_folder(place, "Net")
    assert not list(tmp_path.iterdir())
