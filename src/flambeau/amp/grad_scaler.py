"""`GradScaler`: scales a loss up before backward and gradients down after it.

float16 ends at 6e-8 below and at 65504 above. Gradients below vanish, so the loss is multiplied by a large
number first. The number is found by trying: it grows after some steps without infinities, and shrinks
after one with, which is skipped. bfloat16 has float32's range and needs none of this.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterable
from typing import Any

from flambeau import _C, _from_data
from flambeau._C import Tensor
from flambeau._errors import AssertedRuntimeError, AssertedValueError
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.autograd import no_grad

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What happened to an optimizer's gradients since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Keeps gradients of float16 computations from vanishing, and skips steps whose gradients are not finite.

    Args:
        device: 'cpu'. With 'cuda' it warns and is switched off, as there is no GPU in this build.
        init_scale: what the loss is multiplied by at first.
        growth_factor: by how much the scale grows after `growth_interval` finite steps in a row.
        backoff_factor: by how much it shrinks after a step that was skipped.
        enabled: False: `scale` returns its argument and `step` is the optimizer's.

    Example:
        >>> import flambeau as fl
        >>> layer = fl.nn.Linear(4, 2)
        >>> optimizer = fl.optim.SGD(layer.parameters(), lr=0.1)
        >>> scaler = fl.amp.GradScaler("cpu", init_scale=1024.0)
        >>> with fl.autocast("cpu", dtype=fl.float16):
        ...     loss = layer(fl.ones(3, 4)).float().square().mean()
        >>> scaler.scale(loss).backward()
        >>> scaler.unscale_(optimizer)  # only where gradients are looked at, as by clip_grad_norm_
        >>> _ = scaler.step(optimizer)
        >>> scaler.update()
        >>> scaler.get_scale()
        1024.0
    """

    @wants_tensors
    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = bool(enabled)
        if self._enabled and device == "cuda":
            warn("GradScaler: there is no CUDA in this build; it is switched off")
            self._enabled = False
        if not growth_factor > 1.0:
            raise AssertedValueError(f"GradScaler: The growth factor must be > 1.0: growth_factor = {growth_factor}")
        if not backoff_factor < 1.0:
            raise AssertedValueError(f"GradScaler: The backoff factor must be < 1.0: backoff_factor = {backoff_factor}")
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._scaling = False  # whether anything was scaled yet
        self._stages: dict[int, OptState] = {}  # by id of the optimizer, since the last update
        self._found_inf: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of a list, tuple or other iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        self._scaling = True
        return _scaled(outputs, _from_data.tensor(self._scale, dtype=_C.float32))

    def _fl_begun(self, name: str) -> None:
        if not self._scaling:
            raise AssertedRuntimeError(
                f"GradScaler.{name}: Attempted {name} but _scale is None, since nothing was scaled; "
                "expected scale(loss) before the backward pass"
            )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, and notes whether all are finite.

        `step` does it where it was not done: call it before looking at gradients, to clip them for example.

        Raises:
            RuntimeError: they are unscaled already, or the step was made.
            ValueError: a gradient is float16; parameters are float32 under autocast.
        """
        if not self._enabled:
            return
        self._fl_begun("unscale_")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update()")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step()")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype == _C.float16 for g in grads):
            raise ValueError(
                "Attempting to unscale FP16 gradients (float16): keep the parameters in float32 and use autocast instead of half()"
            )
        inverse = 1.0 / self._scale
        found = False
        with no_grad():
            for g in grads:
                # Of a sparse one what is there. A place may be there twice, as in PyTorch: what is float32 or wider has room for the sum.
                values = g._values() if g.is_sparse else g
                found = found or not bool(values.isfinite().all())
                values.mul_(inverse)
        if grads:
            self._found_inf[id(optimizer)] = found
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales if that was not done, then `optimizer.step(*args, **kwargs)`, unless a gradient is not finite.

        Returns:
            what the optimizer's step returns, or None where it was skipped.

        Raises:
            RuntimeError: there is a closure, a second call without `update`, or nothing had a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported: they would run between scaling and checking")
        self._fl_begun("step")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update()")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found_inf:
            raise AssertedRuntimeError(
                "GradScaler.step: No inf checks were recorded for this optimizer: no parameter of it has a gradient; "
                "expected backward() before"
            )
        result = None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Shrinks the scale if a step was skipped, lets it grow after enough that were not, or sets it.

        Raises:
            RuntimeError: nothing was checked since the last update.
        """
        if not self._enabled:
            return
        self._fl_begun("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            if not self._found_inf:
                raise AssertedRuntimeError("GradScaler.update: no inf checks were recorded; expected step() or unscale_() before")
            if any(self._found_inf.values()):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    grown = self._scale * self._growth_factor
                    if grown <= _FLOAT32_MAX:
                        self._scale = grown
                    self._growth_tracker = 0
        self._stages.clear()
        self._found_inf.clear()

    # ---- what it is set to

    def get_scale(self) -> float:
        """The scale, or 1 where it is switched off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets by how much the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many finite steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many finite steps in a row the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        """How many finite steps there were in a row."""
        return self._growth_tracker if self._enabled else 0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The settings, the scale and the count of finite steps; empty where it is switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave; nothing happens where it is switched off.

        Raises:
            RuntimeError: the state is empty: it comes from a scaler that was switched off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("load_state_dict: The source state dict is empty; expected that of a GradScaler that was enabled")
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = int(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise AssertedRuntimeError("GradScaler: it can be pickled after update() or before the first step(), not between")
        return {**self.__dict__, "_scaling": False}  # as a new one


def _scaled(value: Any, factor: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value * factor
    if isinstance(value, (list, tuple)):
        return type(value)([_scaled(entry, factor) for entry in value])
    if isinstance(value, Iterable):
        return map(functools.partial(_scaled, factor=factor), value)
    raise ValueError(f"scale: got a {type(value).__name__}; expected a Tensor or an iterable of Tensors")


_FLOAT32_MAX = math.ldexp(2 - 2.0**-23, 127)
