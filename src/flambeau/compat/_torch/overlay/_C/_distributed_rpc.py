"""`torch._C._distributed_rpc`: objects of other processes, of which there are none. The class can be named and asked about."""

from typing import NoReturn


class PyRRef:
    """A value that another process has; none can be made."""

    def __init__(self, *args: object) -> NoReturn:
        """Refused: there are no calls between processes."""
        raise NotImplementedError("PyRRef: there is no remote procedure call here; flambeau.pipeline trains over several processes")
