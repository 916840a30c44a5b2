"""Whether what a caller claims of the parts of a sparse tensor is looked at. That indices lie inside is looked at in any case."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import ArgumentError, Tensor, ops


class check_sparse_tensor_invariants:  # noqa: N801
    """Looks at what is only claimed of sparse tensors where they are made: that places are in order and none is there twice, and that the
    columns of a row (rows of a column) ascend. A region (`with`), a decorator, or a switch for the whole program; off by default.

    >>> import flambeau as fl
    >>> with fl.sparse.check_sparse_tensor_invariants():
    ...     fl.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    _enabled = False

    @staticmethod
    def is_enabled() -> bool:
        """Whether claims are looked at."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Looks at claims from now on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Believes claims from now on."""
        check_sparse_tensor_invariants._enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._state = enable
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self._state

    def __exit__(self, *exc: Any) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, mth: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(mth)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._state):
                return mth(*args, **kwargs)

        return checked


def _looks(asked: bool | None) -> bool:
    return check_sparse_tensor_invariants.is_enabled() if asked is None else asked


def check_places(op: str, at: Tensor, size: Sequence[int], asked: bool | None) -> None:
    """Refuses places [sparse_dim, nnz] that are not in order, or are there twice."""
    if not _looks(asked) or at.shape[1] < 2 or at.is_meta:
        return
    place = at[0]
    for d in range(1, at.shape[0]):
        place = place * size[d] + at[d]
    if not bool((place[1:] > place[:-1]).all().item()):
        raise ArgumentError(f"{op}: is_coalesced = True, but the places are not in order, or one is there twice; leave is_coalesced out")


def check_columns(op: str, crow: Tensor, col: Tensor, asked: bool | None, by_columns: bool = False) -> None:
    """Refuses rows whose columns do not ascend (`by_columns`: columns whose rows do not)."""
    if not _looks(asked) or col.shape[0] < 2 or col.is_meta:
        return
    rows = ops.repeat_interleave(ops.arange(crow.shape[0] - 1), crow[1:] - crow[:-1])
    wrong = (rows[1:] == rows[:-1]) & (col[1:] <= col[:-1])
    if bool(wrong.any().item()):
        row = rows[1:][wrong][0].item()
        line, others = ("column", "rows") if by_columns else ("row", "columns")
        raise ArgumentError(f"{op}: the {others} of {line} {row} do not ascend; expected them in order, each once")
