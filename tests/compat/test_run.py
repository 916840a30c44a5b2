"""`flambeau run`: what a program sees of itself, tracebacks, and what is said of names that are not here."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.eager("programs in processes of their own")


def run(folder, text, name="program.py"):
    (folder / name).write_text(textwrap.dedent(text))
    return subprocess.run([sys.executable, "-m", "flambeau", "run", name, "--lr", "3"], capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.slow
def test_a_program_has_its_full_path_and_its_words(tmp_path):
    done = run(tmp_path, """\
        import sys, torch, warnings
        import __main__
        print(__file__, sys.argv, __name__, __main__.torch is torch, __spec__ if "__spec__" in globals() else None)
        warnings.warn("here")
        """)
    path = tmp_path / "program.py"
    assert done.stdout.split(maxsplit=1)[0] == str(path)
    assert done.stdout.rstrip().endswith("['program.py', '--lr', '3'] __main__ True None")
    assert done.stderr.startswith(f"{path}:4: UserWarning: here")


@pytest.mark.slow
def test_annotations_of_a_program_are_values(tmp_path):
    done = run(tmp_path, """\
        import torch
        from torch.utils.benchmark import Timer
        def f(x: torch.Tensor, n: int = 3): pass
        setup = "def g(x: int): pass"
        print(f.__annotations__["x"] is torch.Tensor, f.__annotations__["n"] is int)
        print(Timer("assert g.__annotations__['x'] is int", global_setup=setup).timeit(1).number_per_run)
        """)
    assert done.stdout.split() == ["True", "True", "1"], done.stderr


@pytest.mark.slow
def test_a_traceback_begins_in_the_program(tmp_path):
    done = run(tmp_path, """\
        import torch
        def f(x):
            return x.reshape(3)
        try:
            f(torch.ones(2))
        except RuntimeError as error:
            raise ValueError("mine") from error
        """)
    lines = done.stderr.splitlines()
    path = tmp_path / "program.py"
    assert done.returncode == 1 and "runpy" not in done.stderr and "run.py" not in done.stderr
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{path}", line 5, in <module>']
    second = lines.index("The above exception was the direct cause of the following exception:") + 2
    assert lines[second : second + 2] == ["Traceback (most recent call last):", f'  File "{path}", line 7, in <module>']
    assert lines[-1] == "ValueError: mine"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "last"), [("x = (\n", "SyntaxError"), ("import sys\nsys.exit('enough')\n", "enough")], ids=["syntax", "exit"])
def test_programs_that_end_early(tmp_path, text, last):
    done = run(tmp_path, text)
    assert done.returncode == 1 and last in done.stderr.splitlines()[-1] and "runpy" not in done.stderr


@pytest.mark.slow
def test_an_excepthook_of_the_program_is_called(tmp_path):
    done = run(tmp_path, "import sys\nsys.excepthook = lambda kind, error, trace: print(kind.__name__, error)\n1 / 0\n")
    assert done.stdout == "ZeroDivisionError division by zero\n" and done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("torch.solve", "torch.solve is not in flambeau: PyTorch removed it; use torch.linalg.solve(A, B)"),
        ("torch.nested.nested_tensor", "torch.nested is not in flambeau: there are no tensors of unequal lengths; nn.utils.rnn pads and packs"),
        ("torch.Linear", "torch.Linear is not in flambeau; torch.nn.Linear has this name"),
        ("torch.optim.StepLR", "torch.optim.StepLR is not in flambeau; torch.optim.lr_scheduler.StepLR has this name"),
        ("torch.gammaln", "torch.gammaln is not in flambeau; torch.special.gammaln has this name"),
        ("torch.cross_entropi", "torch.cross_entropi is not in flambeau"),
        ("from torch.sparse import to_sparse_semi_structured", "torch.sparse.to_sparse_semi_structured is not in flambeau: there are no kernels"),
        ("from torch.distributed.rpc import rpc_sync", "is not in flambeau: there are no calls between processes"),
        ("torch.nn.ReLU().save('x')", "'ReLU' object has no attribute 'save'"),
    ],
)
def test_what_is_not_here_says_what_to_do(tmp_path, statement, text):
    done = run(tmp_path, f"import torch\n{statement}\n")
    assert done.returncode == 1 and text in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "status", "text"), [
    ("torch.utils.collect_env", 0, "PyTorch version: 2.13.0+flambeau"),
    ("torch.utils.colect_env", 2, "-m torch.utils.colect_env; this module is not in flambeau; the nearest name is torch.utils.collect_env"),
    ("torch.distributed.run", 2, "-m torch.distributed.run; this module is not in flambeau"),
])  # fmt: skip
def test_modules_of_pytorch_are_run(module, status, text):
    done = subprocess.run([sys.executable, "-m", "flambeau", "run", "-m", module], capture_output=True, text=True, timeout=120)
    assert done.returncode == status and text in (done.stderr if status else done.stdout)


@pytest.mark.slow
def test_modules_of_benchmark_are_found(tmp_path):
    done = run(tmp_path, """\
        from torch.utils.benchmark.utils.common import Measurement
        from torch.utils.benchmark.utils.timer import Timer
        from torch.utils.benchmark import Measurement as known
        print(Measurement is known, Timer.__name__)
        """)
    assert done.stdout == "True Timer\n"


@pytest.mark.slow
def test_what_the_compiler_of_pytorch_would_write_is_kept_and_lists_are_mapped(tmp_path):
    done = run(tmp_path, """\
        import torch, torch._logging
        from torch._higher_order_ops.foreach_map import foreach_map
        torch._logging.set_logs(graph_code=True, dynamo=10)
        print(torch._logging.levels)
        torch._logging.set_logs()
        try:
            torch._logging.set_logs(graph="x")
        except ValueError as error:
            print(torch._logging.levels, error)
        print([x.tolist() for x in foreach_map(lambda a, b, c: a * b + c, [torch.ones(1), torch.ones(2)], [torch.ones(1), torch.ones(2)], 2)])
        try:
            foreach_map(torch.add, [torch.ones(1)], [])
        except ValueError as error:
            print(error)
        """)
    assert done.stdout.splitlines() == [
        "{'graph_code': True, 'dynamo': 10}",
        "{} set_logs: graph = 'x'; expected a level of logging or a bool",
        "[[3.0], [3.0, 3.0]]",
        "foreach_map: lists of [0, 1] tensors; expected lists of one length",
    ], done.stderr


@pytest.mark.slow
def test_loops_as_functions_are_found(tmp_path):
    done = run(tmp_path, """\
        import torch
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops import cond, while_loop
        from torch._higher_order_ops.while_loop import while_loop as again
        from functorch.experimental.control_flow import map, cond as branch
        print(cond is torch.cond, branch is torch.cond, while_loop is again is torch.while_loop)
        x = torch.arange(12.0).reshape(3, 4).requires_grad_()
        c, y = scan(lambda c, x: (c + x, (c * x).sum()), torch.zeros(4), x)
        (c.sum() + y.sum()).backward()
        print(c.tolist(), y.tolist(), x.grad[0].tolist())
        c, y = scan(lambda c, x: ({"a": c["a"] * 0.5 + x}, [x * 2, c["a"].clone()]), {"a": torch.ones(2)}, torch.arange(6.0).reshape(2, 3), dim=1, reverse=True)
        print(c["a"].tolist(), y[0].tolist(), y[1].tolist())
        print([r.tolist() for r in map(lambda x, w: (x * w, x.sum()), torch.arange(4.0).reshape(2, 2), torch.tensor([2.0, 3.0]))])
        for wrong in (lambda: scan(lambda c, x: c, torch.zeros(1), torch.ones(2)), lambda: scan(lambda c, x: ([c], x), torch.zeros(1), torch.ones(2)),
                      lambda: map(lambda x: x, torch.ones(0, 2))):
            try:
                wrong()
            except RuntimeError as error:
                print(error)
        print(torch.nn.functional.grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2)).tolist())
        """)
    assert done.stdout.splitlines() == [
        "True True True",
        "[12.0, 15.0, 18.0, 21.0] [0.0, 38.0, 276.0] [13.0, 15.0, 17.0, 19.0]",
        "[1.125, 6.375] [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] [[2.25, 2.5, 1.0], [6.75, 5.5, 1.0]]",
        "[[[0.0, 3.0], [4.0, 9.0]], [1.0, 5.0]]",
        "scan: combine_fn returned a Tensor; expected (carry, y)",
        "scan: combine_fn returned a carry of another structure than init's",
        "map: the tensors of xs have [0] slices along dim = 0; expected as many of each, and at least one",
        "[[[1.0, 2.0, 1.0]]]",
    ], done.stderr


@pytest.mark.slow
def test_switches_of_long_ago_answer(tmp_path):
    done = run(tmp_path, """\
        import torch
        x = torch.ones(1)
        x.volatile = True
        print(x.volatile, torch.has_cuda, torch.has_mps, torch.has_cudnn, torch.has_mkldnn == torch.backends.mkldnn.is_available())
        """)
    assert done.stdout == "False False False False True\n" and "volatile: PyTorch removed it" in done.stderr


@pytest.mark.slow
def test_a_helper_of_packed_sequences_is_found(tmp_path):
    done = run(tmp_path, """\
        import torch
        from torch.nn.modules.rnn import apply_permutation
        print(apply_permutation(torch.tensor([[1, 2, 3]]), torch.tensor([2, 0, 1])).tolist())
        """)
    assert done.stdout == "[[3, 1, 2]]\n" and "apply_permutation is deprecated" in done.stderr


@pytest.mark.slow
def test_programs_that_it_starts_find_torch_too(tmp_path):
    """Launchers, and systems with workers of their own, start Python anew: what they import is this library, functorch included."""
    done = run(tmp_path, """\
        import subprocess, sys
        code = ("import torch, torch.nn as nn, functorch, flambeau, importlib.metadata; from torch.utils.data import DataLoader; "
                "print(torch.ones is flambeau.ones, nn.Linear is flambeau.nn.Linear, importlib.metadata.version('torch') == torch.__version__)")
        subprocess.run([sys.executable, "-c", code], check=True)
        """)
    assert done.stdout == "True True True\n", done.stderr


@pytest.mark.slow
def test_a_program_in_an_environment_without_this_library_keeps_its_torch(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "torch.py").write_text("who = 'its own'\n")
    done = run(tmp_path, """\
        import subprocess, sys
        code = "import sys; sys.path.append('elsewhere'); import torch; print(torch.who)"
        subprocess.run([sys.executable, "-S", "-c", code], check=True)
        """)
    assert done.stdout == "its own\n", done.stderr
