"""Switches of PyTorch's backends: they can be read and set, and change nothing here."""

from flambeau.backends import cuda, cudnn, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]
