"""Layers at odd arguments by random programs beside PyTorch: values, shapes and gradients, or an error in both."""

from __future__ import annotations

import pytest
from cases import UNIMPLEMENTED, Deliberate, check

DELIBERATE = [
    *UNIMPLEMENTED,
    Deliberate("there: .*(Output size is too small|Padding size .* is not supported for|narrow..: length must be non-negative|is too small. Calculated output)", "empty results are results"),
    Deliberate(r"pad: Padding value causes wrapping around more than once: pad = .*mode 'circular' .*line None there", "a circular axis is padded by at most its size"),
    Deliberate(r"adaptive_max_pool1d.*NoneType at pos 0", "None keeps the axis, as in two dimensions"),
    Deliberate("there: .Expected 3D or higher dimensionality", "local_response_norm takes [N, C]"),
    Deliberate("group_norm.*there: .Expected more than 1 value per channel", "the normalized value of one element is 0"),
    Deliberate("there: .one_hot is only applicable to index tensor of type LongTensor", "any integers are classes"),
    Deliberate("there: .*(recompute_scale_factor is not meaningful|must have the same number of spatial dimensions)", "what does not matter is not looked at"),
    Deliberate("interpolate: input shape .* becomes positions .*line None there", "an empty result of interpolate is refused"),
]


def some(rng, rank, low, high):
    """A number, or one per axis."""
    return str(rng.randint(low, high)) if rng.random() < 0.7 else str(tuple(rng.randint(low, high) for _ in range(rank)))


def source(shape, dtype, name="x"):
    total = 1
    for n in shape:
        total *= n
    return f"{name} = (L.arange({total}, dtype=L.float64) * 0.7).sin().reshape({shape}).to(L.{dtype}).requires_grad_()"


def spatial(rng, rank, channels, most=6):
    lead = [] if rng.random() < 0.15 else [0 if rng.random() < 0.05 else rng.randint(1, 2)]
    shape = [*lead, channels, *(rng.randint(1, most) for _ in range(rank))]
    if rng.random() < 0.02:
        shape = shape[1:] if rng.random() < 0.5 else [1, *shape]
    return tuple(shape)


def dtype_of(rng):
    return rng.choice(["float32", "float64", "float64", "bfloat16"])


def finish(names):
    # Both gradients of a sum with different weights, which a constant sum would hide.
    return ["out.append(y)", "if y.requires_grad: (y * L.arange(y.numel()).reshape(y.shape).to(y.dtype).cos()).sum().backward()", f"out.append([t.grad for t in ({', '.join(names)},)])"]


def convolution(rng):
    rank = rng.choice([1, 2, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 3])
    inputs, outputs = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    transposed = rng.random() < 0.35
    dtype = dtype_of(rng)
    kernel = tuple(rng.randint(1, 3) for _ in range(rank))
    x = spatial(rng, rank, inputs + (rng.random() < 0.02), 6 if rank < 3 else 4)
    weight = (inputs, outputs // groups, *kernel) if transposed else (outputs, inputs // groups, *kernel)
    options = [f"stride={some(rng, rank, 1, 3)}", f"dilation={some(rng, rank, 1, 2)}", f"groups={groups}"]
    options.append(f"padding={some(rng, rank, 0, 3)}" if transposed or rng.random() < 0.85 else f"padding={rng.choice(['{q}same{q}', '{q}valid{q}']).format(q=chr(39))}")
    if transposed:
        options.append(f"output_padding={some(rng, rank, 0, 1)}")
    picked = rng.sample(options, rng.randint(0, len(options) - 1))
    if groups > 1 and options[2] not in picked:
        picked.append(options[2])
    bias = rng.random() < 0.6
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    lines = [source(x, dtype), source(weight, dtype, "w")] + ([source((outputs,), dtype, "b")] if bias else [])
    return "\n".join([*lines, f"y = L.nn.functional.{name}(x, w, {', '.join(['b' if bias else 'None', *picked])})", *finish(["x", "w", "b"] if bias else ["x", "w"])])


def padded(rng):
    """Convolution modules with padding modes, and pad itself."""
    rank = rng.choice([1, 2, 2])
    dtype = rng.choice(["float32", "float64"])
    if rng.random() < 0.6:
        x = spatial(rng, rank, 2)
        mode = rng.choice(["zeros", "reflect", "replicate", "circular"])
        lines = [source(x, dtype), f"m = L.nn.Conv{rank}d(2, 2, {some(rng, rank, 1, 3)}, padding={some(rng, rank, 0, 3)}, padding_mode='{mode}', stride={rng.randint(1, 2)}).to(L.{dtype})"]
        lines += ["for p in m.parameters(): p.data = (L.arange(p.numel(), dtype=p.dtype) * 0.3).cos().reshape(p.shape)", "y = m(x)"]
        return "\n".join([*lines, *finish(["x", "m.weight", "m.bias"])])
    shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 5)))
    pads = [rng.randint(-2, 3) for _ in range(2 * rng.randint(1, len(shape)) + (rng.random() < 0.03))]
    mode = rng.choice(["constant", "constant", "reflect", "replicate", "circular"])
    value = f", value={rng.choice(['1.5', '-1', '0'])}" if mode == "constant" and rng.random() < 0.5 else ""
    return "\n".join([source(shape, dtype), f"y = L.nn.functional.pad(x, {pads}, mode='{mode}'{value})", *finish(["x"])])


def pooling(rng):
    rank = rng.choice([1, 2, 2])
    x = spatial(rng, rank, 2, 7)
    dtype = dtype_of(rng)
    kind = rng.choice(["max", "max", "avg", "avg", "adaptive_avg", "adaptive_max", *["lp"] * (rank == 2)])
    if kind.startswith("adaptive"):
        size = some(rng, rank, 1, 5) if rng.random() < 0.9 else str(tuple(rng.choice([None, 1, 2]) for _ in range(rank)))
        call = f"L.nn.functional.{kind}_pool{rank}d(x, {size})"
    else:
        options = [f"stride={some(rng, rank, 1, 3)}", f"ceil_mode={rng.random() < 0.5}"]
        if kind != "lp":
            options.append(f"padding={some(rng, rank, 0, 1)}")
        if kind == "max" and "ceil_mode=True" not in options:  # a window between the elements gives its gradient to another plane there
            options.append(f"dilation={some(rng, rank, 1, 2)}")
        if kind == "avg":
            options.append(f"count_include_pad={rng.random() < 0.5}")
            if rank > 1:
                options.append(f"divisor_override={rng.choice([None, 2, 3])}")
        rank_of_lp = min(rank, 2) if kind == "lp" else rank
        call = f"L.nn.functional.{kind}_pool{rank_of_lp}d(x, {'2, ' if kind == 'lp' else ''}{', '.join([some(rng, rank_of_lp, 1, 3), *rng.sample(options, rng.randint(0, len(options)))])})"
    lines = [source(x, dtype), f"y = {call}"]
    if kind == "max" and rng.random() < 0.3:
        lines[1] = lines[1][:-1] + ", return_indices=True)"
        lines.append("y, i = y\nout.append(i)")
    return "\n".join([*lines, *finish(["x"])])


def norms(rng):
    shape = (rng.randint(0 if rng.random() < 0.05 else 1, 3), rng.choice([2, 4]), *(rng.randint(1, 3) for _ in range(rng.randint(0, 2))))
    dtype = rng.choice(["float32", "float64"])
    c = shape[1]
    F = "L.nn.functional."
    w, b = rng.choice([("None", "None"), ("w", "b"), ("w", "None")])
    call, size = rng.choice(
        [
            (f"{F}batch_norm(x, L.zeros({c}, dtype=x.dtype), L.ones({c}, dtype=x.dtype), {w}, {b}, training={rng.random() < 0.6}, momentum={rng.choice(['0.1', '0.5', '0'])}, eps={rng.choice(['1e-5', '0.1'])})", (c,)),
            (f"{F}batch_norm(x, None, None, {w}, {b}, training=True)", (c,)),
            (f"{F}layer_norm(x, {shape[-1:]}, {w}, {b}, {rng.choice(['1e-5', '0.1'])})", shape[-1:]),
            (f"{F}layer_norm(x, {shape[1:]}, {w}, {b})", shape[1:]),
            (f"{F}group_norm(x, {rng.choice([1, 2, 2, 3])}, {w}, {b})", (c,)),
            (f"{F}instance_norm(x, None, None, {w}, {b})", (c,)),
            (f"{F}rms_norm(x, {shape[-1:]}, {w})", shape[-1:]),
            (f"{F}normalize(x, p={rng.choice([1, 2, 3])}, dim={rng.randint(-1, 1)})", (c,)),
            (f"{F}local_response_norm(x, {rng.randint(1, 3)})", (c,)),
        ]
    )
    return "\n".join([source(shape, dtype), source(size, dtype, "w"), source(size, dtype, "b"), f"y = {call}", *finish(["x", "w", "b"])])


LOSSES = ["mse_loss(x, t{r})", "l1_loss(x, t{r})", "smooth_l1_loss(x, t{r}, beta={h})", "huber_loss(x, t{r}, delta={h})", "binary_cross_entropy_with_logits(x, t.sigmoid(){r})", "binary_cross_entropy(x.sigmoid(), t.sigmoid(){r})", "kl_div(x.log_softmax(-1), t.softmax(-1){r})", "kl_div(x.log_softmax(-1), t.log_softmax(-1), log_target=True{r})", "soft_margin_loss(x, t.sign(){r})", "poisson_nll_loss(x, t.abs(){r})", "gaussian_nll_loss(x, t, t.abs() + 1{r})", "hinge_embedding_loss(x, t.sign(){r})", "margin_ranking_loss(x, x * 2, t.sign(), {h}{r})", "cross_entropy(x, t.softmax(-1){r})"]
ACTIVATIONS = ["relu(x)", "relu6(x * 8)", "elu(x, {h})", "selu(x)", "celu(x, {h})", "gelu(x)", "gelu(x, approximate='tanh')", "silu(x)", "mish(x)", "softplus(x, {h}, 2)", "hardtanh(x, -{h}, 0.25)", "hardswish(x * 4)", "hardsigmoid(x * 4)", "leaky_relu(x, {h})", "softsign(x)", "tanhshrink(x)", "softshrink(x, {h})", "hardshrink(x, {h})", "threshold(x, {h}, 3)", "logsigmoid(x)", "glu(x, -1)", "prelu(x, w)", "softmax(x, {d})", "log_softmax(x, {d})", "softmin(x, {d})", "dropout(x, 0.5, training=False)", "cosine_similarity(x, x.detach().flip(-1), {d})", "pairwise_distance(x, x.detach().flip(-1))"]  # fmt: skip


def functions(rng):
    shape = tuple(rng.randint(0 if rng.random() < 0.03 else 1, 4) for _ in range(rng.randint(0 if rng.random() < 0.1 else 1, 3)))
    dtype = dtype_of(rng)
    if rng.random() < 0.5:
        text = rng.choice(ACTIVATIONS).format(h=rng.choice(["0.5", "1", "0.1"]), d=rng.randint(-len(shape), max(len(shape) - 1, 0)) if shape else 0)
        return "\n".join([source(shape, dtype), source((rng.choice([1, shape[1] if len(shape) > 1 else 1]),), dtype, "w"), f"y = L.nn.functional.{text}", *finish(["x"])])
    reduction = rng.choice(["", ", reduction='sum'", ", reduction='none'", ", reduction='mean'"])
    text = rng.choice(LOSSES).format(r=reduction, h=rng.choice(["0.5", "1", "0.1"]))
    return "\n".join([source(shape, dtype), "t = (L.arange(x.numel(), dtype=L.float64) * 0.9).cos().reshape(x.shape).to(x.dtype)", f"y = L.nn.functional.{text}", *finish(["x"])])


def classes(rng):
    """cross_entropy, nll_loss, embedding, one_hot: targets that are classes."""
    c, n = rng.randint(1, 4), rng.randint(0 if rng.random() < 0.05 else 1, 3)
    extra = tuple(rng.randint(1, 2) for _ in range(rng.randint(0, 2)))
    dtype = rng.choice(["float32", "float64"])
    count = n
    for e in extra:
        count *= e
    shape, targets = ((n, c, *extra), (n, *extra)) if rng.random() < 0.9 else ((c,), ())
    chosen = [rng.randrange(c) if rng.random() < 0.97 else rng.choice([-100, c, -1]) for _ in range(count if targets else 1)]
    options = [rng.choice(["", ", reduction='sum'", ", reduction='none'"]), rng.choice(["", "", f", weight=L.arange(1, {c} + 1).to(x.dtype)"]), rng.choice(["", "", ", ignore_index=0"])]
    if rng.random() < 0.7:
        smooth = rng.choice(["", "", ", label_smoothing=0.25"])
        call = f"L.nn.functional.cross_entropy(x, t{''.join(options)}{smooth})" if rng.random() < 0.6 else f"L.nn.functional.nll_loss(x.log_softmax({1 if targets else 0}), t{''.join(options)})"
        return "\n".join([source(shape, dtype), f"t = L.tensor({chosen}).reshape({targets})", f"y = {call}", *finish(["x"])])
    call = rng.choice(
        [
            f"L.nn.functional.embedding(t, x{rng.choice(['', ', padding_idx=0', ', padding_idx=-1', ', scale_grad_by_freq=True'])})",
            f"L.nn.functional.one_hot(t{rng.choice(['', ', 5', f', {c}'])})",
        ]
    )
    return "\n".join([source((c, 3), dtype), f"t = L.tensor({[abs(v) % c for v in chosen] if rng.random() < 0.95 else chosen}, dtype=L.{rng.choice(['int64', 'int64', 'int32'])})", f"y = {call}", *finish(["x"])])


def resizing(rng):
    """interpolate, fold, unfold, pixel_shuffle, grid_sample, affine_grid."""
    dtype = rng.choice(["float32", "float64"])
    rank = rng.choice([1, 2, 2, 2])
    x = (rng.randint(1, 2), 4, *(rng.randint(1, 5) for _ in range(rank)))
    mode = rng.choice(["nearest", "nearest", "linear", "bilinear", "area", "nearest-exact"])
    size = rng.choice([f"size={some(rng, rank, 1, 7)}", f"scale_factor={rng.choice(['2', '0.5', '1.5', '0.7', '3', (2, 0.5)])}"])
    corners = rng.choice(["", "", ", align_corners=True", ", align_corners=False"])
    call = rng.choice(
        [
            f"L.nn.functional.interpolate(x, {size}, mode='{mode}'{corners})",
            f"L.nn.functional.interpolate(x, {size}, mode='{mode}'{corners})",
            f"L.nn.functional.interpolate(x, {size}, mode='{mode}'{corners}, recompute_scale_factor=True)",
            f"L.nn.functional.unfold(x, {some(rng, 2, 1, 3)}, dilation={some(rng, 2, 1, 2)}, padding={some(rng, 2, 0, 2)}, stride={some(rng, 2, 1, 2)})",
            f"L.nn.functional.pixel_shuffle(x, {rng.choice([1, 2, 3])})",
            f"L.nn.functional.pixel_unshuffle(x, {rng.choice([1, 2])})",
        ]
    )
    return "\n".join([source(x, dtype), f"y = {call}", *finish(["x"])])


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("make", [convolution, padded, pooling, norms, functions, classes, resizing], ids=lambda f: f.__name__)
def test_layers(make, seed):
    check(make, seed, 300, DELIBERATE, scale=100)
