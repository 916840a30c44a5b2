"""`torch.distributed.fsdp.wrap`: which modules of a model would be spread on their own. Policies are questions, and answered; training
scripts name them before they know whether there are several processes. What they would be wrapped with is refused in `distributed.fsdp`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from flambeau.nn.containers import ModuleDict, ModuleList
from flambeau.nn.module import Module
from flambeau.nn.modules.attention import MultiheadAttention

__all__ = [
    "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy", "wrap",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """True."""
    return True


class ModuleWrapPolicy:
    """Wraps modules of some classes; every other one is looked into.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributed._fsdp_wrap import ModuleWrapPolicy
        >>> policy = ModuleWrapPolicy({fl.nn.Linear})
        >>> policy(fl.nn.Linear(1, 1), False), policy(fl.nn.ReLU(), False), policy(fl.nn.ReLU(), True)
        (True, False, True)
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]) -> bool:
    """Wraps what a function says; every module is looked into."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type[Module]]
) -> bool:  # fmt: skip
    """Wraps modules of the classes of a model's blocks; every module is looked into."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Collection[type[Module]] | None = None,
    exclude_wrap_modules: Collection[type[Module]] | None = None,
) -> bool:
    """Wraps what has `min_num_params` elements that nothing inside of it wraps, but no lists and dicts of modules.

    Attention is not looked into.
    """
    if recurse:
        whole = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    else:
        whole = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(whole))


_wrapper: tuple[Callable[..., Any], dict[str, Any]] | None = None  # of the innermost region


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A region in which `wrap` makes a `wrapper_cls` of a module, with these arguments."""
    global _wrapper
    before, _wrapper = _wrapper, (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _wrapper = before


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """The module in the wrapper of the region around the call; outside of one the module itself."""
    if _wrapper is None:
        return module
    wrapper, options = _wrapper
    return wrapper(module, **{**options, **wrap_overrides})
