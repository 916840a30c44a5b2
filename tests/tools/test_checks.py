"""tools/check_layers.py and tools/check_repo.py find what they are for."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers, repo, idioms = load("check_layers"), load("check_repo"), load("check_idioms")


def test_the_repository_holds_its_layers():
    assert layers.main() == 0


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("base/a.h", "tensor/tensor.h", "base lies below tensor"),
        ("storage/a.cpp", "tensor/tensor.h", "storage lies below tensor"),
        ("ops/x/a.cpp", "autograd/meta.h", "ops lies below autograd"),
        ("ops/x/a.cpp", "ops.h", "ops lies below autograd"),
        ("dispatch/each.h", "wrappers/wrap.h", "dispatch lies below wrappers"),
        ("autograd/a.cpp", "bindings/args.h", "autograd lies below bindings"),
        ("ops/x/a.simd.cpp", "tensor/tensor.h", "compiled once per instruction set"),
        ("base/a.h", "graph/graph.h", "in no known layer"),
    ],
)
def test_an_upward_include_is_found(path, include, message):
    faults = layers.faults_of(path, f'// why\n#include <vector>\n#include "{include}"\n')
    assert len(faults) == 1 and faults[0].startswith(f"csrc/{path}:3: ") and message in faults[0]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("wrappers/wrap.h", "autograd/saved_tensor.h"),
        ("autograd/a.cpp", "ops.h"),
        ("ops/x/a.cpp", "backend/onednn/onednn.h"),
        ("backend/onednn/a.h", "ops/x/a.h"),
        ("ops/x/a.simd.cpp", "ops/x/a.h"),
        ("tests/a.cpp", "bindings/args.h"),
    ],
)
def test_a_downward_include_is_fine(path, include):
    assert layers.faults_of(path, f'#include "{include}"\n') == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("build/x.txt", "", "a product of the build"),
        ("src/_C.so", "", "a product of the build"),
        ("a.py", "x = 1  # TO" + "DO later\n", "a.py:1: an unfinished note"),
        ("a.md", "ok\nsee /ho" + "me/me/x\n", "a.md:2: a path of one machine"),
        ("a.py", "x = 1 \n", "a.py:1: white space"),
        ("a.py", "x = 1", "no newline at the end"),
        ("a.txt", "x" * 1_000_001 + "\n", "expected at most"),
    ],
)
def test_what_should_not_be_committed_is_found(name, text, message):
    assert any(message in fault for fault in repo.faults_of(name, text.encode()))


def test_the_repository_is_clean():
    assert repo.main(ROOT) == 0


def test_the_repository_holds_its_idioms():
    assert idioms.main() == 0


@pytest.mark.parametrize(
    "statement",
    [
        "  out.push_back(x.size(0) + y.size(0));",
        "  int64_t n = a * b;",
        "  out[0] += pad[2 * k];",
        "  return (x.size(d) - 1) / stride[d - 2];",
    ],
)
def test_plain_arithmetic_on_sizes_is_found(statement):
    faults = idioms.wrapping_sizes(f"// a - b\ninline Dims f() {{\n{statement}\n}}\n")
    assert len(faults) == 1 and faults[0].startswith("3: ") and "Extent" in faults[0]


@pytest.mark.parametrize(
    "statement",
    [
        "  out.push_back(Extent(x.size(0)) + y.size(0));",
        "  const int lead = out.size() - x.ndim();",
        "  out[n - x.ndim() + d] = x.size(d - 1);",
        "  for (int i = 0; i < n - 1; ++i) out.push_back(x.size(i));",
        "  const Extent n = size;\n  return n - 1;",
    ],
)
def test_checked_arithmetic_is_fine(statement):
    assert idioms.wrapping_sizes(f"inline Dims f() {{\n{statement}\n}}\n") == []


def test_a_tuple_filled_by_hand_is_found():
    assert idioms.raw_containers("PyObject* f() {\n  return PyTuple_New(2);\n}")[0].startswith("2: PyTuple_New; use make_tuple()")
