"""What `Graph.lint` checks. All faults are found before one is raised."""

from __future__ import annotations

from typing import Any

from flambeau.fx.node import Node
from flambeau.nn.module import Module


def lint(graph: Any) -> None:
    """Raises RuntimeError with all that is wrong with a graph."""
    faults = [fault for check in (_order, _names, _users, _members) for fault in check(graph)]
    if faults:
        shown = faults[0] if len(faults) == 1 else "".join(f"\n  - {fault}" for fault in faults)
        raise RuntimeError(f"Graph.lint: {shown}")


def _order(graph: Any) -> list[str]:
    faults: list[str] = []
    seen: set[Node] = set()
    for node in graph.nodes:
        for used in node.all_input_nodes:
            if used.graph is not graph:
                faults.append(f"argument {used.name} of node {node.name} is a node of another graph")
            elif used._erased:
                faults.append(f"argument {used.name} of node {node.name} was erased")
            elif used not in seen:
                faults.append(
                    f"argument {used.name} of node {node.name} was used before it has been defined: nodes must be in the order in which "
                    f"they can be run ({used.name} belongs before {node.name})"
                )
        seen.add(node)
    return faults


def _names(graph: Any) -> list[str]:
    seen: set[str] = set()
    faults = []
    for node in graph.nodes:
        if node.name in seen:
            faults.append(f"two nodes have the name {node.name}")
        seen.add(node.name)
    return faults


def _users(graph: Any) -> list[str]:
    return [
        f"node {node.name} uses {used.name}, which does not know it"
        for node in graph.nodes
        for used in node.all_input_nodes
        if node not in used.users
    ]


def _members(graph: Any) -> list[str]:
    root = graph.owning_module
    if root is None:
        return []
    faults = []
    for node in graph.nodes:
        if node.op not in ("get_attr", "call_module"):
            continue
        at: Any = root
        path: list[str] = []
        for part in str(node.target).split("."):
            if not hasattr(at, part):
                where = ".".join(path) or type(root).__name__
                faults.append(f"node {node.name} is {node.op} of {node.target!r}, but {where} has no attribute {part!r}")
                break
            at = getattr(at, part)
            path.append(part)
        else:
            if node.op == "call_module" and not isinstance(at, Module):
                faults.append(f"node {node.name} calls {node.target!r}, which is a {type(at).__name__} and no module")
    return faults
