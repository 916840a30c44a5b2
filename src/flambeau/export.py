"""`torch.export` of who writes `import flambeau`: refused; `flambeau.graph` records and saves programs.

Programs that say `import torch` have graphs of ATen's operators (docs/pytorch.md).
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["ExportedProgram", "export"]


class ExportedProgram:
    """A program that PyTorch exported, of which there are none."""


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: programs are not exported; `flambeau.graph` records, saves and runs them.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("export.export: programs are not exported as PyTorch does; flambeau.graph records, saves and runs them")


export_for_training = save = load = draft_export = export


def register_dataclass(cls: Any, *, serialized_type_name: str | None = None) -> None:
    """Nothing is exported, so that no class has to be known."""
