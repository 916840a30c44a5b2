"""Whether two libraries computed the same: the arrays that two checks wrote."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# The largest relative error. Gradients and predictions: of the norm of each array.
TOLERANCES = {
    "float32": {"prediction": 1e-3, "loss": 1e-3, "gradient": 1e-2, "buffer": 1e-2},
    "bfloat16": {"prediction": 5e-2, "loss": 2e-2, "gradient": 0.2, "buffer": 5e-2},
}
# An array whose norm is below this part of the largest of its kind is noise, such as the gradient
# of a bias that a normalization takes away again; it may be off by as much.
NOISE = 1e-3


def errors(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest relative error of each kind of array.

    Raises:
        ValueError: an array is missing on one side or has another shape or dtype, or the weights at
            the start are not the same.
    """
    if set(ours) != set(theirs):
        raise ValueError(f"only one library has {sorted(set(ours) ^ set(theirs))}")
    scales: dict[str, float] = {}
    for key in theirs:
        mine, other = ours[key], theirs[key]
        if (mine.shape, mine.dtype) != (other.shape, other.dtype):
            raise ValueError(
                f"{key} is {mine.dtype} {mine.shape}; expected {other.dtype} {other.shape}"
            )
        kind = key.partition("/")[0]
        scales[kind] = max(scales.get(kind, 0.0), _norm(other))
    found: dict[str, float] = {}
    for key in theirs:
        kind = key.partition("/")[0]
        if kind == "weight":
            if not np.array_equal(ours[key], theirs[key]):
                raise ValueError(f"{key} is not what was loaded")
            continue
        if kind == "loss":
            error = float(np.max(np.abs(ours[key] - theirs[key]) / np.abs(theirs[key])))
        else:
            scale = max(_norm(theirs[key]), NOISE * scales[kind])
            difference = np.subtract(ours[key], theirs[key], dtype=np.float64)
            error = _norm(difference) / scale if scale > 0 else _norm(difference)
        found[kind] = float(np.fmax(found.get(kind, 0.0), error)) if error == error else np.inf
    return found


def _norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.astype(np.float64).ravel()))
