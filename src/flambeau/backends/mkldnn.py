"""oneDNN, under its older name."""

from flambeau import _C

enabled = True


def is_available() -> bool:
    """True if this build multiplies and convolves with oneDNN."""
    return bool(_C.onednn_version())
