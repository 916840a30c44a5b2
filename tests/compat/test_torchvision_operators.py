"""The operators of torchvision's extension, beside loops in NumPy that do what their definitions say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau.compat._torch.extensions import provide
from flambeau.compat._torch.extensions.torchvision import _boxes, _deform, _regions

H, W = 9, 12
ROIS = np.array(
    [[0, 1, 1, 7, 6], [1, -4, -3, 5, 4], [0, 6, 2, 20, 15], [1, 3.3, 2.2, 3.4, 2.3], [0, 0, 0, 11, 8], [1, 14, 11, 18, 14], [1, 5, 5, 2, 3]], np.float64
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def sample(plane, y, x):
    h, w = plane.shape
    if y < -1 or y > h or x < -1 or x > w:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = (0.0 if y0 >= h - 1 else y - y0), (0.0 if x0 >= w - 1 else x - x0)
    return (1 - fy) * ((1 - fx) * plane[y0, x0] + fx * plane[y0, x1]) + fy * ((1 - fx) * plane[y1, x0] + fx * plane[y1, x1])


def aligned_loops(x, rois, scale, ph, pw, ratio, offset, least, by_position):
    c = x.shape[1] // (ph * pw) if by_position else x.shape[1]
    out = np.zeros((len(rois), c, ph, pw))
    for k, (n, *box) in enumerate(rois):
        left, top, right, bottom = (v * scale - offset for v in box)
        width, height = (right - left, bottom - top) if least is None else (max(right - left, least), max(bottom - top, least))
        down, across = (ratio, ratio) if ratio > 0 else (max(math.ceil(height / ph), 0), max(math.ceil(width / pw), 0))
        for i in range(ph):
            for j in range(pw):
                for ch in range(c):
                    plane = x[int(n), (ch * ph + i) * pw + j if by_position else ch]
                    total = 0.0
                    for a in range(down):
                        for b in range(across):
                            total += sample(plane, top + (i + (a + 0.5) / down) * height / ph, left + (j + (b + 0.5) / across) * width / pw)
                    out[k, ch, i, j] = total / max(down * across, 1)
    return out


@pytest.mark.parametrize("ratio", [2, -1], ids=["two points", "as many as pixels"])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(rng, ratio, aligned):
    x = rng.normal(size=(2, 3, H, W))
    got = _regions.roi_align(fl.tensor(x), fl.tensor(ROIS), 0.75, 3, 2, ratio, aligned)
    want = aligned_loops(x, ROIS, 0.75, 3, 2, ratio, 0.5 if aligned else 0.0, None if aligned else 1.0, False)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("ratio", [2, -1], ids=["two points", "as many as pixels"])
def test_ps_roi_align(rng, ratio):
    x = rng.normal(size=(2, 12, H, W))
    got, mapping = _regions.ps_roi_align(fl.tensor(x), fl.tensor(ROIS), 0.75, 3, 2, ratio)
    np.testing.assert_allclose(got.numpy(), aligned_loops(x, ROIS, 0.75, 3, 2, ratio, 0.5, None, True), atol=1e-12)
    assert mapping.dtype == fl.int32 and mapping[4].tolist() == np.arange(12).reshape(2, 3, 2).tolist()


def bins(start, end, count, limit, extra):
    start, end = (int(math.copysign(math.floor(abs(v) + 0.5), v)) for v in (start, end))
    size = max(end - start + extra, 1) / count
    return [(min(max(math.floor(i * size) + start, 0), limit), min(max(math.ceil((i + 1) * size) + start, 0), limit)) for i in range(count)]


def test_roi_pool_and_where_its_pixels_lie(rng):
    x = rng.normal(size=(2, 3, H, W))
    got, place = _regions.roi_pool(fl.tensor(x), fl.tensor(ROIS), 0.5, 3, 2)
    for k, (n, left, top, right, bottom) in enumerate(ROIS):
        for i, (y0, y1) in enumerate(bins(top * 0.5, bottom * 0.5, 3, H, 1)):
            for j, (x0, x1) in enumerate(bins(left * 0.5, right * 0.5, 2, W, 1)):
                for c in range(3):
                    part = x[int(n), c, y0:y1, x0:x1]
                    assert got[k, c, i, j].item() == (part.max() if part.size else 0.0)
                    where = place[k, c, i, j].item()
                    assert x[int(n), c].reshape(-1)[where] == part.max() if part.size else where == -1


def test_ps_roi_pool(rng):
    x = rng.normal(size=(2, 12, H, W))
    got, _ = _regions.ps_roi_pool(fl.tensor(x), fl.tensor(ROIS), 0.5, 3, 2)
    for k, (n, left, top, right, bottom) in enumerate(ROIS):
        for i, (y0, y1) in enumerate(bins(top * 0.5, bottom * 0.5, 3, H - 1, 0)):
            for j, (x0, x1) in enumerate(bins(left * 0.5, right * 0.5, 2, W - 1, 0)):
                for c in range(2):
                    part = x[int(n), (c * 3 + i) * 2 + j, y0:y1, x0:x1]
                    assert got[k, c, i, j].item() == pytest.approx(part.mean() if part.size else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("forward", "backward", "channels", "options"),
    [
        (_regions.roi_align, _regions.roi_align_backward, 4, (2, False)),
        (_regions.roi_align, _regions.roi_align_backward, 4, (-1, True)),
        (_regions.ps_roi_align, _regions.ps_roi_align_backward, 8, (2,)),
        (_regions.ps_roi_pool, _regions.ps_roi_pool_backward, 8, ()),
        (_regions.roi_pool, _regions.roi_pool_backward, 4, ()),
    ],
    ids=["align", "align all points", "by position", "mean by position", "greatest"],
)
def test_gradients_of_regions_are_their_transposes(rng, forward, backward, channels, options):
    """What is linear in the picture (or is, where the greatest stays the greatest) has <dy, f(x + h) - f(x)> = <g, h>."""
    x, step = rng.normal(size=(2, channels, H, W)), rng.normal(size=(2, channels, H, W)) * 1e-7
    rois = fl.tensor(ROIS)

    def call(value):
        out = forward(fl.tensor(value), rois, 0.75, 2, 2, *options)
        return out if isinstance(out, tuple) else (out, None)

    (y, kept), (moved, _) = call(x), call(x + step)
    dy = fl.tensor(rng.normal(size=tuple(y.shape)))
    sizes = (2, channels, H, W)
    more = () if kept is None else (kept,)
    order = (*options, *sizes) if forward is _regions.ps_roi_align else (*sizes, *options)
    g = backward(dy, rois, *more, 0.75, 2, 2, *order)
    assert ((moved - y) * dy).sum().item() == pytest.approx((g.numpy() * step).sum(), rel=1e-6)


def kept_loops(boxes, scores, threshold):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        def overlap(j, i=i):
            wide = max(min(boxes[i][2], boxes[j][2]) - max(boxes[i][0], boxes[j][0]), 0)
            high = max(min(boxes[i][3], boxes[j][3]) - max(boxes[i][1], boxes[j][1]), 0)
            area = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (boxes[i], boxes[j]))
            return wide * high / (area - wide * high)
        if all(overlap(j) <= threshold for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("block", [7, 64, 1024])
def test_nms(rng, block, monkeypatch):
    monkeypatch.setattr(_boxes, "BLOCK", block)
    corner = rng.uniform(0, 20, size=(100, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(2, 8, size=(100, 2))], 1)
    scores = rng.integers(0, 30, 100).astype(np.float64)  # with ties
    assert _boxes.nms(fl.tensor(boxes), fl.tensor(scores), 0.3).tolist() == kept_loops(boxes, scores, 0.3)


@pytest.mark.parametrize("pool", [lambda x, r: _regions.roi_align(x, r, 1.0, 2, 2, 2, False), lambda x, r: _regions.roi_pool(x, r, 1.0, 2, 2)[0]])
def test_no_regions(pool):
    assert list(pool(fl.ones(1, 3, 4, 4), fl.zeros(0, 5)).shape) == [0, 3, 2, 2]
    assert _regions.roi_align_backward(fl.zeros(0, 3, 2, 2), fl.zeros(0, 5), 1.0, 2, 2, 1, 3, 4, 4, 2, False).tolist() == fl.zeros(1, 3, 4, 4).tolist()


def test_nms_of_no_boxes():
    assert _boxes.nms(fl.zeros(0, 4), fl.zeros(0), 0.5).tolist() == []


def clipped(polygon, corners):
    """A convex polygon cut to what is inside of another one."""
    for a, b in zip(corners, np.roll(corners, -1, 0)):
        side = lambda p: (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])  # noqa: B023, E731
        found = []
        for p, q in zip(polygon, [*polygon[1:], *polygon[:1]]):
            if side(p) >= 0:
                found.append(p)
            if side(p) * side(q) < 0:
                found.append(p + (q - p) * side(p) / (side(p) - side(q)))
        polygon = found
    return polygon


def test_rotated_boxes(rng):
    boxes = np.concatenate([rng.uniform(0, 6, (8, 2)), rng.uniform(1, 6, (8, 2)), rng.uniform(-180, 180, (8, 1))], 1)
    boxes[1] = boxes[0]
    boxes[2] = [*boxes[0, :4], boxes[0, 4] + 90]
    boxes[3] = [3, 3, 2, 2, 0]
    boxes[4] = [3, 3, 4, 4, 0]
    boxes[5] = [50, 50, 1, 1, 20]

    def corners(box):
        a = math.radians(box[4])
        turn = np.array([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]])
        return np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * box[2:4] / 2 @ turn.T + box[:2]

    def area(points):
        return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(points, [*points[1:], *points[:1]]))) / 2

    def iou(a, b):
        shared = area(clipped(list(corners(a)), corners(b)))
        return shared / (a[2] * a[3] + b[2] * b[3] - shared)

    got = _boxes.box_iou_rotated(fl.tensor(boxes), fl.tensor(boxes))
    assert got.dtype == fl.float32
    np.testing.assert_allclose(got.numpy(), [[iou(a, b) for b in boxes] for a in boxes], atol=1e-6)


def deformed_loops(x, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    n, c, h, w = x.shape
    o, per_group, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    out = np.zeros((n, o, oh, ow))

    def at(plane, y, x):
        if y <= -1 or y >= h or x <= -1 or x >= w:
            return 0.0
        y0, x0 = math.floor(y), math.floor(x)
        value = 0.0
        for a, wa in ((y0, 1 - (y - y0)), (y0 + 1, y - y0)):
            for b, wb in ((x0, 1 - (x - x0)), (x0 + 1, x - x0)):
                value += wa * wb * plane[a, b] if 0 <= a < h and 0 <= b < w else 0.0
        return value

    for b in range(n):
        for co in range(o):
            for i in range(oh):
                for j in range(ow):
                    total = bias[co]
                    for ci in range(per_group):
                        ch = co // (o // groups) * per_group + ci
                        og = ch // (c // offset_groups)
                        for p in range(kh):
                            for q in range(kw):
                                k = (og * kh + p) * kw + q
                                y = i * stride - pad + p * dilation + offset[b, 2 * k, i, j]
                                xx = j * stride - pad + q * dilation + offset[b, 2 * k + 1, i, j]
                                total += weight[co, ci, p, q] * mask[b, k, i, j] * at(x[b, ch], y, xx)
                    out[b, co, i, j] = total
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "offset_groups", "stride", "dilation"), [(1, 1, 1, 1), (2, 2, 2, 1), (1, 2, 1, 2)])
def test_deform_conv2d(rng, groups, offset_groups, stride, dilation):
    x, weight, bias = rng.normal(size=(2, 4, 4, 5)), rng.normal(size=(6, 4 // groups, 3, 2)), rng.normal(size=6)
    oh, ow = (4 + 2 - dilation * 2 - 1) // stride + 1, (5 + 2 - dilation - 1) // stride + 1
    offset = rng.normal(size=(2, 2 * offset_groups * 6, oh, ow)) * 1.5
    mask = rng.uniform(size=(2, offset_groups * 6, oh, ow))
    tensors = [fl.tensor(v) for v in (x, weight, offset, mask, bias)]
    rest = (stride, stride, 1, 1, dilation, dilation, groups, offset_groups)
    want = deformed_loops(x, weight, offset, mask, bias, stride, 1, dilation, groups, offset_groups)
    np.testing.assert_allclose(_deform.deform_conv2d(*tensors, *rest, True).numpy(), want, atol=1e-12)
    plain = deformed_loops(x, weight, offset, np.ones_like(mask), bias, stride, 1, dilation, groups, offset_groups)
    np.testing.assert_allclose(_deform.deform_conv2d(*tensors, *rest, False).numpy(), plain, atol=1e-12)
    leaves = [t.requires_grad_() for t in tensors]
    assert fl.autograd.gradcheck(lambda *a: _deform.deform_conv2d(*a, *rest, True), leaves)
    dy = fl.tensor(rng.normal(size=want.shape))
    wanted = fl.autograd.grad(_deform.deform_conv2d(*leaves, *rest, True), leaves, dy)
    for got, g in zip(_deform.deform_conv2d_backward(dy, *tensors, *rest, True), wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), g.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: _boxes.nms(fl.zeros(3, 5), fl.zeros(3), 0.5), r"nms: boxes has shape \[3, 5\]; expected \[N, 4\]"),
        (lambda: _boxes.nms(fl.zeros(3, 4), fl.zeros(2), 0.5), r"nms: scores has shape \[2\]; expected \[3\]"),
        (lambda: _regions.roi_align(fl.zeros(1, 2, 4, 4), fl.zeros(3, 4), 1.0, 2, 2, 2, False), r"rois has shape \[3, 4\]; expected \[K, 5\]"),
        (lambda: _regions.roi_pool(fl.zeros(1, 2, 4, 4), fl.ones(3, 5), 1.0, 2, 2), "rois names picture 1; expected 0 <= number < 1"),
        (lambda: _regions.ps_roi_pool(fl.zeros(1, 6, 4, 4), fl.zeros(3, 5), 1.0, 2, 2), "6 channels; expected a multiple of 2 \\* 2"),
    ],
)
def test_wrong_calls_are_refused(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_only_extensions_that_are_known_are_provided():
    assert provide("/any/where/torchvision/_C.so")
    assert not provide("/any/where/torchaudio/_C.so")
    assert not provide("_C.so")


@pytest.mark.parametrize("values", [1, 40, 500, 2**20])
@pytest.mark.parametrize(
    ("forward", "backward", "channels", "options"),
    [
        (_regions.roi_align, _regions.roi_align_backward, 4, (2, False)),
        (_regions.roi_align, _regions.roi_align_backward, 4, (-1, True)),
        (_regions.ps_roi_align, _regions.ps_roi_align_backward, 8, (-1,)),
        (_regions.ps_roi_pool, _regions.ps_roi_pool_backward, 8, ()),
    ],
    ids=["align", "align all points", "by position", "mean by position"],
)
def test_regions_part_by_part(rng, monkeypatch, forward, backward, channels, options, values):
    """In parts that hold bins, regions or all: the same numbers forward, and backward the same up to the order of sums."""
    x, rois, sizes = fl.tensor(rng.normal(size=(2, channels, H, W))), fl.tensor(ROIS), (2, channels, H, W)
    largest = []
    product = fl._C.ops.sparse_mm
    order = (*options, *sizes) if forward is _regions.ps_roi_align else (*sizes, *options)

    def both():
        y = forward(x, rois, 0.75, 2, 2, *options)
        y, kept = y if isinstance(y, tuple) else (y, None)
        return y, backward(dy, rois, *(() if kept is None else (kept,)), 0.75, 2, 2, *order)

    dy = fl.tensor(rng.normal(size=(len(ROIS), channels if channels == 4 else 2, 2, 2)))
    whole, g = both()
    monkeypatch.setattr(_regions, "VALUES", values)
    monkeypatch.setattr(_regions.ops, "sparse_mm", lambda s, c, v, t: (largest.append((v.shape[0], s.shape[0] - 1)), product(s, c, v, t))[1])
    parts, other = both()
    assert parts.equal(whole)
    np.testing.assert_allclose(other.numpy(), g.numpy(), atol=1e-12)
    assert all(count <= values or bins == 1 for count, bins in largest) and sum(bins for _, bins in largest) == len(ROIS) * 4


@pytest.mark.parametrize("pairs", [1, 50, 333])
def test_nms_in_small_tables(rng, monkeypatch, pairs):
    corner = rng.uniform(0, 20, size=(100, 2))
    boxes = fl.tensor(np.concatenate([corner, corner + rng.uniform(2, 8, size=(100, 2))], 1))
    scores, sizes = fl.tensor(rng.uniform(size=100)), []
    want = _boxes.nms(boxes, scores, 0.3).tolist()
    monkeypatch.setattr(_boxes, "BLOCK", 10)
    monkeypatch.setattr(_boxes, "PAIRS", pairs)
    whole = _boxes._overlaps
    monkeypatch.setattr(_boxes, "_overlaps", lambda a, b, t: (sizes.append((len(a), len(b))), whole(a, b, t))[1])
    assert _boxes.nms(boxes, scores, 0.3).tolist() == want
    assert all(a * b <= pairs or b == 1 or a == b <= 10 for a, b in sizes)


@pytest.mark.parametrize("pairs", [1, 7, 20])
def test_rotated_boxes_in_small_tables(rng, monkeypatch, pairs):
    boxes = fl.tensor(np.concatenate([rng.uniform(0, 6, (9, 2)), rng.uniform(1, 6, (9, 2)), rng.uniform(-180, 180, (9, 1))], 1))
    want = _boxes.box_iou_rotated(boxes, boxes[:5])
    monkeypatch.setattr(_boxes, "ROTATED", pairs)
    assert _boxes.box_iou_rotated(boxes, boxes[:5]).equal(want)
