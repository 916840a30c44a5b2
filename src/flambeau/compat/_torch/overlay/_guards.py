"""`torch._guards`: what PyTorch's compiler knows while it traces. Nothing is traced here."""

from __future__ import annotations

from typing import Any


def active_fake_mode() -> None:
    """None: there are no fake tensors."""


def detect_fake_mode(inputs: Any = None) -> None:
    """None: no tensor is a fake one."""
