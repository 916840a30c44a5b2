"""Whether two libraries computed the same: the arrays that their checks wrote."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Arrays = Mapping[str, np.ndarray]

# The relative errors that are fine; gradients and predictions: of the norm of each array.
TOLERANCES = {
    "float32": {
        "prediction": 1e-3,
        "loss": 1e-3,
        "gradient": 1e-2,
        "update": 1e-2,
        "buffer": 1e-2,
    },
    "bfloat16": {
        "prediction": 5e-2,
        "loss": 2e-2,
        "gradient": 0.2,
        "update": 0.2,
        "buffer": 5e-2,
    },
}
# Larger ones are fine too where the other library is as far off: rounding alone turns a ReLU or the
# choice of a maximum over now and then, and normalization over few samples makes that grow.
SLACK = 2.0
# An array whose norm is below this part of the largest of its kind is noise, such as the gradient
# of a bias that a normalization takes away again; it may be off by as much.
NOISE = 1e-3


def same_form(ours: Arrays, theirs: Arrays) -> None:
    """Names, shapes and dtypes of all arrays, and the values of the weights at the start.

    Raises:
        ValueError: they differ.
    """
    if set(ours) != set(theirs):
        raise ValueError(f"only one library has {sorted(set(ours) ^ set(theirs))}")
    for key in theirs:
        mine, other = ours[key], theirs[key]
        if (mine.shape, mine.dtype) != (other.shape, other.dtype):
            raise ValueError(
                f"{key} is {mine.dtype} {mine.shape}; expected {other.dtype} {other.shape}"
            )
        if key.startswith("weight/") and not np.array_equal(mine, other):
            raise ValueError(f"{key} is not what was loaded")


def errors(arrays: Arrays, truth: Arrays) -> dict[str, float]:
    """The largest relative error of each kind of array; the weights at the start do not count."""
    scales: dict[str, float] = {}
    for key in truth:
        kind = key.partition("/")[0]
        scales[kind] = max(scales.get(kind, 0.0), _norm(truth[key]))
    found: dict[str, float] = {}
    for key in truth:
        kind = key.partition("/")[0]
        if kind == "weight":
            continue
        difference = np.subtract(arrays[key], truth[key], dtype=np.float64)
        if kind == "loss":
            error = float(np.max(np.abs(difference) / np.abs(truth[key])))
        else:
            error = _norm(difference) / (max(_norm(truth[key]), NOISE * scales[kind]) or 1.0)
        found[kind] = max(found.get(kind, 0.0), error if np.isfinite(error) else np.inf)
    return found


def agrees(kind: str, ours: float, theirs: float, dtype: str) -> bool:
    """True if our error is within the tolerance, or not far above theirs."""
    return ours <= max(TOLERANCES[dtype][kind], SLACK * theirs)


def _norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.astype(np.float64).ravel()))
