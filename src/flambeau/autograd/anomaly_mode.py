"""Where a NaN gradient comes from: the graph remembers the lines that built it, and backward stops at the first NaN."""

from __future__ import annotations

from flambeau import _C
from flambeau._warn import warn
from flambeau.autograd.modes import switch


class set_detect_anomaly(_C.AnomalySetting):
    """Switches anomaly detection on or off, for the process, by the call or for a `with` block.

    While it is on, nodes remember the calls that made them, and a backward whose node computes NaN (unless `check_nan` is
    False) raises AutogradError with that node's name and the lines of its forward call. Both cost time; it is for debugging.

    Example:
        >>> import flambeau as fl
        >>> with fl.autograd.set_detect_anomaly(True):
        ...     fl.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._on, self._check_nan = switch("set_detect_anomaly", mode), bool(check_nan)
        self.set()


class detect_anomaly(_C.AnomalySwitch):
    """`set_detect_anomaly(True)` for a `with` block, with a warning that it is slow.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([-1.0], requires_grad=True)
        >>> with fl.autograd.detect_anomaly():  # doctest: +ELLIPSIS, +IGNORE_EXCEPTION_DETAIL
        ...     x.sqrt().sum().backward()
        Traceback (most recent call last):
        flambeau.AutogradError: Function 'SqrtBackward0' returned nan values in its 0th output; the forward call was at ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._on, self._check_nan = True, bool(check_nan)
        warn("detect_anomaly: anomaly detection is on; it slows every op down and is meant for debugging")


def is_anomaly_enabled() -> bool:
    """True while anomaly detection is on."""
    return bool(_C.anomaly()[0])


def is_anomaly_check_nan_enabled() -> bool:
    """True where anomaly detection looks for NaN."""
    return bool(_C.anomaly()[1])
