"""What the tests of pipelines share: small models, layers that are functions, gradients, and what they are compared with."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from flambeau import _C, nn
from flambeau.pipeline._executor import seed_here
from flambeau.pipeline._stage import Settings
from flambeau.pipeline.skip import pop, skippable, stash

MODES = ("always", "except_last", "never")
modes = pytest.mark.parametrize("mode", MODES)


def mlp(layers=4, width=6):
    return nn.Sequential(*(layer for _ in range(layers // 2) for layer in (nn.Linear(width, width), nn.Tanh())))


class Call(nn.Module):
    """A layer that is a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@skippable(stash=["skip"])
class Stash(nn.Module):
    def __init__(self, what=lambda x: x * 3):
        super().__init__()
        self.what = what

    def forward(self, x):
        yield stash("skip", self.what(x))
        return x * 2


@skippable(pop=["skip"])
class Pop(nn.Module):
    def __init__(self, use=lambda x, skip: x + skip):
        super().__init__()
        self.use = use

    def forward(self, x):
        skip = yield pop("skip")
        return self.use(x, skip)


def gradients(model, x, loss=lambda y: y.square().sum()):
    """Output, gradient of the input, gradients of the parameters."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = model(x)
    loss(y).backward()
    return y.detach(), x.grad, [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_close(a, b, tol=1e-6):
    """Of tensors, None, and nests of them; relative to the largest element of `b`, or 1."""
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_close(x, y, tol)
    elif a is None or b is None:
        assert a is b
    else:
        assert a.shape == b.shape
        assert a.numel() == 0 or float((a - b).abs().max()) <= tol * max(1.0, float(b.abs().max()))


@contextmanager
def layer_seeds():
    """Gives the seed of a layer and a micro-batch, for who runs a model as a pipeline would that was called at this moment.

    Seeds are for the generator of this thread, which is one of its own within the scope: see Note [Random numbers of a pipeline].
    """
    settings = Settings(seed_here(), True, {})
    generator = _C.Generator()
    _C.set_thread_generator(generator)
    try:
        yield lambda layer, micro: generator.manual_seed(settings.seed_of(layer, micro))
    finally:
        _C.set_thread_generator(None)
