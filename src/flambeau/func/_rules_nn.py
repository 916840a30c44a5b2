"""`vmap`: pooling, normalisation, losses, attention and embeddings."""

from __future__ import annotations

import math
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.autograd.modes import no_grad
from flambeau.func._batched import BatchLevel, composed, rule
from flambeau.func._compositions import COMPOSITIONS, affine, attention, typed
from flambeau.func._levels import dtype_of, shape_of
from flambeau.func._tree import tree_map


def _register_fold(name: str, axes: int) -> None:
    """Ops that take [N, C, *] or [C, *], with `axes` axes after C or N: samples become part of N."""

    def fold(level: BatchLevel, x: Any, *args: Any, **given: Any) -> Any:
        shape = shape_of(x._value) if level.holds(x) else ()
        if len(shape) not in (axes + 1, axes + 2) or any(level.holds(v) for v in given.values()):
            return NotImplemented
        if len(shape) == axes + 1:
            return getattr(ops, name)(x._value, **given)
        merged = ops.reshape(x._value, (shape[0] * shape[1], *shape[2:]))
        result = getattr(ops, name)(merged, **given)
        return tree_map(lambda y: ops.view(y, (shape[0], shape[1], *shape_of(y)[1:])), result)

    rule(name)(fold)


for _name, _axes in {
    "max_pool1d_with_indices": 2, "avg_pool1d": 2, "adaptive_avg_pool1d": 2, "adaptive_max_pool1d_with_indices": 2,
    "max_pool1d": 2, "max_pool1d_values": 2,
    "max_pool2d_with_indices": 3, "avg_pool2d": 3, "adaptive_avg_pool2d": 3, "adaptive_max_pool2d_with_indices": 3,
    "max_pool2d": 3, "max_pool2d_values": 3, "max_pool3d": 4, "avg_pool3d": 4, "im2col": 3, "col2im": 2,
}.items():  # fmt: skip
    _register_fold(_name, _axes)


# ------------------------------------------------------------------------------------- normalisation


def _scaled(y: Any, weight: Tensor | None, bias: Tensor | None, axes: tuple[int, ...] | None = None) -> Any:
    """y * weight + bias in the type of y, of which the axes are given another shape first."""
    return typed(affine(y, weight, bias, axes), y)


def _register_trailing(name: str) -> None:
    """Norms over the last axes."""

    def norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = None) -> Any:
        options = {} if eps is None else {"eps": eps}
        return _scaled(ops_of(name)(x, normalized_shape, **options), weight, bias)

    def direct(level: BatchLevel, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = None) -> Any:
        if level.holds(weight) or level.holds(bias):
            full = level.wrap(level.full(x))
            return level.full(norm(full, normalized_shape, weight, bias, eps))
        options = {k: v for k, v in (("weight", weight), ("bias", bias), ("eps", eps)) if v is not None}
        return ops_of(name)(x._value, normalized_shape, **options)

    rule(name)(direct)


def ops_of(name: str) -> Any:
    return getattr(ops, name)


for _name in ("layer_norm", "rms_norm"):
    _register_trailing(_name)


def _register_channels(name: str) -> None:
    """Norms of each sample of N by itself, scaled by channel."""

    def norm(level: BatchLevel, x: Any, num_groups: int | None = None, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        rank = len(shape_of(x))
        if rank < 2:
            return NotImplemented
        value = level.full(x)
        shape = shape_of(value)
        groups = () if num_groups is None else (num_groups,)
        own = not (level.holds(weight) or level.holds(bias))
        y = ops_of(name)(ops.reshape(value, (shape[0] * shape[1], *shape[2:])), *groups, *((weight, bias) if own else ()), eps=eps)
        y = ops.view(y, shape)
        return y if own else level.full(_scaled(level.wrap(y), weight, bias, (-1, *(1,) * (rank - 2))))

    rule(name)(norm)


for _name in ("group_norm", "instance_norm"):
    _register_channels(_name)


@rule("batch_norm")
def _batch_norm(
    level: BatchLevel, x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    rank = len(shape_of(x))
    if rank < 2:
        return NotImplemented
    value = level.full(x)
    shape = shape_of(value)
    scale = (-1, *(1,) * (rank - 2))
    stats = (running_mean, running_var)
    own = level.holds(weight) or level.holds(bias)
    affine = (None, None) if own else (weight, bias)
    if training and running_mean is not None and not all(map(level.holds, stats)):
        if any(map(level.holds, stats)) or (level.holds(x) and not level.repeats(x)):
            raise RuntimeError(
                "vmap: batch_norm would write each sample's statistics to running_mean and running_var, which all samples share; use "
                "eval(), a BatchNorm with track_running_stats=False, or map over the buffers, too"
            )
        if not level.holds(x):
            y = ops.batch_norm(x, running_mean, running_var, None, None, True, momentum, eps)
            return level.full(_scaled(level.wrap(level.full(y)), weight, bias, scale))
        with no_grad():  # each sample's statistics are the same
            ops.batch_norm(ops.select(value, 0, 0), running_mean, running_var, None, None, True, momentum, eps)
        stats = (None, None)
    if not training and not any(map(level.holds, stats)):
        merged = ops.reshape(value, (shape[0] * shape[1], *shape[2:]))
        y = ops.view(ops.batch_norm(merged, running_mean, running_var, affine[0], affine[1], False, momentum, eps), shape)
        return level.full(_scaled(level.wrap(y), weight, bias, scale)) if own else y
    # [B, N, C, *] -> [N, B C, *]
    wide = ops.reshape(ops.transpose(value, 0, 1), (shape[1], shape[0] * shape[2], *shape[3:]))
    flat = [None if t is None else ops.reshape(level.full(t), (-1,)) for t in stats]
    y = ops.batch_norm(wide, flat[0], flat[1], None, None, training, momentum, eps)
    if training:
        for t, new in zip(stats, flat, strict=True):
            if t is not None and new is not None and not t._value.is_contiguous():  # of which `new` is a copy
                ops.copy_(t._value, ops.view(new, shape_of(t._value)))
    y = ops.transpose(ops.reshape(y, (shape[1], shape[0], *shape[2:])), 0, 1).contiguous()  # a sample of it may be viewed
    return level.full(_scaled(level.wrap(y), weight, bias, scale))


# ------------------------------------------------------------------------------------- losses


def _reduced(loss: Tensor, reduction: int, count: Any = None) -> Tensor:
    """Elements' losses [batch, *], reduced for each sample: 0 none, 1 mean, 2 sum."""
    rank = len(shape_of(loss))
    if reduction == 0 or (rank == 1 and count is None):
        return loss
    axes = tuple(range(1, rank))
    if reduction == 1 and count is None:
        return ops.mean(loss, axes)
    total = ops.sum(loss, axes) if axes else loss
    return total if reduction == 2 else ops.div(total, count)


def _register_loss(name: str, default: int) -> None:
    """Losses of elements by elements, reduced in the default way where none is said."""

    def loss(level: BatchLevel, x: Any, target: Any, *args: Any, reduction: int = default, **given: Any) -> Any:
        rank = len(shape_of(x))
        weights = {k: v for k, v in given.items() if isinstance(v, Tensor)}
        if shape_of(x) != shape_of(target) or any(len(shape_of(w)) > rank for w in weights.values()):
            return NotImplemented
        given |= {k: level.aligned(w, rank) if level.holds(w) else w for k, w in weights.items()}
        return _reduced(ops_of(name)(level.full(x), level.full(target), reduction=0, **given), reduction)

    rule(name)(loss)


for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"):
    _register_loss(_name, 1)
for _name in ("kl_div", "binary_cross_entropy_with_logits"):  # public at the top level, where PyTorch does not reduce
    _register_loss(_name, 0)


def _register_classes(name: str) -> None:
    """Losses of scores [N, C, *] or [C] by classes."""

    def loss(
        level: BatchLevel, x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, **given: Any
    ) -> Any:
        if level.holds(weight):
            found = COMPOSITIONS[name](x, target, weight, reduction, ignore_index, **given)
            return NotImplemented if found is NotImplemented else level.full(found)
        rank = len(shape_of(x))
        scores, wanted = level.full(x), level.full(target)
        shape = shape_of(scores)
        if rank > 1:
            scores = ops.reshape(scores, (shape[0] * shape[1], *shape[2:]))
            wanted = ops.reshape(wanted, (-1, *shape_of(wanted)[2:]))
        loss = ops_of(name)(scores, wanted, weight, 0, ignore_index, **given)
        if rank > 1:
            loss = ops.view(loss, (shape[0], shape[1], *shape_of(loss)[1:]))
        if reduction != 1:
            return _reduced(loss, reduction)
        if dtype_of(target).is_floating_point:  # probabilities
            return _reduced(loss, 1, math.prod(shape_of(loss)[1:]))
        classes = level.full(target)
        counted = ops.ne(classes, ignore_index)
        share = counted
        if weight is not None:
            flat = ops.reshape(ops.mul(classes, counted), (-1,))
            share = ops.mul(ops.view(ops.index_select(weight, 0, flat), shape_of(classes)), counted)
        share = share.to(dtype_of(loss))
        axes = tuple(range(1, len(shape_of(share))))
        return _reduced(loss, 1, ops.sum(share, axes) if axes else share)

    rule(name)(loss)


for _name in ("cross_entropy", "nll_loss"):
    _register_classes(_name)


# ------------------------------------------------------------------------------------- others


composed("scaled_dot_product_attention")(attention)


@composed("prelu")
def _prelu(x: Any, weight: Any) -> Any:
    rank = len(shape_of(x))
    count = math.prod(shape_of(weight))
    slope = ops.reshape(weight, (-1, *(1,) * (rank - 2)) if rank >= 2 and count > 1 else () if count == 1 else (-1,))
    return ops.where(ops.gt(x, 0), x, typed(ops.mul(x, slope), x))


def _beyond(at: Tensor, index: Tensor, count: int, all_of_them: int) -> Tensor:
    """Positions `at` in the table of all samples, beyond it where `index` is no row of a sample's."""
    return ops.where(ops.logical_or(ops.lt(index, 0), ops.ge(index, count)), all_of_them, at)


def _register_embedding(name: str) -> None:
    def embedding(level: BatchLevel, weight: Any, indices: Any, padding_idx: int = -1) -> Any:
        if not level.holds(weight):
            return ops_of(name)(weight, indices._value, padding_idx)
        count, width = shape_of(weight)
        at = level.full(indices)
        first = ops.view(ops.arange(level.size, dtype=dtype_of(at)) * count, (level.size, *(1,) * len(shape_of(indices))))
        # The gradient of the table of all samples' rows goes on to their weights, which no sparse one does.
        table = ops.reshape(weight._value, (level.size * count, width))
        rows = ops.embedding(table, _beyond(ops.add(at, first), at, count, level.size * count))
        if padding_idx == -1:
            return rows
        filler = ops.unsqueeze(ops.eq(at, padding_idx % count), -1)
        return ops.where(filler, rows.detach(), rows)

    rule(name)(embedding)


for _name in ("embedding", "embedding_sparse"):
    _register_embedding(_name)


@rule("nextafter")
def _nextafter(level: BatchLevel, a: Any, b: Any) -> Any:
    return level.each("nextafter", (a, b), {})


@rule("grid_sample")
def _grid_sample(level: BatchLevel, x: Any, grid: Any, *args: Any, **given: Any) -> Any:
    if len(shape_of(x)) != len(shape_of(grid)) or shape_of(x)[:1] != shape_of(grid)[:1]:
        return NotImplemented
    y = ops.grid_sample(_in_rows(level, x, 0), _in_rows(level, grid, 0), *args, **given)
    return _as_samples(level, y, 0)


@rule("multi_margin_rows")
def _multi_margin_rows(level: BatchLevel, x: Any, target: Any, p: int, margin: float, weight: Any = None) -> Any:
    own = level.holds(weight)
    y = _as_samples(level, ops.multi_margin_rows(_in_rows(level, x, 0), _in_rows(level, target, 0), p, margin, None if own else weight), 0)
    return ops.mul(y, ops.gather(weight._value, 1, level.full(target))) if own else y


@rule("multinomial")
def _multinomial(level: BatchLevel, x: Any, num_samples: int, replacement: bool = False, generator: Any = None) -> Any:
    """Draws of all samples, each its own."""
    shape = shape_of(x)
    if len(shape) not in (1, 2):
        return NotImplemented
    rows = ops.reshape(level.full(x), (-1, shape[-1]))
    return ops.view(ops.multinomial(rows, num_samples, replacement, generator=generator), (level.size, *shape[:-1], num_samples))


@rule("dirichlet_draw")
def _dirichlet_draw(level: BatchLevel, concentration: Any, generator: Any = None) -> Any:
    return ops.dirichlet_draw(level.full(concentration), generator=generator) if shape_of(concentration) else NotImplemented


@rule("ctc_loss")
def _ctc_loss(level: BatchLevel, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0) -> Any:
    if len(shape_of(log_probs)) != 3 or len(shape_of(input_lengths)) != 1 or len(shape_of(target_lengths)) != 1:
        return NotImplemented
    words, times, lengths = (_in_rows(level, t, 0) for t in (targets, input_lengths, target_lengths))
    return _as_samples(level, ops.ctc_loss(_in_rows(level, log_probs, 1), words, times, lengths, blank), 0)


def _register_rows(name: str) -> None:
    """Recurrent cells: every tensor is [N, *], and rows do not mix."""

    def rows(level: BatchLevel, **given: Any) -> Any:
        tensors = [v for v in given.values() if isinstance(v, Tensor)]
        if any(len(shape_of(t)) != 2 for t in tensors):
            return NotImplemented
        count = shape_of(tensors[0])[0]
        flat = {k: ops.reshape(level.full(v), (level.size * count, -1)) if isinstance(v, Tensor) else v for k, v in given.items()}
        return tree_map(lambda y: ops.view(y, (level.size, count, *shape_of(y)[1:])), ops_of(name)(**flat))

    rule(name)(rows)


for _name in ("lstm_cell", "gru_cell"):
    _register_rows(_name)


def _in_rows(level: BatchLevel, x: Tensor, axis: int) -> Tensor:
    """The samples of x as more rows of its batch, which is its axis number `axis`."""
    full = level.full(x)
    shape = shape_of(full)[1:]
    if axis:
        full = ops.transpose(full, 0, 1)
    return ops.reshape(full, (*shape[:axis], level.size * shape[axis], *shape[axis + 1 :]))


def _as_samples(level: BatchLevel, x: Tensor, axis: int) -> Tensor:
    shape = shape_of(x)
    parts = ops.reshape(x, (*shape[:axis], level.size, shape[axis] // level.size, *shape[axis + 1 :]))
    return ops.transpose(parts, 0, 1) if axis else parts


def _sequences(
    level: BatchLevel, name: str, cell: str, gates_x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None, reverse: bool
) -> tuple[Tensor, ...]:
    """A recurrent sequence: of all samples at once where they share the weight, else a cell of all samples for each step."""
    x, rows = _in_rows(level, gates_x, 1), [_in_rows(level, s, 0) for s in states]
    if not level.holds(weight) and not level.holds(bias):
        given = {} if bias is None else {"bias": bias}
        results = ops_of(name)(x, *rows, weight, reverse=reverse, **given)
        return tuple(_as_samples(level, y, len(shape_of(y)) - 2) for y in results)
    w = ops.transpose(level.full(weight), 1, 2)
    added = None if bias is None else ops.unsqueeze(level.full(bias), 1)
    count, hidden = shape_of(states[0])
    steps: list[Any] = [None] * shape_of(x)[0]
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        products = ops.matmul(ops.reshape(rows[0], (level.size, count, hidden)), w)
        products = products if added is None else ops.add(products, added)
        *rows, kept = ops_of(cell)(ops.select(x, 0, t), ops.reshape(products, (level.size * count, -1)), rows[-1])
        steps[t] = (rows[0], kept, *rows[1:])
    ys, *more = (ops.stack(list(part)) for part in zip(*steps))
    results = (ys, *rows, *more)
    return tuple(_as_samples(level, y, len(shape_of(y)) - 2) for y in results)


@rule("lstm_sequence")
def _(level: BatchLevel, gates_x: Any, h: Any, c: Any, weight: Any, reverse: bool = False) -> Any:
    if not shape_of(gates_x)[0]:
        return NotImplemented
    return _sequences(level, "lstm_sequence", "lstm_cell", gates_x, [h, c], weight, None, reverse)


@rule("gru_sequence")
def _(level: BatchLevel, gates_x: Any, h: Any, weight: Any, bias: Any = None, reverse: bool = False) -> Any:
    if not shape_of(gates_x)[0]:
        return NotImplemented
    return _sequences(level, "gru_sequence", "gru_cell", gates_x, [h], weight, bias, reverse)
