"""Apple's GPU, by name: this build has none."""

from typing import NoReturn

from flambeau._C import DeviceError


def is_available() -> bool:
    """False: this build has no MPS backend."""
    return False


def is_built() -> bool:
    """False: this build has no MPS backend."""
    return False


def is_macos_or_newer(major: int, minor: int) -> NoReturn:
    """Refused: there is no MPS backend that could be asked."""
    raise DeviceError("backends.mps.is_macos_or_newer: this build of flambeau has no MPS backend")
