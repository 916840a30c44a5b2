"""Random ops inside of `vmap`: refused, drawn for every sample, or drawn once.

While a thread is inside of a vmap every op that draws comes here first, batches among its arguments or not (`_C.set_draw_hook`). What
the innermost vmap makes of it are draws of its own, which the next one outside is asked about in turn.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import CONFUSED, said_by_op
from flambeau.func._batched import BatchLevel, has_batch, rule_of
from flambeau.func._levels import active, replaced, shape_of
from flambeau.func._table import bound, call_of, written_first


def decided_by(level: BatchLevel) -> AbstractContextManager[None]:
    """While it lasts, the level decides what draws of this thread are, and within that what decided before."""
    return _C.held(_C.set_draw_hook, functools.partial(_drawn, level, _C.draw_hook()))


def _drawn(level: BatchLevel, outer: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not args and kwargs and name.endswith("_"):
        args, kwargs = written_first(kwargs)
    with _C.held(_C.set_draw_hook, outer):
        levels = active.levels
        at = levels.index(level)
        hidden = levels[at:]
        del levels[at:]
        try:
            return _draw(level, name, args, kwargs)
        except CONFUSED as error:
            found = said_by_op(error, name, call_of(name), args, kwargs)
            if found is not error:
                raise found from None
            raise
        finally:
            levels.extend(hidden)


def _draw(level: BatchLevel, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    found = bound(name, args, kwargs)
    given = found[1] if found else {}
    if found is None or not _is_random(name, given):
        return call_of(name)(*args, **kwargs)
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation while in randomness error mode: {name}; pass randomness='different' for numbers of its own "
            "for each sample, or 'same' for one draw that all samples share"
        )
    in_place = name.endswith("_")
    if level.randomness == "same":
        if not has_batch(level, (*args, *kwargs.values())):
            return call_of(name)(*args, **kwargs)
        return level.loop(name, args, kwargs, Again(given.get("generator")))
    if in_place:
        level.check_written(name, args[0])
    if "size" in given:
        size = given["size"]
        sizes = (size,) if isinstance(size, int) else tuple(size)
        return level.wrap(call_of(name)(**{**given, "size": (level.size, *sizes)}))
    if found[0].batch == "each":
        return _each(level, name, args, kwargs)
    result = own(level, **given) if (own := rule_of(found[0].name)) else NotImplemented
    return level.loop(name, args, kwargs, lambda: None) if result is NotImplemented else level.wrap(result)


def _is_random(name: str, given: Mapping[str, Any]) -> bool:
    """False where the arguments say that nothing is drawn."""
    if name == "scaled_dot_product_attention":
        return bool(given.get("dropout_p", 0.0) != 0.0)
    p = given.get("p")
    return bool(given.get("training", True)) and not (isinstance(p, (int, float)) and p == 0)


def _each(level: BatchLevel, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A draw per element of whole batches."""
    tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
    rank = max(len(shape_of(t)) for t in tensors)

    def whole(x: Tensor) -> Tensor:
        return level.aligned(x, rank)

    result = call_of(name)(*replaced(args, whole), **dict(zip(kwargs, replaced(kwargs.values(), whole), strict=True)))
    return args[0] if name.endswith("_") else level.wrap(result)


class Again:
    """Puts a generator back to where it was, so that the next samples draw the same."""

    def __init__(self, generator: Any) -> None:
        self.generator = _C.current_generator() if generator is None else generator
        self.state = self.generator.get_state()

    def __call__(self) -> None:
        self.generator.set_state(self.state)
