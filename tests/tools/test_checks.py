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


layers, repo = load("check_layers"), load("check_repo")
imports, idioms = load("check_imports"), load("check_idioms")


@pytest.mark.slow
def test_the_repository_holds_its_layers():
    assert layers.main() == 0


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("base/a.h", "tensor/tensor.h", "base lies below tensor"),
        ("storage/a.cpp", "tensor/tensor.h", "storage lies below tensor"),
        ("ops/x/a.cpp", "autograd/meta.h", "ops lies below autograd"),
        ("ops/x/a.cpp", "op/add.h", "ops lies below autograd"),
        ("dispatch/each.h", "wrappers/wrap.h", "dispatch lies below wrappers"),
        ("autograd/a.cpp", "bindings/args.h", "autograd lies below bindings"),
        ("ops/x/a.simd.cpp", "tensor/tensor.h", "compiled once per instruction set"),
        ("base/a.h", "network/net.h", "in no known layer"),
    ],
)
def test_an_upward_include_is_found(path, include, message):
    faults = layers.faults_of(path, f'// why\n#include <vector>\n#include "{include}"\n')
    assert len(faults) == 1 and faults[0].startswith(f"csrc/{path}:3: ") and message in faults[0]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("wrappers/wrap.h", "autograd/saved_tensor.h"),
        ("autograd/a.cpp", "op/add.h"),
        ("ops/x/a.cpp", "backend/onednn/onednn.h"),
        ("backend/onednn/a.h", "ops/x/a.h"),
        ("ops/x/a.simd.cpp", "ops/x/a.h"),
        ("tests/a.cpp", "bindings/args.h"),
    ],
)
def test_a_downward_include_is_fine(path, include):
    assert layers.faults_of(path, f'#include "{include}"\n') == []


@pytest.mark.parametrize(
    ("path", "line", "message"),
    [
        ("storage/a.cpp", "std::mutex mutex;", "use ForkMutex"),
        ("storage/a.cpp", "static std::shared_mutex mutex;", "use ForkMutex"),
        ("autograd/a.h", "  std::recursive_mutex mutex_;", "use ForkMutex"),
        ("bindings/a.cpp", "#include <mutex>", "use ForkMutex"),
        ("base/a.cpp", "std::once_flag once;", "use ForkMutex"),
        ("base/a.cpp", "pthread_atfork(a, b, c);", "use ForkMutex"),
        ("base/a.cpp", "CallMutex mutex;", "a CallMutex is a local variable"),
        ("base/a.cpp", "  static CallMutex mutex;", "a CallMutex is a local variable"),
        ("ops/x/a.cpp", "  dnnl_sgemm('N', 'N');", "entered by an Entry"),
        ("backend/onednn/a.dnn.cpp", "  dnnl_primitive_execute(p, s, n, a);", "entered by an Entry"),
        ("backend/onednn/a.dnn.cpp", "  primitive.execute(stream, args);", "entered by an Entry"),
        ("backend/onednn/a.dnn.cpp", "  dnnl::engine mine(dnnl::engine::kind::cpu, 0);", "entered by an Entry"),
        ("backend/onednn/a.dnn.cpp", "  dnnl::stream s(e);", "entered by an Entry"),
        ("ops/x/a.cpp", "  omp_set_num_threads(1);", "set by OpenMPThreads"),
        ("ops/x/a.cpp", "#pragma omp parallel for", "set by OpenMPThreads"),
        ("ops/x/a.cpp", "  parallel_for(0, rows, std::max<int64_t>(1, 16384 / n), f);", "use parallel_work"),
        ("ops/x/a.cpp", "int f() {\n  static const int found = look();", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  static T& all = *new T;", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  static std::set<int> all{1};", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  static std::set<int> all;", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  if (a) {\n    static T kept;", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  static std::vector<int> of_each[4];", "made at the first call of f()"),
        ("ops/x/a.cpp", "T& f() {\n  struct S {\n    int a;\n  };\n  static S kept;", "made at the first call of f()"),
        ("base/a.h", "struct S {\n  int f() {\n    static S kept;", "made at the first call of "),
    ],
)
def test_another_way_than_the_one_is_found(path, line, message):
    faults = layers.faults_of(path, line + "\n")
    assert len(faults) == 1 and message in faults[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("base/fork_mutex.h", "  std::mutex mutex_;"),
        ("base/a.cpp", "void f() {\n  CallMutex merging;"),
        ("base/a.cpp", "int a;  // a std::mutex would do"),
        ("backend/onednn/a.dnn.cpp", "  if (!entry.execute(p, args)) return;"),
        ("backend/onednn/entry.dnn.cpp", "  dnnl_sgemm('N', 'N');"),
        ("ops/x/a.cpp", "int f() {\n  static const int found = look();\n}\nFL_AT_LOAD(f())"),
        ("ops/x/a.cpp", "int f() {\n  static constexpr int kOne = 1;"),
        ("ops/x/a.cpp", "struct S {\n  static int f(int x) { return x; }"),
        ("ops/x/a.cpp", "struct S {\n  static Ref<S> make(int x, void (*drop)(void*),\n      bool y);"),
        ("bindings/a.cpp", "int f() {\n  static const int found = look();"),
        ("ops/x/a.cpp", "int f() {\n  static int calls;"),
        ("ops/x/a.cpp", "int f() {\n  static unsigned long calls[3];"),
        ("ops/x/a.cpp", "int f() {\n  static T* last;"),
        ("ops/x/a.cpp", "int f() {\n  static std::set<int> all;\n}\nFL_AT_LOAD(f())"),
        ("base/a.h", "struct S {\n  static S first;"),
        ("base/a.h", "void g() {\n}\nnamespace b {\nclass S final : public T {\n  static std::set<int> all;"),
    ],
)
def test_the_one_way_is_fine(path, text):
    assert layers.faults_of(path, text + "\n") == []


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


@pytest.mark.slow
def test_the_repository_is_clean():
    assert repo.main(ROOT) == 0


@pytest.mark.slow
def test_the_package_has_no_circles():
    assert imports.main(ROOT) == 0


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("from p.b import x", "from p.a import y", True),
        ("from p import b", "import p.a", True),
        ("from p.b import x", "import typing\nif typing.TYPE_CHECKING:\n    from p.a import y", True),
        ("class A:\n    from p.b import x", "from p.a import y", True),
        ("from p.b import x", "def f():\n    from p.a import y", False),
        ("from p.b import x", "import os", False),
    ],
)
def test_circles_are_found(a, b, found, tmp_path):
    names = {"p", "p.a", "p.b"}
    for name, text in (("a", a), ("b", b)):
        (tmp_path / f"{name}.py").write_text(text + "\n")
    graph = {f"p.{n}": imports.imports_of(tmp_path / f"{n}.py", names) for n in "ab"} | {"p": set()}
    assert (imports.circles(graph) == [["p.a", "p.b"]]) == found


@pytest.mark.slow
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


@pytest.mark.parametrize("line", ['name = str(x.dtype).removeprefix("flambeau.")', "c.__module__.startswith('flambeau.nn')", 'if text == "flambeau.float32":'])
def test_what_tells_by_a_name_is_found(line):
    assert len(idioms.told_by_name(f"a = 1\n{line}\n")) == 1


@pytest.mark.parametrize("line", ["    before = _C.set_draw_hook(hook)", "    was: bool = _C.graph.check_later(True)"])
def test_what_is_replaced_and_kept_by_hand_is_found(line):
    assert len(idioms.held_by_hand(f"def f():\n{line}\n")) == 1
    assert idioms.held_by_hand("def f():\n    _C.set_grad_enabled(True)\n    with _C.held(_C.set_grad_enabled, True):\n        pass\n") == []
