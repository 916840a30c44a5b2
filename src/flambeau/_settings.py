"""Switches of whole programs: deterministic algorithms, how often warnings come, the module of a kind of device."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau import _C, _warn

_MODES = ("default", "warn", "error")
_deterministic = 0  # an index of these


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for algorithms that give the same bits from the same inputs. All do here: the choice is kept for who asks, and changes nothing.

    >>> import flambeau as fl
    >>> fl.use_deterministic_algorithms(True)
    >>> fl.are_deterministic_algorithms_enabled()
    True
    >>> fl.use_deterministic_algorithms(False)
    """
    global _deterministic
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} = {value!r}; expected True or False")
    _deterministic = 0 if not mode else 1 if warn_only else 2


def set_flush_denormal(mode: bool) -> bool:
    """False, as where a processor can not do it: denormal numbers are computed with, whatever is asked for."""
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal: mode is a {type(mode).__name__}; expected True or False")
    return False


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` was called. Results are the same from run to run in either case.

    >>> import flambeau as fl
    >>> fl.are_deterministic_algorithms_enabled()
    False
    """
    return _deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether what is not deterministic would be warned of, and no error; nothing is."""
    return _deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by one word or number: "default" (0), "warn" (1) or "error" (2).

    Raises:
        RuntimeError: another word or number.
    """
    global _deterministic
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"set_deterministic_debug_mode: debug_mode = {debug_mode!r}; expected str or int")
    if debug_mode not in ((0, 1, 2) if isinstance(debug_mode, int) else _MODES):
        raise _C.ArgumentError(
            f"set_deterministic_debug_mode: debug_mode = {debug_mode!r}; expected 'default', 'warn' or 'error', or 0, 1 or 2"
        )
    _deterministic = int(debug_mode) if isinstance(debug_mode, int) else _MODES.index(debug_mode)


def get_deterministic_debug_mode() -> int:
    """0 for "default", 1 for "warn", 2 for "error".

    >>> import flambeau as fl
    >>> fl.set_deterministic_debug_mode("warn")
    >>> fl.get_deterministic_debug_mode()
    1
    >>> fl.set_deterministic_debug_mode("default")
    """
    return _deterministic


def set_warn_always(b: bool, /) -> None:
    """Whether a warning of this library comes each time that there is a reason for it, also where Python's filters would show it once."""
    if not isinstance(b, bool):
        raise _C.ArgumentError(f"set_warn_always: b = {b!r}; expected True or False")
    _warn.always = b


def is_warn_always_enabled() -> bool:
    """Whether `set_warn_always(True)` was called.

    >>> import flambeau as fl
    >>> fl.is_warn_always_enabled()
    False
    """
    return _warn.always


_DEVICES = ("cpu", "cuda", "xpu", "mps", "mtia")


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device: `flambeau.cpu`, `flambeau.cuda`.

    Raises:
        RuntimeError: there is no such module.

    >>> import flambeau as fl
    >>> fl.get_device_module("cpu") is fl.cpu
    True
    """
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind not in _DEVICES:
        raise RuntimeError(f"get_device_module: device = {device!r}; expected one of {', '.join(map(repr, _DEVICES))}")
    return importlib.import_module(f"flambeau.{kind}")


class Stream:
    """A queue of a GPU; none can be made.

    Raises:
        DeviceError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _C.DeviceError(
            f"{type(self).__name__}: this build of flambeau computes on the CPU, where a call has finished when it returns"
        )


class Event(Stream):
    """A mark in a queue of a GPU; none can be made."""
