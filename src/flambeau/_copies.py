"""Views that are copies: `squeeze_copy` gives what `squeeze` does in memory of its own. Beside them what is rarely called."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._info import whole_number
from flambeau._no_tensor import wants_tensors
from flambeau._out import takes_out
from flambeau._spelled import spelled


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        made = view(input, *args, **kwargs)
        return ops.clone(made) if isinstance(made, Tensor) else tuple(ops.clone(part) for part in made)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A copy of what `{name.removesuffix('_copy')}` is a view of."
    return takes_out(function)


def _slice(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    if not -x.ndim <= dim < x.ndim:
        raise no_such_axis("slice_copy", "dim", dim, x.shape, "input")
    if step <= 0:
        raise _C.ArgumentError(f"slice_copy: step = {step}; expected at least 1")
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


alias_copy = _copying("alias_copy", lambda x: x)
as_strided_copy = _copying("as_strided_copy", ops.as_strided)
ccol_indices_copy = _copying("ccol_indices_copy", lambda x: x.ccol_indices())
col_indices_copy = _copying("col_indices_copy", lambda x: x.col_indices())
crow_indices_copy = _copying("crow_indices_copy", lambda x: x.crow_indices())
detach_copy = _copying("detach_copy", Tensor.detach)
diagonal_copy = _copying("diagonal_copy", ops.diagonal)
expand_copy = _copying("expand_copy", ops.expand)
narrow_copy = _copying("narrow_copy", ops.narrow)
permute_copy = _copying("permute_copy", ops.permute)
row_indices_copy = _copying("row_indices_copy", lambda x: x.row_indices())
select_copy = _copying("select_copy", ops.select)
slice_copy = _copying("slice_copy", _slice)
split_copy = _copying("split_copy", ops.split)
split_with_sizes_copy = _copying("split_with_sizes_copy", ops.split_with_sizes)
squeeze_copy = _copying("squeeze_copy", ops.squeeze)
t_copy = _copying("t_copy", ops.t)
transpose_copy = _copying("transpose_copy", ops.transpose)
unbind_copy = _copying("unbind_copy", ops.unbind)
unfold_copy = _copying("unfold_copy", Tensor.unfold)
unsqueeze_copy = _copying("unsqueeze_copy", ops.unsqueeze)
view_as_complex_copy = _copying("view_as_complex_copy", ops.view_as_complex)
view_as_real_copy = _copying("view_as_real_copy", ops.view_as_real)
view_copy = _copying("view_copy", ops.view)

unsafe_chunk = ops.chunk
unsafe_split = ops.split
unsafe_split_with_sizes = ops.split_with_sizes


@spelled()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resizes `input` to the shape of another tensor."""
    return input.resize_as_(the_template)


@takes_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """`nonzero` with `size` rows: those of the first elements that are not zero, then rows of `fill_value`.

    Shape:
        input [...] -> [size, input.ndim]
    """
    if size < 0:
        raise _C.ArgumentError(f"nonzero_static: size = {size}; expected at least 0")
    out = ops.full((size, input.ndim), fill_value, dtype=_C.int64)
    rows = ops.nonzero(input)[:size]
    out[: rows.shape[0]] = rows
    return out


@spelled()
@takes_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """The slices along `dim`, those whose p-norm is above maxnorm scaled down to it.

    Raises:
        ArgumentError: p <= 0 or maxnorm < 0.
    """
    return input * _renorm_factors(input, p, dim, maxnorm)


def _renorm_factors(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    if isinstance(p, complex) or not p > 0 or not maxnorm >= 0:
        raise _C.ArgumentError(f"renorm: p = {p}, maxnorm = {maxnorm}; expected p > 0 and maxnorm >= 0")
    if input.ndim < 2:
        raise _C.ShapeError(f"renorm: input has shape {list(input.shape)}; expected at least two axes")
    axis = whole_number("renorm", "dim", dim)
    if not -input.ndim <= axis < input.ndim:
        raise no_such_axis("renorm", "dim", axis, input.shape)
    axis %= input.ndim
    others = [i for i in range(input.ndim) if i != axis]
    norms = ops.norm(input, p, others, keepdim=True)
    return ops.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)  # type: ignore[no-any-return]


def _renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    before = self.clone() if _C.is_grad_enabled() and self.requires_grad else self  # the norms' derivative wants what is written over
    return self.mul_(_renorm_factors(before, p, dim, maxnorm))


@takes_out
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Memory without values whose axes lie in the order `physical_layout`, the last one densest."""
    axes = list(physical_layout)
    if sorted(axes) != list(range(len(size))):
        raise _C.ArgumentError(f"empty_permuted: physical_layout = {axes}; expected an order of the {len(size)} axes")
    made = ops.empty([size[i] for i in axes], dtype=dtype, device=device).permute([axes.index(i) for i in range(len(axes))])
    return made.requires_grad_() if requires_grad else made


# ---- draws in place, from a uniform one


def _filled(op: str, x: Tensor, draw: Callable[[Tensor], Tensor], generator: Any) -> Tensor:
    if not (x.is_floating_point() or op == "geometric_"):
        raise _C.DTypeError(f"{op}: the tensor is {x.dtype}; expected a floating point type")
    uniform = ops.new_empty(x, x.shape, dtype=_C.float64).uniform_(generator=generator)
    return ops.copy_(x, draw(uniform))


@wants_tensors
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with draws of the density sigma / (pi (sigma^2 + (x - median)^2))."""
    if not sigma > 0:
        raise _C.ArgumentError(f"cauchy_: sigma = {sigma}; expected sigma > 0")
    return _filled("cauchy_", self, lambda u: median + sigma * ops.tan((u - 0.5) * 3.141592653589793), generator)


@wants_tensors
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fills with exponentials of normal draws of that mean and standard deviation."""
    if not std > 0:
        raise _C.ArgumentError(f"log_normal_: std = {std}; expected std > 0")
    return _filled("log_normal_", self, lambda u: ops.exp(u.normal_(mean, std, generator=generator)), generator)


@wants_tensors
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fills with the numbers of tries until one of probability p succeeds."""
    if not 0 < p < 1:
        raise _C.ArgumentError(f"geometric_: p = {p}; expected 0 < p < 1")
    return _filled("geometric_", self, lambda u: (ops.log1p(-u) / math.log1p(-p)).ceil().clamp(min=1), generator)
