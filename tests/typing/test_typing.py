"""What type checkers know of the library: programs that they accept, and mistakes that they find.

Programs of `accepted` are as users write them, with `assert_type` where the type matters; they are run, too. A line of `refused`
that is marked `# error: TEXT` gets an error with that text, and no other line gets one.
"""

import importlib.util
import json
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

import flambeau as fl

HERE = pathlib.Path(__file__).parent
SOURCE = pathlib.Path(fl.__file__).parents[1]
ACCEPTED = sorted((HERE / "accepted").glob("*.py"))
REFUSED = sorted((HERE / "refused").glob("*.py"))
MARK = re.compile(r"# error: (.*)$")
ERROR = re.compile(r"^(\S+?):(\d+): error: (.*)$", re.MULTILINE)


def test_there_are_as_many_as_promised():
    assert len(ACCEPTED) >= 60 and len(REFUSED) >= 30


def complaints(folder):
    """file -> {line: texts} of one run of mypy over all programs, as a user's project would have it."""
    names = [f"{path.parent.name}_{path.name}" for path in (*ACCEPTED, *REFUSED)]
    for path, name in zip((*ACCEPTED, *REFUSED), names):
        (folder / name).write_text(path.read_text())
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\nmypy_path = {SOURCE}\ncache_dir = {HERE.parents[1] / '.mypy_cache/programs'}\n")
    command = [sys.executable, "-m", "mypy", "--hide-error-context", "--no-error-summary", "--no-pretty", *names]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert run.returncode in (0, 1), run.stderr + run.stdout
    found = {name: {} for name in names}
    for name, line, text in ERROR.findall(run.stdout):
        found[name].setdefault(int(line), []).append(text)
    return found


@pytest.mark.slow
def test_mypy_accepts_and_refuses(tmp_path):
    """One test, since each process that runs tests would run mypy anew for its own."""
    found = complaints(tmp_path)
    wrong = {path.name: said for path in ACCEPTED if (said := found[f"accepted_{path.name}"])}
    for path in REFUSED:
        said = found[f"refused_{path.name}"]
        expected = {n: mark[1] for n, line in enumerate(path.read_text().splitlines(), 1) if (mark := MARK.search(line))}
        assert expected, f"{path.name}: no line is marked"
        as_marked = said.keys() == expected.keys() and all(any(text in s for s in said[n]) for n, text in expected.items())
        if not as_marked:
            wrong[path.name] = {"said": said, "marked": expected}
    assert wrong == {}


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda p: p.stem)
def test_runs(path, tmp_path, monkeypatch):
    """What is accepted is true: `assert_type` does nothing then, but the calls are made."""
    monkeypatch.chdir(tmp_path)
    before = fl.get_rng_state()
    runpy.run_path(str(path), run_name="__main__")
    fl.set_rng_state(before)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="no pyright; `make types` installs it")
def test_pyright_accepts_and_refuses(tmp_path):
    """The same programs, without the texts, which are mypy's own."""
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE)], "typeCheckingMode": "standard"}))
    for path in (*ACCEPTED, *REFUSED):
        (tmp_path / f"{path.parent.name}_{path.name}").write_text(path.read_text())
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == len(ACCEPTED) + len(REFUSED)
    errors = [d for d in report["generalDiagnostics"] if d["severity"] == "error"]
    places = {(pathlib.Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors}
    marked = {
        (f"refused_{path.name}", n) for path in REFUSED for n, line in enumerate(path.read_text().splitlines(), 1) if MARK.search(line)
    }
    assert places == marked, sorted(places ^ marked)
