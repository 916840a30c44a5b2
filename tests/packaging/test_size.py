"""How big an installation is: of the files that a wheel would hold, whether there is one or not."""

import importlib.metadata
import pathlib

import pytest

import flambeau

MiB = 2**20
PARTS = {".py", ".pyi", ".typed", ".bin", ".so", ".3"}  # what packages bring, and the module with oneDNN beside it


def size_of(paths):
    return sum(p.stat().st_size for p in paths if p.suffix in PARTS)


@pytest.mark.slow
def test_installed_size_with_dependencies():
    package, module = pathlib.Path(flambeau.__file__).parent, pathlib.Path(flambeau._C.__file__).parent
    own = size_of({p.resolve() for folder in (package, module) for p in folder.rglob("*")})
    numpy = sum(f.size or 0 for f in importlib.metadata.files("numpy") or [] if f.suffix != ".pyc")
    assert own > 15 * MiB and numpy > 15 * MiB, "the test looks in the wrong place"
    assert own + numpy <= 120 * MiB, f"flambeau {own / MiB:.1f} MiB, numpy {numpy / MiB:.1f} MiB"
