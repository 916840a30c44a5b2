"""Tensors in tests: compared, and made at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import finfo
from flambeau._memory_format import strided
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.sparse import SparseTensor

# rtol, atol per type.
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}  # fmt: skip

# What Python's numbers are compared as.
_WIDEST = {float: _C.float64, complex: _C.complex128}


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raises AssertionError, with the largest difference and where it is, unless both are close.

    |actual - expected| <= atol + rtol |expected|; the tolerances follow the type unless both are given. Sequences and mappings are
    compared entry by entry, and the message names the entry. `msg` replaces the message, or is called with it.

    Args:
        allow_subclasses: False demands the same class, but of numbers.
        check_device, check_dtype, check_layout, check_stride: what must be equal, too. Tensors of which one is on the meta device have
            no values to compare; sparse tensors of two layouts are compared as dense ones.

    Raises:
        TypeError: an array beside a tensor, or other classes of which neither is one of the other's; without `allow_subclasses` any two.

    >>> import flambeau as fl
    >>> fl.testing.assert_close({"a": fl.ones(2)}, {"a": fl.ones(2) + 1e-7})
    """
    try:
        _compare(
            actual, expected, rtol, atol, equal_nan, _Checks(allow_subclasses, check_device, check_dtype, check_layout, check_stride)
        )
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


class _Checks(NamedTuple):
    """What is compared beside the values."""

    subclasses: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool

    def of_classes(self, actual: Any, expected: Any) -> None:
        kinds = [type(v) for v in (actual, expected)]
        if kinds[0] is kinds[1] or (bool not in kinds and all(isinstance(v, Number) for v in (actual, expected))):
            return
        plain = [Tensor if issubclass(k, SparseTensor) else k for k in kinds]
        related = issubclass(plain[0], plain[1]) or issubclass(plain[1], plain[0])
        if plain[0] is plain[1] or (self.subclasses and related and bool not in kinds):
            return
        way_out = "make both tensors (as_tensor)" if self.subclasses else "expected one class, or allow_subclasses=True"
        if bool in kinds:
            way_out = "a bool is compared with a bool alone"
        raise TypeError(f"No comparison pair was able to handle inputs of type {kinds[0]} and {kinds[1]}; {way_out}")

    def of_tensors(self, a: Tensor, b: Tensor) -> None:
        if a.shape != b.shape:
            raise AssertionError(f"The values for attribute 'shape' do not match: {list(a.shape)} != {list(b.shape)}")
        if self.layout and a.layout != b.layout:
            raise AssertionError(f"The values for attribute 'layout' do not match: {a.layout} != {b.layout}")
        if self.device and a.device != b.device:
            raise AssertionError(f"The values for attribute 'device' do not match: {a.device} != {b.device}")
        if self.dtype and a.dtype is not b.dtype:
            raise AssertionError(f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}")
        if a.layout == b.layout:
            sparse: list[Any] = [] if a.layout is strided else [a, b]
            stored = [t._nnz() for t in sparse]
            if len(set(stored)) > 1:
                raise AssertionError(f"numbers of elements that are stored differ: {stored[0]} and {stored[1]}")
            if self.stride and a.layout is strided and a.stride() != b.stride():
                raise AssertionError(f"strides differ: {a.stride()} and {b.stride()}")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if type(value).__module__ == "numpy" and (isinstance(value, Number) or type(value).__name__ in ("bool", "bool_")):
        return value.item()
    return value


def _compare(actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, checks: _Checks) -> None:
    entries: list[tuple[Any, Any, Any]] | None = None
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            apart = [sorted(map(repr, a.keys() - b.keys())) for a, b in ((actual, expected), (expected, actual))]
            raise AssertionError(
                "The keys of the mappings do not match: "
                f"only in the first [{', '.join(apart[0])}], only in the second [{', '.join(apart[1])}]"
            )
        entries = [(k, actual[k], expected[k]) for k in actual]
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        entries = [(i, a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    if entries is not None:
        for key, a, b in entries:
            try:
                _compare(a, b, rtol, atol, equal_nan, checks)
            except AssertionError as error:
                raise AssertionError(f"[{key!r}]: {error}") from None
        return
    if (actual is None) != (expected is None):
        raise AssertionError(f"one is None: {actual!r} and {expected!r}")
    if actual is None:
        return
    actual, expected = map(_plain, (actual, expected))
    checks.of_classes(actual, expected)
    a, b = (v if isinstance(v, Tensor) else _C.tensor_from(v, _WIDEST.get(type(v))) for v in (actual, expected))
    checks.of_tensors(a, b)
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, "
            f"but got no {'rtol' if rtol is None else 'atol'}"
        )
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    if "meta" in (a.device.type, b.device.type):
        return
    a, b = (t.detach() if t.layout is strided else t.detach().to_dense() for t in (a, b))
    wide = _C.complex128 if a.is_complex() or b.is_complex() else _C.float64
    x, y = a.to(wide), b.to(wide)
    wrong = ops.logical_not(ops.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))
    count = int(ops.sum(wrong).item())
    if count:
        difference = ops.where(wrong, ops.abs(ops.sub(x, y)), 0.0).reshape(-1)
        worst = int(ops.argmax(difference).item())
        kind = "Tensor-likes" if isinstance(actual, Tensor) else "Scalars"
        raise AssertionError(
            f"{kind} are not {'close' if rtol or atol else 'equal'}! Mismatched elements: {count} / {a.numel()}; "
            f"the largest difference is {difference[worst].item():.3e} at flat index {worst}: "
            f"{x.reshape(-1)[worst].item()} and {y.reshape(-1)[worst].item()} (rtol {rtol}, atol {atol})"
        )


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """`assert_close` under its older name, with a warning; the types may differ and NaN equals NaN."""
    warn("testing.assert_allclose is the older name of testing.assert_close", FutureWarning)
    a = actual if isinstance(actual, Tensor) else _C.tensor_from(actual, None)
    b = expected if isinstance(expected, Tensor) else _C.tensor_from(expected, a.dtype)
    if rtol is None and atol is None:
        pairs = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


# Where values lie unless bounds are given.
_BOUNDS = {"bool": (0, 2), "uint8": (0, 10)}


@wants_tensors
def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None, high: float | None = None, requires_grad: bool = False,
    noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Random values for tests: uniform in [low, high), whole numbers for integer types.

    Args:
        low, high: the bounds, -9 to 9 unless given (whole numbers: to 9 inclusively; bool 0 to 1, uint8 0 to 9); of complex types
            both parts'.
        noncontiguous: every second element of a larger memory (of more than one element).
        exclude_zero: zeros become the least number that differs from 1, or 1 of whole numbers.

    Raises:
        ValueError: low >= high, or a bound that is not finite.

    >>> import flambeau as fl
    >>> x = fl.testing.make_tensor((2, 3), dtype=fl.int32, low=1, high=5)
    >>> x.shape, bool(((x >= 1) & (x < 5)).all())
    (flambeau.Size([2, 3]), True)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    whole = not (dtype.is_floating_point or dtype.is_complex)
    bounds = _BOUNDS.get(dtype.name, (-9 if dtype.is_signed else 0, 10 if whole else 9))
    first, last = bounds[0] if low is None else low, bounds[1] if high is None else high
    if not (math.isfinite(first) and math.isfinite(last)) or first >= last:
        raise ValueError(f"make_tensor: low = {first}, high = {last}; expected finite bounds with low < high")
    count = math.prod(sizes)
    apart = 2 if noncontiguous and count > 1 else 1

    def drawn() -> Tensor:
        made = ops.empty((*sizes, apart), dtype=_C.float64)
        made.uniform_(float(math.ceil(first)) if whole else first, float(math.ceil(last)) if whole else last)
        return made.floor_() if whole else made  # type: ignore[no-any-return]

    values = ops.complex(drawn(), drawn()) if dtype.is_complex else drawn()
    if exclude_zero:
        least = 1 if whole or dtype.name == "complex32" else finfo(dtype).tiny
        values = ops.where(values == 0, least, values)
    made = values.to(dtype).select(-1, 0) if apart == 2 else values.to(dtype).reshape(sizes)
    if str(device) != "cpu":
        made = made.to(device)
    if memory_format is not None:
        if noncontiguous:
            raise ValueError("make_tensor: memory_format and noncontiguous exclude each other")
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]
