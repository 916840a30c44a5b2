"""`torch.backends.openmp`."""

__all__ = ["is_available"]


def is_available() -> bool:
    """True: loops over threads run in OpenMP's pool."""
    return True
