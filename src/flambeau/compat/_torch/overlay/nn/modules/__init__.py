"""What `torch.nn.modules` has beyond `flambeau.nn.modules`."""

from __future__ import annotations

from typing import Any

from flambeau._C import DeviceError, Tensor
from flambeau.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from flambeau.nn.module import Module
from flambeau.nn.modules.norm import _BatchNorm

__all__ = ["Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential", "SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose statistics are those of all processes, which PyTorch computes on GPUs alone. In evaluation it is batch norm.

    Raises:
        DeviceError: it is called in training.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            raise DeviceError("SyncBatchNorm: training needs GPUs and a process group, and there are none here; use BatchNorm2d, or eval()")
        return super().forward(x)  # type: ignore[no-any-return]

    def _check_input_dim(self, x: Tensor) -> None:
        if x.ndim < 2:
            raise ValueError(f"SyncBatchNorm: x has {x.ndim} axes; expected at least 2")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module with every batch norm made one of this class, of the same parameters and statistics."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            made.__dict__.update({k: v for k, v in module.__dict__.items() if k not in made.__dict__ or k in ("_parameters", "_buffers", "training")})
            return made
        for name, child in module.named_children():
            module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module
