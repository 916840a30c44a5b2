"""`FlopCounterMode`: what modules and their backward compute, and how it is shown."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.eager("counts ops as they run")


class Net(fl.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = fl.nn.ModuleList([fl.nn.Linear(3, 4), fl.nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x @ x.T


def test_modules_have_their_own_counts_and_those_of_what_they_call():
    with FlopCounterMode(display=False) as counter:
        y = Net()(fl.ones(2, 3))
        fl.ones(2, 2) @ y
    counts = counter.get_flop_counts()
    assert counts["Net.layers.0"] == {"linear": 2 * 2 * 3 * 4} and counts["Net.layers.1"] == {"linear": 64}
    assert sum(counts["Net"].values()) == 48 + 64 + 32 and "Net.layers" not in counts
    assert counter.get_total_flops() == sum(counts["Net"].values()) + 16


def test_backward_belongs_to_the_modules_of_its_forward():
    net, x = Net(), fl.ones(2, 3)
    y = net(x)
    with FlopCounterMode(display=False) as counter:
        y.sum().backward()
    assert set(counter.get_flop_counts()) == {"Global"}  # what ran before is not known
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    totals = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    assert totals == {"Global": 48 * 2 + 64 * 3 + 32 * 3, "Net": 48 * 2 + 64 * 3 + 32 * 3, "Net.layers.0": 48 * 2, "Net.layers.1": 64 * 3}


def test_the_table(capsys):
    net = fl.nn.Sequential(fl.nn.Linear(300, 400), fl.nn.Linear(400, 10))
    with FlopCounterMode(depth=1) as counter:
        net(fl.ones(20, 300))
        fl.ones(30, 40) @ fl.ones(40, 50)
    assert capsys.readouterr().out.splitlines() == [
        "Module            FLOP    % Total",
        "-----------  ---------  ---------",
        "Global       5080.000K    100.00%",
        " - linear    4960.000K     97.64%",
        " - matmul     120.000K      2.36%",
        " Sequential  4960.000K     97.64%",
        "  - linear   4960.000K     97.64%",
    ]
    assert "Sequential.1" not in counter.get_table() and "Sequential.1" in counter.get_table(2)
    with FlopCounterMode():
        pass
    assert capsys.readouterr().out.splitlines()[-1].split() == ["Global", "0", "0%"]
    with pytest.warns(UserWarning, match="mods is given"):
        FlopCounterMode(net)
