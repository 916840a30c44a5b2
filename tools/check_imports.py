"""Checks that the package's modules do not import each other in circles, at their top level or for types alone.

A circle works only in the one order of imports that happens to be used. Imports inside of functions do not count: they
are for what is wanted rarely; nor do the type imports of an `__init__.py`, which name what it loads when it is asked for.
"""

from __future__ import annotations

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def name_of(path: pathlib.Path, source: pathlib.Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _top_level(tree: ast.AST, lazy: bool) -> list[ast.stmt]:
    """Imports that run at import or that a type checker reads; `lazy`: without the latter."""
    found: list[ast.stmt] = []
    for node in ast.iter_child_nodes(tree):
        if lazy and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found += _top_level(node, lazy)
    return found


def imports_of(path: pathlib.Path, names: set[str]) -> set[str]:
    """The package's modules that a file imports: the most exact name of each."""
    found: set[str] = set()
    for node in _top_level(ast.parse(path.read_text()), lazy=path.name == "__init__.py"):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                exact = f"{node.module}.{alias.name}"
                found |= {exact if exact in names else node.module} & names
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle for each group of modules that reach each other (Tarjan 1972, "Depth-first search")."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1 or name in graph[name]:
                groups.append(group)

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return groups


def main(root: pathlib.Path = ROOT) -> int:
    source = root / "src"
    files = {name_of(path, source): path for path in sorted((source / "flambeau").rglob("*.py"))}
    names = {*files, "flambeau._C"}
    graph = {name: imports_of(path, names) - {name} for name, path in files.items()} | {"flambeau._C": set()}
    faults = circles(graph)
    for group in faults:
        print("modules import each other in a circle: " + ", ".join(sorted(group)))
    if not faults:
        print(f"{len(files)} modules: no circles")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
