"""`torch.testing._internal.common_utils`: the case and the parameters of PyTorch's tests, from which packages derive theirs."""

from __future__ import annotations

import functools
import itertools
import random
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from numbers import Number
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck
from flambeau.testing import _TOLERANCES, assert_close, make_tensor

__all__ = [
    "IS_LINUX", "IS_MACOS", "IS_WINDOWS", "SEED", "TEST_CUDA", "TestCase", "freeze_rng_state", "gradcheck", "gradgradcheck",
    "instantiate_parametrized_tests", "make_tensor", "parametrize", "run_tests", "set_default_dtype", "set_rng_seed", "subtest",
]  # fmt: skip

SEED = 1234
IS_LINUX, IS_MACOS, IS_WINDOWS = (sys.platform.startswith(name) for name in ("linux", "darwin", "win32"))
TEST_CUDA = flambeau.cuda.is_available()


def set_rng_seed(seed: int = SEED) -> None:
    """Seeds the library, `random` and NumPy."""
    import numpy as np

    flambeau.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """What is drawn inside leaves the generator as it was."""
    with flambeau.random.fork_rng():
        yield


@contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    """Another default type inside."""
    before = flambeau.get_default_dtype()
    flambeau.set_default_dtype(dtype)
    try:
        yield
    finally:
        flambeau.set_default_dtype(before)


def run_tests(argv: Any = None) -> None:
    """Runs the tests of the file that calls it."""
    unittest.main(argv=argv)


class TestCase(unittest.TestCase):
    """A case that is seeded anew for each test, and whose `assertEqual` compares tensors by `torch.testing`."""

    precision = rel_tol = 0.0  # tolerances that no comparison of the class is below

    def setUp(self) -> None:
        super().setUp()
        set_rng_seed(SEED)

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, equal_nan: bool = True,
        exact_dtype: bool = True, exact_device: bool = False, exact_layout: bool = False, exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Both are equal: tensors, arrays and numbers within tolerances, containers entry by entry, anything else by `==`."""
        checks: dict[str, Any] = {
            "equal_nan": equal_nan, "check_dtype": exact_dtype, "check_device": exact_device, "check_layout": exact_layout,
            "check_stride": exact_stride,
        }  # fmt: skip
        if (atol is None) != (rtol is None):
            raise ValueError(f"assertEqual: atol = {atol}, rtol = {rtol}; expected both or neither")
        try:
            self._compare(x, y, atol, rtol, checks, exact_is_coalesced)
        except AssertionError as error:
            said = f"{error}\n{msg(str(error)) if callable(msg) else msg}" if msg is not None else str(error)
            raise self.failureException(said) from None

    def _compare(self, x: Any, y: Any, atol: float | None, rtol: float | None, checks: dict[str, Any], coalesced: bool) -> None:
        deeper = functools.partial(self._compare, atol=atol, rtol=rtol, checks=checks, coalesced=coalesced)
        if any(isinstance(value, Tensor) or type(value).__module__ == "numpy" for value in (x, y)) and x is not None and y is not None:
            self._compare_tensors(x, y, atol, rtol, checks, coalesced)
        elif isinstance(x, Number) and isinstance(y, Number):
            if x != y:
                self._compare_tensors(flambeau.tensor(x), flambeau.tensor(y), atol, rtol, {**checks, "check_dtype": False}, coalesced)
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            if x.keys() != y.keys():
                raise AssertionError(f"The keys of the mappings do not match: {list(x)} != {list(y)}")
            for key in x:
                deeper(x[key], y[key])
        elif all(isinstance(value, Sequence) and not isinstance(value, (str, bytes)) for value in (x, y)):
            if len(x) != len(y):
                raise AssertionError(f"The length of the sequences mismatch: {len(x)} != {len(y)}")
            for mine, other in zip(x, y):
                deeper(mine, other)
        elif isinstance(x, Set) and isinstance(y, Set):
            super().assertEqual(set(x), set(y))
        else:
            super().assertEqual(x, y)

    def _compare_tensors(self, x: Any, y: Any, atol: float | None, rtol: float | None, checks: dict[str, Any], coalesced: bool) -> None:
        alone = next((value for value in (x, y) if isinstance(value, Number)), None)
        mine: Any
        other: Any
        mine, other = (value if isinstance(value, Tensor) else flambeau.as_tensor(value) for value in (x, y))
        if alone is not None:  # a number has no type or shape of its own
            if mine.numel() * other.numel() != 1:
                raise ValueError(f"assertEqual: {list(mine.shape)} beside {list(other.shape)}; expected one element beside a number")
            mine, other = mine.reshape(()), other.reshape(())
            checks = {**checks, "check_dtype": False}
        elif any(isinstance(value, Sequence) for value in (x, y)):
            checks = {**checks, "check_dtype": False}
        if coalesced and mine.is_sparse and other.is_sparse and mine.is_coalesced() != other.is_coalesced():
            raise AssertionError(f"The values for attribute 'is_coalesced()' do not match: {mine.is_coalesced()} != {other.is_coalesced()}")
        if self.precision or self.rel_tol:
            default = zip(*(_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (mine, other)))
            relative, absolute = map(max, default) if rtol is None or atol is None else (rtol, atol)
            rtol, atol = max(relative, self.rel_tol), max(absolute, self.precision)
        assert_close(mine, other, atol=atol, rtol=rtol, **checks)

    def assertNotEqual(  # type: ignore[override]
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, **kwargs: Any
    ) -> None:
        """Both are not equal, as `assertEqual` compares."""
        with self.assertRaises(AssertionError, msg=msg):
            TestCase.assertEqual(self, x, y, msg, atol=atol, rtol=rtol, **kwargs)


class subtest:  # noqa: N801
    """The values of one test among those of `parametrize`, with a name or decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Callable[..., Any]] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or ())


def _name_of(position: int, name: str, value: Any) -> str:
    if isinstance(value, flambeau.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, flambeau.device):
        return str(value)
    return f"{name}_{str(value).replace('.', '_')}" if isinstance(value, (int, float, str)) else f"{name}{position}"


class parametrize:  # noqa: N801
    """A test for each of some values of its arguments; `instantiate_parametrized_tests` makes them, named after the values.

    Args:
        arg_str: names of arguments, separated by commas.
        name_fn: makes the end of a name of the values.
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.names, self.values, self.name_fn = [name.strip() for name in arg_str.split(",") if name.strip()], arg_values, name_fn

    def __call__(self, fn: Any) -> Any:
        fn._parameters = (self, *getattr(fn, "_parameters", ()))
        return fn

    def cases(self) -> Iterator[tuple[str, dict[str, Any], list[Callable[..., Any]]]]:
        """Of each test the end of its name, its arguments, and its decorators."""
        for position, given in enumerate(self.values):
            one = given if isinstance(given, subtest) else subtest(given)
            values = list(one.arg_values) if len(self.names) > 1 else [one.arg_values]
            if len(values) != len(self.names):
                raise RuntimeError(f"parametrize: {len(values)} values for {', '.join(self.names)}; expected one for each")
            made = self.name_fn(*values) if self.name_fn else "_".join(_name_of(position, n, v) for n, v in zip(self.names, values))
            yield one.name or made, dict(zip(self.names, values)), one.decorators


def instantiate_parametrized_tests(generic_cls: type) -> type:
    """Puts the tests of each `parametrize` into a class, in the place of the methods that have it."""
    for name, method in list(vars(generic_cls).items()):
        if not hasattr(method, "_parameters"):
            continue
        delattr(generic_cls, name)
        for combined in itertools.product(*(p.cases() for p in method._parameters)):
            test = _with_arguments(method, {key: value for _, values, _ in combined for key, value in values.items()})
            for decorate in (d for _, _, decorators in combined for d in decorators):
                test = decorate(test)
            test.__name__ = "_".join([name, *(end for end, _, _ in combined)])
            if hasattr(generic_cls, test.__name__):
                raise RuntimeError(f"instantiate_parametrized_tests: {test.__name__} is there twice; expected names that differ (name_fn)")
            setattr(generic_cls, test.__name__, test)
    return generic_cls


def _with_arguments(method: Any, arguments: dict[str, Any]) -> Any:
    @functools.wraps(method)
    def test(self: Any) -> Any:
        return method(self, **arguments)

    del test.__wrapped__, test._parameters  # type: ignore[attr-defined]
    return test
