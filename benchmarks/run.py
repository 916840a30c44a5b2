"""flambeau beside PyTorch: calls, training steps, kernels, memory, import.

    python benchmarks/run.py                                   # PyTorch where this Python has it
    python benchmarks/run.py --torch PYTHON --suite overhead   # PyTorch of another environment
    python benchmarks/run.py --torch PYTHON --markdown benchmarks/RESULTS.md --readme README.md

Both libraries run the same code (suites/), each in its own processes, in turn. Run it on a machine that
does nothing else.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

import harness
import table
from suites import DEFAULT, SUITES


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=7, help="processes per library (%(default)s)")
    parser.add_argument("--again", type=int, default=0, help="more rounds for cases that missed their targets (0)")
    parser.add_argument("--threads", type=int, default=2, help="for both (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every round's values there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    parser.add_argument("--readme", metavar="FILE", help="replace the table of speed in it")
    args = parser.parse_args(argv)
    if args.rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads must be at least 1")

    chosen = {name: SUITES[name] for name in (DEFAULT if args.suite == "all" else (args.suite,))}
    try:
        report = harness.run(
            chosen, args.torch, args.rounds, args.threads, lambda text: print(text, file=sys.stderr), args.again
        )
    except harness.ChildError as error:
        print(error, file=sys.stderr)
        return 1
    print(table.as_text(report))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(report.as_json(), indent=1) + "\n")
    if args.markdown:
        pathlib.Path(args.markdown).write_text(table.as_markdown(report, _command(args)))
    if args.readme:
        readme = pathlib.Path(args.readme)
        readme.write_text(table.in_readme(readme.read_text(), report))
    return 0


def _command(args: argparse.Namespace) -> str:
    """The command that does the same elsewhere: without this machine's paths."""
    parts = ["python benchmarks/run.py"]
    if args.suite != "all":
        parts.append(f"--suite {args.suite}")
    if args.torch:
        parts.append("--torch PYTHON")
    if args.rounds != 7:
        parts.append(f"--rounds {args.rounds}")
    if args.again:
        parts.append(f"--again {args.again}")
    if args.threads != 2:
        parts.append(f"--threads {args.threads}")
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
