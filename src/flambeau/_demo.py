"""The demo: a small convolutional network learns handwritten digits in seconds.

It shows the usual round: data, model, optimizer with a schedule, training with a progress bar,
evaluation on held-out data, saving, loading, predicting, and one picture.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flambeau import nn
from flambeau._C import Tensor, ops
from flambeau.autograd import no_grad
from flambeau.datasets import Digits
from flambeau.optim import AdamW
from flambeau.optim.lr_scheduler import OneCycleLR
from flambeau.serialization import load, save
from flambeau.utils.data import DataLoader, TensorDataset

_HOW_TO_DRAW = "no picture: matplotlib is missing (pip install 'flambeau[demo]')"


@dataclass(frozen=True)
class DemoResult:
    """What a run of the demo reached."""

    accuracy: float
    seconds: float
    losses: list[float]
    same_after_reload: bool
    model_path: str
    picture_path: str | None


def make_model() -> nn.Module:
    """The network: two convolutions, one pooling, two linear layers; about 40,000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),  # [B, 16, 8, 8]
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),  # [B, 32, 8, 8]
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [B, 32, 4, 4]
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class _NoBar:
    """Stands in for a progress bar."""

    def update(self, n: int = 1) -> None:
        pass

    def set_postfix(self, **values: Any) -> None:
        pass


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Any]:
    if not quiet:
        try:
            from tqdm import tqdm
        except ImportError:
            print("no progress bar: tqdm is missing (pip install 'flambeau[demo]')")
        else:
            with tqdm(total=total, unit="batch") as bar:
                yield bar
            return
    yield _NoBar()


def _as_tensors(digits: Digits) -> tuple[Tensor, Tensor]:
    images = digits.data.unsqueeze(1) / 16.0  # [N, 1, 8, 8]
    return images, digits.targets


def _shifted(images: Tensor) -> Tensor:
    """Moves a batch by up to one pixel in each direction, so that the network sees more digits."""
    dy, dx = ops.randint(0, 3, (2,)).tolist()
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    return padded[:, :, dy : dy + 8, dx : dx + 8]


def train(
    model: nn.Module, batches: Iterable[Any], epochs: int, n_batches: int, quiet: bool
) -> list[float]:
    """Trains the model and returns the loss of every batch."""
    optimizer = AdamW(model.parameters(), lr=1e-3)
    schedule = OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * n_batches)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    losses: list[float] = []
    model.train()
    with _progress(epochs * n_batches, quiet) as bar:
        for epoch in range(epochs):
            for images, labels in batches:
                optimizer.zero_grad()
                loss = loss_fn(model(_shifted(images)), labels)
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                bar.update()
            bar.set_postfix(epoch=epoch + 1, loss=f"{losses[-1]:.3f}")
    return losses


def predict(model: nn.Module, images: Tensor) -> Tensor:
    """The most likely class of every image."""
    model.eval()
    with no_grad():
        result: Tensor = model(images).argmax(1)
    return result


def _draw(
    path: str, images: Tensor, predicted: list[int], labels: list[int], losses: list[float]
) -> str | None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print(_HOW_TO_DRAW)
        return None
    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(3, 8)
    # Mistakes first: they are what one wants to see.
    order = sorted(range(len(labels)), key=lambda i: predicted[i] == labels[i])[:16]
    pixels = images.squeeze(1).numpy()
    for k, i in enumerate(order):
        axis = figure.add_subplot(grid[k // 8, k % 8])
        axis.imshow(pixels[i], cmap="gray_r")
        right = predicted[i] == labels[i]
        title = str(predicted[i]) if right else f"{predicted[i]} (is {labels[i]})"
        axis.set_title(title, fontsize=9, color="black" if right else "firebrick")
        axis.set_axis_off()
    axis = figure.add_subplot(grid[2, :])
    axis.plot(losses, linewidth=1)
    axis.set_yscale("log")
    axis.set_xlabel("batch")
    axis.set_ylabel("loss")
    figure.savefig(path, dpi=120)
    return path


def run(epochs: int = 30, seed: int = 0, folder: str = ".", quiet: bool = False) -> DemoResult:
    """Runs the whole demo and prints what it does."""
    from flambeau import manual_seed

    start = time.perf_counter()
    manual_seed(seed)
    train_images, train_labels = _as_tensors(Digits(train=True))
    test_images, test_labels = _as_tensors(Digits(train=False))
    loader: DataLoader[Any] = DataLoader(
        TensorDataset(train_images, train_labels), batch_size=64, shuffle=True
    )
    model = make_model()
    n_params = sum(p.numel() for p in model.parameters())
    print(f"{len(train_labels)} digits, a network of {n_params:,} parameters, {epochs} epochs")
    losses = train(model, loader, epochs, len(loader), quiet)
    predicted = predict(model, test_images)
    accuracy = (predicted == test_labels).sum().item() / len(test_labels)
    seconds = time.perf_counter() - start
    print(f"{100 * accuracy:.2f} % of {len(test_labels)} held-out digits right, {seconds:.1f} s")

    os.makedirs(folder, exist_ok=True)
    model_path = os.path.join(folder, "flambeau-demo.safetensors")
    save(model.state_dict(), model_path)
    again = make_model()
    again.load_state_dict(load(model_path))
    same = bool((predict(again, test_images) == predicted).all().item())
    print(
        f"saved to {model_path}; the reloaded model predicts {'the same' if same else 'OTHERWISE'}"
    )

    picture = _draw(
        os.path.join(folder, "flambeau-demo.png"),
        test_images,
        predicted.tolist(),
        test_labels.tolist(),
        losses,
    )
    if picture is not None:
        print(f"drew {picture}")
    return DemoResult(accuracy, seconds, losses, same, model_path, picture)
