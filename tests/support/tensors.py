"""Tensors that many tests begin with."""

from __future__ import annotations

import numpy as np

import flambeau as fl


def doubles(values):
    """A tensor of float64."""
    return fl.tensor(np.asarray(values, dtype=np.float64))


def leaf(*values, dtype=fl.float64):
    """A vector of these values that requires grad."""
    return fl.tensor(list(values), dtype=dtype, requires_grad=True)
