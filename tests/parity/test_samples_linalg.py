"""Linear algebra, special functions and what else came with them, beside PyTorch on its own samples, wrong calls included."""

from __future__ import annotations

import pytest
from beside import torch
from samples import compare, entries, errors_of, function_of, ours_of, samples_of

import flambeau as fl

OTHERS = (
    "addr", "as_strided_scatter", "cholesky", "cholesky_inverse", "cholesky_solve", "combinations", "corrcoef", "cov", "cumulative_trapezoid",
    "diagflat", "diagonal_scatter", "fill", "float_power", "frexp", "geqrf", "gradient", "histogram", "i0", "igamma", "igammac", "index_reduce",
    "ldexp", "logdet", "lu", "lu_solve", "lu_unpack", "matrix_exp", "mvlgamma", "ormqr", "pinverse", "polygamma", "qr", "select_scatter",
    "slice_scatter", "svd", "trapezoid", "trapz", "triangular_solve", "unravel_index",
)  # fmt: skip
# Not here, and why.
LEFT_OUT = {
    "linalg.ldl_factor": "not there",
    "linalg.ldl_factor_ex": "not there",
    "linalg.ldl_solve": "not there",
}
ENTRIES = [e for e in entries("linalg", "special", *OTHERS) if e[0] not in LEFT_OUT]
# No derivative in PyTorch's CPU or another one: why.
NO_GRADIENT = {
    "cholesky_inverse": "PyTorch writes a gradient of the triangle that is not read, too",
    "cholesky_solve": "PyTorch writes a gradient of the triangle that is not read, too",
    "as_strided_scatter": "PyTorch keeps the gradient of a replaced element where size is ()",
    "linalg.lstsq": "of the residuals there is none in PyTorch; linalg.pinv has that of the solution",
    "linalg.pinv": "compared for one rank in test_pinv_gradient; PyTorch's samples differentiate through the rank",
    "linalg.norm/subgradients_at_zero": "where norms have no derivative the choice differs",
    "lu": "PyTorch's is that of lu_factor; tested there",
}
SIGNS = {"linalg.svd", "svd", "linalg.eigh"}  # vectors are right with either sign


# PyTorch's entries that call its functions in another way.
CALLS = {
    "polygamma": lambda x, n: fl.polygamma(n, x),
    "special.polygamma": lambda x, n: fl.special.polygamma(n, x),
    "linalg.pinv/singular": lambda a, b: fl.linalg.pinv(a @ b.mT),
}


def _vectors_without_signs(lib, case, result):
    name = case.name
    if name in ("linalg.eigh", "linalg.eig"):
        return result[0], lib.abs(result[1])
    if name in ("svd", "linalg.svd"):
        k = result[1].shape[-1]
        return [lib.abs(result[0][..., :k]), result[1], lib.abs(result[2][..., :k, :] if name == "linalg.svd" else result[2][..., :k])]
    if name == "linalg.lstsq":
        return result[0] if isinstance(result, tuple) else result
    if name == "lu_unpack":
        return [r for r in result if r.numel()]
    return result


# PyTorch's own error.
THEIR_ERROR = {"special.airy_ai": 1e4, "special.bessel_j0": 1e4, "special.bessel_j1": 1e4, "special.bessel_y0": 1e4, "special.bessel_y1": 1e4, "cov": 1e5}


def _loose(name, dtype):
    if name in THEIR_ERROR:
        return THEIR_ERROR[name]
    hard = name.split(".")[-1] in ("lstsq", "pinv", "pinverse", "cond", "inv", "inv_ex", "solve", "svd", "eigh", "matrix_power", "tensorinv", "logdet", "qr", "lu_solve")
    return (300 if dtype is torch.float32 else 1e4) if hard else (30 if dtype is torch.float32 else 100)


IDS = [f"{n}/{v}" if v else n for n, v in ENTRIES]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name, variant", ENTRIES, ids=IDS)
def test_sample(name, variant, dtype):
    where = f"{name}/{variant}" if variant else name
    gradients = dtype is torch.float64 and name not in NO_GRADIENT and where not in NO_GRADIENT
    count = 0
    for case in samples_of(name, variant, dtype):
        count += 1
        call = CALLS.get(where, CALLS.get(name))
        compare(case, _vectors_without_signs, gradients and case.op.supports_autograd, _loose(name, dtype), call)
    if count == 0:
        pytest.skip("PyTorch has no samples of that type")


# Complex matrices: the same, for what is linear algebra.
ELSEWHERE = {"addr", "corrcoef", "cov", "gradient", "ldexp"}
# The weights meet the imaginary part of L's diagonal, which is 0. Ours is Hermitian all the same, as A is; PyTorch's is not.
NOT_HERMITIAN = {"cholesky", "linalg.cholesky", "linalg.cholesky_ex"}
COMPLEX = [e for e in ENTRIES if e[0].startswith("linalg.") or e[0] in OTHERS and e[0] not in ELSEWHERE]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name, variant", COMPLEX, ids=[f"{n}/{v}" if v else n for n, v in COMPLEX])
def test_complex_sample(name, variant, dtype):
    where = f"{name}/{variant}" if variant else name
    gradients = dtype is torch.complex128 and not {name, where} & (NO_GRADIENT.keys() | NOT_HERMITIAN)
    count = 0
    for case in samples_of(name, variant, dtype):
        count += 1
        call = CALLS.get(where, CALLS.get(name))
        scale = _loose(name, torch.float32 if dtype is torch.complex64 else torch.float64)
        compare(case, _vectors_without_signs, gradients and case.op.supports_autograd, scale, call)
    if count == 0:
        pytest.skip("PyTorch has no samples of that type")


@pytest.mark.parametrize("name, variant", ENTRIES, ids=IDS)
def test_wrong_call_is_refused(name, variant):
    for case in errors_of(name, variant):
        if any(isinstance(a, torch.Tensor) and (a.is_complex() or a.device.type != "cpu") for a in [*case.args, *case.kwargs.values()]):
            continue
        with pytest.raises(Exception):
            function_of(fl, name)(*ours_of(case.args, False), **{k: ours_of(v, False) for k, v in case.kwargs.items()})
            pytest.fail(f"{case} was accepted")
