"""How programs are run by both libraries and compared: a program is a function of the library, and returns what is to be the same.

Tensors are compared by type, shape, strides and values, everything else by its text, in which the library's name is PyTorch's.
"""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import torch


def part(lib, name):
    """A module of the library."""
    return importlib.import_module(f"{lib.__name__}.{name}")


def array(*shape, seed=0):
    return np.random.default_rng(seed + 31 * len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


def data(lib, *shape, seed=0, **options):
    """The same normal numbers for both."""
    return lib.tensor(array(*shape, seed=seed), **options)


def filled(lib, module, seed=0, scale=0.3):
    """A module whose parameters are the same for both."""
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(lib.tensor(array(*p.shape, seed=seed + i) * scale))
    return module


def mlp(lib, *sizes, seed=0):
    """Linear layers of these sizes with ReLU between them."""
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [lib.nn.Linear(a, b), lib.nn.ReLU()]
    return filled(lib, lib.nn.Sequential(*layers[:-1]), seed)


def refusal(call):
    """Which of Python's exceptions a call's is."""
    try:
        call()
    except Exception as error:
        kinds = (IndexError, KeyError, AttributeError, ValueError, RuntimeError, TypeError)
        return {kind.__name__ for kind in kinds if isinstance(error, kind)}
    return set()


def asserted(call):
    """Whether a call is refused by an AssertionError."""
    try:
        call()
    except AssertionError:
        return True
    return False


class Refused(set):
    """Classes of exceptions, PyTorch's among ours."""


def programs_in(names):
    """The functions of a module that are programs."""
    return [f for f in list(names.values()) if inspect.isfunction(f) and list(inspect.signature(f).parameters) == ["lib"]]


def same(ours, theirs, where, rtol=2e-5, atol=2e-6, strides=True):
    if isinstance(theirs, torch.Tensor):
        assert hasattr(ours, "dtype"), f"{where}: {ours} here, {theirs} there"
        assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2], where
        assert tuple(ours.shape) == tuple(theirs.shape), where
        if strides:
            assert ours.stride() == theirs.stride(), f"{where}: strides {ours.stride()} here, {theirs.stride()} there, of {list(theirs.shape)}"
        a, b = (x.detach().resolve_conj() if x.is_complex() else x.detach().float() for x in (ours, theirs))
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=atol, err_msg=where)
    elif isinstance(theirs, Refused):
        assert theirs and theirs <= ours, f"{where}: {ours} here, {theirs} there"
    elif isinstance(theirs, dict):
        assert list(map(str, ours)) == list(map(str, theirs)), where
        for (key, a), b in zip(ours.items(), theirs.values()):
            same(a, b, f"{where}[{key!r}]", rtol, atol, strides)
    elif isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
        assert len(ours) == len(theirs), f"{where}: {ours} here, {theirs} there"
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, f"{where}[{i}]", rtol, atol, strides)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=where)
    else:
        assert str(ours).replace("flambeau", "torch") == str(theirs), f"{where}: {ours} here, {theirs} there"
