"""Loading and saving a state dict of 500 MB, beside PyTorch.

    python benchmarks/files.py --torch PYTHON
    python benchmarks/files.py --torch PYTHON --rounds 5 --markdown benchmarks/RESULTS-files.md

Both libraries read the same file, which PyTorch wrote where it is there, and then write one of their own; the files are in the page
cache. In a round each library has a process of its own, in turn, that does each thing several times; a round's value is their median.
"Loaded and read" adds up all elements after loading, since what is mapped is read only then. All of it runs on one thread, as loading
does in both. `save` is timed until the file is on disk; ours has another name until then, beside the old file, and syncs its folder.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

REPEATS = 5
# name -> (what is done, target of the ratio)
CASES = {
    "mapped": ("`load(mmap=True)`", 1.0),
    "mapped, read": ("`load(mmap=True)`, loaded and read", 1.1),
    "read": ("`load(mmap=False)`", 1.0),
    "read, read": ("`load(mmap=False)`, loaded and read", 1.1),
    "unchecked": ("`load(mmap=False)` of a file without checksums", 1.0),
    "small": ("`load(mmap=False)`, 4,000 tensors of 100 elements", 1.0),
    "small, mapped": ("`load(mmap=True)`, 4,000 tensors of 100 elements", 1.0),
    "save": ("`save`, PyTorch's format, on disk", 1.2),
}


def state(lib: Any, megabytes: int) -> dict[str, Any]:
    """A transformer's tensors: matrices of 4 to 16 MB, and a bias and norms for each."""
    result, left, k = {}, megabytes * 1_000_000, 0
    while left > 0:
        rows = (1024, 4096, 1024)[k % 3]
        result[f"layers.{k}.weight"] = lib.rand(rows, 1024)
        result[f"layers.{k}.bias"] = lib.rand(rows)
        result[f"layers.{k}.norm.weight"] = lib.ones(1024)
        left -= 4 * (rows * 1024 + rows + 1024)
        k += 1
    return result


def on_disk(path: pathlib.Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def child(name: str, folder: pathlib.Path, make: bool) -> dict[str, Any]:
    """What one process measures: milliseconds by case."""
    if name == "torch":
        import torch as lib

        def load(path: pathlib.Path, mmap: bool) -> Any:
            return lib.load(path, mmap=mmap, weights_only=True)

        def save(obj: Any, path: pathlib.Path) -> None:
            lib.save(obj, path)
            on_disk(path)
    else:
        import flambeau as lib

        def load(path: pathlib.Path, mmap: bool) -> Any:
            return lib.load(path, mmap=mmap)

        def save(obj: Any, path: pathlib.Path) -> None:
            lib.save(obj, path, format="pt")  # is on disk when it returns

    lib.set_num_threads(1)
    big, small, bare, own = (folder / f"{part}.pt" for part in ("big", "small", "bare", name))
    if make:
        whole = state(lib, 500)
        save(whole, big)
        save({f"t{k}": lib.rand(10, 10) for k in range(4000)}, small)
        if name == "torch":
            lib.serialization.set_crc32_options(False)
        save(whole, bare)
        return {}

    def read_all(path: pathlib.Path, mmap: bool) -> float:
        return sum(float(x.sum()) for x in load(path, mmap).values())

    obj = load(big, False)
    work: dict[str, Callable[[], Any]] = {
        "mapped": lambda: load(big, True),
        "mapped, read": lambda: read_all(big, True),
        "read": lambda: load(big, False),
        "read, read": lambda: read_all(big, False),
        "unchecked": lambda: load(bare, False),
        "small": lambda: load(small, False),
        "small, mapped": lambda: load(small, True),
        "save": lambda: save(obj, own),
    }
    result: dict[str, Any] = {"version": lib.__version__}
    for case, do in work.items():
        times = []
        for k in range(REPEATS + 1):
            begin = time.perf_counter()
            kept = do()
            if k:  # the first one warms up
                times.append(1e3 * (time.perf_counter() - begin))
            del kept
        result[case] = statistics.median(times)
    return result


def process(python: str, library: str, folder: str, make: bool = False) -> dict[str, Any]:
    command = [python, __file__, "--child", library, folder, *(["--make"] if make else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{library} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    p.add_argument("--rounds", type=int, default=5, help="processes per library (%(default)s)")
    p.add_argument("--folder", help="where the files go (a temporary folder)")
    p.add_argument("--markdown", metavar="FILE", help="write the table there")
    p.add_argument("--child", nargs=2)
    p.add_argument("--make", action="store_true")
    args = p.parse_args(argv)
    if args.child:
        print(json.dumps(child(args.child[0], pathlib.Path(args.child[1]), args.make)))
        return 0
    import harness

    libraries = [("flambeau", sys.executable), *([("torch", args.torch)] if args.torch else [])]
    values: dict[str, dict[str, list[float]]] = {name: {case: [] for case in CASES} for name, _ in libraries}
    versions = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        process(libraries[-1][1], libraries[-1][0], folder, make=True)
        for k in range(args.rounds):
            print(f"round {k + 1} of {args.rounds}", file=sys.stderr, flush=True)
            for name, python in libraries:
                found = process(python, name, folder)
                versions[name] = found["version"]
                for case in CASES:
                    values[name][case].append(found[case])
        size = sum(path.stat().st_size for path in pathlib.Path(folder).glob("big.pt"))
    lines = ["| | flambeau | PyTorch | ratio | target |", "| --- | --- | --- | --- | --- |"]
    for case, (what, target) in CASES.items():
        ours, theirs = values["flambeau"][case], values.get("torch", {}).get(case, [])
        cells = [f"{statistics.median(t):.1f} ms ({min(t):.1f}..{max(t):.1f})" if t else "-" for t in (ours, theirs)]
        ratio = statistics.median(ours) / statistics.median(theirs) if theirs else None
        met = "" if ratio is None else ", met" if ratio <= target else ", missed"
        lines.append(f"| {what} | {cells[0]} | {cells[1]} | {'-' if ratio is None else f'{ratio:.2f}'} | <= {target}{met} |")
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = (
        f"{harness.machine()}; {named}; a file of {size / 1e6:.0f} MB in the page cache, one thread, {args.rounds} rounds of {REPEATS}, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after\n\n" + "\n".join(lines) + "\n"
    )
    print(text)
    if args.markdown:
        title = "# Files: loading and saving a state dict of 500 MB\n\n`python benchmarks/files.py --torch PYTHON`\n\n"
        pathlib.Path(args.markdown).write_text(title + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
