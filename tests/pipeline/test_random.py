"""Random models in random pipelines: the numbers of plain execution, to the bit; and random failures, after which all goes on.

The number of a test is its seed: it makes the model, the batch, the schedule, the cut and the fault.
"""

from __future__ import annotations

import random
import re
import threading
import time

import pytest
from support.pipelines import assert_close
from support.random_pipelines import (
    First,
    Pop,
    Stash,
    has_convolution,
    joined,
    mean_loss,
    plain,
    random_batch,
    random_model,
    random_plan,
    random_schedule,
    results,
    sum_loss,
    wants_of,
)
from support.seeds import seeds

import flambeau as fl
from flambeau import _C, nn
from flambeau.pipeline import Schedule
from flambeau.pipeline._flags import is_recomputing
from flambeau.pipeline._microbatch import scatter
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.skip import Namespace

SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"]
N_MODELS, N_GPIPE, N_FAULTS = 1000, 200, 200
LIMIT_S = 1.0  # from a failure to its exception in the caller


def tolerance(model):
    """None, but of convolutions that this thread records: their output lies otherwise in memory then ("Deferred layout" in ARCHITECTURE.md)."""
    return 1e-5 if _C.graph.recording() and has_convolution(model) else 0


def pairs_of(batch, target, plan, rule="even"):
    """The micro-batches with their targets, and their shares in the batch."""
    pairs = scatter((batch, target), plan.schedule.micro_batches, rule)
    return pairs, [len(t) / len(target) for _, t in pairs]


@pytest.mark.parametrize("seed", seeds(N_MODELS))
def test_a_pipeline_gives_the_bits_of_plain_execution(seed):
    r = random.Random(seed)
    schedule, samples = random_schedule(r, SCHEDULES), r.randint(1, 9)
    fl.manual_seed(seed)
    begin, along, batch = random_batch(r, samples)
    model = random_model(r, begin, along, schedule.stages)
    plan, wants, target = random_plan(r, schedule, model), wants_of(r, batch), fl.randn(samples)
    pipe = plan.pipeline(model)
    expected = plain(model, plan, batch, wants, *pairs_of(batch, target, plan), mean_loss)
    found = results(model, batch, wants, lambda batch: pipe.step(batch, target, mean_loss))
    assert_close(found, expected, tolerance(model))


@pytest.mark.parametrize("seed", seeds(N_GPIPE))
def test_the_module_gives_the_bits_of_plain_execution(seed):
    """Its loss is one of the whole batch, so that is equal but for the order of its sum."""
    r = random.Random(seed)
    stages, samples = r.randint(1, 5), r.randint(1, 9)
    fl.manual_seed(seed)
    begin, along, batch = random_batch(r, samples)
    model = random_model(r, begin, along, stages)
    plan = random_plan(r, Schedule.make("gpipe", stages, r.randint(1, 6)), model)
    wants, target = wants_of(r, batch), fl.randn(samples)
    pipe = GPipe(model, plan.balance, chunks=plan.schedule.micro_batches, checkpoint=plan.checkpoint)

    def step(batch):
        loss = sum_loss(pipe(batch), target)
        loss.backward()
        return loss

    pairs, _ = pairs_of(batch, target, plan, "chunk")
    expected = plain(model, plan, batch, wants, pairs, [1.0] * len(pairs), sum_loss)
    found = results(model, batch, wants, step)
    assert_close(found[0], expected[0])
    assert_close(found[1:], expected[1:], tolerance(model))


# ---- failures


class Boom(Exception):
    pass


class Odd(BaseException):
    """Neither an exit nor an error; and its arguments are not its message."""

    def __init__(self, text):
        super().__init__()
        self.text = text

    def __str__(self):
        return self.text


ERRORS = [Boom, ValueError, RuntimeError, MemoryError, StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, Odd]


class Fault:
    """Raises at the event of that number, counting what is done while it is armed: within recomputes, or outside of them."""

    def __init__(self, error, in_recomputes):
        self.error, self.in_recomputes = error, in_recomputes
        self.number, self.seen, self.armed, self.raised_at = 0, 0, False, 0.0

    def __call__(self, x):
        if self.armed and is_recomputing() == self.in_recomputes:
            self.seen += 1
            if self.seen == self.number + 1:
                self.raised_at = time.perf_counter()
                raise self.error("planned")
        return x


class Breaks(fl.autograd.Function):
    """x times a number; its backward is an event of the fault."""

    @staticmethod
    def forward(ctx, x, weight, fault):
        ctx.save_for_backward(x, weight)
        ctx.fault = fault
        return x * weight

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        return ctx.fault(dy) * weight, (dy * x).sum(), None


class Fragile(nn.Module):
    """A layer with a fault in its forward, or in its backward."""

    def __init__(self, fault, backward):
        super().__init__()
        self.fault, self.backward, self.weight = fault, backward, nn.Parameter(fl.ones(()))

    def forward(self, x):
        return Breaks.apply(x, self.weight, self.fault) if self.backward else self.fault(x * self.weight)


def inserted(model, plan, at, layer):
    """The model with one more layer, in the stage of the one that was there."""
    plan.balance[plan.stage_of(at)] += 1
    layers = list(model)
    layers.insert(at, layer)
    return nn.Sequential(*layers)


def broken(r, model, plan, place, fault):
    """The model with a layer that has the fault, and the number of that layer, or None if it is the loss that has it."""
    if place == "loss":
        return model, None
    at = r.randint(1, len(model) - 1)  # the first may have integers
    if place not in ("stash", "pop"):
        return inserted(model, plan, at, First(Fragile(fault, place == "backward"))), at
    space, end = Namespace(), r.randint(at, len(model) - 1)
    stashing = Stash(lambda x: fault(x.sin()) if place == "stash" else x.sin()).isolate(space)
    popping = Pop(lambda x, skip: joined(x, fault(skip) if place == "pop" else skip)).isolate(space)
    model = inserted(inserted(model, plan, end, popping), plan, at, stashing)
    return model, at if place == "stash" else end + 1


OPS = {"backward": "BIW", "recompute": "R"}  # else F
MEANING = {"F": "forward", "R": "recompute", "B": "backward", "I": "backward of the inputs", "W": "backward of the parameters"}


class Case:
    """A pipeline with a fault, made of a seed."""

    def __init__(self, seed):
        r = random.Random(seed)
        schedule, samples = random_schedule(r, SCHEDULES), r.randint(1, 9)
        self.micro_batches = min(samples, schedule.micro_batches)
        fl.manual_seed(seed)
        begin, along, self.batch = random_batch(r, samples)
        model = random_model(r, begin, along, max(2, schedule.stages), cuts_gradients=False)
        self.plan, self.target = random_plan(r, schedule, model), fl.randn(samples)
        again = {a.stage for _, a in self.plan.full if a.op == "R" and a.micro < self.micro_batches}
        self.place = r.choice(["forward", "backward", "loss", "stash", "pop", *(["recompute"] * 2 * bool(again))])
        kinds = [kind for kind in ERRORS if not (self.place in ("stash", "pop") and kind is StopIteration)]  # a generator changes its type
        self.fault = Fault(r.choice(kinds), self.place == "recompute")
        self.model, self.layer = broken(r, model, self.plan, self.place, self.fault)
        self.stage = schedule.stages - 1 if self.layer is None else self.plan.stage_of(self.layer)
        self.ops = OPS.get(self.place, "F")
        self.fault.number = r.randrange(len(self.plan.order(self.stage, "R", self.micro_batches)) if self.ops == "R" else self.micro_batches)

    def loss(self, y, target):
        value = mean_loss(y, target)
        return self.fault(value) if self.place == "loss" else value

    def assert_named(self, error):
        """The notes say which rank, stage, micro-batch and action it was, and the layer."""
        notes = "\n".join(error.__notes__)
        found = re.search(r"in rank (\d+), stage (\d+), micro-batch (\d+), ([^(]*) \((\w+)\)", notes)
        assert found, notes
        op = found[5].strip("0123456789")
        assert op in self.ops and found[4] == MEANING[op]
        together = next(ops for ops in ("BI", "BW", op) if op in ops)  # where a stage's backwards are whole and in parts
        micro = self.plan.order(self.stage, together, self.micro_batches)[self.fault.number]
        assert found[5] == f"{self.stage}{op}{micro}"
        assert [int(found[k]) for k in (1, 2, 3)] == [self.plan.schedule.rank_of[self.stage], self.stage, micro]
        if self.place != "backward":
            assert "in the loss" in notes if self.layer is None else f"in layer '{self.layer}'" in notes


@pytest.mark.parametrize("seed", seeds(N_FAULTS))
def test_a_failure_is_raised_and_named_and_the_next_step_works(seed):
    case = Case(seed)
    pipe = case.plan.pipeline(case.model)
    pipe.step(case.batch, case.target, case.loss)
    before = [(p.grad, None if p.grad is None else p.grad.clone()) for p in case.model.parameters()]
    threads, case.fault.armed = threading.active_count(), True
    with pytest.raises(case.fault.error, match="planned") as caught:
        pipe.step(case.batch, case.target, case.loss)
    assert time.perf_counter() - case.fault.raised_at < LIMIT_S
    assert threading.active_count() == threads
    case.assert_named(caught.value)
    assert all(p.grad is grad for p, (grad, _) in zip(case.model.parameters(), before))
    assert_close([p.grad for p in case.model.parameters()], [values for _, values in before], tol=0)
    case.fault.armed, wants = False, wants_of(random.Random(seed), case.batch)
    pairs = pairs_of(case.batch, case.target, case.plan)
    expected = plain(case.model, case.plan, case.batch, wants, *pairs, case.loss)
    found = results(case.model, case.batch, wants, lambda batch: pipe.step(batch, case.target, case.loss))
    assert_close(found, expected, tolerance(case.model))
