"""The older place of `func.functional_call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flambeau._warn import warn

if TYPE_CHECKING:
    from flambeau._C import Tensor
    from flambeau.nn.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None, kwargs: Mapping[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """`flambeau.func.functional_call`, with a warning.

    >>> import flambeau as fl
    >>> layer = fl.nn.Linear(2, 1)
    >>> fl.nn.utils.stateless.functional_call(layer, {"weight": fl.ones(1, 2), "bias": fl.zeros(1)}, fl.tensor([1.0, 2.0]))
    tensor([3.])
    """
    from flambeau.func import functional_call as call

    warn("nn.utils.stateless.functional_call is the older name of func.functional_call", FutureWarning)
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
