"""Windows beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal.windows

import flambeau as fl
from flambeau.signal import windows

OPTIONS = {
    "general_cosine": {"a": [0.5, 0.3, 0.2]}, "general_hamming": {"alpha": 0.7}, "gaussian": {"std": 0.9}, "exponential": {"tau": 0.8},
    "kaiser": {"beta": 5.0},
}  # fmt: skip


@pytest.mark.parametrize("name", windows.__all__)
@pytest.mark.parametrize("M", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("sym", [True, False])
def test_windows_are_scipys(name, M, sym):
    options = OPTIONS.get(name, {})
    got = getattr(windows, name)(M, sym=sym, dtype=fl.float64, **options)
    np.testing.assert_allclose(got.numpy(), getattr(scipy.signal.windows, name)(M, sym=sym, **options), atol=1e-12)


def test_arguments():
    assert windows.hann(4).dtype == fl.float32 and windows.hann(4, requires_grad=True).requires_grad
    assert windows.hann(4, device="meta").is_meta
    got = windows.exponential(6, center=2.0, tau=1.5, sym=False, dtype=fl.float64)
    np.testing.assert_allclose(got.numpy(), scipy.signal.windows.exponential(6, 2.0, 1.5, False))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: windows.hann(-1), ValueError, "hann: M = -1; expected at least 0"),
        (lambda: windows.hann(2.0), TypeError, "hann: M = 2.0; expected an int"),
        (lambda: windows.kaiser(3, dtype=fl.float16), ValueError, "kaiser: dtype = flambeau.float16; expected float32 or float64"),
        (lambda: windows.kaiser(3, beta=-1), ValueError, "beta = -1; expected at least 0"),
        (lambda: windows.gaussian(3, std=0), ValueError, "std = 0; expected more than 0"),
        (lambda: windows.exponential(3, tau=-1), ValueError, "tau = -1; expected more than 0"),
        (lambda: windows.exponential(3, center=1), ValueError, "center = 1 of a symmetric window"),
        (lambda: windows.general_cosine(3, a=[]), ValueError, "a is empty"),
        (lambda: windows.general_cosine(3, a=0.5), TypeError, "a is a float; expected weights"),
        (lambda: windows.hann(3, layout=fl.sparse_coo), ValueError, "layout = flambeau.sparse_coo"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_number_of_points_may_be_a_tensor():
    assert windows.hann(fl.tensor(3)).tolist() == [0, 1, 0]
    for wrong in (fl.tensor(3.0), True, "3"):
        with pytest.raises(TypeError, match="expected an int"):
            windows.hann(wrong)
