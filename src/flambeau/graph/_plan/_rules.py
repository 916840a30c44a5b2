"""In place: an output that is put where an operand lay.

Which op may do that is data that the planner is given, an `InplaceRule`: for a node, pairs (argument, output) of values in
the order in which they are tried. It answers for the op alone; that the operand dies there, is planned, and has as many
bytes is looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from flambeau.graph._structure import ITEM_BYTES, GraphError, Structure, refs_of

InplaceRule = Callable[[Structure, int], Iterable[tuple[int, int]]]


def declared(pairs: Mapping[str, Sequence[tuple[int, int]]]) -> InplaceRule:
    """The rule that a table declares: op -> ((operand, output), ...).

    Operands are counted among the tensor arguments, lists flattened; pairs that a node does not have are passed over. A memory
    that a node is given twice is left alone: the op reads it again after it has begun to write.

    Raises:
        GraphError: a pair is none of two counts.

    >>> from flambeau import graph
    >>> rule = graph.declared({"relu_backward": [(0, 0)]})
    """
    for op, listed in pairs.items():
        if not _is_pairs(listed):
            raise GraphError(f"declared: '{op}' has {listed!r}; expected pairs (operand, output) of numbers >= 0")

    def rule(graph: Structure, index: int) -> Iterable[tuple[int, int]]:
        node = graph.nodes[index]
        wanted = pairs.get(node.op)
        if not wanted:
            return
        operands = refs_of(node.args)
        buffers = [graph.values[value].buffer for value in operands]
        for operand, output in wanted:
            if operand < len(operands) and output < len(node.outs) and buffers.count(buffers[operand]) == 1:
                yield operands[operand], node.outs[output]

    return rule


def _is_pairs(listed: object) -> bool:
    def counts(pair: object) -> bool:
        return isinstance(pair, (tuple, list)) and len(pair) == 2 and all(type(number) is int and number >= 0 for number in pair)

    return isinstance(listed, (tuple, list)) and all(map(counts, listed))


def elementwise(ops: Collection[str] | Callable[[str], bool]) -> InplaceRule:
    """The rule for recorded graphs: the output of an element-wise op may take the place of any operand that lies as it will.

    "As it will" means sizes, strides, offset and bytes per element: a transposed operand is still read where the output
    has been written already. The same holds for every other operand that shares the memory.

    >>> from flambeau import graph
    >>> rule = graph.elementwise({"add", "mul", "exp"})
    """
    applies = ops if callable(ops) else frozenset(ops).__contains__

    def rule(graph: Structure, index: int) -> Iterable[tuple[int, int]]:
        node = graph.nodes[index]
        if not applies(node.op):
            return
        values, operands = graph.values, refs_of(node.args)
        for out in node.outs:
            made = values[out]
            item = ITEM_BYTES[made.dtype]
            for operand in operands:
                buffer = values[operand].buffer
                if all(
                    value.sizes == made.sizes
                    and value.strides == made.strides
                    and value.offset == made.offset
                    and ITEM_BYTES[value.dtype] == item
                    for value in (values[other] for other in operands)
                    if value.buffer == buffer
                ):
                    yield operand, out

    return rule


def merge(graph: Structure, planned: Collection[int], rule: InplaceRule | None) -> dict[int, int]:
    """Buffers that take a place, each with the buffer whose place it is."""
    took: dict[int, int] = {}
    if rule is None:
        return took
    lives, values, buffers = graph.lives(), graph.values, graph.buffers
    for index, (_, writes) in enumerate(graph.touched()):
        taken = {*writes}  # what the node overwrites itself is no place for another result
        for operand, out in rule(graph, index):
            source, target = values[operand].buffer, values[out].buffer
            if (
                source in planned
                and target in planned
                and lives[source].end == index  # the last to touch it, and the caller does not get it
                and lives[source].start < index
                and lives[target].start == index
                and target not in took
                and source not in taken
                and buffers[source].nbytes == buffers[target].nbytes
                and buffers[source].device == buffers[target].device
            ):
                took[target] = source
                taken.add(source)
    return took
