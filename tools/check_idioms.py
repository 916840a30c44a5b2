"""Checks that nobody writes by hand what has a safe form.

* Shape rules compute sizes with Extent, whose arithmetic does not wrap: a rule that wrapped would make a small result
  of huge arguments, for a kernel to write past. Rules that the op table spells itself (`x.shape[0] * 2`) get their
  Extent from the generator.
* Nothing goes by how a type or a class calls itself: while the library answers for PyTorch they say `torch.`. A dtype has `name`,
  and what a class is, is asked for when it is made.
* What a function of `_C` replaces for a while is held by `with _C.held(setter, value):`, which Ctrl-C finds before or after it, and never
  half done: `before = _C.set_x(value)` with `try` and `finally` is.
* The bindings make tuples and lists with bindings/objects.h, which leaves no empty slot behind a failure.
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
AXIS = re.compile(r"\.(?:size|stride)\((?:[^()]|\([^()]*\))*\)")  # of x.size(axis - 1)
ARITHMETIC = re.compile(r" [-+*/] |[-+*/]= ")
DECLARED = re.compile(r"\bExtent (\w+)")


CONTAINER = re.compile(r"\bPy(?:Tuple|List)_(?:New|SET_ITEM|SetItem)\b")
BUILDERS = "csrc/bindings/objects.h"


def raw_containers(source: str) -> list[str]:
    """Tuples and lists that are filled by hand, with their lines."""
    return [
        f"{source.count(chr(10), 0, m.start()) + 1}: {m[0]}; use make_tuple() or make_list() of {BUILDERS}"
        for m in CONTAINER.finditer(source)
    ]


BY_NAME = re.compile(r"""(?:removeprefix|startswith|endswith|split|== )\(?f?["']flambeau\.""")
# These ask while they are imported.
ANY_NAME = {
    "nn/functional/__init__.py",
    "special/__init__.py",
    "linalg/__init__.py",
    "distributions/distribution.py",
}


def told_by_name(source: str) -> list[str]:
    """Decisions by a text that begins with the package's name, with their lines."""
    instead = "ask for dtype.name, or for what the class is"
    return [
        f"{source.count(chr(10), 0, m.start()) + 1}: {m[0]}; {instead}"
        for m in BY_NAME.finditer(source)
    ]


HALF_HELD = re.compile(
    r"^\s*\w+(?:: [^=\n]+)? = _C\.(?:graph\.)?(?:set_|refuse_|name_all_memory|check_later)\w*\(",
    re.MULTILINE,
)


def held_by_hand(source: str) -> list[str]:
    """Where what a setter replaces is kept in a variable, with their lines."""
    return [
        f"{source.count(chr(10), 0, m.end()) + 1}: {m[0].strip()}...); use `with _C.held(...):`"
        for m in HALF_HELD.finditer(source)
    ]


def wrapping_sizes(source: str) -> list[str]:
    """Statements that compute with plain integers, with their lines."""
    clean = TEXT.sub('""', COMMENT.sub(lambda m: "\n" * m[0].count("\n"), source))
    while INDEX.search(clean):
        clean = INDEX.sub(lambda m: "\n" * m[0].count("\n"), clean)
    checked = {"Extent", *DECLARED.findall(clean)}
    faults, line = [], 1
    for statement in re.split(r"(?<=[;{}])(?=\s*\n)", LOOP.sub("", clean)):
        plain = AXIS.sub("", AXES.sub("", statement))
        if (
            ARITHMETIC.search(plain)
            and not re.search(r"\bint \w+ =", plain)
            and not checked & set(re.findall(r"\w+", plain))
        ):
            at = line + statement[: len(statement) - len(statement.lstrip())].count("\n")
            faults.append(
                f"{at}: '{' '.join(statement.split())}' may overflow; compute sizes with Extent"
            )
        line += statement.count("\n")
    return faults


def main() -> int:
    faults = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted(ROOT.glob("csrc/wrappers/shapes*.h"))
        for fault in wrapping_sizes(path.read_text())
    ]
    faults += [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted(ROOT.glob("csrc/bindings/*.*"))
        if path != ROOT / BUILDERS
        for fault in raw_containers(path.read_text())
    ]
    package = ROOT / "src" / "flambeau"
    faults += [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in ANY_NAME and "compat" not in path.parts
        for fault in told_by_name(path.read_text())
    ]
    faults += [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted(package.rglob("*.py"))
        for fault in held_by_hand(path.read_text())
    ]
    print(
        "\n".join(faults)
        if faults
        else "sizes, tuples and lists are made by what checks them; nothing is told by its name; what is replaced is held"
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
