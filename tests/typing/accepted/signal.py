"""Spectra."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.randn(64)
spectrum = fl.fft.rfft(x)
assert_type(spectrum, fl.Tensor)
assert_type(spectrum.abs(), fl.Tensor)
assert_type(fl.fft.irfft(spectrum, n=64), fl.Tensor)
s = fl.stft(x, n_fft=16, window=fl.hann_window(16), return_complex=True)
assert_type(s, fl.Tensor)
print(s.shape, fl.special.erf(x).shape)
