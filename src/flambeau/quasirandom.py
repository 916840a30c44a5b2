"""Points that fill a cube more evenly than random ones do: Sobol sequences.

The direction numbers are those of Joe and Kuo (2008, "Constructing Sobol sequences with better two-dimensional projections"), as SciPy
ships them; only the first dimension needs none. With `scramble=False` the points are those of PyTorch, number for number.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops

__all__ = ["SobolEngine"]

_BITS = 30


@functools.cache
def _table() -> tuple[Any, Any]:
    """(polynomials, first direction numbers) of each dimension, from SciPy's files."""
    import numpy as np

    spec = importlib.util.find_spec("scipy")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        path = os.path.join(folder, "stats", "_sobol_direction_numbers.npz")
        if os.path.exists(path):
            with np.load(path) as file:
                return file["poly"].astype(np.int64), file["vinit"].astype(np.int64)
    raise ImportError("SobolEngine: dimension > 1 needs the direction numbers that SciPy ships, and SciPy is not here (pip install scipy)")


def _directions(dimension: int) -> Any:
    """Direction numbers of 30 bits: int64 [dimension, 30]."""
    import numpy as np

    v = np.ones((dimension, _BITS), np.int64)
    if dimension > 1:
        poly, first = _table()
        poly, first = poly[:dimension], first[:dimension]
        degrees = np.array([int(p).bit_length() - 1 for p in poly])
        for degree in np.unique(degrees[1:]):  # dimensions of one degree follow one recurrence
            d = np.flatnonzero(degrees == degree)
            d = d[d > 0]
            v[d, :degree] = first[d, :degree]
            for j in range(degree, _BITS):
                new = v[d, j - degree].copy()
                for k in range(degree):
                    new ^= ((poly[d] >> (degree - 1 - k)) & 1) * (v[d, j - k - 1] << (k + 1))
                v[d, j] = new
    return v << np.arange(_BITS - 1, -1, -1)


class SobolEngine:
    """A Sobol sequence in [0, 1)^dimension.

    Args:
        dimension: from 1 to 21201; more than 1 needs SciPy to be installed.
        scramble: shifts the points and mixes their digits at random (Matousek 1998): each is then uniform, and together they are as even.
        seed: of the scrambling; None takes the default generator.

    Raises:
        ValueError: another dimension.
        ImportError: SciPy is wanted and not here.

    >>> import flambeau as fl
    >>> engine = fl.quasirandom.SobolEngine(1)
    >>> engine.draw(4)[:, 0].tolist()
    [0.0, 0.5, 0.75, 0.25]
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not isinstance(dimension, (int, Integral)) or not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"SobolEngine: dimension = {dimension!r}; expected 1 to {self.MAXDIM}")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        directions = _directions(dimension)
        if scramble:
            directions, shift = self._scrambled(directions)
        else:
            shift = ops.zeros(dimension, dtype=_C.int64)
        self.sobolstate = _C.from_buffer(directions)
        self.shift = shift
        self.quasi = shift.clone()
        self.num_generated = 0

    def _scrambled(self, directions: Any) -> tuple[Any, Tensor]:
        """The direction numbers times lower triangles of bits, and a shift."""
        import numpy as np

        generator = _C.Generator().manual_seed(self.seed) if self.seed is not None else _C.default_generator
        places = np.arange(_BITS - 1, -1, -1)  # the highest bit first
        shift = ops.randint(2, (self.dimension, _BITS), generator=generator).numpy() << places
        made = np.empty_like(directions)
        for d in range(self.dimension):
            triangle = np.tril(ops.randint(2, (_BITS, _BITS), generator=generator).numpy(), -1) + np.eye(_BITS, dtype=np.int64)
            bits = directions[d][:, None] >> places & 1
            made[d] = ((bits @ triangle.T & 1) << places).sum(1)
        return made, _C.from_buffer(shift.sum(1))

    def _steps(self, first: int, n: int) -> Any:
        """What n points from number first + 1 on are changed by: columns of the directions, for the lowest zeros of their numbers."""
        import numpy as np

        numbers = np.arange(first, first + n, dtype=np.int64)
        zero = ~numbers & (numbers + 1)  # the lowest bit that is 0
        columns = np.log2(zero).astype(np.int64)
        if n and int(columns.max()) >= _BITS:
            raise ValueError(f"SobolEngine: {first + n + 1} points; expected at most {1 << _BITS} of a sequence of {_BITS} bits")
        return self.sobolstate.numpy()[:, columns].T

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points: [n, dimension], of the default type unless another is given.

        Raises:
            TypeError: a type other than float32 and float64.
            ValueError: the sequence has fewer points left.
        """
        import numpy as np

        dtype = _C.get_default_dtype() if dtype is None else dtype
        if dtype not in (_C.float32, _C.float64):
            raise _C.DTypeError(f"SobolEngine.draw: dtype = {dtype}; expected float32 or float64")
        if n < 0:
            raise ValueError(f"SobolEngine.draw: n = {n}; expected at least 0")
        quasi = self.quasi.numpy()
        if self.num_generated == 0 and n:
            points = np.concatenate([quasi[None], self._steps(0, n - 1)])
        else:
            points = self._steps(self.num_generated - 1, n) if n else np.empty((0, self.dimension), np.int64)
            points = np.concatenate([quasi[None] ^ points[:1], points[1:]])
        points = np.bitwise_xor.accumulate(points, 0)
        if n:
            self.quasi = _C.from_buffer(points[-1].copy())
        self.num_generated += n
        result = _C.from_buffer(np.ascontiguousarray(points * 2.0**-_BITS)).to(dtype)
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points, where they make the number of all points a power of two: Sobol sequences are balanced there alone.

        Raises:
            ValueError: they do not.
        """
        n = 1 << m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: {self.num_generated} points were drawn, and {n} more make {total}, which is no power of two; "
                "expected as many as were drawn (reset() begins anew, draw(n) takes any number)"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begins with the first point again."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next n points.

        >>> import flambeau as fl
        >>> fl.quasirandom.SobolEngine(1).fast_forward(2).draw().item()
        0.75
        """
        import numpy as np

        if n > 0:
            first = self.num_generated == 0
            steps = self._steps(0 if first else self.num_generated - 1, n - 1 if first else n)
            self.quasi = _C.from_buffer(np.bitwise_xor.reduce(np.concatenate([self.quasi.numpy()[None], steps]), 0))
            self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
