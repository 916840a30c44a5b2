"""`torchgpipe.balance`."""

from __future__ import annotations

from flambeau.pipeline.balance import balance_by_size, balance_by_time

__all__ = ["balance_by_size", "balance_by_time"]
