"""Indexing by random programs beside PyTorch: reading, writing, writing through views, and the ops that take indices."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from cases import UNIMPLEMENTED, Deliberate, check, shape_of, tensor

import flambeau as fl

torch = pytest.importorskip("torch")

DELIBERATE = [
    *UNIMPLEMENTED,
    Deliberate("there: .tensors used as indices must be long", "int8 and int16 count as positions too"),
    Deliberate("there: .*Index put requires the source and destination dtypes match", "what is written is cast, whatever the index is made of"),
    Deliberate("there: .masked_fill_ only supports boolean masks", "masks of bytes are accepted, as in indexing"),
    Deliberate("there: .can't assign a list to", "lists are accepted where tensors are"),
    Deliberate("there: .unsupported operation: some elements of the input tensor and the written-to tensor", "what is written is read as a whole first"),
    Deliberate(r"\[True\].*view\(.*there: .view size is not compatible", "what is gathered is row-major"),
    Deliberate(r"scatter_reduce\(.*9223372036854775807.*'mean'.*\n\[0\] .* here, ", "means are divided in double, there after the sum was wrapped"),
    Deliberate("raises here: RangeError.*out of bounds for dimension.*(line None|Index put requires)", "positions are checked where the result is empty, too"),
    Deliberate("there: .index_fill_..: Expected dtype int64", "int32 positions are accepted everywhere"),
    Deliberate(r"(roll|take_along_dim).*there: .Dimension specified as .* but tensor has no dimensions", "a 0-d tensor counts as one axis, as in flip and cumsum"),
    Deliberate(r"repeat_interleave.*there: .Dimension out of range", "a 0-d tensor counts as one axis, as in flip and cumsum"),
    Deliberate("index_fill: index has shape .*, but x has no axes.*line None there", "a 0-d tensor has one place"),
    Deliberate(r"there: .narrow.. cannot be applied to a 0-dim tensor", "a 0-d tensor counts as one axis, as in flip and cumsum"),
]


def base(rng, shape):
    """x, of distinct values: contiguous, permuted, or a strided part of something larger."""
    dtype = rng.choice(["float32", "float32", "float64", "int64", "uint8", "bool", "bfloat16"])
    way = rng.choice(["plain", "plain", "transposed", "strided", "offset"]) if shape else "plain"
    total = 1
    for n in shape:
        total *= n
    if way == "transposed":
        back = (shape[-1], *shape[1:-1], shape[0]) if len(shape) > 1 else shape
        return f"x = L.arange({total}).to(L.{dtype}).reshape({back}).transpose(0, -1)"
    if way == "strided":
        return f"x = L.arange({2 * total}).to(L.{dtype}).reshape({(*shape[:-1], 2 * shape[-1])})[..., ::2]"
    if way == "offset":
        return f"x = L.arange({total + 3}).to(L.{dtype})[3:].reshape({shape})"
    return f"x = L.arange({total}).to(L.{dtype}).reshape({shape})"


def integer(rng, n, wild=0.03):
    if rng.random() < wild or n == 0:
        return rng.choice([n, -n - 1])
    return rng.randint(-n, n - 1)


def integers(rng, n, unique):
    """The source of a tensor, list or array of positions on an axis of n elements."""
    count = rng.randint(0 if rng.random() < 0.1 else 1, max(1, n if unique else n + 1))
    picked = rng.sample(range(n), min(count, n)) if unique else [rng.randrange(n) for _ in range(count)] if n else []
    picked = [p - n if rng.random() < 0.3 else p for p in picked]
    if rng.random() < 0.03 and picked:
        picked[0] = n
    kind = rng.random()
    if kind < 0.2:
        return str(picked)
    if kind < 0.25:
        return f"np.array({picked}, dtype=np.int64)"
    dtype = rng.choice(["int64", "int64", "int64", "int32", "int32", "int16", "int8"])
    text = f"L.tensor({picked}, dtype=L.{dtype})"
    if rng.random() < 0.2:
        text += rng.choice(["[:, None]", "[None]", ".reshape(-1, 1)"])
    return text


def mask(rng, sizes):
    sizes = list(sizes)
    if rng.random() < 0.03:
        sizes[0] += 1
    dtype = "uint8" if rng.random() < 0.15 else "bool"
    text = tensor(rng, tuple(sizes), dtype, lambda r: r.choice(["0", "1"]))
    return text


def index(rng, shape, unique=False, fancy=True):
    """The source of an index of a tensor of this shape, and nearly always a valid one."""
    parts, axis = [], 0
    ellipsis = False
    while axis < len(shape) and rng.random() < 0.88:
        n, kind = shape[axis], rng.random()
        if kind < 0.22:
            parts.append(str(integer(rng, n)))
        elif kind < 0.50:
            bound = lambda: rng.choice(["", "", str(rng.randint(-n - 1, n + 1))])  # noqa: E731
            step = rng.choice(["", "", ":1", ":2", ":3"]) if rng.random() > 0.02 else rng.choice([":0", ":-1"])
            parts.append(f"{bound()}:{bound()}{step}")
        elif kind < 0.56:
            parts.append("None")
            axis -= 1
        elif kind < 0.62 and not ellipsis:
            ellipsis = True
            parts.append("...")
            axis += rng.randint(0, 1) - 1
        elif not fancy:
            parts.append(":")
        elif kind < 0.66:
            parts.append(rng.choice(["True", "False", "L.tensor(True)", "L.tensor(False)"]))
            axis -= 1
        elif kind < 0.70:
            parts.append(f"L.tensor({integer(rng, n)})")
        elif kind < 0.73:
            parts.append(f"np.int64({integer(rng, n)})")
        elif kind < 0.84:
            axes = min(rng.choice([1, 1, 2, 3]), len(shape) - axis)
            parts.append(mask(rng, shape[axis : axis + axes]))
            axis += axes - 1
        elif kind < 0.87:
            parts.append("[" + ", ".join(rng.choice(["True", "False"]) for _ in range(n)) + "]")
        else:
            parts.append(integers(rng, n, unique))
        axis += 1
    if rng.random() < 0.02:
        parts += ["0"] * (len(shape) + 1 - axis)
    if not parts:
        return rng.choice(["...", "()", "None", ":", "True"])
    return ", ".join(parts) if len(parts) > 1 or rng.random() < 0.8 else f"({parts[0]},)" if ":" not in parts[0] else parts[0]


def reading(rng):
    shape = shape_of(rng, 4)
    lines = [base(rng, shape), f"y = x[{index(rng, shape)}]", "out.append(y)"]
    if rng.random() < 0.4:
        lines += ["out.append(y[..., None][0:1])" if rng.random() < 0.5 else "out.append(y[None, ..., 0:2])"]
    if rng.random() < 0.3:
        lines.append("out.append(y.stride() if y.numel() and y.data_ptr() == x.data_ptr() else None)")
    return "\n".join(lines)


def through_views(rng):
    shape = shape_of(rng, 4)
    lines = [base(rng, shape), f"y = x[{index(rng, shape, fancy=rng.random() < 0.3)}]"]
    if rng.random() < 0.5:
        lines.append(rng.choice(["y = y[..., 0:1]", "y = y[None]", "y = y[0]", "y = y.transpose(0, -1)", "y = y[::2]", "y = y.unsqueeze(-1)", "y = y.view(-1)", "y = y.reshape(-1)"]))
    lines += [rng.choice(["y.fill_(1)", "y.mul_(0)", "y.zero_()", "y[...] = 1", "y.copy_(y + y)"]), "out += [x, y]"]
    return "\n".join(lines)


def writing(rng):
    shape = shape_of(rng, 4)
    at = index(rng, shape, unique=True)
    lines = [base(rng, shape)]
    kind = rng.random()
    if kind < 0.3:
        value = rng.choice(["1", "0", "2.5", "True", "L.tensor(3)", "L.tensor(1.5)", "L.tensor(True)", "L.tensor([2])", "L.ones(1, 1, 1)", "L.ones(2)", "L.zeros(0)"])
        lines.append(f"x[{at}] = {value}")
    elif kind < 0.7:
        dtype = rng.choice(["float32", "int64", "bool", "float64"])
        lines += [f"v = x[{at}]", f"v = L.arange(v.numel(), dtype=L.float32).reshape(v.shape).to({'x.dtype' if rng.random() < 0.7 else 'L.' + dtype}).add(1)"]
        lines += [rng.choice(["", "", "v = v[:1]", "v = v[None]", "v = v[..., :1]", "v = v[None, None]", "v = v[0]", "v = v.unsqueeze(-1)", "v = v[..., :2]", "v = v.tolist()"])]
        lines.append(f"x[{at}] = v")
    elif kind < 0.9:
        lines.append(f"x[{at}] {rng.choice(['+=', '-=', '*='])} {rng.choice(['2', '1', 'L.tensor(2)', 'x.sum()', '1.5'])}")
    else:
        lines.append(f"x[{at}] = x.reshape(-1)[:1]")
    return "\n".join([*lines, "out.append(x)"])


def putting(rng):
    shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
    axes = rng.randint(1, len(shape))
    count = rng.randint(0 if rng.random() < 0.1 else 1, 4)
    dtype = rng.choice(["float32", "float64", "int64", "int32", "uint8", "bool"])
    at = [f"L.tensor({[integer(rng, n, 0.01) for _ in range(count)]}, dtype=L.{rng.choice(['int64', 'int64', 'int32'])})" for n in shape[:axes]]
    if rng.random() < 0.2:
        k = rng.randrange(axes)
        at[k] = f"L.tensor({[rng.random() < 0.5 for _ in range(shape[k])]})"
    value = f"L.ones({(count, *shape[axes:]) if rng.random() < 0.6 else (1,) if rng.random() < 0.7 else (count + 1, *shape[axes:])}, dtype=L.{dtype if rng.random() < 0.9 else 'float32'})"
    name = rng.choice(["index_put_", "index_put"])
    return f"x = L.arange({shape[0]}, dtype=L.float32).to(L.{dtype}).reshape({(-1,) + (1,) * (len(shape) - 1)}).expand({shape}).clone()\nout.append(x.{name}(({', '.join(at)},), {value}, accumulate={rng.random() < 0.8 or count > 1}))\nout.append(x)"


def by_ops(rng):
    """gather, scatter, index_select and their kin."""
    shape = shape_of(rng, 3, empty=0.03)
    rank = len(shape)
    dim = rng.randint(-rank, rank - 1) if rank and rng.random() > 0.02 else rng.choice([0, -1, rank])
    n = shape[dim] if -rank <= dim < rank else 1
    dtype = rng.choice(["float32", "float64", "int64", "bool", "int32"])
    x = f"x = {tensor(rng, shape, dtype)}"
    k = rng.randint(0 if rng.random() < 0.1 else 1, 4)
    line = f"L.tensor({[rng.randrange(max(n, 1)) if rng.random() > 0.01 else n for _ in range(k)]}, dtype=L.{rng.choice(['int64', 'int64', 'int32'])})"
    part = [rng.randint(0 if rng.random() < 0.05 else 1, max(1, s)) if rng.random() < 0.5 else s for s in shape]
    if -rank <= dim < rank:
        part[dim] = k
    positions = tensor(rng, tuple(part), "int64", lambda r: str(r.randrange(max(n, 1)) if r.random() > 0.005 else n))
    unique = tuple(1 if rank and i == dim % rank else s for i, s in enumerate(part))
    one = tensor(rng, unique, "int64", lambda r: str(r.randrange(max(n, 1))))
    src = tensor(rng, tuple(s + rng.randint(0, 1) for s in part), dtype)
    rows = list(shape)
    if -rank <= dim < rank:
        rows[dim] = k
    values = tensor(rng, tuple(rows), dtype)
    boolean = tensor(rng, tuple(1 if rng.random() < 0.2 else s for s in shape), "bool")
    whole = tensor(rng, shape, "int64", lambda r: str(r.randrange(max(n, 1))))
    total = 1
    for s in shape:
        total *= s
    flat = f"L.tensor({[integer(rng, max(total, 1), 0.01) for _ in range(k)]})"
    call = rng.choice(
        [
            f"x.gather({dim}, {positions})",
            f"x.scatter({dim}, {one}, {rng.choice(['1', '2'])})",
            f"x.scatter({dim}, {one}, {src})",
            f"x.scatter_add({dim}, {positions}, {src})",
            f"x.scatter_reduce({dim}, {positions}, {src}, '{rng.choice(['sum', 'prod', 'amax', 'amin', 'mean'])}', include_self={rng.random() < 0.5})",
            f"x.index_select({dim}, {line})",
            f"x.index_add({dim}, {line}, {values})",
            f"x.index_add({dim}, {line}, {values}, alpha=2)",
            f"x.index_fill({dim}, {line}, {rng.choice(['1', '0'])})",
            f"x.masked_fill({boolean}, {rng.choice(['1', '0', '2.5', 'True', 'L.tensor(1)', '-inf'])})",
            f"x.masked_select({boolean})",
            f"x.take({flat})",
            f"L.take_along_dim(x, {whole}, {dim})",
            f"x.select({dim}, {integer(rng, n)})",
            f"x.narrow({dim}, {rng.randint(0, n)}, {rng.randint(0, n)})",
            "x.nonzero()",
            f"x.unbind({dim})",
            f"x.split({rng.randint(1, 3)}, {dim})",
            f"x.chunk({rng.randint(1, 3)}, {dim})",
            f"L.tensor_split(x, {rng.choice(['2', '3', '[1]', '[1, 2]', '[0, 5]'])}, {dim})",
            f"x.flip({dim})",
            f"x.roll({rng.randint(-3, 3)}, {dim})",
            f"x.unfold({dim}, {rng.randint(0, n + (rng.random() < 0.05))}, {rng.randint(1, 2)})",
            f"x.movedim({dim}, {rng.choice([0, -1])})",
            f"x.repeat_interleave({rng.randint(0, 2)}, {dim})",
            f"x.diagonal({rng.randint(-2, 2)})",
            f"x.tril({rng.randint(-2, 2)})",
            f"x.triu({rng.randint(-2, 2)})",
        ]
    )
    return f"{x}\nout.append({call})\nout.append(x)"


LISTS = [
    "[t1, t2]", "[[0, 1], [2, 3]]", "[slice(0, 2), 1]", "[m]", "[..., 1]", "[0, 1]", "[np.array([0, 1]), np.array([2, 3])]", "[0, [1, 2]]", "[t1]",
    "[None, 0]", "[True, False, True, False]", "[[True, False, True, False]]", "[0, t1]", "[[0, 1]]", "[]", "[[]]", "[t1[0], t1[1]]", "[np.int64(1), np.int64(0)]",
    "[(0, 1), (2, 3)]", "[range(2), range(2)]", "([[0, 1], [2, 3]],)", "[[[0, 1]]]", "[None]", "[0] * 33", "[[0]] * 33", "[...]", "range(2)", "deque([t1, t2])",
    "np.array([[0, 1], [2, 3]])", "[[0, 1], [2, 3], ...]", "(t1, [2, 3])", "[slice(None), [0, 2], None]",
]  # fmt: skip


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.filterwarnings("ignore")
def test_lists_as_indices(text):
    found = []
    for library in (fl, torch):
        x = library.arange(24.0).reshape(4, 6)
        names = {"t1": library.tensor([0, 1]), "t2": library.tensor([2, 3]), "m": library.tensor([True, False, True, False]), "np": np, "deque": deque}
        index = eval(text, names)
        got = x[index]
        x[index] = -1
        found.append((tuple(got.shape), got.tolist(), x.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [reading, through_views, writing, putting, by_ops], ids=lambda f: f.__name__)
def test_indexing(make, seed):
    check(make, seed, 800, DELIBERATE)
