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

from flambeau.library._op import RESERVED, registry


class Namespace:
    """The ops of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        op = registry.get(f"{self._name}::{name}")
        if op is None and any(key.startswith(f"{self._name}::{name}.") for key in registry):
            return Overloads(f"{self._name}::{name}")
        if op is None:
            have = ", ".join(dir(self)) or "none"
            raise AttributeError(f"flambeau.ops.{self._name} has no op '{name}'; it has {have}. Import what defines it first")
        return op

    def __dir__(self) -> list[str]:
        return sorted(key.split("::")[1] for key in registry if key.startswith(f"{self._name}::"))

    def __repr__(self) -> str:
        return f"<flambeau.ops.{self._name}: {', '.join(dir(self)) or 'empty'}>"


class Overloads:
    """Ops that are called `name.overload`, where none is called `name` alone."""

    def __init__(self, qualname: str) -> None:
        self._qualname = qualname

    def overloads(self) -> list[str]:
        """What follows the name, in the order in which they were defined."""
        return [key.rpartition(".")[2] for key in registry if key.startswith(f"{self._qualname}.")]

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("_"):
            raise AttributeError(overload)
        op = registry.get(f"{self._qualname}.{overload}")
        if op is None:
            raise AttributeError(f"{self._qualname} has no overload '{overload}'; it has {', '.join(self.overloads())}")
        return op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The first of them that takes the arguments."""
        errors = []
        for overload in self.overloads():
            op = getattr(self, overload)
            try:
                op._schema.bind(op._qualname, args, kwargs)
            except (TypeError, ValueError) as error:
                errors.append(str(error))
                continue
            return op(*args, **kwargs)
        raise TypeError("\n".join(errors))

    def __repr__(self) -> str:
        return f"<{self._qualname}: {', '.join(self.overloads())}>"


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name in RESERVED:
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
    return Namespace(name)


def __dir__() -> list[str]:
    return sorted({key.split("::")[0] for key in registry})
