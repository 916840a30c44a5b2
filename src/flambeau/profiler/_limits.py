"""What this machine can do: bandwidth of a copy and rates of matrix products, measured once per program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_COPY_BYTES = (1 << 16, 1 << 20, 1 << 23, 1 << 26)
_MATMUL_TYPES = ("float32", "float64", "bfloat16", "float16")
_MATMUL_SIZE = 768


@dataclass(frozen=True)
class MachineLimits:
    """The best of some runs, with the threads of the moment of measuring."""

    threads: int
    copy: dict[int, float]  # bytes that are copied -> bytes read and written per second
    matmuls: dict[str, float]  # element type -> FLOP per second of a matrix product

    @property
    def matmul(self) -> float:
        """FLOP per second of a float32 matrix product."""
        return self.matmuls["float32"]

    @property
    def bandwidth(self) -> float:
        """Of a copy that is larger than the caches: bytes read and written per second."""
        return self.copy[max(self.copy)]

    def bandwidth_at(self, moved_bytes: float) -> float:
        """The limit for an op that reads and writes so many bytes: smaller ones stay in a cache."""
        fitting = [size for size in self.copy if 2 * size <= moved_bytes]
        at = max(fitting) if fitting else min(self.copy)
        return max(rate for size, rate in self.copy.items() if size >= at)


def best_seconds(run: Callable[[], Any], budget_s: float, least: int = 3) -> float:
    """The shortest of as many runs as fit into the budget, at least `least`."""
    run()
    best, n, until = float("inf"), 0, time.perf_counter() + budget_s
    while n < least or time.perf_counter() < until:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        n += 1
    return best


_measured: dict[int, MachineLimits] = {}


def machine_limits(refresh: bool = False) -> MachineLimits:
    """Bandwidth of copies and rates of matrix products, per element type, on this machine; takes about a second.

    The result is kept per number of threads; `refresh` measures again. Refused while a profile runs.

    Example:
        >>> import flambeau as fl
        >>> limits = fl.profiler.machine_limits()
        >>> f"{limits.bandwidth / 1e9:.0f} GB/s, {limits.matmul / 1e9:.0f} GFLOP/s"  # doctest: +SKIP
        '21 GB/s, 180 GFLOP/s'
    """
    import flambeau as fl

    threads = fl.get_num_threads()
    if refresh or threads not in _measured:
        if fl._C.profiler.recording():
            raise RuntimeError("machine_limits: a profile is running and would record the measurement; stop it first")
        with fl.no_grad():
            copy = {}
            for size in _COPY_BYTES:
                x, y = fl.zeros(size // 4), fl.zeros(size // 4)
                copy[size] = 2 * size / best_seconds(lambda x=x, y=y: y.copy_(x), 0.2 if size == max(_COPY_BYTES) else 0.05)  # type: ignore[misc]
            n, matmuls = _MATMUL_SIZE, {}
            for name in _MATMUL_TYPES:
                a, b = (fl.rand(n, n).to(getattr(fl, name)) for _ in range(2))
                matmuls[name] = 2 * n**3 / best_seconds(lambda a=a, b=b: fl.mm(a, b), 0.1)  # type: ignore[misc]
        _measured[threads] = MachineLimits(threads, copy, matmuls)
    return _measured[threads]
