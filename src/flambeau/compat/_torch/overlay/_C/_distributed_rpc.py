"""`torch._C._distributed_rpc`: objects of other processes, of which there are none. The class can be named and asked about."""


class PyRRef:
    """A value that another process has; none can be made."""

    def __init__(self, *args: object) -> None:
        raise NotImplementedError("PyRRef: there is no remote procedure call here; flambeau.pipeline trains over several processes")
