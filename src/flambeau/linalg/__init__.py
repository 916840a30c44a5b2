"""`flambeau.linalg`: linear algebra of real and complex matrices of 32 and 64 bits, and batches of them.

The last two axes are a matrix, those before it a batch. Factors, systems, determinants and spectra are ops of the table with
kernels in C++ and gradients by formula; what is here gives them their public signatures, and composes the rest. Complex matrices, and
`eig`, are NumPy's LAPACK's, with gradients by formula too. A matrix that
can not be factored or inverted raises `LinAlgError` with its number in the batch; the functions whose names end in `_ex` return
that as `info` instead.

Example:
    >>> import flambeau as fl
    >>> A = fl.tensor([[4.0, 1.0], [1.0, 3.0]])
    >>> fl.linalg.solve(A, fl.tensor([1.0, 2.0]))
    tensor([0.0909, 0.6364])
    >>> fl.linalg.cholesky_ex(fl.zeros(2, 2)).info  # the first minor is not positive
    tensor(1, dtype=flambeau.int32)
"""

from flambeau import _whole_calls
from flambeau._C import LinAlgError
from flambeau._spelled import spelled
from flambeau.linalg import _lapack
from flambeau.linalg._eig import eig, eigvals
from flambeau.linalg._factors import (
    cholesky,
    cholesky_ex,
    eigh,
    eigvalsh,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    qr,
    svd,
    svdvals,
)
from flambeau.linalg._ldl import ldl_factor, ldl_factor_ex, ldl_solve
from flambeau.linalg._norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from flambeau.linalg._products import (
    cross,
    diagonal,
    matmul,
    matrix_exp,
    matrix_power,
    multi_dot,
    vander,
    vecdot,
)
from flambeau.linalg._systems import (
    det,
    inv,
    inv_ex,
    lstsq,
    lu_solve,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex",
    "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular",
    "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip

# What PyTorch's schemas call arguments of these functions.
_OTHERWISE = {"lstsq": {"b": "B"}, "tensorsolve": {"other": "B"}, "vecdot": {"x2": "y"}}

for _name in __all__:  # pickles name a function by the package, not by its file
    if getattr(globals()[_name], "__module__", "").startswith("flambeau.linalg."):
        globals()[_name] = spelled(**_OTHERWISE.get(_name, {}))(globals()[_name])
        globals()[_name].__module__ = "flambeau.linalg"
del _name

_lapack.find()
_whole_calls.meet_all(__name__)
