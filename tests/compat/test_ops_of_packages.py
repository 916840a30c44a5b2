"""What packages with kernels of their own ask `torch.library` and `torch.jit` for, in a process where `torch` is this library."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def output_of(program):
    command = [sys.executable, "-c", "import flambeau.compat.torch\n" + textwrap.dedent(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


@pytest.mark.slow
def test_triton_ops_run_their_function():
    """spikingjelly registers its neurons so, also those for a CPU."""
    program = """
        import torch
        @torch.library.triton_op("t::plus", mutates_args=())
        def plus(x: torch.Tensor, n: int = 1) -> torch.Tensor:
            return x + n
        same = torch.library.triton_op("t::times", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
        torch.library.impl("t::times", "AutogradCPU", lambda x: x * 2)
        x = torch.ones(2, requires_grad=True)
        same(x).sum().backward()
        print(plus(x.detach(), n=2).tolist(), plus(torch.empty(2, 3, device="meta")).shape, x.grad.tolist())
    """
    assert output_of(program) == "[3.0, 3.0] torch.Size([2, 3]) [2.0, 2.0]\n"


@pytest.mark.slow
def test_a_function_for_autograd_calls_its_op_below():
    program = """
        import torch
        lib = torch.library.Library("t", "DEF")
        lib.define("square(Tensor x) -> Tensor")
        lib.impl("square", lambda x: x * x, "CPU")
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                with torch._C._AutoDispatchBelowAutograd():
                    return torch.ops.t.square(x)
            @staticmethod
            def backward(ctx, dy):
                return dy * 2 * ctx.saved_tensors[0]
        lib.impl("square", Square.apply, "Autograd")
        x = torch.tensor(3.0, requires_grad=True)
        torch.ops.t.square(x).backward()
        print(x.grad.item())
    """
    assert output_of(program) == "6.0\n"


@pytest.mark.slow
def test_torchscript_is_off():
    """brevitas asks before it scripts its functions."""
    program = """
        from torch.jit import _enabled
        import torch.jit._state
        print(bool(_enabled), _enabled.enabled, torch.jit._state._enabled is _enabled)
    """
    assert output_of(program) == "False False True\n"


@pytest.mark.slow
def test_tensors_with_a_mask_by_their_modules():
    program = """
        import torch
        from torch.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
        from torch.masked.maskedtensor.creation import as_masked_tensor
        print(MaskedTensor is torch.masked.MaskedTensor, as_masked_tensor is torch.masked.as_masked_tensor, torch.masked._ops._output_mask is not None)
    """
    assert output_of(program) == "True True True\n"


@pytest.mark.slow
def test_errors_of_the_compiler_can_be_caught():
    """lycoris names them before it compiles."""
    program = """
        import torch._dynamo
        caught = (torch._dynamo.exc.BackendCompilerFailed, torch._dynamo.exc.InternalTorchDynamoError, torch._dynamo.exc.Unsupported)
        try:
            torch.compile(lambda x: x + missing)(torch.ones(1))
        except caught:
            print("compiler")
        except NameError as error:
            print(error)
        print(all(issubclass(c, RuntimeError) for c in caught))
    """
    assert output_of(program) == "name 'missing' is not defined\nTrue\n"


@pytest.mark.slow
def test_gradients_of_convolutions_by_atens_name():
    """torchtnt counts multiplications of `aten.convolution_backward`."""
    program = """
        import torch
        print(type(torch.ops.aten) is torch._ops._OpNamespace)
        for transposed, groups, extra in ((False, 2, 0), (True, 1, 1)):
            x, weight = torch.randn(2, 4, 7, 7).double(), torch.randn(4 if transposed else 6, 3 if transposed else 2, 3, 3).double()
            bias = torch.randn(3 if transposed else 6).double()
            leaves = [t.requires_grad_() for t in (x, weight, bias)]
            how = ([2, 2], [1, 1], [1, 1], transposed, [extra] * 2, groups)
            y = torch.convolution(*leaves, *how)
            dy = torch.randn_like(y)
            wanted = torch.autograd.grad(y, leaves, dy)
            found = torch.ops.aten.convolution_backward(dy, x, weight, [len(bias)], *how, [True, True, True])
            print(all(torch.allclose(a, b) for a, b in zip(found, wanted)))
            with torch.no_grad():
                a, b, c = torch.ops.aten.convolution_backward.default(dy, x, weight, None, *how, [False, True, False])
            print(a, torch.allclose(b, wanted[1]), c, b.requires_grad)
            print(torch.ops.aten.convolution_backward(dy, x, weight, None, *how, [False, False, False]))
    """
    assert output_of(program).splitlines() == ["True", *(["True", "None True None False", "(None, None, None)"] * 2)]


@pytest.mark.slow
def test_a_kernel_that_needs_an_extension_gives_way_to_that_of_all_devices():
    """optimum-quanto unpacks numbers of 4 bits by one for CPUs, which it compiles, and has another."""
    program = """
        import torch
        from torch.utils.cpp_extension import load
        for name in ("with_other", "alone"):
            torch.library.define(f"t::{name}", "(Tensor x, int n) -> Tensor")
            torch.library.impl(f"t::{name}", "CPU", lambda x, n: load(name="lib", sources=["lib.cpp"]).unpack(x, n))
        torch.library.impl("t::with_other", "default", lambda x, n: x >> n)
        print(torch.ops.t.with_other(torch.tensor([16, 32]), 4).tolist())
        try:
            torch.ops.t.alone(torch.tensor([16]), 4)
        except NotImplementedError as error:
            print(str(error)[:28])
        a = torch.tensor([[127, -128], [1, 2]], dtype=torch.int8)
        print(torch._int_mm(a, a).tolist(), torch._int_mm(a, a).dtype)
        try:
            torch._int_mm(a, a.float())
        except RuntimeError as error:
            print(error)
    """
    assert output_of(program).splitlines() == [
        "[1, 2]", "cpp_extension.load('lib'): e", "[[16001, -16512], [129, -124]] torch.int32",
        "_int_mm: mat2 is torch.float32 of shape (2, 2); expected a matrix of int8 (int8_t)",
    ]  # fmt: skip
