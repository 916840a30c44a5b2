"""Replacing parts of a graph: what looks like one function becomes another.

    pattern                    graph                             replacement
      x   y                      a   b                             x   y
       \\ /                        \\ /                               \\ /
       add      is found as       add_3     and becomes            sub        whose result is used in place of relu_1
       relu                       relu_1                           sigmoid

Parameters of the pattern stand for anything. What is inside of a match must not be used outside of it, but for what the pattern returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flambeau.fx._members import copy_attribute
from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Pattern = Callable[..., Any] | GraphModule


class Match(NamedTuple):
    """Where a pattern was found: the node of the pattern's result, and for each node of the pattern the one of the graph."""

    anchor: Node
    nodes_map: dict[Node, Any]


class ReplacedPatterns(NamedTuple):
    """A match, and the nodes that are in its place now."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replaces, in the graph of `gm`, all that looks like `pattern`; of matches that overlap the first is taken. `gm` is compiled again.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import replace_pattern, symbolic_trace
        >>> def f(a, b):
        ...     return fl.relu(a + b) * 2
        >>> net = symbolic_trace(f)
        >>> found = replace_pattern(net, lambda x, y: fl.relu(x + y), lambda x, y: fl.sigmoid(x - y))
        >>> print(net.code.strip())
        def forward(self, a, b):
            sub = a - b;  a = b = None
            sigmoid = flambeau.sigmoid(sub);  sub = None
            mul = sigmoid * 2;  sigmoid = None
            return mul

    Returns:
        the matches.

    Raises:
        TypeError: `gm` is no GraphModule.
        ValueError: `pattern` computes nothing, or pattern and replacement differ in how much they take or return.
        RuntimeError: `replacement` uses a module or attribute that `gm` has not, and is no module that would bring it.
    """
    return [Match(done.anchor, done.nodes_map) for done in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Pattern, replacement: Pattern, match_filters: list[Callable[[Match, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
) -> list[ReplacedPatterns]:  # fmt: skip
    """`replace_pattern` of the matches for which each of `match_filters`, called with (match, graph, graph of the pattern), is true.

    ignore_literals: numbers and other constants in the pattern stand for any.
    """
    if not isinstance(gm, GraphModule):
        raise TypeError(f"replace_pattern: gm is a {type(gm).__name__}; expected a GraphModule (fx.symbolic_trace makes one)")
    wanted, new = _graph_of(pattern), _graph_of(replacement)
    takes, gives = _ends(wanted)
    new_takes, new_gives = _ends(new)
    if not gives or any(node.op == "placeholder" for node in gives):
        raise ValueError("replace_pattern: pattern returns nothing that it computes; its result is what is replaced")
    if (len(takes), len(gives)) != (len(new_takes), len(new_gives)):
        raise ValueError(
            f"replace_pattern: pattern takes {len(takes)} values and returns {len(gives)}, replacement {len(new_takes)} and "
            f"{len(new_gives)}; expected the same"
        )
    matches = _matches(gm.graph, wanted, gives, ignore_literals)
    matches = [match for match in matches if all(keep(match, gm.graph, wanted) for keep in match_filters or ())]
    if matches:
        _bring_members(gm, replacement, new)
    moved: dict[Node, Node] = {}  # a node that is gone -> what is there instead
    done = [_replace(gm.graph, match, (takes, gives), (new, new_takes), moved) for match in matches]
    _in_order(gm.graph)
    gm.recompile()
    return done


def _graph_of(program: Pattern) -> Graph:
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _ends(graph: Graph) -> tuple[list[Node], list[Any]]:
    """(parameters, nodes that are returned)"""
    result = graph.output_node().args[0]
    given: list[Node] = []
    map_arg(result, lambda node: given.append(node) or node)  # type: ignore[func-returns-value]
    return [node for node in graph.nodes if node.op == "placeholder"], given


# ---------------------------------------------------------------------- finding


def _matches(graph: Graph, wanted: Graph, gives: list[Node], ignore_literals: bool) -> list[Match]:
    found: list[Match] = []
    taken: set[Node] = set()
    for candidate in graph.nodes:
        mapping = _match_all(gives, [candidate], list(graph.nodes), {}, ignore_literals)
        if mapping is None:
            continue
        inside = [at for node, at in mapping.items() if node.op != "placeholder"]
        if taken.isdisjoint(inside) and _is_closed(mapping, gives):
            taken.update(inside)
            ordered = {node: mapping[node] for node in [*gives, *mapping]}
            found.append(Match(gives[0], ordered))
    return found


def _match_all(
    gives: list[Node], candidates: list[Node], everything: list[Node], mapping: dict[Node, Any], loose: bool
) -> dict[Node, Any] | None:
    """Looks for the first result among `candidates`, and for the others among all nodes."""
    if not gives:
        return mapping
    if gives[0] in mapping:
        return _match_all(gives[1:], everything, everything, mapping, loose)
    for candidate in candidates:
        trial = dict(mapping)
        if _match(gives[0], candidate, trial, loose):
            whole = _match_all(gives[1:], everything, everything, trial, loose)
            if whole is not None:
                return whole
    return None


def _match(wanted: Any, at: Any, mapping: dict[Node, Any], loose: bool) -> bool:
    """Whether `at` looks like `wanted`; notes what is what."""
    if isinstance(wanted, Node):
        if wanted in mapping:
            return mapping[wanted] is at or (not isinstance(at, Node) and bool(mapping[wanted] == at))
        if wanted.op == "placeholder":
            mapping[wanted] = at
            return True
        if not isinstance(at, Node) or wanted.op != at.op or wanted.target != at.target:
            return False
        mapping[wanted] = at
        return _match(tuple(wanted.args), tuple(at.args), mapping, loose) and _match(wanted.kwargs, at.kwargs, mapping, loose)
    if isinstance(at, Node):
        return False
    if isinstance(wanted, (tuple, list)):
        return isinstance(at, (tuple, list)) and len(wanted) == len(at) and _match_values(wanted, at, mapping, loose)
    if isinstance(wanted, dict):
        same = isinstance(at, dict) and wanted.keys() == at.keys()
        return same and _match_values(wanted.values(), [at[key] for key in wanted], mapping, loose)
    if isinstance(wanted, slice):
        parts = ("start", "stop", "step")
        return isinstance(at, slice) and _match_values([getattr(wanted, p) for p in parts], [getattr(at, p) for p in parts], mapping, loose)
    return loose or (type(wanted) is type(at) and bool(wanted == at))


def _match_values(wanted: Iterable[Any], at: Iterable[Any], mapping: dict[Node, Any], loose: bool) -> bool:
    return all(_match(one, other, mapping, loose) for one, other in zip(wanted, at, strict=True))


def _is_closed(mapping: dict[Node, Any], gives: list[Node]) -> bool:
    """Whether nobody outside of the match uses what goes with it."""
    inside = {at for node, at in mapping.items() if node.op != "placeholder"}
    hidden = [at for node, at in mapping.items() if node.op not in ("placeholder", "get_attr") and node not in gives]
    return all(user in inside for at in hidden for user in at.users)


# ---------------------------------------------------------------------- replacing


def _bring_members(gm: GraphModule, replacement: Pattern, new: Graph) -> None:
    """Modules and attributes that the replacement uses; all are looked for before one is taken."""
    names = [str(node.target) for node in new.nodes if node.op in ("call_module", "get_attr")]
    lacking = [name for name in names if not _has(gm, name)]
    source = replacement if isinstance(replacement, Module) else None
    missing = [name for name in lacking if source is None or not _has(source, name)]
    if missing:
        what = ", ".join(missing)
        raise RuntimeError(f"replace_pattern: replacement uses {what}, which is neither in {type(gm).__name__} nor in the replacement")
    for name in lacking:
        assert source is not None
        copy_attribute(source, gm, name)


def _has(root: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(root, part):
            return False
        root = getattr(root, part)
    return True


def _replace(
    graph: Graph, match: Match, pattern: tuple[list[Node], list[Node]], new: tuple[Graph, list[Node]], moved: dict[Node, Node]
) -> ReplacedPatterns:
    takes, gives = pattern
    replacement, new_takes = new

    def now(value: Any) -> Any:
        while isinstance(value, Node) and value in moved:
            value = moved[value]
        return value

    values = {inner: now(match.nodes_map.get(outer)) for outer, inner in zip(takes, new_takes, strict=True)}
    old = sorted({at for node, at in match.nodes_map.items() if node.op != "placeholder"})
    added: list[Node] = []
    with graph.inserting_before(old[-1]):
        for node in replacement.nodes:
            if node.op == "output":
                break
            if node not in values:
                values[node] = graph.node_copy(node, values.__getitem__)
                added.append(values[node])
    results: list[Node] = []
    map_arg(replacement.output_node().args[0], lambda node: results.append(node) or node)  # type: ignore[func-returns-value]
    for outer, inner in zip(gives, results, strict=True):
        was, becomes = match.nodes_map[outer], values[inner]
        if was is not becomes:
            was.replace_all_uses_with(becomes)
            moved[was] = becomes
    for node in reversed(old):
        if not node.users:
            graph.erase_node(node)
    nodes_map = {node: now(at) if node.op == "placeholder" else at for node, at in match.nodes_map.items()}
    return ReplacedPatterns(match.anchor, nodes_map, added)


def _in_order(graph: Graph) -> None:
    """Moves nodes behind what they use, where a replacement came later than a user of one of its results."""
    seen: set[Node] = set()
    for node in list(graph.nodes):
        _place(node, seen)


def _place(node: Node, seen: set[Node]) -> None:
    if node in seen:
        return
    seen.add(node)
    for used in node.all_input_nodes:
        if used not in seen:
            _place(used, seen)
            node.prepend(used)
