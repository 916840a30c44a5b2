"""What PyTorch's databases say of this library, beside what differences.py expects of it.

    python tests/parity/verdict.py                  # writes tests/parity/report.md
    python tests/parity/verdict.py add nn.Linear    # says in full what differs there, meant or not
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from beside import torch
from compare import Entry, How
from compare_classes import ModuleEntry, OptimizerEntry, module_db, optim_db
from differences import DIFFERENT, EVERYWHERE, NOT_HERE, RANDOM, SCALE
from samples import Missing, op_db

REPORT = pathlib.Path(__file__).resolve().with_name("report.md")
SHORT = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128"}
PROPERTIES = ["values", "strided", "method", "operator", "inplace", "names", "alias", "out", "gradient", "second", "state", "errors"]


def entries():
    """Names of all entries: of functions as PyTorch has them, `module nn.Linear`, `optimizer Adam`."""
    return sorted([*op_db(), *module_db(), *optim_db()])


def looked_up(table, name):
    """An entry's item in a table, whose key may leave out the variant."""
    return table.get(name, table.get(name.split("/")[0]))


@functools.cache
def _not_here():
    return {name: reason for reason, names in NOT_HERE.items() for name in names.split()}


def _parts(key):
    """`values,method uint8 bool` -> properties, element types."""
    properties, *dtypes = key.split(" ")
    return properties.split(","), dtypes


@dataclass
class Verdict:
    name: str
    missing: str | None = None  # why it is not here
    found: dict = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)
    meant: dict[str, str] = field(default_factory=dict)  # what differs on purpose: reason
    rules: set = field(default_factory=set)  # those of EVERYWHERE that were needed


def verdict_of(name):
    """Compares one entry; `unexpected` has what differs without being listed, and what is listed without differing."""
    out = Verdict(name)
    short = name.split(" ")[-1]
    how = How(random=looked_up(RANDOM, short) is not None, scale=looked_up(SCALE, short) or 1.0)
    kind = ModuleEntry if name in module_db() else OptimizerEntry if name in optim_db() else Entry
    reason = looked_up(_not_here(), short)
    try:
        out.found = kind(name, how).run()
    except Missing as missing:
        if reason is None:
            out.unexpected.append(f"not here: {missing}")
        out.missing = reason or str(missing)
        return out
    if reason is not None:
        out.unexpected.append(f"is here, but differences.py says that it is not: {reason}")
    listed = looked_up(DIFFERENT, name) or {}
    seen = set()
    for (prop, dtype), found in sorted(out.found.items()):
        rest = []
        for text in found.differences:
            rule = next((r for r in EVERYWHERE if r.prop in ("", prop) and re.search(r.pattern, text)), None)
            if rule is None:
                rest.append(text)
            else:
                out.meant[f"{prop}*"] = rule.reason
                out.rules.add(rule)
        if not rest:
            continue
        keys = [k for k in listed if prop in _parts(k)[0] and (not _parts(k)[1] or dtype in _parts(k)[1])]
        for k in keys:
            out.meant[k] = listed[k]
            seen |= {(k, prop), (k, dtype)}
        if not keys:
            out.unexpected += [f"{prop} {dtype}: {d}" for d in rest[:4]]
    for k, reason in listed.items():
        stale = [part for part in sum(_parts(k), []) if (k, part) not in seen]
        out.unexpected += [f"listed in differences.py, but the same: {' '.join(stale)} of {k} ({reason})"] * bool(stale)
    return out


# ---- the report


def row(v):
    if v.missing:
        return f"| {v.name} | | not here: {v.missing} |"
    cells = []
    for prop in PROPERTIES:
        checked = {d: f for (p, d), f in v.found.items() if p == prop}
        if not checked:
            continue
        bad = sorted(SHORT.get(d, d) for d, f in checked.items() if f.differences)
        cells.append(prop if not bad else f"**{prop}**" + (f" ({' '.join(bad)})" if any(bad) else ""))
    dtypes = [SHORT[d] for d in SHORT if any(k == ("values", d) for k in v.found)]
    reasons = "; ".join(f"{k}: {r}" for k, r in sorted(v.meant.items()))
    return f"| {v.name} | {' '.join(dtypes)} | {', '.join(cells)}{' — ' + reasons if reasons else ''} |"


def report(verdicts):
    here = [v for v in verdicts if not v.missing]
    pairs = Counter((p, bool(f.differences)) for v in here for (p, d), f in v.found.items())
    head = [
        "# PyTorch's sample databases",
        "",
        f"Written by `python tests/parity/verdict.py`, from the databases of PyTorch {torch.__version__.split('+')[0]}. Of {len(verdicts)} entries "
        f"{len(here)} are here; {sum(not v.meant for v in here)} of these do the same in all that is compared. What is **bold** differs, for the reason that follows.",
        "",
        "| property | same | differ |",
        "|---|---|---|",
        *(f"| {p} | {pairs[p, False]} | {pairs[p, True]} |" for p in PROPERTIES),
        "",
        "(entries x element types)",
        "",
        "| entry | element types | properties |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *(row(v) for v in verdicts)]) + "\n"


def main(names):
    if names:
        for v in map(verdict_of, names):
            for (prop, dtype), found in sorted(v.found.items()):
                for text in found.differences:
                    print(f"{v.name}: {prop} {dtype}: {text}")
            print(f"{v.name}: unexpected: {v.unexpected}" if v.unexpected else f"{v.name}: as expected")
        return 0
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        verdicts = pool.map(verdict_of, entries(), chunksize=8)
    REPORT.write_text(report(verdicts))
    unexpected = [f"{v.name}: {u}" for v in verdicts for u in v.unexpected]
    print("\n".join(unexpected) or "nothing unexpected")
    return int(bool(unexpected))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
