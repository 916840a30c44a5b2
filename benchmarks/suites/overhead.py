"""What a call costs when the work is nothing: ops on 4x4, and a backward through a chain of them."""

from __future__ import annotations

from typing import Any

from suites.case import Case

STATEMENTS = {
    "a + b": "a + b",
    "a * 2": "a * 2",
    "relu": "relu(a)",
    "sum": "a.sum()",
    "a[0]": "a[0]",
    "view": "a.view(2, 8)",
    "transpose": "a.transpose(0, 1)",
}
HEADLINES = ("a + b", "a[0]")


def plain(tl: Any) -> dict[str, Any]:
    """Two 4x4 tensors that nothing is recorded for."""
    return {"a": tl.ones(4, 4), "b": tl.ones(4, 4), "relu": tl.relu}


def recorded(tl: Any) -> dict[str, Any]:
    """The same with a graph node for every result."""
    names = plain(tl)
    return names | {"a": names["a"].requires_grad_(), "b": names["b"].requires_grad_()}


def chain(tl: Any) -> dict[str, Any]:
    """A graph of 50 ops on 4x4. Only its backward is timed, again and again over the same graph."""
    x = tl.ones(4, 4).requires_grad_()
    weight = (0.5 * tl.ones(4, 4)).requires_grad_()
    y = x
    for _ in range(12):
        y = tl.relu(tl.tanh(y * weight) + x)  # 4 ops
    y = (y * y).sum()  # 48 + 2
    return {"y": y}


CASES = [
    *(
        Case(f"{name}, 4x4{suffix}", "ns", setup, text, max_ratio=0.4, headline=name in HEADLINES)
        for suffix, setup in (("", plain), (", requires_grad", recorded))
        for name, text in STATEMENTS.items()
    ),
    Case("backward of 50 small ops", "us", chain, "y.backward(retain_graph=True)", max_ratio=0.5),
]
