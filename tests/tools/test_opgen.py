"""The op table's generator: its output for one op, its complaints, and what one new entry becomes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support.forks import Forks

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = pathlib.Path(__file__).parent / "golden"
FORKS = Forks(f"import sys; sys.path.append({str(ROOT / 'tools')!r}); import opgen.__main__")


def opgen(*args: object) -> subprocess.CompletedProcess[str]:
    """As `python -m opgen` does it."""
    return FORKS.run("import sys, opgen.__main__; sys.exit(opgen.__main__.main())", *map(str, args))


@pytest.fixture
def table(tmp_path):
    """A copy of the real table."""
    shutil.copytree(ROOT / "ops", tmp_path / "ops")
    return tmp_path / "ops"


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated") / "out"
    assert opgen("generate", "--out", out).returncode == 0
    return out


@pytest.fixture
def out(generated, tmp_path):
    """What becomes of the real table, with the times at which it was written."""
    return shutil.copytree(generated, tmp_path / "out")


@pytest.mark.slow
def test_the_table_is_clean():
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    result = subprocess.run([sys.executable, "-m", "opgen", "check"], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "no complaints" in result.stdout


def test_relu_becomes_what_it_did():
    """After a wanted change: PYTHONPATH=tools python -m opgen show relu > tests/tools/golden/relu.txt"""
    result = opgen("show", "relu")
    assert result.returncode == 0, result.stderr
    # Entries above it may move the line.
    expected = (GOLDEN / "relu.txt").read_text()
    place = re.compile(r"^# (ops/\w+\.yaml):\d+$", re.MULTILINE)
    assert place.sub(r"# \1", result.stdout) == place.sub(r"# \1", expected)


def test_the_committed_stub_is_up_to_date(tmp_path):
    stub = tmp_path / "_C.pyi"
    result = opgen("generate", "--out", tmp_path / "out", "--stub", stub)
    assert result.returncode == 0, result.stderr
    for name in ("_C.pyi", "_table.pyi", "__init__.pyi"):
        committed = ROOT / "src" / "flambeau" / name
        assert committed.read_text() == (tmp_path / name).read_text(), "the op table or the package changed; run `make stubs`"


HEAD = "# a comment\n\n- op: {signature}\n  doc: Says something.\n"
GOOD = HEAD.format(signature="twice(Tensor x) -> Tensor y") + "  shape: same(x)\n  dtype: same(x)\n"

BAD = {
    "unknown key": (GOOD + "  each: x\n  colour: blue\n", "ops/bad.yaml:3: unknown key 'colour'; expected one of "),
    "autocast": (GOOD + "  each: x\n  autocast: higher\n", "ops/bad.yaml:3: twice: autocast: 'higher'; expected one of lower, widen, promote"),
    "single": (GOOD + "  each: x\n  single:\n    number: x\n", "ops/bad.yaml:3: twice: single; expected `number` and `each` below it"),
    "strides of no argument": (
        GOOD + "  kernel: twice\n  strides: lies_as(z)\n",
        "ops/bad.yaml:3: twice: strides: 'lies_as(z)'; expected a function of arguments, f(x)",
    ),
    "strides without a kernel": (GOOD + "  each: x\n  strides: lies_as(x)\n", "ops/bad.yaml:3: twice: strides; expected a kernel with `shape` and one output"),
    "null": (GOOD + "  each:\n", "ops/bad.yaml:7: a null value; leave the key out instead"),
    "flow map": (
        GOOD + "  each: x\n  grad: {x: dy}\n",
        "ops/bad.yaml:8: a flow map {...} outside of samples",
    ),
    "repeated key": (GOOD + "  each: x\n  each: x + x\n", "ops/bad.yaml:8: key 'each' stands twice"),
    "two bodies": (
        GOOD + "  each: x\n  kernel: twice\n",
        "ops/bad.yaml:3: twice: 2 bodies; expected exactly one of each, kernel, composite",
    ),
    "no body": (GOOD, "ops/bad.yaml:3: twice: 0 bodies; expected exactly one of"),
    "formula syntax": (GOOD + '  each: x\n  grad:\n    x: "dy *"\n', "ops/bad.yaml:3: twice: formula 'dy *': "),
    "formula name": (GOOD + "  each: x\n  grad:\n    x: dy * nowhere\n", "ops/bad.yaml:3"),
    "formula op": (GOOD + "  each: x\n  grad:\n    x: no_such_op(dy)\n", "ops/bad.yaml:3"),
    "gradient of nothing": (
        GOOD + "  each: x\n  grad:\n    z: dy\n",
        "ops/bad.yaml:3: twice: grad names 'z', which is no argument",
    ),
    "argument type": (
        HEAD.format(signature="twice(Tensr x) -> Tensor y") + "  shape: same(x)\n  dtype: same(x)\n  each: x\n",
        "ops/bad.yaml:3: ",
    ),
    "in place of what": (GOOD + "  each: x\n  inplace: yes please\n", "ops/bad.yaml:3: twice: inplace; expected true, native (beside a native composite), `over: true` or `over: any_strides` (beside a kernel), or `grad`"),
    "in place by the input": (
        GOOD + "  each: x\n  inplace:\n    grad:\n      x: dy * x\n  grad:\n    x: dy\n",
        "ops/bad.yaml:3: twice: inplace: the gradient uses 'x', which is overwritten; expected a formula of the output",
    ),
    "in place without a gradient": (GOOD + "  each: x\n  inplace:\n    grad:\n      x: dy * y\n", "ops/bad.yaml:3: twice: inplace; expected true, "),
    "no list": ("op: twice\n", "ops/bad.yaml:1: expected a list of entries"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_complaints_name_the_line(kind, tmp_path):
    text, message = BAD[kind]
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "bad.yaml").write_text(text)
    result = opgen("--table", tmp_path / "ops", "check")
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


ENTRY = """
- op: twice_sin(Tensor x) -> Tensor y
  doc: Two times the sine of x.
  shape: same(x)
  dtype: float_of(x)
  each: T(2) * sin(x)
  inplace: true
  grad:
    x: dy * cos(x) * 2
  ref: 2 * np.sin(x)
  samples:
    - {x: "f32[2,3]"}
"""


def test_one_entry_becomes_everything(table, tmp_path):
    with open(table / "unary.yaml", "a") as file:
        file.write(ENTRY)
    out = tmp_path / "out"
    result = opgen("--table", table, "generate", "--out", out, "--stub", tmp_path / "_C.pyi")
    assert result.returncode == 0, result.stderr

    def all_of(pattern):
        return "\n".join(p.read_text() for p in sorted(out.glob(pattern)))

    assert "Tensor twice_sin(const Tensor& x);" in (out / "op" / "twice_sin.h").read_text()
    assert "Tensor twice_sin_(const Tensor& x);" in (out / "op" / "twice_sin.h").read_text()
    wrappers = all_of("ops_*.cpp")
    assert "struct TwiceSinBackward final : Node" in wrappers
    assert "op::cos(x)" in wrappers
    assert 'check_inplace("twice_sin_", x);' in wrappers
    assert "T(2) * sin(x)" in all_of("each_*.simd.cpp")
    assert "f_twice_sin(" in all_of("bind_*.cpp")
    assert '"twice_sin"' in (out / "bind_tables.cpp").read_text()
    functions = (tmp_path / "_table.pyi").read_text()
    assert re.search(r"^def twice_sin\(input: Tensor\b.*\) -> Tensor", functions, re.MULTILINE)
    assert re.search(r"^    def twice_sin_\(self\) -> Self", (tmp_path / "_C.pyi").read_text(), re.MULTILINE)
    assert "import twice_sin as twice_sin" in (tmp_path / "__init__.pyi").read_text()


def times(out):
    return {p.relative_to(out).as_posix(): p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def changed(table, out):
    before = times(out)
    assert opgen("--table", table, "generate", "--out", out).returncode == 0
    after = times(out)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.slow
def test_what_did_not_change_is_not_written(table, out):
    path = table / "activation.yaml"
    path.write_text(path.read_text().replace("- op: relu(", "# a comment\n- op: relu(", 1))
    assert changed(table, out) == set()


@pytest.mark.slow
def test_an_op_recompiles_only_what_uses_it(table, out):
    """A new entry: its header, its shard of wrappers, loops and bindings, and the list of names. Gone again: the same."""
    path = table / "unary.yaml"
    text = path.read_text()
    path.write_text(text + ENTRY)
    name = re.compile(r"(op/twice_sin\.h|ops_\d+\.cpp|each_\d+\.simd\.cpp|bind_\d+\.cpp|bind_tables\.cpp)")
    written = changed(table, out)
    assert len(written) == 5 and all(name.fullmatch(n) for n in written), sorted(written)
    path.write_text(text)
    assert changed(table, out) == written and not (out / "op" / "twice_sin.h").exists()


@pytest.mark.slow
def test_a_signature_changes_its_own_header_alone(table, out):
    path = table / "activation.yaml"
    old = "- op: relu(Tensor x) -> Tensor y"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, "- op: relu(Tensor x, *, bool twice=False) -> Tensor y", 1))
    assert {n for n in changed(table, out) if n.endswith(".h")} == {"op/relu.h"}


@pytest.mark.slow
def test_generated_files_name_what_they_use(out):
    """Every op, kernel and composition that a generated source calls is declared by a header that it includes itself."""
    folders = {"op": "op", "kernels": "kernel", "native": "native"}
    missing = []
    for source in sorted(out.glob("ops_*.cpp")):
        text = source.read_text()
        included = "".join((out / p).read_text() for p in re.findall(r'#include "((?:op|kernel|native)/\w+\.h)"', text))
        for space, name in set(re.findall(r"\b(op|kernels|native)::(\w+)\(", text)):
            if name not in ("run_each", "run_each_into") and not re.search(rf"\b{name}\(", included):
                missing.append(f"{source.name}: {folders[space]}/{name}.h")
    assert not missing


def test_new_prints_an_entry_that_is_valid(tmp_path):
    printed = opgen("new", "fresh").stdout
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "fresh.yaml").write_text(printed)
    # The gradient of the model entry uses mul alone, as a fresh entry's usually would.
    mul = "- op: mul(Operand a, Operand b) -> Tensor y\n  shape: broadcast(a, b)\n  dtype: promote(a, b)\n  each: a * b\n"
    (tmp_path / "ops" / "mul.yaml").write_text(mul)
    result = opgen("--table", tmp_path / "ops", "check")
    assert result.returncode == 0, result.stderr


def test_show_suggests_names():
    result = opgen("show", "softmx")
    assert result.returncode == 1 and "no op 'softmx'" in result.stderr
