"""`torch.utils._contextlib`: the class from which packages derive contexts that are decorators, too."""

from __future__ import annotations

from typing import Any

from flambeau.autograd.modes import _Mode


class _DecoratorContextManager(_Mode):
    """A context manager that decorates functions and generators; each call enters a `clone`, which a class with arguments overrides."""

    def clone(self) -> Any:
        """Another one of the same meaning."""
        return type(self)()
