"""`flambeau.signal`: window functions of signals, in `flambeau.signal.windows`."""

from __future__ import annotations

from flambeau.signal import windows

__all__ = ["windows"]
