"""Ops of one's own: functions that autograd, `vmap`, the meta device and graphs take as they take the library's.

    custom_op            the kernel: any Python (NumPy, ctypes, another library) over tensors
      .register_fake     shapes and types of the results, without numbers: for the meta device and for graphs
      .register_autograd the gradient
      .register_kernel   another kernel for some kinds of device
      .register_vmap     what it makes of a batch; without it, it is called once per sample

An op is called as the function was, and is found again as `flambeau.ops.<namespace>.<name>`. Names and meaning are `torch.library`'s.

>>> import numpy as np
>>> import flambeau as fl
>>> @fl.library.custom_op("docs::sine", mutates_args=())
... def sine(x: fl.Tensor) -> fl.Tensor:
...     return fl.from_numpy(np.sin(x.numpy()))
>>> @sine.register_fake
... def _(x):
...     return fl.empty_like(x)
>>> def setup_context(ctx, inputs, output):
...     ctx.save_for_backward(*inputs)
>>> def backward(ctx, grad):
...     (x,) = ctx.saved_tensors
...     return grad * x.cos()
>>> sine.register_autograd(backward, setup_context=setup_context)
>>> x = fl.zeros(2, requires_grad=True)
>>> fl.ops.docs.sine(x).sum().backward()
>>> x.grad
tensor([1., 1.])
"""

from __future__ import annotations

from flambeau.library._check import OpCheckError, opcheck
from flambeau.library._define import (
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    get_ctx,
    impl,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from flambeau.library._op import CustomOpDef
from flambeau.library._schema import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]
