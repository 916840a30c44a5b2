"""Errors of a program that was written for PyTorch name what it has: `Tensor` and `torch.nn.Parameter`, not the library behind them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.eager("programs in processes of their own")

SAID = (
    ("torch.ones(2).sofmax", "AttributeError: 'Tensor' object has no attribute 'sofmax'"),
    ("torch.Size([2]).wide", "AttributeError: 'Size' object has no attribute 'wide'"),
    ("torch.ones(2).new_thing()", "AttributeError: 'Tensor' object has no attribute 'new_thing'"),
    ("'a' + torch.ones(2)", 'TypeError: can only concatenate str (not "Tensor") to str'),
    ("setattr(torch.nn.Linear(1, 1), 'weight', torch.ones(1))", "as parameter 'weight' (torch.nn.Parameter or None expected)"),
    ("setattr(torch.nn.Sequential(torch.nn.ReLU()), '0', 3)", "as child module '0' (torch.nn.Module or None expected)"),
    ("torch.nn.Linear(1, 1).register_parameter('scale', torch.ones(1))", "(torch.nn.Parameter or None required)"),
    ("torch.nn.Parameter([1.0])", "expected a Tensor (wrap it: torch.tensor(data))"),
    ("torch.Tensor(2, device='meta')", "use torch.empty(..., device=...)"),
    ("torch.ones(2, 2).to_sparse(layout=3)", "expected None, torch.sparse_coo or one of torch.sparse_csr, torch.sparse_csc"),
)


@pytest.fixture(scope="module")
def errors():
    program = textwrap.dedent(f"""\
        import flambeau.compat.torch
        import torch
        for program in {[program for program, _ in SAID]!r}:
            try:
                print("no error", eval(program))
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}".replace("\\n", " "))
        print(torch.Tensor, torch.Tensor.__qualname__)
        """)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(SAID)), ids=[program for program, _ in SAID])
def test_an_error_says_pytorchs_names(errors, place):
    assert SAID[place][1] in errors[place]


def test_types_keep_their_place(errors):
    assert errors[-1] == "<class 'torch.Tensor'> Tensor"
