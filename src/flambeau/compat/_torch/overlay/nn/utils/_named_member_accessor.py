"""`torch.nn.utils._named_member_accessor`: parameters and buffers of a module by their dotted names, exchanged for others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau._C import Tensor
from flambeau.nn import Module

_MISSING = object()


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Puts a tensor where a parameter, buffer or attribute of this name is."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor where another is, and returns that one; `_MISSING` takes it away."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers, vars(module)):
        if name in table:
            before = table[name]
            if table is vars(module) and before is not None and not isinstance(before, Tensor):
                raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
            break
    else:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        before = _MISSING
        if tensor is _MISSING:
            return before
    if before is _MISSING:
        setattr(module, name, tensor)
    elif tensor is _MISSING:
        del table[name]
    else:
        table[name] = tensor  # where it was, whatever class it has
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Puts a module where another is, and returns that one."""
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    before: Any = module._modules[name]
    module._modules[name] = submodule
    return before  # type: ignore[no-any-return]


class NamedMemberAccessor:
    """Members of a module and of those below it, by dotted names."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def _split(self, name: str) -> tuple[Module, str]:
        path, _, last = name.rpartition(".")
        return self.get_submodule(path), last

    def get_submodule(self, name: str) -> Module:
        """The module of this name."""
        try:
            return self.module.get_submodule(name)
        except AttributeError as error:
            raise AttributeError(f"{self.module._get_name()} has no attribute `{name}`") from error

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Puts a module where another is, and returns that one."""
        return swap_submodule(*self._split(path), value)

    def get_tensor(self, name: str) -> Tensor:
        """The parameter, buffer or attribute of this name."""
        module, last = self._split(name)
        found = getattr(module, last, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{module._get_name()} has no attribute `{last}`")
        if not isinstance(found, Tensor) and found is not None:
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found  # type: ignore[return-value]

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """Several of them."""
        return [self.get_tensor(name) for name in names]

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Puts a tensor there."""
        set_tensor(*self._split(name), value)

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Puts several there."""
        for name, value in zip(list(names), list(values), strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """The same of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensor(self, name: str) -> None:
        """Takes it away."""
        swap_tensor(*self._split(name), _MISSING)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Takes several away."""
        for name in names:
            self.del_tensor(name)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Puts a tensor where another is, and returns that one."""
        return swap_tensor(*self._split(name), value, allow_missing=allow_missing)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """The same of several."""
        return [self.swap_tensor(n, v, allow_missing) for n, v in zip(list(names), list(values), strict=True)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """The same of a dict: what was there, and names that were missing. Where one raises, those before it are put back."""
        before: dict[str, Any] = {}
        missing = []
        try:
            for name, tensor in named_tensors.items():
                old = self.swap_tensor(name, tensor, allow_missing=True)
                before[name] = old
                if old is _MISSING:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, old in before.items():
                self.swap_tensor(name, old, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names of parameters and buffers that are not among `keys`, and keys that are none."""
        keys = set(keys)
        valid = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(valid - keys), sorted(keys - valid)

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        """Those of the module."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        """Those of the module."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Any:
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Any:
        """Those of the module."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)
