"""Layers that stand one behind the other, put into one place of a model.

    conv, bn, relu     ->  ConvReLU2d(conv with bn folded in, relu), Identity, Identity        fuse_modules, in evaluation
                       ->  ConvBnReLU2d(conv, bn, relu), Identity, Identity                    fuse_modules_qat, in training
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._errors import AssertedValueError, NotThereError
from flambeau.ao.nn import intrinsic
from flambeau.nn.module import Module
from flambeau.nn.modules.activation import ReLU
from flambeau.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.nn.modules.linear import Identity, Linear
from flambeau.nn.modules.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from flambeau.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

Kinds = tuple[type[Module], ...]
# The container of layers of these kinds.
_HELD: dict[Kinds, Any] = {
    (Conv1d, ReLU): intrinsic.ConvReLU1d, (Conv2d, ReLU): intrinsic.ConvReLU2d, (Conv3d, ReLU): intrinsic.ConvReLU3d,
    (BatchNorm2d, ReLU): intrinsic.BNReLU2d, (BatchNorm3d, ReLU): intrinsic.BNReLU3d, (Linear, ReLU): intrinsic.LinearReLU,
}  # fmt: skip
# The same with a batch norm behind the first, which training keeps apart.
_TRAINED: dict[Kinds, Any] = {
    (Conv1d, BatchNorm1d): intrinsic.ConvBn1d, (Conv2d, BatchNorm2d): intrinsic.ConvBn2d, (Conv3d, BatchNorm3d): intrinsic.ConvBn3d,
    (Conv1d, BatchNorm1d, ReLU): intrinsic.ConvBnReLU1d, (Conv2d, BatchNorm2d, ReLU): intrinsic.ConvBnReLU2d,
    (Conv3d, BatchNorm3d, ReLU): intrinsic.ConvBnReLU3d, (Linear, BatchNorm1d): intrinsic.LinearBn1d,
}  # fmt: skip
_TRANSPOSED: tuple[Kinds, ...] = ((ConvTranspose1d, BatchNorm1d), (ConvTranspose2d, BatchNorm2d), (ConvTranspose3d, BatchNorm3d))


def _fused(layers: Sequence[Any], is_qat: bool) -> Any:
    """One module that does what the layers do."""
    kinds = tuple(type(layer) for layer in layers)
    if kinds in _HELD:
        return _HELD[kinds](*layers)
    known = (kinds in _TRAINED or kinds in _TRANSPOSED) and not (is_qat and kinds in _TRANSPOSED)
    if not known:
        raise NotThereError(f"fuse_modules: Cannot fuse modules: {', '.join(kind.__name__ for kind in kinds)}; expected {_WANTED}")
    layer, norm, *others = layers
    if layer.training != norm.training:
        modes = " and ".join("training" if part.training else "in evaluation" for part in (layer, norm))
        raise AssertedValueError(f"fuse_modules: the layer and the batch norm are {modes}; expected both in one mode (train() or eval())")
    if is_qat:
        return _TRAINED[kinds](*layers)
    if kinds[0] is Linear:
        return fuse_linear_bn_eval(layer, norm)
    folded = fuse_conv_bn_eval(layer, norm, kinds in _TRANSPOSED)
    return _HELD[kinds[0], ReLU](folded, *others) if others else folded


_WANTED = "a convolution, or a linear layer, with a batch norm or a ReLU behind it, or a convolution with both"


def fuse_known_modules(mod_list: Sequence[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """What stands in the places of these layers then: one module, which has the hooks that ran before the first and behind the last, and
    `Identity` in all others.

    Raises:
        NotImplementedError: layers of other kinds, or a mapping of further ones.
        ValueError: the layer and the batch norm are in different modes.
    """
    if additional_fuser_method_mapping:
        raise NotThereError("fuse_modules: additional_fuser_method_mapping is given; expected None, as the kinds that are fused are known")
    first, last = mod_list[0], mod_list[-1]
    before = [(hook, key in first._forward_pre_hooks_with_kwargs) for key, hook in first._forward_pre_hooks.items()]
    behind = [(hook, key in last._forward_hooks_with_kwargs) for key, hook in last._forward_hooks.items()]
    made = _fused(mod_list, is_qat)
    for module in (first, made, *list(made.children())[:1]):  # among them a copy of the first
        module._forward_pre_hooks.clear()
    last._forward_hooks.clear()
    for hook, with_kwargs in before:
        made.register_forward_pre_hook(hook, with_kwargs=with_kwargs)
    for hook, with_kwargs in behind:
        made.register_forward_hook(hook, with_kwargs=with_kwargs)
    others = [Identity() for _ in mod_list[1:]]
    for module in others:
        module.training = first.training
    return [made, *others]


def _fuse(model: Module, groups: Any, is_qat: bool, inplace: bool, fuser: Callable[..., Any], custom: Any) -> Module:
    if custom and any(custom.values()):
        raise NotThereError("fuse_modules: fuse_custom_config_dict is given; expected None, as the kinds that are fused are known")
    model = model if inplace else copy.deepcopy(model)
    for names in [groups] if groups and isinstance(groups[0], str) else groups:
        fused = fuser([model.get_submodule(name) for name in names], is_qat, None)
        for name, module in zip(names, fused, strict=True):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, module)
    return model


def fuse_modules(
    model: Module, modules_to_fuse: Any, inplace: bool = False, fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """A copy of a model in evaluation with fewer layers: batch norms are folded into what is before them.

    Args:
        modules_to_fuse: names of layers that are called one behind the other, or a list of such lists.
        inplace: it is the model itself.
        fuser_func: makes modules of layers: `fuse_known_modules`, or what has its arguments.

    Raises:
        NotImplementedError: layers of other kinds.
        ValueError: a layer with a batch norm, of which one is training.

    Example:
        >>> import flambeau as fl
        >>> model = fl.nn.Sequential(fl.nn.Linear(2, 3), fl.nn.BatchNorm1d(3)).eval()
        >>> fl.ao.quantization.fuse_modules(model, ["0", "1"])
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): Identity()
        )
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Module, modules_to_fuse: Any, inplace: bool = False, fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """The same of a model that is trained: batch norms stay layers of their own, in one container with what is before them."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
