"""autocast and a GradScaler."""
import flambeau as fl
from flambeau import nn
from flambeau.amp import GradScaler

model = nn.Linear(4, 2)
optimizer = fl.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler("cpu")
with fl.autocast("cpu", dtype=fl.bfloat16):
    loss = model(fl.ones(3, 4)).float().pow(2).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print(loss.dtype, scaler.get_scale())
