"""`Graph`: a program of ops over buffers, with what one may ask of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau._C import Tensor
from flambeau.graph import _check, _draw, _files, _memory, _replay, _text
from flambeau.graph._plan import InplaceRule, Plan, plan
from flambeau.graph._structure import Structure
from flambeau.serialization._files import path_of, write_file

Rule = InplaceRule | Mapping[str, Sequence[tuple[int, int]]] | None


@dataclass(slots=True, eq=False, repr=False)
class Graph(Structure):
    """Buffers, values (views of buffers) and nodes (calls of ops) in the order in which they run.

    Args:
        buffers, values, nodes: what it is made of; see `Buffer`, `Value`, `Node`.
        inputs, outputs: indices of values. An input lies in a buffer of kind "argument" or "parameter".
        constants: by index of buffer the bytes of those of kind "constant", as a tensor or NumPy array.

    A graph is not changed once it is made. Two are equal if they would be saved alike.

    >>> from flambeau import graph
    >>> g = graph.Graph(
    ...     [graph.Buffer("argument", 8, name="x"), graph.Buffer("output", 8)],
    ...     [graph.Value(0, "float32", (2,), (1,), 0), graph.Value(1, "float32", (2,), (1,), 0)],
    ...     [graph.Node("exp", (graph.Ref(0),), (1,))],
    ...     inputs=[0], outputs=[1], constants={},
    ... )
    >>> g.validate()
    Graph(1 node, 2 buffers)
    >>> g.print()
    graph(%0: f32[2] x):
      %1: f32[2] = exp(%0: f32[2])
      return %1
    """

    def validate(self) -> Graph:
        """Returns the graph, or raises GraphError with its faults: indices, sizes, reads before the first write, written constants.

        >>> from flambeau import graph
        >>> from dataclasses import replace
        >>> g = graph.example()
        >>> replace(g, nodes=g.nodes[1:]).validate()
        Traceback (most recent call last):
            ...
        flambeau.graph._structure.GraphError: node 0 (add): reads value %3 of buffer 3, which nobody has written before
        """
        _check.check(self)
        return self

    def print(self) -> None:
        """Prints one line a node; `str` of the graph is the same text. docs/graph.md explains it."""
        print(self)

    def __str__(self) -> str:
        return "\n".join(_text.lines(self))

    def __repr__(self) -> str:
        n = len(self.nodes)
        return f"Graph({n} node{'' if n == 1 else 's'}, {len(self.buffers)} buffers)"

    def run(self, *inputs: Tensor) -> list[Tensor]:
        """Runs the graph and returns its outputs: the bits that eager mode gives, without gradients.

        Args:
            inputs: a tensor for each of `inputs`: arguments, then parameters. A graph that `record` made knows the parameters
                with which it was recorded, and takes them where it gets arguments alone.

        A graph from a file is run no more trustingly than a program's calls are: each node is a call of its op, with all checks.
        Random ops draw from the default generator. What the graph overwrites of its inputs is overwritten.

        Raises:
            GraphError: an input is not what the graph was made for, or a node is none; the error says which.

        >>> import flambeau as fl
        >>> from flambeau import graph
        >>> graph.example().run(fl.ones(8, 16), fl.eye(16), fl.zeros(16))[0][:4]
        tensor([16., 16., 16., 16.])
        """
        return _replay.run(self, inputs)

    def plan(self, mode: str = "arena", **options: Any) -> Plan:
        """`flambeau.graph.plan` of this graph."""
        return plan(self, mode, **options)

    def memory(self, mode: str | Plan = "arena", *, rule: Rule = None, biggest: int = 5) -> _memory.Memory:
        """What the graph needs of memory: bytes by kind, planned, in use at once, and the biggest buffers.

        >>> from flambeau import graph
        >>> print(graph.example().memory(rule=graph.elementwise({"relu"}), biggest=2))
        arguments            512 B
        parameters         1.1 KiB
        constants              0 B
        intermediates      2.5 KiB
        outputs               64 B
          planned (arena)  1.0 KiB
          in use at once   1.0 KiB
        total              2.6 KiB
        biggest
          w (parameter)    1.0 KiB
          x (argument)       512 B
        """
        return _memory.report(self, self._plan_of(mode, rule), biggest)

    def draw(self, path: str | os.PathLike[str], mode: str | Plan = "arena", *, rule: Rule = None) -> None:
        """Writes a picture (SVG) with a box a node; buffers that share planned memory share a colour.

        >>> from flambeau import graph
        >>> graph.example().draw("layer.svg", "both")
        """
        text = _draw.svg(self, self._plan_of(mode, rule)).encode()
        write_file(path_of("draw", path), lambda file: file.write(text))

    def dot(self, mode: str | Plan = "arena", *, rule: Rule = None) -> str:
        """The same picture as text for Graphviz.

        >>> from flambeau import graph
        >>> graph.example().dot().splitlines()[0]
        'digraph {'
        """
        return _draw.dot(self, self._plan_of(mode, rule))

    def _plan_of(self, mode: str | Plan, rule: Rule) -> Plan:
        return mode if isinstance(mode, Plan) else plan(self, mode, rule=rule)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file: the constants' bytes, and the structure as JSON in its metadata.

        One file rather than two, since two can not be replaced at once: a reader would meet the new structure with the old
        constants. Any reader of safetensors opens it. Under `path` it appears only when it is complete.

        Raises:
            GraphError: the graph has faults.

        >>> from flambeau import graph
        >>> graph.example().save("layer.graph")
        >>> graph.Graph.load("layer.graph") == graph.example()
        True
        """
        self.validate()
        write_file(path_of("save", path), _files.writer(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trusted: bool = False) -> Graph:
        """Reads what `save` wrote. Nothing of the file is executed, and it is checked as a whole before it is believed.

        Args:
            trusted: take nodes that are parts of ops, too: most gradients. Their kernels do not check what they are called with,
                so that a file made to harm could read or write memory beyond its tensors when the graph is run.

        Raises:
            FileFormatError: (a ValueError) what is wrong, and with which node, value or buffer.
        """
        return _files.read(path_of("load", path), cls, trusted)

    def fingerprint(self) -> str:
        """A hash of what the graph computes: the same for graphs that differ in names and lines of sources alone.

        >>> from flambeau import graph
        >>> graph.example().fingerprint() == graph.example().fingerprint()
        True
        """
        if "fingerprint" not in self._kept:
            text = hashlib.sha256(_files.structure_text(self, names=False).encode())
            for index in sorted(self.constants):
                text.update(_files.bytes_of(self.constants[index]))
            self._kept["fingerprint"] = text.hexdigest()
        return self._kept["fingerprint"]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self.fingerprint() == other.fingerprint() and _files.structure_text(self) == _files.structure_text(other)

    def __hash__(self) -> int:
        return hash(self.fingerprint())
