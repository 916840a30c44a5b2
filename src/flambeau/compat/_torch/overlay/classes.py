"""`torch.classes`: classes of compiled extensions, of which none can be loaded."""

from typing import Any, NoReturn

__all__ = ["load_library"]


def load_library(path: Any) -> NoReturn:
    """Refused: an extension is compiled against PyTorch's C++ library."""
    raise OSError(f"classes.load_library: {path} is compiled against PyTorch's C++ library, which is not here")


class _Namespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"torch.classes.{self._name}.{name}: no class of this name is registered; it is one of a compiled extension, which can not be loaded")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)
