"""Saving, loading and deep copies of random structures beside PyTorch: kinds, sharing, strides, requires_grad, metadata."""

from __future__ import annotations

import pytest
from cases import Deliberate, check, shape_of, tensor

# A tensor that shares its memory with nothing else that is saved is written without the elements it skips, so strides
# with gaps and offsets are not compared here: programs have no such tensors.
DELIBERATE: list[Deliberate] = []

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
ABOUT = """def about(v):
    if isinstance(v, L.Tensor):
        return (type(v).__name__, v, [s for s, n in zip(v.stride(), v.shape) if n > 1 and v.numel()], v.requires_grad, v.is_leaf, v.grad)
    if isinstance(v, dict):
        return (type(v).__name__, [(k, about(e)) for k, e in v.items()], hasattr(v, '_metadata') and copy.deepcopy(dict(v._metadata)))
    if isinstance(v, (list, tuple)):
        return (type(v).__name__, [about(e) for e in v])
    return (type(v).__name__, v)
def tensors(v):
    if isinstance(v, L.Tensor):
        return [v]
    return [t for e in (v.values() if isinstance(v, dict) else v if isinstance(v, (list, tuple)) else []) for t in tensors(e)]
def same(v):
    seen = tensors(v)
    return [[a is b for b in seen] for a in seen]
def touched(v):
    out = [t.detach() for t in tensors(v)]
    for i, t in enumerate(out):
        if t.numel():
            t[(0,) * t.dim()] = i % 2
    return [t.clone() for t in out]
def saved(v):
    f = io.BytesIO()
    L.save(v, f)
    f.seek(0)
    return L.load(f, weights_only=False)"""


def tensors(rng, gaps):
    """Lines that make t0, t1, ...: alone, views of one another, Parameters."""
    lines = []
    for i in range(rng.randint(1, 4)):
        kind = rng.random()
        older = f"t{rng.randrange(i)}" if i else ""
        dtype = rng.choice(DTYPES)
        fresh = tensor(rng, shape_of(rng, 3, 3), dtype, (lambda r: r.choice("01")) if dtype == "bool" else lambda r: str(r.randint(0, 9)))
        if kind < 0.35 or not i:
            line = fresh
        elif kind < 0.65:
            view = rng.choice(["{o}.detach()[...]", "{o}.detach().reshape(-1)", "{o}.detach()[..., :1]", "{o}.detach()[..., ::2]", "{o}.detach().transpose(0, -1)", "{o}.detach().unsqueeze(0)", "{o}.data", "{o}"])
            if ":1" in view or "::2" in view:
                view = view if gaps else "{o}"
            line = f"{view.format(o=older)}"
            if "..." in line or "transpose" in line:
                line = f"({line} if {older}.dim() else {older})"
        elif kind < 0.8:
            line = f"L.nn.Parameter(L.ones({shape_of(rng, 2, 3)}){rng.choice(['', ', requires_grad=False'])})"
        elif kind < 0.9:
            line = f"L.ones({shape_of(rng, 2, 3)}, requires_grad=True)"
        else:
            line = f"L.arange(12.0).reshape(3, 4){rng.choice(['.t()', '[0]', '[1:]', '[2, 3]', '.reshape(2, 2, 3).permute(2, 0, 1)'])}"
        lines.append(f"t{i} = {line}")
    return lines


def structure(rng, count, depth=0):
    kind = rng.random()
    if depth > 2 or kind < 0.45:
        return f"t{rng.randrange(count)}" if rng.random() < 0.75 else rng.choice(["1", "2.5", "'text'", "None", "True", "-3", "nan", "''", "10**18", "inf", "[]", "()", "{}"])
    parts = [structure(rng, count, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind < 0.6:
        return "[" + ", ".join(parts) + "]"
    if kind < 0.75:
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
    items = [f"{rng.choice([repr('a'), repr('b.c'), repr('0'), '3', '(1, 2)', repr('')]) if rng.random() < 0.3 else repr('k' + str(i))}: {p}" for i, p in enumerate(parts)]
    text = "{" + ", ".join(items) + "}"
    return f"collections.OrderedDict({text})" if kind > 0.9 else text


def program(rng, way):
    lines = [ABOUT, *tensors(rng, gaps=way != "saved")]
    count = len(lines) - 1
    lines += [f"v = {structure(rng, count)}", f"w = {way}(v)", "out.append(about(w))", "out.append(same(w))", "out.append(touched(w))", "out.append(about(v))"]
    return "\n".join(lines)


def saving(rng):
    return program(rng, "saved")


def copying(rng):
    return program(rng, "copy.deepcopy")


MODULES = [
    "L.nn.Linear(2, 3)", "L.nn.Sequential(L.nn.Linear(2, 2), L.nn.ReLU(), L.nn.Linear(2, 1))", "L.nn.BatchNorm1d(3)", "L.nn.Embedding(3, 2)", "L.nn.LSTM(2, 3)", "L.nn.Conv2d(1, 2, 2)",
    "L.nn.ModuleDict({'b': L.nn.Linear(1, 1), 'a': L.nn.LayerNorm(2)})", "L.nn.ParameterList([L.ones(2), L.zeros(1)])", "L.nn.MultiheadAttention(4, 2)", "L.nn.GroupNorm(1, 2)", "L.nn.Dropout(0.5)", "L.nn.Bilinear(2, 2, 2)",
    "L.nn.ParameterDict({'z': L.ones(1), 'y': L.zeros(2)})", "L.nn.TransformerEncoderLayer(4, 2, 8)", "L.nn.GRUCell(2, 3)", "L.nn.PReLU()", "L.nn.BatchNorm2d(2, affine=False)", "L.nn.InstanceNorm1d(2, track_running_stats=True)",
]  # fmt: skip


def states(rng):
    """State dicts: order, keys, metadata, tied parameters, loading of what is missing or too much."""
    lines = [ABOUT, f"m = {rng.choice(MODULES)}", "for i, p in enumerate(m.parameters()): p.data.fill_(i + 1)"]
    if rng.random() < 0.3:
        lines.append(f"m = L.nn.ModuleList([m, {rng.choice(['m', 'copy.deepcopy(m)', 'L.nn.Identity()', 'L.nn.Flatten()'])}])")
    if rng.random() < 0.2:
        lines.append("m.register_buffer('extra', L.arange(3), persistent=" + rng.choice(["True", "False"]) + ")")
    lines.append(f"d = m.state_dict({rng.choice(['', '', 'keep_vars=True', 'prefix={q}p.{q}'.format(q=chr(39))])})")
    lines += [f"w = {rng.choice(['saved', 'copy.deepcopy', 'dict', 'copy.copy'])}(d)", "out.append(about(w))"]
    kind = rng.random()
    if kind < 0.2:
        lines.append("w.pop(next(iter(w), ''), None)")
    elif kind < 0.4:
        lines.append("w['surplus'] = L.ones(1)")
    elif kind < 0.5:
        lines.append("w[next(iter(w), 'y')] = L.ones(7, 7)")
    strict = rng.choice(["", ", strict=False", ", assign=True"])
    lines += ["n = copy.deepcopy(m)", "for p in n.parameters(): p.data.zero_()", f"r = n.load_state_dict(w{strict})", "out.append((sorted(r.missing_keys), sorted(r.unexpected_keys)))", "out.append(about(n.state_dict()))", "out.append([(k, p.requires_grad) for k, p in n.named_parameters()])"]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [saving, copying, states], ids=lambda f: f.__name__)
def test_saving(make, seed):
    check(make, seed, 300, DELIBERATE)
