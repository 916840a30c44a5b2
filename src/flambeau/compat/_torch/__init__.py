"""PyTorch's module names over this library, in one process and by the user's wish.

    import torch.nn.modules.batchnorm          a program that was written for PyTorch
        |
        |   finder.py       a meta path finder that comes first and takes `torch` and all below it
        v
    facade.py               a module named `torch....`; its names come, in this order, from
        |
        +-- overlay/...     what PyTorch has under this name and this library has not, or has otherwise; a tree like PyTorch's
        +-- names.py        where this library keeps it, if under another name (one declared map)
        +-- flambeau....    the module of the same name

Nothing is copied: `torch.nn.Linear` is `flambeau.nn.Linear`. `identity.py` makes classes, types and texts say `torch.` from then on;
`report.py` finds what a program would miss without running it. Importing this package changes nothing; `install()` does, and
`import flambeau.compat.torch` calls it.
"""

from __future__ import annotations

from flambeau.compat._torch.finder import install, is_installed

__all__ = ["install", "is_installed"]
