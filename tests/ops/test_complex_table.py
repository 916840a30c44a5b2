"""Every entry of the op table with complex numbers: those that say how, by their samples made complex, and the others, which refuse.

The references are the entries' own, which NumPy computes for complex numbers as well; what they are where NumPy's function is for
real numbers alone stands in REFERENCES.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import assert_near
from support.table import arrays, call, cases, is_spec, make, reference, seeded, strided, tensors

import flambeau as fl
from flambeau import _C
from flambeau.autograd import gradcheck, gradgradcheck

WIDE = {np.dtype("float32"): "complex64", np.dtype("float64"): "complex128"}


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


# By op: what the reference is for complex numbers, where the table's is a function for real ones.
REFERENCES = {
    "angle": lambda x: np.angle(x),
    "sigmoid": lambda x: _sigmoid(x),
    "sigmoid_backward": lambda dy, y: dy * y * (1 - y),
    "silu": lambda x: x * _sigmoid(x),
    "log2": lambda x: np.log(x) / np.log(2),
    "exp2": lambda x: np.exp(x * np.log(2)),
    "sgn": lambda x: x / np.abs(x),
    "logsumexp": lambda x, dim, keepdim=False: np.log(np.exp(x).sum(tuple(np.ravel(dim)), keepdims=keepdim)),
    "isclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(a, b, rtol, atol, equal_nan),
}
# Why an entry's samples say nothing about complex numbers, or its reference is none for them.
NOT_COMPARED = {
    "vector_norm": "the reference multiplies x by itself: test_complex.py",
    "norm": "as vector_norm",
    "var": "as vector_norm",
    "std": "as vector_norm",
    "var_mean": "as vector_norm",
    "std_mean": "as vector_norm",
}


BY_ARGUMENT = {"div_1": "complex numbers are divided, but not rounded"}


def _says_how(op):
    return op.get("complex") is not None and op.ident not in BY_ARGUMENT and op.get("samples")


def _with_floats(where):
    """Samples of these entries that have floating point numbers to be made complex."""
    return [case for case in cases(where) if _floats(case.values[0].get("samples")[case.values[1]])]


def _floats(sample):
    """Names of arguments that a sample describes as floating point numbers."""
    values = {k: v if isinstance(v, list) else [v] for k, v in sample.items()}
    return [k for k, v in values.items() if v and all(is_spec(x) and x[0] == "f" for x in v)]


def _complex(op, index, only=None, dtype=None):
    """The arguments of a sample with its floats made complex; of `only`, or of all."""
    args, rng, sample = arrays(op, index), seeded(op.ident, index, "complex"), op.get("samples")[index]
    for k in _floats(sample):
        if only is not None and k not in only:
            continue
        specs = sample[k] if isinstance(sample[k], list) else [sample[k]]
        made = [make(s, rng, dtype=dtype or WIDE[np.dtype("float" + s[1:3])]) for s in specs]
        args[k] = made if isinstance(sample[k], list) else made[0]
    return args


def _expected(op, args):
    if op.name in REFERENCES:
        return [np.asarray(REFERENCES[op.name](**{k: v.astype(np.complex128) if isinstance(v, np.ndarray) and v.dtype == np.complex64 else v for k, v in args.items()}))]
    return reference(op, args)


def _compared(op):
    return _says_how(op) and ("ref" in op.keys or op.name in REFERENCES) and op.name not in NOT_COMPARED


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op, index", _with_floats(_compared))
def test_reference(op, index, dtype):
    args = _complex(op, index, dtype=dtype)
    for got, want in zip(call(op, tensors(op, args)), _expected(op, args), strict=False):
        assert_near(got, want, scale=5, what=f"{op.where}: {op.ident}")
        assert got.is_complex() == (want.dtype.kind == "c")


@pytest.mark.parametrize("op, index", _with_floats(_says_how))
def test_strided_inputs(op, index):
    args = _complex(op, index)
    plain = call(op, tensors(op, args))
    spread = tensors(op, args)
    for k, v in args.items():
        if isinstance(v, np.ndarray) and k not in op.get("mutates", []) and not op.name.endswith("_"):
            spread[k] = strided(v)
    for got, want in zip(call(op, spread), plain, strict=True):
        assert got.dtype is want.dtype
        assert_near(got, want, what=op.ident)


@pytest.mark.parametrize("op, index", _with_floats(_says_how))
def test_meta_device_gives_shape_and_type(op, index):
    args = tensors(op, _complex(op, index))

    def move(v):
        return [move(x) for x in v] if isinstance(v, list) else v.to("meta") if isinstance(v, fl.Tensor) else v

    try:
        dry = call(op, {k: move(v) for k, v in args.items()})
    except _C.DeviceError:
        assert op.get("shape") == "by_value" or op.name in ("nonzero", "masked_select", "repeat_interleave"), op.ident
        return
    for got, want in zip(dry, call(op, args), strict=True):
        assert got.is_meta and got.shape == want.shape and got.dtype is want.dtype


@pytest.mark.parametrize("op, index", _with_floats(lambda op: _says_how(op) and op.get("inplace")))
def test_inplace_equals_out_of_place(op, index):
    args = tensors(op, _complex(op, index))
    first = op.sig.args[0].name
    want = call(op, args)[0]
    if not isinstance(args[first], fl.Tensor) or want.shape != args[first].shape:
        pytest.skip("the result does not fit into the first argument")
    target = args[first].clone()
    result = getattr(_C.ops, op.name + "_")(**{**args, first: target})
    assert result is target
    if want.dtype is target.dtype:
        assert_near(target, want, what=op.ident)


def _differentiable(op):
    return _says_how(op) and op.get("methods") != ["internal"] and not op.name.endswith("_") and str(op.get("dtype")) not in ("bool", "int64")


@pytest.mark.parametrize("op, index", _with_floats(_differentiable))
def test_gradients(op, index):
    """First and second derivatives, of all arguments complex and of the first one alone."""
    sample = op.get("samples")[index]
    for only in dict.fromkeys([tuple(_floats(sample)), tuple(_floats(sample)[:1])]):
        args = tensors(op, _complex(op, index, only=only, dtype="complex128"))
        for k, v in args.items():
            if isinstance(v, fl.Tensor) and v.is_floating_point():
                args[k] = v.double()
        if sum(v.numel() for v in args.values() if isinstance(v, fl.Tensor)) > 60:
            pytest.skip("many elements")
        names = [k for k, v in args.items() if isinstance(v, fl.Tensor) and (v.is_complex() or v.is_floating_point())]
        inputs = [args[k].requires_grad_() for k in names]

        def function(*xs, args=args, names=names):
            return call(op, {**args, **dict(zip(names, xs, strict=True))})

        try:
            ys = function(*inputs)
        except _C.DTypeError:  # operands of one type alone
            assert len(names) > 1
            continue
        if any(y.requires_grad for y in ys):
            assert gradcheck(function, inputs, rtol=1e-4)
            assert gradgradcheck(function, inputs, rtol=1e-4)


# ------------------------------------------------------------------------------------ refusals


def _silent(op):
    return op.get("complex") is None and op.get("samples")


@pytest.mark.parametrize("op, index", _with_floats(_silent))
def test_others_refuse_before_anything_is_computed(op, index):
    for name in _floats(op.get("samples")[index]):
        args = tensors(op, _complex(op, index, only=[name], dtype="complex64"))
        before = [v.clone() for v in args.values() if isinstance(v, fl.Tensor)]
        with pytest.raises(_C.DTypeError, match=rf"{op.name.rstrip('_')}.*complex64"):
            call(op, args)
        for x, y in zip([v for v in args.values() if isinstance(v, fl.Tensor)], before, strict=True):
            assert fl.equal(x, y)


@pytest.mark.parametrize(
    "op, index", _with_floats(lambda op: _silent(op) and op.get("inplace") and op.sig.args[0].type.spelling in ("Tensor", "Operand"))
)
def test_others_refuse_in_place(op, index):
    args = tensors(op, _complex(op, index, dtype="complex64"))
    first = op.sig.args[0].name
    if not isinstance(args[first], fl.Tensor) or not args[first].is_complex():
        pytest.skip("the first argument is no floating point tensor")
    with pytest.raises(_C.DTypeError, match="complex64"):
        getattr(_C.ops, op.name + "_")(**args)
