"""Tensors that a Module knows by name.

A `Parameter` is a leaf that the optimizer moves; a `Buffer` is state that is saved and moved with
the module but not trained (running statistics): a plain Tensor with a flag. Both are Tensors in every
other respect: an operation on one gives a plain Tensor. Assigning one to a Module attribute registers it there.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C, _tensor
from flambeau._C import Tensor, ops
from flambeau._errors import NoTensorError
from flambeau._memory_format import strided
from flambeau._no_tensor import wants_tensors


def _rebuild_parameter(data: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(data, requires_grad)


def _alias(cls: type[Tensor], data: Tensor | None, requires_grad: bool, made: type[Tensor] | None = None) -> Any:
    """A leaf over the same memory. `made`: its class, where it is not `cls`, of which errors speak."""
    if data is None:
        data = ops.empty(0)
    if not isinstance(data, Tensor):
        raise NoTensorError(f"{cls.__name__}: data = {type(data).__name__}; expected a Tensor (wrap it: {_tensor.library}.tensor(data))")
    if _C.has_override(data) and hasattr(data, "_level"):
        raise TypeError(
            f"{cls.__name__}: data stands for a value inside of vmap or jvp; expected a tensor from outside (pass tensors "
            "to a module by func.functional_call)"
        )
    if data.layout is not strided:
        raise TypeError(f"{cls.__name__}: data is a sparse tensor ({data.layout}); expected a dense one, for example its values()")
    if requires_grad and not (data.is_floating_point() or data.is_complex()):
        raise RuntimeError(
            f"{cls.__name__}: data has dtype {data.dtype}; only floating point and complex tensors can require "
            "gradients (pass requires_grad=False)"
        )
    return Tensor._make_subclass(made or cls, data.detach(), requires_grad)


def _of_its_class(data: Any, requires_grad: bool) -> Any:
    """A leaf over tensors of another class that keeps the class, which its `detach` returns; None for others, and what is refused."""
    if not isinstance(data, Tensor) or type(data) in (Tensor, Parameter) or hasattr(data, "_level") or data.layout is not strided:
        return None
    leaf = data.detach().requires_grad_(requires_grad)
    return leaf if type(leaf) is type(data) else None


class _ParameterMeta(type):
    """Tensors of other classes are parameters where their attribute `_is_param` says so, as in PyTorch."""

    def __instancecheck__(cls, value: Any) -> bool:
        if super().__instancecheck__(value):
            return True
        return cls is Parameter and isinstance(value, Tensor) and getattr(value, "_is_param", False) is True


class _BufferMeta(type):
    """The same by `_is_buffer`, which all but those without a shape are known by."""

    def __instancecheck__(cls, value: Any) -> bool:
        if super().__instancecheck__(value):
            return True
        return cls is Buffer and isinstance(value, Tensor) and getattr(value, "_is_buffer", False) is True


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A trainable tensor; `requires_grad` is True unless told otherwise.

    Shares the memory of `data`. Of a tensor of a subclass it is one of that class, which `isinstance` knows as a Parameter.

    Raises:
        TypeError: `data` is not a Tensor.
        RuntimeError: `requires_grad` with an integer or boolean `data`.

    >>> import flambeau as fl
    >>> fl.nn.Parameter(fl.zeros(2)).requires_grad
    True
    """

    __torch_function__ = _C.no_torch_function  # results are plain tensors

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        self: Parameter | None = _of_its_class(data, requires_grad)
        if self is None:
            return _alias(cls, data, requires_grad)  # type: ignore[no-any-return]
        self._is_param = True  # type: ignore[attr-defined]
        return self

    def __repr__(self, **kwargs: Any) -> str:
        return "Parameter containing:\n" + super().__repr__(**kwargs)

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copy = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = copy
        result: Parameter = memo[id(self)]
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = getattr(type(self), "__getstate__", None)  # every object has one from Python 3.11 on
        state = self.__dict__ if own is getattr(object, "__getstate__", None) else self.__getstate__()  # type: ignore[operator,unused-ignore]
        return _rebuild_parameter, (self.detach(), self.requires_grad), state or None


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that belongs to a module's state but is not trained.

    What is made is a plain tensor over the same memory (or one of `data`'s class), which `isinstance` knows as a Buffer.
    `persistent=False` leaves it out of `state_dict`.

    >>> import flambeau as fl
    >>> m = fl.nn.Module()
    >>> m.mean = fl.nn.Buffer(fl.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        requires_grad = data is not None and isinstance(data, Tensor) and data.requires_grad
        self: Buffer | None = _of_its_class(data, requires_grad)
        if self is None:
            self = _alias(cls, data, requires_grad, Tensor)
        self._is_buffer = True  # type: ignore[union-attr]
        self.persistent = persistent
        return self


# What can be asked of a tensor that has no shape yet, beside its attributes.
_SHAPELESS = frozenset(
    "__get__ __set__ __delete__ __repr__ __format__ is_floating_point is_complex requires_grad_ get_device register_hook "
    "register_post_accumulate_grad_hook retain_grad _make_subclass".split()
)


class UninitializedTensorMixin:
    """A tensor without a shape yet: it can be moved and cast, while what reads its shape, and every op, is refused.

    Its bytes would be on the meta device; `device` says where those will lie that `materialize` gives it.
    """

    _sees_parts = True  # of functions in Python, what they call
    _becomes: type[Tensor]
    _device: Any
    _dtype: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in _SHAPELESS:
            raise ValueError(
                f"{getattr(func, '__name__', func)}: got a {cls.__name__}, which has no shape before the first forward; "
                "call the module once with an example input"
            )
        return _C.no_torch_function(func, types, args, kwargs)

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives it memory of this shape, without values, and makes it an ordinary one; the object stays."""
        made = ops.empty(tuple(shape), device=device or self._device, dtype=dtype or self.dtype)
        self.__class__ = self._becomes
        self.data = made
        del self._device, self._dtype

    @property
    def device(self: Any) -> Any:
        """Where its elements will be."""
        return _C.device(self._device)

    @property
    def is_meta(self: Any) -> bool:
        """Whether its elements will have no bytes."""
        return self.device.type == "meta"  # type: ignore[no-any-return]

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """One of another device or type; `half()`, `cpu()` and the like are the same."""
        from flambeau.nn._changes import parse_to

        device, dtype = parse_to(args, kwargs)
        if device is not None and _C.device(device).type not in ("cpu", "meta"):
            ops.empty(0, device=device)  # which says that there is none
        return self._like(device, dtype)

    def _like(self: Any, device: Any = None, dtype: Any = None) -> Any:
        return type(self)(self.requires_grad, self._device if device is None else device, dtype or self.dtype)

    def _become_like(self: Any, other: Any) -> None:
        """Takes over device and type of another one."""
        if other is self:
            return
        self.data = ops.empty(0, device="meta", dtype=other.dtype)
        self._remember(other._device, other._dtype)

    def cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._like("cpu")

    def cuda(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return ops.empty(0).cuda(device)  # which says that there is none

    def type(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        return self._like(dtype=ops.empty(0).type(dtype).dtype) if dtype is not None else ops.empty(0, dtype=self.dtype).type()

    def half(self: Any) -> Any:
        return self._like(dtype=_C.float16)

    def bfloat16(self: Any) -> Any:
        return self._like(dtype=_C.bfloat16)

    def float(self: Any) -> Any:
        return self._like(dtype=_C.float32)

    def double(self: Any) -> Any:
        return self._like(dtype=_C.float64)

    def share_memory_(self: Any) -> Any:
        """Refused: there is no memory yet."""
        raise RuntimeError(f"share_memory_: a {type(self).__name__} has no memory before the first forward; call the module once")

    @property
    def _no_shape(self: Any) -> Any:
        raise RuntimeError(
            f"{type(self).__name__}: Can't access the shape of an uninitialized parameter or buffer before the first forward; "
            "call the module once with an example input"
        )

    shape: Any = _no_shape

    def _remember(self: Any, device: Any, dtype: Any) -> None:
        self._device, self._dtype = device or _C.new_device() or "cpu", dtype  # of the region in which it is made, not of the first forward

    def detach(self: Any) -> Any:
        """Itself: a state_dict that is made before the first forward holds what has no shape yet."""
        return self

    def __repr__(self, **kwargs: Any) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A Parameter whose shape the first input will say.

    >>> import flambeau as fl
    >>> p = fl.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', flambeau.Size([2, 3]))
    """

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        self: UninitializedParameter = _alias(cls, ops.empty(0, device="meta", dtype=dtype), requires_grad)
        self._remember(device, dtype)
        return self

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self._device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return UninitializedParameter, (self.requires_grad, self._device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc]
    """A Buffer whose shape the first input will say."""

    _becomes = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True) -> UninitializedBuffer:
        self: UninitializedBuffer = _alias(cls, ops.empty(0, device="meta", dtype=dtype), requires_grad)
        self._is_buffer = True  # type: ignore[attr-defined]
        self.persistent = persistent
        self._remember(device, dtype)
        return self

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self._device, self.dtype, self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return UninitializedBuffer, (self.requires_grad, self._device, self.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """True for a parameter or buffer without a shape."""
    return isinstance(param, UninitializedTensorMixin)
