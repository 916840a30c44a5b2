"""`torch.nn.parallel`: one process, no GPU."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau import _C
from flambeau._C import DeviceError
from flambeau.nn.module import Module
from flambeau.nn.parallel._replicas import parallel_apply, replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


class DataParallel(Module):
    """A batch spread over GPUs. Without a GPU it calls the module, as PyTorch's does.

    Raises:
        DeviceError: GPUs are named.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        if device_ids:
            raise DeviceError(f"DataParallel: device_ids = {device_ids!r}, but this build of flambeau has no CUDA backend; leave it out")
        self.module, self.dim, self.output_device = module, dim, None
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def replicate(self, module: Module, device_ids: Any) -> list[Any]:
        """One copy for each device, of which there can be none here."""
        return replicate(module, device_ids, not _C.is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """Refused: see `scatter_kwargs`."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> list[Any]:
        """Calls each replica with its inputs."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)] or None)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Refused: see `gather`."""
        return gather(outputs, output_device, self.dim)


class DistributedDataParallel(Module):
    """Refused: there are no process groups."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "DistributedDataParallel: there is no data-parallel training here; flambeau.pipeline trains over several processes"
        )


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Calls the module as `DataParallel` does.

    Raises:
        DeviceError: GPUs are named.
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
