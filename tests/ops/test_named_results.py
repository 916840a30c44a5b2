"""Results of several named parts: how they print, what they are, pickles and files of them."""

import copy
import io
import pickle
import subprocess
import sys

import pytest

import flambeau as fl

A = [[4.0, 1.0], [1.0, 3.0]]
CALLS = {
    "aminmax": lambda x: x.aminmax(),
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "frexp": lambda x: fl.frexp(x),
    "geqrf": lambda x: fl.geqrf(x),
    "histogram": lambda x: fl.histogram(x, 2),
    "histogramdd": lambda x: fl.histogramdd(x, [2, 2]),
    "kthvalue": lambda x: x.kthvalue(1),
    "linalg_cholesky_ex": lambda x: fl.linalg.cholesky_ex(x),
    "linalg_eig": lambda x: fl.linalg.eig(x),
    "linalg_eigh": lambda x: fl.linalg.eigh(x),
    "linalg_inv_ex": lambda x: fl.linalg.inv_ex(x),
    "linalg_ldl_factor": lambda x: fl.linalg.ldl_factor(x),
    "linalg_ldl_factor_ex": lambda x: fl.linalg.ldl_factor_ex(x),
    "linalg_lstsq": lambda x: fl.linalg.lstsq(x, x),
    "linalg_lu": lambda x: fl.linalg.lu(x),
    "linalg_lu_factor": lambda x: fl.linalg.lu_factor(x),
    "linalg_lu_factor_ex": lambda x: fl.linalg.lu_factor_ex(x),
    "linalg_qr": lambda x: fl.linalg.qr(x),
    "linalg_slogdet": lambda x: fl.linalg.slogdet(x),
    "linalg_solve_ex": lambda x: fl.linalg.solve_ex(x, x),
    "linalg_svd": lambda x: fl.linalg.svd(x),
    "lu_unpack": lambda x: fl.lu_unpack(*fl.linalg.lu_factor(x)),
    "max": lambda x: x.max(1),
    "median": lambda x: x.median(1),
    "min": lambda x: x.min(1),
    "mode": lambda x: x.mode(),
    "nanmedian": lambda x: x.nanmedian(1),
    "qr": lambda x: x.qr(),
    "slogdet": lambda x: x.slogdet(),
    "sort": lambda x: x.sort(),
    "svd": lambda x: x.svd(),
    "topk": lambda x: x.topk(1),
    "triangular_solve": lambda x: x.triangular_solve(x),
}


def fields(result):
    return getattr(result, "_fields", None) or type(result).__match_args__


@pytest.mark.parametrize("name", list(CALLS))
def test_a_result_says_its_name_and_its_parts(name):
    made = CALLS[name](fl.tensor(A))
    parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields(made), made))
    assert repr(made) == f"flambeau.return_types.{name}(\n{parts})"
    assert isinstance(made, tuple) and all(getattr(made, field) is value for field, value in zip(fields(made), made))
    assert type(made).n_fields == type(made).n_sequence_fields == len(made)


@pytest.mark.parametrize("name", list(CALLS))
def test_a_type_is_found_by_its_name(name):
    made = CALLS[name](fl.tensor(A))
    assert getattr(fl.return_types, name) is type(made)
    assert type(made)(tuple(made))[0] is made[0]
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert type(again) is type(made) and repr(again) == repr(made)


def test_all_of_them_are_known():
    assert sorted(CALLS) == sorted(kind.__name__ for kind in fl.return_types.all_return_types)


@pytest.mark.parametrize("format", [None, "pt"])
@pytest.mark.parametrize("name", ["max", "frexp"])
def test_files_keep_them_where_they_are_allowed(name, format):
    made, file = CALLS[name](fl.tensor(A)), io.BytesIO()
    fl.save({"x": made}, file, format=format)
    with fl.serialization.safe_globals([type(made)]):
        got = fl.load(io.BytesIO(file.getvalue()))["x"]
    assert type(got) is type(made) and repr(got) == repr(made)


@pytest.mark.slow
@pytest.mark.eager("a program in a process of its own")
def test_they_say_torch_where_that_is_asked_for():
    code = "import flambeau.compat.torch, torch, pickle\nr = torch.frexp(torch.tensor(6.0))\nprint(r)\nprint(type(pickle.loads(pickle.dumps(torch.ones(1, 1).max(1)))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torch.return_types.frexp(\nmantissa=tensor(0.7500),\nexponent=tensor(3, dtype=torch.int32))\n")
    assert "return_types.max" in done.stdout
