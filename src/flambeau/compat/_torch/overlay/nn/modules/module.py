"""`torch.nn.modules.module`: what packages take from it beside `Module`."""

from flambeau.nn._hooks import EVERYWHERE as _EVERYWHERE
from flambeau.nn._state import _EXTRA_STATE
from flambeau.nn._state import _IncompatibleKeys as _IncompatibleKeys

_EXTRA_STATE_KEY_SUFFIX = _EXTRA_STATE
# Hooks of all modules, by number.
_global_parameter_registration_hooks, _global_buffer_registration_hooks, _global_module_registration_hooks = (
    _EVERYWHERE[kind] for kind in ("parameter", "buffer", "module")
)
_global_forward_pre_hooks, _global_forward_hooks, _global_backward_pre_hooks, _global_backward_hooks = (
    _EVERYWHERE[f"_{kind}_hooks"] for kind in ("forward_pre", "forward", "backward_pre", "backward")
)


def _addindent(s_: str, numSpaces: int) -> str:  # noqa: N803
    """All lines but the first, moved to the right."""
    return s_.replace("\n", "\n" + " " * numSpaces)
