"""An index out of range while operations are recorded."""

import flambeau as fl

with fl.lazy():
    table = fl.zeros(10, 4)
    rows = fl.nn.functional.embedding(fl.tensor([3, 12]), table)
print(rows.sum())
