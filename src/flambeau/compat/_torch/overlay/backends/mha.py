"""`torch.backends.mha`: a fast path of PyTorch's attention layers, which is not here."""

__all__ = ["get_fastpath_enabled"]


def get_fastpath_enabled() -> bool:
    """False: there is one path."""
    return False


def set_fastpath_enabled(value: bool) -> None:
    """There is one path, whichever is asked for."""
