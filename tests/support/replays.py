"""What tests of `compile` look at."""

from __future__ import annotations

import flambeau as fl

CALLS = 9  # past several of the calls that are recorded again


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, fl.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and a.detach().double().numpy().tobytes() == b.detach().double().numpy().tobytes()
    return a == b


def replayed(f):
    return "replayed" in fl.compiler.explain(f)
