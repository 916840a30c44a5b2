"""Filters whose output at a sample depends on that at the samples before."""

from __future__ import annotations

from flambeau._C import Tensor


def lfilter_core_loop(input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor) -> None:
    """y[t] = x[t] - sum of a[k] y[t - k], written behind the first `order - 1` samples of the output.

    Shape: input [B, C, T], coefficients [C, order], the earliest first, output [B, C, T + order - 1].
    """
    x, a, y = (t.detach().numpy() for t in (input_signal_windows, a_coeff_flipped, padded_output_waveform))
    order = a.shape[1]
    for t in range(x.shape[2]):
        y[:, :, t + order - 1] = x[:, :, t] - (y[:, :, t : t + order] * a).sum(2)


def overdrive_core_loop(waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor) -> None:
    """Half the waveform and three quarters of the distorted one without its slow part.

    Shape: waveform, temp and output [C, T], last_in and last_out [C].
    """
    x, distorted, before, out, y = (t.detach().numpy() for t in (waveform, temp, last_in, last_out, output_waveform))
    for t in range(x.shape[-1]):
        out = distorted[:, t] - before + 0.995 * out
        before = distorted[:, t]
        y[:, t] = x[:, t] * 0.5 + out * 0.75
