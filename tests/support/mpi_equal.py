"""Pipelines of processes leave the bits that pipelines of threads leave."""

from __future__ import annotations

import copy
import time

from mpi_common import SCHEDULES, Call, batch, check_state, mlp, mse, nll, program, same

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._processes import DistributedPipeline
from flambeau.pipeline.batchnorm import convert
from flambeau.pipeline.skip import Namespace, pop, skippable, stash


def dropouts():
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(5, 5), nn.Dropout(0.4), nn.ReLU())))


@skippable(stash=["long"])
class Encode(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        yield stash("long", self.layer(x))
        return x * 2


@skippable(pop=["long"])
class Decode(nn.Module):
    def forward(self, x):
        long = yield pop("long")
        return x + long


def skips():
    a, b = Namespace(), Namespace()
    return nn.Sequential(
        Encode().isolate(a), nn.Linear(5, 5), Encode().isolate(b), nn.Tanh(), nn.Linear(5, 5), Decode().isolate(b), nn.Linear(5, 5),
        Decode().isolate(a), nn.Dropout(0.2),
    )  # fmt: skip


def nests():
    """Tuples, dicts, numbers, None, integers, views, and one tensor twice."""
    return nn.Sequential(
        Call(lambda x, f: {"h": f(x), "t": (x.argmax(1), None, 2.5), "list": [x, x, "mean"]}, nn.Linear(5, 5)),
        Call(lambda d, f: {**d, "h": f(d["h"]).t()}, nn.Linear(5, 5)),
        nn.Identity(),
        Call(lambda d, f: (f(d["h"].t()), d["list"][0] * d["list"][1], d["t"][0], d["t"][2]), nn.Linear(5, 5)),
        nn.Identity(),
        Call(lambda t: (t[0][:, :4], t[1].sum(1, keepdim=True).expand(-1, 4), t[2], t[3])),
        Call(lambda t: (t[0] + t[1]) * t[3] + t[2].unsqueeze(1)),
        Call(lambda x, f: f(x), nn.Linear(4, 5)),
    )


def norms():
    """Running statistics, a frozen layer, and one without parameters."""
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Tanh())))
    for p in model[3].parameters():
        p.requires_grad_(False)
    return model


def deferred_norms():
    return convert(norms())


def shared():
    """One weight in layers 0, 4 and 7."""
    model = mlp(6)
    tied = [nn.Linear(5, 5) for _ in range(3)]
    for layer in tied[1:]:
        layer.weight = tied[0].weight
    return nn.Sequential(tied[0], *model[:3], tied[1], *model[4:], tied[2])


def convolutions():
    """Of images of 3 x 8 x 8."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16),
        nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


def tokens():
    return nn.Sequential(nn.Embedding(11, 5), nn.LayerNorm(5), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.LogSoftmax(-1))


def compare(transport, make, x, target, loss_fn=mse, steps=2, **options):
    """A pipeline of processes leaves the bits of one of threads."""
    fl.manual_seed(3)
    model = make()
    threads = Pipeline(copy.deepcopy(model), transport.size, **options)
    processes = DistributedPipeline(model, transport.size, transport=transport, **options)
    name = f"{make.__name__} {options}"
    found = {}
    for key, pipe in (("threads", threads), ("processes", processes)):
        fl.manual_seed(7)
        own = x.clone().requires_grad_() if x.is_floating_point() else x.clone()
        losses = [pipe.step(own, target, loss_fn) for _ in range(steps)]
        found[key] = [*losses, pipe(own), fl.rand(2)], own.grad
    for a, b in zip(found["processes"][0], found["threads"][0]):
        same(a, b, f"{name}: losses, output and what is drawn next")
    if transport.rank == 0:
        same(found["processes"][1], found["threads"][1], f"{name}: gradient of x")
    assert processes.timeline.schedule.ranks == threads.timeline.schedule.ranks, f"{name}: what ranks did"
    check_state(processes, threads, name)


@program
def schedules(transport):
    for schedule in SCHEDULES:
        for mode in ("never", "except_last"):
            for samples, micro_batches in ((9, 4), (3, 5)):
                x, target = batch(samples)
                compare(transport, dropouts, x, target, schedule=schedule, micro_batches=micro_batches, checkpoint=mode)
    compare(transport, dropouts, *batch(9), schedule="dualpipe-v", micro_batches=8)


@program
def models(transport):
    x, target = batch(7)
    for make in (mlp, skips, nests, norms, deferred_norms, shared):
        for mode in ("never", "always"):
            compare(transport, make, x, target, schedule="1f1b", micro_batches=3, checkpoint=mode)
    compare(transport, convolutions, fl.randn(6, 3, 8, 8), fl.randn(6, 5), schedule="1f1b", micro_batches=3)
    compare(transport, tokens, fl.randint(0, 11, (6, 4)), fl.randint(0, 5, (6, 4)), nll, schedule="gpipe", micro_batches=3)
    text = "rank 0: 0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0"
    if transport.size == 2:
        compare(transport, mlp, x, target, schedule=Schedule.parse(text), micro_batches=2, balance=[3, 3, 2])


@program
def arguments_where_they_are_used(transport):
    """Other ranks may give None."""
    x, target = batch(8)
    fl.manual_seed(3)
    model = mlp()
    threads = Pipeline(copy.deepcopy(model), transport.size, micro_batches=4)
    pipe = DistributedPipeline(model, transport=transport, micro_batches=4)
    first, last = transport.rank == 0, transport.rank == transport.size - 1
    loss = pipe.step(x if first else None, target if last else None, mse if last else None)
    same(loss, threads.step(x, target, mse), "loss")
    same(pipe(x if first else None), threads(x), "output")


@program
def training(transport):
    """State moves between processes and the plain model; optimizers have their part; norms are those of the whole model."""
    x, target = batch(8)
    fl.manual_seed(3)
    model = shared()
    threads = Pipeline(copy.deepcopy(model), transport.size, micro_batches=4)
    plain = threads.module
    pipe = DistributedPipeline(model, transport=transport, micro_batches=4)
    optimizers = [fl.optim.Adam(parameters, lr=0.01) for parameters in (plain.parameters(), pipe.local_parameters())]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        same(pipe.step(x, target, mse), threads.step(x, target, mse), "loss")
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 1e9)
        assert abs(float(pipe.clip_grad_norm_(1e9)) - float(norm)) < 1e-5
        for optimizer in optimizers:
            optimizer.step()
    for key, value in pipe.state_dict().items():
        same(value, plain.state_dict()[key], key)
    assert pipe.clip_grad_norm_(1e-3) > 1e-3
    assert abs(float(pipe.clip_grad_norm_(1.0)) - 1e-3) < 1e-5
    before = shared()
    pipe.load_state_dict(before.state_dict())
    threads.load_state_dict(before.state_dict())
    same(pipe(x), threads(x), "output after loading")
    for key, value in pipe.state_dict().items():
        same(value, before.state_dict()[key], key)


@program
def nothing_stays(transport):
    """Of a step: no tensor, in no message."""
    x, target = batch(9)
    pipe = DistributedPipeline(skips(), transport=transport, schedule="1f1b", micro_batches=3)
    counts = []
    for _ in range(10):
        pipe.step(x, target, mse)
        pipe(x)
        pipe.state_dict()
        while transport._sending or transport._receiving:
            time.sleep(0)
        counts.append(fl.memory_stats()["allocated_bytes"])
    assert min(counts[5:]) <= min(counts[:5]), counts  # there may be messages of ranks that are ahead


@program
def large_tensors_both_ways(transport):
    """Of more than any MPI sends without the other side's help; all ranks send before they receive."""
    call, n = transport.open("test"), 3_000_000
    for other in range(transport.size):
        call.put(other, ("x", transport.rank), fl.full((n,), float(transport.rank)))
    for other in range(transport.size):
        same(call.take(transport.rank, ("x", other)), fl.full((n,), float(other)), "what arrived")
    call.close()
