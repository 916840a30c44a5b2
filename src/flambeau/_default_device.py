"""On which device a thread makes tensors where none is given: `set_default_device`, and devices as regions.

>>> import flambeau as fl
>>> with fl.device("meta"):
...     layer = fl.nn.Linear(2, 3)
>>> layer.weight.device
device(type='meta')

What makes a tensor of nothing (`zeros`, `arange`, `randn`, `tensor`, a layer) asks; what is made like a tensor (`zeros_like`,
`x.new_ones`) is where that one is.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C

__all__ = ["get_default_device", "set_default_device"]


def set_default_device(device: Any) -> None:
    """Makes tensors of this thread on `device` where none is given; None is the CPU.

    Raises:
        DeviceError: there is no such device.
    """
    _C.set_new_device(device)


def get_default_device() -> Any:
    """The device on which this thread makes tensors where none is given.

    >>> import flambeau as fl
    >>> fl.get_default_device()
    device(type='cpu')
    """
    return _C.new_device() or _C.device("cpu")


for _name, _method in (("__enter__", _C.as_method(_C.enter_device)), ("__exit__", _C.as_method(_C.leave_device))):
    setattr(_C.device, _name, _method)
