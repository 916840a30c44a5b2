"""Models that `split` cuts, and how tests look at them."""

from __future__ import annotations

import random

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._cut import split

F = nn.functional


class Residual(nn.Module):
    """A convolutional block with batch norms, written in place where that can be."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y))
        y += x
        return F.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.ModuleList(Residual(4) for _ in range(3))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """Long skips, by name nowhere."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(3 if k == 0 else 4, 4, 3, padding=1) for k in range(3))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(4, 4, 2, stride=2) for _ in range(2))
        self.up = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        skips = []
        for down in self.down[:-1]:
            x = F.relu(down(x))
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for grow, up in zip(self.grow, self.up):
            x = F.relu(up(fl.cat([grow(x), skips.pop()], 1)))
        return self.last(x)


class Block(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(p))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (part.view(n, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(c, dim=2))
        scores = (q @ k.transpose(2, 3)) * (c // self.heads) ** -0.5
        mask = fl.ones(t, t).tril() == 0
        weights = F.dropout(scores.masked_fill(mask, -1e9).softmax(-1), self.p, self.training)
        y = (weights @ v).transpose(1, 2).reshape(n, t, c)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tied: the embedding is the head's weight, too."""

    def __init__(self, p=0.0, blocks=3):
        super().__init__()
        self.token, self.position = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList(Block(8, 2, p) for _ in range(blocks))
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(fl.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class Nests(nn.Module):
    """A dict goes in, with integers, and a dict comes out; some of it has no gradient."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.out = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("scale", fl.full((4,), 0.5))

    def forward(self, batch):
        x = self.embed(batch["ids"]) * self.scale + batch["pair"][0]
        x = self.mix(x).tanh() * batch["pair"][1].unsqueeze(1)
        y = self.out(x)
        return {"logits": y, "best": (y.argmax(1), y.max(1)[0]), "name": "nests", "none": None}


class Stopped(nn.Module):
    """Gradients that are stopped, and writes to parts of tensors."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = self.a(x)
        z = y.detach() * y + (y.round() - y).detach()
        with fl.no_grad():
            gate = y.exp()
            gate /= gate.sum(1, keepdim=True)
        w = z * gate * (y * y.detach())
        w[:, :2] = y[:, 4:]
        w[:, 2] = 1.0
        w[:, 3:5].mul_(2)
        e = fl.empty(w.shape)
        e[:, ::2] = w[:, 1::2]
        e[:, 1::2] = w[:, ::2].exp().clamp(max=3.0)
        return self.b(e) + self.a.weight.detach().sum(), y.detach()


class Tangle(nn.Module):
    """Random layers over random earlier values, with writes, views, stops and dropout."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.linears = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        rng = random.Random(self.seed)
        values = [x, self.linears[0](x)]
        for _ in range(10):
            a, b = rng.choice(values), rng.choice(values)
            kind = rng.randrange(9)
            if kind == 0:
                y = self.linears[rng.randrange(3)](a)
            elif kind == 1:
                y = a * 0.5 + b.tanh()
            elif kind == 2:
                y = self.norm(a)
            elif kind == 3:
                y = F.dropout(a, 0.3, self.training)
            elif kind == 4:
                y = fl.cat([a[:, 2:], b[:, :2]], 1)
            elif kind == 5:
                y = (a + b).relu_()
            elif kind == 6:
                y = a.clone()
                y[:, 1:3] = b[:, :2].sigmoid()
            elif kind == 7:
                y = a.detach() * b
            else:
                y = a.t().reshape(4, -1).t() - b.max(1, keepdim=True)[0]
            values.append(y)
        return values[-1] + values[-2], values[-3]


class Checkpointed(nn.Module):
    """Its first part is run a second time in backward."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 5), nn.Tanh())
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        return self.last(fl.utils.checkpoint.checkpoint(self.first, x, use_reentrant=False))


MODELS = {
    "resnet": (ResNet, lambda n: fl.randn(n, 3, 6, 6)),
    "unet": (UNet, lambda n: fl.randn(n, 3, 8, 8)),
    "gpt": (GPT, lambda n: fl.randint(0, 11, (n, 6))),
    "nests": (Nests, lambda n: {"ids": fl.randint(0, 7, (n,)), "pair": (fl.randn(n, 4), fl.rand(n))}),
    "stopped": (Stopped, lambda n: fl.randn(n, 6)),
    "checkpointed": (Checkpointed, lambda n: fl.randn(n, 5)),
    "sequential": (lambda: nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)), lambda n: fl.randn(n, 5)),
}


def tensors(value):
    if isinstance(value, fl.Tensor):
        return [value]
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [x for entry in entries for x in tensors(entry)]


def loss_of(output, target=None):
    parts = [x for x in tensors(output) if x.is_floating_point()]
    return sum((x.double() * x.double().sin()).mean() for x in parts)


def quick(module, sample, stages=None, **options):
    return split(module, sample, stages, seconds=0.0, **options)


def cut_by_size():
    """From now on `split` goes by bytes where it is not told otherwise, as by a pipeline: quick, and the same whatever else runs here.

    Times of one sweep are not: an op that was interrupted is the dearest, and has a stage to itself.
    """
    split.__kwdefaults__["by"] = "size"


def places(module, sample):
    """All positions where a cut may lie."""
    return quick(module, sample, 1)[0].recordings.programs[0]


def backward_of(model, run, x):
    """Outputs and gradients."""
    model.zero_grad()
    output = run(x)
    loss_of(output).backward()
    return [y.detach() for y in tensors(output)] + [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert (x is None) == (y is None)
        assert x is None or fl.equal(x, y), float((x - y).abs().max())


class Call(nn.Module):
    """A module that is a function."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.spare = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.function = function

    def forward(self, x):
        return self.function(self, x)
