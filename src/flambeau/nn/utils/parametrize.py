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
    """The parametrizations of one tensor, and the originals that the first of them gets.

    An original may be parametrized itself, under the name that it has here.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False, *, name: str = "original") -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(self._fl_steps()):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):  # as if it had none: the original goes in as it is
                        new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        parts = new if isinstance(new, Sequence) else [new]
        if not all(isinstance(part, Tensor) for part in parts):
            raise ValueError(f"register_parametrization: right_inverse gives {', '.join(_kinds(parts))}; expected a tensor, or several")
        if self.is_tensor and new.dtype != original.dtype:
            raise ValueError(f"register_parametrization: right_inverse gives {new.dtype}; expected {original.dtype}, as '{name}' is")
        self.ntensors = len(parts)
        if not unsafe:
            _checked(f"'{name}' becomes", original, self._fl_computed(parts))
        if self.is_tensor:  # which optimizers may know
            with no_grad():
                if new.shape == original.shape:
                    original.detach().copy_(new)
                else:
                    original.data = new.detach()
        for key, part in zip(self._fl_names(), [original] if self.is_tensor else [part.detach() for part in parts], strict=True):
            self._fl_keep(key, part, original)

    def _fl_steps(self) -> list[Any]:
        return [module for key, module in self._modules.items() if key != "parametrizations"]  # those of an original

    def _fl_names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _fl_computed(self, originals: Sequence[Tensor]) -> Any:
        first, *rest = self._fl_steps()
        value = first(*originals)
        for module in rest:
            value = module(value)
        return value

    def _fl_keep(self, name: str, value: Tensor, like: Tensor) -> None:
        if isinstance(like, Parameter):
            same = isinstance(value, Parameter)
            self.register_parameter(name, value if same else Parameter(value, like.requires_grad))  # type: ignore[arg-type]
        else:
            self.register_buffer(name, value)

    def _fl_originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._fl_names()]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals to what gives `value`.

        Raises:
            RuntimeError: a parametrization has no right_inverse, or it gives other shapes.
            ValueError: it gives other types, or another number of tensors.
        """
        with no_grad():
            new: Any = value
            for module in reversed(self._fl_steps()):
                if not hasattr(module, "right_inverse"):
                    name = type(module).__name__
                    raise RuntimeError(f"parametrize: {name} has no right_inverse, so that the tensor can not be assigned; define it")
                new = module.right_inverse(new)
            originals, parts = self._fl_originals(), new if isinstance(new, Sequence) and not self.is_tensor else [new]
            kinds, wanted = _kinds(parts), _kinds(originals)
            if kinds != wanted:
                raise ValueError(f"parametrize: right_inverse gives {', '.join(kinds)}; expected {', '.join(wanted)}, as the originals are")
            for original, part in zip(originals, parts, strict=True):
                if original.shape != part.shape:
                    raise RuntimeError(f"parametrize: right_inverse gives shape {list(part.shape)}; expected {list(original.shape)}")
            for name, original, part in zip(self._fl_names(), originals, parts, strict=True):
                if is_parametrized(self, name):
                    setattr(self, name, part)
                else:
                    original.detach().copy_(part)

    def forward(self) -> Tensor:
        """The tensor."""
        return self._fl_computed(self._fl_originals())  # type: ignore[no-any-return]


def _kinds(parts: Sequence[Any]) -> list[str]:
    return [str(part.dtype) if isinstance(part, Tensor) else type(part).__name__ for part in parts]


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
        if not unsafe:
            before = getattr(module, tensor_name)
            made = parametrization(before)
            _checked(f"'{tensor_name}' becomes", before, made)
            if hasattr(parametrization, "right_inverse"):
                with contextlib.suppress(NotImplementedError):
                    _checked(f"right_inverse makes of '{tensor_name}'", before, parametrization.right_inverse(made))
        chain.append(parametrization)
        chain.unsafe |= unsafe
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], original, unsafe, name=tensor_name)
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


def _checked(what: str, before: Tensor, made: Any) -> None:
    if not isinstance(made, Tensor):
        raise ValueError(f"register_parametrization: {what} {type(made).__name__}. A parametrization must return a tensor")
    if made.shape != before.shape or made.dtype != before.dtype:
        became, was = (f"{x.dtype} {list(x.shape)}" for x in (made, before))
        part = "dtype" if made.shape == before.shape else "shape"
        raise ValueError(
            f"Registering a parametrization may not change the {part} of the tensor, unless `unsafe` flag is enabled: "
            f"{what} {became}; expected {was}, as it was"
        )


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
        raise ValueError(f"remove_parametrizations: {type(module).__name__} does not have a parametrization on {tensor_name}")
    chain: Any = module.parametrizations[tensor_name]  # type: ignore[index]
    originals = chain._fl_originals()
    if not leave_parametrized and len(originals) > 1:
        what = f"'{tensor_name}' is computed of {len(originals)} tensors"
        raise ValueError(f"remove_parametrizations: {what}; leave_parametrized=False has no meaning")
    value = getattr(module, tensor_name).detach() if leave_parametrized else originals[0]
    is_parameter = not chain._buffers
    if is_parameter and not isinstance(value, Parameter):
        if len(originals) == 1 and isinstance(originals[0], Parameter) and originals[0].shape == value.shape:
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
