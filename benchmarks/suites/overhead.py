"""What a call costs when the work is nothing: ops on 4x4, a backward through a chain of them, small layers and steps."""

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


def layer(tl: Any) -> dict[str, Any]:
    """The smallest layer that is trained, with gradients to add to."""
    layer, x = tl.nn.Linear(8, 8), tl.randn(4, 8)
    layer(x).sum().backward()
    return {"layer": layer, "x": x}


def small_parameters(tl: Any) -> dict[str, Any]:
    """Adam over 100 parameters of 8x8."""
    parameters = [tl.nn.Parameter(tl.randn(8, 8)) for _ in range(100)]
    for p in parameters:
        p.grad = tl.randn(8, 8)
    return {"step": tl.optim.Adam(parameters, lr=1e-3).step}


CASES = [
    *(
        Case(f"{name}, 4x4{suffix}", "ns", setup, text, max_ratio=0.4, headline=name in HEADLINES)
        for suffix, setup in (("", plain), (", requires_grad", recorded))
        for name, text in STATEMENTS.items()
    ),
    Case("backward of 50 small ops", "us", chain, "y.backward(retain_graph=True)", max_ratio=0.5),
    Case("Linear(8, 8) forward and backward", "us", layer, "layer(x).sum().backward()", max_ratio=0.3, headline=False),
    Case("Adam step, 100 parameters 8x8", "us", small_parameters, "step()", max_ratio=0.3, headline=False),
]
