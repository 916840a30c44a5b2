"""What `torch.library` has beyond `flambeau.library`: operators that are declared by a schema in PyTorch's own registry, which is not here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Library"]


class Library:
    """A part of PyTorch's registry of operators. One can be made, and takes nothing.

    Raises:
        NotImplementedError: something is registered in it.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def _refused(self, what: str) -> NoReturn:
        raise NotImplementedError(f"Library({self.ns!r}).{what}: there is no registry by dispatch keys; library.custom_op makes operators of Python functions")

    def define(self, schema: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refused(f"define({schema!r})")

    def impl(self, op_name: Any, fn: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refused(f"impl({op_name!r})")


_waiting: dict[tuple[str, str], Any] = {}  # (kind, operator) -> what was registered before the operator


def _registrar(kind: str) -> Any:
    def register(op: Any, *args: Any, **kwargs: Any) -> Any:
        from flambeau.compat._torch.overlay.ops import exists

        if not isinstance(op, str) or exists(op):
            import importlib

            return getattr(importlib.import_module("flambeau.library"), kind)(op, *args, **kwargs)

        def note(func: Any) -> Any:
            _waiting[kind, op] = func
            return func

        functions = [a for a in args if callable(a)]
        return note(functions[0]) if functions else note

    register.__name__ = register.__qualname__ = kind
    register.__doc__ = f"`{kind}` of an operator; one of an extension that is not loaded is noted, and calling it says that it is missing."
    return register


for _kind in ("register_fake", "register_autograd", "register_vmap", "register_kernel", "register_autocast", "register_torch_dispatch", "impl_abstract"):
    globals()[_kind] = _registrar(_kind)
