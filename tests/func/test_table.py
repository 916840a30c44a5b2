"""Every entry of the op table inside of `vmap` and `jvp`: the same as a loop over samples, and as a difference quotient."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.compare import assert_near
from support.table import OPS, arrays, call, cases, map_arrays, seeded, tensors

import flambeau as fl
from flambeau.func import _batched, grad, jvp, vmap

SAMPLES = 3

# The results are sizes that depend on values, or random: not one tensor for all samples.
NO_BATCH = {
    "nonzero": "as many rows as there are elements that are not zero",
    "masked_select": "as many elements as the mask has",
    "masked_select_same": "as many elements as the mask has",
    "masked_scatter_source": "as many elements as the mask has",
    "unique_sorted": "as many elements as there are different ones",
    "unique_runs": "as many elements as there are runs",
    "bincount": "as many bins as the largest value",
    "empty_like": "no values",
    "new_empty": "no values",
}

# Ops with neither a rule nor ops that have one: they are called once per sample.
PER_SAMPLE = {
    "repeat_interleave_1": "as many elements as the numbers say, where these differ between samples",
    "repeat_interleave_2": "as many elements as the numbers say",
    "histc": "the kernel counts all elements in one range",
    "batch_norm_clamp": "what programs make of a batch norm, after vmap has done its part",
    "batch_norm_again": "what programs make of a batch norm, after vmap has done its part",
    "fold_batch_norm": "what programs make of a batch norm, after vmap has done its part",
}


@pytest.fixture
def loops(monkeypatch):
    """The names of ops that are called once per sample."""
    found = set()
    monkeypatch.setattr(_batched, "_warned", found)
    return found


def _is_deterministic(op):
    return op.ident not in NO_BATCH and op.file != "ops/random.yaml"


def _varied(op, index, k, chosen):
    """Sample k of a batch: the entry's sample, with the chosen floating point arguments moved a little towards zero."""
    args = arrays(op, index)
    factor = 1 - 0.07 * k * seeded(op.ident, "varied").random()
    for name in chosen:
        value = args[name]
        args[name] = [v * v.dtype.type(factor) for v in value] if isinstance(value, list) else np.asarray(value * value.dtype.type(factor))
    return args


def _kind(value):
    first = value[0] if isinstance(value, list) and value else value
    return first.dtype.kind if isinstance(first, np.ndarray) else ""


def _above_one(op, index, name):
    return "above1" in str(op.get("samples")[index][name])


@pytest.mark.parametrize("which", ["all", "first", "others"])
@pytest.mark.parametrize("op, index", cases(_is_deterministic))
def test_vmap_equals_a_loop(op, index, which, loops):
    given = arrays(op, index)
    names = [name for name, value in given.items() if _kind(value)]
    mapped = {"all": names, "first": names[:1], "others": names[1:]}[which]
    if not mapped or (which == "first" and len(names) == 1):
        pytest.skip("no such arguments")
    if mapped[0] != names[0] and (op.name.endswith("_") or op.get("mutates")):
        pytest.skip("writes to what all samples share: test_vmap.py")
    varied = [name for name in mapped if _kind(given[name]) in "fc" and not _above_one(op, index, name)]
    rows = [tensors(op, _varied(op, index, k, varied)) for k in range(SAMPLES)]
    expected = [call(op, row) for row in rows]

    rows = [tensors(op, _varied(op, index, k, varied)) for k in range(SAMPLES)]
    fixed = {name: value for name, value in rows[0].items() if name not in mapped}
    batch = {}
    for name in mapped:
        column = [row[name] for row in rows]
        batch[name] = [fl.stack(items) for items in zip(*column)] if isinstance(column[0], list) else fl.stack(column)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="vmap: there is no batching rule")
        results = vmap(lambda some: call(op, {**fixed, **some}))(batch)
    assert not loops or op.ident in PER_SAMPLE, f"{op.where}: {op.ident} has no batching rule, nor a reason in PER_SAMPLE"
    for i, result in enumerate(results):
        wanted = fl.stack([row[i] for row in expected])
        assert result.dtype is wanted.dtype
        assert_near(result, wanted, scale=10, what=f"{op.where}: {op.ident} result {i}")


@pytest.mark.parametrize("name", PER_SAMPLE)
def test_what_is_said_to_be_called_per_sample_is(name, loops):
    (op,) = [op for op in OPS if op.ident == name]
    for index in range(len(op.get("samples"))):
        given = tensors(op, arrays(op, index))
        batch = {k: fl.stack([v, v]) for k, v in given.items() if isinstance(v, fl.Tensor)}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="vmap: there is no batching rule")
            vmap(lambda some, given=given: call(op, {**given, **some}))(batch)
    assert loops == {op.name}


# Forward mode needs a backward that can be differentiated by what comes in.
NO_DIRECTION = {
    "batch_norm_clamp": "what programs make of a batch norm, which differentiate nothing",
}
STEP = 1e-5


def _is_smooth(op):
    return bool(op.get("grad") or "composite" in op.keys) and op.ident not in NO_DIRECTION and _is_deterministic(op)


def _inputs(op, index):
    """Arguments in float64, and of these the floating point tensors that have a derivative."""
    args = tensors(op, map_arrays(arrays(op, index), lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a))
    named = {n.strip() for key in op.formulas for n in key.split(",")}
    return args, [
        name
        for name, value in args.items()
        if ("composite" in op.keys or name in named) and all(isinstance(x, fl.Tensor) and x.dtype is fl.float64 for x in _listed(value)) and _listed(value)
    ]


def _listed(value):
    return list(value) if isinstance(value, list) else [value]


def _has_derivative(op, args, names):
    """Which results require a gradient."""
    watched = {k: [x.clone().requires_grad_() for x in v] if isinstance(v, list) else v.clone().requires_grad_() for k, v in args.items() if k in names}
    clones = {k: v.clone() if isinstance(v, fl.Tensor) else v for k, v in args.items()}
    if op.name.endswith("_"):
        watched = {k: v * 1 if isinstance(v, fl.Tensor) else v for k, v in watched.items()}
    return [y.requires_grad for y in call(op, {**clones, **watched})]


@pytest.mark.parametrize("op, index", cases(_is_smooth))
def test_jvp_equals_differences(op, index):
    args, names = _inputs(op, index)
    if not names or not any(_has_derivative(op, args, names)):
        pytest.skip("nothing has a derivative")
    rng = seeded(op.ident, "direction")
    along = {k: [fl.tensor(rng.uniform(-1, 1, tuple(x.shape))) for x in _listed(args[k])] for k in names}

    def at(step):
        moved = dict(args)
        for k in names:
            parts = [x + step * d for x, d in zip(_listed(args[k]), along[k])]
            moved[k] = parts if isinstance(args[k], list) else parts[0]
        return call(op, {k: v.clone() if isinstance(v, fl.Tensor) else v for k, v in moved.items()})

    def function(some):
        if op.name.endswith("_"):
            some = {k: v * 1 if isinstance(v, fl.Tensor) else v for k, v in some.items()}
        return call(op, {**args, **some})

    primals = {k: args[k] for k in names}
    tangents = {k: along[k] if isinstance(args[k], list) else along[k][0] for k in names}
    values, found = jvp(function, (primals,), (tangents,))
    smooth = _has_derivative(op, args, names)
    for i, (y, t, low, high) in enumerate(zip(values, found, at(-STEP), at(STEP))):
        assert_near(y, call(op, {k: v.clone() if isinstance(v, fl.Tensor) else v for k, v in args.items()})[i])
        if smooth[i]:
            assert_near(t, (high - low) / (2 * STEP), dtype=fl.float64, scale=1e4, what=f"{op.where}: {op.ident} result {i}")


# The derivative of their backward has none.
NO_SECOND_DIRECTION = {
    **NO_DIRECTION,
    "gelu_tanh_backward": "fourth derivative of gelu",
    "silu_backward": "fourth derivative of silu",
    "mish_backward": "fourth derivative of mish",
    "i1_slope": "fourth derivative of i0",
    "special_i1e": "third derivative of i0e",
    "sinc_backward": "fourth derivative of sinc",
}


@pytest.mark.parametrize("op, index", cases(lambda op: _is_smooth(op) and op.ident not in NO_SECOND_DIRECTION and not op.name.endswith("_")))
def test_hessian_times_a_direction(op, index):
    """Forward over reverse is reverse over forward: a Hessian is symmetric."""
    args, names = _inputs(op, index)
    if not names or not any(smooth := _has_derivative(op, args, names)):
        pytest.skip("nothing has a derivative")
    rng = seeded(op.ident, "direction")
    primals = {k: args[k] for k in names}
    along = {k: [fl.tensor(rng.uniform(-1, 1, tuple(x.shape))) for x in _listed(args[k])] for k in names}
    tangents = {k: along[k] if isinstance(args[k], list) else along[k][0] for k in names}

    def total(some):
        return sum((y * y).sum() for y, keep in zip(call(op, {**args, **some}), smooth) if keep)

    one = jvp(grad(total), (primals,), (tangents,))[1]
    other = grad(lambda some: jvp(total, (some,), (tangents,))[1])(primals)
    for k in names:
        for a, b in zip(_listed(one[k]), _listed(other[k])):
            assert_near(a, b, scale=1e3, what=f"{op.where}: {op.ident} by {k}")
