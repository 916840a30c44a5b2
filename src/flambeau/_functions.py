"""Functions that are compositions of ops, written in Python because they run once per call, not per element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Literal, Protocol, overload

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._info import element_type, whole_number
from flambeau._no_tensor import explain, explained, wants_tensors
from flambeau._out import takes_out
from flambeau._shapes import broadcast_shapes
from flambeau._spelled import spelled
from flambeau._warn import warn
from flambeau.amp.autocast_mode import widens


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if |input - other| <= atol + rtol |other| everywhere."""
    return bool(ops.all(ops.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)).item())


@spelled()
def equal(input: Tensor, other: Tensor) -> bool:
    """True if both have one shape and the same elements.

    Example:
        >>> import flambeau as fl
        >>> fl.equal(fl.ones(2), fl.ones(2)), fl.equal(fl.ones(2), fl.ones(3))
        (True, False)
    """
    if input is other and not (input.is_floating_point() or input.is_complex()):  # of which a NaN equals nothing
        return True
    if input.shape != other.shape:
        return False
    if (numel := input.numel()) >= 16384 and (rows := input.shape[0] if input.ndim else 1) > 1 and not input.is_meta:
        few = max(1, 1024 * rows // numel)  # what differs mostly does so at once
        if not ops.all(ops.eq(input.narrow(0, 0, few), other.narrow(0, 0, few))).item():
            return False
    return bool(ops.all(ops.eq(input, other)).item())


@wants_tensors
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of 1-d tensors; `indexing` is 'ij' (matrix; the default, with a warning) or 'xy' (Cartesian)."""
    if indexing is None:
        warn("meshgrid: in an upcoming release, it will be required to pass the indexing argument; indexing='ij' is meant now")
        indexing = "ij"
    every = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise _C.ArgumentError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    return _grids("meshgrid", every, indexing)


def _grids(op: str, every: list[Tensor], indexing: str) -> tuple[Tensor, ...]:
    for i, t in enumerate(every):
        if t.ndim > 1:
            raise _C.ShapeError(
                f"{op}: Expected 0D or 1D tensor in the tensor list but got tensors[{i}] of shape {list(t.shape)} (t.flatten())"
            )
    swap = indexing == "xy" and len(every) > 1
    if swap:
        every[0], every[1] = every[1], every[0]
    shape = [t.numel() for t in every]
    grids = [t.reshape([-1 if k == i else 1 for k in range(len(every))]).expand(shape) for i, t in enumerate(every)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape; one that has it is returned itself."""
    every = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    try:
        shapes = [t.shape for t in every]
    except AttributeError as error:
        explain(error, broadcast_tensors, tensors)
        raise
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return tuple(every)
    shape = broadcast_shapes(*shapes)
    return tuple([t if have == shape else t.expand(shape) for t, have in zip(every, shapes, strict=True)])


def _axes(given: Any) -> list[int]:
    if type(given) is int:
        return [given]
    if type(given) is tuple:
        return [int(e) for e in given]
    many = isinstance(given, (tuple, list)) or not isinstance(given, (int, Integral, Tensor))
    return [int(e) for e in given] if many else [int(given)]


@spelled()
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Moves axes to new places; the others keep their order."""
    have = input.ndim
    if type(source) is int and type(destination) is int and -have <= source < have and -have <= destination < have:  # as most calls say
        order = list(range(have))
        order.insert(destination % have, order.pop(source))
        return input.permute(order)
    sources, targets = _axes(source), _axes(destination)
    moved = {d % have: s % have for s, d in zip(sources, targets) if -have <= s < have and -have <= d < have}
    taken = set(moved.values())
    if len(taken) == len(moved) == len(sources) == len(targets):
        order = [d for d in range(have) if d not in taken]
        for target in sorted(moved):
            order.insert(target, moved[target])
        return input.permute(order)
    n = max(have, 1)  # a 0-d tensor counts as one axis
    for name, axes in (("source", sources), ("destination", targets)):
        if axes and (min(axes) < -n or max(axes) >= n):
            wrong = next(d for d in axes if not -n <= d < n)
            raise no_such_axis("movedim", name, wrong, input.shape)
    sources, targets = [d % n for d in sources], [d % n for d in targets]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets) or len(sources) != len(targets):
        raise _C.ArgumentError(f"movedim: source = {source}, destination = {destination}; expected as many distinct axes in both")
    return input.permute([])  # without axes, of which the first is 0 all the same


class _AtLeast(Protocol):
    @overload
    def __call__(self, tensor: Tensor, /) -> Tensor: ...

    @overload
    def __call__(self, tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...

    @overload
    def __call__(self, first: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]: ...


def _with_axes(x: Tensor, dims: int) -> Tensor:
    while x.ndim < dims:
        x = x.unsqueeze(-1) if dims == 3 and x.ndim == 2 else x.unsqueeze(0)
    return x


def _at_least(dims: int) -> _AtLeast:
    def function(*tensors: Any) -> Any:
        try:
            if len(tensors) != 1 or isinstance(tensors[0], (list, tuple)):
                return tuple([_with_axes(t, dims) for t in (tensors[0] if len(tensors) == 1 else tensors)])
            return _with_axes(tensors[0], dims)
        except AttributeError as error:
            explain(error, function, tensors)
            raise

    function.__name__ = f"atleast_{dims}d"
    function.__doc__ = f"The tensors with axes of size 1 added until they have {dims}."
    return function


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


@takes_out
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joins along the second axis (the first for vectors)."""
    parts = [_with_axes(t, 1) for t in tensors]
    return ops.cat(parts, 1 if parts and parts[0].ndim > 1 else 0)


@takes_out
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joins along the first axis, vectors as rows."""
    return ops.cat([_with_axes(t, 2) for t in tensors], 0)


@takes_out
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joins along the third axis."""
    return ops.cat([_with_axes(t, 3) for t in tensors], 2)


@takes_out
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The diagonal of a matrix, or the matrix with this diagonal."""
    if input.ndim == 2:
        return ops.diagonal(input, diagonal).clone()
    if input.ndim != 1:
        raise _C.ShapeError(f"diag: the tensor has shape {list(input.shape)}; expected one or two axes")
    return diag_embed(input, diagonal)


@spelled()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices whose diagonals are the last axis of the input."""
    *batch, n = input.shape
    n += abs(offset)
    out = ops.new_zeros(input, [*batch, n, n])
    ops.diagonal(out, offset, -2, -1).copy_(input)
    return out if dim1 == -2 and dim2 == -1 else movedim(out, (-2, -1), (dim1, dim2))


_MOST_PARTS = 1 << 20  # of tensors in one result


@spelled(sections="indices_or_sections", indices="indices_or_sections", tensor_indices_or_sections="indices_or_sections")
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of an axis: that many of nearly equal size, or cut at the given indices."""
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dtype != _C.int64 or indices_or_sections.ndim > 1:
            given = f"{indices_or_sections.dtype} {list(indices_or_sections.shape)}"
            raise _C.ArgumentError(f"tensor_split: indices_or_sections is {given}; expected int64 with at most one axis")
        indices_or_sections = indices_or_sections.tolist()
    if not isinstance(indices_or_sections, (int, tuple, list, Integral)):
        given = type(indices_or_sections).__name__
        raise TypeError(f"tensor_split: indices_or_sections is a {given}; expected an int, a list of ints or a tensor")
    shape = input.shape
    if not -len(shape) <= dim < len(shape):
        raise no_such_axis("tensor_split", "dim", dim, shape)
    n = shape[dim]
    if not isinstance(indices_or_sections, (tuple, list)):
        k = int(indices_or_sections)
        if k < 1:
            raise _C.ArgumentError(f"tensor_split: number of sections must be larger than 0, got {k}")
        if k > _MOST_PARTS:
            raise _C.ArgumentError(f"tensor_split: sections = {k}; expected at most {_MOST_PARTS}")
        cuts = [(i + 1) * (n // k) + min(i + 1, n % k) for i in range(k - 1)]
    else:
        cuts = [int(c) for c in indices_or_sections]
    parts, start = [], 0
    for end in (*cuts, n):
        parts.append(ops.slice(input, dim, start, end if end < 0 or end > start else start, 1))
        start = end
    return tuple(parts)


@wants_tensors
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of elements, one row each."""
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([g.reshape(-1) for g in _grids("cartesian_prod", list(tensors), "ij")], 1)


@spelled()
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices along its diagonal."""
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"block_diag: tensors[{i}] is a {type(t).__name__}; expected a Tensor (block_diag(*tensors) for a list)")
        if t.ndim > 2:
            raise _C.ShapeError(f"block_diag: tensors[{i}] has shape {list(t.shape)} (Input tensors must have 2 or fewer dimensions)")
    if not tensors:
        return ops.zeros((1, 0))
    parts = atleast_2d(list(tensors))
    dtype = functools.reduce(_C.promote_types, [p.dtype for p in parts])
    shapes = [p.shape for p in parts]
    width = sum([w for _, w in shapes])
    rows, column = [], 0
    for p, (_, w) in zip(parts, shapes, strict=True):
        rows.append(ops.pad(p.to(dtype), (column, width - column - w)))
        column += w
    return ops.cat(rows)


def numel(input: Tensor) -> int:
    """How many elements the tensor has."""
    try:
        return input.numel()
    except AttributeError as error:
        raise explained(error, numel, (input,)) from None


def is_floating_point(input: Tensor) -> bool:
    """True for float16, bfloat16, float32 and float64.

    Example:
        >>> import flambeau as fl
        >>> fl.is_floating_point(fl.ones(1)), fl.is_floating_point(fl.tensor(1))
        (True, False)
    """
    try:
        return input.is_floating_point()
    except (AttributeError, TypeError) as error:
        raise explained(error, is_floating_point, (input,)) from None


@wants_tensors
def can_cast(from_: Any, to: Any) -> bool:
    """True if values keep their kind: bool to anything, integers to all but bool, floats to floats and complex, complex to complex."""
    try:
        return _kinds[from_] <= _kinds[to]
    except (KeyError, TypeError):
        return _kind(from_) <= _kind(to)


def _kind(dtype: Any) -> int:
    dtype = element_type(dtype)
    return 0 if dtype is _C.bool else 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


_kinds = {dtype: _kind(dtype) for dtype in vars(_C).values() if isinstance(dtype, _C.dtype)}


@overload
def unique(
    input: Tensor, sorted: bool = ..., return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: int | None = ...
) -> Tensor: ...


@overload
def unique(
    input: Tensor, sorted: bool = ..., *, return_inverse: Literal[True], return_counts: Literal[False] = ..., dim: int | None = ...
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor, sorted: bool = ..., return_inverse: Literal[False] = ..., *, return_counts: Literal[True], dim: int | None = ...
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor, sorted: bool = ..., *, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = ...
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor, sorted: bool = ..., return_inverse: bool = ..., return_counts: bool = ..., dim: int | None = ...
) -> Any: ...


@wants_tensors
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements in ascending order; with `dim` the distinct slices of that axis.

    Returns:
        The values, then, where asked for, the index of each input element among them, and how often each occurs.

    Example:
        >>> import flambeau as fl
        >>> fl.unique(fl.tensor([3, 1, 3]))
        tensor([1, 3])
        >>> values, counts = fl.unique(fl.tensor([3, 1, 3]), return_counts=True)
        >>> counts
        tensor([1, 2])
    """
    if dim is not None:
        return _unique_slices(input, return_inverse, return_counts, dim)
    values, inverse, counts = ops.unique_sorted(input, return_inverse, return_counts)
    return _chosen(values, inverse, counts, return_inverse, return_counts)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: int | None = ...
) -> Tensor: ...


@overload
def unique_consecutive(input: Tensor, return_inverse: bool = ..., return_counts: bool = ..., dim: int | None = ...) -> Any: ...


@wants_tensors
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """`unique` of neighbours only: each run of equal elements gives one."""
    if dim is not None:
        dim = whole_number("unique_consecutive", "dim", dim)
        if input.ndim != 1:
            return _unique_slices(input, return_inverse, return_counts, dim, neighbours=True)
        if not -1 <= dim < 1:
            raise no_such_axis("unique_consecutive", "dim", dim, input.shape)
    values, inverse, counts = ops.unique_runs(input, return_inverse, return_counts)
    return _chosen(values, inverse, counts, return_inverse, return_counts)


def _chosen(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    out = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(out) if len(out) > 1 else values


def _unique_slices(input: Tensor, return_inverse: bool, return_counts: bool, dim: int, neighbours: bool = False) -> Any:
    rows = movedim(input, dim, 0)
    flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.new_zeros((rows.shape[0], 0))
    order = ops.arange(flat.shape[0])
    for column in range(flat.shape[1] - 1, -1, -1) if not neighbours else ():  # stable sorts from the least significant column on
        keys = ops.index_select(flat[:, column], 0, order)
        order = ops.index_select(order, 0, ops.argsort(keys, 0, False, True))
    ranked = ops.index_select(flat, 0, order)
    new = ops.ones((flat.shape[0],), dtype=_C.bool)
    if flat.shape[0] > 1:
        new[1:] = ops.any(ops.ne(ranked[1:], ranked[:-1]), 1)
    group = ops.cumsum(new.to(_C.int64), 0) - 1
    values = movedim(ops.index_select(rows, 0, order[new]), 0, dim)
    inverse = ops.empty((flat.shape[0],), dtype=_C.int64)
    inverse[order] = group
    return _chosen(values, inverse, ops.bincount(group), return_inverse, return_counts)


@takes_out
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joins along the second axis, vectors as columns."""
    return ops.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1)


def _evenly_split(name: str, input: Tensor, indices_or_sections: Any, dim: int, axes: int = 1) -> tuple[Tensor, ...]:
    if input.ndim < axes:
        raise _C.ShapeError(f"{name}: input has shape {list(input.shape)}; expected at least {axes} axes")
    if isinstance(indices_or_sections, (int, Integral)) and (indices_or_sections < 1 or input.shape[dim] % indices_or_sections):
        raise _C.ShapeError(
            f"{name}: axis {dim} of shape {list(input.shape)} does not divide into {indices_or_sections} equal parts; "
            "tensor_split takes unequal ones"
        )
    return tensor_split(input, indices_or_sections, dim)


@spelled(sections="indices_or_sections", indices="indices_or_sections")
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the second axis (the first for vectors); a number of parts has to divide its size.

    Raises:
        ValueError: it does not, or there is no axis.
    """
    return _evenly_split("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1)


def takes_places(function: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The method for a function that splits: the places may be given one by one, `x.hsplit(2, 3)`."""

    @functools.wraps(function)
    def method(self: Tensor, *places: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return function(self, *([places] if len(places) > 1 else places), **kwargs)

    return method


@spelled(sections="indices_or_sections", indices="indices_or_sections")
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the first axis of at least two; a number of parts has to divide its size.

    Raises:
        ValueError: it does not, or there are fewer axes.
    """
    return _evenly_split("vsplit", input, indices_or_sections, 0, 2)


@spelled(sections="indices_or_sections", indices="indices_or_sections")
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third axis; a number of parts has to divide its size.

    Raises:
        ValueError: it does not, or there are fewer axes.
    """
    return _evenly_split("dsplit", input, indices_or_sections, 2, 3)


def ravel(input: Tensor) -> Tensor:
    """All elements along one axis: a view where they lie in order, else a copy."""
    try:
        return input.contiguous().view(-1)
    except AttributeError as error:
        raise explained(error, ravel, (input,)) from None


def detach(input: Tensor) -> Tensor:
    """The same memory without history."""
    try:
        return input.detach()
    except AttributeError as error:
        raise explained(error, detach, (input,)) from None


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = ..., out: Tensor | None = ...) -> Tensor: ...


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: None = ...) -> tuple[Tensor, ...]: ...


@overload
def nonzero(input: Tensor, *, as_tuple: bool, out: Tensor | None = ...) -> Tensor | tuple[Tensor, ...]: ...


@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The positions of the elements that are not zero: one row each, or with `as_tuple` one vector for each axis.

    Shape:
        input [...] -> [how many, input.ndim]

    Example:
        >>> import flambeau as fl
        >>> fl.nonzero(fl.tensor([0, 5, 7]))
        tensor([[1],
                [2]])
        >>> fl.tensor([0, 5, 7]).nonzero(as_tuple=True)
        (tensor([1, 2]),)
    """
    return ops.where(input) if as_tuple else ops.nonzero(input)


@takes_out
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False
) -> Tensor:
    """Row and column numbers of the lower triangle, [2, how many]."""
    return ops.tril_indices(row, col, offset).to(device or _C.new_device() or "cpu", dtype or _C.int64)  # type: ignore[call-overload,no-any-return]


@takes_out
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False
) -> Tensor:
    """Row and column numbers of the upper triangle, [2, how many]."""
    return ops.triu_indices(row, col, offset).to(device or _C.new_device() or "cpu", dtype or _C.int64)  # type: ignore[call-overload,no-any-return]


def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, one row each."""
    return ops.nonzero(input)


@wants_tensors
def dist(input: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference."""
    return ops.norm(input - other, p)


@widens
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distance between every row of `x1` and every row of `x2`.

    Args:
        compute_mode: whether Euclidean distances come from a matrix product, which is faster and rounds
            more: 'use_mm_for_euclid_dist', 'donot_use_mm_for_euclid_dist', or
            'use_mm_for_euclid_dist_if_necessary', which is above 25 rows.

    Shape:
        x1 [*, P, M], x2 [*, R, M] -> [*, P, R]; the leading axes broadcast.

    Raises:
        ShapeError: fewer than two axes, or rows of different lengths.
        ValueError: p is not 0 or above, or an unknown compute_mode.

    Example:
        >>> import flambeau as fl
        >>> fl.cdist(fl.zeros(1, 2), fl.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode not in modes:
        raise _C.ArgumentError(f"cdist: compute_mode = {compute_mode!r}; expected one of {', '.join(modes)}")
    if not p >= 0:
        raise _C.ArgumentError(f"cdist only supports non-negative p values, got {p}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        given = f"x1 has shape {list(x1.shape)}, x2 {list(x2.shape)}; expected [*, P, M] and [*, R, M]"
        if x1.ndim < 2 or x2.ndim < 2:
            raise _C.ShapeError(f"cdist only supports at least 2D tensors: {given}")
        raise _C.ShapeError(f"cdist: X1 and X2 must have the same number of columns: {given}")
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    products = p == 2.0 and (compute_mode == modes[1] or (compute_mode == modes[0] and many))
    if 0.0 < p < math.inf and x1.shape[-1] and x1.is_floating_point() and x2.is_floating_point():  # rows of nothing are 0 apart
        batch, kind = broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), _C.promote_types(x1.dtype, x2.dtype)
        wide = kind if kind is _C.float64 else _C.float32  # 16-bit types are computed so
        x1, x2 = ((x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:])).to(wide) for x in (x1, x2))
        return (ops.cdist_products(x1, x2) if products else ops.cdist_direct(x1, x2, float(p))).to(kind)  # type: ignore[no-any-return]
    return ops.norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def is_nonzero(input: Tensor) -> bool:
    """True if the only element is not zero.

    Raises:
        ValueError: more or fewer elements than one.
    """
    return bool(input)


def is_complex(input: Tensor) -> bool:
    """True for complex64 and complex128."""
    try:
        return input.is_complex()
    except (AttributeError, TypeError) as error:  # an element type has an attribute of that name
        raise explained(error, is_complex, (input,)) from None


def is_conj(input: Tensor) -> bool:
    """False: a conjugate is computed when it is asked for, and no view that says so."""
    try:
        return input.is_conj()  # type: ignore[attr-defined,no-any-return]
    except AttributeError as error:
        raise explained(error, is_conj, (input,)) from None


def is_neg(input: Tensor) -> bool:
    """False: a negative is computed when it is asked for, and no view that says so."""
    try:
        return input.is_neg()  # type: ignore[attr-defined,no-any-return]
    except AttributeError as error:
        raise explained(error, is_neg, (input,)) from None


@spelled()
@takes_out
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The vector product along an axis of size 3: without `dim` the first one, with a warning; `linalg.cross` takes the last."""
    if dim is None:
        if 3 not in input.shape or input.ndim != other.ndim:
            given = f"input has shape {list(input.shape)}, other {list(other.shape)}"
            raise _C.ShapeError(f"cross: {given}; expected an axis of size 3 in both, and as many axes")
        dim = tuple(input.shape).index(3)
        last = "and the last one by linalg.cross"
        warn(f"Using cross without specifying the dim arg is deprecated: the first axis of size 3 is meant, dim = {dim}, {last}")
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise _C.ShapeError(f"cross: sizes {input.shape[dim]} and {other.shape[dim]} along axis {dim}; expected 3")
    return ops.vector_product(input, other, dim)  # type: ignore[no-any-return]


@spelled()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarter turns from the first axis towards the second."""
    if len(dims) != 2 or input.ndim < 2:
        raise _C.ArgumentError(f"rot90: dims = {list(dims)} of a tensor with shape {list(input.shape)}; expected two of its axes")
    i, j = dims
    for d in (i, j):
        if not -input.ndim <= d < input.ndim:
            raise no_such_axis("rot90", "an axis of dims", d, input.shape)
    if i % input.ndim == j % input.ndim:
        raise _C.ArgumentError(f"rot90: dims = {[i, j]}; expected two different axes")
    k = whole_number("rot90", "k", k) % 4
    if k == 0:
        return input.clone()
    if k == 2:
        return ops.flip(input, (i, j))
    return ops.flip(input, (j,) if k == 1 else (i,)).transpose(i, j)


@takes_out
@spelled(element="elements", test_element="test_elements")
def isin(
    elements: Tensor | float, test_elements: Tensor | float, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None
) -> Tensor:
    """True where an element is among the test elements. `assume_unique` promises that neither holds one twice, which is not made use of.

    Shape: the result has that of elements, which is [] for a number.

    >>> import flambeau as fl
    >>> fl.isin(fl.tensor([1, 2, 3]), fl.tensor([2, 4])), fl.isin(2, fl.tensor([2, 4]))
    (tensor([False,  True, False]), tensor(True))
    """
    if not isinstance(elements, Tensor) or not isinstance(test_elements, Tensor):
        found = ops.eq(elements, test_elements)
        found = found if isinstance(elements, Tensor) else found.any()
    elif test_elements.numel() <= _FEW or elements.is_complex() or test_elements.is_complex():
        few = test_elements.reshape(-1)
        if elements.numel() < _MANY or not few.shape[0]:
            found = (elements.unsqueeze(-1) == few).any(-1)
        else:  # a pass for each, none of which makes more than a bool per element
            found = elements == few[:1]
            for i in range(1, few.shape[0]):
                found = found | (elements == few[i : i + 1])
    else:
        x, known = _comparable(elements, test_elements)
        known = ops.sort(known.reshape(-1))[0]
        found = known[ops.clamp(ops.searchsorted(known, x), max=known.shape[0] - 1)] == x
    return ~found if invert else found


_FEW = 16  # so many comparisons with every element cost less than a sort and a search
_MANY = 1024  # elements, of which that many comparisons at once would be a table that is slow to go through


def _comparable(*tensors: Tensor) -> list[Tensor]:
    """Tensors in one type that has an order: bool and unsigned integers as int64, which they are equal in where they were before."""
    kind = tensors[0].dtype
    for x in tensors[1:]:
        kind = _C.promote_types(kind, x.dtype)
    if kind in (_C.bool, _C.uint16, _C.uint32, _C.uint64):
        return [x.to(kind).view(_C.int64) if kind is _C.uint64 else x.to(_C.int64) for x in tensors]
    return [x.to(kind) for x in tensors]
