"""Streams, graphs and old types of tensors, none of which can be made without a GPU."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau import _tensor
from flambeau._errors import NoCUDAError

default_generators: tuple[Any, ...] = ()
has_half = has_magma = False


def _none(name: str) -> NoReturn:
    raise NoCUDAError(f"cuda.{name}")


class _NoGPU:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _none(type(self).__name__)


class Stream(_NoGPU):
    """A queue of a GPU; none can be made."""


class Event(_NoGPU):
    """A mark in such a queue; none can be made."""


class CUDAGraph(_NoGPU):
    """Recorded work of a GPU; none can be made."""


class StreamContext:
    """A region in another stream; None is the stream that there is."""

    def __init__(self, stream: Any) -> None:
        if stream is not None:
            _none("stream")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """A region in another stream; only None can be given here."""
    return StreamContext(stream)


class device:  # noqa: N801
    """A region on another GPU; as in PyTorch without one, -1 and None stand for no change.

    Raises:
        DeviceError: a GPU is named.
    """

    def __init__(self, device: Any) -> None:
        if not (device is None or device == -1 or str(device) == "cpu"):
            _none("device")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


class device_of(device):  # noqa: N801
    """A region on the GPU of a tensor; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


def current_stream(device: Any = None) -> NoReturn:
    """Refused: there is no GPU."""
    _none("current_stream")


def default_stream(device: Any = None) -> NoReturn:
    """Refused: there is no GPU."""
    _none("default_stream")


def graph(
    cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global", enable_annotations: bool = False,
    check_input_liveness: bool = False,
) -> NoReturn:  # fmt: skip
    """A region whose work a GPU would record; refused, as there is none."""
    _none("graph")


def is_current_stream_capturing() -> bool:
    """False: nothing is captured."""
    return False


def get_gencode_flags() -> str:
    """The flags that this build was compiled with: none."""
    return ""


def ipc_collect() -> None:
    """Nothing to collect without a GPU."""


def can_device_access_peer(device: Any, peer_device: Any) -> NoReturn:
    """Refused: there is no GPU."""
    _none("can_device_access_peer")


def memory_summary(device: Any = None, abbreviated: bool = False) -> NoReturn:
    """Refused: there is no GPU; `flambeau.memory_summary()` tells of the host's memory."""
    _none("memory_summary")


class _GPUTensors(type):
    """Types of tensors on a GPU: nothing is an instance, and none can be made."""

    def __instancecheck__(cls, value: Any) -> bool:
        return False

    def __call__(cls, *args: Any) -> NoReturn:
        _none(cls.__name__)


def types() -> dict[str, Any]:
    """The old types of tensors and storages on a GPU, by name."""
    what = {"__module__": "flambeau.cuda", "__doc__": "Tensors on a GPU, of which there are none."}
    names = list(_tensor.TYPE_NAMES.values())
    storages = [name.replace("Tensor", "Storage") for name in names if not name.startswith(("ComplexHalf", "UInt"))]
    return {name: _GPUTensors(name, (), dict(what)) for name in (*names, *storages)}
