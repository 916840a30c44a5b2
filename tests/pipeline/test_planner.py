"""`flambeau pipeline plan`: measured layers, simulated schedules, and what is said of them."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise

import pytest

import flambeau as fl
from flambeau import cli, nn
from flambeau.pipeline import _planner, split
from flambeau.pipeline._measure import LayerCost, costs_of, measure
from flambeau.pipeline.skip import pop, skippable, stash

MODEL = """
import flambeau as fl
from flambeau import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x).relu()

def make():
    return nn.Sequential(*[Block() for _ in range(6)]), fl.rand(16, 8)

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        start = x
        for block in self.blocks:
            x = x + block(x)
        return self.norm(x) + start

def residual():
    return Residual(), fl.rand(16, 8)

def nothing():
    return Block()

def reads():
    module = Residual()
    module.blocks[2].forward = lambda x: x * float(x.sum())
    return module, fl.rand(16, 8)
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture
def layers(monkeypatch):
    """Layers of one cost, in place of measured ones."""
    costs = [LayerCost(str(k), 0.01, 0.02, 0.01, 0.01, 1000, 1000, 50, 10) for k in range(8)]
    monkeypatch.setattr(_planner, "measure", lambda *args: costs)
    return costs


@pytest.mark.slow
def test_the_command(model, tmp_path, capsys):
    picture = tmp_path / "plan.svg"
    assert cli.main(["pipeline", "plan", f"{model}:make", "--ranks", "2", "--seconds", "0.01", "--draw", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "6 layers" in text and "Take " in text and "stage 0 on rank 0: layers 0" in text
    assert picture.read_text().startswith("<svg")
    assert cli.main(["pipeline", "plan", f"{model}:make", "--ranks", "2", "--seconds", "0.01", "--run"]) == 0
    predicted, run = capsys.readouterr().out.splitlines()[-2:]
    assert predicted.startswith("predicted") and run.startswith("run") and run.count("%") == 1 and run.endswith("KiB")


@pytest.mark.slow
def test_the_command_cuts_modules_of_any_kind(model, tmp_path, capsys):
    picture = tmp_path / "plan.svg"
    options = ["--ranks", "2", "--seconds", "0.01", "--draw", str(picture), "--run", "--memory", "1GiB"]
    assert cli.main(["pipeline", "plan", f"{model}:residual", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"\d+ ops, .* ms on one rank for 8 micro-batches", lines[0])
    assert picture.read_text().startswith("<svg") and lines[-2].startswith("predicted") and lines[-1].startswith("run")
    (taken,) = (line for line in lines if line.startswith("Take "))
    at = [int(n) for n in re.search(r"split\(model, sample, at=\[(.*)\]\):$", taken)[1].split(", ")]
    stages = [re.match(r"stage \d on rank \d: ops (\d+) to (\d+), .*model.py:\d+ to .*model.py:\d+, .* ms", line) for line in lines]
    spans = [(int(found[1]), int(found[2]) + 1) for found in stages if found]
    assert spans == list(pairwise([0, *at, int(lines[0].split()[0])]))
    module, batch = _planner.load(f"{model}:residual")
    assert [cut.position for cut in split(module, batch[:2], at=at).report.cuts] == at


@pytest.mark.slow
@pytest.mark.parametrize("place, more, message", [
    ("{}:reads", [], "the forward can not be recorded"),
    ("{}:residual", ["--ranks", "99"], "as many stages as the ops can be cut into; expected fewer ranks"),
    ("{}:gone", [], "has no 'gone'"),
    ("{}:nothing", [], "returned Block; expected a pair"),
    ("{}", [], "expected a file and a function"),
    ("other.py:make", [], "expected a file and a function"),
    ("{}:make", ["--memory", "2 cows"], "is no amount of memory"),
    ("{}:make", ["--ranks", "9"], "expected fewer ranks"),
])  # fmt: skip
def test_bad_requests(place, more, message, model, capsys):
    assert cli.main(["pipeline", "plan", place.format(model), "--ranks", "2", "--seconds", "0.01", *more]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_fastest_comes_first(layers):
    _, choices = _planner.plan(nn.Sequential(nn.Linear(2, 2)), fl.rand(8, 2), ranks=4, micro_batches=8)
    spans = [c.timeline.makespan for c in choices]
    assert spans == sorted(spans)
    best = choices[0]
    assert best.schedule.name in ("zb-v", "dualpipe-v")
    assert best.timeline.makespan == pytest.approx(8 * 0.06 * (1 + 1.5 / 24))
    assert {sum(c.balance) for c in choices} == {8}


@pytest.mark.slow
def test_memory_decides(layers):
    def chosen(memory):
        found, choices = _planner.plan(nn.Sequential(nn.Linear(2, 2)), fl.rand(8, 2), ranks=4, micro_batches=8, memory=memory)
        return list(_planner.report(found, choices, 8, memory)), choices[0]

    ample, fast = chosen(10**6)
    tight, small = chosen(3000)
    assert max(small.memory) <= 3000 < max(fast.memory)
    assert small.checkpoint != "never" and fast.checkpoint == "never"
    assert any("does not fit" in line for line in tight) and not any("does not fit" in line for line in ample)
    assert any(line.startswith("Nothing fits into 10 B") for line in chosen(10)[0])


def test_measured_layers():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))
    sample = fl.rand(10, 32)
    state = fl.get_rng_state().tolist()
    found = measure(model, sample, seconds=0.0)
    assert [c.name for c in found] == ["0", "1", "2", "3"]
    assert [c.parameters for c in found] == [4 * (32 * 64 + 64), 0, 0, 4 * (64 * 4 + 4)]
    assert [c.boundary for c in found] == [4 * 10 * n for n in (32, 64, 64, 64)]
    assert all(c.forward_s > 0 and c.backward_s > 0 for c in found)
    # Between its parts a linear layer holds the gradient of its output, too, and one without parameters nothing more.
    assert found[3].waiting >= found[3].activation + 4 * 10 * 4 and found[1].waiting <= found[1].activation
    assert [c.inputs_s > 0 for c in found] == [True] * 4 and [c.parameters_s > 0 for c in found] == [True] * 4
    assert fl.get_rng_state().tolist() == state and all(p.grad is None for p in model.parameters())


def layer(name, **bytes_):
    return LayerCost(name, 1.0, 3.0, 1.0, 2.0, **{"activation": 0, "waiting": 0, "parameters": 0, "boundary": 0, **bytes_})


def test_stages_of_layers():
    """An output that neither its layer nor the next needs goes, but for a stage's own; skips go straight to where they are popped."""
    a = layer("a", activation=100, output=30, waiting=60, boundary=7, stashed={(None, "x"): (11, 13), (None, "y"): (1, 1)})
    b = layer("b", activation=50, output=20, waiting=40, boundary=30, gradient=30, kept=10, popped=frozenset({(None, "y")}))
    c = layer("c", activation=80, output=5, waiting=90, boundary=20, gradient=20, kept=20)
    d = layer("d", activation=9, waiting=8, boundary=5, gradient=4, popped=frozenset({(None, "x")}))
    costs = costs_of([[a, b], [c], [d]])
    assert costs.activation == [100 + 50 - 20, 80, 9]
    assert costs.messages == {(0, 1): 20, (1, 0): 20, (1, 2): 5, (2, 1): 4, (0, 2): 11, (2, 0): 13}
    # Nobody waits for a gradient of the first stage, so its first part does nothing, and keeps what has come.
    assert costs.waiting == [130 - 20 + 20 + 13, 90, 8]
    assert (costs.I, costs.W, costs.B) == ([0.0, 1.0, 1.0], [6.0, 2.0, 2.0], [6.0, 3.0, 3.0])
    assert costs_of([[dataclasses.replace(a, gradient=7), b], [c], [d]]).waiting[0] == 100


@pytest.mark.eager("it looks at memory")
def test_skips_of_measured_layers():
    @skippable(stash=["x"])
    class Keep(nn.Module):
        def forward(self, x):
            yield stash("x", x)
            return x.sum(1)

    @skippable(pop=["x"])
    class Join(nn.Module):
        def forward(self, y):
            x = yield pop("x")
            return x.add_(y.unsqueeze(1))  # in place, as in a stage

    layers = measure(nn.Sequential(nn.Linear(8, 16), Keep(), nn.ReLU(), Join()), fl.rand(32, 8), 0.0)
    assert [c.stashed for c in layers] == [{}, {(None, "x"): (2048, 2048)}, {}, {}]
    assert [c.popped for c in layers] == [frozenset()] * 3 + [{(None, "x")}]
    assert [c.gradient for c in layers] == [0, 2048, 128, 128]


class Residual(nn.Module):
    """A skip over each block, and one over all."""

    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))

    def forward(self, x):
        first = x = self.blocks[0](x)
        for block in self.blocks[1:]:
            x = x + block(x).tanh()
        return x * first


@pytest.mark.slow
def test_stages_of_segments():
    """All choices have the same measured segments; for each number of stages these are put together where it is cut best."""
    model = Residual(16, 9)
    layers, choices = _planner.plan(model, fl.rand(64, 16), ranks=2, micro_batches=8, seconds=0.0)
    assert {c.schedule.name for c in choices} == set(_planner.NAMES)
    assert {c.schedule.stages for c in choices} == {2, 4, 8}
    (module,) = {id(c.module): c.module for c in choices}.values()
    assert len(module) == len(layers) and 8 <= len(layers) <= 12
    assert sum(c.parameters for c in layers) == sum(p.numel() * p.itemsize for p in model.parameters())
    x = 4 * 8 * 16
    assert layers[0].boundary == x and all(c.boundary in (16 + x, 16 + 2 * x, 16 + 3 * x) for c in layers[1:])  # a tag, x, what skips
    for c in choices:
        assert sum(c.balance) == len(layers) and len(c.balance) == len(c.costs.F) == c.schedule.stages
        assert sum(c.costs.F) == pytest.approx(sum(layer.forward_s for layer in layers))
    assert model.training and all(p.grad is None for p in model.parameters())


@pytest.mark.slow
@pytest.mark.eager("it looks at memory")
@pytest.mark.parametrize("model", [nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))), Residual(256, 5)], ids=["layers", "segments"])
def test_memory_of_a_run_is_the_predicted(model):
    x = fl.rand(1024, 256)
    _, choices = _planner.plan(model, x, ranks=2, micro_batches=4, seconds=0.0, schedules=["gpipe"])
    (choice,) = (c for c in choices if c.checkpoint == "never")
    _, predicted, run = (line.split()[-2:] for line in _planner.try_out(model, x, choice, 4))
    assert predicted[1] == run[1] == "MiB" and 0.75 <= float(run[0]) / float(predicted[0]) <= 1.25  # ranks may be late for each other


@pytest.mark.parametrize("text, expected", [("2GiB", 2**31), ("500 MB", 5 * 10**8), ("1.5kib", 1536), ("17", 17)])
def test_amounts_of_memory(text, expected):
    assert _planner.bytes_of(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "1..5MB", "-1GB", "1 TBB", "."])
def test_amounts_that_are_none(text):
    with pytest.raises(ValueError, match="is no amount of memory"):
        _planner.bytes_of(text)
