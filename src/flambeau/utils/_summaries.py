"""What one event of a `SummaryWriter` holds, as tensorboardX makes it. Loggers of packages give such to the writer's file by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau._C import Tensor
from flambeau.utils.tensorboard import _plain

__all__ = ["hparams", "histogram", "image", "scalar", "text"]


def _made(kind: str, *args: Any, **options: Any) -> Any:
    from tensorboardX import summary

    return getattr(summary, kind)(*map(_plain, args), **options)


def hparams(hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None) -> Any:
    """What a run was made with and what came out, as three events. What values there may be (`hparam_domain_discrete`) is not written.

    Raises:
        TypeError: one of them is no dict.
    """
    given = {"hparam_dict": hparam_dict, "metric_dict": metric_dict, "hparam_domain_discrete": hparam_domain_discrete or {}}
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"hparams: {name} is a {type(value).__name__}; expected a dict")
    return _made("hparams", {key: value.item() if isinstance(value, Tensor) else value for key, value in hparam_dict.items()}, metric_dict)


def scalar(name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number."""
    return _made("scalar", name, float(tensor))


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How the elements of a tensor are distributed."""
    return _made("histogram", name, values, bins, max_bins)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or several side by side, its axes as `dataformats` names them."""
    return _made("image", tag, tensor, rescale, dataformats=dataformats)


def text(tag: str, text: str) -> Any:
    """A text, in Markdown."""
    return _made("text", tag, text)
