"""`flambeau.fx`: programs as graphs that Python can read, change and write as Python again (PyTorch's `torch.fx`).

    symbolic_trace(model)   -->  GraphModule.graph   -->  change nodes, graph.lint()  -->  recompile()
      a Tracer runs it with       nodes: one for each       replace_pattern,                code that is compiled,
      a Proxy for each argument   operation                 Transformer, passes             and run like any module

>>> import flambeau as fl
>>> class Net(fl.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.fc = fl.nn.Linear(4, 2)
...     def forward(self, x):
...         return fl.relu(self.fc(x)) + 1
>>> traced = fl.fx.symbolic_trace(Net())
>>> print(traced.code.strip())
def forward(self, x):
    fc = self.fc(x);  x = None
    relu = flambeau.relu(fc);  fc = None
    add = relu + 1;  relu = None
    return add
>>> traced(fl.ones(3, 4)).shape
flambeau.Size([3, 2])
"""

from __future__ import annotations

from flambeau.fx._symbolic_trace import PH, Tracer, symbolic_trace, wrap
from flambeau.fx.graph import CodeGen, Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter, Transformer
from flambeau.fx.node import Node, has_side_effect, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
