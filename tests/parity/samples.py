"""Reads PyTorch's sample database (`op_db`, 700 entries), and says the same call in both libraries.

An entry names a function of PyTorch, or is a few lines of Python around one. `translated` gives ours: what has a name in
`torch` is looked up by it in `flambeau`, what is Python of PyTorch's tests runs again with our modules in place of PyTorch's.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import sys
import types
import unittest
from functools import reduce

import numpy as np
from beside import dtype_name, torch

import flambeau as fl

MOST_SAMPLES = 10
MOST_GENERATED = 200
MOST_ELEMENTS = 20_000


def load(module):
    """A module of torch.testing._internal. Its helpers import expecttest for the sake of one base class, which is not needed.

    For each generator of samples they look for a method of a `TestCase` among their callers, of which there is none here: that is left out,
    since to read all callers' sources took most of the time.
    """
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stub = sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
        stub.TestCase = unittest.TestCase
    importlib.import_module("torch.testing._internal.common_utils").extract_test_fn = lambda: None
    return importlib.import_module(f"torch.testing._internal.{module}")


@functools.cache
def op_db():
    """Entries by name, `add` or `div/floor_rounding`."""
    out = {}
    for op in load("common_methods_invocations").op_db:
        out.setdefault(f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name, op)
    return out


def spread(generator):
    """Some of what a generator gives: all kinds of samples are there, none of them large."""
    made = [s for s in itertools.islice(generator, MOST_GENERATED) if elements(s) <= MOST_ELEMENTS]
    step = max(1.0, len(made) / MOST_SAMPLES)
    return [made[int(i * step)] for i in range(min(len(made), MOST_SAMPLES))]


def elements(sample):
    return sum(t.numel() for t in tensors([sample.input, sample.args, sample.kwargs]))


def tensors(v):
    if isinstance(v, (list, tuple)):
        return [t for e in v for t in tensors(e)]
    if isinstance(v, dict):
        return tensors(list(v.values()))
    return [v] if hasattr(v, "requires_grad") else []


# ---- functions


class Missing(Exception):
    """A name of PyTorch's that this library does not have."""


def named(path):
    try:
        return reduce(getattr, path.split("."), fl)
    except AttributeError as error:
        raise Missing(path) from error


def _path_of(f):
    """Where `f` is found in torch, or None."""
    name = getattr(f, "__name__", None)
    for place in ("", "nn.functional", "Tensor", "linalg", "special", "fft", "nn", "signal.windows"):
        try:
            if name and getattr(reduce(getattr, place.split(".") if place else [], torch), name) is f:
                return f"{place}.{name}" if place else name
        except AttributeError:
            continue
    return None


def _module_of(module):
    name = module.__name__
    if name != "torch" and not name.startswith("torch."):
        return module
    return fl if name == "torch" else named(name.removeprefix("torch."))


def translated(f, path=None):
    """The function of this library that PyTorch's `f` corresponds to; `path` is its name in torch, where that is known."""
    if isinstance(f, functools.partial):
        return functools.partial(translated(f.func), *map(ours_of, f.args), **{k: ours_of(v) for k, v in f.keywords.items()})
    if isinstance(f, types.FunctionType) and f.__module__.startswith("torch.testing."):
        return _seedless if f.__name__ == "wrapper_set_seed" else _swapped(f)
    if path is not None:
        try:
            if reduce(getattr, path.split("."), torch) is f:
                return named(path)
        except AttributeError:
            pass
    if found := _path_of(f):
        return named(found)
    if not getattr(f, "__module__", None) or not f.__module__.startswith("torch"):
        return f
    raise Missing(getattr(f, "__name__", str(f)))


def _seedless(op, *args, **kwargs):
    """What draws, draws other numbers here: no seed makes it the same."""
    return op(*args, **kwargs)


def _swapped(f):
    """Python of PyTorch's tests with this library's modules and functions in place of PyTorch's."""
    names, codes = set(), [f.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    scope = dict(f.__globals__)
    for name in names & scope.keys():
        scope[name] = _swap(scope[name])
    cells = tuple(types.CellType(_swap(c.cell_contents)) for c in f.__closure__ or ())
    made = types.FunctionType(f.__code__, scope, f.__name__, f.__defaults__, cells)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def _swap(v):
    if isinstance(v, types.ModuleType):
        return _module_of(v)
    if v is torch.Tensor:
        return fl.Tensor
    if isinstance(v, (types.FunctionType, types.BuiltinFunctionType, functools.partial)) and not isinstance(v, type):
        return translated(v)
    return ours_of(v)


# ---- arguments


def ours_of(v, grad=False):
    """The same argument of this library: tensors with their strides, types and functions by name."""
    if isinstance(v, torch.Tensor):
        return tensor_of(v, grad)
    if isinstance(v, (torch.dtype, torch.memory_format)):
        return named(str(v).removeprefix("torch."))
    if isinstance(v, torch.layout):
        return None if v is torch.strided else named(str(v).removeprefix("torch."))
    if isinstance(v, torch.nn.LinearCrossEntropyOptions):
        return fl.nn.LinearCrossEntropyOptions(**{f.name: ours_of(getattr(v, f.name)) for f in dataclasses.fields(v)})
    if isinstance(v, torch.device):
        return fl.device(str(v))
    if isinstance(v, torch.Size):
        return tuple(v)
    if isinstance(v, slice):
        return slice(ours_of(v.start), ours_of(v.stop), ours_of(v.step))
    if isinstance(v, (list, tuple)):
        return type(v)(ours_of(e, grad) for e in v) if not hasattr(v, "_fields") else type(v)(*(ours_of(e, grad) for e in v))
    if isinstance(v, dict):
        return {k: ours_of(e, grad) for k, e in v.items()}
    if isinstance(v, (types.FunctionType, types.BuiltinFunctionType)) or isinstance(v, torch.nn.Module):
        return _module(v) if isinstance(v, torch.nn.Module) else translated(v)
    return v


def _module(m):
    """A layer without parameters, by its class."""
    return named(f"nn.{type(m).__name__}")()


def tensor_of(v, grad=False):
    """Bytes, sizes, strides and offset of a tensor of PyTorch's; `grad`: also whether it requires grad."""
    plain = v.detach().resolve_conj().resolve_neg()
    dtype = ours_of(plain.dtype)
    if plain.device.type == "meta":
        return fl.empty(tuple(plain.shape), dtype=dtype, device="meta")
    if plain.layout is not torch.strided:
        raise Missing(str(plain.layout))
    if not plain.numel():
        x = fl.zeros(tuple(v.shape), dtype=dtype)
    else:
        memory = torch.empty(0, dtype=torch.uint8).set_(plain.untyped_storage()).numpy()
        size = memory.nbytes // plain.element_size() * plain.element_size()
        x = fl.tensor(memory[:size].copy()).view(dtype) if dtype != fl.uint8 else fl.tensor(memory.copy())
        x = fl.as_strided(x, tuple(plain.shape), plain.stride(), plain.storage_offset()).detach()
    return x.requires_grad_() if grad and v.requires_grad else x


def theirs_of(v, grad=False):
    """A copy over memory of its own, with the same strides."""
    if isinstance(v, torch.Tensor):
        plain = v.detach()
        if plain.device.type == "meta" or plain.layout is not torch.strided:
            return plain
        if plain.numel() and not plain.is_conj() and not plain.is_neg():
            memory = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage()).clone()
            plain = memory.as_strided(plain.shape, plain.stride(), plain.storage_offset())
        else:
            plain = plain.clone()
        return plain.requires_grad_() if grad and v.requires_grad else plain
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        return type(v)(theirs_of(e, grad) for e in v) if not hasattr(v, "_fields") else type(v)(*(theirs_of(e, grad) for e in v))
    if isinstance(v, dict):
        return {k: theirs_of(e, grad) for k, e in v.items()}
    return v


def shown(sample):
    def one(v):
        if isinstance(v, torch.Tensor):
            return f"{dtype_name(v)}{list(v.shape)}"
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(one, v)) + "]"
        return f"<{getattr(v, '__name__', 'function')}>" if callable(v) else repr(v)

    args = [one(sample.input), *map(one, sample.args), *(f"{k}={one(v)}" for k, v in sample.kwargs.items())]
    return f"({', '.join(args)})"


def values(x):
    """NumPy's array of a tensor of either library, in float64 or complex128 (integers stay)."""
    x = x.detach()
    if isinstance(x, torch.Tensor):
        x = x.resolve_conj().resolve_neg()
    array = (x.float() if dtype_name(x) == "bfloat16" else x.cfloat() if dtype_name(x) == "complex32" else x).numpy()
    kind = np.asarray(array).dtype.kind
    return np.asarray(array, dtype={"f": np.float64, "c": np.complex128}.get(kind))
