"""State dicts, files and checkpoints."""
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import flambeau as fl
from flambeau import nn


def save(path: Path, model: nn.Module, optimizer: fl.optim.Optimizer, epoch: int) -> None:
    fl.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def load(path: Path, model: nn.Module, optimizer: fl.optim.Optimizer) -> int:
    state: dict[str, Any] = fl.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])


model = nn.Linear(2, 2)
sgd = fl.optim.SGD(model.parameters(), lr=0.1)
with TemporaryDirectory() as folder:
    save(Path(folder) / "a.fl", model, sgd, 3)
    print(load(Path(folder) / "a.fl", model, sgd))
fl.save(fl.ones(2), io.BytesIO())
