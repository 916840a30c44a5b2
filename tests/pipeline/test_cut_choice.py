"""Where `split` cuts: exactly the best, and a report that says so."""

from __future__ import annotations

import gc
import itertools
import random

import pytest
from support.cuts import (
    Call,
    ResNet,
    quick,
)

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Schedule
from flambeau.pipeline._choose import Bill, Limits, choose
from flambeau.pipeline._cut import Split, split
from flambeau.pipeline._trace import CutError
from flambeau.pipeline.balance import balance_cost

F = nn.functional


# ---- where it is cut


def brute(bill, limits, tolerance):
    """Least cost of the dearest segment; fewest bytes of cuts within the tolerance of it."""
    sums = [0, *itertools.accumulate(bill.costs)]
    options = []
    for inner in itertools.combinations(range(1, len(bill.positions) - 1), len(limits.held) - 1):
        ends = [0, *inner, len(bill.positions) - 1]
        spans = list(zip(ends, ends[1:]))
        if limits.memory is not None and any(limits.bytes_of(s, *bill.memory[a, b]) > limits.memory for s, (a, b) in enumerate(spans)):
            continue
        dearest = max(sums[bill.positions[b]] - sums[bill.positions[a]] for a, b in spans)
        options.append((dearest, sum(bill.crossing[i] for i in inner)))
    if not options:
        return None
    least = min(dearest for dearest, _ in options)
    return least, min(crossing for dearest, crossing in options if dearest <= int(least * (1 + tolerance)))


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_is_the_best_of_all(seed):
    rng = random.Random(seed)
    n = rng.randint(2, 11)
    inner = sorted(rng.sample(range(1, n), rng.randint(1, n - 1)))
    positions = [0, *inner, n]
    k = rng.randint(1, len(inner) + 1)
    costs, tolerance = [rng.randint(0, 9) for _ in range(n)], rng.choice([0.0, 0.05, 0.5])
    crossing = [0, *(rng.randint(1, 9) for _ in inner), 0]
    pairs = itertools.combinations(range(len(positions)), 2)
    memory = {pair: tuple(rng.randint(0, 9) for _ in range(4)) for pair in pairs}
    limit = rng.choice([None, rng.randint(5, 60)])
    bill, limits = Bill(positions, costs, crossing, memory), Limits(tuple(range(k, 0, -1)), limit, 2.0)
    expected = brute(bill, limits, tolerance)
    if expected is None:
        with pytest.raises(CutError, match=rf"memory = {limit} bytes per stage; expected at least \d+") as caught:
            choose(bill, limits, tolerance)
        least = int(str(caught.value).rpartition(" ")[2])
        assert brute(bill, Limits(limits.held, least, 2.0), 0.0) is not None
        assert brute(bill, Limits(limits.held, least - 1, 2.0), 0.0) is None
        return
    cuts = choose(bill, limits, tolerance)
    ends = [0, *cuts, n]
    dearest = max(sum(costs[a:b]) for a, b in zip(ends, ends[1:]))
    assert len(cuts) == k - 1 and set(cuts) <= set(inner)
    assert dearest <= int(expected[0] * (1 + tolerance))
    assert sum(crossing[positions.index(c)] for c in cuts) == expected[1]
    if limit is None:
        blocks = [sum(costs[a:b]) for a, b in zip(positions, positions[1:])]
        sizes = balance_cost(blocks, k)
        starts = [0, *itertools.accumulate(sizes)]
        assert expected[0] == max(sum(blocks[a:b]) for a, b in zip(starts, starts[1:]))


def test_cuts_are_where_little_crosses():
    """A bottleneck between two wide parts."""
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2), nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 4))
    parts = quick(model, fl.ones(32, 4), 2, by="size", tolerance=0.3)
    (cut,) = parts.report.cuts
    assert (cut.position, cut.crossing, cut.tensors) == (3, 32 * 2 * 4, 1)
    assert cut.after.startswith("linear (2, ") and cut.before.startswith("linear (3, ")


@pytest.mark.slow
def test_memory_limits_stages_and_the_least_limit_will_do():
    model, x = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6))), fl.ones(8, 16)
    with pytest.raises(CutError, match=r"no cut into 3 stages takes at most memory = 100 bytes per stage; expected at least \d+") as caught:
        quick(model, x, 3, memory=100)
    least = int(str(caught.value).rpartition(" ")[2])
    parts = quick(model, x, 3, memory=least)
    assert max(stage.total for stage in parts.report.stages) == least
    with pytest.raises(CutError, match=f"expected at least {least}"):
        quick(model, x, 3, memory=least - 1)


@pytest.mark.parametrize("name", ["1f1b", "eager-1f1b"])
def test_bytes_of_stages_are_those_of_the_simulation(name):
    """Which knows when each input and each gradient arrives."""
    schedule, rng = Schedule.make(name, 4, 8), random.Random(0)
    held = tuple(map(int, schedule.simulate().peak))
    inputs, activations = [0, *(rng.randint(1, 99) for _ in range(3))], [rng.randint(1, 99) for _ in range(4)]
    messages = {pair: inputs[s] for s in (1, 2, 3) for pair in ((s - 1, s), (s, s - 1))}
    peak = schedule.simulate(activation=activations, messages=messages).peak
    limits = Limits(held, None, 2.0)
    assert peak == [limits.bytes_of(s, 0, activations[s] + inputs[s], inputs[s], [*inputs, 0][s + 1]) for s in range(4)]


@pytest.mark.slow
@pytest.mark.eager("it looks at memory")
def test_bytes_of_stages_are_those_that_are_allocated():
    model, x = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(64, 64), nn.Tanh()))), fl.ones(32, 64)
    parts = quick(model, x, 2, by="size")
    for p in model.parameters():
        p.requires_grad_(True)
    first = parts[0]
    first(x)
    gc.collect()
    before = fl._C.memory_stats()["allocated_bytes"]
    leaf = x.clone().requires_grad_()
    output = first(leaf)
    taken = fl._C.memory_stats()["allocated_bytes"] - before
    stage = parts.report.stages[0]
    assert abs(taken - stage.activations) <= 0.1 * stage.activations
    assert stage.parameters == sum(p.numel() * 4 for p in first.parameters())
    del output


@pytest.mark.slow
def test_the_report_says_where_and_why():
    model, x = ResNet(), fl.randn(2, 3, 6, 6)
    parts = split(model, x, 3, seconds=0.02)
    report = parts.report
    assert isinstance(parts, Split) and len(report.stages) == 3 and len(report.cuts) == 2
    assert sum(stage.ops for stage in report.stages) == len(parts[0].recordings.programs[0].graph.nodes)
    text = str(report)
    assert text.count("stage ") >= 3 and text.count("cut after") == 2 and "cuts.py:" in text
    for cut in report.cuts:
        assert "later: " in cut.why and "earlier: " in cut.why
    assert "Segment(ops 0 to" in repr(parts)


def test_lines_of_the_report_are_the_users():
    def forward(m, x):
        y = F.relu(m.a(x))
        return m.b(y) + y

    parts = quick(Call(forward), fl.ones(2, 3), 1)
    found = parts[0].recordings.programs[0].found
    first = forward.__code__.co_firstlineno
    assert [(node.op, place.path, place.line) for node, place in zip(found.graph.nodes, found.places)] == [
        ("linear", "a", f"test_cut_choice.py:{first + 1}"),
        ("relu", "", f"test_cut_choice.py:{first + 1}"),
        ("linear", "b", f"test_cut_choice.py:{first + 2}"),
        ("add", "", f"test_cut_choice.py:{first + 2}"),
    ]
