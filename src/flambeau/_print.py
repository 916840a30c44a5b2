"""How tensors are printed: as PyTorch prints them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor


class _Options:
    def __init__(self, precision: int = 4, threshold: float = 1000, edgeitems: int = 3) -> None:
        self.precision = precision
        self.threshold = threshold
        self.edgeitems = edgeitems
        self.linewidth = 80
        self.sci_mode: bool | None = None


_options = PRINT_OPTS = _Options()  # PyTorch's name is the second
_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
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
        profile: 'default', 'short' (precision 2, edgeitems 2) or 'full' (no summary); resets all other options.
        sci_mode: True or False to force scientific notation on or off; every call that does not say leaves the choice to
            the values again.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile = '{profile}'; expected one of {', '.join(_PROFILES)}")
        vars(_options).update(vars(_PROFILES[profile]))
    if precision is not None:
        _options.precision = precision
    if threshold is not None:
        _options.threshold = threshold
    if edgeitems is not None:
        _options.edgeitems = edgeitems
    if linewidth is not None:
        _options.linewidth = linewidth
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """What `set_printoptions` sets, by name."""
    return dict(vars(_options))


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A region with other options of printing.

    Example:
        >>> import flambeau as fl
        >>> from flambeau._print import printoptions
        >>> with printoptions(precision=1):
        ...     print(fl.tensor(0.25))
        tensor(0.2)
    """
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        vars(_options).update(before)


def _ends(n: int) -> list[int]:
    """The positions of a summarised axis of n elements that are shown, or all where they are few."""
    e = _options.edgeitems
    return list(range(n)) if n <= 2 * e else [*range(e), *range(n - e, n)]


def _shown(x: Tensor, summarise: bool) -> list[Any]:
    """The elements whose width counts, flat."""
    if not summarise or (x.ndim == 1 and not _options.edgeitems):
        return list(x.reshape(-1).tolist())
    if x.ndim == 0:
        return [x.item()]
    return [v for i in _ends(x.shape[0]) for v in _shown(x[i], True)]


class _ComplexFormatter:
    """Both parts, each as its own numbers ask for; the imaginary ones with a sign and without a column."""

    def __init__(self, x: Tensor, summarise: bool) -> None:
        self.real, self.imag = _Formatter(x.real, summarise), _Formatter(x.imag, summarise)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v: complex) -> str:
        imag = self.imag._text(v.imag)
        return f"{self.real(v.real)}{'' if imag[0] in '+-' else '+'}{imag}j"


class _Formatter:
    """How one element of this tensor is written: common width, and scientific where the range asks for it."""

    def __init__(self, x: Tensor, summarise: bool) -> None:
        values = _shown(x, summarise)
        self.floating = x.is_floating_point()
        self.whole, self.scientific = True, False
        if not self.floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        # NaN, infinities and zeros stand in a column as wide as the others need, and have no say in the notation.
        counted = [v for v in values if math.isfinite(v) and v != 0]
        self.width = 1
        if not counted:
            return
        high, low = max(abs(v) for v in counted), min(abs(v) for v in counted)
        self.whole = all(v == math.ceil(v) for v in counted)
        self.scientific = high / low > 1000.0 or high > 1e8 or low < 1e-4 if _options.sci_mode is None else _options.sci_mode
        self.width = max(len(self._text(v)) for v in counted)

    def _text(self, v: Any) -> str:
        if not self.floating:
            return str(v)
        if self.scientific:
            return f"{v:.{_options.precision}e}"
        if self.whole:
            return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
        return f"{v:.{_options.precision}f}"

    def __call__(self, v: Any) -> str:
        return self._text(v).rjust(self.width)


def _body(x: Tensor, indent: int, form: _Formatter | _ComplexFormatter, summarise: bool) -> str:
    if x.ndim == 0:
        return form(x.item())
    n, e = x.shape[0], _options.edgeitems
    cut = summarise and n > 2 * e
    if x.ndim == 1:
        per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
        if summarise and not e:
            items = ["..."]
        elif cut:
            items = [*map(form, x[:e].tolist()), " ...", *map(form, x[n - e :].tolist())]
        else:
            items = [form(v) for v in x.tolist()]
        lines = [items[i : i + per_line] for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"
    rows = [_body(x[i], indent + 1, form, summarise) for i in (_ends(n) if cut else range(n))]
    if cut:
        rows = [*rows[:e], "...", *rows[e:]]
    return "[" + ("," + "\n" * (x.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def _with_suffixes(text: str, suffixes: list[str], indent: int, own_line: bool = False) -> str:
    """`text, suffix, suffix)`; a suffix that does not fit on the line begins the next one, and with `own_line` the first one does."""
    length = len(text) - text.rfind("\n") + 1
    for i, suffix in enumerate(suffixes):
        if length + len(suffix) + 2 > _options.linewidth or (own_line and i == 0):
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers alone, whose further lines are indented. Under this name PyTorch has it, and programs that write text files."""
    if self.numel() == 0:
        return "[]"
    plain, summarise = self.detach(), self.numel() > _options.threshold
    return _body(plain, indent, (_ComplexFormatter if plain.is_complex() else _Formatter)(plain, summarise), summarise)


def parts_text(parts: dict[str, Tensor], suffixes: list[str], own_line: bool, contents: Any) -> str:
    """`tensor(name=tensor([...]), ..., suffixes)` of a tensor that is made of others; with `contents` that text stands for the parts."""
    if contents is None:
        shown = []
        for name, x in parts.items():
            body = "..." if x.is_meta else _tensor_str(x.detach(), len(name) + 15)  # after `tensor(name=tensor(`
            shown.append(f"{name}=tensor({body}" + (")" if x.numel() and not x.is_meta else f", size={tuple(x.shape)})"))
        contents = (",\n" + " " * 7).join(shown)
    return _with_suffixes(f"tensor({contents}", suffixes, 7, own_line)


def tensor_text(x: Tensor, contents: Any = None) -> str:
    """`tensor([...], dtype=..., requires_grad=True)`; with `contents` that text stands for the elements."""
    prefix = "tensor(" if type(x).__name__ in ("Tensor", "Parameter", "Buffer") else f"{type(x).__name__}("
    suffixes = []
    grad_fn = x.grad_fn
    default = _C.get_default_dtype()
    known = x.dtype in (default, _C.get_default_complex_dtype(), _C.int64, _C.bool)  # by how the elements look
    if x.is_meta:
        body, known = "...", x.dtype is default
        suffixes += ["device='meta'", f"size={tuple(x.shape)}"]
    elif x.numel() == 0:
        body, known = "[]", x.dtype is default
        if x.ndim != 1:
            suffixes.append(f"size={tuple(x.shape)}")
    else:
        body = _tensor_str(x, len(prefix)) if contents is None else ""
        if not _options.edgeitems:
            suffixes.append(f"size={tuple(x.shape)}")
    if not known:
        suffixes.append(f"dtype={x.dtype}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn.name()}>")
    elif x.requires_grad:
        suffixes.append("requires_grad=True")
    text = _with_suffixes(prefix + (body if contents is None else str(contents)), suffixes, len(prefix))
    return f"Parameter({text})" if prefix != "tensor(" and isinstance(x, _parameter()) else text


def _parameter() -> type[Tensor]:
    from flambeau.nn.parameter import Parameter

    return Parameter
