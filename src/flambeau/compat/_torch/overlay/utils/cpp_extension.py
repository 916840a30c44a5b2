"""`torch.utils.cpp_extension`: nothing can be compiled against PyTorch's C++ library, which is not here."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._errors import NoExtensionError

CUDA_HOME = ROCM_HOME = CUDNN_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = False


def _refuse(name: str) -> NoReturn:
    raise NoExtensionError(
        f"cpp_extension.{name}: extensions are compiled against PyTorch's C++ library, which is not here; write the op with "
        "flambeau.library.custom_op (over NumPy, ctypes or an extension of Python's), or use the package's implementation in Python"
    )


def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused: it would compile sources against PyTorch's C++ library."""
    _refuse(f"load('{name}')")


def load_inline(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused: it would compile sources against PyTorch's C++ library."""
    _refuse(f"load_inline('{name}')")


def CppExtension(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused: it would be compiled against PyTorch's C++ library."""
    _refuse(f"CppExtension('{name}')")


def CUDAExtension(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused: it would be compiled against PyTorch's C++ library."""
    _refuse(f"CUDAExtension('{name}')")


def include_paths(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no headers."""
    _refuse("include_paths")


def library_paths(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no libraries."""
    _refuse("library_paths")


class BuildExtension:
    """A command of setuptools that compiles such extensions; refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """The class: which options it would have makes no difference."""
        return cls
