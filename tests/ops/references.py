"""NumPy references of ops for which one expression is not enough: plain loops, in float64."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.special as sp


def _list(v, n):
    return list(v) * (n // len(v)) if isinstance(v, (list, tuple)) else [v] * n


def _convolution(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    # n: batch, c: channels in, o: channels out
    n, c, *size = x.shape
    o, _, *window = weight.shape
    d = len(size)
    stride, padding, dilation = _list(stride, d), _list(padding, d), _list(dilation, d)
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    out = [(size[i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1) // stride[i] + 1 for i in range(d)]
    y = np.zeros((n, o, *out))
    for at in itertools.product(*map(range, out)):
        cut = tuple(slice(a * s, a * s + dl * (w - 1) + 1, dl) for a, s, dl, w in zip(at, stride, dilation, window))
        part = x[(slice(None), slice(None), *cut)].reshape(n, groups, c // groups, -1)
        w = weight.reshape(groups, o // groups, c // groups, -1)
        y[(slice(None), slice(None), *at)] = np.einsum("ngck,gock->ngo", part, w).reshape(n, o)
    return [y if bias is None else y + bias.reshape(-1, *[1] * d)]


def _convolution_transposed(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    n, c, *size = x.shape
    _, per, *window = weight.shape
    d = len(size)
    stride, padding, dilation, extra = (_list(v, d) for v in (stride, padding, dilation, output_padding))
    full = [(size[i] - 1) * stride[i] + dilation[i] * (window[i] - 1) + 1 + extra[i] for i in range(d)]
    y = np.zeros((n, groups * per, *full))
    for at in itertools.product(*map(range, size)):
        cut = tuple(slice(a * s, a * s + dl * (w - 1) + 1, dl) for a, s, dl, w in zip(at, stride, dilation, window))
        part = x[(slice(None), slice(None), *at)].reshape(n, groups, c // groups)
        w = weight.reshape(groups, c // groups, per, *window)
        y[(slice(None), slice(None), *cut)] += np.einsum("ngc,gcp...->ngp...", part, w).reshape(n, groups * per, *window)
    y = y[(slice(None), slice(None), *[slice(p, f - p) for p, f in zip(padding, full)])]
    return [y if bias is None else y + bias.reshape(-1, *[1] * d)]


def _pool_windows(size, kernel, stride, padding, dilation, ceil):
    """Per axis, the list of index lists."""
    axes = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        reach = d * (k - 1) + 1
        count = (n + 2 * p - reach + (s - 1 if ceil else 0)) // s + 1
        if ceil and (count - 1) * s >= n + p:
            count -= 1
        axes.append([[i * s - p + j * d for j in range(k)] for i in range(count)])
    return axes


def _max_pool(d):
    def reference(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        kernel = _list(kernel_size, d)
        lead, size = x.shape[:-d], x.shape[-d:]
        axes = _pool_windows(size, kernel, _list(stride, d) if stride else kernel, _list(padding, d), _list(dilation, d), ceil_mode)
        flat = x.reshape(*lead, -1)
        shape = tuple(map(len, axes))
        y, at = np.zeros((*lead, *shape)), np.zeros((*lead, *shape), np.int64)
        for out in np.ndindex(*shape):
            inside = [[i for i in axes[a][out[a]] if 0 <= i < size[a]] for a in range(d)]
            index = np.array([np.ravel_multi_index(i, size) for i in itertools.product(*inside)])
            best = flat[..., index].argmax(-1)
            y[(..., *out)], at[(..., *out)] = flat[..., index].max(-1), index[best]
        return [y, at]

    return reference


def _avg_pool(d):
    def reference(x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        kernel, padding = _list(kernel_size, d), _list(padding, d)
        lead, size = x.shape[:-d], x.shape[-d:]
        axes = _pool_windows(size, kernel, _list(stride, d) if stride else kernel, padding, [1] * d, ceil_mode)
        y = np.zeros((*lead, *map(len, axes)))
        for out in np.ndindex(*y.shape[-d:]):
            inside = [[i for i in axes[a][out[a]] if 0 <= i < size[a]] for a in range(d)]
            padded = [[i for i in axes[a][out[a]] if i < size[a] + padding[a]] for a in range(d)]
            count = np.prod([len(i) for i in (padded if count_include_pad else inside)])
            y[(..., *out)] = x[(..., *np.ix_(*inside))].sum(tuple(range(-d, 0))) / (divisor_override or count)
        return [y]

    return reference


def _adaptive(d, fold):
    def reference(x, output_size):
        out_size = _list(output_size, d)
        lead, size = x.shape[:-d], x.shape[-d:]
        y, at = np.zeros((*lead, *out_size)), np.zeros((*lead, *out_size), np.int64)
        flat = x.reshape(*lead, -1)
        for out in np.ndindex(*out_size):
            spans = [range(o * n // m, -(-(o + 1) * n // m)) for o, n, m in zip(out, size, out_size)]
            index = np.array([np.ravel_multi_index(i, size) for i in itertools.product(*spans)])
            y[(..., *out)] = getattr(flat[..., index], fold)(-1)
            at[(..., *out)] = index[flat[..., index].argmax(-1)]
        return [y, at] if fold == "max" else [y]

    return reference


def _normalise(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _channels(v, x):
    return v.reshape(1, -1, *[1] * (x.ndim - 2))


def _affine(y, weight, bias, x):
    y = y if weight is None else y * _channels(weight, x)
    return [y if bias is None else y + _channels(bias, x)]


def _batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        y = _normalise(x, (0, *range(2, x.ndim)), eps)
    else:
        y = (x - _channels(running_mean, x)) / np.sqrt(_channels(running_var, x) + eps)
    return _affine(y, weight, bias, x)


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    y = _normalise(x.reshape(x.shape[0], num_groups, -1), (2,), eps).reshape(x.shape)
    return _affine(y, weight, bias, x)


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = _normalise(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)), eps)
    y = y if weight is None else y * weight
    return [y if bias is None else y + bias]


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    y = x / np.sqrt((x * x).mean(axes, keepdims=True) + (1.1920929e-07 if eps is None else eps))
    return [y if weight is None else y * weight]


def _reduced(losses, reduction, total=None):
    if reduction == 0:
        return [losses]
    return [losses.sum() / (losses.size if total is None else total) if reduction == 1 else losses.sum()]


def _pick(log_p, target, weight, reduction, ignore_index, smoothing):
    log_p = log_p[None] if log_p.ndim == 1 else log_p
    single = target.ndim == 0
    target = target.reshape(1) if single else target
    c = log_p.shape[1]
    w = np.ones(c) if weight is None else weight
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    picked = np.take_along_axis(log_p, safe[:, None], 1)[:, 0]
    losses = -picked * w[safe] * (1 - smoothing) - smoothing / c * np.moveaxis(log_p, 1, -1) @ w
    losses = np.where(kept, losses, 0)
    out = _reduced(losses, reduction, (w[safe] * kept).sum())
    return [out[0][0]] if single and reduction == 0 else out


def _cross_entropy(x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0, dtype=None):
    log_p = x - sp.logsumexp(x, axis=1 if x.ndim > 1 else 0, keepdims=True)
    return _pick(log_p, target, weight, reduction, ignore_index, label_smoothing)


def _nll_loss(x, target, weight=None, reduction=1, ignore_index=-100):
    return _pick(x, target, weight, reduction, ignore_index, 0.0)


def _smooth_l1(x, target, reduction=1, beta=1.0):
    d = np.abs(x - target)
    return _reduced(np.where(d < beta, d * d / (2 * beta), d - beta / 2), reduction)


def _huber(x, target, reduction=1, delta=1.0):
    d = np.abs(x - target)
    return _reduced(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def _bce(x, target, weight=None, reduction=1):
    with np.errstate(all="ignore"):
        losses = -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log1p(-x), -100))
    return _reduced(losses if weight is None else losses * weight, reduction)


def _bce_with_logits(x, target, weight=None, pos_weight=None, reduction=0):
    p = 1 if pos_weight is None else pos_weight
    losses = target * p * np.logaddexp(0, -x) + (1 - target) * np.logaddexp(0, x)
    return _reduced(losses if weight is None else losses * weight, reduction)


def _kl_div(x, target, reduction=0, log_target=False):
    losses = np.exp(target) * (target - x) if log_target else sp.xlogy(target, target) - target * x
    return _reduced(losses, reduction)


def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return [sp.softmax(scores, -1) @ v]


def _lstm_cell(gates_x, gates_h, c):
    i, f, g, o = np.split(gates_x + gates_h, 4, 1)
    i, f, g, o = sp.expit(i), sp.expit(f), np.tanh(g), sp.expit(o)
    after = f * c + i * g
    return [o * np.tanh(after), after, np.concatenate([i, f, g, o], 1)]


def _gru_cell(gates_x, gates_h, h):
    (rx, zx, nx), (rh, zh, nh) = np.split(gates_x, 3, 1), np.split(gates_h, 3, 1)
    r, z = sp.expit(rx + rh), sp.expit(zx + zh)
    n = np.tanh(nx + r * nh)
    return [(1 - z) * n + z * h, np.concatenate([r, z, n, nh], 1)]


def _lstm_sequence(gates_x, h, c, weight, reverse=False):
    steps = [None] * len(gates_x)
    for t in range(len(steps))[:: -1 if reverse else 1]:
        h, c, _ = steps[t] = _lstm_cell(gates_x[t], h @ weight.T, c)
    ys, cs, gates = (np.stack(part) for part in zip(*steps))
    return [ys, h, c, gates, cs]


def _gru_sequence(gates_x, h, weight, bias=None, reverse=False):
    steps = [None] * len(gates_x)
    for t in range(len(steps))[:: -1 if reverse else 1]:
        h, _ = steps[t] = _gru_cell(gates_x[t], h @ weight.T + (0 if bias is None else bias), h)
    ys, gates = (np.stack(part) for part in zip(*steps))
    return [ys, h, gates]


FOLDS = {None: lambda old, new: new, "add": lambda old, new: old + new, "multiply": lambda old, new: old * new}


def _scatter(x, dim, index, src=None, value=None, fold=lambda old, new: new):
    y = x.copy()
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[dim] = index[at]
        y[tuple(to)] = fold(y[tuple(to)], value if src is None else src[at])
    return [y]


def _scatter_reduce(x, dim, index, src, reduce, include_self=True):
    groups = {}
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[dim] = index[at]
        groups.setdefault(tuple(to), []).append(src[at])
    fold = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}[reduce]
    y = x.copy()
    for to, values in groups.items():
        y[to] = fold([y[to], *values] if include_self else values)
    return [y]


def _along(dim, index, x):
    cut = [slice(None)] * x.ndim
    cut[dim] = index
    return tuple(cut)


def _index_add(x, dim, index, source, alpha=1):
    y = x.copy()
    for i, k in enumerate(index):
        y[_along(dim, k, x)] += alpha * source[_along(dim, i, x)]
    return [y]


def _index_copy(x, dim, index, source):
    y = x.copy()
    for i, k in enumerate(index):
        y[_along(dim, k, x)] = source[_along(dim, i, x)]
    return [y]


def _index_fill(x, dim, index, value):
    y = x.copy()
    y[_along(dim, index, x)] = value
    return [y]


def _put(x, index, source, accumulate=False):
    y = x.reshape(-1).copy()
    if accumulate:
        np.add.at(y, index.reshape(-1), source.reshape(-1))
    else:
        y[index.reshape(-1)] = source.reshape(-1)
    return [y.reshape(x.shape)]


def _masked_scatter(x, mask, source):
    y = x.copy()
    mask = np.broadcast_to(mask, x.shape)
    y[mask] = source.reshape(-1)[: mask.sum()]
    return [y]


def _kth(x, k, dim=-1, keepdim=False):
    at = np.argsort(x, dim, kind="stable").take([k - 1], dim)
    at = at if keepdim else at.squeeze(dim)
    return [np.take_along_axis(x, at if keepdim else np.expand_dims(at, dim), dim).reshape(at.shape), at]


def _median(x, dim=None, keepdim=False):
    if dim is None:
        return [np.sort(x.reshape(-1))[(x.size - 1) // 2] if x.size else x.dtype.type(np.nan)]
    return _kth(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def _mode(x, dim=-1, keepdim=False):
    lines = np.moveaxis(x, dim, -1)
    out = np.zeros(lines.shape[:-1], x.dtype)
    for at in np.ndindex(*out.shape):
        values, counts = np.unique(lines[at], return_counts=True)
        out[at] = values[counts.argmax()]
    return [np.expand_dims(out, dim) if keepdim else out]


def _running(fold, reached):
    def reference(x, dim):
        lines = np.moveaxis(x, dim, -1)
        values, at = fold(lines, -1), np.zeros(lines.shape, np.int64)
        for i in range(1, lines.shape[-1]):
            at[..., i] = np.where(reached(lines[..., i], values[..., i - 1]), i, at[..., i - 1])
        return [np.moveaxis(values, -1, dim), np.moveaxis(at, -1, dim)]

    return reference


def _clamp(x, min=None, max=None):
    y = x if min is None else np.maximum(x, min)
    return [y if max is None else np.minimum(y, max)]


def _div(a, b, rounding_mode=None):
    with np.errstate(all="ignore"):
        q = np.true_divide(a, b)
    return [np.trunc(q) if rounding_mode == "trunc" else np.floor(q) if rounding_mode == "floor" else q]


REFERENCES = {
    "prelu": lambda x, weight: [np.where(x > 0, x, x * (weight if weight.size == 1 else _channels(weight, x)))],
    "clamp": _clamp,
    "div": _div,
    "scaled_dot_product_attention": _attention,
    "conv1d": _convolution, "conv2d": _convolution, "conv3d": _convolution,
    "conv_transpose1d": _convolution_transposed, "conv_transpose2d": _convolution_transposed,
    "conv_transpose3d": _convolution_transposed,
    "max_pool1d_with_indices": _max_pool(1), "max_pool2d_with_indices": _max_pool(2),
    "avg_pool1d": _avg_pool(1), "avg_pool2d": _avg_pool(2),
    "adaptive_avg_pool1d": _adaptive(1, "mean"), "adaptive_avg_pool2d": _adaptive(2, "mean"),
    "adaptive_max_pool1d_with_indices": _adaptive(1, "max"), "adaptive_max_pool2d_with_indices": _adaptive(2, "max"),
    "batch_norm": _batch_norm, "group_norm": _group_norm, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "instance_norm": lambda x, weight=None, bias=None, eps=1e-5: _group_norm(x, x.shape[1], weight, bias, eps),
    "cross_entropy": _cross_entropy, "nll_loss": _nll_loss, "smooth_l1_loss": _smooth_l1, "huber_loss": _huber,
    "binary_cross_entropy": _bce, "binary_cross_entropy_with_logits": _bce_with_logits, "kl_div": _kl_div,
    "lstm_cell": _lstm_cell, "gru_cell": _gru_cell, "lstm_sequence": _lstm_sequence, "gru_sequence": _gru_sequence,
    "scatter": lambda x, dim, index, src=None, value=None, reduce=None: _scatter(x, dim, index, src, value, FOLDS[reduce]),
    "scatter_add": lambda x, dim, index, src: _scatter(x, dim, index, src, fold=lambda old, new: old + new),
    "scatter_reduce": _scatter_reduce,
    "index_add": _index_add, "index_copy": _index_copy, "index_fill": _index_fill, "put": _put,
    "masked_scatter": _masked_scatter,
    "bucketize": lambda x, boundaries, out_int32=False, right=False: [np.searchsorted(boundaries, x, "right" if right else "left")],
    "cummax": _running(np.maximum.accumulate, lambda a, b: a >= b),
    "cummin": _running(np.minimum.accumulate, lambda a, b: a <= b),
    "kthvalue": _kth, "median": _median, "nanmedian": _median, "mode": _mode,
    "sum_to": lambda x, shape: [x.sum(tuple(range(x.ndim - len(shape)))).sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True) if shape else x.sum()],
}  # fmt: skip
