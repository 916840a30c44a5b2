"""`torch.__config__`: what this build is."""

from __future__ import annotations

from flambeau import _C
from flambeau._info import show_config

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions, processor features in use, threads, oneDNN: `flambeau.show_config()`."""
    return show_config()


def parallel_info() -> str:
    """How many threads work at one op, and who said so."""
    return f"at::get_num_threads() : {_C.get_num_threads()}\nfound by : {_C.threads_origin()}\nbackend : flambeau's own threads\n"
