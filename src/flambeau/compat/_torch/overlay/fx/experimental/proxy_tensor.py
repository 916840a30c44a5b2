"""`torch.fx.experimental.proxy_tensor`: what a function does below autograd, as a graph of ATen's operators.

The function is run, once, on the arguments themselves, inside of a mode that sees each operator and writes a node for it. A tensor is known again
by its memory: results of kernels share that of what the mode returned, and views that of what they are views of. Sizes are numbers, so that
those of the arguments are in the graph.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import flambeau
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from flambeau.compat._torch.overlay.utils import _python_dispatch
from flambeau.compat._torch.overlay.utils import _pytree as pytree
from flambeau.compat._torch.overlay.utils._dispatched import operator as aten
from flambeau.compat._torch.overlay.utils._python_dispatch import TorchDispatchMode
from flambeau.fx._targets import function_name
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, has_side_effect
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata
from flambeau.library._op import CustomOpDef
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.overrides import TorchFunctionMode

__all__ = ["get_proxy_mode", "make_fx"]

_Key = tuple[Any, ...]


@dataclasses.dataclass
class Given:
    """A tensor that operators get, as it was before any of them."""

    now: Tensor
    before: Tensor
    version: int

    @classmethod
    def of(cls, x: Tensor) -> Given:
        """As it is now."""
        with _python_dispatch._disable_current_modes():
            return cls(x, x.detach().clone(), x._version)

    @property
    def is_written(self) -> bool:
        """Whether somebody wrote to it."""
        return self.now._version != self.version

    def restore(self) -> None:
        """Makes it what it was."""
        if self.is_written:
            with flambeau.no_grad():
                self.now.detach().copy_(self.before)
            self.version = self.now._version


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes the operators that run inside of it into `graph`. What they get from outside becomes attributes of `root`."""

    _fl_shares_memory = True

    def __init__(self, decompositions: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.graph, self.root = Graph(), Module()
        self.given: dict[Node, Given] = {}  # placeholders and attributes
        self._decompositions = decompositions
        self._nodes: dict[_Key, Node] = {}
        self._state = flambeau.get_rng_state()
        self._storages: dict[int, tuple[Any, Node]] = {}  # which so stay alive, so that none is used again

    # ------------------------------------------------------------------ tensors and their nodes

    def know(self, x: Tensor, node: Node) -> None:
        """From now on `node` is the node of what lies in a tensor's memory."""
        with _python_dispatch._disable_current_modes():
            storage = x.untyped_storage()
        self._nodes[_key(x)] = node
        self._storages.setdefault(id(storage), (storage, node))

    def give(self, x: Tensor, node: Node) -> None:
        """The node of a tensor that is there before anything is computed."""
        _note(node, x)
        self.know(x, node)
        self.given[node] = Given.of(x)

    def node_of(self, x: Tensor) -> Node:
        """The node of a tensor; of one from outside an attribute."""
        key = _key(x)
        if key in self._nodes:
            return self._nodes[key]
        if key[0] in self._storages:  # a view that was not seen
            node = self.graph.call_function(aten("as_strided", "default"), (self._storages[key[0]][1], list(x.shape), list(x.stride()), x.storage_offset()))
            _note(node, x)
            self.know(x, node)
            return node
        if x.is_meta:  # the shape alone
            node = self.graph.call_function(aten("empty", "memory_format"), (list(x.shape),), {"dtype": x.dtype, "device": x.device})
            _note(node, x)
            self.know(x, node)
            return node
        kind = "_param_constant" if isinstance(x, Parameter) else "_tensor_constant"
        name = f"{kind}{sum(node.op == 'get_attr' and node.name.startswith(kind) for node in self.given)}"
        if isinstance(x, Parameter):
            self.root.register_parameter(name, x)
        else:
            setattr(self.root, name, x)
        node = self.graph.get_attr(name)
        self.give(x, node)
        return node

    def copy_first(self, node: Node) -> None:
        """Lets the graph begin with a copy of an attribute, which so stays as it was."""
        self.given[node].restore()
        with self.graph.inserting_after(node):
            copied = self.graph.call_function(aten("lift_fresh_copy", "default"), (node,), name="lift_fresh_copy")
        copied.meta = dict(node.meta)
        node.replace_all_uses_with(copied, lambda user: user is not copied)

    def is_known(self, x: Tensor) -> bool:
        """Whether a tensor, or what it is a view of, has a node."""
        return _key(x)[0] in self._storages

    def is_made_here(self, x: Tensor) -> bool:
        """Whether a tensor's values depend on what the graph computes."""
        storage = _key(x)[0]
        return storage in self._storages and self._storages[storage][1].op != "get_attr"

    def written(self, value: Any) -> Any:
        """A value as an argument of nodes: tensors as nodes, sizes as lists."""
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, tuple | list):
            return [self.written(x) for x in value]
        return value

    # ------------------------------------------------------------------ operators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self._decompositions:
            with self:
                made = self._decompositions[func](*args, **kwargs)
                if made is not NotImplemented:
                    return self._apart(made, (*args, *kwargs.values()))
        if func._opname == "_local_scalar_dense":
            if self.is_made_here(args[0]):
                refuse_values(f"{func}")
            return func(*args, **kwargs)
        given = self.written(args), {name: self.written(value) for name, value in kwargs.items()}
        call = _python_dispatch._here.call
        result = func(*args, **kwargs)
        node = self.graph.call_function(func, tuple(given[0]), given[1], name=func._opname)
        if call._taken.writes() or self._has_drawn():
            has_side_effect(func)
        self._take(node, result)
        return result

    def call_custom(self, op: CustomOpDef[..., Any], args: Any, kwargs: Any) -> Any:
        """An op of `torch.library` is one node, whatever it computes by."""
        with _python_dispatch._disable_current_modes():
            result = op(*args, **kwargs)
        node = self.graph.call_function(op, tuple(self.written(args)), {name: self.written(value) for name, value in kwargs.items()})
        if any(argument.mutated for argument in op._schema.arguments):
            has_side_effect(op)
        self._take(node, result)
        return result

    def _has_drawn(self) -> bool:
        """Whether random numbers were drawn since the last operator: two draws are not one, though nobody uses the first."""
        with _python_dispatch._disable_current_modes():
            before, self._state = self._state, flambeau.get_rng_state()
            return not flambeau.equal(before, self._state)

    def _apart(self, made: Any, given: Any) -> Any:
        """What a decomposition returned: a result that is an argument in a memory of its own, as operators have it."""
        inside = {_key(x) for x in pytree.tree_leaves(given) if isinstance(x, Tensor)}
        return pytree.tree_map(lambda x: x.clone() if isinstance(x, Tensor) and _key(x) in inside else x, made)

    def _take(self, node: Node, result: Any) -> None:
        if isinstance(result, Tensor):
            _note(node, result)
            if str(getattr(node.target, "_opname", "")).endswith("_") or _key(result) not in self._nodes:
                self.know(result, node)
        elif isinstance(result, tuple | list):
            node.meta["val"] = tuple(_meta(x) for x in result)
            for i, x in enumerate(result):
                if isinstance(x, Tensor):
                    part = self.graph.call_function(operator.getitem, (node, i))
                    _note(part, x)
                    self.know(x, part)


def _key(x: Tensor) -> _Key:
    with _python_dispatch._disable_current_modes():
        steps = tuple(step for size, step in zip(x.shape, x.stride(), strict=True) if size != 1)
        return (id(x.untyped_storage()), x.storage_offset(), tuple(x.shape), steps, x.dtype)


def _meta(x: Any) -> Any:
    """The shape and type of a tensor, without its memory."""
    return flambeau.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x


def _note(node: Node, x: Tensor) -> None:
    with _python_dispatch._disable_current_modes():
        node.meta["val"], node.meta["tensor_meta"] = _meta(x), _extract_tensor_metadata(x)


def refuse_values(what: str) -> NoReturn:
    """A graph has one path, and no values.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{what}: the value of a tensor is asked for while a graph is made of what is done with tensors, so that what follows (an `if`, a size, a number) "
        "would depend on it; choose by torch.where or by a mask, or compute it before and give it as an argument"
    )


class _NoValues(TorchFunctionMode):
    """Refuses what gives a tensor's values to Python below what operators see."""

    def __init__(self, tracer: ProxyTorchDispatchMode) -> None:
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._tracer not in _python_dispatch._modes():
            return func(*args, **(kwargs or {}))
        if isinstance(func, CustomOpDef):
            return self._tracer.call_custom(func, args, kwargs or {})
        if getattr(func, "__name__", "") in ("tolist", "numpy", "__array__", "__dlpack__") and any(map(self._tracer.is_made_here, _plain(args))):
            refuse_values(f"Tensor.{func.__name__}")
        result = func(*args, **(kwargs or {}))
        self._check_seen(func, (args, kwargs), result)
        return result

    def _check_seen(self, func: Any, given: Any, result: Any) -> None:
        """What is computed otherwise than by kernels would be in the graph as it is now."""
        if any(not self._tracer.is_known(y) for y in _plain(result)) and any(self._tracer.is_made_here(x) for x in _plain(given)):
            raise NotImplementedError(
                f"{function_name(func)}: what it computes is not seen as operators of ATen's, so that no graph can be made of it; call it outside of what a "
                "graph is made of"
            )


def _plain(tree: Any) -> list[Tensor]:
    """The tensors that have a memory: those of transforms such as vmap stand for others."""
    return [x for x in pytree.tree_leaves(tree) if type(x) in (Tensor, Parameter)]


# ---------------------------------------------------------------- functions


def traced(
    program: Callable[[], Any], given: Sequence[tuple[str, Any]], decompositions: Mapping[Any, Callable[..., Any]]
) -> tuple[ProxyTorchDispatchMode, Any]:
    """What a program does with what it is given, whose names placeholders get: the mode that saw it, and what the program returned.

    A tensor that a program makes of numbers, and then writes to, is made anew by each call of it. No operator makes it, so that it looks as one from
    outside, which keeps what is written; to tell them the program runs twice, and what is in other memory the second time is its own.
    """
    state = flambeau.get_rng_state()
    tracer, made = _traced(program, given, decompositions)
    before = tracer.given
    if any(node.op == "get_attr" and x.is_written for node, x in before.items()):
        for x in before.values():
            x.restore()
        flambeau.set_rng_state(state)
        tracer, made = _traced(program, given, decompositions)
        for (node, x), first in zip(list(tracer.given.items()), before.values(), strict=True):
            if node.op == "get_attr" and x.is_written and _key(x.now) != _key(first.now):
                tracer.copy_first(node)
    return tracer, made


def _traced(
    program: Callable[[], Any], given: Sequence[tuple[str, Any]], decompositions: Mapping[Any, Callable[..., Any]]
) -> tuple[ProxyTorchDispatchMode, Any]:
    tracer = ProxyTorchDispatchMode(decompositions)
    for name, x in given:
        node = tracer.graph.placeholder(name)
        node.name = name  # also where the code has to say it otherwise
        if isinstance(x, Tensor):
            tracer.give(x, node)
    with _NoValues(tracer), tracer:
        return tracer, program()


def make_fx(
    f: Callable[..., Any], decomposition_table: Mapping[Any, Callable[..., Any]] | None = None, tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False, record_module_stack: bool = False,
    _allow_fake_constant: bool = False, _error_on_data_dependent_ops: bool = True,
) -> Callable[..., GraphModule]:  # fmt: skip
    """A function that, called as `f` is, runs it and returns a GraphModule of the operators of ATen's that ran.

    f: what is to be run; its arguments and results may be containers of tensors. What is no tensor is in the graph as it was.
    decomposition_table: operators -> functions that compute the same by others. tracing_mode: "real", on the arguments themselves;
    "fake" is the same. Sizes are numbers here, so that "symbolic" is refused.

    Raises:
        NotImplementedError: `tracing_mode` is "symbolic", or `pre_dispatch`.
        ValueError: `tracing_mode` is no mode.
        RuntimeError: `f` asks for the value of a tensor.
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"make_fx: tracing_mode = {tracing_mode!r}; expected 'real' or 'fake'")
    if tracing_mode == "symbolic":
        raise NotImplementedError("make_fx: tracing_mode = 'symbolic', but sizes are numbers here; use 'real', and make a graph for each size")
    if pre_dispatch:
        raise NotImplementedError("make_fx: pre_dispatch = True, but operators are seen below autograd; make the graph without it")
    table = dict(decomposition_table or {})

    def wrapped(*args: Any) -> GraphModule:
        names = _names_of_arguments(f, args)
        given = [(f"{name}_{k + 1}", x) for name, arg in zip(names, args, strict=True) for k, x in enumerate(pytree.tree_leaves(arg))]
        tracer, made = traced(lambda: f(*args), given, table)
        results, out_spec = pytree.tree_flatten(made)
        outputs = tracer.written(results)
        in_spec = pytree.tree_structure(args)
        is_flat = in_spec == pytree.tree_structure((0,) * len(args))
        if is_flat and (out_spec.is_leaf() or (out_spec.type is tuple and all(child.is_leaf() for child in out_spec.children()))):
            tracer.graph.output(outputs[0] if out_spec.is_leaf() else tuple(outputs))
        else:
            tracer.graph.output(outputs)
            tracer.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
        tracer.graph.eliminate_dead_code()
        return GraphModule(tracer.root, tracer.graph, getattr(f, "__name__", "GraphModule"))

    return wrapped


def _names_of_arguments(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """What a function calls its arguments; those of a module, and of what has no names, `arg0` and so on."""
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(f, Module):
            names = [p.name for p in inspect.signature(f).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"arg{i}" for i in range(len(args))]


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost mode of which a graph is made; None where none is on."""
    return next((mode for mode in reversed(_python_dispatch._modes()) if isinstance(mode, ProxyTorchDispatchMode)), None)
