"""Parameters that modules of the user's compute: `register_parametrization(layer, "weight", Symmetric())`.

`layer.weight` is computed whenever it is read, from the parameter `layer.parametrizations.weight.original` (several: `original0`, ...),
under which state dicts hold it. Writing `layer.weight = value` asks the parametrizations for what they would compute it of
(`right_inverse`).

>>> import flambeau as fl
>>> from flambeau.nn.utils import parametrize
>>> class Symmetric(fl.nn.Module):
...     def forward(self, w):
...         return w.triu() + w.triu(1).T
>>> layer = parametrize.register_parametrization(fl.nn.Linear(3, 3), "weight", Symmetric())
>>> bool((layer.weight == layer.weight.T).all()), [name for name, _ in layer.named_parameters()]
(True, ['bias', 'parametrizations.weight.original'])
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau.autograd import no_grad
from flambeau.nn.containers import ModuleDict, ModuleList
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cache = threading.local()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """A region in which each parametrized tensor is computed once; changes of what it is computed of are not seen."""
    before = getattr(_cache, "values", None)
    _cache.values = {} if before is None else before
    try:
        yield
    finally:
        _cache.values = before


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the originals that the first of them gets."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):  # as if it had none: the original goes in as it is
                        new = module.right_inverse(new)
        parts = new if isinstance(new, (list, tuple)) else [new]
        if not all(isinstance(part, Tensor) for part in parts):
            raise ValueError(f"register_parametrization: right_inverse gives a {type(new).__name__}; expected a tensor, or several")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor and tuple(new.shape) == tuple(original.shape) and new.dtype == original.dtype:
            with no_grad():
                original.detach().copy_(new)
            self._fl_keep("original", original, original)
        else:
            for i, part in enumerate([new] if self.is_tensor else new):
                self._fl_keep("original" if self.is_tensor else f"original{i}", part.detach(), original)

    def _fl_keep(self, name: str, value: Tensor, like: Tensor) -> None:
        if isinstance(like, Parameter):
            same = isinstance(value, Parameter)
            self.register_parameter(name, value if same else Parameter(value, like.requires_grad))  # type: ignore[arg-type]
        else:
            self.register_buffer(name, value)

    def _fl_originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals to what gives `value`.

        Raises:
            RuntimeError: a parametrization has no right_inverse, or it gives other shapes.
        """
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    name = type(module).__name__
                    raise RuntimeError(f"parametrize: {name} has no right_inverse, so that the tensor can not be assigned; define it")
                new = module.right_inverse(new)
            for original, part in zip(self._fl_originals(), [new] if self.is_tensor else new):
                if original.shape != part.shape:
                    raise RuntimeError(f"parametrize: right_inverse gives shape {list(part.shape)}; expected {list(original.shape)}")
                original.detach().copy_(part)

    def forward(self) -> Tensor:
        """The tensor."""
        first, *rest = list(self)
        value = first(*self._fl_originals())
        for module in rest:
            value = module(value)
        return value  # type: ignore[no-any-return]


def _no_pickle(module: Any, protocol: Any) -> Any:
    raise RuntimeError(f"{type(module).__name__}: a parametrised module can not be pickled; save its state_dict()")


def _copy(module: Any, memo: dict[int, Any]) -> Any:
    cls: Any = type(module)
    new = object.__new__(cls)
    memo[id(module)] = new
    new.__dict__.update(copy.deepcopy(module.__dict__, memo))
    return new


def _property(name: str) -> property:
    def read(module: Any) -> Tensor:
        values = getattr(_cache, "values", None)
        if values is None:
            return module.parametrizations[name]()  # type: ignore[no-any-return]
        key = (id(module), name)
        if key not in values:
            values[key] = (module, module.parametrizations[name]())
        return values[key][1]  # type: ignore[no-any-return]

    def write(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(read, write)


def _setattr(module: Any, name: str, value: Any) -> None:
    found = getattr(type(module), name, None)
    if isinstance(found, property) and name in module.__dict__.get("_modules", {}).get("parametrizations", ()):
        found.__set__(module, value)
    else:
        Module.__setattr__(module, name, value)


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Makes a parameter or buffer what `parametrization` computes of it; another one for the same tensor computes of that.

    Args:
        unsafe: lets a parametrization change shape and type of the tensor.

    Raises:
        ValueError: there is no such parameter or buffer, or the result has another shape or type, without `unsafe`.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain: Any = module.parametrizations[tensor_name]  # type: ignore[index]
        before = getattr(module, tensor_name)
        _checked(tensor_name, before, parametrization(before), unsafe)
        chain.append(parametrization)
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise ValueError(f"register_parametrization: {type(module).__name__} has no parameter or buffer '{tensor_name}'")
    shape, dtype = tuple(original.shape), original.dtype
    chain = ParametrizationList([parametrization], original, unsafe)
    made = chain()
    if not isinstance(made, Tensor):
        raise ValueError(_no_tensor(tensor_name, made))
    if not unsafe and (tuple(made.shape), made.dtype) != (shape, dtype):
        raise ValueError(_changed(tensor_name, shape, dtype, made))
    cls: Any = type(module)
    title = cls.__name__
    if "parametrizations" not in module._modules:
        title = f"Parametrized{title}"
        module.parametrizations = ModuleDict()
    module._parameters.pop(tensor_name, None)
    module._buffers.pop(tensor_name, None)
    module.parametrizations[tensor_name] = chain  # type: ignore[index,operator]
    body = {"__module__": ParametrizationList.__module__, "__reduce_ex__": _no_pickle, "__deepcopy__": _copy, "__setattr__": _setattr,
            tensor_name: _property(tensor_name), "_unparametrized": getattr(cls, "_unparametrized", cls)}  # fmt: skip
    module.__class__ = type(title, (cls,), body)
    return module


def _changed(name: str, shape: tuple[int, ...], dtype: Any, made: Tensor) -> str:
    became = f"'{name}' becomes {made.dtype} {list(made.shape)}"
    return f"register_parametrization: {became}; expected {dtype} {list(shape)}, as it was (unsafe=True lets it change)"


def _no_tensor(name: str, made: Any) -> str:
    return f"register_parametrization: '{name}' becomes {type(made).__name__}; expected a Tensor"


def _checked(name: str, before: Tensor, made: Tensor, unsafe: bool) -> None:
    if not isinstance(made, Tensor):
        raise ValueError(_no_tensor(name, made))
    if not unsafe and (made.shape != before.shape or made.dtype != before.dtype):
        raise ValueError(_changed(name, tuple(before.shape), before.dtype, made))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or the one of that name, is computed by parametrizations."""
    found: Any = getattr(module, "_modules", {}).get("parametrizations")
    if found is None:
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes the tensor an ordinary one again: its present value, or with `leave_parametrized=False` the original.

    Raises:
        ValueError: it is not parametrized, or there is no single original to go back to.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: '{tensor_name}' of {type(module).__name__} is not parametrized")
    chain: Any = module.parametrizations[tensor_name]  # type: ignore[index]
    originals = list(chain._parameters.values()) or list(chain._buffers.values())
    if not leave_parametrized and len(originals) > 1:
        what = f"'{tensor_name}' is computed of {len(originals)} tensors"
        raise ValueError(f"remove_parametrizations: {what}; leave_parametrized=False has no meaning")
    value = getattr(module, tensor_name).detach() if leave_parametrized else originals[0]
    is_parameter = bool(chain._parameters)
    if is_parameter and not isinstance(value, Parameter):
        if len(originals) == 1 and originals[0].shape == value.shape:
            originals[0].data = value
            value = originals[0]
        else:
            value = Parameter(value, originals[0].requires_grad)
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    cls: Any = type(module)
    if not len(module.parametrizations):  # type: ignore[arg-type]
        del module._modules["parametrizations"]
        module.__class__ = getattr(cls, "_unparametrized", cls.__mro__[1])
    else:
        plain = property(lambda m: m.__getattr__(tensor_name))
        module.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, tensor_name: plain})
    (module._parameters if is_parameter else module._buffers)[tensor_name] = value
    return module


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Gives `to_module` the parametrizations of another module, with what they compute of, or those of one tensor.

    A tensor of which nothing is computed is handed over itself. Tensors that `to_module` lacks are made.

    Raises:
        ValueError: `from_module` has no parametrized tensor (of that name).
    """
    if not is_parametrized(from_module, tensor_name):
        what = "nothing is parametrized" if tensor_name is None else f"'{tensor_name}' is not parametrized"
        raise ValueError(f"transfer_parametrizations_and_params: {what} in {type(from_module).__name__}")
    chains: Any = from_module.parametrizations
    for name in [tensor_name] if tensor_name is not None else list(chains):
        chain = chains[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        if not is_parametrized(to_module, name):
            for step in chain:
                register_parametrization(to_module, name, step, unsafe=chain.unsafe)
        mine: Any = to_module.parametrizations[name]  # type: ignore[index]
        for key in list(chain._parameters):
            mine._parameters[key] = chain._parameters[key]
        for key in list(chain._buffers):
            mine._buffers[key] = chain._buffers[key]
    return to_module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module without its parametrizations."""
    cls = type(module)
    return getattr(cls, "_unparametrized", cls.__mro__[1] if is_parametrized(module) else cls)
