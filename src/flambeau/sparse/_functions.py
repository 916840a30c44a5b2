"""What can be done with sparse tensors: the functions and methods that `__torch_function__` finds, and those of `flambeau.sparse`.

All of it is made of ops on indices and values, so that gradients follow. Places of a result follow from places of the arguments, never
from values: a value that becomes 0 keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import NoSparseError, RefusedTypeError
from flambeau._no_tensor import wants_tensors
from flambeau.sparse._answers import answers, coalesced, in_layout_of, pairs, rows_of, wrapped
from flambeau.sparse._compressed import SparseCompressed, SparseCSC, SparseCSR
from flambeau.sparse._tensor import SparseCOO, SparseTensor, linear, merged, merging, size_of

F = TypeVar("F", bound=Callable[..., Any])

# ---------------------------------------------------------------------------------------- products


def _product_with_dense(a: SparseTensor, b: Tensor) -> Tensor:
    mine, theirs = size_of(a), b.shape
    if len(theirs) not in (1, 2) or len(mine) != 2 or theirs[0] != mine[1]:
        given = f"the sparse matrix has shape {list(mine)}, the dense one {list(theirs)}"
        raise _C.ShapeError(f"sparse.mm: {given}; expected [m, n] and [n, k] or [n]")
    if len(theirs) == 1:
        return _product_with_dense(a, b.unsqueeze(-1)).squeeze(-1)
    if type(a) is SparseCSC and not a.dense_dim():  # the rows of its transpose
        return ops.sparse_mm_transposed(*a.transposed().rows(), b, (mine[0], theirs[1]))
    return ops.sparse_mm(*a.rows(), b)


def _product_of_dense(a: Tensor, b: SparseTensor) -> Tensor:
    mine, theirs = a.shape, size_of(b)
    if len(mine) not in (1, 2) or len(theirs) != 2 or mine[-1] != theirs[0]:
        given = f"the dense matrix has shape {list(mine)}, the sparse one {list(theirs)}"
        raise _C.ShapeError(f"sparse.mm: {given}; expected [k, m] or [m], and [m, n]")
    rows = a.unsqueeze(0) if len(mine) == 1 else a
    if type(b) is SparseCSC and not b.dense_dim():
        y = ops.sparse_mm(*b.transposed().rows(), rows.t()).t()
    else:
        y = ops.sparse_mm_transposed(*b.rows(), rows.t(), (theirs[1], rows.shape[0])).t()
    return y.squeeze(0) if len(mine) == 1 else y


def _product_of_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each element of a meets the row of b that its column says (Gustavson, 1978); what meets at one place is added up."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise _C.ShapeError(f"sparse.mm: the matrices have shapes {list(a.shape)} and {list(b.shape)}; expected [m, n] and [n, k]")
    crow, col, values = b.rows()
    left = coalesced("sparse.mm", a)
    if left.dense_dim():
        raise _C.ShapeError(f"sparse.mm: the sparse tensor has {left.dense_dim()} dense axes; expected none")
    mine, theirs = pairs(left._idx[1], crow)
    places = ops.stack([ops.index_select(left._idx[0], 0, mine), ops.index_select(col, 0, theirs)])
    found = ops.index_select(left._val, 0, mine) * ops.index_select(values, 0, theirs)
    product = SparseCOO.make(places, found, (a.shape[0], b.shape[1])).coalesce()
    return product.to_sparse_csr() if isinstance(a, SparseCompressed) else product  # type: ignore[no-any-return]


_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin", "prod": "prod"}


def _reduced_product(a: Any, b: Any, reduce: str) -> Tensor:
    """What the elements of a row give with the rows of b, reduced otherwise than by a sum; 0 where there is none."""
    if reduce not in _REDUCTIONS:
        raise _C.ArgumentError(f"sparse.mm: reduce = {reduce!r}; expected one of {', '.join(map(repr, _REDUCTIONS))}")
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise NoSparseError(f"sparse.mm: reduce = {reduce!r} of other than a sparse and a dense matrix; expected these")
    if reduce == "sum":
        return _product_with_dense(a, b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise _C.ShapeError(f"sparse.mm: the matrices have shapes {list(a.shape)} and {list(b.shape)}; expected [m, n] and [n, k]")
    crow, col, values = a.rows()
    rows = ops.repeat_interleave(ops.arange(a.shape[0]), ops.sub(crow[1:], crow[:-1]))
    terms = values.unsqueeze(1) * ops.index_select(b, 0, col)
    empty = terms.new_zeros((a.shape[0], b.shape[1]))
    return ops.scatter_reduce(  # type: ignore[no-any-return]
        empty, 0, rows.unsqueeze(1).expand(terms.shape), terms, _REDUCTIONS[reduce], include_self=False
    )


@answers("mm", "matmul", "mv", "spmm", "__matmul__")
@wants_tensors
def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of two matrices, of which one or both are sparse; that of two sparse ones is sparse.

    Gradients by the values of a sparse matrix are computed at its places alone.

    Args:
        reduce: what is made of the products along a row of a sparse matrix with a dense one, where it is not their sum: "mean", "amax",
            "amin" or "prod".

    Shape:
        [m, n], [n, k] or [n] -> [m, k] or [m]

    Raises:
        ShapeError: sizes that do not meet.
        DTypeError: different types, or others than float32 and float64, of a sparse and a dense matrix.

    Example:
        >>> import flambeau as fl
        >>> A = fl.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
        >>> fl.sparse.mm(A, fl.tensor([[1.0], [10.0]]))
        tensor([[20.],
                [ 3.]])
    """
    if reduce is not None:
        return _reduced_product(mat1, mat2, reduce)
    if isinstance(mat1, SparseTensor):
        return _product_of_sparse(mat1, mat2) if isinstance(mat2, SparseTensor) else _product_with_dense(mat1, mat2)
    if isinstance(mat2, SparseTensor):
        return _product_of_dense(mat1, mat2)
    return ops.mm(mat1, mat2)


@answers("bmm")
def _bmm(input: Any, mat2: Any) -> Tensor:
    """A batch of sparse matrices is one matrix with the batch along its diagonal."""
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise NoSparseError("bmm: expected a sparse input and a dense mat2; call .to_dense() of the other")
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise _C.ShapeError(f"bmm: input has shape {list(input.shape)}, mat2 {list(mat2.shape)}; expected [b, m, n] and [b, n, k]")
    coo = coalesced("bmm", input)
    if coo.dense_dim():
        raise _C.ShapeError(f"bmm: input has {coo.dense_dim()} dense axes; expected none")
    b, m, n = coo.shape
    of, row, column = coo._idx
    diagonal = SparseCOO.make(ops.stack([of * m + row, of * n + column]), coo._val, (b * m, b * n), True)
    return _product_with_dense(diagonal, mat2.reshape(b * n, mat2.shape[2])).reshape(b, m, mat2.shape[2])  # type: ignore[no-any-return]


@answers("__rmatmul__")
def _reflected_mm(mat2: Any, mat1: Any) -> Any:
    return mm(mat1, mat2)


@answers("addmm")
@wants_tensors
def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * mat + alpha * (mat1 @ mat2) with a sparse mat1 or mat2. With beta = 0 NaN and inf in mat do not matter.

    Shape:
        mat that broadcasts to [m, k], mat1 [m, n], mat2 [n, k] -> [m, k]
    """
    if beta == 0:
        every = ops.ones((), dtype=_C.bool)
        mat = mat._with(mat._val.masked_fill(every, 0)) if isinstance(mat, SparseTensor) else mat.masked_fill(every, 0)
    return mat * beta + mm(mat1, mat2) * alpha


@answers("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(bias, SparseTensor):
        raise NoSparseError("linear: bias is a sparse tensor; expected a dense one")
    if isinstance(weight, SparseTensor) and not isinstance(input, SparseTensor):
        y = mm(input.reshape(-1, input.shape[-1]), weight.t()).reshape(*input.shape[:-1], weight.shape[0])
    else:
        y = mm(input, weight.t())
    return y if bias is None else y + bias


@wants_tensors
def sampled_addmm(input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2) at the places of the sparse matrix `input`; the other elements are not computed.

    Shape:
        input [m, n], mat1 [m, k], mat2 [k, n] -> [m, n], sparse
    """
    if not isinstance(input, SparseTensor):
        raise NoSparseError("sampled_addmm: input is no sparse tensor; expected one, whose places say what is computed")
    crow, col, values = input.rows()
    if mat1.ndim != 2 or mat2.ndim != 2 or tuple(input.shape) != (mat1.shape[0], mat2.shape[1]) or mat1.shape[1] != mat2.shape[0]:
        given = f"input has shape {list(input.shape)}, mat1 {list(mat1.shape)}, mat2 {list(mat2.shape)}"
        raise _C.ShapeError(f"sampled_addmm: {given}; expected [m, n], [m, k] and [k, n]")
    found: SparseCSR = SparseCSR.make(crow, col, values * beta + ops.sparse_sampled(crow, col, mat1, mat2.t()) * alpha, input.shape)
    return found if isinstance(input, SparseCSR) else found.to_coo()


# ---------------------------------------------------------------------------------------- element by element

# f(0) = 0: places stay.
_ZERO_TO_ZERO = (
    "abs", "absolute", "asin", "arcsin", "asinh", "arcsinh", "atan", "arctan", "atanh", "arctanh", "ceil", "conj", "deg2rad", "erf",
    "erfinv", "expm1", "floor", "log1p", "neg", "negative", "positive", "rad2deg", "relu", "round", "sgn", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc", "nan_to_num", "isinf", "isnan", "isneginf", "isposinf", "signbit", "angle", "conj_physical",
)  # fmt: skip
# Functions of the values, whatever these are.
_OF_VALUES = ("clone", "contiguous", "detach", "to")


def _of_values(name: str, merge: bool) -> Callable[..., Any]:
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, SparseTensor):
            raise NoSparseError(f"{name}: an argument is a sparse tensor; expected dense ones, by .to_dense()")
        x = x.coalesce() if merge else x
        values = getattr(x._val, name)(*args, **kwargs)
        return x if values is x._val else x._with(values)

    return call


for _name in (*_ZERO_TO_ZERO, *_OF_VALUES):
    answers(_name)(_of_values(_name, _name in _ZERO_TO_ZERO))


@answers("real")
def _real(x: SparseTensor) -> SparseTensor:
    return x._with(ops.real(x._val))


@answers("imag")
def _imag(x: SparseTensor) -> SparseTensor:
    return x._with(ops.imag(x._val))


@answers("any")
def _any(x: SparseTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if dim is not None:
        raise ValueError(f"any: dim = {dim}; expected None, for all elements of a sparse tensor")
    return x.coalesce()._val.any()


def _number(x: Any) -> bool:
    return not isinstance(x, Tensor) or (not isinstance(x, SparseTensor) and x.ndim == 0)


def _at_places(op: str, x: SparseCOO, other: Tensor) -> Tensor:
    """The elements of a dense tensor that broadcasts to x, where x has values."""
    if other.ndim > x.ndim:
        given = f"the sparse tensor has shape {list(x.shape)}, the dense one {list(other.shape)}"
        raise _C.ShapeError(f"{op}: {given}; expected one that broadcasts")
    return ops.index(other.expand(x.shape), list(x._idx.unbind(0)))


def values_at(x: SparseTensor, gradient: Tensor) -> Tensor:
    """What a gradient by `x` is by the values of `x`."""
    places = ("_idx",) if isinstance(x, SparseCOO) else ("_starts", "_plain")
    if isinstance(gradient, type(x)) and all(getattr(x, name).equal(getattr(gradient, name)) for name in places):
        return gradient._val
    dense = gradient.to_dense() if isinstance(gradient, SparseTensor) else gradient
    if isinstance(x, SparseCompressed):
        return x.at(dense.expand(size_of(x)))
    return _at_places("backward", x.to_coo(), dense)


@answers("mul", "multiply", "__mul__", "__rmul__")
def _mul(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if _number(b):
        return a._with(a._val * b)
    x = coalesced("mul", a)
    if isinstance(b, SparseTensor):
        return in_layout_of(_intersection(x, coalesced("mul", b)), a)
    return in_layout_of(x._with(x._val * _at_places("mul", x, b)), a)


def _intersection(a: SparseCOO, b: SparseCOO) -> SparseCOO:
    """Products at the places that both have."""
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise _C.ShapeError(f"mul: the sparse tensors have shapes {list(a.shape)} and {list(b.shape)}; expected one shape")
    mine, theirs = linear(a._idx, a.shape), linear(b._idx, b.shape)
    if theirs.shape[0] == 0:
        return b._with(b._val * ops.ones((), dtype=a._val.dtype))
    at = ops.searchsorted(theirs, mine).clamp(max=theirs.shape[0] - 1)
    both = ops.nonzero(ops.index_select(theirs, 0, at) == mine).reshape(-1)
    values = ops.index_select(a._val, 0, both) * ops.index_select(b._val, 0, ops.index_select(at, 0, both))
    return SparseCOO.make(ops.index_select(a._idx, 1, both), values, a.shape, True)


@answers("div", "divide", "true_divide", "__truediv__")
def _div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise NoSparseError("div: the divisor is a sparse tensor, whose other elements are 0; expected a number or a dense tensor")
    if rounding_mode is None and _number(b):
        return a._with(a._val / b)
    if _number(b):
        whole = a.coalesce()
        return whole._with(ops.div(whole._val, b, rounding_mode=rounding_mode))
    x = coalesced("div", a)
    return in_layout_of(x._with(ops.div(x._val, _at_places("div", x, b), rounding_mode=rounding_mode)), a)


@answers("floor_divide", "__floordiv__")
def _floor_divide(a: Any, b: Any) -> Any:
    return _div(a, b, rounding_mode="floor")


@answers("pow", "__pow__")
def _pow(a: Any, exponent: Any) -> Any:
    if not isinstance(a, SparseTensor) or isinstance(exponent, Tensor) or exponent <= 0:
        raise NoSparseError(f"pow: exponent = {exponent!r}; expected a number above 0 and a sparse tensor as its base, so that 0 stays 0")
    x = a.coalesce()
    return x._with(x._val**exponent)


@answers("add", "__add__", "__radd__")
def _add(a: Any, b: Any, *, alpha: float = 1) -> Any:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise NoSparseError("add: a number added to a sparse tensor makes all elements non-zero; call .to_dense() first")
    if not isinstance(a, SparseTensor):
        return a + b.to_dense() * alpha
    if not isinstance(b, SparseTensor):
        return a.to_dense() + b * alpha
    x, y = a.to_coo(), b.to_coo()
    size, at, other = size_of(x), x._idx, y._idx
    if size != size_of(y) or at.shape[0] != other.shape[0]:
        raise _C.ShapeError(f"add: the sparse tensors have shapes {list(a.shape)} and {list(b.shape)}; expected one shape")
    mine, given = x._val, y._val
    theirs = given if alpha == 1 else given * alpha
    if mine.dtype is not theirs.dtype:
        kind = _C.promote_types(mine.dtype, given.dtype)
        mine, theirs = mine.to(kind), theirs.to(kind)
    values, indices = ops.cat([mine, theirs]), ops.cat([at, other], 1)
    in_order = x._in_order and y._in_order
    if in_order:
        indices, values = merged(merging(indices, size), values)
    return in_layout_of(SparseCOO.make(indices, values, size, in_order), a)


@answers("sub", "subtract", "__sub__")
def _sub(a: Any, b: Any, *, alpha: float = 1) -> Any:
    return _add(a, b, alpha=-alpha)


@answers("__rsub__", "rsub")
def _reflected_sub(a: Any, b: Any) -> Any:
    return _add(b, a, alpha=-1)


# ---------------------------------------------------------------------------------------- sums and softmax


@answers("sum")
def _sum(input: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not keepdim:
        return sum(input, dim, dtype)
    x = input.to_coo()
    axes, k = wrapped("sum", x, tuple(range(x.ndim)) if dim is None or dim == () else dim), x.sparse_dim()
    values = x._val if dtype is None else x._val.to(dtype)
    dense = [d - k + 1 for d in axes if d >= k]
    values = values.sum(dense, True) if dense else values
    places = ops.stack([ops.zeros_like(row) if d in axes else row for d, row in enumerate(x._idx.unbind(0))])
    return in_layout_of(SparseCOO.make(places, values, [1 if d in axes else n for d, n in enumerate(x.shape)]).coalesce(), input)


@wants_tensors
def sum(input: Any, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The sum of all elements, or over axes: a sparse tensor while axes with indices remain, else a dense one.

    Example:
        >>> import flambeau as fl
        >>> A = fl.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse()
        >>> fl.sparse.sum(A, 1).to_dense()
        tensor([2., 7.])
    """
    if not isinstance(input, SparseTensor):
        raise RefusedTypeError("sparse.sum: input is a dense tensor; expected a sparse one")
    values = input._val if dtype is None else input._val.to(dtype)
    if dim is None or (not isinstance(dim, int) and not dim):
        return values.sum()
    x = input.to_coo()
    values = x._val if dtype is None else x._val.to(dtype)
    axes, k = wrapped("sparse.sum", x, dim), x.sparse_dim()
    kept = [d for d in range(k) if d not in axes]
    dense = [d - k + 1 for d in axes if d >= k]
    values = values.sum(dense) if dense else values
    if not kept:
        return values.sum(0)
    size = [n for d, n in enumerate(x.shape) if d not in axes]
    return SparseCOO.make(rows_of(x._idx, kept), values, size).coalesce()


def as_sparse_gradcheck(gradcheck: F) -> F:
    """The function itself: `autograd.gradcheck` moves the values of sparse inputs anyway, and compares sparse outputs."""
    return gradcheck


def _softmax(op: str, input: Any, dim: int, dtype: Any, logarithm: bool) -> SparseTensor:
    x = coalesced(op, input)
    values = x._val if dtype is None else x._val.to(dtype)
    (axis,), k = wrapped(op, x, dim), x.sparse_dim()
    if axis >= k:
        inner = (ops.log_softmax if logarithm else ops.softmax)(values, axis - k + 1)
        return in_layout_of(x._with(inner), input)
    others = [d for d in range(k) if d != axis]
    keys = linear(rows_of(x._idx, others), [x.shape[d] for d in others]) if others else ops.zeros((x._nnz(),), dtype=_C.int64)
    lines, line, _ = ops.unique_sorted(keys, True)
    empty = ops.zeros((lines.shape[0], *values.shape[1:]), dtype=values.dtype)
    where = line.reshape((-1, *(1,) * (values.ndim - 1))).expand(values.shape)
    top = ops.scatter_reduce(empty, 0, where, values.detach(), "amax", include_self=False)
    shifted = values - ops.index_select(top, 0, line)
    total = ops.index_select(ops.index_add(empty, 0, line, shifted.exp()), 0, line)
    return in_layout_of(x._with(shifted - total.log() if logarithm else shifted.exp() / total), input)


@answers("softmax")
@wants_tensors
def softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Softmax along an axis over the elements that have places; the others count as -inf and stay without.

    Example:
        >>> import flambeau as fl
        >>> A = fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 4.0], (2, 3))
        >>> fl.sparse.softmax(A, 1).values()
        tensor([1.0000, 0.5000, 0.5000])
    """
    return _softmax("sparse.softmax", input, dim, dtype, False)


@answers("log_softmax")
@wants_tensors
def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _softmax("sparse.log_softmax", input, dim, dtype, True)


@answers("norm", "vector_norm")
def _norm(x: SparseTensor, p: Any = 2, dim: Any = None) -> Tensor:
    axes = wrapped("norm", x, dim) if isinstance(dim, int) or dim else range(x.ndim)
    if len(axes) < x.ndim or isinstance(p, str) and p != "fro":
        raise ValueError(f"norm: p = {p!r}, dim = {dim}; expected a number or 'fro', of all elements of a sparse tensor")
    return ops.vector_norm(x.coalesce()._val, 2.0 if p in ("fro", None) else float(p))
