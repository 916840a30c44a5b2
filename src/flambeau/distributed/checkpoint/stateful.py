"""What has a state: the protocol by which `save` and `load` know it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Something with `state_dict` and `load_state_dict`, as modules and optimizers are: its state is saved and loaded, not itself."""

    def state_dict(self) -> dict[str, Any]:
        """The state. Loading calls it, too, since tensors are filled where they lie."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state over."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
