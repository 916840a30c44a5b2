"""The same program in eager mode and while it is recorded: the same bits."""

from __future__ import annotations

import contextlib

import flambeau as fl
from support.compare import bits


def forms(values):
    """Types, shapes and bits of tensors; other things are themselves."""
    found = []
    for x in values:
        if isinstance(x, (tuple, list)):
            found.append(forms(x))
        elif isinstance(x, fl.Tensor):
            found.append((str(x.dtype), tuple(x.shape), tuple(x.stride()), bits(x)))
        else:
            found.append(x)
    return found


def both(program, *args, seed=7):
    """Runs it eagerly, under lazy with its results read at the end, and under lazy with its results read inside."""
    found = []
    for region, inside in ((contextlib.nullcontext(), False), (fl.lazy(), False), (fl.lazy(), True)):
        fl.manual_seed(seed)
        with region:
            values = program(*args)
            values = values if isinstance(values, (tuple, list)) else [values]
            if inside:
                values = forms(values)
        found.append(values if inside else forms(values))
        found[-1].append(fl.rand(2).tolist())  # the generator is where it was
    assert found[1] == found[0] and found[2] == found[0]
