"""Generators of random numbers in PyTorch's pickles: NumPy's, and the library's own.

A pickle has a generator of its stream of bits, that with its state, and the seeds that it was started from. NumPy takes most states as they
are, and its C code reads where a state says, so all of one is looked at here first.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._random import generator_state, is_generator_state
from flambeau._warn import warn
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._pickle import Global, Inner, plain
from flambeau.serialization._torch_context import Context, Function, expect, is_dict

# A state's parts: the largest number, or (type, count) of an array.
_BUFFER: dict[str, Any] = {"has_uint32": 1, "uinteger": 2**32 - 1}
_WIDE: dict[str, Any] = {"state": {"state": 2**128 - 1, "inc": 2**128 - 1}, **_BUFFER}
_STATES: dict[str, dict[str, Any]] = {
    "MT19937": {"state": {"key": ("uint32", 624), "pos": 624}},
    "PCG64": _WIDE,
    "PCG64DXSM": _WIDE,
    "Philox": {"state": {"counter": ("uint64", 4), "key": ("uint64", 2)}, "buffer": ("uint64", 4), "buffer_pos": 4, **_BUFFER},
    "SFC64": {"state": {"state": ("uint64", 4)}, **_BUFFER},
}
_HOMES = {
    "_mt19937": ("MT19937",), "_pcg64": ("PCG64", "PCG64DXSM"), "_philox": ("Philox",), "_sfc64": ("SFC64",),
    "bit_generator": ("SeedSequence",),
}  # fmt: skip
# Classes that the functions below get, by their names in pickles.
CLASSES = {f"numpy.random.{home}.{name}": f"numpy.random.{name}" for home, names in _HOMES.items() for name in names}
_MOST_SEEDS = 2**16  # bits of one, whose parts are found in quadratic time


def is_random(value: Any) -> bool:
    """Whether it is one of NumPy's generators, streams of bits or sequences of seeds."""
    kind = type(value)
    of_numpy = kind.__module__.startswith("numpy.random.")
    return of_numpy and kind.__name__ in ("Generator", "RandomState", "SeedSequence", *_STATES)


def _fits(state: Any, wanted: dict[str, Any]) -> bool:
    if not is_dict(state) or state.keys() != wanted.keys():
        return False
    for key, want in wanted.items():
        part = state[key]
        if isinstance(want, dict):
            fits = _fits(part, want)
        elif isinstance(want, tuple):
            fits = type(part).__name__ == "ndarray" and (part.dtype.name, part.shape) == (want[0], (want[1],))
        else:
            fits = type(part) is int and 0 <= part <= want
        if not fits:
            return False
    return True


def _stream_state(state: Any, kind: str) -> Any:
    """A state that NumPy may have, of streams of that kind."""
    rest = {key: part for key, part in state.items() if key != "bit_generator"} if is_dict(state) else None
    if rest is None or state.get("bit_generator") != kind or not _fits(rest, _STATES[kind]):
        raise FileFormatError(f"NumPy's {kind} has the state {short(state)}, which is none of its states")
    return state


class Seeds(Inner):
    """numpy.random.SeedSequence, which BUILD completes."""

    what = "a NumPy SeedSequence without its state"

    def __init__(self) -> None:
        self._made: Any = None

    def value(self) -> Any:
        return super().value() if self._made is None else self._made

    def build(self, state: Any) -> None:
        """Of its numbers: the words that it mixed of them, which a pickle has, too, are mixed again."""
        fits = isinstance(state, tuple) and len(state) == 5 and type(state[4]) is tuple and type(state[1]) is type(state[3]) is int
        entropy, spawned, _, size, key = state if fits else (None, 0, None, 0, ())
        seeds = tuple(entropy) if isinstance(entropy, (list, tuple)) else (entropy,)
        if not (0 <= spawned < 2**32 and 4 <= size <= 1024 and _are_seeds(seeds) and _are_seeds(key)):
            raise FileFormatError(f"a NumPy SeedSequence has the state {short(state)}, which is none of its states")
        import numpy as np

        self._made = np.random.SeedSequence(entropy, spawn_key=key, pool_size=size, n_children_spawned=spawned)


def _are_seeds(numbers: tuple[Any, ...]) -> bool:
    return all(type(n) is int and n >= 0 for n in numbers) and sum(n.bit_length() for n in numbers) <= _MOST_SEEDS


def _seeds(names: Context, args: tuple[Any, ...]) -> Seeds:
    """By its class, a number that says how Cython laid it out, and its state, if that does not follow."""
    expect("SeedSequence", args, Global, int, (tuple, type(None)))
    made = Seeds()
    if args[0].name != "numpy.random.bit_generator.SeedSequence":
        raise FileFormatError(f"a SeedSequence is made of {args[0].name}")
    if args[2] is not None:
        made.build(args[2])
    return made


def _own(names: Context, args: tuple[Any, ...]) -> Any:
    """A generator of the library's. The state follows."""
    expect("torch.Generator", args, _C.device, optional=1)
    return _C.Generator()


def build_own(target: _C.Generator, state: Any) -> None:
    """BUILD of one of the library's. PyTorch's engine of the CPU is another one, whose state means nothing here."""
    (state,) = plain((state,))
    match state:
        case (seed, draws, None) if is_generator_state((seed, draws)):
            target.set_state(generator_state(seed, draws))
        case (seed, None, Tensor()) if is_generator_state((seed, 0)):
            target.set_state(generator_state(seed, 0))
            warn("load: a generator of PyTorch's begins anew from its seed: the numbers that it would have drawn next are not drawn here")
        case _:
            raise FileFormatError(f"a generator has the state {short(state)}; expected a seed, draws and the state of its engine")


def _stream(names: Context, args: tuple[Any, ...]) -> Any:
    """Of its class, or by the name of that, as older versions have it. The state follows."""
    what = args[0] if len(args) == 1 else None
    kind = CLASSES.get(what.name, "").rpartition(".")[2] if isinstance(what, Global) else what
    if type(kind) is not str or kind not in _STATES:
        raise FileFormatError(f"a NumPy stream of bits is made of {short(args)}; expected one of {', '.join(_STATES)}")
    import numpy as np

    return getattr(np.random, kind)(0)


def _generator_of(last: str) -> Function:
    def make(names: Context, args: tuple[Any, ...]) -> Any:
        import numpy as np

        stream = _stream(names, args[:1]) if args and type(args[0]) is str else args[0] if args else None
        if len(args) > 2 or not isinstance(stream, np.random.BitGenerator):
            raise FileFormatError(f"numpy.random.{last} is made of {short(args)}; expected a stream of bits")
        return getattr(np.random, last)(stream)

    return make


def build_random(target: Any, state: Any) -> None:
    """BUILD of a generator or a stream of bits."""
    import numpy as np

    (state,) = plain((state,))
    if isinstance(target, np.random.BitGenerator):
        kind = type(target).__name__
        numbers, seeds = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if not isinstance(seeds, (np.random.SeedSequence, type(None))):
            raise FileFormatError(f"NumPy's {kind} is started from {short(seeds)}; expected a SeedSequence")
        _stream_state(numbers, kind)
        target.__setstate__((numbers, seeds) if isinstance(state, tuple) else numbers)  # type: ignore[attr-defined]
        return
    stream = target._bit_generator
    kind = type(stream).__name__
    if isinstance(target, np.random.Generator):
        stream.state = _stream_state(state, kind)
        return
    rest = {key: part for key, part in state.items() if key not in ("has_gauss", "gauss")} if is_dict(state) else {}
    _stream_state(rest, kind)
    if not _fits({"has_gauss": state.get("has_gauss")}, {"has_gauss": 1}) or type(state.get("gauss")) is not float:
        raise FileFormatError(f"NumPy's RandomState has the state {short(state)}, which is none of its states")
    target.set_state(state)


FUNCTIONS: dict[str, Function] = {
    "torch._C.Generator": _own,
    "numpy.random._pickle.__generator_ctor": _generator_of("Generator"),
    "numpy.random._pickle.__randomstate_ctor": _generator_of("RandomState"),
    "numpy.random._pickle.__bit_generator_ctor": _stream,
    "numpy.random.bit_generator.__pyx_unpickle_SeedSequence": _seeds,
}
