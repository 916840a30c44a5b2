"""A profile of a step."""
import flambeau as fl
from flambeau import nn
from flambeau.profiler import profile

model = nn.Linear(8, 8)
with profile() as p:
    model(fl.ones(2, 8)).sum().backward()
text: str = p.key_averages().table(row_limit=5)
print(len(text) > 0)
