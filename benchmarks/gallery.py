"""Trains every example of the gallery in flambeau and in PyTorch, and draws their pictures.

    python benchmarks/gallery.py --torch PYTHON                        # prints the table
    python benchmarks/gallery.py --torch PYTHON --page docs/gallery.md # and puts it into the page
    python benchmarks/gallery.py --only vae,unet --pictures docs/pictures

An example runs as it is; for PyTorch its line `import flambeau as fl` is changed. Each round gives each library a process of its own, in
turn. Timed is `train` with the example's own settings but for the number of steps, its data made inside, after a few steps of another
model: the processor's time, on one thread, since that depends less on what else the machine does. The memory is the largest resident size
of the process until then. Nothing is drawn in these processes. The digits are flambeau's; in PyTorch's processes, which must not pay for
a second library, a few lines of NumPy read them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import types
import zlib
from collections.abc import Sequence
from typing import Any

import harness
from models.process import memory_mb

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
IMPORT = "import flambeau as fl\n"
LIMIT_S = 900
WARM_UP_STEPS = 5
BEGIN, END = "<!-- table: from benchmarks/gallery.py -->", "<!-- end of the table -->"


def names() -> list[str]:
    """The examples that draw a picture, by name."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if "--picture" in path.read_text())


def load(name: str, library: str) -> Any:
    """The example as a module that uses this library."""
    source = (EXAMPLES / f"{name}.py").read_text()
    if source.count(IMPORT) != 1:
        raise ValueError(f"{name}.py: found {source.count(IMPORT)} lines {IMPORT.strip()!r}; expected one")
    module = types.ModuleType(name)
    code = compile(source.replace(IMPORT, f"import {library} as fl\n"), f"{name}.py", "exec")
    exec(code, module.__dict__)
    return module


def lend_digits(lib: Any) -> None:
    """Puts a `flambeau.datasets` into this process that has the digits, as tensors of `lib`, and nothing else."""
    import numpy as np

    packed = (ROOT / "src" / "flambeau" / "datasets" / "digits.bin").read_bytes()
    records = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(-1, 65)

    class Digits:
        def __init__(self, train: bool = True) -> None:
            chosen = records[(np.arange(len(records)) % 3 != 2) == train]
            self.targets = lib.from_numpy(chosen[:, 0].astype(np.int64))
            self.data = lib.from_numpy(chosen[:, 1:].reshape(-1, 8, 8).copy())

    package, datasets = types.ModuleType("flambeau"), types.ModuleType("flambeau.datasets")
    datasets.Digits = Digits  # type: ignore[attr-defined]
    package.datasets = datasets  # type: ignore[attr-defined]
    sys.modules |= {"flambeau": package, "flambeau.datasets": datasets}


def child(name: str, library: str, threads: int, steps: int) -> dict[str, Any]:
    """One training in this process."""
    lib = __import__(library)
    lib.set_num_threads(threads)
    if library == "torch":
        lend_digits(lib)
    example = load(name, library)
    args = example.options().parse_args([])
    args.steps = min(args.steps, steps)
    lib.manual_seed(args.seed)
    with contextlib.redirect_stdout(sys.stderr):
        warm_up = argparse.Namespace(**vars(args) | {"steps": WARM_UP_STEPS})
        example.train(example.make_model(warm_up), warm_up)
        lib.manual_seed(args.seed)
        model = example.make_model(args)
        begun = time.process_time()
        losses = example.train(model, args)
        seconds = time.process_time() - begun
    return {
        "seconds": seconds,
        "memory_mb": memory_mb("VmHWM"),
        "steps": len(losses),
        "first": losses[0],
        "last": losses[-1],
        "version": str(lib.__version__),
    }


def measure(name: str, library: harness.Library, threads: int, steps: int) -> dict[str, Any]:
    """One training in a process of its own."""
    count = {variable: str(threads) for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [library.python, __file__, "--child", library.module, "--only", name, "--threads", str(threads), "--steps", str(steps)],
        capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | count,
    )  # fmt: skip
    if done.returncode != 0:
        raise harness.ChildError(f"{library.title} failed on {name}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


Rounds = dict[str, list[dict[str, Any]]]  # by the library's module


def table(results: dict[str, Rounds], about: str) -> str:
    """Markdown: medians of the rounds."""
    lines = [
        "| example | steps | processor time, flambeau | PyTorch | ratio | memory, flambeau | PyTorch | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, rounds in results.items():
        cells = [f"[{name}](#{name})", str(rounds["flambeau"][0]["steps"])]
        for key, unit, digits in (("seconds", "s", 2), ("memory_mb", "MB", 0)):
            values = [statistics.median(r[key] for r in rounds[m]) for m in ("flambeau", "torch") if rounds.get(m)]
            cells += [f"{value:.{digits}f} {unit}" for value in values] + [""] * (2 - len(values))
            cells.append(f"{values[0] / values[1]:.2f}" if len(values) == 2 else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", about])


def replaced(page: str, text: str) -> str:
    """The page with this table between its marks."""
    found = re.subn(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: f"{BEGIN}\n\n{text}\n\n{END}", page, flags=re.DOTALL)
    if found[1] != 1:
        raise ValueError(f"the page has {found[1]} places {BEGIN} ... {END}; expected one")
    return found[0]


def write(path: pathlib.Path, text: str) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


def draw(name: str, folder: pathlib.Path) -> None:
    """Runs the example as a user does and keeps its picture, with few colours, so that it is small."""
    new = folder / f".{name}.png"
    subprocess.run([sys.executable, EXAMPLES / f"{name}.py", "--picture", new], check=True, timeout=LIMIT_S)
    from PIL import Image  # matplotlib needs it, so it is there

    with Image.open(new) as picture:
        small = picture.convert("RGB").quantize(255)
    small.save(new, optimize=True)
    new.replace(folder / f"{name}.png")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES", help="with commas between; all without it")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch; this one without it")
    parser.add_argument("--rounds", type=int, default=1, help="processes per library and example (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="for both (%(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="at most so many of each example (%(default)s)")
    parser.add_argument("--page", metavar="FILE", type=pathlib.Path, help="replace the table in it")
    parser.add_argument("--keep", metavar="FILE", type=pathlib.Path, help="JSON; what other runs put there is in the table, too")
    parser.add_argument("--pictures", metavar="FOLDER", type=pathlib.Path, help="draw there, and measure nothing")
    parser.add_argument("--child", metavar="LIBRARY", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    chosen = args.only.split(",") if args.only else names()
    if unknown := sorted(set(chosen) - set(names())):
        parser.error(f"--only: no example {', '.join(unknown)}; there are {', '.join(names())}")
    if min(args.rounds, args.threads, args.steps) < 1:
        parser.error("--rounds, --threads and --steps must be at least 1")
    if args.child:
        print(json.dumps(child(chosen[0], args.child, args.threads, args.steps)))
        return 0
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            print(f"== {name}", flush=True)
            draw(name, args.pictures)
        return 0

    libraries = [harness.Library("flambeau", "flambeau", sys.executable)]
    theirs = harness.Library("torch", "PyTorch", args.torch or sys.executable)
    if theirs.importable():
        libraries.append(theirs)
    elif args.torch:
        parser.error(f"--torch: {args.torch} does not find torch")
    load_before = os.getloadavg()[0]
    results: dict[str, Rounds] = {}
    for k in range(args.rounds):
        for name in chosen:
            for library in libraries:
                print(f"round {k + 1} of {args.rounds}: {name}, {library.title}", file=sys.stderr, flush=True)
                try:
                    result = measure(name, library, args.threads, args.steps)
                except harness.ChildError as error:
                    print(error, file=sys.stderr)
                    return 1
                results.setdefault(name, {}).setdefault(library.module, []).append(result)
    if args.keep:
        earlier = json.loads(args.keep.read_text()) if args.keep.exists() else {}
        results = dict(sorted((earlier | results).items()))
        write(args.keep, json.dumps(results, indent=1) + "\n")
    versions = ", ".join(f"{lib.title} {results[chosen[0]][lib.module][0]['version']}" for lib in libraries)
    about = (
        f"{harness.machine()}; {datetime.date.today()}; {versions}; threads: {args.threads}, rounds: {args.rounds}, "
        f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after."
    )
    text = table(results, about)
    print(text)
    if args.page:
        write(args.page, replaced(args.page.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
