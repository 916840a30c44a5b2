"""What is in the wheel, and how big it is. Needs dist/*.whl (`make wheel`); the size is in test_size.py, which needs none."""

import pathlib
import subprocess
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "dist").glob("flambeau-*.whl"), key=lambda p: p.stat().st_mtime)
MiB = 2**20

pytestmark = pytest.mark.skipif(not WHEELS, reason="no dist/flambeau-*.whl; run `make wheel`")


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(WHEELS[-1]) as file:
        yield file


def test_download_size():
    assert WHEELS[-1].stat().st_size <= 25 * MiB


def test_every_python_file_is_in_it(wheel):
    source = ROOT / "src"
    expected = {p.relative_to(source).as_posix() for p in (source / "flambeau").rglob("*.py")}
    assert expected == {n for n in wheel.namelist() if n.endswith(".py")}


def test_contents(wheel):
    names = wheel.namelist()
    assert {"flambeau/py.typed", "flambeau/_C.pyi", "flambeau/_table.pyi", "flambeau/__init__.pyi", "flambeau/datasets/digits.bin"} <= set(names)
    assert len([n for n in names if n.startswith("flambeau/_C.") and n.endswith(".so")]) == 1
    assert len([n for n in names if "libdnnl" in n]) <= 1
    top = {n.split("/")[0] for n in names}
    repaired = {"flambeau.libs"} if "manylinux" in WHEELS[-1].name else set()  # by auditwheel: the OpenMP runtime
    assert {t for t in top if not t.endswith(".dist-info")} == {"flambeau"} | repaired
    libraries = [n for n in names if n.startswith("flambeau.libs/") and not n.endswith("/")]
    assert all("/libgomp-" in n for n in libraries) and len(libraries) == len(repaired)
    assert any(n.endswith("/LICENSE") for n in names)
    assert not [n for n in names if n.endswith((".a", ".h", ".cpp", ".pyc", ".in"))]


@pytest.mark.slow
def test_run_path(wheel, tmp_path):
    """The bundled oneDNN is found beside the module, and nowhere of the machine that built it."""
    names = wheel.namelist()
    if not any("libdnnl" in n for n in names):
        pytest.skip("a wheel without oneDNN")
    module = next(n for n in names if n.startswith("flambeau/_C.") and n.endswith(".so"))
    extracted = wheel.extract(module, tmp_path)
    try:
        dump = subprocess.run(
            ["readelf", "-d", extracted], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("no readelf")
    paths = [line for line in dump.stdout.splitlines() if "RUNPATH" in line or "RPATH" in line]
    assert len(paths) == 1
    assert set(paths[0].partition("[")[2].rstrip("]").split(":")) <= {"$ORIGIN", "$ORIGIN/../flambeau.libs"}
    assert "libdnnl.so.3" in dump.stdout
