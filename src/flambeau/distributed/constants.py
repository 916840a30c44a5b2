"""`torch.distributed.constants`: how long PyTorch's process groups wait. There are none here; packages have these as defaults of theirs."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout: timedelta | None = None
