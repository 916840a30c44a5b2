"""LAPACK as NumPy brings it along, for larger matrices.

NumPy's wheels have OpenBLAS beside them, with names and integers of their own; where NumPy was built in another way, or with
FLAMBEAU_LAPACK=off, the library's own kernels do everything.
"""

from __future__ import annotations

import os
import pathlib

from flambeau import _C


def find() -> bool:
    """Hands NumPy's LAPACK to the kernels; False where there is none that they know."""
    if os.environ.get("FLAMBEAU_LAPACK", "on") == "off":
        return False
    import numpy

    beside = pathlib.Path(numpy.__file__).parent.with_name("numpy.libs")
    return any(_C.use_lapack(str(path), "scipy_", "_64_") for path in sorted(beside.glob("libscipy_openblas64_*.so")))
