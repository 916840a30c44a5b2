"""Every entry of the op table, by its samples: values, layouts, shapes, special values, in-place, gradients, types.

What an entry is left out of, and why, is said once, in the dictionaries at the top; everything else is found
from the table. References of several lines are in references.py.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from references import REFERENCES
from support.compare import assert_near, bits
from support.table import (
    OPS,
    arrays,
    call,
    cases,
    is_spec,
    make,
    map_arrays,
    reference,
    seeded,
    strided,
    tensors,
)

import flambeau as fl
from flambeau import _C

# Entries without a reference, by file: where they are tested instead.
NO_REFERENCE = {
    "ops/core.yaml": "creation, views, joining and copying: tests/core",
    "ops/complex.yaml": "complex numbers: tests/ops/test_complex.py",
    "ops/random.yaml": "random numbers: tests/core/test_random.py",
}
NO_REFERENCE_OPS = {
    "index_put": "writing through an index: tests/core/test_indexing.py",
    "index_put_": "writing through an index: tests/core/test_indexing.py",
    "max_pool1d": "max_pool1d_with_indices, and tests/parity",
    "max_pool2d": "max_pool2d_with_indices, and tests/parity",
    "where_1": "nonzero: tests/ops/test_call_forms.py",
    "norm_1": "'fro' is the 2-norm: tests/parity",
}

# The reference is another function than the op at NaN or infinity.
NO_SPECIAL_VALUES = {
    "softshrink": "sign(inf) * (inf - lambd) is right, but NaN is kept by np.sign as well as dropped by maximum",
    "nextafter": "neighbours are a property of the type, and the reference computes in float64",
    "nextafter_wide": "neighbours are a property of the type, and the reference computes in float64",
    "gelu_erf": "x * cdf(x) is inf * 0 at -inf in both, with different signs of NaN handling in scipy",
    "gelu_erf_backward": "0 and 1 at the infinities, where the reference has inf * 0",
    "round_1": "NumPy rounds by scaling, which overflows",
    "isclose": "tolerances times infinity",
    "i1_slope": "0 / 0 at 0 in the reference",
    "sinc_second": "0 / 0 at 0 in the reference",
    "hardswish": "0 at -inf, where the product of the reference is -inf * 0",
    "lerp": "computed from the nearer end, the reference always from a",
    "lgamma": "+inf at -inf, as in C; SciPy gives -inf",
    "trigamma": "SciPy's polygamma is for x > 0",
    "polygamma_of": "SciPy's polygamma is for x > 0",
    **dict.fromkeys(
        (f"special_{kind}" for kind in (
            *(f"{shifted}chebyshev_polynomial_{letter}" for shifted in ("", "shifted_") for letter in "tuvw"),
            "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        )),
        "SciPy's recurrences of infinite arguments are NaN or depend on the way; test_special.py has the edges",
    ),
    "special_zeta": "infinite arguments have the limit, where SciPy has NaN",
    "special_airy_ai": "NaN of infinity, as PyTorch has it",
    "special_bessel_j0": "NaN of infinity, as PyTorch has it",
    "special_bessel_j1": "NaN of infinity, as PyTorch has it",
    "special_bessel_y0": "NaN of infinity, as PyTorch has it",
    "special_bessel_y1": "-inf at 0 and NaN of infinity, as PyTorch has it",
    "special_i1e_slope": "0 / 0 at 0 in the reference",
    "special_ndtri": "tested beside PyTorch",
    "i1_curvature": "0 / 0 at 0 in the reference",
    "igamma": "limits of infinite and zero arguments are PyTorch's",
    "igammac": "limits of infinite and zero arguments are PyTorch's",
    "igamma_density": "limits are taken",
    "addcdiv": "0/0 of several operands: covered by div and add",
    "pow": "compared with PyTorch in tests/parity",
    "logit_1": "np.clip keeps NaN, as the op does, but infinities meet eps first",
}

NO_SECOND_DERIVATIVE = {
    # Backward through the gradient of these is refused: there is no formula (test_no_second_derivative).
    "batch_norm_clamp": "what programs make of a batch norm, which differentiate nothing",
}


def _reference(op, args, wide=True):
    if "ref" in op.keys:
        return reference(op, args, wide)
    return [np.asarray(r) for r in REFERENCES[op.name](**map_arrays(args, lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a))]


def _has_reference(op):
    return ("ref" in op.keys or op.name in REFERENCES) and op.get("samples")


def _is_each(op):
    return "each" in op.keys


def _floats(args):
    """Names of arguments that hold floating point arrays."""
    return [k for k, v in args.items() for a in (v if isinstance(v, list) else [v]) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]


def _check(op, results, expected, scale=1.0, what=""):
    for got, want in zip(results, expected):
        assert_near(got, want, scale=scale, what=f"{op.where}: {op.ident} {what}")


def test_every_public_entry_has_samples_and_a_reference():
    lacking = [f"{op.where}: {op.ident}" for op in OPS if op.methods != ["internal"] and not _has_reference(op) and op.file not in NO_REFERENCE and op.ident not in NO_REFERENCE_OPS]
    assert lacking == []


@pytest.mark.parametrize("op, index", cases(_has_reference))
def test_reference(op, index):
    args = arrays(op, index)
    results = call(op, tensors(op, args))
    expected = _reference(op, args)
    assert len(results) >= len(expected)
    _check(op, results, expected)


# What the rule of the `dtype` key says, written down a second time.
def _rule_dtype(op, args, out):
    rule = op.get("dtype")
    if isinstance(rule, dict):
        rule = rule[out]
    if rule in ("bool", "int64"):
        return getattr(fl, rule)
    match = re.fullmatch(r"(same|float_of)\((\w+)\)", rule or "")
    if not match or not isinstance(args.get(match[2]), fl.Tensor):
        return None
    x = args[match[2]]
    return x.dtype if match[1] == "same" or x.is_floating_point() else fl.get_default_dtype()


@pytest.mark.parametrize("op, index", cases(lambda op: op.get("dtype")))
def test_result_type_follows_the_rule(op, index):
    args = tensors(op, arrays(op, index))
    for (_, name), result in zip(op.sig.outs, call(op, args)):
        expected = _rule_dtype(op, args, name)
        assert expected is None or result.dtype is expected


@pytest.mark.parametrize("op, index", cases(_has_reference))
def test_strided_inputs(op, index):
    args = arrays(op, index)
    plain = call(op, tensors(op, args))
    spread = {k: v for k, v in tensors(op, args).items()}
    spread.update({k: v for k, v in map_arrays(args, strided).items() if args[k] is not v})
    for got, want in zip(call(op, spread), plain):
        assert got.dtype is want.dtype
        assert_near(got, want, what=op.ident)


def _broadcasts(op):
    return str(op.get("shape", "")).startswith("broadcast(") and _has_reference(op)


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), ((4,), (2, 3, 4)), ((), (2, 2)), ((2, 0), (1,)), ((1,), (0, 1, 3))], ids=str)
@pytest.mark.parametrize("op, index", cases(_broadcasts))
def test_broadcast(op, index, shapes):
    rng = seeded(op.ident, index, "broadcast")
    args, count = {}, 0
    for name, value in op.get("samples")[index].items():
        if is_spec(value):
            args[name] = make(value, rng, shape=shapes[count % 2])
            count += 1
        else:
            args[name] = value
    if count < 2:
        pytest.skip("one tensor argument")
    _check(op, call(op, tensors(op, args)), _reference(op, args), what=str(shapes))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("op, index", cases(lambda op: _is_each(op) and _has_reference(op)))
def test_empty_and_zero_dimensional(op, index, shape):
    args = arrays(op, index, shape=shape)
    _check(op, call(op, tensors(op, args)), _reference(op, args), what=str(shape))


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0])


@pytest.mark.parametrize("op, index", cases(lambda op: _is_each(op) and "ref" in op.keys and op.ident not in NO_SPECIAL_VALUES))
def test_nan_and_infinity(op, index):
    args = arrays(op, index)
    names = _floats(args)
    if not names:
        pytest.skip("no floating point argument")
    for k, grid in zip(names, np.meshgrid(*[SPECIAL] * len(names), indexing="ij")):
        args[k] = grid.reshape(-1).astype(args[k].dtype)
    for k, v in args.items():
        if isinstance(v, np.ndarray) and k not in names:
            args[k] = np.resize(v.reshape(-1), len(SPECIAL) ** len(names))
    with np.errstate(all="ignore"):
        expected = _reference(op, args)
        # In the type of the sample: float32 overflows where float64 does not.
        expected = [e.astype(np.float32) if e.dtype == np.float64 and args[names[0]].dtype == np.float32 else e for e in expected]
    _check(op, call(op, tensors(op, args)), expected)


@pytest.mark.parametrize("op, index", cases(lambda op: op.get("inplace")))
def test_inplace_equals_out_of_place(op, index):
    args = tensors(op, arrays(op, index))
    first = op.first_tensor
    if not isinstance(args[first], fl.Tensor):
        pytest.skip("the first argument is a number")
    expected = call(op, args)[0]
    target = args[first].clone()
    version = target._version
    inplace = getattr(_C.ops, op.name + "_")
    # Integers do not hold floats; torch's result_type / can_cast rule. A smaller target does not hold a broadcast result.
    kept = fl.can_cast(expected.dtype, target.dtype) or op.get("dtype") == "bool"
    if expected.shape != target.shape or not kept:
        before = target.clone()
        with pytest.raises((fl.ShapeError, fl.DTypeError)):
            inplace(**{**args, first: target})
        assert bits(target) == bits(before)
        return
    result = inplace(**{**args, first: target})
    assert result is target
    assert target._version > version
    assert bits(target) == bits(expected.to(target.dtype))


def _differentiable(op):
    return op.get("samples") and (op.get("grad") or "composite" in op.keys)


def _gradient_inputs(op, index):
    """Arguments in float64, those with a formula requiring grad; None when nothing does."""
    args = tensors(op, map_arrays(arrays(op, index), lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a))
    named = {n.strip() for key in op.formulas for n in key.split(",")}
    wanted = []
    for name, value in args.items():
        if "composite" not in op.keys and name not in named:
            continue
        for x in value if isinstance(value, list) else [value]:
            if isinstance(x, fl.Tensor) and x.is_floating_point():
                wanted.append(x.requires_grad_())
    return args, wanted


def _as_function(op, args, wanted):
    """The op as a function of the tensors in `wanted` alone."""
    places = {id(x): i for i, x in enumerate(wanted)}

    def swap(value, xs):
        if isinstance(value, list):
            return [swap(v, xs) for v in value]
        return xs[places[id(value)]] if id(value) in places else value

    def function(*xs):
        ys = call(op, {k: swap(v, xs) for k, v in args.items()})
        return tuple(y for y in ys if y.is_floating_point())

    return function


@pytest.mark.parametrize("op, index", cases(_differentiable))
def test_gradient(op, index):
    args, wanted = _gradient_inputs(op, index)
    if not wanted:
        pytest.skip("no floating point argument in this sample")
    function = _as_function(op, args, wanted)
    ys = function(*wanted)
    if not any(y.requires_grad for y in ys):
        assert not op.get("grad")
        pytest.skip("a composite without gradient")
    _check_gradient(_small(function, ys), wanted)


def _check_gradient(function, inputs):
    """gradcheck; of large inputs along four random directions, t -> function(x + D t)."""
    if sum(x.numel() for x in inputs) <= 60:
        fl.autograd.gradcheck(function, inputs)
        return
    directions = [fl.randn(x.numel(), 4, dtype=x.dtype, generator=fl.Generator().manual_seed(i)) for i, x in enumerate(inputs)]

    def along(*ts):
        return function(*(x.detach() + (d @ t).reshape(x.shape) for x, d, t in zip(inputs, directions, ts)))

    fl.autograd.gradcheck(along, [fl.zeros(4, dtype=x.dtype, requires_grad=True) for x in inputs])


def _small(function, ys):
    """Only results with a gradient; large ones folded with fixed weights, as differences cost results times inputs."""
    kept = [y.requires_grad for y in ys]
    if sum(y.numel() for y in ys) <= 24:
        return lambda *xs: tuple(y for y, keep in zip(function(*xs), kept) if keep)
    weights = [fl.randn(5, y.numel(), dtype=fl.float64, generator=fl.Generator().manual_seed(i)) for i, y in enumerate(ys)]
    return lambda *xs: tuple(fl.mv(w, y.reshape(-1)) for w, y, keep in zip(weights, function(*xs), kept) if keep)


@pytest.mark.parametrize("op, index", cases(lambda op: op.ident in NO_SECOND_DERIVATIVE))
def test_no_second_derivative(op, index):
    args, wanted = _gradient_inputs(op, index)
    ys = [y for y in _as_function(op, args, wanted)(*wanted) if y.requires_grad]
    seeds = [fl.randn_like(y).requires_grad_() for y in ys]
    gs = fl.autograd.grad(ys, wanted, seeds, create_graph=True)
    with pytest.raises(fl.AutogradError, match="has no formula for the gradient by"):
        fl.autograd.grad([g for g in gs if g.requires_grad], wanted, [fl.ones_like(g) for g in gs if g.requires_grad], allow_unused=True)


@pytest.mark.parametrize("op, index", cases(lambda op: _differentiable(op) and op.ident not in NO_SECOND_DERIVATIVE))
def test_second_derivative(op, index):
    args, wanted = _gradient_inputs(op, index)
    if not wanted:
        pytest.skip("no floating point argument in this sample")
    _check_second_derivative(_as_function(op, args, wanted), wanted)


def _check_second_derivative(function, wanted):
    results = function(*wanted)
    keep = [y.requires_grad for y in results]
    ys = [y for y in results if y.requires_grad]
    if not ys:
        pytest.skip("a composite without gradient")
    seeds = [fl.randn_like(y).requires_grad_() for y in ys]

    def first(*all_of_them):
        xs, gs = all_of_them[: len(wanted)], all_of_them[len(wanted) :]
        with fl.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]  # differences run without grad
            outs = [y for y, wanted_too in zip(function(*xs), keep) if wanted_too]
            found = fl.autograd.grad(outs, xs, list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    gs = first(*wanted, *seeds)
    if not any(g.requires_grad for g in gs):
        return  # the gradient is a constant: nothing to differentiate
    _check_gradient(_small(first, gs), [*wanted, *seeds])


def _written_gradient(op):
    return op.get("inplace") and _differentiable(op)


def _as_write(op, args, wanted, through_a_view=False):
    """The in-place form as a function of the tensors in `wanted`; its target is a result, or part of one."""
    plain, first, inplace = _as_function(op, args, wanted), op.first_tensor, getattr(_C.ops, op.name + "_")
    places = {id(x): i for i, x in enumerate(wanted)}

    def function(*xs):
        values = {k: xs[places[id(v)]] if id(v) in places else v for k, v in args.items()}
        target = values[first] * 1
        if through_a_view:
            base = fl.stack([target, target * 2], dim=-1) * 1
            inplace(**{**values, first: base[..., 0]})
            return base
        return inplace(**{**values, first: target})

    return function if isinstance(args[first], fl.Tensor) and _holds(args[first], plain(*wanted)[0]) else None


def _holds(target, result):
    return result.shape == target.shape and fl.can_cast(result.dtype, target.dtype)


@pytest.mark.parametrize("through_a_view", [False, True], ids=["whole", "view"])
@pytest.mark.parametrize("op, index", cases(_written_gradient))
def test_gradient_of_inplace(op, index, through_a_view):
    args, wanted = _gradient_inputs(op, index)
    function = _as_write(op, args, wanted, through_a_view) if wanted else None
    if function is None or not function(*wanted).requires_grad:
        pytest.skip("nothing to differentiate, or a result that does not fit into the first argument")
    _check_gradient(_small(lambda *xs: (function(*xs),), [function(*wanted)]), wanted)
    if op.ident not in NO_SECOND_DERIVATIVE:
        _check_second_derivative(lambda *xs: (function(*xs),), wanted)


# What in-place forms may call beside themselves: nothing that copies, but for what formulas read of the overwritten.
@pytest.mark.parametrize("op, index", cases(_written_gradient))
def test_inplace_copies_nothing_back(op, index):
    args, wanted = _gradient_inputs(op, index)
    reads = any(re.search(rf"\b{op.first_tensor}\b", text) for text in map(str, [*op.get("grad", {}).values(), *op.get("let", {}).values()]))
    over = isinstance(op.get("inplace"), dict) and op.get("inplace").get("over")
    if not wanted or not ("each" in op.keys or over and not reads) or _as_write(op, args, wanted) is None:
        pytest.skip("a kernel that makes its result beside the input, or nothing to differentiate")
    if op.name == "pow" and not isinstance(args["b"], fl.Tensor) and args["b"] in (0.5, -0.5, -1):
        pytest.skip("made beside the input, which the gradient reads: programs write into the result")
    target = args[op.first_tensor] * 1
    with fl.profiler.profile() as prof:
        getattr(_C.ops, op.name + "_")(**{**args, op.first_tensor: target})
    called = [e.name for e in prof.events()]
    by_output = isinstance(op.get("inplace"), dict) and "when" not in op.get("inplace")
    assert "copy_" not in called
    assert reads and not by_output or "clone" not in called


def _half_entries(op):
    return _has_reference(op) and (_is_each(op) or op.file.endswith(("reduce.yaml", "softmax.yaml", "norm.yaml", "matmul.yaml", "loss.yaml", "scan.yaml")))


# Half precision follows float32 only where the op is continuous.
NO_HALF = {
    "nextafter": "neighbours are a property of the type",
    "nextafter_wide": "that of 32 and 64 bits alone",
    "isclose": "decided by the last digits",
    "remainder": "jumps at multiples of the divisor",
    "floor_divide": "jumps at multiples of the divisor",
    "trunc_divide": "jumps at multiples of the divisor",
    "fmod": "jumps at multiples of the divisor",
    "frac": "jumps at integers",
}


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16], ids=lambda t: t.name)
@pytest.mark.parametrize("op, index", cases(lambda op: _half_entries(op) and op.name not in NO_HALF))
def test_half_precision_follows_float32(op, index, dtype):
    args = arrays(op, index)
    if not _floats(args) or "dtype" in args:
        pytest.skip("no floating point argument, or another result type")
    wide, narrow = {}, {}
    for k, v in tensors(op, args).items():
        is_float = isinstance(v, fl.Tensor) and v.is_floating_point()
        narrow[k] = v.to(dtype) if is_float else v
        wide[k] = narrow[k].to(fl.float32) if is_float else v
    for got, want in zip(call(op, narrow), call(op, wide)):
        if want.is_floating_point():
            assert got.dtype is dtype
        assert_near(got, want, dtype=dtype if want.is_floating_point() else None, what=op.ident)


# The shape of the result depends on values.
NO_META = {"nonzero", "masked_select", "repeat_interleave", "bincount", "unique_sorted", "unique_runs", "index_put"}


@pytest.mark.parametrize("op, index", cases(lambda op: op.name not in NO_META))
def test_meta_device_gives_shape_and_type(op, index):
    args = tensors(op, arrays(op, index))

    def move(v):
        return v.to("meta") if isinstance(v, fl.Tensor) else [move(e) for e in v] if isinstance(v, list) else v

    if all(move(v) is v for v in args.values()):
        pytest.skip("no tensor argument")
    for got, want in zip(call(op, {k: move(v) for k, v in args.items()}), call(op, args)):
        assert got.is_meta
        assert (got.shape, got.dtype) == (want.shape, want.dtype)


DECLARED = [pytest.param(op, e["call"], e["raises"], id=e["call"].replace(" ", "")) for op in OPS for e in op.get("errors", [])]


@pytest.mark.parametrize("op, text, raises", DECLARED)
def test_declared_error(op, text, raises):
    """`call: mm(f32[2,3], f32[4,5])` raises exactly `raises: "ShapeError: mm: ..."`."""
    kind, message = raises.split(": ", 1)
    code = re.sub(r"\b(?:bool|[fiu]\d+)\[[\d, ]*\](?: +(?:pos|unit|prob|< *\d+))?", lambda m: f"_({m[0]!r})", text)
    scope = {"_": lambda spec: fl.tensor(make(spec, seeded(text))), op.name: getattr(_C.ops, op.name)}
    with pytest.raises(getattr(fl, kind, None) or getattr(__import__("builtins"), kind)) as caught:
        eval(code, scope)
    assert str(caught.value) == message
