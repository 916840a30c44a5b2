"""`torchgpipe.batchnorm`."""

from __future__ import annotations

from flambeau.pipeline.batchnorm import DeferredBatchNorm

__all__ = ["DeferredBatchNorm"]
