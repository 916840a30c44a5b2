"""Checks that files of csrc include only their own layer and lower ones.

    base < engine < storage < tensor < dispatch < ops, backend < autograd < wrappers < bindings < tests

A layer is a folder, but for these:

* `ops` and `backend` are one layer: a backend's kernels are declared beside the portable ones that they
  replace, and stay apart in files named *.dnn.cpp.
* Generated headers count as the layer that they describe: kernels.h as ops, ops.h (declarations alone) as
  autograd, whose nodes call ops, the others as wrappers.

And one rule for *.simd.cpp: these are compiled once per instruction set, so an inline function from a
shared header that is not inlined there could be the copy that the linker keeps, and run on a processor
without those instructions. They include only what is listed in SIMD_MAY_INCLUDE and headers of their family.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ORDER = (
    ("base",),
    ("engine",),
    ("storage",),
    ("tensor",),
    ("dispatch",),
    ("ops", "backend"),
    ("autograd",),
    ("wrappers",),
    ("bindings",),
    ("tests",),
)
LEVEL = {layer: level for level, layers in enumerate(ORDER) for layer in layers}
GENERATED = {
    "kernels.h": "ops",
    "ops.h": "autograd",
    "natives.h": "wrappers",
    "each_ops.h": "wrappers",
}
SIMD_MAY_INCLUDE = {
    "base/dtype.h",
    "base/element.h",
    "base/isa.h",
    "base/lanes.h",
    "base/philox.h",
    "base/vmath.h",
    "base/vmath_activations.h",
    "base/vmath_angles.h",
    "base/vmath_division.h",
    "base/vmath_special.h",
    "dispatch/convert.h",
    "dispatch/each.h",
    "storage/transpose.h",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def layer_of(path: str) -> str | None:
    """The layer of a file, by its path below csrc or its generated name."""
    if "/" not in path:
        return GENERATED.get(path)
    folder = path.split("/", 1)[0]
    return folder if folder in LEVEL else None


def faults_of(path: str, text: str) -> list[str]:
    """Complaints about one file, as `csrc/path:line: what`."""
    own = layer_of(path)
    if own is None:
        return [
            f"csrc/{path}:1: in no known layer; add its folder to ORDER in tools/check_layers.py"
        ]
    faults = []
    for found in INCLUDE.finditer(text):
        included = found.group(1)
        where = f"csrc/{path}:{text.count(chr(10), 0, found.start(1)) + 1}"
        layer = layer_of(included)
        if layer is None:
            faults.append(f"{where}: includes '{included}', which is in no known layer")
        elif LEVEL[layer] > LEVEL[own]:
            faults.append(f"{where}: includes '{included}': {own} lies below {layer}")
        family = path.rsplit("/", 1)[0] + "/"
        if (
            path.endswith(".simd.cpp")
            and not included.startswith(family)
            and included not in SIMD_MAY_INCLUDE
        ):
            faults.append(
                f"{where}: includes '{included}', but a file compiled once per "
                f"instruction set may only include {', '.join(sorted(SIMD_MAY_INCLUDE))}"
            )
    return faults


def main(root: pathlib.Path = ROOT) -> int:
    csrc = root / "csrc"
    files = sorted(p for p in csrc.rglob("*") if p.suffix in (".h", ".cpp"))
    faults = [
        fault
        for path in files
        for fault in faults_of(path.relative_to(csrc).as_posix(), path.read_text())
    ]
    print("\n".join(faults) if faults else f"{len(files)} files of csrc: layers hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
