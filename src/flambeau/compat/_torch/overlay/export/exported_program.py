"""`torch.export.exported_program`: a module's program as a graph of ATen's operators that gets everything, parameters too, as arguments."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from flambeau._C import Tensor
from flambeau.compat._torch.overlay.export.dynamic_shapes import Varying
from flambeau.compat._torch.overlay.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from flambeau.compat._torch.overlay.fx.experimental.proxy_tensor import traced
from flambeau.compat._torch.overlay.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from flambeau.compat._torch.overlay.utils import _pytree as pytree
from flambeau.compat._torch.overlay.utils._dispatched import operator as aten
from flambeau.fx._members import assign, holder_of
from flambeau.fx.graph import CodeGen, Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, has_side_effect
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["ExportedProgram", "default_decompositions"]


@dataclasses.dataclass
class CallSpec:
    """How arguments, (args, kwargs), and results are built."""

    in_spec: Any
    out_spec: Any


@dataclasses.dataclass
class ValueRange:
    """From where to where a size may go."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == math.inf else self.upper}]"


class ExportedProgram:
    """What `export` makes of a module: `graph_module`, whose arguments and results `graph_signature` tells, and what it needs of the module.

    `module()` is what is called. The program has the module's own parameters and buffers, not copies.
    """

    dialect = "TRAINING"

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, graph_signature: ExportGraphSignature, state_dict: dict[str, Tensor],
        call_spec: CallSpec, example_inputs: tuple[tuple[Any, ...], dict[str, Any]], constants: dict[str, Tensor], varying: list[Varying],
        names: list[str], by_name: tuple[str, ...],
    ) -> None:  # fmt: skip
        graph.set_codegen(CodeGen())
        self.graph_module = GraphModule(root, graph)
        self.graph_signature, self.state_dict, self.constants = graph_signature, state_dict, constants
        self.call_spec, self.example_inputs = call_spec, example_inputs
        self._varying, self._names, self._by_name = varying, names, by_name

    @property
    def graph(self) -> Graph:
        """The graph: placeholders of parameters, buffers, constants and arguments, in this order."""
        return self.graph_module.graph

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """Tensors of the program that are neither parameters nor persistent buffers."""
        return self.constants

    @property
    def range_constraints(self) -> dict[str, ValueRange]:
        """Sizes that vary, and from where to where."""
        return {dim.name: ValueRange(dim.min, dim.max) for dim in self._varying}

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter) of the module's."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]  # type: ignore[misc]

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        for _, p in self.named_parameters():
            yield p

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(name, buffer) of the module's."""
        for name in self.graph_signature.buffers:
            yield name, self._tensor(name)

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, b in self.named_buffers():
            yield b

    def _tensor(self, name: str) -> Tensor:
        return self.state_dict[name] if name in self.state_dict else self.constants[name]

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ExportedProgram: it can not be called, since its graph gets parameters as arguments; call exported_program.module()")

    def validate(self) -> None:
        """Checks that the graph can be run.

        Raises:
            RuntimeError: it can not.
        """
        self.graph.lint()

    def module(self, check_guards: bool = True) -> GraphModule:
        """The program as a module that is called as the original one was, with its parameters and buffers.

        A call with other sizes than the example's, unless they vary, or with other numbers, is an AssertionError; `check_guards` = False leaves that out.
        """
        graph = _copied(self.graph)
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        root: dict[str, Any] = {}
        inputs = []
        for node, spec in zip(placeholders, self.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                inputs.append(node)
                continue
            root[str(spec.target)] = self._tensor(str(spec.target))
            with graph.inserting_before(node):
                held = graph.get_attr(str(spec.target))
            held.meta = node.meta
            node.replace_all_uses_with(held)
            graph.erase_node(node)
        self._write_back(graph, inputs)
        if check_guards:
            root["_guards_fn"] = Guards(self.example_inputs, self._names, self._varying)
            with graph.inserting_after(inputs[-1] if inputs else None):
                graph.call_module("_guards_fn", tuple(inputs))
        info = _PyTreeInfo(self._names, self.call_spec.in_spec, self.call_spec.out_spec)
        graph.set_codegen(_PyTreeCodeGen(info, self._by_name))
        made = GraphModule(root, graph)
        for name, x in root.items():
            if name not in dict(made.named_parameters()) and name != "_guards_fn":
                assign(made, name, x)
            if name not in self.state_dict and isinstance(x, Tensor):
                holder, last = holder_of(made, name)
                holder._non_persistent_buffers_set.add(last)
        for name in ("train", "eval"):
            made.__dict__[name] = _Refused(name)
        return made

    def _write_back(self, graph: Graph, inputs: list[Node]) -> None:
        """Of a graph without writing in place: copies new values to what has them, and returns the rest."""
        output = graph.output_node()
        kept: list[Any] = []
        for value, spec in zip(output.args[0], self.graph_signature.output_specs, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                kept.append(value)
                continue
            at = next(node for node in graph.nodes if node.op != "output" and node.target == spec.target and node.op in ("get_attr", "placeholder"))
            with graph.inserting_before(output):
                graph.call_function(has_side_effect(aten("copy_", "default")), (at, value), name="copy_")
        output.args = (tuple(kept),)

    def run_decompositions(self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None, decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """The program by the operators of `decomp_table`, a dict from operators to functions that compute the same by others, and without writing to
        what it gets: new values of buffers and arguments are results, before the program's own (`graph_signature.buffers_to_mutate`).

        Its operators are those that run here, below autograd, already, so that without a table none is replaced.
        """
        values = [self._example(spec, node) for spec, node in zip(self.graph_signature.input_specs, self.graph.find_nodes(op="placeholder"), strict=True)]
        given = [(node.name, x) for node, x in zip(self.graph.find_nodes(op="placeholder"), values, strict=True)]
        if self._varying and decomp_table:
            raise NotImplementedError("ExportedProgram.run_decompositions: sizes vary; pass the table to a program that is exported without dynamic_shapes")
        if decomp_table:
            tracer, made = traced(lambda: Interpreter(self.graph_module).run(*values, enable_io_processing=False), given, decomp_table)
            for x in tracer.given.values():
                if x.is_written:
                    x.restore()
            graph = tracer.graph
            graph.output(tuple(tracer.written(made)))
            graph.eliminate_dead_code()
        else:
            graph = _copied(self.graph)
        specs = _without_writing(graph, self.graph_signature)
        made_program = copy.copy(self)
        made_program.graph_module = GraphModule({}, graph)
        made_program.graph_signature = ExportGraphSignature(list(self.graph_signature.input_specs), specs)
        made_program.dialect = "ATEN"
        return made_program

    def _example(self, spec: Any, node: Node) -> Any:
        if spec.kind is not InputKind.USER_INPUT:
            return self._tensor(str(spec.target))
        names = [s.arg.name for s in self.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        return pytree.tree_leaves(self.example_inputs)[names.index(spec.arg.name)]

    def __str__(self) -> str:
        text = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {text}\nGraph signature: {signature}\nRange constraints: {self.range_constraints}\n"


def _copied(graph: Graph) -> Graph:
    """A copy whose arguments have the same names."""
    made = copy.deepcopy(graph)
    for new, node in zip(made.nodes, graph.nodes, strict=True):
        new.name = node.name
    return made


def _without_writing(graph: Graph, signature: ExportGraphSignature) -> list[OutputSpec]:
    """Lets a graph work on copies of what it writes to, which are its first results; what its results are then."""
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }  # fmt: skip
    placeholders = graph.find_nodes(op="placeholder")
    news: list[Node] = []
    specs: list[OutputSpec] = []
    output = graph.output_node()
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if not node.meta.get("is_written"):
            continue
        with graph.inserting_after(news[-1] if news else placeholders[-1]):
            copied = graph.call_function(aten("clone", "default"), (node,), name="clone")
        copied.meta = {key: value for key, value in node.meta.items() if key != "is_written"}
        node.replace_all_uses_with(copied, lambda user, copied=copied: user is not copied)  # type: ignore[misc]
        news.append(copied)
        target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        specs.append(OutputSpec(kinds[spec.kind], TensorArgument(copied.name), target))
    values = output.args[0]
    output.args = ((*news, *values),)
    own = [spec for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    return specs + [OutputSpec(spec.kind, argument_of(value), None) for spec, value in zip(own, values[-len(own) :] if own else (), strict=True)]


def argument_of(value: Any) -> TensorArgument | ConstantArgument:
    """What stands for a result of a graph."""
    return TensorArgument(value.name) if isinstance(value, Node) else ConstantArgument("", value)


class Guards(Module):
    """Checks that a call is one that the program was exported for."""

    _is_impure = True

    def __init__(self, example_inputs: tuple[tuple[Any, ...], dict[str, Any]], names: list[str], varying: list[Varying]) -> None:
        super().__init__()
        self._fl_leaves = [(_path(place, names, example_inputs), _sizes(x)) for place, x in pytree.tree_leaves_with_path(example_inputs)]
        self._fl_varying = varying

    def forward(self, *leaves: Any) -> None:
        """Checks the leaves of the arguments."""
        free = {place: dim for dim in self._fl_varying for place in dim.places}
        seen: dict[str, tuple[str, int]] = {}
        for leaf, (x, (path, known)) in enumerate(zip(leaves, self._fl_leaves, strict=True)):
            if not isinstance(known, tuple):
                _guard(x is known or x == known, f"{path} == {known!r}", x, "numbers are in the graph")
                continue
            if not isinstance(x, Tensor):
                raise AttributeError(f"{path} is a {type(x).__name__}, which has no attribute 'size'; expected a tensor")
            _guard(x.dim() == len(known), f"{path}.dim() == {len(known)}", x.dim(), "the program was exported so")
            for axis, size in enumerate(known):
                found, what = x.shape[axis], f"{path}.size()[{axis}]"
                dim = free.get((leaf, axis))
                if dim is None:
                    _guard(found == size, f"{what} == {size}", found, "name the axis in dynamic_shapes where it may vary")
                    continue
                first, expected = seen.setdefault(dim.name, (what, found))
                _guard(found == expected, f"{what} == {first}", f"{found} and {expected}", f"both are {dim.name}")
                _guard(found <= dim.max, f"{what} <= {dim.max}", found, f"{dim.name} was exported so")
                _guard(found >= dim.min or dim.min <= 2, f"{what} >= {dim.min}", found, f"{dim.name} was exported so")


def _guard(holds: bool, what: str, found: Any, why: str) -> None:
    if not holds:
        raise AssertionError(f"Guard failed: {what} (got {found}; {why})")


def _sizes(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, Tensor) else x


def _path(place: tuple[Any, ...], names: list[str], example_inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> str:
    """An argument as the program says it: `l[1]`."""
    which, first, *below = place
    name = names[first.idx] if which.idx == 0 else first.key
    return f"{name}{pytree.keystr(tuple(below))}"


class _Refused:
    """`train` and `eval` of an exported module, whose graph is that of the mode it was exported in."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, mode: bool = True) -> NoReturn:
        raise NotImplementedError(f"Calling {self._name}() is not supported: the graph is that of the mode the module was exported in; export it again")


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """Empty: the operators of a graph are those that run here already."""
    return {}
