"""Pictures of graphs: pydot draws them, where it is installed."""

import sys
import types

import pytest

import flambeau as fl
from flambeau import fx, nn
from flambeau.fx.passes.graph_drawer import FxGraphDrawer
from flambeau.fx.passes.shape_prop import ShapeProp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.w = nn.Linear(2, 2), nn.Parameter(fl.ones(2))

    def forward(self, x, scale=2):
        return fl.relu(self.fc(x) + self.w).sum(dim=0)[None, 0] * scale


@pytest.fixture
def pydot(monkeypatch):
    """What is drawn, in place of pydot."""

    class Dot:
        def __init__(self, name, **options):
            self.name, self.nodes, self.edges = name, {}, []

        def add_node(self, node):
            self.nodes[node[0]] = node[1]["label"]

        def add_edge(self, edge):
            self.edges.append(edge)

    stand_in = types.ModuleType("pydot")
    stand_in.Dot, stand_in.Node, stand_in.Edge = Dot, lambda name, **options: (name, options), lambda a, b: (a, b)
    monkeypatch.setitem(sys.modules, "pydot", stand_in)


def test_without_pydot_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot", None)
    with pytest.raises(RuntimeError, match="FxGraphDrawer: the package pydot is not installed, which draws; `pip install pydot`"):
        FxGraphDrawer(fx.symbolic_trace(Net()), "net")


def test_nodes_and_arrows(pydot):
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(fl.ones(3, 2), 2)
    picture = FxGraphDrawer(traced, "net").get_dot_graph()
    assert picture.name == "net" and {"x", "scale", "fc", "fc.weight", "fc.bias", "w", "add", "relu", "sum_1", "getitem", "mul", "output"} == picture.nodes.keys()
    assert {("x", "fc"), ("fc.weight", "fc"), ("w", "add"), ("mul", "output")} <= set(picture.edges)
    assert picture.nodes["sum_1"] == r"{name=%sum_1\n|op_code=call_method\n|target=sum\n|kwargs=\{'dim': 0\}\n|num_users=1\n|dtype=flambeau.float32, shape=(2,)\n}"
    assert "in_features: 2" in picture.nodes["fc"] and picture.nodes["fc.bias"] == r"{fc.bias|op_code=get_parameter\nflambeau.float32[2]}"


def test_what_is_left_out_and_graphs_inside(pydot):
    inner = fx.symbolic_trace(Net())

    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    net = nn.Sequential(inner)
    drawer = FxGraphDrawer(fx.GraphModule(net, Whole().trace(net)), "outer", ignore_getattr=True, ignore_parameters_and_buffers=True, normalize_args=True, skip_node_names_in_args=False)
    assert list(drawer.get_all_dot_graphs()) == ["outer", "outer_0"]
    small = drawer.get_dot_graph("0")
    assert "w" not in small.nodes and "fc.weight" not in small.nodes and ("w", "add") not in small.edges
    assert r"kwargs=\{'input': add\}" in small.nodes["relu"]
