"""Random arguments for benchmarks: parameters are drawn until what they say of tensors fits, and tensors are made of them.

    parameters, drawn  ->  sizes and steps of each tensor fit?  ->  tensors, strided or not
            ^                         | no
            +-------------------------+   all but the strict ones are drawn again; after 16 tries all of them
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor, dtype

_TRIES = 16      # with the same strict parameters
_ROUNDS = 1000   # in all, before it is believed that nothing fits


class ParameterAlias:
    """Stands for another parameter among the values of one: `FuzzedParameter("k1", distribution={ParameterAlias("k0"): 1.0})` equals k0."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias(alias_to={self.alias_to!r})"


class FuzzedParameter:
    """A number, or one of several values, that is drawn.

    Args:
        minval, maxval: the least and the largest value; integers if both are.
        distribution: "uniform", "loguniform" (as many values between 1 and 10 as between 10 and 100), or a dict of values with
            their probabilities.
        strict: not drawn again alone where something does not fit, so that what fits does not decide it.

    Raises:
        ValueError: bounds or a distribution that can not be drawn from.
    """

    def __init__(
        self, name: str, minval: float | None = None, maxval: float | None = None,
        distribution: str | Mapping[Any, float] | None = None, strict: bool = False,
    ) -> None:  # fmt: skip
        self._name, self._minval, self._maxval, self._distribution, self.strict = name, minval, maxval, distribution, strict
        if isinstance(distribution, Mapping):
            total = sum(distribution.values())
            if minval is not None or maxval is not None or not distribution or abs(total - 1) > 1e-6 or min(distribution.values()) < 0:
                what = "expected probabilities alone, with the sum 1"
                raise ValueError(f"FuzzedParameter {name!r}: distribution = {dict(distribution)}; {what}")
        elif distribution not in ("uniform", "loguniform"):
            raise ValueError(f"FuzzedParameter {name!r}: distribution = {distribution!r}; expected 'uniform', 'loguniform' or a dict")
        elif minval is None or maxval is None or minval > maxval or (distribution == "loguniform" and minval <= 0):
            least = ", above 0," if distribution == "loguniform" else ""
            raise ValueError(f"FuzzedParameter {name!r}: minval = {minval}, maxval = {maxval}; expected two numbers{least} in this order")

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def sample(self, state: random.Random) -> Any:
        """A value of it, or an alias."""
        if isinstance(self._distribution, Mapping):
            return state.choices(list(self._distribution), list(self._distribution.values()))[0]
        low, high = self._minval, self._maxval
        assert low is not None and high is not None
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return state.randint(int(low), int(high)) if whole else state.uniform(low, high)
        drawn = math.exp(state.uniform(math.log(low), math.log(high + 1 if whole else high)))
        return min(int(drawn), int(high)) if whole else drawn


class FuzzedTensor:
    """A tensor of random numbers whose sizes are parameters.

    Args:
        size: for each axis a number or the name of a parameter.
        steps: likewise, of every how many elements one is taken.
        probability_contiguous: how often its axes lie in memory in their order; otherwise in a random one.
        min_elements, max_elements, max_allocation_bytes: what fits.
        dim_parameter: the parameter that says how many axes of `size` there are.
        tensor_constructor: makes the elements: `f(size=..., dtype=..., **parameters)`.

    Raises:
        NotImplementedError: `cuda`, or a `roll_parameter`.
    """

    def __init__(
        self, name: str, size: Sequence[int | str], steps: Sequence[int | str] | None = None, probability_contiguous: float = 0.5,
        min_elements: int | None = None, max_elements: int | None = None, max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None, roll_parameter: str | None = None, dtype: dtype = flambeau.float32, cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:  # fmt: skip
        if cuda or roll_parameter is not None:
            raise NotImplementedError(f"FuzzedTensor {name!r}: cuda = {cuda}, roll_parameter = {roll_parameter!r}; expected neither")
        if steps is not None and len(steps) != len(size):
            raise ValueError(f"FuzzedTensor {name!r}: steps = {steps}; expected one for each of the {len(size)} axes")
        self._name, self._size, self._dtype = name, tuple(size), dtype
        self._steps = tuple(steps) if steps is not None else (1,) * len(self._size)
        self._contiguous, self._dim, self._constructor = probability_contiguous, dim_parameter, tensor_constructor
        self._least, self._most, self._bytes = min_elements, max_elements, max_allocation_bytes

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def _sizes(self, params: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        """Sizes and steps."""
        n = len(self._size) if self._dim is None else params[self._dim]
        return ([params[s] if isinstance(s, str) else s for s in axes[:n]] for axes in (self._size, self._steps))  # type: ignore[return-value]

    def satisfies_constraints(self, params: Mapping[str, Any]) -> bool:
        """Whether the tensor of these parameters is neither too small nor too large."""
        size, steps = self._sizes(params)
        count = math.prod(size)
        if count < (self._least or 0) or (self._most is not None and count > self._most):
            return False
        return self._bytes is None or count * math.prod(steps) * self._dtype.itemsize <= self._bytes

    def _make_tensor(self, params: Mapping[str, Any], generator: random.Random) -> tuple[Tensor, dict[str, Any]]:
        size, steps = self._sizes(params)
        order = list(range(len(size)))
        if generator.random() >= self._contiguous:
            generator.shuffle(order)
        whole = [size[axis] * steps[axis] for axis in order]
        made = self._elements(whole, params, generator)
        back = [order.index(axis) for axis in range(len(size))]
        made = made.permute(back)[tuple(slice(None, None, step) for step in steps)]
        told = {"numel": made.numel(), "order": order, "steps": tuple(steps), "is_contiguous": made.is_contiguous()}
        return made, {**told, "dtype": str(self._dtype)}

    def _elements(self, size: list[int], params: Mapping[str, Any], generator: random.Random) -> Tensor:
        if self._constructor is not None:
            return self._constructor(size=tuple(size), dtype=self._dtype, **params)
        numbers = flambeau.Generator().manual_seed(generator.getrandbits(32))
        if self._dtype.is_floating_point or self._dtype.is_complex:
            return flambeau.rand(size, dtype=self._dtype, generator=numbers)
        return flambeau.randint(0, 2 if self._dtype is flambeau.bool else 127, size, dtype=self._dtype, generator=numbers)


def _flat(items: Sequence[Any]) -> list[Any]:
    """Without the lists around some of them."""
    return [one for item in items for one in (item if isinstance(item, (list, tuple)) else [item])]


class Fuzzer:
    """Draws parameters and makes tensors of them.

    Args:
        parameters, tensors: `FuzzedParameter`s and `FuzzedTensor`s, or lists of them.
        constraints: functions that are called with all parameters by name, and say whether these fit.
        seed: of the draws; without it they are other ones each time.

    Raises:
        ValueError: two things of one name.

    Example:
        >>> fuzzer = Fuzzer([FuzzedParameter("n", 4, 9, "uniform")], [FuzzedTensor("x", ("n", 2), probability_contiguous=1)], seed=0)
        >>> [(tensors["x"].shape[0] == params["n"], told["x"]["is_contiguous"]) for tensors, told, params in fuzzer.take(2)]
        [(True, True), (True, True)]
    """

    def __init__(
        self, parameters: Sequence[Any], tensors: Sequence[Any], constraints: Sequence[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:  # fmt: skip
        self._parameters: list[FuzzedParameter] = _flat(parameters)
        self._tensors: list[FuzzedTensor] = _flat(tensors)
        self._constraints = list(constraints or ())
        self._generator = random.Random(seed)
        names = [p.name for p in self._parameters] + [t.name for t in self._tensors]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"Fuzzer: {twice[0]!r} is the name of several parameters or tensors; expected names of their own")
        self._drawn = self._rejected = 0

    @property
    def rejection_rate(self) -> float:
        """The share of draws that did not fit; 0 before there is any."""
        return self._rejected / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, dict[str, Any]], dict[str, Any]]]:
        """n times (tensors, what is known of each, parameters), all by their names."""
        for _ in range(n):
            params = self._fitting()
            made = {t.name: t._make_tensor(params, self._generator) for t in self._tensors}
            yield {k: x for k, (x, _) in made.items()}, {k: told for k, (_, told) in made.items()}, params

    def _fitting(self) -> dict[str, Any]:
        drawn: dict[str, Any] = {}
        for n in range(_ROUNDS * _TRIES):
            fresh = n % _TRIES == 0
            drawn.update((p.name, p.sample(self._generator)) for p in self._parameters if fresh or not p.strict)
            params = {name: self._value(drawn, name) for name in drawn}
            self._drawn += 1
            if all(t.satisfies_constraints(params) for t in self._tensors) and all(fits(**params) for fits in self._constraints):
                return params
            self._rejected += 1
        raise ValueError(f"Fuzzer: of {_ROUNDS * _TRIES} draws none fits; expected parameters, sizes and constraints that go together")

    def _value(self, drawn: Mapping[str, Any], name: str) -> Any:
        """A parameter's value, by the aliases that it is."""
        value, seen = drawn[name], {name}
        while isinstance(value, ParameterAlias):
            if value.alias_to in seen or value.alias_to not in drawn:
                raise ValueError(f"Fuzzer: parameter {name!r} is an alias of {value.alias_to!r}; expected another parameter")
            seen.add(value.alias_to)
            value = drawn[value.alias_to]
        return value
