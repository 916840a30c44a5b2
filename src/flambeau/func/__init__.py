"""Transformations of functions: derivatives of them, and batches for them. They compose.

>>> import flambeau as fl
>>> from flambeau.func import grad, vmap
>>> loss = lambda w, x, y: (x @ w - y) ** 2
>>> x, y = fl.tensor([[1.0, 0.0], [1.0, 2.0]]), fl.tensor([1.0, 0.0])
>>> vmap(grad(loss), in_dims=(None, 0, 0))(fl.zeros(2), x, y)  # a gradient per sample
tensor([[-2.,  0.],
        [ 0.,  0.]])

`docs/func.md` is the guide. Derivatives by reverse mode are `_reverse.py`, by forward mode `_forward.py`; what stands for values inside
of transformations is in `_levels.py`, `_batched.py` and `_dual.py`, and rules for batches in `_rules_*.py`.
"""

from __future__ import annotations

from flambeau.func import (  # noqa: F401
    _rules_attributes,
    _rules_index,
    _rules_linalg,
    _rules_nn,
    _rules_products,
    _rules_shape,
)
from flambeau.func._forward import hessian, jacfwd, jvp, linearize
from flambeau.func._functionalize import functionalize
from flambeau.func._modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from flambeau.func._rearrange import rearrange
from flambeau.func._reverse import grad, grad_and_value, jacrev, vjp
from flambeau.func._vmap import vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
