"""Apple's GPU, by name: this build has none."""


def is_available() -> bool:
    """False: this build has no MPS backend."""
    return False


def is_built() -> bool:
    """False: this build has no MPS backend."""
    return False
