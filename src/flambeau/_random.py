"""Seeds of the default generator."""

from __future__ import annotations

import copyreg
import struct
from typing import Any

from flambeau import _C
from flambeau._C import Generator, Tensor


def _current() -> Generator:
    generator: Generator = _C.current_generator()
    return generator


def _generator_of(state: Tensor) -> Generator:
    return Generator().set_state(state)


def is_generator_state(state: tuple[Any, ...]) -> bool:
    """Whether it is a seed and a number of draws, as a generator may have them."""
    return len(state) == 2 and all(type(n) is int and 0 <= n < 2**64 for n in state)


def generator_state(seed: int, draws: int) -> Tensor:
    """What `get_state()` gives of a generator of this seed that has been drawn from so often."""
    return _C.tensor_from(list(struct.pack("<QQ", seed, draws)), _C.uint8)  # type: ignore[no-any-return]


def made_generator(seed: int, draws: int) -> Generator:
    """A generator of this seed that has been drawn from so often."""
    return _generator_of(generator_state(seed, draws))


def _reduce_generator(generator: Generator) -> Any:
    return _generator_of, (generator.get_state(),)


def _seed(self: Generator) -> int:
    """Restarts this generator from the system's entropy and returns the seed."""
    import secrets

    value = secrets.randbits(63)
    self.manual_seed(value)
    return value


def _clone_state(self: Generator) -> Generator:
    """A generator that will draw the same numbers."""
    return _generator_of(self.get_state())


Generator.seed = _seed  # type: ignore[method-assign]
Generator.clone_state = _clone_state  # type: ignore[method-assign]
copyreg.pickle(Generator, _reduce_generator)


def manual_seed(seed: int) -> Generator:
    """Restarts the default generator: the same seed gives the same bits on any number of threads.

    Example:
        >>> import flambeau as fl
        >>> a = fl.manual_seed(3) and fl.rand(2)
        >>> b = fl.manual_seed(3) and fl.rand(2)
        >>> fl.equal(a, b)
        True

    Raises:
        ValueError: a seed below -2**63, or of more than 64 bits.
    """
    number = int(seed)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"manual_seed: seed = {number}; expected at least -2**63 and less than 2**64 (Overflow when unpacking long long)")
    _C.manual_seed(number)
    return _current()


def seed() -> int:
    """Restarts the default generator from the system's entropy and returns the seed."""
    import secrets

    value = secrets.randbits(63)
    _C.manual_seed(value)
    return value


def initial_seed() -> int:
    """The seed of the default generator."""
    return _current().initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, uint8 [16]."""
    return _current().get_state()


def set_rng_state(new_state: Tensor) -> Any:
    """Restores what `get_rng_state` returned."""
    _current().set_state(new_state)
