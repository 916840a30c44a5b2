from __future__ import annotations
from dataclasses import dataclass
from flambeau.graph._structure import Structure
from flambeau.graph import _check
@dataclass(slots=True, eq=False)
class Graph(Structure):
    def validate(self):
        _check.check(self)
        return self
