"""Hooks of modules."""
from typing import Any

import flambeau as fl
from flambeau import nn

shapes: list[fl.Size] = []


def note(module: nn.Module, args: Any, output: Any) -> None:
    shapes.append(output.shape)


model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
handles = [layer.register_forward_hook(note) for layer in model]
model(fl.ones(1, 2))
for handle in handles:
    handle.remove()
print(shapes)
