"""`torch.distributed.fsdp`: parameters spread over processes, of which there are none. Classes can be named and asked about."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard"]


def fully_shard(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "distributed.fsdp: there is no process group whose processes could have parts of a module; flambeau.pipeline trains over several "
        "processes"
    )


class FSDPModule:
    """A module whose parameters are spread; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fully_shard()


class FullyShardedDataParallel(FSDPModule):
    """The older class of these."""


class MixedPrecisionPolicy(FSDPModule):
    """With which types such a module computes; of use to `fully_shard` alone, and refused with it."""


class OffloadPolicy(MixedPrecisionPolicy):
    """Where such a module keeps its parameters."""


class CPUOffloadPolicy(OffloadPolicy):
    """In the host's memory."""
