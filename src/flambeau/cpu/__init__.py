"""The CPU, by name: what programs ask of a device's module."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flambeau.cpu import amp

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "get_capabilities", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip

# PyTorch's names of instruction sets, and the system's where it has another.
_SAME = (
    "aes amx_bf16 amx_fp16 amx_int8 amx_tile avx avx2 avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_fp16 "
    "avx512_vbmi2 avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx_ne_convert avx_vnni avx_vnni_int16 avx_vnni_int8 bmi2 clflush "
    "clflushopt clwb f16c fma4 popcnt sse sse2 sse4_1 sse4_2 sse4a ssse3"
).split()
_OTHER = {"bmi": "bmi1", "fma3": "fma", "lzcnt": "abm", "sha": "sha_ni", "sse3": "pni"}
_OTHER |= {f"avx512_{part}": f"avx512{part}" for part in ("bw", "cd", "dq", "f", "ifma", "vbmi", "vl")}


def is_available() -> bool:
    """True: there is always a CPU."""
    return True


def device_count() -> int:
    """How many CPU devices there are: 1."""
    return 1


def current_device() -> str:
    """The current device: 'cpu'."""
    return "cpu"


def is_initialized() -> bool:
    """True: the CPU needs no start."""
    return True


def set_device(device: Any) -> None:
    """Nothing: there is one CPU device."""


def get_capabilities() -> Mapping[str, Any]:
    """What the processor can do, by PyTorch's names of instruction sets, as far as the system tells: `avx2`, `avx512_f`, `fma3`, ..."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((set(line.partition(":")[2].split()) for line in file if line.startswith(("flags", "Features"))), set())
    except OSError:
        flags = set()
    found: dict[str, Any] = {name: _OTHER.get(name, name) in flags for name in (*_SAME, *_OTHER)}
    return MappingProxyType(found | {"architecture": platform.machine(), "num_logical_cores": os.cpu_count()})


def synchronize(device: Any = None) -> None:
    """Nothing: an operation has finished when it returns."""


class Stream:
    """A queue of a device. The CPU has finished each call when it returns, so nothing ever waits in it."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing: what the other stream was given is done."""

    def record_event(self) -> None:
        """Nothing: there is nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing: events have happened."""


class Event:
    """A mark in a queue, which has happened."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing: what came before is done."""

    def synchronize(self) -> None:
        """Nothing: it has happened."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: it has happened."""


class StreamContext:
    """A region in a stream; all of them are the same."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """A region in a stream."""
    return StreamContext(stream)


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream that there is."""
    return _stream
