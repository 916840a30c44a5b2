"""PyTorch's own sample inputs: each op's samples, as arguments of both libraries, and what both make of them.

    for case in samples_of("linalg.solve", "", torch.float64): compare(case)
"""

from __future__ import annotations

import operator
import sys
import types
import unittest
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from beside import TOLERANCES, assert_same, dtype_name, torch, values, wide

import flambeau as fl


def _op_db():
    if "expecttest" not in sys.modules:  # imported by PyTorch's test helpers for the sake of one base class
        try:
            import expecttest  # noqa: F401
        except ImportError:
            sys.modules["expecttest"] = types.ModuleType("expecttest")
            sys.modules["expecttest"].TestCase = unittest.TestCase
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


@dataclass
class Case:
    """One sample: the names of its op, and PyTorch's arguments."""

    name: str
    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        def shown(v):
            return f"{dtype_name(v)}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)

        return f"{self.name}({', '.join([*map(shown, self.args), *(f'{k}={shown(v)}' for k, v in self.kwargs.items())])})"


def entries(*prefixes):
    """(name, variant) of the entries whose names begin with one of these."""
    return [(op.name, op.variant_test_name) for op in _op_db() if any(op.name == p or op.name.startswith(p + ".") for p in prefixes)]


def samples_of(name, variant, dtype, most=60):
    for op in _op_db():
        if (op.name, op.variant_test_name) != (name, variant) or dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for k, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            if k == most:
                return
            yield Case(name, op, (sample.input, *sample.args), dict(sample.kwargs))


def errors_of(name, variant):
    for op in _op_db():
        if (op.name, op.variant_test_name) == (name, variant) and op.error_inputs_func is not None:
            for error in op.error_inputs("cpu"):
                sample = error.sample_input
                yield Case(name, op, (sample.input, *sample.args), dict(sample.kwargs))


def ours_of(v, grad):
    """The same argument of this library: tensors with their strides, types by name."""
    if isinstance(v, torch.Tensor):
        plain = v.detach()
        base = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage()) if plain.numel() else plain
        x = fl.tensor(base.numpy().copy()) if plain.numel() else fl.zeros(tuple(v.shape), dtype=getattr(fl, dtype_name(v)))
        x = fl.as_strided(x, tuple(plain.shape), plain.stride(), plain.storage_offset()) if plain.numel() else x
        return x.detach().requires_grad_() if grad and (x.is_floating_point() or x.is_complex()) else x
    if isinstance(v, torch.dtype):
        return getattr(fl, str(v).removeprefix("torch."))
    if isinstance(v, torch.Size):
        return tuple(v)
    if isinstance(v, (list, tuple)):
        return type(v)(ours_of(e, grad) for e in v)
    return v


def theirs_of(v, grad):
    if isinstance(v, torch.Tensor):
        return v.detach().clone(memory_format=torch.preserve_format).requires_grad_(grad and (v.is_floating_point() or v.is_complex()))
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        return type(v)(theirs_of(e, grad) for e in v)
    return v


def leaves(v):
    if isinstance(v, (list, tuple)):
        return [x for e in v for x in leaves(e)]
    if isinstance(v, dict):
        return leaves(list(v.values()))
    return [v] if hasattr(v, "requires_grad") else []


def flat(result):
    return [x for e in result for x in flat(e)] if isinstance(result, (tuple, list)) else [result]


def function_of(lib, name):
    return reduce(getattr, name.split("."), lib)


def _weighted(x, weights):
    """A real number, to which real and imaginary parts contribute."""
    if not x.is_complex():
        return (x * weights.to(x.dtype)).sum()
    return (x.real * weights.to(x.real.dtype)).sum() + (x.imag * weights.flip(-1).to(x.real.dtype) if x.ndim else x.imag * 0.5).sum()


def compare(case, shown=lambda lib, case, result: result, gradients=True, scale=1.0, call=None):
    """Results of both, as `shown` makes them comparable, and the gradients of the sum of all with fixed weights."""
    what = str(case)
    theirs, theirs_kw = theirs_of(case.args, gradients), {k: theirs_of(v, gradients) for k, v in case.kwargs.items()}
    ours, ours_kw = ours_of(case.args, gradients), {k: ours_of(v, gradients) for k, v in case.kwargs.items()}
    want = flat(shown(torch, case, case.op.op(*theirs, **theirs_kw)))
    got = flat(shown(fl, case, (call or function_of(fl, case.name))(*ours, **ours_kw)))
    assert len(got) == len(want), what
    for a, b in zip(got, want):
        assert_same(a, b, scale=scale, what=what)
    pairs = [(a, b) for a, b in zip(got, want) if isinstance(b, torch.Tensor) and b.requires_grad]
    if not gradients or not pairs:
        return
    pairs = [(a, b) for a, b in pairs if a.requires_grad]  # what follows from nothing has the gradient 0 there
    if not pairs:
        return
    rng = np.random.default_rng(7)
    weights = [rng.standard_normal(tuple(b.shape)) for _, b in pairs]
    reduce(operator.add, [_weighted(b, torch.as_tensor(w)) for (_, b), w in zip(pairs, weights)]).backward()
    reduce(operator.add, [_weighted(a, fl.tensor(w)) for (a, _), w in zip(pairs, weights)]).backward()
    for k, (a, b) in enumerate(zip(leaves([ours, ours_kw]), leaves([theirs, theirs_kw]))):
        if not b.requires_grad:
            continue
        g, w = (np.zeros(tuple(x.shape)) if x.grad is None else wide(values(x.grad)) for x in (a, b))
        rtol, atol = TOLERANCES[dtype_name(b)]
        size = max(1.0, float(np.nanmax(np.abs(w)))) if w.size and np.isfinite(w).any() else 1.0
        np.testing.assert_allclose(g, w, rtol=rtol * scale * 10, atol=atol * scale * 10 * size, equal_nan=True, err_msg=f"{what}: gradient {k}")
