"""`torch.fx.graph`: code of graphs whose parameters are the leaves of their arguments; the rest is `flambeau.fx.graph`."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.compat._torch.overlay.fx import _pytree as fx_pytree
from flambeau.compat._torch.overlay.utils import _pytree as pytree
from flambeau.fx._codegen import CodeGen

__all__: list[str] = []


class _PyTreeInfo(NamedTuple):
    """Names of the arguments; the leaves of all of them are the graph's parameters, and its list of results are the leaves of what it returns."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Takes arguments apart, and puts results together. `by_name` are arguments that are given by name alone."""

    def __init__(self, pytree_info: _PyTreeInfo, by_name: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.pytree_info = pytree_info
        self._by_name = by_name

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The first line, and that which takes arguments apart."""
        names = self.pytree_info.orig_args
        positional = [name for name in names if name not in (self._by_name or ())]
        given = f"[{', '.join(positional)}]"
        if self._by_name is not None:
            given = f"({given}, {{{', '.join(f'{name!r}: {name}' for name in self._by_name)}}})"
        parameters = [*positional, *(["*", *self._by_name] if self._by_name else ())]
        first = super().gen_fn_def(parameters, maybe_return_annotation)
        return f"{first}\n    {''.join(f'{name}, ' for name in free_vars)}= fx_pytree.tree_flatten_spec({given}, self._in_spec)" if free_vars else first

    def generate_output(self, output_args: Any, *, descs: Any = None) -> str:
        """The last line."""
        return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of arguments."""
        return pytree.arg_tree_leaves(*args)

    def process_outputs(self, outputs: Any) -> Any:
        """What has these leaves."""
        return pytree.tree_unflatten(outputs, self.pytree_info.out_spec)

    def additional_globals(self) -> list[tuple[str, Any]]:
        """What the lines use."""
        return [("fx_pytree", fx_pytree), ("pytree", pytree)]
