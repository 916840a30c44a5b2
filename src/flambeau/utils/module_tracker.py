"""`torch.utils.module_tracker`: which modules run at the moment, forward or backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import _running
from flambeau._C import Tensor
from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

__all__ = ["ModuleTracker"]


def _with_gradients(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _with_gradients(part)


class ModuleTracker:
    """While its region is open, `parents` says which modules run: in forward, and in the backward of what ran forward in the region.

    A module's name is its class's where it was called from outside, and the path from there else ("Net.layers.0"). "Global" is always
    among them. A backward that reaches no input of a module leaves it in `parents` until the backward ends.

    Example:
        >>> import flambeau as fl
        >>> net = fl.nn.Sequential(fl.nn.Linear(2, 2))
        >>> with ModuleTracker() as tracker:
        ...     handle = net[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents), tracker.is_bw))
        ...     y = net(fl.ones(1, 2))
        ['Global', 'Sequential', 'Sequential.0'] False
        >>> handle.remove()
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._fl_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._fl_handles: list[Any] = []
        self._fl_reset_at: Any = None  # the backward at whose end only "Global" is left

    @property
    def is_bw(self) -> bool:
        """Whether a backward runs in this thread."""
        return _running.is_running()

    def _fl_name(self, module: Any) -> str:
        if module not in self._fl_names:
            self._fl_names[module] = type(module).__name__
        for path, child in module.named_children():
            self._fl_names.setdefault(child, f"{self._fl_names[module]}.{path}")
        return self._fl_names[module]

    def _fl_at_gradients(self, value: Any, change: Callable[[], None]) -> None:
        tensors = list(_with_gradients(value))
        if tensors:
            self._fl_handles.append(register_multi_grad_hook(tensors, lambda gradients: change()))

    def _fl_enter_backward(self, name: str) -> None:
        run = _running.innermost()
        if self._fl_reset_at is not run:
            self._fl_reset_at = run
            run.at_end.append(self._fl_reset)
        self.parents.add(name)

    def _fl_reset(self) -> None:
        self.parents, self._fl_reset_at = {"Global"}, None

    def _fl_before(self, module: Any, args: Any) -> None:
        name = self._fl_name(module)
        self.parents.add(name)
        self._fl_at_gradients(args, lambda: self.parents.discard(name))

    def _fl_after(self, module: Any, args: Any, output: Any) -> None:
        name = self._fl_name(module)
        self.parents.discard(name)
        self._fl_at_gradients(output, lambda: self._fl_enter_backward(name))

    def __enter__(self) -> ModuleTracker:
        _running.will_ask()
        self._fl_handles += [register_module_forward_pre_hook(self._fl_before), register_module_forward_hook(self._fl_after)]
        return self

    def __exit__(self, *error: object) -> None:
        while self._fl_handles:
            self._fl_handles.pop().remove()
