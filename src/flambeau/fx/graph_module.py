"""A module that runs a graph: the graph's code is its `forward`.

    GraphModule                     a class of its own for each, so that each has a forward of its own
      .graph    what is run         assigning another one, or `recompile` after a change, writes the code again
      .code     as Python           copies and pickles carry the code and the members, and are traced again where they arrive
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.fx._codegen import PythonCode
from flambeau.fx._compiled import forward_of
from flambeau.fx._imports import import_lines
from flambeau.fx._members import assign, copy_attribute, fetch
from flambeau.fx.graph import Graph
from flambeau.nn.module import Module

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_copy_attr, _assign_attr = copy_attribute, lambda value, module, path: assign(module, path, value)  # PyTorch's names, which packages import
_HOOKS = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")


class _CodeOnlyModule(Module):
    """A module that has what another one has, and nothing but that: what a copy of a GraphModule is made of."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


class GraphModule(Module):
    """Runs a graph. The modules, parameters and buffers that the graph uses are taken from `root`: themselves, not copies.

    root: a module that has them, or a dict from paths ("layers.0.weight") to them.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import Graph, GraphModule
        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_module("twice", (x,))
        >>> result = graph.output(y)
        >>> class Twice(fl.nn.Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> net = GraphModule({"twice": Twice()}, graph)
        >>> net(fl.ones(2))
        tensor([2., 2.])
        >>> print(net.code.strip())
        def forward(self, x):
            twice = self.twice(x);  x = None
            return twice

    Raises:
        TypeError: `root` is neither, or `graph` is no Graph.
        RuntimeError: the dict lacks what the graph uses.
        AttributeError: the module lacks it.
    """

    _graph: Graph

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(kind for kind in cls.__mro__ if kind.__dict__.get("_is_graph_module_impl") is None)

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            _is_graph_module_impl = True

        GraphModuleImpl.__module__ = base.__module__
        GraphModuleImpl.__doc__ = base.__doc__
        made: GraphModule = super().__new__(GraphModuleImpl)
        return made

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"GraphModule: graph is a {type(graph).__name__}; expected a Graph")
        if not isinstance(root, (Module, dict)):
            raise TypeError(f"GraphModule: root is a {type(root).__name__}; expected a Module, or a dict from paths to modules and tensors")
        super().__init__()
        self.__class__.__name__ = class_name
        paths = list(dict.fromkeys(str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")))
        if isinstance(root, dict):
            missing = [path for path in paths if path not in root]
            if missing:
                lacks, has = ", ".join(missing), ", ".join(root) or "nothing"
                raise RuntimeError(f"GraphModule: the graph uses {lacks}, which root does not have; it has {has}")
            for path in sorted(paths, key=lambda path: path.count(".")):
                assign(self, path, root[path])
        else:
            for path in paths:  # all are looked for before one is taken
                fetch(root, path)
            self.training = getattr(root, "training", True)
            for path in paths:
                copy_attribute(root, self, path)
        self.meta: dict[str, Any] = dict(getattr(root, "meta", None) or {}) if isinstance(root, GraphModule) else {}
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls is not None and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls  # a class that is defined in a function can not be pickled
        self._tracer_extras = graph._tracer_extras or {}

    # ------------------------------------------------------------------ graph and code

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise TypeError(f"GraphModule.graph: {g!r} is a {type(g).__name__}; expected a Graph")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code that is run, as of the last `recompile`."""
        if "_code" not in self.__dict__:
            raise RuntimeError("GraphModule.code: there is no code yet; call recompile()")
        code: str = self._code
        return code

    def recompile(self) -> PythonCode:
        """Writes and compiles the code again, after the graph was changed.

        Returns:
            the code, and what the names in it mean.
        """
        written = self._graph.python_code(root_module="self")
        if (trees := getattr(self._graph._codegen, "pytree_info", None)) is not None:  # which the code takes arguments apart by
            self.__dict__["_in_spec"], self.__dict__["_out_spec"] = trees.in_spec, trees.out_spec
        kind = type(self)
        kind.forward = forward_of(written.src, written.globals, kind)  # type: ignore[method-assign]
        self.__dict__["_code"] = written.src
        self.__dict__["_lineno_map"] = written._lineno_map
        return written

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, colored: bool = False,
                       **unused: Any) -> str:  # fmt: skip
        """The code as that of a class, with that of modules of graphs inside of it; printed, unless `print_output` is False."""
        lines = [f"class {self._get_name()}({_library()}.nn.Module):"]
        written = self._graph.python_code(root_module="self", verbose=True)
        lines += [f"    {line}".rstrip() for line in written.src.strip("\n ").split("\n")]
        for child in self.children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(print_output=False)
                lines += ["", *(f"    {line}".rstrip() for line in inner.rstrip("\n").split("\n"))]
        text = "\n".join(lines) + "\n"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Writes a package: `from folder import module_name` has a class that is made without arguments, with this code and these weights.

        Linear, convolutions and batch norms are made by their text; other layers lie in files beside the code.

        Raises:
            ValueError: the code uses what can not be imported, or a name can be none of a class or a file.
            TypeError: a layer's class can not be found by its name.

        Example:
            >>> import flambeau as fl
            >>> import os, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> fl.fx.symbolic_trace(fl.nn.Linear(2, 2)).to_folder(folder, "Net")
            >>> sorted(os.listdir(folder))
            ['__init__.py', 'module.py', 'state_dict.pt']
        """
        from flambeau.fx._folder import write_folder

        write_folder(self, folder, module_name)

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self.__dict__.get("_code", ""), hint])

    # ------------------------------------------------------------------ members

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a path; modules on the way are made.

        Returns:
            whether that could be done: False where something on the way is no module.
        """
        if not isinstance(m, Module):
            raise TypeError(f"GraphModule.add_submodule: m is a {type(m).__name__}; expected a Module")
        at: Any = self
        for part in target.split(".")[:-1]:
            at = getattr(at, part, None)
            if at is None:
                break
            if not isinstance(at, Module):
                return False
        assign(self, target, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes away the module at a path.

        Returns:
            whether there was one.
        """
        *way, last = target.split(".")
        at: Any = self
        for part in way:
            at = getattr(at, part, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes away the modules that the graph does not use, below which nothing is used, either."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(str(node.target)).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ------------------------------------------------------------------ copies

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        body = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(made, body, body.__dict__["_graph"], self._get_name())
        for name in _HOOKS:
            if name in self.__dict__:
                made.__dict__[name] = copy.deepcopy(self.__dict__[name], memo)
        made.training = self.training
        made.meta = copy.deepcopy(self.__dict__.get("meta", {}), memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self._graph, self._get_name())
        made.meta = self.__dict__.get("meta", {})
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        written = self._graph.python_code(root_module="self")
        body = self.__getstate__()
        body.pop("_graph", None)
        body["_code"] = written.src
        body["_graphmodule_cls_name"] = self._get_name()
        return reduce_graph_module, (body, import_lines(written.globals))


def _library() -> str:
    from flambeau.fx._targets import library_name

    return library_name()


def reduce_graph_module(body: dict[str, Any], import_block: str, class_name: str | None = None) -> GraphModule:
    """A GraphModule from what its pickle has: the code is run and traced again, with every module a leaf."""
    from flambeau.fx._symbolic_trace import Tracer

    class CodeOnly(_CodeOnlyModule):
        pass

    root = CodeOnly.__new__(CodeOnly)
    Module.__init__(root)
    state = dict(body)
    name = state.pop("_graphmodule_cls_name", None) or class_name or "GraphModule"
    root.__setstate__(state)
    setattr(CodeOnly, "forward", forward_of(import_block + body["_code"], {}))  # noqa: B010
    kind = body.get("_tracer_cls") or Tracer

    class KeepModules(kind):  # type: ignore[misc, valid-type]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    try:
        tracer = KeepModules()
    except TypeError:  # it wants arguments, which are not in the pickle
        warnings.warn(f"GraphModule: {kind.__name__} can not be made without arguments; traced again with fx.Tracer", stacklevel=2)
        kind = Tracer
        tracer = type("KeepModules", (Tracer,), {"is_leaf_module": lambda self, m, name: True})()
    graph = tracer.trace(root)
    graph._tracer_cls = kind
    made = GraphModule(root, graph, name)
    made.training = body.get("training", True)
    made.meta = body.get("meta", {})
    return made
