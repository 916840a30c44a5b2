"""Functions of sparse tensors that choose, move and join places: transposes, indices, `cat`, `stack`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import NoSparseError
from flambeau._memory_format import strided
from flambeau._no_tensor import wants_tensors
from flambeau.sparse._answers import answers, coalesced, in_layout_of, pairs, rows_of, wrapped
from flambeau.sparse._compressed import SparseCompressed
from flambeau.sparse._tensor import SparseCOO, SparseTensor, size_of


@answers("transpose", "swapaxes", "swapdims")
def _transpose(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    (i,), (j,) = wrapped("transpose", x, dim0), wrapped("transpose", x, dim1)
    if i == j:
        return x
    order = list(range(len(size_of(x))))
    order[i], order[j] = j, i
    return _in_order("transpose", x, order)


def _in_order(op: str, x: SparseTensor, order: list[int]) -> SparseTensor:
    """x with its axes in another order; those with indices stay before those of dense values."""
    if isinstance(x, SparseCompressed):
        n, plain = x.batch_dim, list(range(len(size_of(x))))
        if order == plain:
            return x
        if order == [*plain[:n], n + 1, n, *plain[n + 2 :]]:
            return x.transposed()
    coo = x.to_coo()
    size, indices, values = size_of(coo), coo._idx, coo._val
    n, plain = indices.shape[0], list(range(len(size)))
    if order[:n] != plain[:n] and max(order[:n]) >= n:
        raise _C.ShapeError(f"{op}: the order of axes is {order}; expected the first {n}, which have indices, to stay among themselves")
    if order[n:] != plain[n:]:
        values = values.permute(0, *(d - n + 1 for d in order[n:]))
    in_order = coo.is_coalesced() and order[:n] == plain[:n]
    return SparseCOO.make(rows_of(indices, order[:n]), values, [size[d] for d in order], in_order)


@answers("permute")
def _permute(x: SparseTensor, *axes: Any, dims: Sequence[int] = ()) -> SparseTensor:
    given = list(axes[0]) if len(axes) == 1 and not isinstance(axes[0], int) else list(axes or dims)
    if len(given) != x.ndim or len(set(wrapped("permute", x, given))) != x.ndim:
        raise _C.ShapeError(f"permute: dims = {given}, but the sparse tensor has shape {list(x.shape)}; expected each of its axes once")
    return _in_order("permute", x, [d % x.ndim for d in given])


@answers("t")
def _t(x: SparseTensor) -> SparseTensor:
    size = size_of(x)
    if len(size) > 2:
        raise _C.ShapeError(f"t: the sparse tensor has shape {list(size)}; expected at most two axes")
    return _in_order("t", x, [1, 0]) if len(size) == 2 else x


@answers("T")
def _reversed(x: SparseTensor) -> SparseTensor:
    return _in_order("T", x, list(range(x.ndim))[::-1])


@answers("mT")
def _of_matrices(x: SparseTensor) -> SparseTensor:
    if x.ndim < 2:
        raise _C.ShapeError(f"mT: the sparse tensor has shape {list(x.shape)}; expected at least two axes")
    return _transpose(x, -2, -1)  # type: ignore[no-any-return]


@answers("mH", "adjoint")
def _adjoint(x: SparseTensor) -> SparseTensor:
    return _of_matrices(x.conj())  # type: ignore[no-any-return]


@answers("H")
def _adjoint_of_matrix(x: SparseTensor) -> SparseTensor:
    if x.ndim != 2:
        raise _C.ShapeError(f"H: the sparse tensor has shape {list(x.shape)}; expected two axes (mH takes more)")
    return _adjoint(x)  # type: ignore[no-any-return]


@answers("unsqueeze")
def _unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    if not -x.ndim - 1 <= dim <= x.ndim:
        given = f"dim = {dim}, but the sparse tensor has shape {list(x.shape)}"
        raise IndexError(f"unsqueeze: {given}; expected {-x.ndim - 1} <= dim <= {x.ndim}")
    coo, d = x.to_coo(), dim % (x.ndim + 1)
    size = [*x.shape[:d], 1, *x.shape[d:]]
    n = coo.sparse_dim()
    if d > n:
        return SparseCOO.make(coo._idx, coo._val.unsqueeze(d - n + 1), size, coo.is_coalesced())
    places = ops.cat([coo._idx[:d], ops.zeros((1, coo._idx.shape[1]), dtype=_C.int64), coo._idx[d:]])
    return SparseCOO.make(places, coo._val, size, coo.is_coalesced())


@answers("index_select")
@wants_tensors
def _index_select(x: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    coo, (d,) = coalesced("index_select", x), wrapped("index_select", x, dim)
    if index.ndim != 1 or index.is_floating_point() or index.dtype == _C.bool:
        raise _C.DTypeError(f"index_select: index is {index.dtype} of shape {list(index.shape)}; expected integers with one axis")
    index = index.to(_C.int64)
    size = [*coo.shape]
    if d >= coo.sparse_dim():
        return in_layout_of(coo._with(ops.index_select(coo._val, d - coo.sparse_dim() + 1, index)), x)
    if index.numel() and (int(index.amin().item()) < 0 or int(index.amax().item()) >= size[d]):
        low, high = int(index.amin().item()), int(index.amax().item())
        raise IndexError(f"index_select: index goes from {low} to {high}; expected 0 to {size[d] - 1}")
    order = ops.argsort(coo._idx[d], 0, False, True)  # elements by their place along the axis
    starts = ops.sparse_compress(ops.index_select(coo._idx[d], 0, order), size[d])
    place, element = pairs(index, starts)
    element = ops.index_select(order, 0, element)
    indices = [place if k == d else ops.index_select(coo._idx[k], 0, element) for k in range(coo.sparse_dim())]
    size[d] = index.shape[0]
    return in_layout_of(SparseCOO.make(ops.stack(indices), ops.index_select(coo._val, 0, element), size).coalesce(), x)


@answers("select")
def _select(x: SparseTensor, dim: int, index: int) -> Any:
    (d,) = wrapped("select", x, dim)
    if not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select: index = {index}, but axis {d} of the sparse tensor has size {x.shape[d]}")
    index %= x.shape[d]
    if isinstance(x, SparseCompressed) and d < x.batch_dim:
        return x.of_batch(d, index)
    coo = coalesced("select", x)
    size = [n for k, n in enumerate(coo.shape) if k != d]
    if d >= coo.sparse_dim():
        return SparseCOO.make(coo._idx, ops.select(coo._val, d - coo.sparse_dim() + 1, index), size, True)
    kept = ops.nonzero(coo._idx[d] == index).reshape(-1)
    values = ops.index_select(coo._val, 0, kept)
    if coo.sparse_dim() == 1:
        return values.sum(0)
    places = rows_of(ops.index_select(coo._idx, 1, kept), [k for k in range(coo.sparse_dim()) if k != d])
    return SparseCOO.make(places, values, size, True)


@answers("narrow")
def _narrow(x: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    coo, (d,) = coalesced("narrow", x), wrapped("narrow", x, dim)
    start = start + x.shape[d] if start < 0 else start
    if not 0 <= start <= start + length <= x.shape[d]:
        raise IndexError(f"narrow: start = {start}, length = {length}, but axis {d} of the sparse tensor has size {x.shape[d]}")
    size = [*coo.shape]
    size[d] = length
    if d >= coo.sparse_dim():
        return in_layout_of(SparseCOO.make(coo._idx, ops.narrow(coo._val, d - coo.sparse_dim() + 1, start, length), size, True), x)
    at = coo._idx[d]
    kept = ops.nonzero((at >= start) & (at < start + length)).reshape(-1)
    places = ops.index_select(coo._idx, 1, kept)
    shift = ops.stack([ops.full((kept.shape[0],), start if k == d else 0, dtype=_C.int64) for k in range(coo.sparse_dim())])
    return in_layout_of(SparseCOO.make(places - shift, ops.index_select(coo._val, 0, kept), size, True), x)


@answers("__getitem__")
def _getitem(x: Any, index: Any) -> Any:
    from flambeau._from_data import as_tensor

    if not isinstance(x, SparseTensor):
        raise NoSparseError("[]: the index is a sparse tensor; expected a dense one, by .to_dense()")
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(p is Ellipsis for p in parts):
        at = next(k for k, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (x.ndim - sum(p is not None for p in parts) + 1)
    if sum(p is not None for p in parts) > x.ndim:
        raise IndexError(f"[]: {len(parts)} indices for a sparse tensor of shape {list(x.shape)}; expected at most {x.ndim}")
    axis = 0
    for part in parts:
        if isinstance(part, slice):
            start, stop, step = part.indices(x.shape[axis])
            if step != 1:
                raise ValueError(f"[]: a slice with step {step}; expected 1 for sparse tensors")
            if (start, stop) != (0, x.shape[axis]):
                x = _narrow(x, axis, start, max(0, stop - start))
            axis += 1
        elif isinstance(part, int) and not isinstance(part, bool):
            x = _select(x, axis, part)
        elif part is None:
            x = _unsqueeze(x, axis)
            axis += 1
        elif isinstance(part, (list, Tensor)) and not isinstance(part, SparseTensor):
            chosen = as_tensor(part, dtype=None if len(part) else _C.int64)
            if chosen.dtype == _C.bool:
                if tuple(chosen.shape) != (x.shape[axis],):
                    raise IndexError(f"[]: a mask of shape {list(chosen.shape)}; expected [{x.shape[axis]}], as long as axis {axis}")
                chosen = ops.nonzero(chosen).reshape(-1)
            else:
                chosen = ops.where(chosen < 0, chosen + x.shape[axis], chosen)
            x = _index_select(x, axis, chosen)
            axis += 1
        else:
            expected = "integers, slices, None, and lists or tensors of integers or bools for sparse tensors"
            raise NoSparseError(f"[]: {part!r}; expected {expected}")
    return x


@answers("cat", "concat", "concatenate")
def _cat(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    parts = [coalesced("cat", t) for t in tensors]
    (d,), k = wrapped("cat", parts[0], dim), parts[0].sparse_dim()
    for p in parts:
        if p.sparse_dim() != k or p.ndim != parts[0].ndim or any(a != b for i, (a, b) in enumerate(zip(p.shape, parts[0].shape)) if i != d):
            shapes = ", ".join(str(list(q.shape)) for q in parts)
            raise _C.ShapeError(f"cat: the sparse tensors have shapes {shapes}; expected one shape but for axis {d}")
    if d >= k:
        return in_layout_of(_side_by_side(parts, d, d - k + 1), tensors[0])
    indices, size, begin = [], [*parts[0].shape], 0
    for p in parts:
        shift = ops.stack([ops.full((p._nnz(),), begin if i == d else 0, dtype=_C.int64) for i in range(k)])
        indices.append(p._idx + shift)
        begin += p.shape[d]
    size[d] = begin
    found = SparseCOO.make(ops.cat(indices, 1), ops.cat([p._val for p in parts]), size, d == 0)
    return in_layout_of(found, tensors[0])


def _side_by_side(parts: Sequence[SparseCOO], d: int, axis: int) -> SparseCOO:
    """Joined along axis d, which is a dense one, `axis` of the values: these get zeros where the other parts' are."""
    size = [*parts[0].shape]
    lengths = [p.shape[d] for p in parts]
    size[d] = sum(lengths)
    wide = []
    for i, p in enumerate(parts):
        shape = [*p._val.shape]
        before, after = (p._val.new_zeros([*shape[:axis], sum(n), *shape[axis + 1 :]]) for n in (lengths[:i], lengths[i + 1 :]))
        wide.append(ops.cat([before, p._val, after], axis))
    return SparseCOO.make(ops.cat([p._idx for p in parts], 1), ops.cat(wide), size)


@answers("stack")
def _stack(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    return _cat([_unsqueeze(coalesced("stack", t), dim) for t in tensors], dim)  # type: ignore[no-any-return]


@answers("unbind")
def _unbind(x: SparseTensor, dim: int = 0) -> tuple[Any, ...]:
    (d,) = wrapped("unbind", x, dim)
    if x.shape[d] > 1 << 20:  # says where so many tensors do not fit into memory
        ops.unbind(ops.empty((0,)).expand(x.shape[d], 0))
    return tuple(_select(x, d, i) for i in range(x.shape[d]))


def _without_places(x: SparseTensor, size: Sequence[int], places: int, dtype: Any, requires_grad: bool) -> SparseTensor:
    """In x's layout, of which `places` axes have indices."""
    if isinstance(x, SparseCompressed) and (tuple(size) == tuple(x.shape) or len(size) == x.ndim and not x.blocked):
        return x.emptied(size, x.dtype if dtype is None else dtype).requires_grad_(requires_grad)
    values = ops.zeros((0, *size[places:]), dtype=x.dtype if dtype is None else dtype)
    found = SparseCOO.make(ops.zeros((places, 0), dtype=_C.int64), values, size, True)
    return found.requires_grad_(requires_grad)  # type: ignore[return-value]


@answers("zeros_like", "empty_like")
def _zeros_like(
    x: SparseTensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    if layout is strided:
        return ops.zeros(x.shape, dtype=x.dtype if dtype is None else dtype, requires_grad=requires_grad)
    made = _without_places(x, x.shape, x.to_coo().sparse_dim(), dtype, False)
    return made.to_sparse(layout=layout or x.layout).requires_grad_(requires_grad)  # type: ignore[no-any-return]


@answers("new_zeros", "new_empty")
def _new_zeros(
    x: SparseTensor, *given: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> SparseTensor:
    """All axes have indices."""
    if size is None:
        size = given if len(given) != 1 or isinstance(given[0], int) else given[0]
    return _without_places(x, tuple(size), len(size), dtype, requires_grad)



# ---------------------------------------------------------------------------------------- one number; how it lies


def _as_number(name: str) -> None:
    @answers(name)
    def number(x: SparseTensor) -> Any:
        if x.numel() != 1:
            given = f"a Tensor with {x.numel()} elements cannot be converted to Scalar"
            raise _C.ArgumentError(f"{name.strip('_')}: {given}; it is sparse, and has shape {list(size_of(x))}")
        return getattr(x.to_dense().reshape(()), name)()


for _name in ("item", "__float__", "__int__", "__bool__"):
    _as_number(_name)


def _lies(name: str, x: Any) -> tuple[int, ...]:
    """The strides that a sparse tensor has by coordinates: PyTorch's are 0."""
    if not isinstance(x, SparseCOO):
        raise _C.ArgumentError(f"{name}: a {x.layout} tensor has none: its values lie by its indices; call .values() or .to_dense()")
    return (0,) * x.ndim


@answers("stride")
def _stride(x: Any, dim: int | None = None) -> tuple[int, ...] | int:
    strides = _lies("stride", x)
    return strides if dim is None else strides[wrapped("stride", x, dim)[0]]


@answers("storage_offset")
def _storage_offset(x: Any) -> int:
    _lies("storage_offset", x)
    return 0


@answers("is_contiguous")
def _is_contiguous(x: Any, memory_format: Any = None) -> bool:
    _lies("is_contiguous", x)
    return False
