"""Makes a failing call smaller: drops statements and arguments, and puts simple values where others stand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

SIMPLE = ("T(())", "T((2,))", "T((0,))", "0", "1", "None", "()")


def candidates(text: str) -> Iterator[str]:
    """Texts with one thing less, the boldest first."""
    tree = ast.parse(text)
    for i in range(len(tree.body) - 1, 0, -1):
        yield ast.unparse(ast.Module([*tree.body[:i], *tree.body[i + 1 :]], []))
    count = sum(1 for _ in ast.walk(tree))
    for k in range(count):
        for change in ("keyword", "last argument", "element", *SIMPLE):
            copy = ast.parse(text)
            node = list(ast.walk(copy))[k]
            if change == "keyword" and isinstance(node, ast.Call) and node.keywords:
                node.keywords.pop()
            elif change == "last argument" and isinstance(node, ast.Call) and node.args:
                node.args.pop()
            elif change == "element" and isinstance(node, (ast.Tuple, ast.List)) and node.elts:
                node.elts.pop()
            elif change in SIMPLE and isinstance(node, ast.Call):
                for i, a in enumerate(node.args):
                    if ast.unparse(a) != change and len(ast.unparse(a)) > len(change):
                        node.args[i] = ast.parse(change, mode="eval").body
                        break
                else:
                    continue
            else:
                continue
            yield ast.unparse(copy)


def smaller(text: str, fails: Callable[[str], bool], tries: int = 120) -> str:
    """The smallest text found that still fails."""
    seen = {text}
    while tries > 0:
        for candidate in candidates(text):
            if candidate in seen or len(candidate) >= len(text):
                continue
            seen.add(candidate)
            tries -= 1
            if fails(candidate):
                text = candidate
                break
            if tries <= 0:
                return text
        else:
            return text
    return text
