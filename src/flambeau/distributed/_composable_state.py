"""`torch.distributed._composable_state`: what PyTorch notes of modules whose parameters are spread over processes. Here are none of them.

Packages ask whether a module is one; `torch.distributed.fsdp._common_utils` is answered here, too.
"""

from __future__ import annotations

from flambeau.nn import Module


class _State:
    """What is noted of a module."""


class _FSDPState(_State):
    """The same, of a module that `fully_shard` has spread; none can be."""


def _get_module_state(module: Module) -> _State | None:
    """None: nothing is noted of any module, unless it is such a note itself."""
    return module if isinstance(module, _State) else None
