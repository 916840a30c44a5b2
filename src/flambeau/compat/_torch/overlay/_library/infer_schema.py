"""`torch._library.infer_schema`: the function of `torch.library` where it is written in PyTorch."""

from __future__ import annotations

from flambeau.library import infer_schema

__all__ = ["infer_schema"]
