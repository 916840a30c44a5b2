"""Checks that files of csrc include only their own layer and lower ones.

    base < engine < storage < tensor < dispatch < graph < ops, backend < autograd < wrappers < bindings < tests

A layer is a folder, but for these:

* `ops` and `backend` are one layer: a backend's kernels are declared beside the portable ones that they
  replace, and stay apart in files named *.dnn.cpp.
* Generated headers count as the layer that they describe: kernel/*.h as ops, op/*.h (declarations alone) as
  autograd, whose nodes call ops, native/*.h as wrappers.

And one rule for *.simd.cpp: these are compiled once per instruction set, so an inline function from a
shared header that is not inlined there could be the copy that the linker keeps, and run on a processor
without those instructions. They include only what is listed in SIMD_MAY_INCLUDE and headers of their family.

And, for what every file of the core may do only in one way (WAYS): mutexes, entering oneDNN, OpenMP's count of
threads, the GIL, texts and truth of Python objects, statics inside of functions.
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
    ("graph",),
    ("ops", "backend"),
    ("autograd",),
    ("wrappers",),
    ("bindings",),
    ("tests",),
)
LEVEL = {layer: level for level, layers in enumerate(ORDER) for layer in layers}
GENERATED = {"kernel": "ops", "op": "autograd", "native": "wrappers"}
SIMD_MAY_INCLUDE = {
    "base/complex.h",
    "base/dtype.h",
    "base/element.h",
    "base/isa.h",
    "base/lanes.h",
    "base/philox.h",
    "base/vmath.h",
    "base/vmath_activations.h",
    "base/vmath_angles.h",
    "base/vmath_basic.h",
    "base/vmath_bessel.h",
    "base/vmath_bessel_i.h",
    "base/vmath_division.h",
    "base/vmath_gamma.h",
    "base/vmath_normal.h",
    "base/vmath_polynomials.h",
    "base/vmath_special.h",
    "dispatch/convert.h",
    "dispatch/half_rows.h",
    "dispatch/half_vectors.h",
    "dispatch/each.h",
    "storage/square.h",
    "storage/transpose.h",
}

# What may be written in some files only: the pattern, the files, and what to use instead.
WAYS = (
    (
        re.compile(
            r"std::(?:\w*mutex|condition_variable\w*|once_flag|call_once|\w+_semaphore)\b"
            r"|\bpthread_(?:mutex|rwlock|cond|once|spin|atfork)\w*|#\s*include <(?:mutex|shared_mutex|condition_variable|semaphore)>"
        ),
        ("base/fork_mutex.h", "base/fork_mutex.cpp", "base/parallel.cpp"),
        "a child that is forked could find it locked for ever; use ForkMutex, ForkCondition, "
        "StripedMutex or CallMutex of base/fork_mutex.h: Note [Locks]",
    ),
    (
        re.compile(r"^(?:static |thread_local |const )*CallMutex\b|\bstatic\s+(?:\w+ )*CallMutex\b", re.MULTILINE),
        (),
        "a CallMutex is a local variable; what lives longer is a ForkMutex: Note [Locks]",
    ),
    (
        re.compile(r"\bdnnl_(?!version\b)\w+\s*\(|\bdnnl::(?:engine|stream)\s*(?:\w+\s*)?[({]|(?<!entry)(?<!entry_)\.execute\("),
        ("backend/onednn/entry.dnn.cpp",),
        "oneDNN is entered by an Entry alone: Note [Entering oneDNN]",
    ),
    (
        re.compile(r"\bomp_[sg]et_(?:num|max)_threads\b|#\s*pragma omp parallel|\bGOMP_\w+"),
        ("base/parallel.cpp",),
        "the number of threads is num_threads(), and OpenMP's is set by OpenMPThreads, of base/parallel.h",
    ),
    (
        re.compile(r"\bparallel_for\((?:[^,\n]*,){2} std::max<int64_t>\(1, "),
        (),
        "a heavy item would count as one grain; use parallel_work of base/parallel.h",
    ),
    (
        re.compile(r"\bPy(?:Eval_(?:RestoreThread|SaveThread|AcquireThread)|GILState_(?:Ensure|Check)|Object_(?:Vectorcall|Call)\w*)\s*\(|\bPy_(?:BEGIN|END)_ALLOW"),
        ("bindings/gil.h",),
        "a thread may end in it, or it lies to threads that outlive the interpreter: use GilRelease, GilAcquire, has_gil, "
        "call_python or from_python of bindings/gil.h: "
        "Note [Threads that outlive the interpreter]",
    ),
    (
        re.compile(r"\bPy(?:Unicode_AsUTF8|Object_IsTrue)\s*\("),
        ("bindings/objects.h",),
        "it fails, of a str with a lone surrogate or an object whose __bool__ raises: use utf8, name_of or truth of bindings/objects.h",
    ),
)
# A static that is made at its function's first call: indented, and neither a constant nor a function. One without an
# initializer is made then, too, if its type has a constructor or a destructor: if it is no plain type or pointer.
_NO_FUNCTION = r"(?![^;={(]*[({][^;{}]*\)[^;{}]*(?:;|\{))"
_NUMBER = r"(?:(?:unsigned |signed |long |std::)*(?:bool|char|short|int|long|float|double|size_t|ptrdiff_t|u?int\w*_t|unsigned)\b(?! *<))"
_PLAIN = rf"(?:{_NUMBER}|[^;={{(]*\*)"
LOCAL_STATIC = re.compile(
    rf"^[ \t]+static (?!constexpr|constinit|thread_local|inline|FL_INLINE){_NO_FUNCTION}(?:[^;]*?[={{(]|(?!(?:const )?{_PLAIN})[^;={{(]*;)",
    re.MULTILINE,
)
# What a brace opens, by the text before it: the scopes whose statics are made when the library is loaded.
NO_BODY = re.compile(r"(?:^|[;{}>\s])(?:struct|class|union|namespace|enum)\b[^;{}()]*$")
FUNCTION = re.compile(r"^[^\s#/}][^\n;=]*?(\w+)\([^\n]*\{", re.MULTILINE)
AT_LOAD = re.compile(r"FL_AT_LOAD\(([^\n]*)\)$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def layer_of(path: str) -> str | None:
    """The layer of a file, by its path below csrc or its generated folder."""
    folder = path.split("/", 1)[0]
    return GENERATED.get(folder, folder if folder in LEVEL else None)


def called_at_load(text: str) -> set[str]:
    """The functions that a file calls when the library is loaded."""
    return {name for call in AT_LOAD.findall(text) for name in re.findall(r"(\w+)[<(]", call)}


def without_comments(text: str) -> str:
    """The same number of lines, without what stands behind //."""
    return re.sub(r"//[^\n]*", "", text)


def in_a_function(code: str, at: int) -> bool:
    """Whether a place lies in a function's body, and not in that of a class or a namespace alone."""
    depth = 0
    for brace in reversed(list(re.finditer(r"[{}]", code[:at]))):
        depth += 1 if brace.group() == "}" else -1
        if depth < 0:
            if not NO_BODY.search(code, 0, brace.start()):
                return True
            depth = 0
    return False


def faults_of_ways(path: str, text: str, at_load: set[str]) -> list[str]:
    """Complaints about what is done in another way than the one that there is."""
    code = without_comments(text)

    def where(at: int) -> str:
        return f"csrc/{path}:{code.count(chr(10), 0, at) + 1}"

    faults = [
        f"{where(found.start())}: {found.group(0).strip()}: {instead}"
        for pattern, files, instead in WAYS
        if path not in files and layer_of(path) != "tests"
        for found in pattern.finditer(code)
    ]
    if LEVEL[layer_of(path) or "tests"] < LEVEL["bindings"]:
        for found in LOCAL_STATIC.finditer(code):
            if not in_a_function(code, found.start()):
                continue
            around = [f.group(1) for f in FUNCTION.finditer(code, 0, found.start())]
            if not around or around[-1] not in at_load:
                name = around[-1] if around else "?"
                faults.append(
                    f"{where(found.start())}: a static that is made at the first call of {name}(), which a child that is forked "
                    f"meanwhile waits for; make it when the library is loaded: base/at_load.h"
                )
    return faults


def faults_of(path: str, text: str, at_load: set[str] | None = None) -> list[str]:
    """Complaints about one file, as `csrc/path:line: what`. `at_load`: functions that any file calls at load."""
    own = layer_of(path)
    if own is None:
        return [
            f"csrc/{path}:1: in no known layer; add its folder to ORDER in tools/check_layers.py"
        ]
    faults = faults_of_ways(path, text, called_at_load(text) | (at_load or set()))
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
    texts = {path.relative_to(csrc).as_posix(): path.read_text() for path in files}
    at_load = {name for text in texts.values() for name in called_at_load(text)}
    faults = [fault for path, text in texts.items() for fault in faults_of(path, text, at_load)]
    print("\n".join(faults) if faults else f"{len(files)} files of csrc: layers hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
