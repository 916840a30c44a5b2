"""The types of results with several named parts: `flambeau.return_types.max` is what `x.max(dim)` returns.

They are tuples, and pickles find them here.

>>> import flambeau as fl
>>> isinstance(fl.ones(2, 3).sort(), fl.return_types.sort)
True
"""

from __future__ import annotations

from typing import Any

import flambeau.linalg  # noqa: F401  (what it and the modules below define is entered by `result`)
import flambeau.linalg._old  # noqa: F401
from flambeau import _C, _more_functions, _results, _statistics  # noqa: F401


def _of_the_table() -> dict[str, Any]:
    """Those that the op table makes, by their names: of results for a matrix of one element."""
    from flambeau.overrides import DisableTorchFunction

    with DisableTorchFunction():
        x = _C.ops.ones(1, 1, dtype=_C.float64)
        calls = [getattr(_C.ops, name)(x, 0) for name in ("cummax", "cummin", "max", "median", "min", "mode", "nanmedian")]
        calls += [getattr(_C.ops, name)(x, 1) for name in ("kthvalue", "topk")]
        calls += [_C.ops.aminmax(x), _C.ops.sort(x), _C.ops.linalg_solve_ex(x, x)]
        calls += [
            getattr(_C.ops, f"linalg_{name}")(x) for name in ("cholesky_ex", "eigh", "inv_ex", "lu_factor_ex", "qr", "slogdet", "svd")
        ]
    return {type(made).__name__: type(made) for made in calls}


all_return_types: list[Any] = []
for _name, _kind in sorted({**_of_the_table(), **_results.made}.items()):
    globals()[_name] = _kind
    all_return_types.append(_kind)

__all__ = ["all_return_types", *(_kind.__name__ for _kind in all_return_types)]
