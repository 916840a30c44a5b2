"""What passes share: which ops do more than fill their outputs, and leaving out what is not used any more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from flambeau.graph._graph import Graph
from flambeau.graph._structure import Arg, Buffer, Node, Ref, Value, draws, refs_of

# Ops that a pass may neither leave out nor merge, besides those that draw random numbers: opaque ones.
Effects = Collection[str] | Callable[[str], bool]


def has_effects(effects: Effects) -> Callable[[Node], bool]:
    """Whether a node has effects: its op is named, or it draws random numbers and so moves the generator on."""
    named = effects if callable(effects) else frozenset(effects).__contains__
    return lambda node: draws(node) or named(node.op)


def _in(buffer: int, value: Value) -> Value:
    return Value(buffer, value.dtype, value.sizes, value.strides, value.offset)


def _renumbered(arg: Arg, number: Mapping[int, int]) -> Arg:
    if isinstance(arg, Ref):
        return Ref(number[arg.value])
    return tuple([_renumbered(part, number) for part in arg]) if isinstance(arg, tuple) else arg


def rebuild(graph: Graph, nodes: Sequence[Node], moved: Mapping[int, int], buffers: Sequence[Buffer] | None = None) -> Graph:
    """The graph of some nodes, with buffers replaced as `moved` says, values that became equal as one, and without what
    neither nodes nor inputs nor outputs use. Numbers are given in the old order."""
    buffers = graph.buffers if buffers is None else buffers
    values = [_in(moved[v.buffer], v) if v.buffer in moved else v for v in graph.values]
    # Inputs and fresh outputs stay apart even where they are equal; others become the first of those, if one is.
    apart = [*graph.inputs, *(value for node in nodes for value in node.outs)]
    used = {*apart, *graph.outputs}
    for node in nodes:
        used.update(refs_of(node.args))
    if len(used) == len(values) and len(nodes) == len(graph.nodes) and not moved:
        return graph
    first: dict[Value, int] = {}
    for index in apart:
        first.setdefault(values[index], index)
    same = {index: index for index in apart}
    for index in sorted(used - set(apart)):
        same[index] = first.setdefault(values[index], index)
    kept = sorted(set(same.values()))
    number = {old: new for new, old in enumerate(kept)}
    number = {old: number[same[old]] for old in used}
    kept_buffers = sorted({values[index].buffer for index in kept})
    buffer_number = {old: new for new, old in enumerate(kept_buffers)}

    def numbers(old: Sequence[int]) -> tuple[int, ...]:
        return tuple(number[value] for value in old)

    return Graph(
        tuple(buffers[old] for old in kept_buffers),
        tuple(_in(buffer_number[values[old].buffer], values[old]) for old in kept),
        tuple(Node(n.op, tuple([_renumbered(arg, number) for arg in n.args]), numbers(n.outs), numbers(n.writes), n.source) for n in nodes),
        numbers(graph.inputs),
        numbers(graph.outputs),
        {buffer_number[old]: constant for old, constant in graph.constants.items() if old in buffer_number},
    )
