"""The names that PyTorch has here as well; see `flambeau.profiler`."""

from __future__ import annotations

from flambeau.profiler import profile, record_function

__all__ = ["profile", "record_function"]
