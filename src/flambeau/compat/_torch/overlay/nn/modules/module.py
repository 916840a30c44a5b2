"""`torch.nn.modules.module`: what packages take from it beside `Module`."""

from flambeau.nn._state import _EXTRA_STATE
from flambeau.nn._state import _IncompatibleKeys as _IncompatibleKeys

_EXTRA_STATE_KEY_SUFFIX = _EXTRA_STATE


def _addindent(s_: str, numSpaces: int) -> str:  # noqa: N803
    """All lines but the first, moved to the right."""
    return s_.replace("\n", "\n" + " " * numSpaces)
