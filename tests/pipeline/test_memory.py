"""What ranks hold in a run, byte by byte, beside what their schedule's simulation says."""

from __future__ import annotations

import dataclasses

import pytest
from support.meter import metered, sizes
from support.pipelines import Pop, Stash, assert_close, gradients

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Schedule
from flambeau.pipeline._measure import costs_of, measure
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v"]


@skippable(stash=["long"])
class Keep(nn.Module):
    def forward(self, x):
        yield stash("long", x)
        return x


@skippable(pop=["long"])
class Join(nn.Module):
    def forward(self, x):
        long = yield pop("long")
        return x * long


def model_of(stages):
    """A linear layer and a tanh a stage; the first, which has two of each, hands what is between them to the last, too."""
    space = Namespace()
    layers = [layer for _ in range(stages) for layer in (nn.Linear(64, 64), nn.Tanh())]
    first = [nn.Linear(64, 64), nn.Tanh(), Keep().isolate(space)]
    return nn.Sequential(*first, *layers, Join().isolate(space), nn.Linear(64, 64))


def case(name, ranks=4, m=8):
    schedule = Schedule.make(name, ranks, m)
    n = schedule.stages
    model, balance, x = model_of(n), [5, *[2] * (n - 2), 4], fl.rand(32 * m, 64)
    metered(model, Schedule.make("gpipe", 1, m), [len(model)], x)  # packs weights
    return schedule, model, balance, x


@pytest.mark.slow
@pytest.mark.eager("it looks at memory")
@pytest.mark.parametrize("checkpoint", ["never", "except_last", "always"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_holds_what_the_plan_says(name, checkpoint):
    schedule, model, balance, x = case(name)
    full = schedule.with_recompute(checkpoint)
    plan = full.simulate(**sizes(model, balance, x[:32])).peak
    assert metered(model, full, balance, x).activations == plan


@pytest.mark.slow
@pytest.mark.eager("it looks at memory")
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_layers_leave_says_what_stages_hold(name):
    """The planner measures layers, of which it makes stages."""
    schedule, model, balance, x = case(name)
    layers = iter(measure(model, x[:32], 0.0))
    costs = costs_of([[next(layers) for _ in range(n)] for n in balance])
    plan = schedule.simulate(dataclasses.replace(costs, F=1, I=1, W=1, B=None)).peak
    assert metered(model, schedule, balance, x).activations == plan
    seen = sizes(model, balance, x[:32])
    assert (costs.activation, costs.waiting, costs.messages) == (seen["activation"], seen["waiting"], seen["messages"])


def test_a_gradient_that_waits_holds_no_more_than_itself(monkeypatch):
    """Those of `cat` are views of one tensor."""
    from flambeau.pipeline import _executor

    sent = []
    put = _executor._Post.put

    def watched(self, kind, stage, micro, value, key=None):
        if kind in ("B", "SB"):
            sent.extend(dx for dx in (value if isinstance(value, list) else [value]) if dx is not None)
        put(self, kind, stage, micro, value, key)

    monkeypatch.setattr(_executor._Post, "put", watched)
    model = nn.Sequential(nn.Linear(64, 64), Stash(lambda x: x), nn.Tanh(), Pop(lambda x, skip: fl.cat([x, skip], 1)), nn.Linear(128, 8))
    expected = gradients(model, fl.ones(8, 64))
    assert_close(gradients(GPipe(model, [2, 1, 2], chunks=2), fl.ones(8, 64)), expected)
    assert len(sent) == 6 and all(dx._storage_bytes() <= dx.nbytes + 512 for dx in sent)
