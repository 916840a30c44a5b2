"""Random programs, run by both libraries: a case is Python source in which L is the library and `out` collects results.

A test draws its cases from a seed and a number, so that every one can be made again alone. What differs is reported with
the source, which runs as it is after `import flambeau as L` or `import torch as L` and `out = []; nan, inf = ...`.
"""

from __future__ import annotations

import collections
import copy
import io
import math
import random
import re
import sys
import warnings
from dataclasses import dataclass

import numpy as np
from beside import TOLERANCES, dtype_name, torch, values, wide

import flambeau as fl

# An error of either library may be of any of these kinds; anything else (AttributeError, MemoryError) is a difference.
ERRORS = (IndexError, ValueError, TypeError, RuntimeError, KeyError, OverflowError, ZeroDivisionError)
SHOWN = 5


@dataclass(frozen=True)
class Deliberate:
    """A difference that is meant: cases whose source or PyTorch's error matches `pattern`, and why."""

    pattern: str
    reason: str

    def covers(self, text: str) -> bool:
        return re.search(self.pattern, text, re.DOTALL) is not None


UNIMPLEMENTED = (Deliberate("there: .*not implemented for", "PyTorch has no kernel for the type"),)


class Outcome:
    """What a program left in `out`, and the line that raised, if one did."""

    def __init__(self, lib, code):
        self.out = []
        self.error = None
        self.line = None
        names = {"L": lib, "out": self.out, "nan": math.nan, "inf": math.inf, "np": np, "copy": copy, "io": io, "collections": collections}
        try:
            exec(code, names)  # noqa: S102 - the test's own text
        except Exception as error:
            self.error = error
            trace = error.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == "<case>" and trace.tb_frame.f_code.co_name == "<module>":
                    self.line = trace.tb_lineno
                trace = trace.tb_next


def _is_number(v):
    return isinstance(v, (bool, int, float, np.number, np.bool_))


def difference(ours, theirs, scale=1.0):
    """None, or in words where two results differ."""
    if isinstance(theirs, torch.Tensor):
        return _difference_of_tensors(ours, theirs, scale)
    if isinstance(theirs, dict):
        if type(ours).__name__ != type(theirs).__name__ or list(ours) != list(theirs):
            return f"{type(ours).__name__} of {list(ours)} here, {type(theirs).__name__} of {list(theirs)} there"
        pairs = [(ours[k], theirs[k]) for k in theirs]
    elif isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return f"{_short(ours)} here, {_short(theirs)} there"
        pairs = list(zip(ours, theirs))
    elif _is_number(theirs):
        if not _is_number(ours) or isinstance(ours, bool) != isinstance(theirs, bool):
            return f"{_short(ours)} here, {_short(theirs)} there"
        return None if math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-7) or (ours != ours and theirs != theirs) else f"{ours} here, {theirs} there"
    else:
        return None if ours == theirs else f"{_short(ours)} here, {_short(theirs)} there"
    for i, (a, b) in enumerate(pairs):
        found = difference(a, b, scale)
        if found:
            return f"[{i}] {found}"
    return None


def _short(v):
    return f"{type(v).__name__} {str(v)[:200]}"


def _difference_of_tensors(ours, theirs, scale):
    if not isinstance(ours, fl.Tensor) or type(ours).__name__ != type(theirs).__name__:
        return f"{_short(ours)} here, {type(theirs).__name__} there"
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shape {tuple(ours.shape)} here, {tuple(theirs.shape)} there"
    if dtype_name(ours) != dtype_name(theirs):
        return f"{ours.dtype} here, {theirs.dtype} there"
    if ours.requires_grad != theirs.requires_grad:
        return f"requires_grad {ours.requires_grad} here, {theirs.requires_grad} there"
    a, b = values(ours), values(theirs)
    if a.dtype.kind in "fc":
        rtol, atol = (scale * t for t in TOLERANCES[dtype_name(theirs)])
        same = np.allclose(wide(a), wide(b), rtol=rtol, atol=atol, equal_nan=True)
    else:
        same = np.array_equal(a, b)
    return None if same else f"{a.tolist()} here, {b.tolist()} there"


def compare(source, scale=1.0):
    """None, or how the two libraries differ at this program."""
    code = compile(source, "<case>", "exec")
    there = Outcome(torch, code)
    here = Outcome(fl, code)
    if there.error is not None and not isinstance(there.error, ERRORS):
        return f"no program for PyTorch: {there.error!r}"
    if (here.error is None) != (there.error is None) or here.line != there.line:
        return f"line {here.line} raises here: {here.error!r}; line {there.line} there: {str(there.error)[:300]!r}"
    if here.error is not None and (not isinstance(here.error, ERRORS) or not str(here.error)):
        return f"raises {here.error!r} here"
    return difference(here.out, there.out, scale)


def check(make, seed, count, deliberate=(), scale=1.0):
    """Runs `count` programs make(rng) of a seed; fails with those that differ and that no entry of `deliberate` covers."""
    failures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            source = make(random.Random(f"{seed}/{number}"))
            found = compare(source, scale)
            if found and not any(d.covers(f"{source}\n{found}") for d in deliberate):
                failures.append(f"seed {seed}, case {number}: {found}\n{source}")
    if failures:
        sys.stdout.write("\n\n".join(failures))
        raise AssertionError(f"{len(failures)} of {count} programs differ from PyTorch:\n\n" + "\n\n".join(failures[:SHOWN]))


# ---- pieces of source


def tensor(rng, shape, dtype, values_of=None):
    """L.tensor(...) of random values: small integers, halves for floating types, now and then NaN, inf or an extreme."""

    def one():
        if values_of is not None:
            return values_of(rng)
        if dtype == "bool":
            return str(rng.random() < 0.5)
        if dtype.startswith(("int", "uint")):
            low, high = (0, 255) if dtype == "uint8" else (-(2 ** (int(dtype[3:]) - 1)), 2 ** (int(dtype[3:]) - 1) - 1)
            return str(rng.choice([low, high]) if rng.random() < 0.1 else rng.randint(0 if low == 0 else -5, 9))
        return rng.choice(["nan", "inf", "-inf", "-0.0"]) if rng.random() < 0.08 else str(rng.randint(-8, 12) / 2)

    def nested(axes):
        return one() if not axes else "[" + ", ".join(nested(axes[1:]) for _ in range(axes[0])) + "]"

    if 0 in shape:
        return f"L.zeros({shape}, dtype=L.{dtype})"
    return f"L.tensor({nested(shape)}, dtype=L.{dtype})"


def shape_of(rng, most=3, largest=4, empty=0.06):
    return tuple(0 if rng.random() < empty else rng.randint(1, largest) for _ in range(rng.randint(0, most)))


def broadcastable(rng, shape):
    """A shape that broadcasts against `shape`, mostly."""
    out = [1 if rng.random() < 0.25 else n for n in shape]
    out = out[rng.randint(0, len(out)) if rng.random() < 0.3 and out else 0 :]
    if rng.random() < 0.04 and out:
        out[rng.randrange(len(out))] += 1
    return tuple(out)
