"""Modules of any kind, cut alike by all processes."""

from __future__ import annotations

import copy
import gc
import random
import time

from cuts import GPT, Nests, ResNet, Tangle, UNet, loss_of, places, tensors
from mpi_common import (
    SCHEDULES,
    batch,
    bytes_of,
    check_state,
    copied_state,
    expect,
    here,
    mse,
    program,
    same,
)

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import CutError, Pipeline, Schedule, split
from flambeau.pipeline._transport import PipelineError


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
    for seed in range(12):
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
