"""Comparison with NumPy arrays. All tolerances of the test suite are in TOLERANCES."""

from __future__ import annotations

import numpy as np

import flambeau as fl

# rtol, atol per type of the result.
TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "float32": (2e-5, 2e-5),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
    "complex128": (1e-9, 1e-10),
    "complex64": (2e-5, 2e-5),
}
NUMPY_TYPES = {
    "bool": np.bool_, "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "float16": np.float16, "float32": np.float32, "float64": np.float64,
    "complex64": np.complex64, "complex128": np.complex128,
}  # fmt: skip


def array(x):
    """A tensor's values as a NumPy array; bfloat16 as float32."""
    x = x.detach()
    return (x.float() if x.dtype is fl.bfloat16 else x).numpy()


def assert_near(actual, expected, dtype=None, scale=1.0, what=""):
    """`actual`, a tensor, against `expected`, an array or tensor: shape, NaN, infinities, and values.

    The tolerances are those of `dtype`, or of `actual`; `scale` multiplies them.
    """
    got = array(actual)
    want = array(expected) if isinstance(expected, fl.Tensor) else np.asarray(expected)
    assert tuple(actual.shape) == want.shape, f"{what}: shape {tuple(actual.shape)}, expected {want.shape}"
    rtol, atol = TOLERANCES.get((dtype or actual.dtype).name, (0.0, 0.0))
    wide = np.complex128 if got.dtype.kind == "c" or want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=rtol * scale, atol=atol * scale, equal_nan=True, err_msg=what
    )


def bits(x):
    """The bytes of a tensor's values, row-major: equality of these is equality of bits."""
    x = x.detach().contiguous()
    return (x.float() if x.dtype is fl.bfloat16 else x).numpy().tobytes()
