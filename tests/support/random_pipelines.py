"""Random models, their cuts and schedules, and what plain execution of the same micro-batches gives."""

from __future__ import annotations

from dataclasses import dataclass

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.skip import Namespace, pop, skippable, stash
from support.pipelines import MODES, Call, layer_seeds

W, T, C, H = 4, 3, 2, 4  # width of vectors, length of sequences, channels and height of images


# ---- layers: each works on a tensor, or on the first of a tuple, and the others go along


class First(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, value):
        return (self.layer(value[0]), *value[1:]) if isinstance(value, tuple) else self.layer(value)


class Residual(nn.Module):
    """x plus what a layer makes of it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return x + self.layer(x)


class Scale(nn.Module):
    """Has one parameter, 0-d."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fl.tensor(1.5))

    def forward(self, x):
        return x * self.weight


def first_of(value):
    return value[0] if isinstance(value, tuple) else value


def numbers(x):
    """An integer of each sample."""
    return x.flatten(1).argmax(1)


def joined(x, other):
    """x times something of `other`, one number a sample, whatever their shapes are; other: floats, integers, None."""
    if other is None:
        return x * 2
    one = other.flatten(1).mean(1) if other.is_floating_point() else (other % 3).float() - 0.5
    return x * (one + 1).view(-1, *[1] * (x.dim() - 1))


def push(value, made):
    return (*value, made) if isinstance(value, tuple) else (value, made)


def add_numbers(value):
    return push(value, numbers(first_of(value)))


def add_floats(value):
    x = first_of(value)
    return push((x * 1, *value[1:]) if isinstance(value, tuple) else x * 1, x * 0.5)


def join_last(value):
    x = joined(value[0], value[-1])
    return (x, *value[1:-1]) if len(value) > 2 else x


STASHED = [lambda x: x.sin(), lambda x: x.detach(), numbers, lambda x: None, lambda x: x]


@skippable(stash=["skip"])
class Stash(nn.Module):
    """Stashes `what` of its input."""

    def __init__(self, what, layer=None):
        super().__init__()
        self.what, self.layer = what, Scale() if layer is None else layer

    def forward(self, value):
        x = first_of(value)
        yield stash("skip", self.what(x))
        x = self.layer(x)
        return (x, *value[1:]) if isinstance(value, tuple) else x


@skippable(pop=["skip"])
class Pop(nn.Module):
    def __init__(self, use=joined):
        super().__init__()
        self.use = use

    def forward(self, value):
        skip = yield pop("skip")
        x = self.use(first_of(value), skip)
        return (x, *value[1:]) if isinstance(value, tuple) else x


# ---- models


ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid, nn.SiLU, nn.Identity, lambda: Call(lambda x: x.sin())]
IN_PLACE = [lambda: nn.ReLU(inplace=True), lambda: nn.LeakyReLU(0.1, inplace=True), lambda: nn.Dropout(0.3, inplace=True)]
DROPOUTS = [lambda: nn.Dropout(0.3), lambda: nn.Dropout(0.0)]
OF_ROWS = [lambda: nn.Linear(W, W), lambda: nn.LayerNorm(W), lambda: Residual(nn.Linear(W, W)), Scale]
MIXING = {  # whose backward does not read what they return, so that the next may write it in place
    "vector": OF_ROWS,
    "sequence": [*OF_ROWS, lambda: nn.Conv1d(T, T, 3, padding=1), lambda: nn.BatchNorm1d(T)],
    "image": [
        lambda: nn.Conv2d(C, C, 3, padding=1), lambda: nn.BatchNorm2d(C), lambda: nn.GroupNorm(1, C), Scale,
        lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.Conv2d(C, C, 1, bias=False),
    ],
}  # fmt: skip
TO_VECTOR = {
    "sequence": lambda: Call(lambda x: x.mean(1)),
    "image": lambda: nn.Sequential(nn.Flatten(), nn.Linear(C * H * H, W)),
}


class Builder:
    """Layers one after the other, and what the value is between them."""

    def __init__(self, r, begin, along, cuts_gradients=True):
        self.cuts_gradients = cuts_gradients
        self.r, self.kind, self.along = r, begin, along  # along: how many tensors come after the first
        self.layers, self.open = [], []  # open: namespaces of what is stashed and not popped
        self.may_write = False  # whether the next layer may write its input in place
        if begin == "tokens":
            self.kind = "sequence"
            self.add(nn.Embedding(9, W))

    def add(self, layer, may_write=False):
        """One that works on the first tensor."""
        self.layers.append(First(layer) if self.along else layer)
        self.may_write = may_write

    def add_whole(self, layer):
        """One that takes the tuple as it is."""
        self.layers.append(layer)
        self.may_write = False

    def one(self):
        r = self.r
        what = r.random()
        if self.may_write and what < 0.5:
            self.add(r.choice(IN_PLACE)())
        elif what < 0.35:
            self.add(r.choice(MIXING[self.kind])(), may_write=True)
        elif what < 0.55:
            self.add(r.choice(ACTIVATIONS)())
        elif what < 0.65:
            self.add(r.choice(DROPOUTS)())
        elif what < 0.78:
            self.other()
        elif what < 0.95:
            self.skip()
        elif what < 0.97 and self.cuts_gradients:
            self.add(Call(lambda x: x.detach()))
        elif self.kind != "vector":
            self.to_vector()

    def other(self):
        if self.along and self.r.random() < 0.5:
            self.along -= 1
            self.add_whole(Call(join_last))
        else:
            self.along += 1
            self.add_whole(Call(self.r.choice([add_numbers, add_floats])))

    def skip(self):
        if self.open and self.r.random() < 0.6:
            space = self.open.pop(self.r.randrange(len(self.open)))
            self.add_whole(Pop().isolate(space))
        elif len(self.open) < 3:
            self.open.append(Namespace())
            self.add_whole(Stash(self.r.choice(STASHED), self.r.choice(MIXING[self.kind])()).isolate(self.open[-1]))

    def to_vector(self):
        self.add(TO_VECTOR[self.kind]())
        self.kind = "vector"

    def finish(self):
        """Pops what is left, and ends with a layer that is trained, on vectors."""
        for space in self.open:
            self.add_whole(Pop().isolate(space))
        if self.kind != "vector":
            self.to_vector()
        for layer in self.layers:
            layer.requires_grad_(self.r.random() < 0.8)
        self.add(nn.Linear(W, 3))
        return nn.Sequential(*self.layers)


def random_batch(r, samples):
    """The kind of the first tensor, how many go along with it, and the batch."""
    begin = r.choice(["vector", "sequence", "image", "tokens"])
    shape = {"vector": (W,), "sequence": (T, W), "image": (C, H, H), "tokens": (T,)}[begin]
    x = fl.randint(0, 9, (samples, *shape)) if begin == "tokens" else fl.randn(samples, *shape)
    others = [r.choice([fl.arange(samples), fl.randn(samples, W)]) for _ in range(r.choice([0, 0, 1, 2]))]
    return begin, len(others), (x, *others) if others else x


def random_model(r, begin, along, least, cuts_gradients=True):
    """With at least so many layers; `cuts_gradients`: some may let no gradient pass."""
    builder = Builder(r, begin, along, cuts_gradients)
    wanted = least + r.randint(0, 6)
    while len(builder.layers) < wanted - 1:
        builder.one()
    return builder.finish()


# ---- pipelines


@dataclass
class Plan:
    """How a model is run."""

    schedule: Schedule
    balance: list[int]
    checkpoint: str

    def pipeline(self, model):
        ranks, micro_batches = len(self.schedule.ranks), self.schedule.micro_batches
        options = {"schedule": self.schedule, "checkpoint": self.checkpoint, "balance": self.balance}
        return Pipeline(model, ranks, micro_batches=micro_batches, **options)

    @property
    def full(self):
        return self.schedule.with_recompute(self.checkpoint)

    def stage_of(self, layer):
        return next(s for s in range(len(self.balance)) if layer < sum(self.balance[: s + 1]))

    def order(self, stage, ops, micro_batches):
        """The micro-batches of the stage's actions with these letters."""
        return [a.micro for _, a in self.full if a.stage == stage and a.op in ops and a.micro < micro_batches]


def random_schedule(r, names):
    name, ranks, micro_batches = r.choice(names), r.randint(1, 4), r.randint(1, 6)
    options = {}
    if name in ("interleaved", "looped-bfs"):
        options = {"chunks": r.randint(1, 3)}
    elif name == "1f1b":
        options = {"warm_up": r.randint(0, 6)}
    elif name == "dualpipe-v":
        micro_batches = max(micro_batches, 2 * ranks)
    return Schedule.make(name, ranks, micro_batches, **options)


def has_convolution(model):
    return any(isinstance(layer, (nn.Conv1d, nn.Conv2d)) for layer in model.modules())


def writes_first(layer):
    layer = layer.layer if isinstance(layer, First) else layer
    return bool(getattr(layer, "inplace", False))


def random_plan(r, schedule, model):
    """A cut, and what is computed again: nothing where a stage begins by writing its input, which could not be."""
    cuts = [0, *sorted(r.sample(range(1, len(model)), schedule.stages - 1)), len(model)]
    writes = any(writes_first(model[at]) for at in cuts[:-1])
    checkpoint = "never" if writes else r.choice(MODES)
    return Plan(schedule, [b - a for a, b in zip(cuts, cuts[1:])], checkpoint)


def mean_loss(y, target):
    floats = [t for t in tensors_of(y) if t.is_floating_point()]
    return sum((t.flatten(1) - target.view(-1, 1)).square().mean() for t in floats)


def sum_loss(y, target):
    """One whose gradients do not depend on the size of the batch."""
    floats = [t for t in tensors_of(y) if t.is_floating_point()]
    return sum((t.flatten(1) - target.view(-1, 1)).square().sum() for t in floats)


def fresh(batch, wants):
    """Leaves of their own."""
    wanted = iter(wants)
    return map_tensors(batch, lambda x: x.detach().clone().requires_grad_(next(wanted)))


def wants_of(r, batch):
    return [t.is_floating_point() and r.random() < 0.5 for t in tensors_of(batch)]


def plain(model, plan, batch, wants, pairs, weights, loss_fn):
    """Loss, gradients of the batch's tensors and of the parameters, of one micro-batch after the other without a pipeline."""
    params = [(p, at) for at, layer in enumerate(model) for p in layer.parameters()]
    trained = [(p, at) for p, at in params if p.requires_grad]
    losses, of_inputs, of_params = [], [], []
    with layer_seeds() as seed:
        for i, (piece, target) in enumerate(pairs):
            value = piece = fresh(piece, wants)
            for at, layer in enumerate(model):
                seed(at, i)
                value = layer(value)
            losses.append(loss_fn(value, target))
            leaves = [t for t in tensors_of(piece) if t.requires_grad]
            dy = fl.full_like(losses[-1], weights[i])
            found = fl.autograd.grad(losses[-1], [*leaves, *(p for p, _ in trained)], dy, allow_unused=True)
            of_inputs.append(found[: len(leaves)])
            of_params.append(dict(zip((id(p) for p, _ in trained), found[len(leaves) :])))
    loss = losses[0].detach() * weights[0]
    for y, weight in zip(losses[1:], weights[1:]):
        loss = loss + y.detach() * weight
    sizes = [len(tensors_of(piece)[0]) for piece, _ in pairs]
    return [loss, *inputs_of(batch, wants, of_inputs, sizes), *(total(p, at, plan, of_params) for p, at in params)]


def inputs_of(batch, wants, found, sizes):
    wanted = [t for t, wants_it in zip(tensors_of(batch), wants) if wants_it]
    for k, x in enumerate(wanted):
        column = [pieces[k] for pieces in found]
        if all(dx is None for dx in column):
            yield None
        else:
            yield fl.cat([fl.zeros(n, *x.shape[1:]) if dx is None else dx for n, dx in zip(sizes, column)])


def total(p, at, plan, found):
    grads = [found[i].get(id(p)) for i in plan.order(plan.stage_of(at), "BW", len(found))]
    grads = [dp for dp in grads if dp is not None]
    return sum(grads[1:], grads[0]) if grads else None


def results(model, batch, wants, step):
    """As `plain`, of `step`, which is called with the batch and gives the loss."""
    model.zero_grad()
    batch = fresh(batch, wants)
    loss = step(batch)
    leaves = [t for t in tensors_of(batch) if t.requires_grad]
    return [loss.detach(), *(t.grad for t in leaves), *(p.grad for p in model.parameters())]
