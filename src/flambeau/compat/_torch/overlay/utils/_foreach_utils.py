"""`torch.utils._foreach_utils`: lists of tensors by device and element type, as optimizers hand them to `torch._foreach_*`."""

from __future__ import annotations

from typing import Any

from flambeau.compat._torch.overlay._C import _get_privateuse1_backend_name


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Kinds of devices beside the CPU with kernels for lists: PyTorch's answer, of which none is available here."""
    return ["cuda", "xpu", "mtia", _get_privateuse1_backend_name()]


def _group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """Parts of several lists alike: (device, dtype) of the first list's tensors -> (the lists of those, their places where asked for).

    Other lists may have None for a tensor, or be empty.
    """
    groups: dict[Any, Any] = {}
    for place, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for held, given in zip(lists, tensorlistlist, strict=True):
            if given:
                held.append(given[place])
        if with_indices:
            places.append(place)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    return bool(device.type == "cpu")


def _has_foreach_support(tensors: Any, device: Any) -> bool:
    """Whether `torch._foreach_*` take them."""
    import flambeau

    return _device_has_foreach_support(device) and all(t is None or type(t) is flambeau.Tensor for t in tensors)
