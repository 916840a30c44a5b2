"""The error of every vectorised function in units in the last place, and PyTorch's beside it.

    python benchmarks/accuracy.py                                        # this processor's instruction sets
    python benchmarks/accuracy.py --torch PYTHON --markdown benchmarks/RESULTS-accuracy.md

The functions, their samples and references are those of tests/support/accuracy.py, which says how errors are
counted; a test holds the same bound with fewer samples. Every instruction set is a process of its own, with
FLAMBEAU_ISA set. Needs NumPy and mpmath.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from support import accuracy  # noqa: E402

BOUND = 4.0


def cell(errors: Any) -> str:
    """The largest and the mean error."""
    worst, mean = float(errors.max()), float(np.mean(np.minimum(errors, 1e18)))

    def short(v: float) -> str:
        return f"{v:.2f}" if v < 1000 else f"{v:.0e}".replace("e+0", "e").replace("e+", "e")

    return "not equal" if np.isinf(worst) else f"{short(worst)} ({short(mean)})"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 1 where an error of ours is above the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--size", type=int, default=20_000, help="samples over all exponents, and as many more (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(accuracy.BY_NAME), metavar="FUNCTION")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    parser.add_argument("--worst", action="store_true", help="print the arguments of the largest errors")
    args = parser.parse_args(argv)

    chosen = [(f, t) for t in ("float32", "float64") for f in accuracy.FUNCTIONS if not args.only or f.name in args.only]
    inputs, exact = {}, {}
    for function, dtype in chosen:
        size = args.size * 10 if function.exact else args.size
        inputs[function, dtype] = accuracy.samples(function, dtype, size, args.seed)
        exact[function, dtype] = accuracy.exact_values(function, *inputs[function, dtype])
    columns: dict[str, dict[Any, Any]] = {}
    versions = []
    legs = [(sys.executable, "flambeau", isa) for isa in accuracy.ISAS]
    legs += [(args.torch, "torch", None)] if args.torch else []
    with tempfile.TemporaryDirectory() as folder:
        for python, library, isa in legs:
            found = accuracy.evaluate_apart([(f.statement, inputs[f, t]) for f, t in chosen], folder, python, library, isa)
            if found is None:
                continue
            version, values = found
            if f"{library} {version}" not in versions:
                versions.append(f"{library} {version}")
            columns[isa or "PyTorch"] = {
                key: accuracy.errors(*key, got, exact[key], *inputs[key]) for key, got in zip(chosen, values)
            }
    missed = 0
    out = []
    for dtype in ("float32", "float64"):
        out += ["", f"## {dtype}", "", "| function | samples | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) + 1)]
        for key in chosen:
            if key[1] != dtype:
                continue
            out.append(
                f"| {key[0].name} | {len(exact[key])} | " + " | ".join(cell(c[key]) for c in columns.values()) + " |"
            )
            for isa, column in columns.items():
                at = int(column[key].argmax())
                if isa != "PyTorch" and column[key][at] > BOUND:
                    missed += 1
                if args.worst and column[key][at] > BOUND:
                    given = ", ".join(repr(a[at]) for a in inputs[key])
                    out.append(f"  {isa}: ({given}) exact {exact[key][at]!r}, {int((column[key] > BOUND).sum())} above")
    text = "\n".join(out)
    print(text)
    print(f"\n{missed} above {BOUND:g} ulp", file=sys.stderr)
    if args.markdown:
        pathlib.Path(args.markdown).write_text(_page(text, versions, args))
    return 1 if missed else 0


def _page(table: str, versions: Sequence[str], args: argparse.Namespace) -> str:
    import harness

    command = f"python benchmarks/accuracy.py{' --torch PYTHON' if args.torch else ''} --size {args.size} --markdown FILE"
    return f"""# Accuracy of the vectorised functions

{harness.machine()}; {", ".join(versions)}

    {command}

The largest error in units in the last place of the result, and the mean in brackets; the bound is {BOUND:g}. A
correctly rounded function stays below 0.5, and denormal results count with the denormals' spacing. The arguments are
bit patterns at equal steps over all exponents, as many in the range where programs have theirs, and the surroundings
of zeros and of the borders of a function's pieces. base, v3 and v4 are our three instruction sets.

A function that has zeros which no float hits, and is a difference of larger terms there, is measured against the
terms: digamma and lgamma below zero (1 + log(1 - x), and 1), logaddexp and logaddexp2 (the larger argument), and the
derivatives of gelu, silu and mish (the larger of f and x f' for x f, below zero, where the sum has its zero; of 2 f'
and x f'). So is one whose factor vanishes: gelu by tanh and tanhshrink against x, and gelu's derivatives by tanh
against 1. tanh' and, above zero, sigmoid' are computed from the result, which is rounded near 1, and count against 1.

f' and f" are what backward gives, and backward of backward. mish" alone misses the bound, by half an ulp.
"not equal" is an infinity or NaN in the place of a number, or the other way round.
{table}
"""


if __name__ == "__main__":
    raise SystemExit(main())
