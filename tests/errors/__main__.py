"""Shows what the library says to wrong programs, and writes it down.

    PYTHONPATH=tests python -m errors --show shapes_matmul
    PYTHONPATH=tests python -m errors --update [NAME ...]    # the texts beside the programs, and docs/errors.md

Where PyTorch can be imported its texts are written, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys

import flambeau as fl
from errors import beside
from errors.page import PAGE, page
from errors.running import PROGRAMS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m errors")
    parser.add_argument("names", nargs="*", help="programs, by the beginnings of their names; all by default")
    parser.add_argument("--show", action="store_true", help="print what is said")
    parser.add_argument("--update", action="store_true", help="write it down")
    parser.add_argument("--library", default="flambeau")
    given = parser.parse_args()
    chosen = [p for p in PROGRAMS if not given.names or any(p.stem.startswith(name) for name in given.names)]
    if not chosen or given.show == given.update:
        parser.error("expected names of programs, and one of --show and --update")
    for program in chosen:
        if given.show:
            fl.manual_seed(0)
            print(run(program, given.library)[0], end="")
            continue
        fl.manual_seed(0)
        program.with_suffix(".txt").write_text(run(program)[0])
        if importlib.util.find_spec("torch") and program.stem not in beside.NOT_THERE:
            program.with_suffix(".torch.txt").write_text(beside.torch_text(program)[0])
    if given.update:
        PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
