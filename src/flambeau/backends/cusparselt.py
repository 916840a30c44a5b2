"""`torch.backends.cusparselt`: not a part of this library."""

__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
