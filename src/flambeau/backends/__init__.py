"""Switches of PyTorch's backends: they can be read and set, and change nothing here. What is no part of this library is not available.

`winograd` is ours, and does change how convolutions are computed.
"""

import importlib as _importlib
import typing as _typing

from flambeau.backends import cuda, cudnn, mkldnn, mps

fp32_precision = "none"  # see _switches.Operation

_LAZY = ("cpu", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "nnpack", "openmp", "opt_einsum", "quantized", "winograd", "xnnpack")

if _typing.TYPE_CHECKING:
    from flambeau.backends import (
        cpu,
        cusparselt,
        kleidiai,
        mha,
        miopen,
        mkl,
        nnpack,
        openmp,
        opt_einsum,
        quantized,
        winograd,
        xnnpack,
    )
else:

    def __getattr__(name: str) -> _typing.Any:
        if name in _LAZY:
            return _importlib.import_module(f"flambeau.backends.{name}")
        raise AttributeError(f"module 'flambeau.backends' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum",
    "quantized", "winograd", "xnnpack",
]  # fmt: skip
