"""What programs of MPI jobs share: how they are registered, models, and comparisons."""

from __future__ import annotations

import os
import re

import flambeau as fl
from flambeau import nn

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


class Call(nn.Module):
    """A layer that is a function, over modules."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.inner = function, nn.ModuleList(modules)

    def forward(self, x):
        return self.function(x, *self.inner)


def mlp(layers=8, width=5):
    return nn.Sequential(*(layer for _ in range(layers // 2) for layer in (nn.Linear(width, width), nn.Tanh())))


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


def batch(samples):
    fl.manual_seed(5)
    return fl.randn(samples, 5), fl.randn(samples, 5)


def nll(y, target):
    return nn.functional.nll_loss(y.flatten(0, 1), target.flatten())


def copied_state(model, pipe):
    model.load_state_dict(pipe.state_dict())
    return model


def here(model):
    return [*model.named_parameters(), *model.named_buffers()]


def bytes_of(tensors):
    return sum(x.numel() * x.itemsize for x in tensors.values())


def expect(error, pattern, function):
    try:
        function()
    except error as caught:
        text = "\n".join([str(caught), *getattr(caught, "__notes__", ())])
        assert re.search(pattern, text), f"{text!r} does not match {pattern!r}"
    else:
        raise AssertionError(f"no {error.__name__}")
