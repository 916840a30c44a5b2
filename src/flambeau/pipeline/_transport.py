"""What carries values between ranks: threads of one process, or processes.

    transport   who there is: how many ranks, and which of them this process performs; lives as long as the program
    call        one step or forward of all ranks together: mail under keys, which a failure of any rank ends

A call's `put` and `take` are all that an executor needs, so it does not know where the other ranks are. `Mail` (`_executor.py`) is the
call of threads, `MPITransport` (`_mpi.py`) has calls between processes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol


class PipelineError(RuntimeError):
    """Another rank has failed or is gone; the message says which one, where it was, and why.

    Attributes:
        rank: the one that failed.

    Example:
        >>> from flambeau.pipeline._transport import PipelineError
        >>> raise PipelineError("rank 1 failed: ValueError: no", 1)
        Traceback (most recent call last):
        flambeau.pipeline._transport.PipelineError: rank 1 failed: ValueError: no
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message, rank)
        self.rank = rank

    def __str__(self) -> str:
        return str(self.args[0])


class Call(Protocol):
    """What ranks send each other in one step: a value under a key, taken once. Who sends never waits for who takes."""

    @property
    def cancelled(self) -> bool:
        """Whether a rank has failed, so that nothing will arrive any more."""

    def put(self, rank: int, key: Hashable, value: Any) -> None:
        """Sends a value to a rank."""

    def take(self, rank: int, key: Hashable) -> Any:
        """The value for this rank under a key; waits for it.

        Raises:
            Cancelled: a rank has failed.
        """

    def cancel(self) -> None:
        """Wakes all who wait, and lets nobody wait again."""


class ProcessCall(Call, Protocol):
    """A call whose other ranks are elsewhere, so that failures have to be told and heard."""

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks that this one has failed, and ends the call here."""

    def failure(self) -> PipelineError:
        """Why the call was cancelled, where another rank is the reason."""

    def close(self) -> None:
        """Ends the call, which every rank has come through."""


class Transport(Protocol):
    """Ranks that are processes, of which this process is one.

    Attributes:
        rank: that of this process.
        size: how many there are.
    """

    rank: int
    size: int

    def open(self, what: str) -> ProcessCall:
        """Begins a call, which all ranks begin, each for the same purpose.

        Args:
            what: the purpose, as an error names it.

        Raises:
            PipelineError: a rank is gone.
        """
