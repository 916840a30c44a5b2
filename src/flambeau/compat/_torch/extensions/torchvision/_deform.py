"""Convolution whose kernel's points are moved by offsets.

As in an ordinary convolution by columns, what the kernel looks at is written out, [pixels, kernel points * channels], and multiplied by
the weight. The columns are the product of a sparse matrix, of four values for each point (its neighbours' shares), with the picture's
rows of channels. All of it is made of differentiable ops, and backward is theirs.
"""

from __future__ import annotations

from flambeau import _C, autograd
from flambeau._C import Tensor, ops


def _shares(place: Tensor, limit: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Along one axis: the pixels below and above a place, and their shares; those that lie outside have none."""
    low = place.detach().floor()
    part = place - low
    below, above = low.long(), low.long() + 1
    there = (place > -1) & (place < limit)
    share_below, share_above = (1 - part) * (there & (below >= 0)), part * (there & (above < limit))
    return below.clamp(0, limit - 1), above.clamp(0, limit - 1), share_below, share_above


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int, pad_h: int, pad_w: int,
    dilation_h: int,
    dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """input [N, C, H, W], weight [O, C / groups, KH, KW], offset [N, 2 * offset_groups * KH * KW, OH, OW], mask half of that, bias [O] ->
    [N, O, OH, OW].
    """
    n, c, h, w = input.shape
    o, per_group, kh, kw = weight.shape
    oh, ow = (h + 2 * pad_h - dilation_h * (kh - 1) - 1) // stride_h + 1, (w + 2 * pad_w - dilation_w * (kw - 1) - 1) // stride_w + 1
    if c != per_group * groups or o % groups or c % offset_groups:
        raise _C.ShapeError(
            f"deform_conv2d: input has {c} channels, weight shape {list(weight.shape)}; expected {per_group} * {groups} groups, "
            f"a multiple of {offset_groups} groups of offsets, and a first size of weight that {groups} divides"
        )
    expected = [n, 2 * offset_groups * kh * kw, oh, ow]
    if list(offset.shape) != expected:
        raise _C.ShapeError(f"deform_conv2d: offset has shape {list(offset.shape)}; expected {expected}")
    if use_mask and list(mask.shape) != [n, expected[1] // 2, oh, ow]:
        raise _C.ShapeError(f"deform_conv2d: mask has shape {list(mask.shape)}; expected {[n, expected[1] // 2, oh, ow]}")
    move = offset.view(n, offset_groups, kh, kw, 2, oh, ow)

    def along(size: int, stride: int, pad: int, dilation: int, kernel: int) -> Tensor:
        return (ops.arange(kernel) * dilation - pad)[:, None] + (ops.arange(size) * stride)[None]

    rows = along(oh, stride_h, pad_h, dilation_h, kh)[:, None, :, None] + move[:, :, :, :, 0]
    columns = along(ow, stride_w, pad_w, dilation_w, kw)[None, :, None, :] + move[:, :, :, :, 1]
    y0, y1, wy0, wy1 = _shares(rows, h)
    x0, x1, wx0, wx1 = _shares(columns, w)
    plane = (ops.arange(n)[:, None] * offset_groups + ops.arange(offset_groups)).view(n, offset_groups, 1, 1, 1, 1) * h
    pixels = ops.stack([((plane + y) * w + x) for y in (y0, y1) for x in (x0, x1)], -1)
    shares = ops.stack([a * b for a in (wy0, wy1) for b in (wx0, wx1)], -1)
    if use_mask:
        shares = shares * mask.view(n, offset_groups, kh, kw, oh, ow)[..., None]
    table = input.view(n, offset_groups, c // offset_groups, h, w).permute(0, 1, 3, 4, 2).reshape(-1, c // offset_groups)
    dtype = table.dtype if table.dtype in (_C.float32, _C.float64) else _C.float32
    starts = ops.arange(0, pixels.numel() + 4, 4)
    looked = ops.sparse_mm(starts, pixels.reshape(-1), shares.reshape(-1).to(dtype), table.to(dtype)).to(input.dtype)
    # [n, offset_groups, kh, kw, oh, ow, c] -> [groups, c per group * kh * kw, n * oh * ow]
    looked = looked.view(n, offset_groups, kh, kw, oh, ow, -1).permute(1, 6, 2, 3, 0, 4, 5)
    looked = looked.reshape(groups, per_group * kh * kw, n * oh * ow)
    out = weight.reshape(groups, o // groups, per_group * kh * kw) @ looked
    return (out.view(o, n, oh, ow).transpose(0, 1) + bias.view(1, -1, 1, 1)).contiguous()


def deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *rest: int
) -> tuple[Tensor, ...]:
    """The gradients of deform_conv2d's tensors."""
    with autograd.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (input, weight, offset, mask, bias)]
        found = autograd.grad(deform_conv2d(*leaves, *rest), leaves, grad, allow_unused=True)  # type: ignore[arg-type]
    return tuple(ops.zeros_like(t) if g is None else g.contiguous() for t, g in zip(leaves, found, strict=True))
