"""Short-time Fourier transforms: the transform of windows along a signal, and the signal back from overlapping windows."""

from __future__ import annotations

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._spelled import spelled
from flambeau._warn import warn
from flambeau.amp.autocast_mode import widens


def _window(op: str, window: Tensor | None, n_fft: int, win_length: int | None, like: Tensor) -> tuple[Tensor, int]:
    """The window, in the middle of n_fft points."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise _C.ArgumentError(f"{op}: win_length = {length}; expected 0 < win_length <= n_fft = {n_fft}")
    if window is None:
        window = ops.ones((length,), dtype=like.dtype.to_real(), device=like.device)
    if tuple(window.shape) != (length,):
        raise _C.ShapeError(
            f"{op}: expected a 1D window tensor of size equal to win_length={length}, but got window with size {list(window.shape)}"
        )
    left = (n_fft - length) // 2
    return (window if length == n_fft else ops.constant_pad(window, [left, n_fft - length - left])), length


def _hop(op: str, n_fft: int, hop_length: int | None) -> int:
    if n_fft < 1:
        raise _C.ArgumentError(f"{op}: n_fft = {n_fft}; expected at least 1 point")
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop < 1:
        raise _C.ArgumentError(f"{op}: hop_length = {hop}; expected at least 1 (n_fft = {n_fft})")
    return hop


def _batch(op: str, x: Tensor, axes: int) -> Tensor:
    if x.ndim not in (axes, axes + 1):
        raise _C.ShapeError(f"{op}: input has shape {list(x.shape)}; expected {axes} axes, or {axes + 1} with a batch before them")
    return x.unsqueeze(0) if x.ndim == axes else x


@widens
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The transforms of windows of n_fft points, hop_length apart, along a signal.

    Args:
        hop_length: n_fft // 4 if it is not given.
        window: factors of win_length points, ones if it is not given; it stands in the middle of n_fft points.
        center: window t is around the point t * hop_length, for which both ends are padded by n_fft // 2 (`pad_mode`).
        normalized: divides by sqrt(n_fft).
        onesided: the first n_fft // 2 + 1 entries; the default for real signals and windows.
        return_complex: False gives real and imaginary parts along a last axis. It has to be given for real signals.

    Shape:
        [time] or [batch, time] to [frequencies, windows] or [batch, frequencies, windows].

    Raises:
        ShapeError: a signal shorter than n_fft, a window of another length.
        ValueError: sizes below 1, `return_complex` not given for a real signal.

    Example:
        >>> import flambeau as fl
        >>> fl.stft(fl.ones(8), 4, window=fl.ones(4), return_complex=True).shape
        flambeau.Size([3, 9])
    """
    from flambeau import fft
    from flambeau.nn import functional

    signal, hop = _batch("stft", input, 1), _hop("stft", n_fft, hop_length)
    if align_to_window is not None and center:
        raise _C.ArgumentError("stft: align_to_window is for center=False; expected None")
    if not (signal.is_complex() or signal.is_floating_point()):
        raise _C.DTypeError(f"stft: input is {input.dtype}; expected floating point or complex numbers")
    if window is None:
        warn("stft: a window was not provided. A rectangular window will be applied, which is known to cause spectral leakage")
    factors, length = _window("stft", window, n_fft, win_length, signal)
    is_complex = signal.is_complex() or factors.is_complex()
    if return_complex is None and not is_complex:
        raise _C.ArgumentError(
            "stft requires the return_complex parameter be given for real inputs: True, or False for real and imaginary parts"
        )
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise _C.ArgumentError("stft: onesided = True for complex numbers, whose transform has no redundant half; expected False")
    if center:
        signal = functional.pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(1)
    elif align_to_window:
        before = (n_fft - length) // 2
        signal = ops.constant_pad(signal, [before, n_fft - length - before])
    if signal.shape[-1] < n_fft:
        raise _C.ShapeError(f"stft: {signal.shape[-1]} points, padding included, are fewer than n_fft = {n_fft}; expected a longer signal")
    frames = signal.unfold(-1, n_fft, hop) * factors
    norm = "ortho" if normalized else "backward"
    out = (fft.rfft(frames, norm=norm) if half else fft.fft(frames, norm=norm)).transpose(1, 2)
    out = out.squeeze(0) if input.ndim == 1 else out
    return out if return_complex is None or return_complex else ops.view_as_real(out)


@spelled()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is nearest to the given one.

    Windows are transformed back, weighted, added, and divided by the sum of the squared weights.

    Args:
        length: points of the signal; what the last window reaches if it is not given.
        return_complex: the signal is complex, which needs all frequencies (`onesided=False`).

    Shape:
        [frequencies, windows] or [batch, frequencies, windows] to [time] or [batch, time].

    Raises:
        ShapeError: another number of frequencies than n_fft gives.
        ValueError: windows whose squares do not cover every point.

    Example:
        >>> import flambeau as fl
        >>> x = fl.arange(8.0)
        >>> fl.istft(fl.stft(x, 4, return_complex=True), 4)
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    from flambeau import fft

    if not input.is_complex():
        raise _C.DTypeError(f"istft requires a complex-valued input tensor, but got {input.dtype} (view_as_complex)")
    frames, hop = _batch("istft", input, 2), _hop("istft", n_fft, hop_length)
    half = frames.shape[1] != n_fft if onesided is None else onesided
    entries = n_fft // 2 + 1 if half else n_fft
    if frames.shape[1] != entries or frames.shape[2] < 1:
        raise _C.ShapeError(
            f"istft: input has shape {list(input.shape)}; expected {entries} frequencies (n_fft = {n_fft}) and at least one window"
        )
    if half and return_complex:
        raise _C.ArgumentError("istft: return_complex with onesided frequencies, whose signal is real; expected onesided=False")
    if length is not None and length < 1:
        raise _C.ArgumentError(f"istft: length = {length}; expected at least 1")
    if window is None:
        warn("istft: a window was not provided. A rectangular window will be applied. Please provide the same window used by stft")
    factors, _ = _window("istft", window, n_fft, win_length, frames)
    norm = "ortho" if normalized else "backward"
    parts = frames.transpose(1, 2)
    if not return_complex and factors.is_complex():
        raise _C.ArgumentError("istft: a complex window for a real signal; expected a real window, or return_complex=True")
    parts = fft.ifft(parts, norm=norm) if return_complex else fft.irfft(parts, n=n_fft, norm=norm)  # of all frequencies, it reads half
    total = n_fft + hop * (frames.shape[2] - 1)
    y = ops.unfold_backward(parts * factors, (frames.shape[0], total), 1, n_fft, hop)
    squares = (factors * factors).expand(frames.shape[2], n_fft).contiguous()
    weight = ops.unfold_backward(squares, (total,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    y, weight = y[:, start : min(end, total)], weight[start : min(end, total)]
    if not weight.is_meta and weight.numel() and (least := float(weight.detach().abs().min())) < 1e-11:
        raise _C.ArgumentError(
            f"istft: the windows weigh some point by {least}; expected windows that cover every point (hop_length = {hop})"
        )
    y = y / weight
    if end > total:
        y = ops.constant_pad(y, [0, end - total])
    return y.squeeze(0) if input.ndim == 2 else y
