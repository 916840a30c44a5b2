"""Runs the same code on both libraries and compares: beside(lambda lib, x, y: lib.add(x, y), a, b)."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

torch = pytest.importorskip("torch", reason="torch is not installed; `make parity` installs it")

# rtol, atol by the type of the result.
TOLERANCES = {"float64": (1e-9, 1e-10), "float32": (3e-5, 3e-5), "float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2)}
TOLERANCES |= {"complex32": TOLERANCES["float16"], "complex128": TOLERANCES["float64"], "complex64": TOLERANCES["float32"]}


def randn(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed + 31 * len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def as_ours(v, grad=False):
    if isinstance(v, np.ndarray):
        x = fl.tensor(v)
        return x.requires_grad_() if grad and x.is_floating_point() else x
    if isinstance(v, (list, tuple)):
        return type(v)(as_ours(e, grad) for e in v)
    return v


def as_theirs(v, grad=False):
    if isinstance(v, np.ndarray):
        x = torch.tensor(v)
        return x.requires_grad_() if grad and x.is_floating_point() else x
    if isinstance(v, (list, tuple)):
        return type(v)(as_theirs(e, grad) for e in v)
    return v


def dtype_name(x):
    return str(x.dtype).rsplit(".", 1)[-1]


def values(x):
    x = x.detach()
    return (x.float() if dtype_name(x) == "bfloat16" else x.cfloat() if dtype_name(x) == "complex32" else x).resolve_conj().numpy()


def wide(x):
    """An array in the widest type of its kind."""
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def assert_same(ours, theirs, strides=False, scale=1.0, what=""):
    """Shape, type, values with NaN and infinities, and strides where PyTorch's are a promise (views)."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), what
        for a, b in zip(ours, theirs):
            assert_same(a, b, strides, scale, what)
        return
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs or (ours != ours and theirs != theirs), what
        return
    assert tuple(ours.shape) == tuple(theirs.shape), f"{what}: {tuple(ours.shape)} and {tuple(theirs.shape)}"
    assert dtype_name(ours) == dtype_name(theirs), f"{what}: {ours.dtype} and {theirs.dtype}"
    if strides and theirs.numel() > 0:
        assert ours.stride() == theirs.stride(), what
    rtol, atol = TOLERANCES.get(dtype_name(theirs), (0.0, 0.0))
    np.testing.assert_allclose(
        wide(values(ours)), wide(values(theirs)), rtol=rtol * scale, atol=atol * scale, equal_nan=True, err_msg=what
    )


def _flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def beside(function, *args, grad=True, strides=False, scale=1.0):
    """function(lib, *args) on both; and, with `grad`, the gradients of all floating point arguments."""
    ours, theirs = [as_ours(a, grad) for a in args], [as_theirs(a, grad) for a in args]
    got, want = function(fl, *ours), function(torch, *theirs)
    assert_same(got, want, strides, scale)
    if not grad:
        return
    pairs = [(a, b) for a, b in zip(_flat(got), _flat(want)) if isinstance(b, torch.Tensor) and b.requires_grad]
    if not pairs:
        return
    for a, b in pairs:
        assert a.requires_grad
    loss_a = sum(((a * as_ours(w)).sum() for (a, _), w in zip(pairs, _weights(pairs))), fl.tensor(0.0))
    loss_b = sum(((b * as_theirs(w)).sum() for (_, b), w in zip(pairs, _weights(pairs))), torch.tensor(0.0))
    loss_a.backward()
    loss_b.backward()
    for i, (a, b) in enumerate(zip(_leaves(ours), _leaves(theirs))):
        if b.requires_grad:
            # None and zeros say the same: PyTorch writes zeros where everything was overwritten.
            got, want = (np.zeros(tuple(g.shape)) if g.grad is None else values(g.grad).astype(np.float64) for g in (a, b))
            rtol, atol = TOLERANCES[dtype_name(b)]
            np.testing.assert_allclose(got, want, rtol=rtol * scale, atol=atol * scale, equal_nan=True, err_msg=f"gradient {i}")


def _weights(pairs):
    return [np.asarray(np.random.default_rng(5).standard_normal(tuple(b.shape))).astype(str(b.dtype).rsplit(".", 1)[-1] if dtype_name(b) != "bfloat16" else "float32") for _, b in pairs]


def _leaves(args):
    out = []
    for a in args:
        out += _leaves(a) if isinstance(a, (list, tuple)) else [a] if hasattr(a, "requires_grad") else []
    return out


def both_raise(function):
    with pytest.raises(Exception):
        function(torch)
    with pytest.raises(Exception) as ours:
        function(fl)
    assert str(ours.value)
