"""`torch.distributed.launcher`: starts processes that make a group. There are no groups here; packages name what they would start with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How many processes would be started, and how. It is kept for who asks."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None


def launch_agent(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no groups of processes.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("distributed.launcher: there are no groups of processes; torch.multiprocessing.spawn starts processes without one")


class elastic_launch:
    """Refused when it is called.

    Args:
        config: a `LaunchConfig`.
        entrypoint: what each process would call.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Any) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> NoReturn:
        launch_agent()
