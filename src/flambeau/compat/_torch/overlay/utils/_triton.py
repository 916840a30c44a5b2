"""`torch.utils._triton`: there are no Triton kernels here."""

from __future__ import annotations


def has_triton_package() -> bool:
    """False: Triton would compile for GPUs that are not here."""
    return False


def has_triton() -> bool:
    """False: no device takes Triton's kernels."""
    return False


def has_triton_tma() -> bool:
    """False: no device takes Triton's kernels."""
    return False


def has_triton_tma_device() -> bool:
    """False: no device takes Triton's kernels."""
    return False
