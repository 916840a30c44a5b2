"""`torch.export`: a module's program as a graph of ATen's operators, as they run here.

The module runs once, on the example, as `make_fx` has functions run. What it needs of the module, and tensors from elsewhere, become arguments of the
graph; what it writes to is as before when it ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NoReturn

import flambeau
from flambeau import _C, _compiler_marks
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.export.dynamic_shapes import (
    Dim,
    dims,
    generalise,
    resized,
    trial_sizes,
    varying_dims,
)
from flambeau.compat._torch.overlay.export.exported_program import (
    CallSpec,
    ExportedProgram,
    argument_of,
    default_decompositions,
)
from flambeau.compat._torch.overlay.export.graph_signature import (
    ConstantArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from flambeau.compat._torch.overlay.fx.experimental.proxy_tensor import (
    Given,
    ProxyTorchDispatchMode,
    traced,
)
from flambeau.compat._torch.overlay.utils import _pytree as pytree
from flambeau.compat._torch.overlay.utils._dispatched import operator as aten
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, has_side_effect
from flambeau.nn.module import Module

__all__ = ["Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "default_decompositions", "dims", "export", "load", "register_dataclass", "save"]  # fmt: skip


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """What `mod(*args, **kwargs)` does, as an ExportedProgram.

    dynamic_shapes: which sizes of the arguments may vary, by name of the argument or in their order: `{"x": {0: Dim("batch")}}`. The module then runs
    with several sizes. strict: of no matter, as Python is not read.

    Raises:
        ValueError: `mod` is no Module, or the program depends on sizes that are to vary otherwise than by integers that follow from them.
        TypeError: `args` is no tuple.
        NotImplementedError: calls of submodules are to be kept.
        RuntimeError: the program asks for the value of a tensor.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"export: mod is a {type(mod).__name__}; expected a Module (wrap a function into one)")
    if not isinstance(args, tuple):
        raise TypeError(f"export: args is a {type(args).__name__}; expected a tuple of the arguments, as in export(mod, (x,))")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature keeps calls of submodules, of which the graph has the operators alone; leave it out")
    kwargs = dict(kwargs or {})
    program = _Program(mod, args, kwargs)
    state = flambeau.get_rng_state()
    try:
        return program.exported(dynamic_shapes)
    finally:
        flambeau.set_rng_state(state)


class _Program:
    """A module and an example of its arguments."""

    def __init__(self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.mod, self.args, self.kwargs = mod, args, kwargs
        self.names, self.by_name = _names(mod, args, kwargs)
        self.parameters, self.buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
        state = mod.state_dict(keep_vars=True)
        self.state_dict = {name: x for name, x in state.items() if isinstance(x, Tensor)}
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        placed = pytree.tree_leaves_with_path((args, kwargs))
        self.leaf_names = _unique(["_".join([self._first(place), *(str(_key(k)) for k in place[2:])]) for place, _ in placed])

    def _first(self, place: Any) -> str:
        return self.names[place[1].idx] if place[0].idx == 0 else str(place[1].key)

    def exported(self, dynamic_shapes: Any) -> ExportedProgram:
        """The program, whose sizes vary as it is said."""
        varying = varying_dims(dict(zip(self.names, (*self.args, *self.kwargs.values()), strict=True)), dynamic_shapes)
        while True:
            try:
                return self._generalised(varying)
            except ValueError:
                if not any(dim.may_be_fixed for dim in varying):
                    raise
                varying = [dim for dim in varying if not dim.may_be_fixed]

    def _generalised(self, varying: list[Any]) -> ExportedProgram:
        graph, inputs, outputs, constants, out_spec = self._traced(self.leaves)
        if varying:
            trials = trial_sizes(varying)
            others = [self._traced(resized(self.leaves, varying, sizes))[0] for sizes in trials]
            placeholders = graph.find_nodes(op="placeholder")
            generalise(graph, others, varying, trials, placeholders[len(placeholders) - len(self.leaves) :])
            outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument_of(value), None) for value in graph.output_node().args[0]]
        signature = ExportGraphSignature(inputs, outputs)
        call_spec = CallSpec(self.in_spec, out_spec)
        example = (self.args, self.kwargs)
        return ExportedProgram({}, graph, signature, self.state_dict, call_spec, example, constants, varying, self.names, self.by_name)

    def _traced(self, leaves: list[Any]) -> tuple[Graph, list[InputSpec], list[OutputSpec], dict[str, Tensor], Any]:
        mod = self.mod
        own = {**{f"p_{_flat(name)}": x for name, x in self.parameters.items()}, **{f"b_{_flat(name)}": x for name, x in self.buffers.items()}}
        args, kwargs = pytree.tree_unflatten(leaves, self.in_spec)
        before = [Given.of(x) for x in (*own.values(), *leaves) if isinstance(x, Tensor)]

        def program() -> Any:
            self._put_buffers_back()
            with _C.held(_exporting, True):
                return mod(*args, **kwargs)

        try:
            tracer, made = traced(program, [*own.items(), *zip(self.leaf_names, leaves, strict=True)], {})
            results, out_spec = pytree.tree_flatten(made)
            outputs = tracer.written(results)
            placeholders = tracer.graph.find_nodes(op="placeholder")
            self._note_written(tracer, dict(zip(self.buffers, placeholders[len(self.parameters) :], strict=False)))
        finally:
            self._put_buffers_back()
            for known in before:
                known.restore()
        inputs = [InputSpec(InputKind.PARAMETER, TensorArgument(node.name), name) for node, name in zip(placeholders, self.parameters, strict=False)]
        for node, name in zip(placeholders[len(inputs) :], self.buffers, strict=False):
            inputs.append(InputSpec(InputKind.BUFFER, TensorArgument(node.name), name, name in self.state_dict))
        users = placeholders[len(inputs) :]
        tracer.graph.output(tuple(outputs))
        tracer.graph.eliminate_dead_code()
        constants = {name: x for name, x in self.buffers.items() if name not in self.state_dict}
        first = users[0] if users else next(iter(tracer.graph.nodes))
        for node in tracer.graph.find_nodes(op="get_attr"):
            target, x = self._constant_name(tracer.given[node].now, constants), tracer.given[node].now
            with tracer.graph.inserting_before(first):
                lifted = tracer.graph.placeholder(f"c_{_flat(target)}")
            lifted.meta = node.meta
            node.replace_all_uses_with(lifted)
            tracer.graph.erase_node(node)
            constants[target] = x
            inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(lifted.name), target))
        for node, x in zip(users, leaves, strict=True):
            arg = TensorArgument(node.name) if isinstance(x, Tensor) else ConstantArgument(node.name, x)
            inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))
        specs = [OutputSpec(OutputKind.USER_OUTPUT, argument_of(value), None) for value in tracer.graph.output_node().args[0]]
        return tracer.graph, inputs, specs, constants, out_spec

    def _put_buffers_back(self) -> None:
        """A module may put other tensors in the place of its buffers."""
        for name, own in self.buffers.items():
            path, _, last = name.rpartition(".")
            self.mod.get_submodule(path)._buffers[last] = own

    def _note_written(self, tracer: ProxyTorchDispatchMode, buffers: dict[str, Node]) -> None:
        """Marks what the program writes to. A buffer in whose place it put another tensor is one that it writes to."""
        for name, node in buffers.items():
            path, _, last = name.rpartition(".")
            now = self.mod.get_submodule(path)._buffers[last]
            if isinstance(now, Tensor) and now is not self.buffers[name]:
                tracer.graph.call_function(has_side_effect(aten("copy_", "default")), (node, tracer.node_of(now)), name="copy_")
                node.meta["is_written"] = True
        for node, x in tracer.given.items():
            if x.is_written:
                node.meta["is_written"] = True
                x.restore()

    def _constant_name(self, x: Tensor, known: dict[str, Tensor]) -> str:
        """The attribute that a tensor is; a number of those that are none."""
        for path, module in self.mod.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor) and value.untyped_storage() is x.untyped_storage() and value.shape == x.shape:
                    return f"{path}.{name}" if path else name
        return f"lifted_tensor_{sum(name.startswith('lifted_tensor_') for name in known)}"


def _exporting(on: bool) -> bool:
    before, _compiler_marks.here.exporting = _compiler_marks.here.exporting, on
    return before


def _names(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """What the module's `forward` calls its arguments, and those of them that are given by name."""
    bound = inspect.signature(mod.forward).bind_partial(*args)
    names: list[str] = []
    for name, value in bound.arguments.items():
        several = inspect.signature(mod.forward).parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{i}" for i in range(len(value))] if several else [name]
    return [*names, *kwargs], tuple(kwargs)


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _key(place: Any) -> Any:
    """What a step of a path says: a key, an index, or a name."""
    return next(getattr(place, part) for part in ("key", "idx", "name") if hasattr(place, part))


def _unique(names: list[str]) -> list[str]:
    """Names that can stand in code, each once."""
    found: list[str] = []
    for name in names:
        name = "".join(c if c.isalnum() else "_" for c in name)
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


def register_dataclass(cls: Any, *, serialized_type_name: str | None = None) -> None:
    """Lets a dataclass be an argument or a result of programs: its fields are its parts."""
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


_FILES = (
    "the operators of a graph are those that run here, and files of PyTorch's describe operators by ATen's schemas, of which there are none; "
    "save the program's state_dict and export again, or record and save by flambeau.graph"
)


def save(ep: Any, f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"export.save: {_FILES}")


def load(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"export.load: {_FILES}")
