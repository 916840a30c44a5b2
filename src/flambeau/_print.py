"""How tensors are printed: as PyTorch prints them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed.

    Args:
        precision: digits after the point.
        threshold: elements from which on a tensor is summarised.
        edgeitems: elements shown at each end of a summarised axis.
        linewidth: characters per line.
        profile: 'default', 'short' (precision 2, threshold 1000, edgeitems 2) or 'full' (no summary).
        sci_mode: True or False to force scientific notation on or off.
    """
    presets = {"default": (4, 1000, 3), "short": (2, 1000, 2), "full": (4, 10**18, 3)}
    if profile is not None:
        if profile not in presets:
            raise ValueError(f"set_printoptions: profile = '{profile}'; expected one of {', '.join(presets)}")
        _Options.precision, _Options.threshold, _Options.edgeitems = presets[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(_Options, name, int(value))
    _Options.sci_mode = sci_mode


def _shown(x: Tensor) -> list[Any]:
    """The elements that will be printed, flat."""
    if x.numel() <= _Options.threshold:
        return list(x.reshape(-1).tolist())
    out: list[Any] = []

    def walk(t: Tensor) -> None:
        if t.ndim == 0:
            out.append(t.item())
            return
        n, e = t.shape[0], _Options.edgeitems
        for i in range(n) if n <= 2 * e else [*range(e), *range(n - e, n)]:
            walk(t[i])

    walk(x)
    return out


def _formatter(x: Tensor) -> Callable[[Any], str]:
    """How one element of this tensor is written: common width, and scientific where the range asks for it."""
    values = _shown(x)
    if x.dtype is _C.bool or not x.is_floating_point():
        width = max((len(str(v)) for v in values), default=0)
        return lambda v: str(v).rjust(width)
    finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
    precision = _Options.precision
    whole = all(v == math.ceil(v) for v in finite)
    high, low = max(finite, default=0.0), min(finite, default=0.0)
    if whole:
        sci = bool(finite) and (high / low > 1000.0 or high > 1e8)
    else:
        sci = bool(finite) and (high / low > 1000.0 or high > 1e8 or low < 1e-4)
    if _Options.sci_mode is not None:
        sci = _Options.sci_mode

    def one(v: float) -> str:
        if not math.isfinite(v):
            return "nan" if v != v else "inf" if v > 0 else "-inf"
        if sci:
            return f"{v:.{precision}e}"
        return f"{v:.0f}." if whole else f"{v:.{precision}f}"

    # NaN, infinities and zeros stand in a column as wide as the others need.
    width = max((len(one(v)) for v in values if math.isfinite(v) and v != 0), default=0)
    return lambda v: one(v).rjust(width)


def _body(x: Tensor, indent: int, form: Callable[[Any], str], summarise: bool) -> str:
    if x.ndim == 0:
        return form(x.item()).strip() if not x.is_floating_point() else form(x.item())
    n, e = x.shape[0], _Options.edgeitems
    cut = summarise and n > 2 * e
    if x.ndim == 1:
        width = len(form(x[0].item())) if n else 1
        per_line = max(1, (_Options.linewidth - indent) // (width + 2))
        items = [form(v) for v in (x[:e].tolist() + x[n - e :].tolist() if cut else x.tolist())]
        if cut:
            items = [*items[:e], " ...", *items[e:]]
        lines = [items[i : i + per_line] for i in range(0, len(items), per_line)] or [[]]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"
    rows = [_body(x[i], indent + 1, form, summarise) for i in (range(n) if not cut else [*range(e), *range(n - e, n)])]
    if cut:
        rows = [*rows[:e], "...", *rows[e:]]
    return "[" + ("," + "\n" * (x.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def tensor_text(x: Tensor) -> str:
    """`tensor([...], dtype=..., requires_grad=True)`."""
    prefix = "tensor(" if type(x).__name__ in ("Tensor", "Parameter", "Buffer") else f"{type(x).__name__}("
    heading = "Parameter containing:\n" if type(x).__name__ == "Parameter" else ""
    suffix = []
    grad_fn = x.grad_fn
    requires_grad = x.requires_grad
    plain = x.detach()
    if x.is_meta:
        body = "..."
        suffix += ["device='meta'", f"size={tuple(x.shape)}"]
    elif x.numel() == 0:
        body = "[]"
        if x.ndim != 1:
            suffix.append(f"size={tuple(x.shape)}")
    else:
        body = _body(plain, len(prefix), _formatter(plain), x.numel() > _Options.threshold)
    default = {_C.get_default_dtype(), _C.int64, _C.bool}
    if x.numel() == 0 and x.dtype is not _C.get_default_dtype() or x.dtype not in default:
        suffix.append(f"dtype={x.dtype}")
    if grad_fn is not None:
        suffix.append(f"grad_fn=<{grad_fn.name()}>")
    elif requires_grad:
        suffix.append("requires_grad=True")
    return heading + prefix + ", ".join([body, *suffix]) + ")"
