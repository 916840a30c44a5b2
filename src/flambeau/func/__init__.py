"""Transformations of functions: derivatives of them, and batches for them, which compose."""

from __future__ import annotations

from flambeau.func._forward import hessian, jacfwd, jvp, linearize
from flambeau.func._reverse import grad, grad_and_value, jacrev, vjp
from flambeau.func._vmap import vmap
from flambeau.func import _rules_attributes, _rules_index, _rules_nn, _rules_products, _rules_shape  # noqa: F401

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
