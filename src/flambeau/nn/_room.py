"""Whether there is memory for as many layers."""

from __future__ import annotations

from flambeau import _C
from flambeau._units import bytes_text


def check_room(what: str, count: int, nbytes: int = 0) -> None:
    """Refuses, before the first is made, more objects of so many bytes than there is memory for.

    Raises:
        MemoryError: `count` objects, each of `nbytes` and of what Python needs for one, do not fit.
    """
    if count <= 1000:
        return
    wanted, left = count * (nbytes + 1024), _C.available_memory()
    if wanted > left:
        raise MemoryError(f"{what} = {count} take more than {bytes_text(wanted)}, and {bytes_text(left)} are left")
