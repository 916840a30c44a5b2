"""`flambeau.special`: special functions, element by element.

Those of float32 are right to 4 ulp, as nearly all are computed in double; of float64 about as right as SciPy's. Where a function has
a derivative in PyTorch it has one here: not the Bessel functions `bessel_*`, `modified_bessel_k*` and `spherical_bessel_j0`,
`airy_ai` and the polynomials, whose backward is refused.

Example:
    >>> import flambeau as fl
    >>> fl.special.bessel_j0(fl.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.7652, 0.2239])
    >>> x = fl.tensor(2.0, requires_grad=True)
    >>> fl.special.gammainc(fl.tensor(3.0), x).backward()
    >>> x.grad
    tensor(0.2707)
"""

from flambeau import _whole_calls
from flambeau._spelled import spelled
from flambeau.special._functions import *
from flambeau.special._functions import __all__ as _names

__all__ = list(_names)

for _name in __all__:  # pickles name a function by the package, not by its file
    if getattr(globals()[_name], "__module__", "") == "flambeau.special._functions":
        globals()[_name] = spelled()(globals()[_name])
        globals()[_name].__module__ = "flambeau.special"
del _name
_whole_calls.meet_all(__name__)
