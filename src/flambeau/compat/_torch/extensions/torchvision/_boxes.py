"""Boxes: which to keep, and how much rotated ones overlap."""

from __future__ import annotations

import math

import flambeau
from flambeau import _C
from flambeau._C import Tensor, ops

BLOCK = 1024  # boxes that are compared with those that follow at once
PAIRS = 2**20  # of boxes in one table
ROTATED = 2**16  # of rotated boxes, for each of which some 3 kilobytes are needed


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes that are kept, best first: none overlaps a better one that is kept by more than `iou_threshold`.

    Boxes are looked at in blocks. What those of a block do to each other is decided one by one, in NumPy's rows of bits; what is kept of
    them then strikes out those that follow, as many at once as a table has room for.
    """
    if dets.ndim != 2 or dets.shape[1] != 4:
        raise _C.ShapeError(f"nms: boxes has shape {list(dets.shape)}; expected [N, 4]")
    if scores.ndim != 1 or scores.shape[0] != dets.shape[0]:
        raise _C.ShapeError(f"nms: scores has shape {list(scores.shape)}; expected [{dets.shape[0]}], one for each box")
    if dets.dtype != scores.dtype:
        raise _C.DTypeError(f"nms: boxes is {dets.dtype}, but scores {scores.dtype}; expected the same type")
    order = scores.argsort(0, descending=True, stable=True)
    boxes = dets[order]
    kept: list[Tensor] = []
    while order.shape[0]:
        head, rest = boxes[:BLOCK], boxes[BLOCK:]
        chosen = _chosen(_overlaps(head, head, iou_threshold).numpy())
        kept.append(order[:BLOCK][chosen])
        order, boxes = order[BLOCK:], rest
        if rest.shape[0]:
            better = head[chosen]
            alive = ops.cat([~_overlaps(better, part, iou_threshold).any(0) for part in rest.split(max(1, PAIRS // better.shape[0]))])
            order, boxes = order[alive], rest[alive]
    return ops.cat(kept) if kept else order.clone()


def _chosen(overlaps: object) -> Tensor:
    """Of boxes by falling score the indices of those that no earlier one of these strikes out."""
    import numpy as np

    rows = np.asarray(overlaps)
    struck = np.zeros(len(rows), bool)
    found = []
    for i, row in enumerate(rows):
        if not struck[i]:
            found.append(i)
            struck |= row
    return flambeau.from_numpy(np.array(found, np.int64))


def _overlaps(a: Tensor, b: Tensor, threshold: float) -> Tensor:
    """Which boxes of `a` overlap which of `b` by more than `threshold`, [len(a), len(b)]."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = (a[:, i, None] for i in range(4)), (b[:, i] for i in range(4))
    wide = (ops.minimum(ax2, bx2) - ops.maximum(ax1, bx1)).clamp(min=0)
    high = (ops.minimum(ay2, by2) - ops.maximum(ay1, by1)).clamp(min=0)
    shared = wide * high
    return shared / ((ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - shared) > threshold


def box_iou_rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of boxes (centre, width, height, angle in degrees), [N, 5] with [M, 5] -> [N, M] in float32.

    What two of them share is convex. Its corners are among the corners of either that lie in the other and the crossings of their sides;
    sorted by their angle around their mean they are a polygon, whose area is a sum of cross products.
    """
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise _C.ShapeError(f"box_iou_rotated: {name} has shape {list(boxes.shape)}; expected [N, 5]")
    if boxes1.dtype != boxes2.dtype:
        raise _C.DTypeError(f"box_iou_rotated: boxes1 is {boxes1.dtype}, but boxes2 {boxes2.dtype}; expected the same type")
    n, m = boxes1.shape[0], boxes2.shape[0]
    if not n or not m:
        return ops.empty((n, m), dtype=_C.float32)
    rows = [ops.cat([_rotated(a, b) for b in boxes2.split(ROTATED)], 1) for a in boxes1.split(max(1, ROTATED // m))]
    return ops.cat(rows)


def _corners(boxes: Tensor, centre: Tensor) -> Tensor:
    """The corners around a centre that is new, [..., 4, 2]."""
    angle = boxes[..., 4] * (math.pi / 180)
    along = ops.stack([angle.cos(), -angle.sin()], -1) * boxes[..., 2:3] / 2
    across = ops.stack([angle.sin(), angle.cos()], -1) * boxes[..., 3:4] / 2
    middle = boxes[..., :2] - centre
    return ops.stack([middle + along + across, middle + along - across, middle - along - across, middle - along + across], -2)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    shape = (boxes1.shape[0], boxes2.shape[0], 5)
    first, second = boxes1.double()[:, None].expand(shape), boxes2.double()[None].expand(shape)
    centre = (first[..., :2] + second[..., :2]) / 2  # near zero there are more digits
    a, b = _corners(first, centre), _corners(second, centre)
    sides_a, sides_b = a.roll(-1, -2) - a, b.roll(-1, -2) - b
    near = 1e-9

    def inside(points: Tensor, corners: Tensor, sides: Tensor) -> Tensor:
        turns = _cross(sides[..., None, :, :], points[..., :, None, :] - corners[..., None, :, :])
        scale = near * (1 + sides.abs().sum((-1, -2)))[..., None]
        return (turns >= -scale[..., None]).all(-1) | (turns <= scale[..., None]).all(-1)

    lines = _cross(sides_b[..., None, :, :], sides_a[..., :, None, :])
    gap = b[..., None, :, :] - a[..., :, None, :]
    parallel = lines.abs() <= 1e-14
    lines = lines.masked_fill(parallel, 1.0)
    t = _cross(sides_b[..., None, :, :].expand_as(gap), gap) / lines
    u = _cross(sides_a[..., :, None, :].expand_as(gap), gap) / lines
    meets = ~parallel & (t > -near) & (t < 1 + near) & (u > -near) & (u < 1 + near)
    crossings = (a[..., :, None, :] + sides_a[..., :, None, :] * t[..., None]).flatten(-3, -2)
    points = ops.cat([crossings, a, b], -2)
    valid = ops.cat([meets.flatten(-2), inside(a, b, sides_b), inside(b, a, sides_a)], -1)
    count = valid.sum(-1, keepdim=True)
    mean = (points * valid[..., None]).sum(-2, keepdim=True) / count.clamp(min=1)[..., None]
    points = points - mean
    angle = ops.atan2(points[..., 1], points[..., 0]).masked_fill(~valid, 10.0)
    order = angle.argsort(-1)
    points = points.gather(-2, order[..., None].expand_as(points))
    # Points that are none stand behind the others, and become the first: sides of no area.
    later = ops.arange(points.shape[-2]) >= count
    points = ops.where(later[..., None], points[..., :1, :], points)
    shared = _cross(points, points.roll(-1, -2)).sum(-1).abs() / 2
    shared = ops.where(count[..., 0] > 2, shared, ops.zeros(()))
    area1, area2 = first[..., 2] * first[..., 3], second[..., 2] * second[..., 3]
    iou = shared / (area1 + area2 - shared)
    return ops.where((area1 < 1e-14) | (area2 < 1e-14), ops.zeros(()), iou).float()
