"""`torch.export.dynamic_shapes`: sizes that a program's arguments may have otherwise than when it was exported.

Sizes are numbers here, and a graph has those of one run. A program with dims that vary is run with several sizes of them: where the graphs differ in
integers alone that follow from these sizes, the graph computes them of its arguments' sizes; a program that depends on them otherwise is refused.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.utils import _pytree as pytree
from flambeau.compat._torch.overlay.utils._dispatched import operator as aten
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["Dim", "dims"]


class _Hint(enum.Enum):
    AUTO = enum.auto()
    DYNAMIC = enum.auto()
    STATIC = enum.auto()

    def __repr__(self) -> str:
        return f"DimHint({self.name})"

    __str__ = __repr__


class Dim:
    """A size with a name, from `min` to `max`: axes with the same Dim have the same size.

    `Dim.DYNAMIC` is an axis with a size of its own, `Dim.AUTO` one that may vary where the program lets it, and `Dim.STATIC` one that does not.
    """

    AUTO, DYNAMIC, STATIC = _Hint.AUTO, _Hint.DYNAMIC, _Hint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, math.inf if max is None else max
        if not name.isidentifier():
            raise ValueError(f"Dim: name = {name!r}; expected an identifier")
        if self.max <= self.min:
            raise ValueError(f"Dim: min = {min}, max = {max}; expected min < max")
        self.__name__ = name

    def __repr__(self) -> str:
        ends = [f"min={self.min}"] * (self.min > 0 or self.max == math.inf) + [f"max={self.max}"] * (self.max != math.inf)
        return f"Dim({self.__name__!r}, {', '.join(ends)})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass
class Varying:
    """A size that varies: what it is called, from where to where, its size in the example, and (leaf, axis) of the arguments that have it."""

    name: str
    min: int
    max: float
    size: int
    places: list[tuple[int, int]]
    may_be_fixed: bool = False


def varying_dims(arguments: dict[str, Any], dynamic_shapes: Any) -> list[Varying]:
    """The sizes that vary, of what `export` is told about its arguments.

    Raises:
        ValueError: that does not go with the arguments.
    """
    leaves = pytree.tree_leaves(arguments)
    found: dict[Any, Varying] = {}
    for leaf, (x, spec) in enumerate(zip(leaves, _spread(arguments, dynamic_shapes), strict=True)):
        axes = dict(enumerate(spec)) if isinstance(spec, list | tuple) else dict(spec or {})
        if axes and not isinstance(x, Tensor):
            raise ValueError(f"export: dynamic_shapes has {spec!r} for {x!r}, which is no tensor; expected None")
        for axis, dim in axes.items():
            if not -x.dim() <= axis < x.dim():
                raise ValueError(f"export: dynamic_shapes has axis {axis} of a tensor of shape {list(x.shape)}")
            size = x.shape[axis]
            if isinstance(dim, int) and dim != size:
                raise ValueError(f"export: dynamic_shapes says {dim} for axis {axis} of a tensor of shape {list(x.shape)}")
            if dim is None or dim is Dim.STATIC or isinstance(dim, int):
                continue
            if not isinstance(dim, Dim | _Hint):
                raise ValueError(f"export: dynamic_shapes has {dim!r} for axis {axis}; expected None, an int, a Dim, Dim.AUTO, Dim.DYNAMIC or Dim.STATIC")
            place = (leaf, axis % x.dim())
            if isinstance(dim, _Hint):
                found[place] = Varying(f"s{len(found)}", 2, math.inf, size, [place], dim is Dim.AUTO)
            elif not dim.min <= size <= dim.max:
                raise ValueError(f"export: {dim!r} is {size} in the example; expected {dim.min} <= {dim.__name__} <= {dim.max}")
            else:
                known = found.setdefault(dim.__name__, Varying(dim.__name__, dim.min, dim.max, size, []))
                if known.size != size:
                    raise ValueError(f"export: {dim!r} is {known.size} and {size} in the example; expected one size")
                known.places.append(place)
    return list(found.values())


def _spread(tree: Any, spec: Any) -> list[Any]:
    """What is said of each leaf."""
    if spec is None:
        return [None] * len(pytree.tree_leaves(tree))
    if pytree.tree_structure(tree).is_leaf():
        return [spec]
    parts = tree if isinstance(tree, dict) else dict(enumerate(tree))
    said = dict(spec) if isinstance(spec, dict) else dict(zip(parts, spec, strict=False))
    if said.keys() != parts.keys() or not isinstance(spec, dict) and len(spec) != len(parts):
        raise ValueError(f"export: dynamic_shapes has {list(said) if isinstance(spec, dict) else len(spec)}; expected {list(parts)}, as the arguments have")
    return [found for key, part in parts.items() for found in _spread(part, said[key])]


# ---------------------------------------------------------------- several sizes


def resized(leaves: Sequence[Any], varying: Sequence[Varying], sizes: Sequence[int]) -> list[Any]:
    """The arguments with other sizes: of the same elements, again and again."""
    made = list(leaves)
    for dim, size in zip(varying, sizes, strict=True):
        for leaf, axis in dim.places:
            made[leaf] = made[leaf].detach().index_select(axis, flambeau.arange(size) % dim.size)
    return made


def trial_sizes(varying: Sequence[Varying]) -> list[list[int]]:
    """Three more sizes of each, such that what follows from one does not look like what follows from another."""
    trials = []
    for shift in (1, 2, 3):
        sizes = []
        for k, dim in enumerate(varying):
            last = min(dim.max, dim.size + 97)
            choices = [n for n in range(max(dim.min, 2), int(last) + 1) if n != dim.size]
            if len(choices) < 3:
                raise ValueError(f"export: {dim.name} is from {dim.min} to {dim.max}; expected at least four sizes, of which the graph is made")
            sizes.append(choices[(shift * (2 * k + 3) + k) % len(choices)] if len(choices) > 30 else choices[(shift + k) % len(choices)])
        trials.append(sizes)
    return trials


def generalise(graph: Graph, others: Sequence[Graph], varying: Sequence[Varying], sizes: Sequence[Sequence[int]], leaves: Sequence[Node]) -> None:
    """Lets a graph compute the integers in which it differs from those that were made with other sizes; `leaves` are its arguments' nodes.

    Raises:
        ValueError: it depends on sizes otherwise.
    """
    all_sizes = [[dim.size for dim in varying], *sizes]
    rows = list(zip(graph.nodes, *(other.nodes for other in others), strict=False))
    if len({len(g.nodes) for g in (graph, *others)}) > 1 or any(len({(n.op, str(n.target)) for n in row}) > 1 for row in rows):
        raise ValueError(f"export: the program does otherwise for other sizes of {', '.join(dim.name for dim in varying)}; leave them out of dynamic_shapes")
    rule = _Sizes(graph, varying, leaves, all_sizes)
    for row in rows:
        node = row[0]
        if node.op not in ("placeholder", "get_attr"):
            with graph.inserting_before(node):
                node.args = rule.merged(node, [n.args for n in row])
                node.kwargs = rule.merged(node, [n.kwargs for n in row])


def _linear(products: Sequence[int], values: Sequence[int]) -> tuple[int, int] | None:
    """(a, b) such that each value is a * product + b."""
    step = products[1] - products[0]
    if step == 0 or (values[1] - values[0]) % step:
        return None
    a = (values[1] - values[0]) // step
    b = values[0] - a * products[0]
    return (a, b) if all(a * p + b == v for p, v in zip(products, values, strict=True)) else None


class _Sizes:
    """Makes nodes of sizes. `sizes`: those of the varying dims for each of the graphs."""

    def __init__(self, graph: Graph, varying: Sequence[Varying], leaves: Sequence[Node], sizes: Sequence[Sequence[int]]) -> None:
        self._graph, self._varying, self._leaves, self._sizes = graph, varying, leaves, sizes
        self._made: dict[int, Node] = {}

    def merged(self, node: Node, values: Sequence[Any]) -> Any:
        """The first graph's argument of `node`, with nodes for the integers in which the others differ from it."""
        first = values[0]
        if isinstance(first, tuple | list) and len({len(v) for v in values}) == 1:
            return type(first)(self.merged(node, parts) for parts in zip(*values, strict=True))
        if isinstance(first, dict) and len({tuple(v) for v in values}) == 1:
            return {key: self.merged(node, [v[key] for v in values]) for key in first}
        if isinstance(first, Node) or all(v is first or v == first for v in values):
            return first
        if all(type(v) is int for v in values):
            for count in (1, 2):
                for chosen in itertools.combinations(range(len(self._varying)), count):
                    products = [math.prod(row[k] for k in chosen) for row in self._sizes]
                    if (rule := _linear(products, values)) is not None:
                        return self._of(chosen, *rule)
        names = ", ".join(dim.name for dim in self._varying)
        raise ValueError(
            f"export: {node.target} gets {' and '.join(map(repr, dict.fromkeys(values)))} for other sizes of {names}, which is not seen to follow from them; "
            "leave them out of dynamic_shapes"
        )

    def _of(self, chosen: Sequence[int], a: int, b: int) -> Node:
        """The node of a * (the product of the chosen sizes) + b."""
        value: Any = None
        for k in chosen:
            size = self._size(k)
            value = size if value is None else self._node(operator.mul, value, size)
        value = value if a == 1 else self._node(operator.mul, value, a)
        return value if b == 0 else self._node(operator.add, value, b)  # type: ignore[no-any-return]

    def _size(self, k: int) -> Node:
        if k not in self._made:
            leaf, axis = self._varying[k].places[0]
            last = [node for node in self._graph.nodes if node.op == "placeholder"][-1]
            with self._graph.inserting_after(last):
                self._made[k] = self._graph.call_function(aten("sym_size", "int"), (self._leaves[leaf], axis), name="sym_size_int")
        return self._made[k]

    def _node(self, function: Callable[..., int], x: Any, y: Any) -> Node:
        return self._graph.call_function(function, (x, y))
