"""Files that are almost right load or are refused, and nothing else happens; `mutations.py` is the long run."""

import io
import re
import subprocess
import sys

import mutations
import pytest

import flambeau as fl


@pytest.mark.slow
def test_the_files_that_are_changed_are_right(tmp_path):
    """What is changed must load: it would prove nothing otherwise."""
    fl.save({"x": fl.ones(2)}, tmp_path / "a.safetensors")
    fl.save({"y": fl.ones(2)}, tmp_path / "b.safetensors")
    for name, content in mutations.seeds().items():
        path = tmp_path / {"index": "x.index.json", "graph": "x.graph"}.get(name, "x.pt")
        path.write_bytes(content)
        for mmap in (True, False):
            if name == "graph":
                fl.graph.Graph.load(path)
            else:
                mutations.look_at(fl.load(path, mmap=mmap))


@pytest.mark.slow
def test_changes_get_through():
    """Most of them must do more than damage a checksum: some files load, and errors are of many kinds."""
    made, errors, good = mutations.seeds(), set(), 0
    for number in range(600):
        name, content = mutations.mutation(1, number, made)
        if name in ("index", "graph"):
            continue
        try:
            fl.load(io.BytesIO(content))
            good += 1
        except mutations.EXPECTED as error:
            errors.add(re.sub(r"[\d'\"].*", "", str(error).split(": ", 2)[-1]))
    assert good > 50 and len(errors) > 40


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 500, 1000, 1500])
def test_random_changes(first):
    assert mutations.run(7, first, 500) == []


@pytest.mark.parametrize("error", [RecursionError, MemoryError, KeyError, RuntimeError])
def test_another_error_would_be_found(error, tmp_path, monkeypatch):
    def fail(*args, **how):
        raise error("odd")

    monkeypatch.setattr(fl.serialization, "get_unsafe_globals_in_checkpoint", fail)
    assert mutations.try_one(b"", tmp_path / "x", True) == f"{error.__name__}: " + ("'odd'" if error is KeyError else "odd")


def test_much_memory_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fl.serialization, "get_unsafe_globals_in_checkpoint", lambda *args: fl.empty(1 << 22))
    assert "of tensors for a file of 3" in mutations.try_one(b"abc", tmp_path / "x", True)


@pytest.mark.slow
def test_the_long_run_in_short():
    done = subprocess.run([sys.executable, mutations.__file__, "--count", "40"], capture_output=True, text=True)
    assert done.returncode == 0 and "40 mutations of" in done.stdout and ": 0 faults" in done.stdout
