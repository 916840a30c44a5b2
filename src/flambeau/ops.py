"""Custom ops by name: `flambeau.ops.namespace.name` is what `library.custom_op("namespace::name", ...)` made.

>>> import flambeau as fl
>>> @fl.library.custom_op("docs::plus_one", mutates_args=())
... def plus_one(x: fl.Tensor) -> fl.Tensor:
...     return x + 1
>>> fl.ops.docs.plus_one is plus_one
True
"""

from __future__ import annotations

from typing import Any

from flambeau.library._op import registry


class Namespace:
    """The ops of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        op = registry.get(f"{self._name}::{name}")
        if op is None:
            have = ", ".join(dir(self)) or "none"
            raise AttributeError(f"flambeau.ops.{self._name} has no op '{name}'; it has {have}. Import what defines it first")
        return op

    def __dir__(self) -> list[str]:
        return sorted(key.split("::")[1] for key in registry if key.startswith(f"{self._name}::"))

    def __repr__(self) -> str:
        return f"<flambeau.ops.{self._name}: {', '.join(dir(self)) or 'empty'}>"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
    return Namespace(name)


def __dir__() -> list[str]:
    return sorted({key.split("::")[0] for key in registry})
