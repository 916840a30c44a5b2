"""What every model is: a program that trains or predicts, written once for both libraries.

`T` is the library that runs it, flambeau or torch: the same names in both.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Settings:
    """How a library is used: its defaults, or what a careful user sets."""

    channels_last: bool = False
    fused: bool = False
    dtype: str = "float32"  # bfloat16: by autocast; float64: the whole model

    @property
    def title(self) -> str:
        """What differs from the defaults."""
        chosen = [name for name in ("channels_last", "fused") if getattr(self, name)]
        return ", ".join(chosen) or "default"


class Program:
    """A model with its optimizer and one fixed batch of synthetic data.

    A subclass says what the model is (`networks`, `data`, `loss`, `optimizer`); one whose step is
    another than forward, loss, backward, optimizer overrides `step` too.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    item: ClassVar[str]  # image, token or sample
    batch: ClassVar[int]  # of a training step
    items_per_sample: ClassVar[int] = 1
    images: ClassVar[bool] = False  # convolutions over [N, C, H, W]: channels_last is worth trying
    clip: ClassVar[float | None] = None  # the gradients' largest norm

    def __init__(self, T: Any, batch: int, settings: Settings) -> None:
        T.manual_seed(0)
        self.T = T
        self.settings = settings
        self.training = True
        self.modules: dict[str, Any] = self.networks()
        for module in self.modules.values():
            if settings.dtype == "float64":
                module.double()
            if settings.channels_last:
                module.to(memory_format=T.channels_last)
        options = {"fused": True} if settings.fused else {}
        self.optimizers = {
            name: self.optimizer(module.parameters(), **options)
            for name, module in self.modules.items()
        }
        inputs, targets = self.data(np.random.default_rng(0), batch)
        self.inputs = tuple(self._tensor(array) for array in inputs)
        self.targets = self._tensor(targets)

    def networks(self) -> dict[str, Any]:
        """The modules, by name; the one that predicts first."""
        raise NotImplementedError

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """What goes into the model, and the targets, for `n` samples."""
        raise NotImplementedError

    def loss(self, output: Any, targets: Any) -> Any:
        """A scalar."""
        raise NotImplementedError

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        """The optimizer that fits this model."""
        raise NotImplementedError

    def step(self) -> Any:
        """One training step; returns its loss."""
        (model,), (optimizer,) = self.modules.values(), self.optimizers.values()
        optimizer.zero_grad()
        with self.autocast():
            loss = self.loss(model(*self.inputs), self.targets)
        loss.backward()
        if self.clip is not None:
            self.T.nn.utils.clip_grad_norm_(model.parameters(), self.clip)
        optimizer.step()
        return loss

    def predict(self) -> Any:
        """The model's output; the modules are in evaluation mode."""
        model = next(iter(self.modules.values()))
        with self.T.no_grad(), self.autocast():
            return model(*self.inputs)

    def train(self, mode: bool = True) -> None:
        """Puts the modules into training or evaluation mode."""
        self.training = mode
        for module in self.modules.values():
            module.train(mode)

    def autocast(self) -> Any:
        """The context of the forward pass."""
        if self.settings.dtype != "bfloat16":
            return contextlib.nullcontext()
        return self.T.autocast("cpu", dtype=self.T.bfloat16)

    def _tensor(self, array: np.ndarray) -> Any:
        tensor = self.T.from_numpy(array)
        if self.settings.dtype == "float64" and tensor.is_floating_point():
            tensor = tensor.double()
        if self.settings.channels_last and tensor.dim() == 4:
            return tensor.contiguous(memory_format=self.T.channels_last)
        return tensor


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """float32, standard normal."""
    return rng.standard_normal(shape, dtype=np.float32)


def labels(rng: np.random.Generator, n_classes: int, *shape: int) -> np.ndarray:
    """int64 in [0, n_classes)."""
    return rng.integers(0, n_classes, shape)


class Classifier(Program):
    """Pictures of 224x224 in 1000 classes: SGD with momentum and cross entropy."""

    item = "image"
    images = True
    lr: ClassVar[float] = 1e-3
    weight_decay: ClassVar[float] = 1e-4

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (normal(rng, n, 3, 224, 224),), labels(rng, 1000, n)

    def loss(self, output: Any, targets: Any) -> Any:
        return self.T.nn.functional.cross_entropy(output, targets)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.SGD(
            parameters, lr=self.lr, momentum=0.9, weight_decay=self.weight_decay, **options
        )
