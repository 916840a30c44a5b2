"""`docs/errors.md`: the wrong programs, what this library says to each, and what PyTorch does."""

from __future__ import annotations

import pathlib

from errors.running import PROGRAMS, mistake, source_of

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "errors.md"

KINDS = {
    "shapes": "Shapes",
    "dtypes": "Element types and values",
    "devices": "Devices",
    "index": "Indices, classes and targets",
    "losses": "Losses",
    "autograd": "Gradients",
    "function": "Custom functions",
    "func": "Function transformations",
    "modules": "Modules",
    "state": "States of models and optimizers",
    "optim": "Optimizers and schedules",
    "data": "Loading data",
    "files": "Files",
    "compile": "Compiled and recorded programs",
    "pipeline": "Pipelines",
    "distributions": "Distributions",
    "memory": "Memory",
}

HEAD = """# Errors

{count} wrong programs, what flambeau says to each, and what PyTorch 2.13 says to the same program. A message names what was given,
what was expected and, where there is one, a way out; the module's path; and lines of the program, never of the library. Notes of an error
are printed below it. Where an error comes later than its cause, both lines are named: that of the forward pass, of the write, of the first
backward.

| tool | what it tells |
|---|---|
| `flambeau.autograd.set_detect_anomaly(True)` | the forward line whose backward made NaN |
| `flambeau.memory_summary(model)` | memory in use, by the lines that made it and by the model's modules |
| `flambeau.memory_owners()` | lines that made what is in use: blocks of at least 1 MiB, and all that were made inside of `flambeau.name_memory()` |
| `flambeau.graph_owners()` | graphs that are alive: nodes, bytes, the lines that made them, and the variables, lists and attributes that hold them |

The page is made of `tests/errors/programs` by `PYTHONPATH=tests python -m errors --update`.
"""


def page() -> str:
    out = [HEAD.format(count=len(PROGRAMS))]
    out.append("\n".join(f"* [{title}](#{title.lower().replace(' ', '-').replace(',', '')})" for title in KINDS.values()) + "\n")
    for kind, title in KINDS.items():
        out.append(f"## {title}\n")
        for program in PROGRAMS:
            if program.stem.split("_")[0] != kind:
                continue
            body = source_of(program).split("\n", 1)[1].strip("\n")
            out.append(f"### {mistake(program).rstrip('.')}\n\n```python\n{body}\n```\n")
            out.append(f"```text\n{program.with_suffix('.txt').read_text()}```\n")
            theirs = program.with_suffix(".torch.txt")
            if theirs.exists():
                said = theirs.read_text()
                out.append(f"PyTorch:\n\n```text\n{said}```\n" if said.strip() else "PyTorch says nothing.\n")
    return "\n".join(out)
