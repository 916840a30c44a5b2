"""Helpers that are not about tensors: data loading, checkpointing."""

from flambeau.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
