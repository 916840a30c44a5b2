"""`vmap`: products of matrices, and convolutions."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau.func._batched import BatchLevel, composed, rule
from flambeau.func._levels import shape_of
from flambeau.func._shared import (
    SharedConvolution,
    grouped,
    grouped_convolution,
    is_shared,
    shared_linear,
    ungrouped,
)


@rule("linear")
def _linear(level: BatchLevel, x: Any, weight: Any, bias: Any = None) -> Any:
    if not level.holds(weight) and not level.holds(bias):
        return ops.linear(x._value, weight, bias)
    rank = len(shape_of(x))
    if len(shape_of(weight)) != 2 or rank == 0:
        return NotImplemented
    if not level.holds(weight):
        y = ops.linear(x._value if level.holds(x) else x, weight)
        y = y if level.holds(x) else level.full(y)
    else:
        if level.holds(bias) and is_shared(bias._value) and is_shared(weight._value) and type(value := level.full(x)) is Tensor:
            return shared_linear(value, weight._value, bias._value)
        y = _times_transposed(level, x, weight._value)
    if bias is None:
        return y
    if not level.holds(bias):
        return ops.add(y, bias)
    return ops.add(y, level.aligned(bias, rank))


def _times_transposed(level: BatchLevel, x: Any, weight: Tensor) -> Tensor:
    """x [..., in] of each sample times its matrix [out, in], transposed."""
    value = level.full(x)
    if is_shared(weight) and type(value) is Tensor:
        return shared_linear(value, weight)
    rank = len(shape_of(x))
    across = ops.transpose(weight, 1, 2)
    if rank == 1:
        return ops.squeeze(ops.matmul(ops.unsqueeze(value, 1), across), (1,))
    return ops.matmul(value, _with_rank(across, rank))


@rule("matmul")
def _matmul(level: BatchLevel, a: Any, b: Any) -> Any:
    ra, rb = len(shape_of(a)), len(shape_of(b))
    if ra == 0 or rb == 0:
        return NotImplemented
    if not level.holds(b):
        if rb <= 2:
            return ops.matmul(a._value, b)
    elif rb == 2 and is_shared(b._value):
        return _times_transposed(level, a, ops.transpose(b._value, 1, 2))
    if level.holds(a) and ra == 2 and rb <= 2 and is_shared(a._value):
        if rb == 1:
            return _times_transposed(level, b, a._value)
        columns = ops.transpose(level.full(b), 1, 2)
        return ops.transpose(shared_linear(columns, a._value), 1, 2) if type(columns) is Tensor else NotImplemented
    if not level.holds(a) and rb == 1 and ra == 2:
        return ops.matmul(b._value, ops.transpose(a, 0, 1))
    return _by_rows_and_columns(level, a, b, ra, rb)


def _by_rows_and_columns(level: BatchLevel, a: Any, b: Any, ra: int, rb: int) -> Tensor:
    x, y = level.full(a), level.full(b)
    x = ops.unsqueeze(x, 1) if ra == 1 else x
    y = ops.unsqueeze(y, 2) if rb == 1 else y
    rank = max(ra, rb, 2)
    product = ops.matmul(_with_rank(x, rank), _with_rank(y, rank))
    if rb == 1:
        product = ops.squeeze(product, (-1,))
    if ra == 1:
        product = ops.squeeze(product, (-1 if rb == 1 else -2,))
    return product


def _with_rank(x: Tensor, rank: int) -> Tensor:
    shape = shape_of(x)
    for _ in range(rank + 1 - len(shape)):
        x = ops.unsqueeze(x, 1)
    return x


def _register_matmul(name: str, ra: int, rb: int) -> None:
    def product(a: Any, b: Any = None, x: Any = None) -> Any:
        b = x if b is None else b
        if len(shape_of(a)) != ra or len(shape_of(b)) != rb:
            return NotImplemented
        return ops.matmul(a, b)

    composed(name)(product)


for _name, _ra, _rb in (("mm", 2, 2), ("bmm", 3, 3), ("mv", 2, 1), ("dot", 1, 1)):
    _register_matmul(_name, _ra, _rb)


@composed("vdot")
def _vdot(a: Tensor, b: Tensor) -> Any:
    return ops.matmul(ops.conj(a), b)


@composed("outer")
def _outer(a: Tensor, b: Tensor) -> Any:
    return ops.mul(ops.unsqueeze(a, 1), ops.unsqueeze(b, 0))


@composed("inner")
def _inner(a: Tensor, b: Tensor) -> Any:
    if not shape_of(a) or not shape_of(b):
        return ops.mul(a, b)
    if len(shape_of(b)) > 2:
        return NotImplemented
    return ops.matmul(a, ops.transpose(b, 0, 1) if len(shape_of(b)) == 2 else b)


def _sum_of(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    product = product if alpha == 1 else ops.mul(product, alpha)
    if beta == 0:
        return product
    return ops.add(input if beta == 1 else ops.mul(input, beta), product)


@composed("addmm", "baddbmm")
def _addmm(input: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of(input, ops.matmul(a, b), beta, alpha)


@composed("addmv")
def _addmv(input: Tensor, a: Tensor, x: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of(input, ops.matmul(a, x), beta, alpha)


@composed("addbmm")
def _addbmm(input: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of(input, ops.sum(ops.matmul(a, b), (0,)), beta, alpha)


@composed("addr")
def _addr(input: Tensor, vec1: Tensor, vec2: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of(input, _outer(vec1, vec2), beta, alpha)


@composed("kron")
def _kron(a: Tensor, b: Tensor) -> Any:
    sa, sb = shape_of(a), shape_of(b)
    rank = max(len(sa), len(sb))
    sa, sb = (1,) * (rank - len(sa)) + sa, (1,) * (rank - len(sb)) + sb
    x = ops.reshape(a, tuple(s for size in sa for s in (size, 1)))
    y = ops.reshape(b, tuple(s for size in sb for s in (1, size)))
    return ops.reshape(ops.mul(x, y), tuple(m * n for m, n in zip(sa, sb, strict=True)))


def _listed(value: Any, count: int) -> list[int]:
    values = [value] if hasattr(value, "__index__") else list(value)
    return values * count if len(values) == 1 else values


def _register_convolution(axes: int) -> None:
    name = f"conv{axes}d"

    def convolution(
        level: BatchLevel, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Any:
        rank = len(shape_of(x))
        if rank not in (axes + 1, axes + 2) or len(shape_of(weight)) != axes + 2:
            return NotImplemented
        single = rank == axes + 1
        own_bias = bias if not level.holds(bias) else None
        if not level.holds(weight):
            value = level.full(x)
            shape = shape_of(value)
            merged = value if single else ops.reshape(value, (shape[0] * shape[1], *shape[2:]))
            y = getattr(ops, name)(merged, weight, own_bias, stride, padding, dilation, groups)
            y = y if single else ops.view(y, (shape[0], shape[1], *shape_of(y)[1:]))
        else:
            value = ops.unsqueeze(level.full(x), 1) if single else level.full(x)
            how = (_listed(stride, axes), _listed(padding, axes), _listed(dilation, axes), groups)
            shared = is_shared(weight._value) and type(value) is Tensor
            y = SharedConvolution.apply(value, weight._value, *how) if shared else grouped_convolution(value, weight._value, *how)
            y = ops.squeeze(y, (1,)) if single else y
            if own_bias is not None:
                y = ops.add(y, ops.view(own_bias, (-1, *(1,) * axes)))
        if level.holds(bias):
            channels = shape_of(bias)[0]
            y = ops.add(y, ops.reshape(bias._value, (level.size, *(() if single else (1,)), channels, *(1,) * axes)))
        return y

    rule(name)(convolution)


for _axes in (1, 2, 3):
    _register_convolution(_axes)


def _register_transposed(axes: int) -> None:
    name = f"conv_transpose{axes}d"

    def transposed(
        level: BatchLevel, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, dilation: Any = 1,
    ) -> Any:  # fmt: skip
        rank = len(shape_of(x))
        if rank not in (axes + 1, axes + 2) or len(shape_of(weight)) != axes + 2:
            return NotImplemented
        single = rank == axes + 1
        value = level.full(x)
        own_bias = bias if not level.holds(bias) else None
        how = (stride, padding, output_padding)
        shape = shape_of(value)
        if not level.holds(weight):
            merged = value if single else ops.reshape(value, (shape[0] * shape[1], *shape[2:]))
            y = getattr(ops, name)(merged, weight, own_bias, *how, groups, dilation)
            y = y if single else ops.view(y, (shape[0], shape[1], *shape_of(y)[1:]))
        else:
            flat = ops.reshape(weight._value, (-1, *shape_of(weight)[1:]))
            wide = grouped(ops.unsqueeze(value, 1) if single else value)
            y = ungrouped(getattr(ops, name)(wide, flat, None, *how, groups * level.size, dilation), level.size)
            y = ops.squeeze(y, (1,)) if single else y
            if own_bias is not None:
                y = ops.add(y, ops.view(own_bias, (-1, *(1,) * axes)))
        if level.holds(bias):
            y = ops.add(y, ops.reshape(bias._value, (level.size, *(() if single else (1,)), *shape_of(bias), *(1,) * axes)))
        return y

    rule(name)(transposed)


for _axes in (1, 2, 3):
    _register_transposed(_axes)
