"""Pooling of regions. Align and the mean of bins are products with a sparse matrix: each bin of each region is a row, and each pixel that
it looks at a value in it, which says how much. Backward is the product with its transpose.

The matrix acts on the picture with channels last, [N * H * W, C], so that a value moves a whole row of channels. Where each bin has
channels of its own (position-sensitive) it acts on [N * PH * PW * H * W, C / (PH * PW)].

A region that looks at each of its pixels has more values than the picture, so that the matrix is never there as a whole: it is made, used
and dropped a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops

LARGEST = 3.4028234663852886e38  # of float32: less is taken for nothing
VALUES = 2**20  # of the matrix that are there at once. Each takes some 100 bytes while it is made


class Matrix(NamedTuple):
    """By compressed rows. Some rows of the whole one, the next that are wanted."""

    starts: Tensor
    columns: Tensor
    values: Tensor


class Pooled(NamedTuple):
    """The sizes of a call."""

    scale: float
    high: int
    wide: int
    by_position: bool = False  # each bin has channels of its own


def _check(name: str, input: Tensor, rois: Tensor) -> None:
    if input.ndim != 4:
        raise _C.ShapeError(f"{name}: input has shape {list(input.shape)}; expected [N, C, H, W]")
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise _C.ShapeError(f"{name}: rois has shape {list(rois.shape)}; expected [K, 5]")
    if input.dtype != rois.dtype:
        raise _C.DTypeError(f"{name}: input is {input.dtype}, but rois {rois.dtype}; expected the same type")
    if rois.shape[0]:
        low, high = rois[:, 0].aminmax()
        if low < 0 or high >= input.shape[0]:
            raise _C.RangeError(f"{name}: rois names picture {int(low if low < 0 else high)}; expected 0 <= number < {input.shape[0]}")


def _taps(start: Tensor, size: Tensor, bins: int, points: Tensor, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """Along one axis, what the bins of each region look at: (pixel, weight), two for each point, region by region and bin by bin, and how
    many a bin has.

    A point beyond the picture by more than a pixel counts for nothing; one between the border and there is the border's.
    """
    regions = start.shape[0]
    bin_size, count = size / bins, points.repeat_interleave(bins)  # points of each bin
    total = count.sum()
    bin_of = ops.arange(regions * bins).repeat_interleave(count)
    region = bin_of // bins
    within = ops.arange(int(total)) - (count.cumsum(0) - count)[bin_of]
    place = start[region] + (bin_of % bins) * bin_size[region] + (within + 0.5) * bin_size[region] / points[region]
    counts = (place >= -1) & (place <= limit)
    place = place.clamp(min=0)
    low = place.long().clamp(max=limit - 1)
    high = (low + 1).clamp(max=limit - 1)
    part = ops.where(low >= limit - 1, ops.zeros((), dtype=place.dtype), place - low)
    weights = ops.stack([1 - part, part], 1) * counts[:, None]
    return ops.stack([low, high], 1).flatten(), weights.flatten().to(start.dtype), count * 2


def _parts(counts: Tensor, most: int) -> Iterator[slice]:
    """Cuts what has these counts into runs of `most` at most, or of one alone that has more."""
    ends, start, before = counts.cumsum(0), 0, 0
    while start < counts.shape[0]:
        end = max(start + 1, int(ops.searchsorted(ends, ops.full((), before + most, dtype=_C.int64), right=True)))
        yield slice(start, end)
        start, before = end, int(ends[end - 1])


def _outer(
    rows: tuple[Tensor, Tensor, Tensor], columns: tuple[Tensor, Tensor, Tensor], rois: Tensor, size: Pooled, hw: tuple[int, int], share:
    Tensor, most: int,
) -> Iterator[Matrix]:  # fmt: skip
    """The matrix of bins from what they look at along both axes; `share` is by what each region's values are divided."""
    (y, wy, ny), (x, wx, nx) = rows, columns
    high, wide = size.high, size.wide
    first_y, first_x = ny.cumsum(0) - ny, nx.cumsum(0) - nx
    every = ops.arange(rois.shape[0] * high * wide)
    for part in _parts(ny[every // wide] * nx[every // (high * wide) * wide + every % wide], most):
        bins = every[part]
        region, row, column = bins // (high * wide), bins // wide, bins // (high * wide) * wide + bins % wide
        counts = ny[row] * nx[column]
        ends = ops.cat([ops.zeros((1,), dtype=_C.int64), counts.cumsum(0)])
        bin_of = ops.arange(bins.shape[0]).repeat_interleave(counts)
        within = ops.arange(bin_of.shape[0]) - ends[bin_of]
        beside = nx[column][bin_of]
        at_y, at_x = first_y[row][bin_of] + within // beside, first_x[column][bin_of] + within % beside
        plane = rois[:, 0].long()[region]
        if size.by_position:
            plane = plane * (high * wide) + bins % (high * wide)
        pixels = (plane[bin_of] * hw[0] + y[at_y]) * hw[1] + x[at_x]
        yield Matrix(ends, pixels, wy[at_y] * wx[at_x] / share[region][bin_of])


Rows = Callable[[int], Iterator[Matrix]]  # the matrix, by how many values of it may be there at once


def _align_matrix(rois: Tensor, size: Pooled, hw: tuple[int, int], ratio: int, offset: float, least: float | None) -> Rows:
    box = rois[:, 1:] * size.scale - offset
    start_w, start_h, width, height = box[:, 0], box[:, 1], box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]
    if least is not None:
        width, height = width.clamp(min=least), height.clamp(min=least)

    def points(length: Tensor, bins: int) -> Tensor:
        return ops.full((rois.shape[0],), ratio, dtype=_C.int64) if ratio > 0 else (length / bins).ceil().long().clamp(min=0)

    down, across = points(height, size.high), points(width, size.wide)
    share = (down * across).to(rois.dtype).clamp(min=1)

    def rows(most: int) -> Iterator[Matrix]:
        for part in _parts(down * across * (4 * size.high * size.wide), most):
            along_y = _taps(start_h[part], height[part], size.high, down[part], hw[0])
            along_x = _taps(start_w[part], width[part], size.wide, across[part], hw[1])
            yield from _outer(along_y, along_x, rois[part], size, hw, share[part], most)

    return rows


def _mean_matrix(rois: Tensor, size: Pooled, hw: tuple[int, int]) -> Rows:
    """Of the mean over whole pixels."""
    box = _rounded(rois[:, 1:] * size.scale)
    top, bottom = _edges(box[:, 1], (box[:, 3] - box[:, 1]).clamp(min=1), size.high, hw[0] - 1, rois.dtype)
    left, right = _edges(box[:, 0], (box[:, 2] - box[:, 0]).clamp(min=1), size.wide, hw[1] - 1, rois.dtype)
    down, across = (bottom - top).clamp(min=0), (right - left).clamp(min=0)

    def taps(low: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count = counts.flatten()
        bin_of = ops.arange(count.shape[0]).repeat_interleave(count)
        pixel = low.flatten()[bin_of] + ops.arange(bin_of.shape[0]) - (count.cumsum(0) - count)[bin_of]
        return pixel, 1 / count[bin_of].to(rois.dtype), count

    share = ops.ones((rois.shape[0],), dtype=rois.dtype)

    def rows(most: int) -> Iterator[Matrix]:
        for part in _parts(down.sum(1) * across.sum(1), most):
            yield from _outer(taps(top[part], down[part]), taps(left[part], across[part]), rois[part], size, hw, share[part], most)

    return rows


def _rounded(x: Tensor) -> Tensor:
    """To the nearest integer, and from halves away from zero."""
    return ((x.abs() + 0.5).floor() * x.sign()).long()


def _edges(start: Tensor, length: Tensor, bins: int, limit: int, dtype: _C.dtype) -> tuple[Tensor, Tensor]:
    """Where the bins of each region begin and end in whole pixels, [K, bins]."""
    size = length.to(dtype)[:, None] / bins
    place = ops.arange(bins)
    low, high = (place * size).floor().long() + start[:, None], ((place + 1) * size).ceil().long() + start[:, None]
    return low.clamp(0, limit), high.clamp(0, limit)


def _table(input: Tensor, size: Pooled) -> Tensor:
    """The picture as rows of channels."""
    n, c, h, w = input.shape
    if size.by_position:
        split = input.reshape(n, c // (size.high * size.wide), size.high, size.wide, h, w)
        return split.permute(0, 2, 3, 4, 5, 1).reshape(n * size.high * size.wide * h * w, -1)
    return input.permute(0, 2, 3, 1).reshape(n * h * w, c)


def _pooled(input: Tensor, matrix: Rows, regions: int, size: Pooled) -> Tensor:
    dtype = input.dtype if input.dtype in (_C.float32, _C.float64) else _C.float32
    table = _table(input, size).to(dtype)
    found = [ops.sparse_mm(starts, columns, values.to(dtype), table) for starts, columns, values in matrix(VALUES)]
    out = ops.cat(found) if found else table.new_zeros((0, table.shape[1]))
    return out.view(regions, size.high, size.wide, out.shape[1]).permute(0, 3, 1, 2).contiguous().to(input.dtype)


def _spread(grad: Tensor, matrix: Rows, shape: tuple[int, int, int, int], size: Pooled) -> Tensor:
    """The gradient of the picture.

    Each part of the matrix gives to all of the picture. So that it costs little beside the products, a part may be as large as the picture.
    """
    n, c, h, w = shape
    dtype = grad.dtype if grad.dtype in (_C.float32, _C.float64) else _C.float32
    per_bin = size.high * size.wide if size.by_position else 1
    rows = grad.permute(0, 2, 3, 1).reshape(-1, grad.shape[1]).to(dtype)
    table, at = None, 0
    for starts, columns, values in matrix(max(VALUES, n * c * h * w // 32)):
        of_part = rows[at : at + starts.shape[0] - 1]
        at += of_part.shape[0]
        part = ops.sparse_mm_transposed(starts, columns, values.to(dtype), of_part, [n * per_bin * h * w, c // per_bin])
        table = part if table is None else table.add_(part)
    if table is None:
        return grad.new_zeros(shape)
    if size.by_position:
        table = table.view(n, size.high, size.wide, h, w, -1).permute(0, 5, 1, 2, 3, 4)
    else:
        table = table.view(n, h, w, c).permute(0, 3, 1, 2)
    return table.reshape(shape).contiguous().to(grad.dtype)


def _mapping(input: Tensor, rois: Tensor, size: Pooled) -> Tensor:
    """Which channel each bin of each channel of the result looks at."""
    if input.shape[1] % (size.high * size.wide):
        raise _C.ShapeError(
            f"input has {input.shape[1]} channels; expected a multiple of {size.high} * {size.wide}, for each bin its own"
        )
    one = ops.arange(input.shape[1], dtype=_C.int32).view(-1, size.high, size.wide)
    return one.expand(rois.shape[0], -1, -1, -1).contiguous()


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """Means of points in the bins of each region, between pixels."""
    _check("roi_align", input, rois)
    size = Pooled(spatial_scale, pooled_height, pooled_width)
    matrix = _align_matrix(rois, size, (input.shape[2], input.shape[3]), sampling_ratio, 0.5 if aligned else 0.0, None if aligned else 1.0)
    return _pooled(input, matrix, rois.shape[0], size)


def roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int, channels: int, height:
    int, width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """The gradient of roi_align."""
    size = Pooled(spatial_scale, pooled_height, pooled_width)
    matrix = _align_matrix(rois, size, (height, width), sampling_ratio, 0.5 if aligned else 0.0, None if aligned else 1.0)
    return _spread(grad, matrix, (batch_size, channels, height, width), size)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """roi_align where each bin has channels of its own; and which these are."""
    _check("ps_roi_align", input, rois)
    size = Pooled(spatial_scale, pooled_height, pooled_width, True)
    mapping = _mapping(input, rois, size)
    matrix = _align_matrix(rois, size, (input.shape[2], input.shape[3]), sampling_ratio, 0.5, None)
    return _pooled(input, matrix, rois.shape[0], size), mapping


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio:
    int, batch_size: int,
    channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of ps_roi_align."""
    size = Pooled(spatial_scale, pooled_height, pooled_width, True)
    matrix = _align_matrix(rois, size, (height, width), sampling_ratio, 0.5, None)
    return _spread(grad, matrix, (batch_size, channels, height, width), size)


def ps_roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int) -> tuple[Tensor, Tensor]:
    """Means of the pixels in the bins of each region, each bin with channels of its own; and which these are."""
    _check("ps_roi_pool", input, rois)
    size = Pooled(spatial_scale, pooled_height, pooled_width, True)
    mapping = _mapping(input, rois, size)
    return _pooled(input, _mean_matrix(rois, size, (input.shape[2], input.shape[3])), rois.shape[0], size), mapping


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
    channels: int,
    height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of ps_roi_pool: that of what it computes. (torchvision's own lets bins at the border reach a pixel further than its
    forward does.)
    """
    size = Pooled(spatial_scale, pooled_height, pooled_width, True)
    return _spread(grad, _mean_matrix(rois, size, (height, width)), (batch_size, channels, height, width), size)


def roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int) -> tuple[Tensor, Tensor]:
    """Greatest pixels of the bins of each region, and where they lie in their plane: -1 for a bin without pixels, which gives zero.

    All bins are walked over at once, pixel by pixel of the largest one.
    """
    _check("roi_pool", input, rois)
    k, (_, c, h, w) = rois.shape[0], input.shape
    box = _rounded(rois[:, 1:] * spatial_scale)
    top, bottom = _edges(box[:, 1], (box[:, 3] - box[:, 1] + 1).clamp(min=1), pooled_height, h, rois.dtype)
    left, right = _edges(box[:, 0], (box[:, 2] - box[:, 0] + 1).clamp(min=1), pooled_width, w, rois.dtype)
    table = input.permute(0, 2, 3, 1).reshape(-1, c)
    plane = rois[:, 0].long()[:, None, None] * (h * w)
    shape = (k, pooled_height, pooled_width)
    best = ops.full((*shape, c), -LARGEST, dtype=input.dtype)
    place = ops.full((*shape, c), -1, dtype=_C.int32)
    for down in range(int((bottom - top).max()) if k else 0):
        for across in range(int((right - left).max())):
            y, x = (top + down)[:, :, None], (left + across)[:, None, :]
            pixel = (y * w + x).expand(shape)
            there = ((y < bottom[:, :, None]) & (x < right[:, None, :])).expand(shape)
            found = table[plane + pixel.where(there, ops.zeros((), dtype=_C.int64))]
            better = there[..., None] & (found > best)
            best = found.where(better, best)
            place = pixel[..., None].to(_C.int32).where(better, place)
    empty = (bottom <= top)[:, :, None, None] | (right <= left)[:, None, :, None]
    best = best.masked_fill(empty, 0)
    return best.permute(0, 3, 1, 2).contiguous(), place.permute(0, 3, 1, 2).contiguous()


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int, channels:
    int, height: int,
    width: int,
) -> Tensor:  # fmt: skip
    """The gradient of roi_pool: each bin's goes to its greatest pixel."""
    plane = rois[:, 0].long()[:, None] * channels + ops.arange(channels)
    where = plane[:, :, None, None] * (height * width) + argmax
    found = argmax >= 0
    flat = grad.new_zeros((batch_size * channels * height * width,))
    return flat.index_add(0, where[found], grad[found]).view(batch_size, channels, height, width)
