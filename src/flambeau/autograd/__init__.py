"""Automatic differentiation: running it, switching it off, extending it, checking it."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from flambeau import _C
from flambeau.autograd import functional, graph
from flambeau.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from flambeau.autograd.backward import backward, grad
from flambeau.autograd.function import Function, FunctionCtx, once_differentiable
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck
from flambeau.autograd.modes import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from flambeau.autograd.variable import Variable

if _typing.TYPE_CHECKING:
    from flambeau.autograd import forward_ad


def _is_checkpoint_valid() -> bool:
    """Whether no backward that computes gradients of given inputs alone runs on this thread: reentrant checkpoints ask."""
    return not _C.runs_for_inputs()


def __getattr__(name: str) -> _typing.Any:
    if name in ("forward_ad", "profiler", "profiler_util"):
        return _importlib.import_module(f"flambeau.autograd.{name}")
    raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'")


__all__ = [
    "Function",
    "FunctionCtx",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
