"""Failures, kills and silence: all ranks raise, and name who did it."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from contextlib import nullcontext

from mpi_common import SCHEDULES, batch, expect, mse, program, same, say
from mpi_equal import compare, dropouts

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._mpi import MPITransport
from flambeau.pipeline._processes import DistributedPipeline
from flambeau.pipeline._stage import Cancelled
from flambeau.pipeline._transport import PipelineError


class Trap(nn.Module):
    """Fails in the forward or the backward of its rank, when it is armed."""

    armed = None

    def forward(self, x):
        if Trap.armed == "forward":
            raise ValueError("no good")
        if Trap.armed == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if Trap.armed == "exit":
            os._exit(3)
        if Trap.armed == "set":
            return {1, 2}
        if Trap.armed == "backward" and x.requires_grad:
            x = x * 1
            x.register_hook(refuse)
        return x


def refuse(grad):
    raise ArithmeticError("no way back")


def trapped(transport, micro_batches=4, layers=None, **options):
    fl.manual_seed(3)
    model = nn.Sequential(*(layer for _ in range(layers or transport.size) for layer in (nn.Linear(5, 5), Trap())))
    return DistributedPipeline(model, transport=transport, micro_batches=micro_batches, **options)


@program
def failures(transport):
    """All ranks raise, no gradient changes, and the next step is as if nothing had been."""
    x, target = batch(8)
    pipe = trapped(transport)
    pipe.step(x, target, mse)
    before = [p.grad.clone() for p in pipe.local_parameters()]
    cases = [
        ("forward", ValueError, r"no good[\s\S]*layer '3'[\s\S]*rank 1, stage 1, micro-batch 0, forward \(1F0\)"),
        ("backward", ArithmeticError, r"no way back[\s\S]*rank 1, stage 1, micro-batch 0, backward \(1B0\)"),
    ]
    if transport.size > 2:
        cases.append(("set", TypeError, r"a set can not be sent to another process[\s\S]*rank 1, stage 1, micro-batch 0, forward"))
    for kind, error, text in cases:
        Trap.armed = kind if transport.rank == 1 else None
        if transport.rank == 1:
            expect(error, text, lambda: pipe.step(x, target, mse))
        else:
            expect(PipelineError, f"rank 1 failed: {error.__name__}: {text}[\\s\\S]*rank 1 has stage 1", lambda: pipe.step(x, target, mse))
        Trap.armed = None
        for p, grad in zip(pipe.local_parameters(), before):
            same(p.grad, grad, "gradient after a failure")
    last = transport.size - 1
    bad = lambda y, t: 1 / 0  # noqa: E731
    expect(ZeroDivisionError if transport.rank == last else PipelineError, "in the loss", lambda: pipe.step(x, target, bad))
    shares = nn.MSELoss()
    shares.layer = pipe.module[0]
    error = ValueError if transport.rank == last else PipelineError
    expect(error, "layer '0' of rank 0 has a parameter that loss_fn has, too", lambda: pipe.step(x, target, shares))
    wrong = target[:5]
    error = ValueError if transport.rank == last else PipelineError
    expect(error, "different sizes of dim 0", lambda: pipe.step(x, wrong, mse))
    error = TypeError if transport.rank == 0 else PipelineError
    expect(error, "expected Tensor", lambda: pipe(None))
    for p in pipe.local_parameters():
        p.grad = None
    pipe.step(x, target, mse)
    for p, grad in zip(pipe.local_parameters(), before):
        same(p.grad, grad, "gradient of the step after failures")


@program
def random_failures(transport):
    """200 steps of several pipelines, most of which fail somewhere."""
    chaos, (x, target), seen = random.Random(5), batch(9), 0
    pipes = [trapped(transport, 5, layers=2 * transport.size, schedule=schedule) for schedule in SCHEDULES]
    for _ in range(200):
        pipe, rank, Trap.armed = chaos.choice(pipes), chaos.randrange(transport.size), chaos.choice(["forward", "backward", None])
        failing, Trap.armed = Trap.armed is not None, Trap.armed if rank == transport.rank else None
        try:
            pipe.step(x, target, mse)
            assert not failing
        except (ValueError, ArithmeticError, PipelineError) as error:
            assert failing and isinstance(error, PipelineError) == (rank != transport.rank)
            seen += 1
    Trap.armed = None
    assert seen > 100
    assert len({float(pipe.step(x, target, mse)) for pipe in pipes}) == 1


@program
def different_calls(transport):
    x, target = batch(8)
    pipe = trapped(transport)
    call = pipe.state_dict if transport.rank else lambda: pipe.step(x, target, mse)
    expect(PipelineError, r"is in its (step|state_dict), rank \d in its", call)


@program
def writes_while_it_is_sent(transport):
    """To a process that does not receive yet."""
    call, together = transport.open("test"), transport._comm.Barrier
    if transport.rank == 0:
        x = fl.zeros(3_000_000)
        together()
        call.put(1, ("small",), 1)
        call.put(1, ("large",), x)
        x.add_(1.0)
        together()
    else:
        with transport._arrived if transport.rank == 1 else nullcontext():  # nothing can be filed
            together()
            together()
    try:
        call.take(transport.rank, ("never",))
    except Cancelled:
        assert re.match("rank 0 changed a tensor by an in-place operation while it was sent to rank 1", str(call.failure()))
    call.close()


@program
def killed(transport):
    dies("killed", transport)


@program
def exits(transport):
    dies("exit", transport)


def dies(how, transport):
    x, target = batch(8)
    pipe = trapped(transport)
    pipe.step(x, target, mse)
    Trap.armed = how if transport.rank == 1 else None
    began = time.monotonic()
    try:
        pipe.step(x, target, mse)
    except PipelineError as error:
        say(f"rank {transport.rank} raised: {error}")
        assert time.monotonic() - began < 5, "not noticed in time"
        expect(PipelineError, "rank 1 .*has ended without a word", lambda: pipe(x))  # nor later
        raise


@program
def silent(transport):
    """As if processes were on machines of their own, which `main` sees to."""
    compare(transport, dropouts, *batch(9), schedule="1f1b", micro_batches=4)
    pipe = trapped(transport)
    if transport.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect(PipelineError, r"rank 1 \(process \d+ on .*\) has been silent for 3.0 s", lambda: pipe.step(*batch(8), mse))
    say(f"rank {transport.rank} heard nothing")


@program
def program_fails(transport):
    """Between steps, in one process."""
    x, target = batch(8)
    pipe = trapped(transport)
    pipe.step(x, target, mse)
    if transport.rank == 1:
        raise KeyError("broken program")
    pipe.step(x, target, mse)


@program
def program_stops_early(transport):
    pipe = trapped(transport)
    if transport.rank != 1:
        expect(PipelineError, "rank 1 has ended its program", lambda: pipe.step(*batch(8), mse))


@program
def closes(transport):
    threads = threading.active_count()
    with transport:
        trapped(transport).step(*batch(8), mse)
    assert threading.active_count() == threads - 1
    expect(RuntimeError, "the MPITransport is closed", lambda: transport.open("step"))
    again = MPITransport()
    trapped(again).step(*batch(8), mse)
    again.close()
    assert threading.active_count() == threads - 1
