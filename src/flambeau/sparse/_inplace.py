"""What is written to sparse tensors: numbers go to the values where they lie, sums and copies give the tensor other places.

A result that can not be stored is refused before anything is written. Where autograd follows the values it follows the write, too, as
it does for dense tensors; a leaf that requires grad is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import NoSparseError
from flambeau.sparse._answers import answers
from flambeau.sparse._compressed import SparseCompressed, to_compressed
from flambeau.sparse._functions import _add, _div, _mul
from flambeau.sparse._tensor import SparseCOO, SparseTensor


def _target(op: str, x: Any) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise NoSparseError(f"{op}: a sparse tensor is written to a dense one; expected a dense one there, by .to_dense()")
    if x.requires_grad and x.is_leaf and _C.is_grad_enabled():
        raise _C.AutogradError(f"{op}: a leaf Variable that requires grad is being used in an in-place operation; use no_grad(), or a copy")
    return x


def _number(op: str, value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, SparseTensor) and value.ndim == 0:
        return value
    if isinstance(value, (int, float, complex)):
        return value
    raise NoSparseError(f"{op}: got a {type(value).__name__}; expected a number, so that only elements with places are written")


def _becomes(op: str, x: SparseTensor, made: SparseTensor) -> SparseTensor:
    """x is what `made` is, in its own layout and type."""
    if _C.promote_types(made._val.dtype, x._val.dtype) != x._val.dtype:
        what = f"result type {made._val.dtype} can't be cast to the desired output type {x._val.dtype}"
        raise _C.DTypeError(f"{op}: {what}; cast the tensor first")
    if isinstance(x, SparseCompressed):
        found = to_compressed(op, made, x.layout, x.blocksize or None, x.dense_dim())
        x.become(found, found._val.to(x._val.dtype))
    elif isinstance(x, SparseCOO):
        coo = made.to_coo()
        x.become(coo, coo._val.to(x._val.dtype))
    return x


@answers("mul_", "multiply_", "__imul__")
def _mul_(x: Any, other: Any) -> Any:
    if isinstance(other, SparseTensor) and isinstance(x, Tensor) and not isinstance(x, SparseTensor):
        return ops.mul_(x, other.to_dense())
    _target("mul_", x)
    if isinstance(other, Tensor) and (isinstance(other, SparseTensor) or other.ndim):
        return _becomes("mul_", x, _mul(x, other))
    x._val.mul_(_number("mul_", other))
    return x


@answers("div_", "divide_", "true_divide_", "__itruediv__")
def _div_(x: Any, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
    _target("div_", x)
    _number("div_", other)
    if rounding_mode is not None:
        return _becomes("div_", x, _div(x, other, rounding_mode=rounding_mode))
    x._val.div_(other)
    return x  # type: ignore[no-any-return]


@answers("floor_divide_", "__ifloordiv__")
def _floor_divide_(x: Any, other: Any) -> SparseTensor:
    return _div_(x, other, rounding_mode="floor")  # type: ignore[no-any-return]


@answers("neg_", "negative_")
def _neg_(x: Any) -> SparseTensor:
    _target("neg_", x)._val.neg_()
    return x  # type: ignore[no-any-return]


@answers("add_", "__iadd__")
def _add_(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(other, SparseTensor) and not isinstance(x, SparseTensor):
        if not isinstance(x, Tensor):
            raise TypeError(f"add_: what is written is a {type(x).__name__}; expected a Tensor")
        if x.shape != other.shape:
            raise _C.ShapeError(f"add_: the tensor has shape {list(x.shape)}, the sparse one {list(other.shape)}; expected one shape")
        coo = other.to_coo()
        if not coo.sparse_dim() or _C.promote_types(coo._val.dtype, x.dtype) != x.dtype:
            return ops.add_(x, coo.to_dense(), alpha=alpha)
        return ops.index_put_(x, list(coo._idx.unbind(0)), (coo._val if alpha == 1 else coo._val * alpha).to(x.dtype), True)
    _target("add_", x)
    if not isinstance(other, SparseTensor):
        given = "dense tensor" if isinstance(other, Tensor) else type(other).__name__
        raise NoSparseError(f"add_: a {given} is added to a sparse tensor in place; expected a sparse one, or x + y, which is dense")
    return _becomes("add_", x, _add(x, other, alpha=alpha))


@answers("sub_", "subtract_", "__isub__")
def _sub_(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add_(x, other, alpha=-alpha)


@answers("zero_")
def _zero_(x: Any) -> SparseTensor:
    """No place is left."""
    if isinstance(x, SparseCompressed):
        return _becomes("zero_", _target("zero_", x), x.emptied(x.shape, x.dtype))
    coo = _target("zero_", x).to_coo()
    none = ops.zeros((0, *coo._val.shape[1:]), dtype=coo._val.dtype, device=coo._val.device)
    return _becomes("zero_", x, SparseCOO.make(ops.zeros((coo.sparse_dim(), 0), dtype=_C.int64), none, x.shape, True))


@answers("detach_")
def _detach_(x: Any) -> SparseTensor:
    """Without a history from now on."""
    x._val = x._val.detach()
    return x  # type: ignore[no-any-return]


@answers("copy_")
def _copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(x, SparseTensor):
        if x.shape != src.shape:
            raise _C.ShapeError(f"copy_: the tensor has shape {list(x.shape)}, the sparse one {list(src.shape)}; expected one shape")
        return ops.copy_(x, src.to_dense())
    if not isinstance(src, SparseTensor) or src.shape != x.shape or src.to_coo().sparse_dim() != x.sparse_dim():
        given = f"{list(src.shape)}" if isinstance(src, Tensor) else type(src).__name__
        raise _C.ShapeError(f"copy_: the sparse tensor has shape {list(x.shape)}, src {given}; expected a sparse src like it")
    made = src.to_coo()
    values = made._val.to(x._val.dtype)
    return _becomes("copy_", _target("copy_", x), made._with(values.clone() if values is made._val else values))


def resized(op: str, x: SparseCOO, size: Sequence[int], sparse_dim: int, dense_dim: int, clear: bool = False) -> SparseCOO:
    """x with another size in place; `clear`: without its places, else the new size has room for all of them."""
    size = tuple(int(n) for n in size)
    _target(op, x)
    before, values = tuple(x.shape), x._val
    if sparse_dim < 0 or dense_dim < 0 or sparse_dim + dense_dim != len(size) or any(n < 0 for n in size):
        given = f"size = {list(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        raise _C.ShapeError(f"{op}: {given}; expected sizes from 0, as many as both numbers of axes say")
    if clear or not x._nnz():
        indices = ops.zeros((sparse_dim, 0), dtype=_C.int64)
        values = ops.zeros((0, *size[sparse_dim:]), dtype=values.dtype, device=values.device)
    elif (sparse_dim, dense_dim) != (x.sparse_dim(), x.dense_dim()) or any(new < old for new, old in zip(size, before)):
        given = f"size = {list(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        held = f"the tensor has shape {list(before)}, {x.sparse_dim()} axes with indices and {x._nnz()} places"
        raise _C.ShapeError(f"{op}: {given}, but {held}; expected as many axes, none shorter (sparse_resize_and_clear_ takes places away)")
    else:
        indices = x._idx
        for axis, (new, old) in enumerate(zip(size[sparse_dim:], before[sparse_dim:]), 1):
            more = values.new_zeros([new - old if d == axis else n for d, n in enumerate(values.shape)])
            values = ops.cat([values, more], axis) if new > old else values
    x.turn_into(SparseCOO.make(indices, values, size, x._in_order or not values.shape[0]))
    return x
