"""`torch._functorch.deprecated`: the names of `functorch`, which warn where they are called and do what `torch.func` does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import func
from flambeau._warn import warn
from flambeau.compat._torch.overlay._functorch import make_functional as _modules

__all__ = [
    "combine_state_for_ensemble", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def _moved(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    name = function.__name__

    @functools.wraps(function)
    def older(*args: Any, **kwargs: Any) -> Any:
        warn(f"functorch.{name} is deprecated: it moved into torch; use {instead}", FutureWarning)
        return function(*args, **kwargs)

    return older


vmap = _moved(func.vmap, "torch.vmap")
grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp = (
    _moved(function, f"torch.func.{function.__name__}")
    for function in (func.grad, func.grad_and_value, func.hessian, func.jacfwd, func.jacrev, func.jvp, func.vjp)
)
make_functional = _moved(_modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(_modules.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _moved(_modules.combine_state_for_ensemble, "torch.func.stack_module_state")
