"""`torchgpipe.skip`."""

from __future__ import annotations

from flambeau.pipeline.skip import Namespace, pop, skippable, stash, verify_skippables

__all__ = ["Namespace", "pop", "skippable", "stash", "verify_skippables"]
