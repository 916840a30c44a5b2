"""The graph that the examples of the documentation show."""

from __future__ import annotations

from flambeau.graph._graph import Graph
from flambeau.graph._structure import Buffer, Node, Ref, Value


def example() -> Graph:
    """A small graph: a residual layer, `x + relu(x @ w + b) @ w`, and the sum of its columns.

    >>> from flambeau import graph
    >>> graph.example().print()
    graph(%0: f32[8, 16] x, %1: f32[16, 16] w, %2: f32[16] b):
      %3: f32[8, 16] = matmul(%0: f32[8, 16], %1: f32[16, 16])  # layer.py:3
      %4: f32[8, 16] = add(%3: f32[8, 16], %2: f32[16])  # layer.py:3
      %5: f32[8, 16] = relu(%4: f32[8, 16])  # layer.py:3
      %6: f32[8, 16] = matmul(%5: f32[8, 16], %1: f32[16, 16])  # layer.py:4
      %7: f32[8, 16] = add(%0: f32[8, 16], %6: f32[8, 16])  # layer.py:4
      %8: f32[16] = sum(%7: f32[8, 16], (0,))  # layer.py:5
      return %8
    """
    kinds = ["argument", "parameter", "parameter"] + ["intermediate"] * 5 + ["output"]
    sizes: list[tuple[int, ...]] = [(8, 16), (16, 16), (16,)] + [(8, 16)] * 5 + [(16,)]
    names = ["x", "w", "b"] + [None] * 6
    buffers, values = [], []
    for index, (kind, shape, name) in enumerate(zip(kinds, sizes, names)):
        strides = (1,) if len(shape) == 1 else (shape[1], 1)
        buffers.append(Buffer(kind, 4 * shape[0] * (shape[1] if len(shape) == 2 else 1), "cpu", name))
        values.append(Value(index, "float32", shape, strides))
    nodes = [
        Node("matmul", (Ref(0), Ref(1)), (3,), (), "layer.py:3"),
        Node("add", (Ref(3), Ref(2)), (4,), (), "layer.py:3"),
        Node("relu", (Ref(4),), (5,), (), "layer.py:3"),
        Node("matmul", (Ref(5), Ref(1)), (6,), (), "layer.py:4"),
        Node("add", (Ref(0), Ref(6)), (7,), (), "layer.py:4"),
        Node("sum", (Ref(7), (0,)), (8,), (), "layer.py:5"),
    ]
    return Graph(tuple(buffers), tuple(values), tuple(nodes), (0, 1, 2), (8,), {})
