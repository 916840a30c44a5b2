"""Checks that shape rules compute sizes with Extent, whose arithmetic does not wrap.

A rule that wrapped would make a small result of huge arguments, for a kernel to write past. Rules that the op table spells
itself (`x.shape[0] * 2`) get their Extent from the generator.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
LOOP = re.compile(r"\bfor \([^{]*?\) ")
INDEX = re.compile(r"\[[^\[\]]*\]")
AXES = re.compile(r"\b\w+\.ndim\(\) [-+] \w+")  # a count of axes is no size
ARITHMETIC = re.compile(r" [-+*/] |[-+*/]= ")
DECLARED = re.compile(r"\bExtent (\w+)")


def faults_of(source: str) -> list[str]:
    """Statements that compute with plain integers, with their lines."""
    clean = TEXT.sub('""', COMMENT.sub(lambda m: "\n" * m[0].count("\n"), source))
    while INDEX.search(clean):
        clean = INDEX.sub(lambda m: "\n" * m[0].count("\n"), clean)
    checked = {"Extent", *DECLARED.findall(clean)}
    faults, line = [], 1
    for statement in re.split(r"(?<=[;{}])(?=\s*\n)", LOOP.sub("", clean)):
        plain = AXES.sub("", statement)
        if (
            ARITHMETIC.search(plain)
            and not re.search(r"\bint \w+ =", plain)
            and not checked & set(re.findall(r"\w+", plain))
        ):
            at = line + statement[: len(statement) - len(statement.lstrip())].count("\n")
            faults.append(f"{at}: '{' '.join(statement.split())}' may overflow; compute sizes with Extent")
        line += statement.count("\n")
    return faults


def main() -> int:
    faults = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted(ROOT.glob("csrc/wrappers/shapes*.h"))
        for fault in faults_of(path.read_text())
    ]
    print("\n".join(faults) if faults else "shape rules: sizes are computed with Extent")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
