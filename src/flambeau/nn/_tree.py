"""Looking around in a tree of modules: what is below one, and what stands at a dotted path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from flambeau._C import Tensor
from flambeau.nn._errors import kind_of
from flambeau.nn.parameter import Parameter

# What the tree is made of: Module, which is defined above this file.
M = TypeVar("M", bound="TreeMixin[Any]")

# For type checkers alone: Module is not generic, so that `class Mine(Generic[T], Module)` has an order of bases.
if TYPE_CHECKING:
    from typing import Generic
else:

    class _NoBase:
        def __getitem__(self, item):
            return self

        def __mro_entries__(self, bases):
            return ()

    Generic = _NoBase()


class TreeMixin(Generic[M]):
    """The half of Module that walks over its children."""

    if not TYPE_CHECKING:
        @classmethod
        def __class_getitem__(cls, item):  # until Module is made, which is not subscripted
            return cls

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def _named_members(
        self,
        members: Callable[[M], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        me: Any = self
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, me)]
        )
        for module_prefix, module in modules:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter); a tied parameter comes once unless
        `remove_duplicate=False`.
        """
        return self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters, each once."""
        if recurse and _walks_as_here(self, "named_parameters"):
            return self._fl_members("_parameters")
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields (dotted name, buffer)."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the buffers, each once."""
        if recurse and _walks_as_here(self, "named_buffers"):
            return self._fl_members("_buffers")
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _fl_members(self, table: str) -> Iterator[Any]:
        """What is in a table of this module and of all below it, each once, without names."""
        seen: set[int] = set()
        for module in _below(self):
            for value in getattr(module, table).values():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield value

    def named_children(self) -> Iterator[tuple[str, M]]:
        """Yields (name, module) of the direct children, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and (key := id(module)) not in seen:
                seen.add(key)
                yield name, module

    def children(self) -> Iterator[M]:
        """Yields the direct children, each once."""
        if type(self).named_children is not TreeMixin.named_children:
            for _, module in self.named_children():
                yield module
            return
        seen: set[int] = set()
        for module in self._modules.values():
            if module is not None and (key := id(module)) not in seen:
                seen.add(key)
                yield module

    def named_modules(
        self, memo: set[M] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, M]]:
        """Yields (dotted name, module) of this module and all below it, depth first."""
        memo = set() if memo is None else memo
        me: Any = self
        if me in memo:
            return
        if remove_duplicate:
            memo.add(me)
        yield prefix, me
        # One generator walks all the way down, but for modules that walk in a way of their own.
        above: list[tuple[Any, str]] = []
        items, dotted = iter(self._modules.items()), f"{prefix}." if prefix else ""
        while True:
            for name, module in items:
                if module is None:
                    continue
                path = dotted + name
                if getattr(module.named_modules, "__func__", None) is not TreeMixin.named_modules:
                    yield from module.named_modules(memo, path, remove_duplicate)
                    continue
                if module in memo:
                    continue
                if remove_duplicate:
                    memo.add(module)
                yield path, module
                if module._modules:
                    above.append((items, dotted))
                    items, dotted = iter(module._modules.items()), path + "."
                    break
            else:
                if not above:
                    return
                items, dotted = above.pop()

    def modules(self, remove_duplicate: bool = True) -> Iterator[M]:
        """Yields this module and all below it, each once, or with `remove_duplicate=False` at each place."""
        if remove_duplicate and _walks_as_here(self, "named_modules"):
            return _below(self)
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def get_submodule(self, target: str) -> M:
        """Returns the module at the dotted path `target`; '' is this module.

        Raises:
            AttributeError: there is none, or it is no Module; the text names the part that is
            missing.
        """
        module: Any = self
        walked: list[str] = []
        for part in target.split(".") if target else []:
            where = ".".join(walked) or type(self).__name__
            if not hasattr(module, part):
                names = ", ".join(module._modules) or "none"
                raise AttributeError(
                    f"get_submodule('{target}'): {where}: {type(module).__name__} has no attribute `{part}`; its children: {names}"
                )
            found = getattr(module, part)
            if not isinstance(found, TreeMixin):
                raise AttributeError(f"get_submodule('{target}'): `{part}` is not an nn.Module; {where} has a {kind_of(found)} there")
            module = found
            walked.append(part)
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: M, strict: bool = False) -> None:
        """Puts `module` at the dotted path `target`; `strict` demands that one is there already.

        Raises:
            AttributeError: what is there is no module, or there is nothing on the way to it.
            ValueError: `target` is empty, or `module` no Module.
        """
        if not target:
            raise ValueError("set_submodule: Cannot set the submodule without a target name! A module cannot replace itself")
        parent_path, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_path)
        if strict and name not in parent._modules:
            raise AttributeError(
                f"set_submodule('{target}'): {type(parent).__name__} has no '{name}'"
            )
        if not hasattr(module, "_parameters"):
            raise ValueError(f"set_submodule('{target}'): module is {kind_of(module)}; expected a Module")
        if hasattr(parent, name) and name not in parent._modules:
            raise AttributeError(f"set_submodule('{target}'): '{name}' is {kind_of(getattr(parent, name))}, no module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter at the dotted path `target`.

        Raises:
            AttributeError: there is none, or it is no Parameter.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"get_parameter('{target}'): {type(module).__name__} has no attribute `{name}`")
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"get_parameter('{target}'): `{name}` is not an nn.Parameter, but {kind_of(found)}")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer at the dotted path `target`.

        Raises:
            AttributeError: there is none, or it is no buffer.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"get_buffer('{target}'): {type(module).__name__} has no attribute `{name}`")
        found = getattr(module, name)
        if name not in module._buffers:
            raise AttributeError(f"get_buffer('{target}'): `{name}` is not a buffer, but {kind_of(found)}")
        return found  # type: ignore[no-any-return]


def _walks_as_here(module: Any, name: str) -> bool:
    """Whether neither its class nor the module itself has another `named_modules`, `_named_members` or method of this name."""
    kind, own = type(module), module.__dict__
    return (
        kind.named_modules is TreeMixin.named_modules
        and kind._named_members is TreeMixin._named_members
        and getattr(kind, name) is getattr(TreeMixin, name)
        and not ("named_modules" in own or "_named_members" in own or name in own)
    )


def _below(top: Any) -> Iterator[Any]:
    """The modules of `named_modules`, each once, without making their names."""
    memo = {top}
    yield top
    above: list[Any] = []
    modules = iter(top._modules.values())
    while True:
        for module in modules:
            if module is None:
                continue
            if getattr(module.named_modules, "__func__", None) is not TreeMixin.named_modules:
                for _, found in module.named_modules(memo, "", True):
                    yield found
                continue
            if module in memo:
                continue
            memo.add(module)
            yield module
            if module._modules:
                above.append(modules)
                modules = iter(module._modules.values())
                break
        else:
            if not above:
                return
            modules = above.pop()


if not TYPE_CHECKING:
    del TreeMixin.__orig_bases__  # serializers of classes (dill) take these for the bases of a module
