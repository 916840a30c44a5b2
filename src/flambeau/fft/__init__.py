"""Discrete Fourier transforms.

Those of up to 4096 points whose factors are at most 31 are computed here; other sizes, and few lines of more than 1024 points, by
SciPy's pocketfft where SciPy is installed and by NumPy's otherwise.

A transform is linear, and its derivative is another one of them, so gradients of any order follow. float32 and complex64 are
computed as they are; integers and bools in the default float type. `norm` says which direction is divided by the number of points n:
'backward' (the default) the inverse, 'forward' the forward one, 'ortho' both by sqrt(n).

Example:
    >>> import flambeau as fl
    >>> x = fl.tensor([1.0, 0.0, 0.0, 0.0])
    >>> fl.fft.fft(x.cfloat())
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    >>> fl.fft.irfft(fl.fft.rfft(x), n=4)
    tensor([1., 0., 0., 0.])
"""

from flambeau import _whole_calls
from flambeau._spelled import spelled
from flambeau.fft._complex import fft, fft2, fftn, ifft, ifft2, ifftn
from flambeau.fft._hermitian import hfft, hfft2, hfftn, ihfft, ihfft2, ihfftn
from flambeau.fft._order import fftfreq, fftshift, ifftshift, rfftfreq
from flambeau.fft._real import irfft, irfft2, irfftn, rfft, rfft2, rfftn

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

for _name in __all__:
    globals()[_name] = spelled()(globals()[_name])
    globals()[_name].__module__ = "flambeau.fft"  # by which pickles name it
del _name

_whole_calls.meet_all(__name__)
