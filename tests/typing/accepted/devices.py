"""Devices, and code that does not care which."""
import flambeau as fl
from flambeau import nn

device = fl.device("cuda" if fl.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
x = fl.ones(1, 2, device=device)
meta = fl.empty(1000, 1000, device="meta")
kind: str = x.device.type
print(model(x).device, kind, meta.nbytes)
