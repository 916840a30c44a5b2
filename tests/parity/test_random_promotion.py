"""Promotion by random programs beside PyTorch: pairs of dtypes, Python numbers, 0-d tensors, in-place forms, reductions."""

from __future__ import annotations

import pytest
from cases import UNIMPLEMENTED, Deliberate, broadcastable, check, shape_of, tensor

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
DELIBERATE = [
    *UNIMPLEMENTED,
    Deliberate("number = -?[0-9]+ does not fit into u?int.*; line None there", "numbers that do not fit an integer type are refused where another number would be meant, as in a division"),
    Deliberate(r"^(?=.*(-\d|\d{4}))(?=.*dtype=L.u?int8).*(L\.(eq|ne|lt|le|gt|ge)\(x, y\)|x ([<>]=?|[=!]=) y)\)\n\[0\] [\[TF]", "comparisons of integers of one byte with what does not fit are exact"),
    Deliberate("there: .*(must be Tensor, not (int|float|bool))", "numbers are accepted where tensors are"),
    Deliberate("there: .*(heaviside is not yet implemented|did not match|expected dtype .* for `(end|weight)`|should have the same dtype)", "operands are promoted"),
    Deliberate("there: .*(Subtraction, the `-` operator, with a bool tensor|argument alpha must not be a floating|Boolean alpha only supported|Integer division with addcdiv)", "computed in the promoted type"),
    Deliberate("there: .*(only support floating point|Expected a floating point|must be either a floating point)", "integers are taken as floats"),
    Deliberate("there: .*(does not support bool input|does not support bool dtypes|do not support bool|on a bool tensor is not supported|Boolean inputs not supported|Unsupported input type encountered for isin|only supports boolean|condition to be a boolean)", "bool is a number of one bit"),
    Deliberate(r"L\.(all|any)\(.*(flambeau.bool here, torch.uint8 there|dim=\(\))", "any and all are bool; dim=() is all axes, as in every other reduction"),
    Deliberate(r"L\.median.*raises here: RangeError.*has no elements; .*line None there", "an empty median has no value"),
    Deliberate(r"L\.(log_)?softmax\(L\.zeros\(.*raises here: DTypeError.*expected a float.*line None there", "a softmax of integers is refused for empty tensors, too"),
    Deliberate(r"L\.std_mean\(.*\n\[0\] \[1\] .*inf.* here, .*nan.* there", "the mean beside an infinity is the mean"),
    Deliberate(r"^(?=.*-\d)(?=.*dtype=L.uint8).*x\.(lt|gt|le|ge|eq|ne)_\(y\).*\[0\] [01] here, [01] there", "... in place, too"),
    Deliberate(r"9223372036854775807.*(inf|float16).* here, nan there|(inf|float16).*9223372036854775807.* here, nan there", "an integer is not rounded to float16 first, where it would be inf"),
    Deliberate(r"L\.cat\(\[L\.zeros\(\(0,\).*raises here: RangeError\('cat: Dimension out of range .*line None there", "an axis is there or not, also of nothing"),
    Deliberate(r"\binf\b.*dtype=L\.(float|bfloat)\d+\).*dtype=L\.u?int\d+\)\)\n\[0\] .* here, ", "an infinity as an integer is anything"),
    Deliberate(r"L\.mode\(.*\n\[0\] .* here, .*nan.* there", "which of a row's single elements is its mode where one is NaN"),
    Deliberate(r"x = L\.zeros\(.*integer division by a divisor that holds 0'\); line None there", "a divisor of 0 is refused where nothing is divided, too"),
    Deliberate(r"x\.positive\(\)\).*x\.\w+_\(\).*\n\[0\] .* here, ", "positive returns a tensor of its own"),
    Deliberate(r"einsum.*raises here: DTypeError\(.*expected one dtype'\); line None there", "operands of einsum have one type, whatever the equation"),
    Deliberate(r"L\.inner\(.*(a has shape \[\]|b has shape \[\]|at most two of b'|expected one dtype).*line None there", "inner takes tensors of one type, and one or two axes"),
]

BINARY = (
    "add sub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin eq ne lt le gt ge atan2 hypot copysign "
    "logaddexp logaddexp2 xlogy logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor gcd lcm rsub isclose nextafter heaviside"
).split()
OPERATORS = "+ - * / // % ** & | ^ << >> < <= > >= == !=".split()
IN_PLACE = "add_ sub_ mul_ div_ floor_divide_ remainder_ fmod_ pow_ eq_ ne_ lt_ gt_ logical_and_ bitwise_and_ bitwise_or_ atan2_ copysign_".split()
OPERATORS_IN_PLACE = "+= -= *= /= //= %= **= &= |= ^= <<= >>=".split()


def number(rng):
    return rng.choice(["True", "False", "0", "1", "2", "3", "-1", "-3", "7", "100", "0.5", "1.5", "-2.5", "0.0", "2.0", "inf", "nan"])


def operand(rng, shape, small=False):
    """The source of a tensor, a 0-d tensor or a number."""
    kind = rng.random()
    if kind < 0.25:
        return number(rng)
    dtype = rng.choice(DTYPES)
    values_of = (lambda r: r.choice(["0", "1", "2", "3"])) if small else None
    return tensor(rng, () if kind < 0.45 else broadcastable(rng, shape), dtype, values_of)


def pair(rng, small=False):
    shape = shape_of(rng, 2, 3)
    x = tensor(rng, shape if rng.random() < 0.8 else (), rng.choice(DTYPES), (lambda r: r.choice(["0", "1", "2", "3", "4"])) if small else None)
    return x, operand(rng, shape, small)


def binary(rng):
    name = rng.choice(BINARY)
    x, y = pair(rng, small=name in ("pow", "float_power"))
    return f"x = {x}\ny = {y}\nout.append(L.{name}(x, y))"


def operators(rng):
    op = rng.choice(OPERATORS)
    x, y = pair(rng, small=op in ("**", "<<", ">>"))
    if rng.random() < 0.3:
        x, y = y, x
        if not x.startswith("L.") and not y.startswith("L."):
            x = "L.tensor(1)"
    return f"x = {x}\ny = {y}\nout.append(x {op} y)"


def in_place(rng):
    x, y = pair(rng, small=True)
    line = f"x {rng.choice(OPERATORS_IN_PLACE)} y" if rng.random() < 0.5 else f"out.append(x.{rng.choice(IN_PLACE)}(y))"
    return f"x = {x}\ny = {y}\n{line}\nout.append(x)"


def choosing(rng):
    """where, clamp, cat, stack, lerp and the like: several operands of several dtypes."""
    shape = shape_of(rng, 2, 3)
    a, b, c = (tensor(rng, broadcastable(rng, shape) if rng.random() < 0.8 else (), rng.choice(DTYPES)) for _ in range(3))
    same = [tensor(rng, shape, rng.choice(DTYPES)) for _ in range(rng.randint(1, 3))]
    condition = tensor(rng, shape, rng.choice(["bool", "bool", "bool", "uint8"]), lambda r: r.choice("01"))
    rounding = rng.choice(["None", "'floor'", "'trunc'"])
    n, m = number(rng), number(rng)
    dim = rng.choice([0, -1, 1])
    return "out.append(" + rng.choice(
        [
            f"L.where({condition}, {a}, {b})",
            f"L.where({condition}, {a}, {n})",
            f"L.where({condition}, {n}, {b})",
            f"L.where({condition}, {n}, {m})",
            f"{a}.where({condition}, {b})",
            f"L.cat([{', '.join(same)}], {dim})",
            f"L.stack([{', '.join(same)}], {dim})",
            f"L.clamp({a}, {n}, {m})",
            f"L.clamp({a}, min={n})",
            f"L.clamp({a}, max={n})",
            f"L.clamp({a}, {b}, {c})",
            f"L.clamp({a}, min={b})",
            f"L.clamp({a}, max={b})",
            f"L.div({a}, {b}, rounding_mode={rounding})",
            f"L.div({a}, {n}, rounding_mode={rounding})",
            f"L.add({a}, {b}, alpha={rng.choice(['2', '0.5', 'True', '-1'])})",
            f"L.sub({a}, {b}, alpha={rng.choice(['2', '0.5', 'True', '-1'])})",
            f"L.add({a}, {n}, alpha={rng.choice(['2', '0.5'])})",
            f"L.addcmul({a}, {b}, {c})",
            f"L.addcdiv({a}, {b}, {c})",
            f"L.lerp({a}, {b}, 0.5)",
            f"L.result_type({a}, {rng.choice([b, n])}) == L.{rng.choice(DTYPES)}",
            f"L.can_cast(L.{rng.choice(DTYPES)}, L.{rng.choice(DTYPES)})",
            f"L.promote_types(L.{rng.choice(DTYPES)}, L.{rng.choice(DTYPES)}) == L.{rng.choice(DTYPES)}",
            f"L.outer({tensor(rng, (2,), rng.choice(DTYPES))}, {tensor(rng, (3,), rng.choice(DTYPES))})",
            f"L.masked_fill({a}, {condition}, {n})",
            f"L.full({shape}, {n})",
            f"L.full_like({a}, {rng.choice(['0', '1', '2.5', 'True'])})",
            f"L.tensor([{n}, {m}])",
            f"L.tensor([[{n}], [{m}]], dtype=L.{rng.choice(DTYPES[6:])})",
            f"L.arange({rng.choice(['3', '2.5', '1, 4', '0, 1, 0.25', '5, 0, -2', '1.0, 3', '0, 0', '3, 1', 'True, 4'])})",
            f"L.linspace({rng.choice(['0, 1, 5', '3, -2.5, 4', '1, 1, 1', '0, 1, 0', '2, 9, 3'])}{rng.choice(['', ', dtype=L.float64', ', dtype=L.int64'])})",
            f"L.equal({a}, {b})",
            f"L.allclose({a}, {a})",
            f"L.tensordot({tensor(rng, (2, 3), rng.choice(DTYPES))}, {tensor(rng, (3, 2), rng.choice(DTYPES))}, 1)",
            f"L.bucketize({a}, L.tensor([0.0, 1.0, 2.0]))",
            f"L.isin({a}, {b})",
        ]
    ) + ")"


REDUCE = "sum mean prod cumsum cumprod amax amin max min argmax argmin any all var std logsumexp nansum median mode sort argsort norm count_nonzero cummax cummin aminmax softmax log_softmax topk unique std_mean".split()


def reductions(rng):
    shape = shape_of(rng, 3, 3)
    dtype = rng.choice(DTYPES)
    name = rng.choice(REDUCE)
    few = rng.random() < 0.5
    x = tensor(rng, shape, dtype, (lambda r: r.choice("0123")) if few and dtype != "bool" else None)
    dim = rng.randint(-len(shape), len(shape) - 1) if shape and rng.random() > 0.03 else rng.choice([0, -1, len(shape)])
    dims = tuple(rng.sample(range(len(shape)), rng.randint(0, len(shape))))
    options = []
    if name == "topk":
        return f"out.append(L.topk({x}, {rng.randint(0, 2)}, {dim})[0])"
    if name == "unique":
        return f"out.append(L.unique({x}))"
    if name in ("sort",):
        return f"out += list(L.sort({x}, dim={dim}, stable=True, descending={rng.random() < 0.5}))"
    if name == "argsort":
        return f"out.append(L.argsort({x}, dim={dim}, stable=True))"
    if name in ("median", "mode"):
        return f"out.append(L.{name}({x}, {dim})[0])" if rng.random() < 0.7 else f"out.append(L.median({x}))"
    if name in ("cumsum", "cumprod", "softmax", "log_softmax", "cummax", "cummin", "logsumexp"):
        options.append(f"dim={dim}")
    elif rng.random() < 0.6:
        many = name in ("sum", "mean", "amax", "amin", "var", "std", "nansum", "norm", "any", "all", "count_nonzero")
        options.append(f"dim={dims if many and rng.random() < 0.4 else dim}")
        if rng.random() < 0.3 and name != "count_nonzero":
            options.append("keepdim=True")
    if name in ("sum", "mean", "prod", "cumsum", "cumprod", "nansum", "softmax", "log_softmax") and rng.random() < 0.4:
        options.append(f"dtype=L.{rng.choice(DTYPES)}")
    if name in ("var", "std") and rng.random() < 0.5:
        options.append(f"correction={rng.choice([0, 1, 2])}")
    if name == "norm":
        options.append(f"p={rng.choice(['2', '1', 'inf', '-inf', '0', '3', '0.5'])}")
    call = f"L.{name}({', '.join([x, *options])})"
    if name in ("cummax", "cummin"):
        return f"out.append({call}[0])"
    return f"out.append({call})"


UNARY = (
    "abs neg exp log sin cos tan sqrt rsqrt reciprocal sigmoid tanh floor ceil round trunc sign square relu erf expm1 log1p log2 log10 exp2 isnan isinf isfinite "
    "logical_not bitwise_not positive sgn signbit frac nan_to_num asin acos atan sinh cosh asinh atanh deg2rad lgamma digamma erfinv logit isneginf isposinf"
).split()
CAST = "float double half bfloat16 int long short char byte bool".split()


def unary(rng):
    shape = shape_of(rng, 2, 3)
    # What a float outside of an integer's range becomes is up to the processor.
    x = tensor(rng, shape, rng.choice(DTYPES))
    kind = rng.random()
    if kind < 0.6:
        call = f"x.{rng.choice(UNARY)}()"
    elif kind < 0.7:
        call = f"{rng.choice(['-x', '~x', '+x', 'abs(x)', 'bool(x)', 'int(x)', 'float(x)', 'x.item()', 'x.tolist()', 'len(x)', 'x.round(decimals=1)', 'x.numel()', 'x.dim()', 'x.element_size()'])}"
    elif kind < 0.9:
        call = f"x.nan_to_num(0, 0, 0).{rng.choice(CAST)}()"
    else:
        call = f"x.nan_to_num(0, 0, 0).to(L.{rng.choice(DTYPES)})"
    lines = [f"x = {x}", f"out.append({call})"]
    if rng.random() < 0.2:
        lines.append(f"x.{rng.choice('abs_ neg_ exp_ sqrt_ sigmoid_ floor_ round_ relu_ tanh_ zero_ reciprocal_ sin_ square_ sign_'.split())}()\nout.append(x)")
    return "\n".join(lines)


def products(rng):
    """Matrix products: dtypes have to be the same, and shapes of every rank."""
    a, b, c, batch = (rng.randint(0 if rng.random() < 0.1 else 1, 3) for _ in range(4))
    one = rng.choice(DTYPES)
    other = one if rng.random() < 0.7 else rng.choice(DTYPES)
    few = lambda r: r.choice("01234")  # noqa: E731
    wrong = 1 if rng.random() < 0.05 else 0
    left = rng.choice([(b,), (a, b), (batch, a, b), (1, a, b), ()])
    right = rng.choice([(b + wrong,), (b, c), (batch, b, c), (b, c), ()])
    x, y = tensor(rng, left, one, few), tensor(rng, right, other, few)
    name = rng.choice(["matmul", "matmul", "mm", "mv", "dot", "bmm", "addmm", "einsum", "inner", "kron", "linear", "baddbmm"])
    bias = tensor(rng, rng.choice([(c,), (a, c), (), (batch, a, c)]), one, few)
    call = {
        "addmm": f"L.addmm({bias}, {x}, {y}, beta={rng.choice(['1', '0', '2'])}, alpha={rng.choice(['1', '2'])})",
        "baddbmm": f"L.baddbmm({bias}, {x}, {y})",
        "einsum": f"L.einsum('{rng.choice(['ij,jk->ik', 'ij,jk', 'bij,bjk->bik', 'ij,j->i', '...ij,...jk->...ik', 'i,i->', 'i,j->ij', 'bij,jk->bk'])}', {x}, {y})",
        "linear": f"L.nn.functional.linear({x}, {tensor(rng, (c, b), other, few)}{rng.choice(['', f', {tensor(rng, (c,), one, few)}'])})",
    }.get(name, f"L.{name}({x}, {y})")
    return f"out.append({call})"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [binary, operators, in_place, choosing, reductions, unary, products], ids=lambda f: f.__name__)
def test_promotion(make, seed):
    check(make, seed, 800, DELIBERATE)
