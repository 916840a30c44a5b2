"""What a backend needs to know of layers: their parameters and settings, by name, at the nodes that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import typename
from flambeau.fx.graph_module import GraphModule
from flambeau.nn.module import Module
from flambeau.nn.modules import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Linear, MaxPool2d, ReLU

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """An attribute's name in another version of its class: the same."""
    return name


# Class -> (the newest version that is known, names of attributes, what another version calls them). Programs may add to it.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    Linear: (1, ["weight", "bias"], default_matching),
    Conv2d: (1, ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"], default_matching),
    BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    AdaptiveAvgPool2d: (1, [], default_matching),
    MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"], default_matching),
    ReLU: (1, ["inplace"], default_matching),
}


def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """The attributes of a layer that `module_fetch_book` names, and its class under "name".

    >>> import flambeau as fl
    >>> extract_attrs_for_lowering(fl.nn.ReLU())
    {'name': 'flambeau.nn.modules.activation.ReLU', 'inplace': False}

    Raises:
        RuntimeError: the book does not have its class, or an older version of it.
    """
    kind, known = typename(mod), module_fetch_book.get(type(mod))
    if known is None:
        raise RuntimeError(f"extract_attrs_for_lowering: {kind} is not in module_fetch_book; add (version, names, default_matching) for it")
    version, names, matching = known
    if version < mod._version:
        raise RuntimeError(f"extract_attrs_for_lowering: {kind} has version {mod._version}, but module_fetch_book knows {version}")
    return {"name": kind, **{name: getattr(mod, matching(name, mod._version)) for name in names}}


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Puts `extract_attrs_for_lowering` of each layer at the nodes that call it, as `node.attrs_for_lowering`; also in modules inside."""
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            layer = fx_module.get_submodule(str(node.target))
            if isinstance(layer, GraphModule):
                lift_lowering_attrs_to_nodes(layer)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(layer)  # type: ignore[attr-defined]
