"""CUDA's switches, among them which kernels compute attention.

There is no CUDA backend, and one kernel of attention: they are kept and change nothing.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from flambeau.backends._switches import Operation


class _Matmul(Operation):
    """How a GPU multiplies matrices."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False


matmul = _Matmul()


def is_built() -> bool:
    """False: this build has no CUDA backend."""
    return False


_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _switch(kind: str) -> tuple[Any, Any]:
    def enable(enabled: bool) -> None:
        _kernels[kind] = bool(enabled)

    def is_enabled() -> bool:
        return _kernels[kind]

    enable.__name__ = enable.__qualname__ = f"enable_{kind}_sdp"
    enable.__doc__ = "Keeps the choice. There is one kernel of attention, whichever is asked for."
    is_enabled.__name__ = is_enabled.__qualname__ = f"{kind}_sdp_enabled"
    is_enabled.__doc__ = f"What `{enable.__name__}` was told; True at first."
    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


class _LinalgBackend(enum.IntEnum):
    Default = 0
    Cusolver = 1
    Magma = 2


def preferred_linalg_library(backend: str | _LinalgBackend | None = None) -> _LinalgBackend:
    """The library that would solve linear systems on a GPU: "default" is all that can be asked for without one.

    Raises:
        RuntimeError: another name.
    """
    if backend not in (None, "default", _LinalgBackend.Default):
        raise RuntimeError(f"preferred_linalg_library: backend = {backend!r}; expected 'default', since there is no CUDA backend")
    return _LinalgBackend.Default


class _BlasBackend(enum.IntEnum):
    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


def preferred_blas_library(backend: str | _BlasBackend | None = None) -> _BlasBackend:
    """The library that would multiply matrices on a GPU: "default" is all that can be asked for without one.

    Raises:
        RuntimeError: another name.
    """
    if backend not in (None, "default", _BlasBackend.Default):
        raise RuntimeError(f"preferred_blas_library: backend = {backend!r}; expected 'default', since there is no CUDA backend")
    return _BlasBackend.Default


def is_flash_attention_available() -> bool:
    """False: PyTorch's kernel for a GPU is not here."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """False: PyTorch's kernel for a GPU is not here."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """False: PyTorch's kernel for a GPU is not here."""
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """False: cuDNN is not here."""
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """A region with these switches, which change nothing.

    >>> import flambeau as fl
    >>> with fl.backends.cuda.sdp_kernel(enable_flash=False):
    ...     fl.backends.cuda.flash_sdp_enabled()
    False
    """
    before = dict(_kernels)
    _kernels.update(flash=bool(enable_flash), math=bool(enable_math), mem_efficient=bool(enable_mem_efficient), cudnn=bool(enable_cudnn))
    try:
        yield
    finally:
        _kernels.update(before)
