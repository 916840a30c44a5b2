"""Helpers that are not about tensors: data loading."""

from flambeau.utils import data

__all__ = ["data"]
