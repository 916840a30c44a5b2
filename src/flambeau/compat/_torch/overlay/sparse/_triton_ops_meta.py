"""`torch.sparse._triton_ops_meta`: parameters of Triton's kernels, which are not here."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"sparse._triton_ops_meta.{name}: it is about kernels of Triton, which are not here (has_triton() is False)")


def get_meta(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no kernels to have parameters."""
    _refuse("get_meta")


def minimize(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no kernels to be tuned."""
    _refuse("minimize")


def update(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no kernels to have parameters."""
    _refuse("update")
