"""`import flambeau` is light: what it loads, not how long that took on this machine."""

import json
import os
import subprocess
import sys

import pytest

# Imported by nobody, or only when they are used.
HEAVY = (
    "torch", "numpy", "inspect", "ast", "dis", "dataclasses", "platform", "string", "tempfile", "subprocess", "matplotlib", "tqdm", "scipy", "safetensors", "pytest", "unittest", "multiprocessing",
    "concurrent.futures", "asyncio", "http", "urllib.request", "email", "doctest", "xml", "yaml",
    "flambeau.datasets", "flambeau.utils.data", "flambeau._demo", "flambeau.engine", "flambeau.graph", "flambeau.profiler",
)  # fmt: skip


def python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout


@pytest.mark.slow
def test_nothing_heavy_is_imported():
    """What Python itself loads is not ours to count."""
    modules = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    alone = set(json.loads(python(modules)))
    ours = set(json.loads(python("import flambeau\n" + modules))) - alone
    heavy = sorted(m for m in ours if m in HEAVY or m.split(".")[0] in HEAVY)
    assert not heavy, heavy


@pytest.mark.slow
def test_packages_are_loaded_when_they_are_used():
    """All that `flambeau._LAZY` names, but for what functions of the top level come from."""
    code = "import sys, flambeau as fl\nprint(*sorted(m for m in fl._LAZY if f'flambeau.{m}' in sys.modules))"
    assert python(code).split() == ["autograd"]


@pytest.mark.slow
def test_one_extension_module():
    code = (
        "import json, sys, flambeau; print(json.dumps([m.__file__ for n, m in sys.modules.items()"
    )
    code += " if n.startswith('flambeau') and str(getattr(m, '__file__', '')).endswith('.so')]))"
    assert len(json.loads(python(code))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nn", "optim", "utils", "datasets", "autograd", "engine", "graph", "profiler", "testing"])
def test_submodules_are_reached_by_name(name):
    assert python(f"import flambeau\nprint(flambeau.{name}.__name__)").strip() == f"flambeau.{name}"


@pytest.mark.slow
def test_import_starts_no_threads():
    """The pool starts with the first parallel loop, so that a fork before it is safe."""
    code = "import threading, os, flambeau\n"
    code += "print(threading.active_count(), len(os.listdir('/proc/self/task')))"
    assert python(code).split() == ["1", "1"]


@pytest.mark.slow
def test_one_openmp_runtime():
    """Whichever compiler built it: two runtimes would be two pools, one ours and one oneDNN's."""
    code = "import re, flambeau as fl\nx = fl.rand(2_000, 2_000)\n(x @ x).exp()\n"
    code += "runtimes = {line.split()[-1] for line in open('/proc/self/maps') if re.search(r'lib[gi]?omp[5.-]', line)}\n"
    code += "print(*runtimes, sep='\\n')"
    (runtime,) = python(code).split()
    assert "libgomp" in runtime


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import flambeau", "import flambeau._C", "from flambeau import nn"])
def test_threads_that_wait_spin_for_a_short_time(first):
    """On a busy machine the thread that is waited for may not be running: spinning as long as OpenMP does made training ten times slower there."""
    plain = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = f"import os\n{first}\nprint('GOMP_SPINCOUNT' in os.environ)"
    for given, spins in (({}, "5000"), ({"GOMP_SPINCOUNT": "77"}, "77")):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**plain, **given, "OMP_DISPLAY_ENV": "verbose"}, capture_output=True, text=True, check=True
        )
        assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
        assert done.stdout.strip() == str(bool(given))  # the environment is left as it was found
