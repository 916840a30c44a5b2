"""Recording instead of running: `lazy`, and what is known about it.

While a thread records, an op checks its arguments as always, but is noted instead of run. Reading a value (`item`, `numpy`,
`print`, `if x > 0`) runs what was noted, and so does the end of the region; a program can not tell, but by the time
that it takes.
"""

from __future__ import annotations

import contextlib
import types

from flambeau import _C

__all__ = ["lazy"]


class lazy(contextlib.ContextDecorator):
    """A region whose ops are recorded and run together: results that nobody reads are not computed.

    Results, gradients, random numbers and errors are those of eager mode. Only an error that an op finds while it computes (an index
    that was changed after it had been checked) comes when the region is run, and again whenever something that depends on it
    is read. Regions nest; each thread has its own. docs/lazy.md says more.

    Example:
        >>> import flambeau as fl
        >>> x = fl.ones(3)
        >>> with fl.lazy():
        ...     y = (x * 2 + 1).relu()
        ...     unused = x.exp()
        >>> y
        tensor([3., 3., 3.])
    """

    def __enter__(self) -> lazy:
        _C.graph.begin_recording()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if kind is None:
            _C.graph.end_recording()
            return
        with contextlib.suppress(Exception):  # what goes wrong now stays with its tensors, and `error` came first
            _C.graph.end_recording()
