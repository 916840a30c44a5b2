"""What is done to a module and all below it: moving, casting, switching modes, dropping gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau import _C
from flambeau.__future__ import switches
from flambeau._C import Tensor, ops
from flambeau._handles import Table
from flambeau._info import element_type
from flambeau._memory_format import check_memory_format
from flambeau._warn import warn
from flambeau.autograd import no_grad
from flambeau.autograd.backward import zero_gradient
from flambeau.nn._errors import annotate, kind_of
from flambeau.nn._tree import M, TreeMixin
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.utils._swap import swap_tensors

T = TypeVar("T", bound="ChangeMixin[Any]")


class ChangeMixin(TreeMixin[M]):
    """The half of Module that changes a whole tree."""

    training: bool

    def apply(self: T, fn: Callable[[Any], Any]) -> T:
        """Calls `fn` on every module, children first, and returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replaces each tensor by `fn(tensor)`; a Parameter stays the same object, unless its values would go to the meta device."""
        try:
            self._fl_apply_here(fn, recurse)
        except Exception as error:
            annotate(self, error)
            raise
        return self

    def _fl_apply_here(self: T, fn: Callable[[Tensor], Tensor], recurse: bool) -> None:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            if is_lazy(param):
                param._become_like(fn(param))
                continue
            with no_grad():
                data = fn(param.detach())
                grad = param.grad
                new_grad = None if grad is None else fn(grad.detach())
                lost = data.is_meta and not param.is_meta  # who holds the parameter keeps its values
                if not (switches.swap or switches.overwrite or lost):
                    param.grad = None
                    param.data = data
                    if grad is not None:
                        grad.data = new_grad
                        param.grad = grad
                    continue
                new = Parameter(data, param.requires_grad)
                if not switches.swap:
                    new.grad = new_grad
                    self._parameters[name] = new
                    continue
                swap_tensors(param, new)
                if grad is not None and new_grad is not None:
                    new.grad = None
                    if grad.grad_fn is None:  # who holds it has the new one, too
                        swap_tensors(grad, new_grad)
                        new_grad = grad
                    param.grad = new_grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Moves and casts parameters and buffers in place and returns self.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`. `memory_format=` is
        taken without effect. Only floating-point
        and complex tensors are cast, complex ones to a complex type alone.

        Raises:
            TypeError: the dtype is neither floating point nor complex.
            RuntimeError: `copy` is given.
        """
        if "copy" in kwargs or sum(isinstance(arg, bool) for arg in args) > 1:
            raise RuntimeError("Module.to: copy is given, but a module is changed in place; use copy.deepcopy(module).to(...)")
        device, dtype = parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype = {dtype}; parameters can only become floating point or complex")
        if dtype is not None and dtype.is_complex:
            warn(f"Module.to: dtype = {dtype}; not every module computes with complex parameters, and some do so in a way of their own")

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or (t.is_complex() and dtype is not None and dtype.is_complex) else None
            options = {"device": device, "dtype": wanted}
            options = {key: value for key, value in options.items() if value is not None}
            return t.to(**options) if options else t  # type: ignore[no-any-return]

        return self._apply(convert)

    def _fl_cast(self: T, dtype: Any) -> T:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Casts floating-point parameters and buffers to float32."""
        return self._fl_cast(_C.float32)

    def double(self: T) -> T:
        """Casts floating-point parameters and buffers to float64."""
        return self._fl_cast(_C.float64)

    def half(self: T) -> T:
        """Casts floating-point parameters and buffers to float16."""
        return self._fl_cast(_C.float16)

    def bfloat16(self: T) -> T:
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._fl_cast(_C.bfloat16)

    def type(self: T, dst_type: Any) -> T:
        """Casts all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self: T) -> T:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.to("cpu"))

    def cuda(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to a GPU (the current one by default)."""
        return self._apply(lambda t: t.cuda(device))

    def _fl_to_kind(self: T, kind: str, device: Any) -> T:
        place = kind if device is None else f"{kind}:{device}" if isinstance(device, int) else device
        return self._apply(lambda t: t.to(place))

    def xpu(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to an Intel GPU, of which there is none: raises what `Tensor.to` raises."""
        return self._fl_to_kind("xpu", device)

    def ipu(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to an IPU, of which there is none: raises what `Tensor.to` raises."""
        return self._fl_to_kind("ipu", device)

    def mtia(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to an MTIA device, of which there is none: raises what `Tensor.to` raises."""
        return self._fl_to_kind("mtia", device)

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Moves to `device` without copying: the values are undefined afterwards."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse)

    def _replicate_for_data_parallel(self: T) -> T:
        """A module of the same class, attributes and hooks, with tables of its own of the buffers and children, and without parameters."""
        replica = type(self).__new__(type(self))
        replica.__dict__.update(self.__dict__, _parameters=Table(), _is_replica=True)
        for name in ("_buffers", "_modules"):
            replica.__dict__[name] = Table(self.__dict__[name])
        return replica

    def share_memory(self: T) -> T:
        """Moves parameters and buffers to memory that other processes see: Tensor.share_memory_."""
        return self._apply(lambda t: t.share_memory_())

    def train(self: T, mode: bool = True) -> T:
        """Sets training mode (dropout, batch norm) here and below, and returns self.

        Raises:
            ValueError: `mode` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Sets evaluation mode: the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Says for all parameters whether autograd records on them (False freezes the module)."""
        if not isinstance(requires_grad, bool):
            raise TypeError(f"requires_grad_: requires_grad = {requires_grad!r}; expected a bool")
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, or with `set_to_none=False` fills them with zeros."""
        for param in self.parameters():
            zero_gradient(param, set_to_none)


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Returns (device, dtype) of a `to(...)` call; either may be None."""
    known = {"device", "dtype", "non_blocking", "memory_format", "tensor", "copy"}
    unknown = set(kwargs) - known
    if unknown:
        raise TypeError(
            f"Module.to: unknown argument '{min(unknown)}'; expected one of {sorted(known)}"
        )
    check_memory_format("Module.to", kwargs.get("memory_format"))
    device, dtype = kwargs.get("device"), element_type(kwargs.get("dtype"))
    tensors = [kwargs["tensor"]] if "tensor" in kwargs else []
    for arg in args:
        if isinstance(arg, Tensor):
            tensors.append(arg)
        elif isinstance(arg, _C.dtype) or arg is float or arg is complex:
            dtype = element_type(arg)
        elif isinstance(arg, bool) or arg is None:
            continue  # non_blocking, copy
        elif isinstance(arg, (str, int, _C.device)):
            device = f"cuda:{arg}" if isinstance(arg, int) else arg
        else:
            raise TypeError(f"Module.to: got {kind_of(arg)}; expected a device, a dtype or a Tensor")
    for tensor in tensors:
        device, dtype = tensor.device, tensor.dtype
    return device, dtype
