"""Covariances, histograms, integrals and differences of samples."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._held import held
from flambeau._no_derivative import without_derivative
from flambeau._no_tensor import wants_tensors
from flambeau._out import deliver
from flambeau._results import result
from flambeau._spelled import spelled
from flambeau._warn import warn

_indices = range  # which is the name of an argument below


@result("histogram")
class Histogram(NamedTuple):
    """What `histogram` returns."""

    hist: Tensor
    bin_edges: Tensor


def _weights(op: str, name: str, w: Tensor | None, count: int, whole: bool) -> None:
    if w is None:
        return
    if w.ndim > 1 or w.numel() != count:
        raise _C.ShapeError(f"{op}: {name} has shape {list(w.shape)}; expected one for each of the {count} observations")
    if whole == w.is_floating_point() or w.dtype is _C.bool:
        raise _C.DTypeError(f"{op}: {name} is {w.dtype}; expected {'integers' if whole else 'a floating point type'}")
    given = held(w)
    if not given.is_meta and given.numel() and bool((given < 0).any().item()):
        raise _C.ArgumentError(f"{op}: {name} has the negative element {given.min().item()}; expected none")


@spelled()
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariance matrix of variables in rows, observations in columns.

    Args:
        correction: what is taken from the number of observations that the sums are divided by.
        fweights: how often each observation was made, integers.
        aweights: how much each observation counts.

    Shape:
        input [variables, observations] or [observations] -> [variables, variables] or []

    Example:
        >>> import flambeau as fl
        >>> fl.cov(fl.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2 or input.dtype is _C.bool:
        raise _C.ShapeError(f"cov: expected input to have two or fewer dimensions, of numbers, but got {input.dtype} {list(input.shape)}")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.get_default_dtype())
    real = x.dtype.to_real()
    count = x.shape[1]
    _weights("cov", "fweights", fweights, count, True)
    _weights("cov", "aweights", aweights, count, False)
    w: Tensor | None = None
    if fweights is not None:
        w = fweights.to(real).reshape(-1)
    if aweights is not None:
        a = aweights.to(real).reshape(-1)
        w = a if w is None else w * a
    if w is None:
        total: Any = float(count)
        mean = x.mean(1, keepdim=True) if count else x.sum(1, keepdim=True) / float("nan")
        norm: Any = total - correction
    else:
        total = w.sum()
        mean = (x * w).sum(1, keepdim=True) / total
        spread = (w * aweights.to(real).reshape(-1)).sum() / total if aweights is not None else 1.0
        norm = total - spread * correction
    if not isinstance(norm, Tensor) and norm <= 0:
        warn(
            f"cov(): degrees of freedom is <= 0 for {count} observations with correction = {correction}. Correction should be strictly "
            "less than the number of observations"
        )
    norm = norm.clamp(min=0) if isinstance(norm, Tensor) else max(norm, 0.0)
    centred = x - mean
    products: Tensor = ops.mm(centred, (centred if w is None else centred * w).t().conj()) / norm
    return products.squeeze()


@spelled()
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlation coefficients of variables in rows, within [-1, 1].

    Shape:
        input [variables, observations] or [observations] -> [variables, variables] or []
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    variance = ops.diagonal(c)
    deviation = (ops.real(variance) if c.is_complex() else variance).sqrt()
    found = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if found.is_complex():
        return ops.complex(ops.real(found).clamp(-1, 1), ops.imag(found).clamp(-1, 1))
    return found.clamp(-1, 1)


def _histogram_edges(input: Tensor, bins: Any, range: Any) -> Tensor:
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or bins.dtype is not input.dtype:
            raise _C.ShapeError(f"histogram: bins are {bins.dtype} {list(bins.shape)}; expected one axis of {input.dtype}")
        return bins.detach()
    if bins < 1:
        raise _C.ArgumentError(f"histogram: bins = {bins}; expected at least 1")
    if range is not None:
        low, high = float(range[0]), float(range[1])
    elif input.numel():
        low, high = float(input.min().item()), float(input.max().item())
    else:
        low, high = 0.0, 1.0
    if not (low <= high and high - low < float("inf")):
        raise _C.ArgumentError(f"histogram: range = ({low}, {high}); expected finite numbers, the smaller one first")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return ops.linspace(low, high, bins + 1, dtype=input.dtype)


@spelled()
def histogram(
    input: Tensor, bins: Any = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False,
    out: Any = None,
) -> Histogram:  # fmt: skip
    """How many elements are in each bin, or the sum of their weights; the last bin has its upper edge, too.

    Args:
        bins: how many bins of equal width, or their edges.
        range: the outer edges of bins of equal width; those of the elements by default.
        density: the sums are divided so that the integral is 1.

    Shape:
        hist [bins], bin_edges [bins + 1]
    """
    if input.dtype not in (_C.float32, _C.float64):
        raise _C.DTypeError(f"histogram: input is {input.dtype}; expected float32 or float64")
    if weight is not None and (weight.shape != input.shape or weight.dtype is not input.dtype):
        raise _C.ShapeError(f"histogram: weight is {weight.dtype} {list(weight.shape)}; expected input's {input.dtype} {list(input.shape)}")
    x = input.detach().reshape(-1)
    edges = _histogram_edges(x, bins, range)
    count = edges.shape[0] - 1
    if count < 1:
        raise _C.ArgumentError(f"histogram: bins have {edges.shape[0]} edges; expected at least 2")
    at = ops.searchsorted(edges, x, right=True) - 1
    at = ops.where(x == edges[-1], count - 1, at)
    inside = (at >= 0) & (at < count) & ~x.isnan()
    amount = ops.ones_like(x) if weight is None else weight.detach().reshape(-1)
    hist = ops.zeros((count + 1,), dtype=x.dtype).index_add(0, ops.where(inside, at, count), amount)[:count].clone()
    if density:
        hist = hist / hist.sum() / ops.diff(edges)
    found = without_derivative("histogram", Histogram(hist, edges.clone() if isinstance(bins, Tensor) else edges), [input, weight])
    return deliver("histogram", found, out)  # type: ignore[no-any-return]


@result("histogramdd")
class HistogramDD(NamedTuple):
    """What `histogramdd` returns."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@wants_tensors
def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool | None = False
) -> HistogramDD:
    """Counts of points in boxes, the product of an interval's bins for each coordinate.

    Args:
        bins: their number for all coordinates, or for each; or edges, an increasing vector for each coordinate.
        range: two numbers for each coordinate, one after the other; by default the smallest and largest of the points.
        weight: how much each point counts.
        density: divides by the sum of all and by the volume of each box.

    Shape:
        input [..., coordinates], weight [...] -> hist of an axis for each coordinate, and edges for each

    Raises:
        ShapeError, ArgumentError: as many bins, or numbers of range, as coordinates are expected.

    Example:
        >>> import flambeau as fl
        >>> fl.histogramdd(fl.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 2]).hist
        tensor([[0., 1.],
                [1., 1.]])
    """
    if input.ndim < 2 or not input.is_floating_point():
        raise _C.ShapeError(f"histogramdd: input is {input.dtype} {list(input.shape)}; expected floating point [..., coordinates]")
    n = input.shape[-1]
    each = [int(bins)] * n if isinstance(bins, (int, Integral)) else list(bins)
    if len(each) != n:
        raise _C.ArgumentError(f"histogramdd: {len(each)} bins for {n} coordinates; expected one for each")
    if range is not None and len(range) != 2 * n:
        raise _C.ArgumentError(f"histogramdd: range has {len(range)} numbers; expected {2 * n}, two for each coordinate")
    if weight is not None and (weight.shape != input.shape[:-1] or weight.dtype is not input.dtype):
        raise _C.ShapeError(f"histogramdd: weight is {weight.dtype} {list(weight.shape)}; expected {input.dtype} {list(input.shape[:-1])}")
    points = input.detach().reshape(-1, n)
    edges = [_histogram_edges(points[:, d], each[d], None if range is None else range[2 * d : 2 * d + 2]) for d in _indices(n)]
    counts = [e.shape[0] - 1 for e in edges]
    if any(count < 1 for count in counts):
        raise _C.ArgumentError(f"histogramdd: bins have {[e.shape[0] for e in edges]} edges; expected at least 2 for each coordinate")
    flat: Any = 0
    inside = ops.ones((points.shape[0],), dtype=_C.bool, device=input.device)
    for d in _indices(n):
        x = points[:, d].contiguous()
        at = ops.searchsorted(edges[d], x, right=True) - 1
        at = ops.where(x == edges[d][-1], counts[d] - 1, at)
        inside = inside & (at >= 0) & (at < counts[d]) & ~x.isnan()
        flat = flat * counts[d] + at
    total = 1
    for count in counts:
        total *= count
    amount = ops.ones((points.shape[0],), dtype=points.dtype, device=input.device) if weight is None else weight.detach().reshape(-1)
    hist = ops.zeros((total + 1,), dtype=points.dtype, device=input.device).index_add(0, ops.where(inside, flat, total), amount)
    hist = hist[:total].clone().view(counts)
    if density:
        hist = hist / hist.sum()
        for d in _indices(n):
            hist = hist / ops.diff(edges[d]).view([-1 if e == d else 1 for e in _indices(n)])
    without_derivative("histogramdd", (hist,), [input, weight])
    return HistogramDD(hist, tuple(edges))


def _steps(op: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Any:
    """The widths between neighbours of y along its axis dim < 0."""
    if x is None:
        return dx
    if x.ndim == 0 or (x.ndim == 1 and x.shape[0] != y.shape[dim]):
        raise _C.ShapeError(f"{op}: y has shape {list(y.shape)}, x {list(x.shape)}; expected x of y's size along dim = {dim}")
    if x.ndim == 1:
        return ops.diff(x).reshape(-1, *[1] * (-dim - 1))
    return ops.diff(x.reshape(*[1] * (y.ndim - x.ndim), *x.shape), dim=dim)


def _panels(op: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> tuple[Tensor, float]:
    """What is summed, and by what the sums are multiplied: equal widths are left to the end."""
    if y.ndim == 0 or not -y.ndim <= dim < y.ndim:
        raise no_such_axis(op, "dim", dim, y.shape, "y")
    if y.dtype is _C.bool or (x is not None and x.dtype is _C.bool):
        raise _C.DTypeError(f"{op}: an argument is bool; expected numbers")
    n = y.shape[dim]
    pairs = y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1) if n > 1 else y.narrow(dim, 0, 0)
    dim = dim - y.ndim if dim >= 0 else dim
    widths = _steps(op, y, x, dx, dim) if n > 0 else 1.0
    return (pairs, widths * 0.5) if isinstance(widths, (int, float)) else (pairs * widths, 0.5)


@spelled()
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoidal rule.

    Args:
        x: where y was taken; else it is at equal distances dx, 1 by default.

    Shape:
        y [..., n, ...], x [n] or y's -> y's without dim
    """
    _one_of("trapezoid", x, dx)
    width = 1.0 if dx is None else dx
    if -y.ndim <= dim < y.ndim and not y.shape[dim]:  # no panel, and no product with a width either
        return y.sum(dim, dtype=y.dtype)
    if x is None and type(width) in (int, float) and y.numel() and y.dtype is not _C.bool and -y.ndim <= dim < y.ndim:
        return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * width
    panels, factor = _panels("trapezoid", y, x, width, dim)
    return panels.sum(dim - y.ndim if dim >= 0 else dim) * factor


trapz = trapezoid


@spelled()
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals of y from its first element to each of the others, by the trapezoidal rule.

    Shape:
        y [..., n, ...], x [n] or y's -> [..., n - 1, ...]
    """
    _one_of("cumulative_trapezoid", x, dx)
    panels, factor = _panels("cumulative_trapezoid", y, x, 1.0 if dx is None else dx, dim)
    return panels.cumsum(dim - y.ndim if dim >= 0 else dim) * factor


def _one_of(op: str, x: Tensor | None, dx: Any) -> None:
    if x is not None and dx is not None:
        raise TypeError(f"{op}: x and dx are both given; expected one of them")


def _gradient_along(y: Tensor, spacing: Any, dim: int, edge_order: int) -> Tensor:
    dim = dim - y.ndim if dim >= 0 else dim
    n = y.shape[dim]

    def at(start: int, length: int) -> Tensor:
        return y.narrow(dim, start, length)

    if not isinstance(spacing, Tensor):
        inner = (at(2, n - 2) - at(0, n - 2)) / (2 * spacing)
        if edge_order == 1:
            first, last = (at(1, 1) - at(0, 1)) / spacing, (at(n - 1, 1) - at(n - 2, 1)) / spacing
        else:
            first = (-1.5 * at(0, 1) + 2 * at(1, 1) - 0.5 * at(2, 1)) / spacing
            last = (1.5 * at(n - 1, 1) - 2 * at(n - 2, 1) + 0.5 * at(n - 3, 1)) / spacing
        return ops.cat([first, inner, last], dim)
    h = ops.diff(spacing).reshape(-1, *[1] * (-dim - 1))
    a, b = h[:-1], h[1:]
    inner = -b / (a * (a + b)) * at(0, n - 2) + (b - a) / (a * b) * at(1, n - 2) + a / (b * (a + b)) * at(2, n - 2)
    if edge_order == 1:
        first, last = (at(1, 1) - at(0, 1)) / h[:1], (at(n - 1, 1) - at(n - 2, 1)) / h[-1:]
    else:
        p, q = h[:1], h[1:2]
        first = -(2 * p + q) / (p * (p + q)) * at(0, 1) + (p + q) / (p * q) * at(1, 1) - p / (q * (p + q)) * at(2, 1)
        p, q = h[-2:-1], h[-1:]
        last = q / (p * (p + q)) * at(n - 3, 1) - (p + q) / (p * q) * at(n - 2, 1) + (2 * q + p) / (q * (p + q)) * at(n - 1, 1)
    return ops.cat([first, inner, last], dim)


@spelled()
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivatives of sampled values along each axis, by central differences, of second order inside.

    Args:
        spacing: the distance of neighbours, a number for each axis, or a tensor of positions for each.
        dim: the axes, all by default.
        edge_order: the order at both ends, 1 or 2.

    Shape:
        a tensor of input's shape for each axis

    Example:
        >>> import flambeau as fl
        >>> fl.gradient(fl.tensor([0.0, 1.0, 4.0, 9.0]))[0]
        tensor([1., 2., 4., 5.])
    """
    if edge_order not in (1, 2):
        raise _C.ArgumentError(f"gradient: edge_order = {edge_order}; expected 1 or 2")
    spacing = 1 if spacing is None else spacing
    axes = list(range(input.ndim)) if dim is None else [int(dim)] if isinstance(dim, (int, Integral)) else list(dim)
    for d in axes:
        if not -input.ndim <= d < input.ndim:
            raise no_such_axis("gradient", "dim", d, input.shape)
        if input.shape[d] < edge_order + 1:
            least = f"at least {edge_order + 1} elements along dim = {d}"
            raise _C.ShapeError(f"gradient: input has shape {list(input.shape)}; expected {least}")
    if len({d % input.ndim for d in axes}) != len(axes):
        raise _C.ArgumentError(f"gradient: dim = {dim}; expected every axis once")
    spaces = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(spaces) != len(axes):
        raise _C.ArgumentError(f"gradient: {len(spaces)} spacings for {len(axes)} axes; expected one for each")
    for space, d in zip(spaces, axes, strict=True):
        if isinstance(space, Tensor) and space.ndim and list(space.shape) != [input.shape[d]]:
            raise _C.ShapeError(f"gradient: spacing has shape {list(space.shape)}; expected [{input.shape[d]}] for dim = {d}")
    x = input if input.is_floating_point() or input.is_complex() else input.to(_C.get_default_dtype())
    plain = [s.item() if isinstance(s, Tensor) and not s.ndim else s for s in spaces]
    return tuple(_gradient_along(x, s, d, edge_order) for s, d in zip(plain, axes, strict=True))
