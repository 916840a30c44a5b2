"""`torch.distributed.fsdp`: parameters spread over processes, of which there are none. Classes can be named and asked about, and what says
how parameters shall be spread, which programs read from their configuration before they ask for processes, is kept."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from flambeau.nn.modules.norm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType", "fully_shard",
]  # fmt: skip


def fully_shard(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there is no process group whose processes could have parts of a module.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "distributed.fsdp: there is no process group whose processes could have parts of a module; flambeau.pipeline trains over several "
        "processes"
    )


class FSDPModule:
    """A module whose parameters are spread; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: there is no process group whose processes could have parts of a module."""
        fully_shard()


class FullyShardedDataParallel(FSDPModule):
    """The older class of these."""


class MixedPrecisionPolicy(FSDPModule):
    """With which types such a module computes; of use to `fully_shard` alone, and refused with it."""


class OffloadPolicy(MixedPrecisionPolicy):
    """Where such a module keeps its parameters."""


class CPUOffloadPolicy(OffloadPolicy):
    """In the host's memory."""


class ShardingStrategy(enum.Enum):
    """What is spread: parameters, gradients and the optimizer's state; without the parameters; nothing; the first within a machine."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """Whether the next parameters are fetched before or after a gradient is computed."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """What a process's state_dict has: all, its part, or its part with places."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """By what an optimizer's state is found."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclass
class MixedPrecision:
    """With which types modules shall compute."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters shall lie in the host's memory."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a state_dict shall be made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Of all parameters."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of a process's part."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of a process's part, with places."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state_dict shall be made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Of all parameters."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of a process's part."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of a process's part, with places."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The three choices together."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
