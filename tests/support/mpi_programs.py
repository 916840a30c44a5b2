"""What the processes of MPI jobs run in `test_mpi.py`: `mpiexec -n 4 python mpi_programs.py NAME...`.

A program is called with the transport. If it finds something wrong it raises, which ends the job with an error.
"""

from __future__ import annotations

import copy
import gc
import os
import random
import re
import signal
import sys
import threading
import time
from contextlib import nullcontext

from cuts import GPT, Nests, ResNet, Tangle, UNet, loss_of, places, tensors

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import CutError, Pipeline, Schedule, split
from flambeau.pipeline._mpi import MPITransport
from flambeau.pipeline._processes import DistributedPipeline
from flambeau.pipeline._stage import Cancelled
from flambeau.pipeline._transport import PipelineError
from flambeau.pipeline.batchnorm import convert
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-v"]
mse = nn.functional.mse_loss


def say(text):
    """In one piece: mpiexec mixes what processes write."""
    os.write(1, f"\n{text}\n".encode())


PROGRAMS = {}


def program(function):
    """What each process of a job runs; it is called with the transport."""
    PROGRAMS[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------------------------------------------ models


class Call(nn.Module):
    """A layer that is a function, over modules."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.inner = function, nn.ModuleList(modules)

    def forward(self, x):
        return self.function(x, *self.inner)


def mlp(layers=8, width=5):
    return nn.Sequential(*(layer for _ in range(layers // 2) for layer in (nn.Linear(width, width), nn.Tanh())))


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


def same(found, expected, what):
    if expected is None or found is None:
        assert found is expected, what
    else:
        assert found.shape == expected.shape and found.dtype == expected.dtype and bool((found == expected).all()), what


def check_state(processes, threads, name):
    """Gradients of this process's parameters, and the whole state, are those of threads."""
    ours, theirs = (getattr(pipe.module, "original", pipe.module) for pipe in (processes, threads))
    grads = {key: p.grad for key, p in theirs.named_parameters(remove_duplicate=False)}
    mine = {id(p) for p in processes.local_parameters()}
    for key, p in ours.named_parameters(remove_duplicate=False):
        if id(p) in mine:
            same(p.grad, grads[key], f"{name}: gradient of {key}")
        else:
            assert p.is_meta and p.grad is None, f"{name}: {key} of another rank"
    state, expected = processes.state_dict(), threads.state_dict()
    assert list(state) == list(expected)
    for key, value in expected.items():
        same(state[key], value, f"{name}: {key} of the state")


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


# ----------------------------------------------------------------------------------------------------------------------- the same bits


@program
def schedules(transport):
    for schedule in SCHEDULES:
        for mode in ("never", "except_last"):
            for samples, micro_batches in ((9, 4), (3, 5)):
                x, target = batch(samples)
                compare(transport, dropouts, x, target, schedule=schedule, micro_batches=micro_batches, checkpoint=mode)
    compare(transport, dropouts, *batch(9), schedule="dualpipe-v", micro_batches=8)


def batch(samples):
    fl.manual_seed(5)
    return fl.randn(samples, 5), fl.randn(samples, 5)


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


def nll(y, target):
    return nn.functional.nll_loss(y.flatten(0, 1), target.flatten())


# ---------------------------------------------------------------------------------------------------------------- modules of any kind


class Mixed(nn.Module):
    """A skip from the first op to the last, a weight at both ends, batch norms, dropout, and positions that an op finds."""

    def __init__(self, width=6, blocks=6):
        super().__init__()
        self.ends, self.spare = nn.Linear(width, width), nn.Linear(2, 2)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(blocks))
        self.register_buffer("scale", fl.linspace(0.5, 1.5, width))
        self.offset = fl.arange(width).float()  # neither parameter nor buffer

    def forward(self, x):
        first = self.ends(x)
        x, best = first + self.offset, first.argmax(0)
        for block, norm in zip(self.blocks, self.norms):
            x = x + nn.functional.dropout(norm(block(x)).relu(), 0.3, self.training)
        x = x * self.scale + self.scale.sum() * (x.argmax(0) == best)
        return nn.functional.linear(x, self.ends.weight) + first


def cut_alike(parts, model, sample):
    """Another module, cut at the same ops."""
    return split(model, sample, at=parts.recordings.cuts[0][1:-1], seconds=0.0)


def compare_any(transport, make, sample, x, target, loss_fn=mse, **options):
    """A module that is split over processes has the bits of the same module, cut there, over threads: training, eval, other sizes."""
    fl.manual_seed(3)
    model = make()
    copied = copy.deepcopy(model)
    processes = Pipeline(model, transport.size, transport=transport, sample=sample, **options)
    threads = Pipeline(cut_alike(processes.module, copied, sample), transport.size, **options)
    name = f"{make.__name__} {options}"
    found = {}
    for key, pipe in (("threads", threads), ("processes", processes)):
        fl.manual_seed(7)
        own = x.clone().requires_grad_() if x.is_floating_point() else x.clone()
        results = [pipe.step(own, target, loss_fn) for _ in range(2)]
        results += [pipe(own), pipe.step(own[:-1], target[:-1], loss_fn)]  # in parts of other sizes
        pipe.eval()
        results += [pipe(own), pipe(own[1:2]), pipe.step(own, target, loss_fn)]
        pipe.train()
        results += [pipe(own[:9]), fl.rand(2)]
        found[key] = results, own.grad
    for k, (a, b) in enumerate(zip(found["processes"][0], found["threads"][0], strict=True)):
        same(a, b, f"{name}: result {k}")
    if transport.rank == 0:
        same(found["processes"][1], found["threads"][1], f"{name}: gradient of x")
    assert processes.timeline.schedule.ranks == threads.timeline.schedule.ranks, f"{name}: what ranks did"
    check_state(processes, threads, name)


@program
def any_module(transport):
    for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"):
        sample = fl.randn(3, 6)
        compare_any(transport, Mixed, sample, fl.randn(11, 6), fl.randn(11, 6), schedule=schedule, micro_batches=4)
    compare_any(transport, Mixed, sample, fl.randn(11, 6), fl.randn(11, 6), micro_batches=4, checkpoint="except_last")


@program
def any_models(transport):
    compare_any(transport, UNet, fl.randn(2, 3, 8, 8), fl.randn(6, 3, 8, 8), fl.randn(6, 2, 8, 8), micro_batches=3)
    compare_any(transport, ResNet, fl.randn(2, 3, 8, 8), fl.randn(6, 3, 8, 8), fl.randn(6, 5), micro_batches=3)
    tokens = fl.randint(0, 11, (7, 6))
    compare_any(transport, lambda: GPT(p=0.2), tokens[:2], tokens, fl.zeros(7), loss_of, schedule="zb-h1", micro_batches=3)
    pipe = Pipeline(Nests(), transport=transport, sample=nest(2), micro_batches=2)
    threads = Pipeline(cut_alike(pipe.module, copied_state(Nests(), pipe), nest(2)), transport.size, micro_batches=2)
    batch = nest(4)
    same(pipe.step(batch, None, loss_of), threads.step(batch, None, loss_of), "loss of a nest")
    first = transport.rank == 0
    for found, expected in zip(tensors(pipe(batch if first else None)), tensors(threads(batch)), strict=True):
        same(found, expected, "output of a nest")


@program
def random_modules(transport):
    """With cuts and schedules at random."""
    for seed in range(30):
        rng = random.Random(seed)
        fl.manual_seed(seed)
        sample, x = fl.randn(3, 4), fl.randn(rng.choice([7, 9, 10, 11]), 4)
        models = [Tangle(seed)]
        for p in models[0].parameters():
            p.requires_grad_(rng.random() < 0.8)
        models.append(copy.deepcopy(models[0]))
        program, schedule = places(models[0], sample), rng.choice(SCHEDULES)
        allowed = [p for p in range(1, len(program.graph.nodes)) if program.allowed(p)]
        cuts = sorted(rng.sample(allowed, Schedule.make(schedule, transport.size, 3).stages - 1))
        pipes = [
            Pipeline(split(model, sample, at=cuts, seconds=0.0), transport.size, transport=t, schedule=schedule, micro_batches=3)
            for model, t in zip(models, (transport, None))
        ]
        found = []
        for pipe in pipes:
            fl.manual_seed(seed)
            own = x.clone().requires_grad_()
            found.append([pipe.step(own, None, loss_of), *tensors(pipe.eval()(x)), fl.rand(1)])
            if transport.rank == 0:
                found[-1].append(own.grad)
        for a, b in zip(*found, strict=True):
            same(a, b, f"seed {seed}, {schedule}, cut at {cuts}")
        check_state(*pipes, f"seed {seed}, {schedule}, cut at {cuts}")


def nest(n):
    fl.manual_seed(n)
    return {"ids": fl.randint(0, 7, (n,)), "pair": (fl.randn(n, 4), fl.rand(n))}


def copied_state(model, pipe):
    model.load_state_dict(pipe.state_dict())
    return model


@program
def training_of_any_module(transport):
    """Optimizers have their part; states are loaded, by assignment, too; norms are those of the whole model."""
    fl.manual_seed(3)
    model, sample, (x, target) = Mixed(), fl.randn(2, 6), (fl.randn(8, 6), fl.randn(8, 6))
    start = copy.deepcopy(model.state_dict())
    plain = copy.deepcopy(model)
    pipe = Pipeline(model, transport=transport, sample=sample, micro_batches=4)
    threads = Pipeline(cut_alike(pipe.module, plain, sample), transport.size, micro_batches=4)
    for round in range(3):
        optimizers = [fl.optim.Adam(parameters, lr=0.01) for parameters in (plain.parameters(), pipe.local_parameters())]
        for _ in range(2):
            for optimizer in optimizers:
                optimizer.zero_grad()
            losses = []
            for each in (pipe, threads):
                fl.manual_seed(round)
                losses.append(each.step(x, target, mse))
            same(*losses, "loss")
            norm = nn.utils.clip_grad_norm_(plain.parameters(), 1e9)
            found = pipe.clip_grad_norm_(1e9)
            assert abs(float(found) - float(norm)) < 1e-5 * float(norm), (found, norm)
            for optimizer in optimizers:
                optimizer.step()
        check_state(pipe, threads, f"round {round}")
        kept = [key for key, x in here(model) if not x.is_meta]
        for each in (pipe, threads):
            each.load_state_dict(copy.deepcopy(start), assign=round == 1)
        assert [key for key, x in here(model) if not x.is_meta] == kept, "what other ranks have came back"
        mine = {id(p) for p in pipe.local_parameters()}
        assert transport.size == 1 or 0 < len(mine) < len(list(model.parameters()))
        assert all(p.is_meta == (id(p) not in mine) for p in model.parameters())
        pipe.eval(), threads.eval()
        same(pipe(x), threads(x), f"output after loading {round}")
        pipe.train(), threads.train()


def here(model):
    return [*model.named_parameters(), *model.named_buffers()]


class Heavy(nn.Module):
    """A large weight, buffer and constant in each block."""

    def __init__(self, width, blocks):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        for k in range(blocks):
            self.register_buffer(f"table{k}", fl.rand(width, width))

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x) + x @ getattr(self, f"table{k}") * 1e-3
            x = (x * fl.tensor([float(k)] * x.shape[1])).tanh() + x
        return x


def bytes_of(tensors):
    return sum(x.numel() * x.itemsize for x in tensors.values())


@program
def each_process_has_its_own_bytes(transport):
    """After the construction, and after recordings of other sizes."""
    width, blocks = 256, 4 * transport.size
    gc.collect()
    before = fl.memory_stats()["allocated_bytes"]
    model = Heavy(width, blocks)
    whole = fl.memory_stats()["allocated_bytes"] - before
    pipe = Pipeline(model, transport=transport, sample=fl.rand(4, width), micro_batches=2)
    pieces, block = [pipe.module[transport.rank]], 2 * 4 * width * width + 4 * width
    own = sum(bytes_of(dict(piece.named_parameters())) for piece in pieces) + sum(
        4 * width * width for key, x in model.named_buffers() if not x.is_meta
    )
    limit = own + 8 * blocks * 4 * width + 65536  # constants of recordings, which are rows
    assert own < whole / transport.size + 2 * block, (own, whole)
    for again in (lambda: None, lambda: pipe(fl.rand(7, width)), lambda: pipe.eval()(fl.rand(5, width)), lambda: pipe.train().state_dict()):
        again()
        while transport._sending or transport._receiving:
            time.sleep(0)
        gc.collect()
        used = fl.memory_stats()["allocated_bytes"] - before
        transport._comm.Barrier()  # until here nobody sends what belongs to the next call
        assert used <= limit, (used, own, whole)


@program
def failures_of_splits(transport):
    """All ranks raise, and the next pipeline works."""
    me = transport.rank

    class Reads(nn.Module):
        def __init__(self, where, size=None):
            super().__init__()
            self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
            self.where, self.size = where, size

        def forward(self, x):
            y = self.a(x)
            if self.where == me and self.size in (None, x.shape[0]):
                float(y.sum())
            if x.shape[0] == 5:
                y = y.exp()
            for _ in range(transport.size):
                y = self.b(y).tanh()
            return y

    sample, (x, target) = fl.rand(2, 5), batch(8)
    for where in range(transport.size):
        error = CutError if me == where else PipelineError
        text = "reads a value" if me == where else rf"rank {where} failed: .*CutError: .*reads a value[\s\S]*this is rank {me}, in its split"
        expect(error, text, lambda: Pipeline(Reads(where), transport=transport, sample=sample, micro_batches=4))
    last = transport.size - 1
    other = Heavy(5, 3) if me == last else Reads(None)
    pattern = "has cut its module at|could not be cut|is before ops|there can be no cut|expected places"
    expect((CutError, PipelineError), pattern, lambda: Pipeline(other, transport=transport, sample=sample, micro_batches=4))
    pieces = split(Reads(None), sample, at=range(1 + (me == last), transport.size + (me == last)), seconds=0.0)
    expect((CutError, PipelineError), f"rank {last} has cut its module at", lambda: Pipeline(pieces, transport=transport, micro_batches=4))

    fl.manual_seed(3)
    pipe = Pipeline(Reads(last, size=3), transport=transport, sample=sample, micro_batches=4)
    loss = pipe.step(x, target, mse)
    grads = [p.grad.clone() for p in pipe.local_parameters()]
    error = CutError if me == last else PipelineError
    expect(error, "reads a value", lambda: pipe.step(fl.rand(12, 5), fl.rand(12, 5), mse))
    error = CutError if me == 0 else PipelineError
    expect(error, "does something else than for the one that was cut", lambda: pipe(fl.rand(20, 5)))
    pipe.train(me != last)
    error = CutError if me == last else PipelineError
    expect(error, f"the module of rank {last} is in another mode than that of rank 0: train or eval", lambda: pipe(fl.rand(24, 5)))
    pipe.train()
    assert bool(pipe.step(fl.rand(16, 5), fl.rand(16, 5), mse).isfinite())
    assert pipe(fl.rand(24, 5)).shape == (24, 5)  # of the size that not all have recorded before
    for p in pipe.local_parameters():
        p.grad = None
    same(pipe.step(x, target, mse), loss, "loss after failures")
    for p, grad in zip(pipe.local_parameters(), grads):
        same(p.grad, grad, "gradient after failures")
    tokens = fl.randint(0, 11, (4, 6))
    pipe = Pipeline(GPT(), transport=transport, sample=tokens[:2], micro_batches=2)
    pattern = r"in op 0 \(embedding, token, cuts.py:\d+\)[\s\S]*layer '0'[\s\S]*rank 0, stage 0, micro-batch 0, forward \(0F0\)"
    error = Exception if me == 0 else PipelineError
    expect(error, pattern, lambda: pipe.step(tokens + 11, fl.zeros(4), loss_of))
    assert bool(pipe.step(tokens, fl.zeros(4), loss_of).isfinite())


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


# ---------------------------------------------------------------------------------------------------------------------------- failures


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


def expect(error, pattern, function):
    try:
        function()
    except error as caught:
        text = "\n".join([str(caught), *getattr(caught, "__notes__", ())])
        assert re.search(pattern, text), f"{text!r} does not match {pattern!r}"
    else:
        raise AssertionError(f"no {error.__name__}")


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


def main(names):
    say(f"pid {os.getpid()}")
    if names == ["silent"]:
        import flambeau.pipeline._watch as watch

        watch._machine = lambda: ""
    transport = MPITransport(timeout=3.0)
    for name in names:
        PROGRAMS[name](transport)


if __name__ == "__main__":
    main(sys.argv[1:])
