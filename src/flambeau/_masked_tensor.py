"""`MaskedTensor`: a tensor and a mask that says which of its elements count.

What is done element by element is done to the elements, and the mask stays; what moves elements moves the mask with them; what goes over
axes leaves out those that do not count, as the functions of `flambeau.masked` do. All else is refused: what it would mean for elements
that do not count is for the program to say, by `to_tensor(value)`.

As with sparse tensors the core is on the meta device, so that code which does not know of masks can not read elements that do not count.
Gradients go through `_masked_data`, which is an ordinary tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GetSetDescriptorType
from typing import Any

from flambeau import _C
from flambeau import _masked_functions as masked
from flambeau._C import Tensor, ops
from flambeau._memory_format import strided
from flambeau._no_tensor import CONFUSED, said_by_op, wants_tensors

# What the core itself can answer.
_GEOMETRY = frozenset(
    (
        "__len__ dim dtype element_size is_complex is_floating_point is_signed itemsize layout ndim ndimension "
        "nelement numel shape size"
    ).split()
)
# Done to elements. A trailing underscore (in place), and the forms of operators, belong to the same name.
_BY_ELEMENT = frozenset(
    (
        "abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
        "asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
        "bitwise_xor ceil clamp clamp_max clamp_min clip conj conj_physical copysign cos cosh deg2rad digamma div divide eq erf erfc "
        "erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin fmod frac ge gelu greater "
        "greater_equal gt heaviside hypot i0 isfinite isinf isnan isneginf isposinf ldexp le lerp less less_equal "
        "lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt "
        "maximum minimum mul multiply nan_to_num ne neg negative nextafter not_equal positive pow rad2deg "
        "reciprocal relu remainder round rsqrt sgn sigmoid sign signbit sin sinc sinh softplus sqrt square sub "
        "subtract tan tanh true_divide trunc xlogy and invert lshift mod or pos rshift truediv floordiv xor "
        "empty_like full_like ones_like zeros_like bfloat16 bool byte char clone contiguous cpu detach double "
        "float half int long short to type"
    ).split()
)
# Moves elements, and the mask with them.
_MOVES = frozenset(
    (
        "T atleast_1d atleast_2d atleast_3d broadcast_to cat chunk column_stack concat concatenate diagonal "
        "dsplit dstack expand expand_as flatten flip fliplr flipud gather getitem hsplit hstack index_select iter "
        "mT masked_select movedim moveaxis narrow permute ravel repeat repeat_interleave reshape reshape_as roll "
        "rot90 row_stack select split split_with_sizes squeeze stack swapaxes swapdims t take take_along_dim "
        "tensor_split tile transpose unbind unflatten unfold unsqueeze view view_as vsplit vstack"
    ).split()
)

# Of these each tensor is an operand, and none an index.
_JOINS = frozenset(
    "cat column_stack concat concatenate dstack hstack row_stack stack vstack".split()
)


def _plain_name(name: str) -> str:
    """Of an operator's or an in-place form, the function's: `__radd__`, `__iadd__` and `add_` are `add`."""
    if not name.startswith("__"):
        return name.rstrip("_")
    name = name.strip("_")
    return (
        name[1:]
        if name[:1] in "ri" and name[1:] in _BY_ELEMENT and name not in _BY_ELEMENT
        else name
    )


def _writes(name: str) -> bool:
    return name.endswith("_") and (
        not name.startswith("__") or (name[2] == "i" and _plain_name(name) != name.strip("_"))
    )


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value, or a list or tuple of values, with `change` done to each tensor."""
    if isinstance(value, Tensor):
        return change(value)
    return type(value)(_each(v, change) for v in value) if type(value) in (list, tuple) else value


def _called(func: Any, args: Any, kwargs: dict[str, Any], change: Callable[[Any], Any]) -> Any:
    return func(
        *_each(tuple(args), change),
        **{name: _each(value, change) for name, value in kwargs.items()},
    )


def _data_of(value: Tensor) -> Tensor:
    return value._masked_data if isinstance(value, MaskedTensor) else value


def _mask_of(value: Tensor) -> Tensor:
    return (
        value._masked_mask
        if isinstance(value, MaskedTensor)
        else ops.ones_like(value, dtype=_C.bool)
    )


def _own_mask_of(value: Tensor) -> Tensor:
    return value._masked_mask if isinstance(value, MaskedTensor) else value


def _masked_among(args: Any, kwargs: dict[str, Any]) -> list[MaskedTensor]:
    found: list[MaskedTensor] = []

    def note(value: Tensor) -> Tensor:
        if isinstance(value, MaskedTensor):
            found.append(value)
        return value

    _each(tuple(args), note)
    _each(tuple(kwargs.values()), note)
    return found


def _compare(name: str, mask: Tensor, other: Tensor) -> None:
    if other.shape != mask.shape or bool(ops.ne(other, mask).any()):
        raise ValueError(
            f"{name}: Input masks must match. They let through {int(mask.sum())} of {list(mask.shape)} and "
            f"{int(other.sum())} of {list(other.shape)} elements; give one its numbers by to_tensor(value)"
        )


def _by_element(name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    first, *others = _masked_among(args, kwargs)
    mask = first._masked_mask
    for other in others:
        _compare(name, mask, other._masked_mask)
    if _writes(name):
        target = args[0]
        if not isinstance(target, MaskedTensor):
            raise TypeError(
                f"{name}: a tensor without a mask can not take what has one; use to_tensor(value)"
            )
        _called(func, args, kwargs, _data_of)
        return target
    result = _called(func, args, kwargs, _data_of)
    return _of(result, ops.broadcast_to(mask, result.shape))


def _moved(name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    index = [a for a in args[1:] if isinstance(a, MaskedTensor)]
    if index:
        raise TypeError(f"{name}: an index with a mask; use its get_data() or to_tensor(value)")
    mask_of = _mask_of if _plain_name(name) in _JOINS else _own_mask_of
    results = _called(func, args, kwargs, _data_of), _called(func, args, kwargs, mask_of)
    if isinstance(results[0], Tensor):
        return _of(*results)
    pairs = [_of(data, mask) for data, mask in zip(*results, strict=True)]
    return iter(pairs) if _plain_name(name) == "iter" else tuple(pairs)


def _assigned(target: Tensor, index: Any, value: Any) -> None:
    """`target[index] = value`: a tensor without a mask takes all elements, one with a mask keeps its own, which the value's must be."""
    if isinstance(target, MaskedTensor) and isinstance(value, MaskedTensor):
        _compare("__setitem__", target._masked_mask[index], value._masked_mask)
    _data_of(target)[index] = _data_of(value) if isinstance(value, Tensor) else value


def _copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`target.copy_(source)`, which does the same."""
    _assigned(target, ..., source)
    return target


def _where(condition: Any, input: Any = None, other: Any = None) -> MaskedTensor:
    if input is None or other is None:
        raise TypeError(
            "where: a condition with a mask and nothing to choose from; use its to_tensor(False)"
        )
    chosen, (a, b) = (
        _data_of(condition),
        (x if isinstance(x, Tensor) else ops.full((), x) for x in (input, other)),
    )
    mask = ops.where(chosen, _mask_of(a), _mask_of(b))
    return _of(ops.where(chosen, _data_of(a), _data_of(b)), mask)


def _reduction(name: str, over: Callable[..., Tensor]) -> Callable[..., MaskedTensor]:
    """A function over axes, called as PyTorch's is."""

    def reduce(
        input: MaskedTensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        axis: Any = None,
        **kwargs: Any,
    ) -> MaskedTensor:
        dim, (data, mask) = axis if dim is None else dim, (input._masked_data, input._masked_mask)
        found = over(data, dim, keepdim=keepdim, mask=mask, **kwargs)
        return _of(
            found, masked._output_mask(masked.sum, data, dim=dim, keepdim=keepdim, mask=mask)
        )

    reduce.__name__ = name
    return reduce


def _deviation(name: str) -> Callable[..., MaskedTensor]:
    reduce = _reduction(name, getattr(masked, name))

    def call(
        input: MaskedTensor,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        **kwargs: Any,
    ) -> MaskedTensor:
        if isinstance(dim, bool):  # var(unbiased)
            dim, unbiased = None, dim
        return reduce(
            input, dim, keepdim, **kwargs, **({} if unbiased is None else {"unbiased": unbiased})
        )

    return call


def _norm(
    input: MaskedTensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **kwargs: Any
) -> MaskedTensor:
    ord = 2 if p in (None, "fro") else p

    def over(data: Tensor, dim: Any, **given: Any) -> Tensor:
        return masked.norm(data, ord, dim, **given)

    return _reduction("norm", over)(input, dim, keepdim, **kwargs)


def _truth(input: Tensor, dim: Any = None, *, keepdim: bool = False, mask: Tensor) -> Tensor:
    return masked.amin(input != 0, dim, keepdim=keepdim, mask=mask)


def _any_truth(input: Tensor, dim: Any = None, *, keepdim: bool = False, mask: Tensor) -> Tensor:
    return masked.amax(input != 0, dim, keepdim=keepdim, mask=mask)


def _along(over: Callable[..., Tensor]) -> Callable[..., MaskedTensor]:
    """A function along one axis whose results are as many as it is given."""

    def call(
        input: MaskedTensor, dim: int, *args: Any, dtype: Any = None, **kwargs: Any
    ) -> MaskedTensor:
        return _of(
            over(input._masked_data, dim, dtype=dtype, mask=input._masked_mask), input._masked_mask
        )

    return call


def _refused(name: str) -> Callable[..., Any]:
    """A method of Tensor that is written in Python, refused as native ones are."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(_MISSING.format(name))

    method.__name__ = method.__qualname__ = name
    return method


_MISSING = "{}: is not there for tensors with a mask; use get_data(), or to_tensor(value), which gives the rest a value"
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "__setitem__": _assigned,
    "copy_": _copied,
    "where": _where,
    "norm": _norm,
    **{
        name: _along(getattr(masked, name))
        for name in "softmax log_softmax softmin cumsum cumprod".split()
    },
    "all": _reduction("all", _truth),
    "any": _reduction("any", _any_truth),
    **{name: _deviation(name) for name in ("std", "var")},
    **{
        name: _reduction(name, getattr(masked, name))
        for name in "sum mean prod amin amax argmin argmax logsumexp".split()
    },
}


class MaskedTensor(Tensor):
    """A tensor some of whose elements do not count.

    Args:
        data: the elements, which are copied. The copy has no history: `as_masked_tensor` keeps it.
        mask: True where an element counts, of the same shape.
        requires_grad: whether gradients are wanted; they are masked tensors, too.

    Functions of single elements keep the mask; of several masked tensors the masks must be equal. Indices, shapes, `cat` and their kin
    move it along. Over axes (`sum`, `mean`, `prod`, `amin`, `amax`, `argmin`, `argmax`, `logsumexp`, `all`, `any`, `norm`, `var`, `std`)
    only what counts is taken, and a result counts where something was. `where` chooses from two masks as from two tensors.

    Raises:
        TypeError: data or mask is no tensor, is masked itself or is sparse; the mask is not of bool.
        ValueError: their shapes differ, or `ValueError: Input masks must match` where those of two operands do.

    >>> import flambeau as fl
    >>> x = fl.masked.MaskedTensor(fl.tensor([[1.0, 2.0], [3.0, 4.0]]), fl.tensor([[True, False], [True, True]]))
    >>> x.sum(0)
    MaskedTensor(
      [  4.0000,   4.0000]
    )
    >>> (x * 10).to_tensor(0.0)
    tensor([[10.,  0.],
            [30., 40.]])
    """

    _masked_data: Tensor
    _masked_mask: Tensor
    _sees_parts = True  # of functions in Python, what they call

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        for name, value in (("data", data), ("mask", mask)):
            if (
                not isinstance(value, Tensor)
                or isinstance(value, MaskedTensor)
                or value.layout is not strided
            ):
                raise TypeError(
                    f"MaskedTensor: {name} is a {type(value).__name__}; {name} must be a Tensor, dense and without a mask"
                )
        if mask.dtype is not _C.bool:
            raise TypeError(
                f"MaskedTensor: the mask is of {mask.dtype}; mask must have dtype bool (mask != 0)"
            )
        if mask.shape != data.shape:
            raise ValueError(
                f"MaskedTensor: data has shape {list(data.shape)}, the mask {list(mask.shape)}; data.size() must equal mask.size()"
            )
        return _of(data.detach().clone().requires_grad_(requires_grad), mask.clone())

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        owner, kwargs = getattr(func, "__self__", None), kwargs or {}
        name = owner.__name__ if type(owner) is GetSetDescriptorType else func.__name__
        if name in _GEOMETRY:
            return _C.no_torch_function(func, types, args, kwargs)
        plain = _plain_name(name)
        try:
            if name in _FUNCTIONS:
                return _FUNCTIONS[name](*args, **kwargs)
            if plain in _BY_ELEMENT:
                return _by_element(name, func, args, kwargs)
            if plain in _MOVES:
                return _moved(name, func, args, kwargs)
        except CONFUSED as error:
            found = said_by_op(error, name, func, args, kwargs)
            if found is not error:
                raise found from None
            raise
        raise TypeError(_MISSING.format(name))

    def get_data(self) -> Tensor:
        """All elements, also those that do not count."""
        return self._masked_data

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The elements, with a value in the place of those that do not count."""
        return ops.where(
            self._masked_mask,
            self._masked_data,
            ops.full((), value, dtype=self.dtype, device=self.device),
        )

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> MaskedTensor:
        """This tensor, which is dense."""
        return self if dtype is None else _of(self._masked_data.to(dtype), self._masked_mask)

    # ---- what is asked of the elements

    @property
    def device(self) -> Any:  # type: ignore[override]
        return self._masked_data.device

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return self._masked_data.is_cpu

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return self._masked_data.is_meta

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        return self._masked_data.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self._masked_data.grad_fn

    @property  # type: ignore[override]
    def data(self) -> MaskedTensor:
        return _of(self._masked_data.data, self._masked_mask)

    @data.setter
    def data(self, value: Any) -> None:
        raise TypeError(
            "data: a tensor with a mask has its shape and elements for good; make another one (unsqueeze instead of unsqueeze_), or write "
            "to it by copy_"
        )

    @property
    def requires_grad(self) -> bool:
        return self._masked_data.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._masked_data.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> MaskedTensor:
        self._masked_data.requires_grad_(requires_grad)
        return self

    @property  # type: ignore[override]
    def grad(self) -> MaskedTensor | None:
        """The gradient, which counts where this tensor does."""
        found = self._masked_data.grad
        return None if found is None else _of(found, self._masked_mask)

    @grad.setter
    def grad(self, value: MaskedTensor | None) -> None:
        self._masked_data.grad = None if value is None else _data_of(value)

    def retain_grad(self) -> None:
        self._masked_data.retain_grad()

    def backward(self, gradient: Tensor | None = None, *args: Any, **kwargs: Any) -> None:
        """Backward from what counts: the gradient of the rest is 0."""
        start = (
            ops.ones_like(self._masked_data) if gradient is None and self.ndim == 0 else gradient
        )
        if start is not None:
            data = _data_of(start)
            start = ops.where(self._masked_mask, data, ops.zeros_like(data))
        self._masked_data.backward(start, *args, **kwargs)

    def item(self) -> Any:
        """The number of one element, which must count."""
        if self.numel() == 1 and not bool(self._masked_mask):
            raise ValueError("item: the element does not count; use get_data() or to_tensor(value)")
        return self._masked_data.item()

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> MaskedTensor:
        if not self.is_leaf:
            raise _C.AutogradError(
                "deepcopy: the tensor with a mask is the result of a computation; call .detach() first"
            )
        memo[id(self)] = made = MaskedTensor(
            self._masked_data, self._masked_mask, self.requires_grad
        )
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return MaskedTensor, (self._masked_data.detach(), self._masked_mask, self.requires_grad)

    numpy, tolist, __array__, __dlpack__, __bool__, __float__, __int__, register_hook = map(
        _refused,
        (
            "numpy",
            "tolist",
            "__array__",
            "__dlpack__",
            "bool",
            "float",
            "int",
            "register_hook",
        ),
    )

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = _text(self._masked_data.tolist(), self._masked_mask.tolist(), "  ")
        return (
            f"MaskedTensor({text}, {self._masked_mask.item()})"
            if self.ndim == 0
            else f"MaskedTensor(\n  {text}\n)"
        )


def _text(data: Any, mask: Any, indent: str) -> str:
    """A number, or a list of them with those that do not count as dashes, lists of lists one below the other."""
    if not isinstance(data, list):
        return "--" if not mask else f"{data:8.4f}" if isinstance(data, float) else str(data)
    if not data or not isinstance(data[0], list):
        parts = [_text(d, m, indent) for d, m in zip(data, mask, strict=True)]
        wide = max([8 if not m else len(p) for p, m in zip(parts, mask, strict=True)], default=0)
        return (
            "["
            + ", ".join(p if m else p.rjust(wide) for p, m in zip(parts, mask, strict=True))
            + "]"
        )
    inner = indent + "  "
    lines = [inner + _text(d, m, inner) for d, m in zip(data, mask, strict=True)]
    return "[\n" + ",\n".join(lines) + f"\n{indent}]"


def _of(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Of parts that fit."""
    core = ops.empty_strided(data.shape, data.stride(), dtype=data.dtype, device="meta")
    made: MaskedTensor = core.as_subclass(MaskedTensor)
    made._masked_data, made._masked_mask = data, mask
    return made


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A `MaskedTensor` of copies of these two.

    >>> import flambeau as fl
    >>> x = fl.masked.masked_tensor(fl.tensor([-1.0, 4.0]), fl.tensor([False, True]), requires_grad=True)
    >>> x.sqrt().sum().backward()
    >>> x.grad
    MaskedTensor(
      [      --,   0.2500]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A `MaskedTensor` through which gradients go back to `data`, where the mask lets them through.

    >>> import flambeau as fl
    >>> x = fl.tensor([1.0, 2.0], requires_grad=True)
    >>> fl.masked.as_masked_tensor(x, fl.tensor([False, True])).sum().backward()
    >>> x.grad
    tensor([0., 1.])
    """
    made = MaskedTensor(data, mask)
    return _of(data.clone(), made._masked_mask)


def is_masked_tensor(obj: Any) -> bool:
    """Whether something is a `MaskedTensor`."""
    return isinstance(obj, MaskedTensor)
