"""`const_fold` and `normalize` of `flambeau.fx.experimental`."""

from __future__ import annotations

import operator

import pytest

import flambeau as fl
from flambeau import fx, nn
from flambeau.fx._takeover import functions_recorded_whole
from flambeau.fx.experimental.const_fold import (
    get_unique_attr_name_in_module,
    split_const_subgraphs,
)
from flambeau.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from flambeau.fx.operator_schemas import normalize_function

pytestmark = pytest.mark.eager("graphs are run node by node")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(fl.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.k = nn.Parameter(fl.tensor([1, 2]), requires_grad=False)
        self.fc = nn.Linear(2, 2)

    def forward(self, x, scale=1.0):
        table = self.fc(self.w.exp())
        return (x @ table + self.k * 2 + self.w) * scale


def test_constants_are_computed_once(monkeypatch):
    net = Net().eval()
    x = fl.tensor([[0.5, -1.0]])
    want = net(x, scale=3.0)
    folded = split_const_subgraphs(net)
    assert not folded.training
    assert "exp" not in folded.code
    assert "self.fc" not in folded.code
    assert not folded.has_folding_been_run
    calls = []
    monkeypatch.setattr(type(net.fc), "forward", lambda self, x: calls.append(1) or nn.functional.linear(x, self.weight, self.bias))
    for _ in range(2):
        assert fl.equal(folded(x, scale=3.0), want)
    assert len(calls) == 1
    kept = folded._FX_CONST_FOLDED_ATTRS
    assert [type(p) for p in kept] == [nn.Parameter, nn.Parameter]
    assert [p.requires_grad for p in kept] == [True, False]
    assert not hasattr(net, "_FX_CONST_FOLDED_ATTRS")
    with pytest.raises(RuntimeError, match="there already"):
        folded.run_folding()


def test_what_is_not_folded():
    net = Net()
    assert split_const_subgraphs(net, skip_folding_node_fn=lambda node: True).const_subgraph_module is None
    skipped = split_const_subgraphs(net, skip_folding_node_fn=lambda node: node.target == "exp")
    assert "exp" in skipped.code
    assert fl.equal(skipped(fl.ones(1, 2)), net(fl.ones(1, 2)))

    class Noise(Net):
        def forward(self, x):
            return x + fl.rand_like(self.w * 2)

    noise = split_const_subgraphs(Noise())
    assert "w * 2" not in noise.code
    assert not fl.equal(noise(fl.zeros(2)), noise(fl.zeros(2)))


def test_a_constant_that_is_no_tensor_and_a_result_of_constants_alone():
    class Sizes(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fl.ones(2, 3))

        def forward(self, x):
            return x.reshape(self.w.size(1), -1)

    assert split_const_subgraphs(Sizes())(fl.ones(6)).shape == (3, 2)

    class Alone(Sizes):
        def forward(self, x):
            return self.w * 2

    assert split_const_subgraphs(Alone())(fl.ones(1)).tolist() == [[2.0] * 3] * 2


def test_unique_names():
    net = Net()
    net.w_1 = net.w_2 = 1
    assert [get_unique_attr_name_in_module(net, name) for name in ("w", "new.w", "1x")] == ["w_3", "new_w", "_1x"]


def test_arguments_are_written_out():
    def f(x):
        return fl.sum(nn.functional.dropout(x, 0.0), 1)

    traced = fx.symbolic_trace(f)
    made = NormalizeArgs(traced).transform()
    calls = {node.target: (node.args, set(node.kwargs)) for node in made.graph.nodes if node.op == "call_function"}
    assert calls[nn.functional.dropout] == ((), {"input", "p", "training", "inplace"})
    assert calls[fl.sum][1] >= {"dim", "keepdim", "dtype"}
    by_place = NormalizeArgs(traced, normalize_to_only_use_kwargs=False).transform()
    assert [len(node.args) for node in by_place.graph.nodes if node.target is fl.sum] == [2]
    net = NormalizeArgs(fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))).transform()
    assert [list(node.kwargs) for node in net.graph.nodes if node.op == "call_module"] == [["input"]]
    x = fl.tensor([[1.0, 2.0]])
    assert made(x).tolist() == by_place(x).tolist() == [3.0]


def test_functions_say_their_parameters_while_a_program_is_traced():
    """Their code is another one then: `normalize_function` knew nothing of them."""
    with functions_recorded_whole():
        pair = normalize_function(nn.functional.dropout, ("x", 0.5), normalize_to_only_use_kwargs=True)
    assert pair == ((), {"input": "x", "p": 0.5, "training": True, "inplace": False})


def test_functions_become_operators():
    traced = fx.symbolic_trace(lambda x: fl.add(fl.mul(x, 2), x, alpha=3))
    made = NormalizeOperators(traced).transform()
    assert [node.target for node in made.graph.nodes if node.op == "call_function"] == [operator.mul, fl.add]  # which says alpha
    assert made(fl.ones(1)).tolist() == [5.0]
