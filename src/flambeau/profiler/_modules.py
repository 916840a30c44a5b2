"""Calls of modules as events whose name is the module's path in the model.

While a profile with modules runs, `Module.__call__` is another function, so that nothing is asked when
none does. Paths are found by looking at which modules called: `Net`, then `Net.layers.0` inside of it.
"""

from __future__ import annotations

import threading
from typing import Any

from flambeau._C import profiler as _recorder
from flambeau.profiler._events import MODULE

_local = threading.local()  # .stack: (module, path) of the calls that run on this thread


class ModuleCalls:
    """Switches the recording of module calls on and off, and remembers the types of paths."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self._children: dict[int, tuple[Any, dict[int, str]]] = {}  # the module itself keeps its id
        self._plain: Any = None

    def _path(self, module: Any, stack: list[tuple[Any, str]]) -> str:
        kind = type(module).__name__
        if not stack:
            path = kind
        else:
            parent, above = stack[-1]
            known = self._children.get(id(parent))
            if known is None or id(module) not in known[1]:
                names = {id(m): n for n, m in reversed(list(parent.named_modules(remove_duplicate=False)))}
                known = self._children[id(parent)] = (parent, names)
            name = known[1].get(id(module))
            path = f"{above}.{name}" if name else above if name == "" else f"{above}.<{kind}>"
        self.types.setdefault(path, kind)
        return path

    def install(self) -> None:
        """Makes module calls events."""
        from flambeau.nn.module import Module

        if self._plain is not None:
            return
        plain = self._plain = Module.__call__

        def recorded_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            stack = getattr(_local, "stack", None)
            if stack is None:
                stack = _local.stack = []
            path = self._path(module, stack)
            stack.append((module, path))
            token = _recorder.begin(path, MODULE)
            failed = True
            try:
                result = plain(module, *args, **kwargs)
                failed = False
                return result
            finally:
                _recorder.end(token, failed)
                stack.pop()

        Module.__call__ = recorded_call  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        """Makes them calls again."""
        from flambeau.nn.module import Module

        if self._plain is not None:
            Module.__call__ = self._plain  # type: ignore[method-assign]
            self._plain = None
