"""Trains a small convolutional network on Fashion-MNIST (60,000 pictures, ten classes).

    python examples/fashion_mnist.py --epochs 4
    python examples/fashion_mnist.py --steps 20 --data some/folder    # a quick check

Four epochs reach about 92 % on the test pictures.
"""

import argparse
import time

import flambeau as fl
from flambeau import nn
from flambeau.datasets import FashionMNIST
from flambeau.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two blocks of convolutions and a small classifier."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),  # [B, 32, 14, 14]
            nn.Conv2d(32, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),  # [B, 64, 7, 7]
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 7 * 7, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def load(root, train):
    """The pictures as float [N, 1, 28, 28], normalised, and the labels."""
    dataset = FashionMNIST(root, train=train)
    images = (dataset.data.unsqueeze(1) / 255.0 - 0.2860) / 0.3530
    return TensorDataset(images, dataset.targets)


@fl.no_grad()
def accuracy(model, loader):
    """The share of right predictions."""
    model.eval()
    right = total = 0
    for images, labels in loader:
        right += (model(images).argmax(1) == labels).sum().item()
        total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="IDX files")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, help="stop after so many batches")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--workers", type=int, default=0, help="threads that fetch batches")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    train = DataLoader(
        load(args.data, train=True),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
    )
    test = DataLoader(load(args.data, train=False), batch_size=500)

    model = Net()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = fl.optim.AdamW(model.parameters(), lr=args.lr)
    total_steps = args.steps or args.epochs * len(train)
    schedule = fl.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=total_steps)

    step = 0
    for epoch in range(-(-total_steps // len(train))):
        start = time.perf_counter()
        model.train()
        sum_loss = 0.0
        seen = 0
        for images, labels in train:
            optimizer.zero_grad()
            loss = loss_fn(model(images), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            sum_loss += loss.item() * len(labels)
            seen += len(labels)
            step += 1
            if step == total_steps:
                break
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1}: loss {sum_loss / seen:.4f}, {seen / seconds:.0f} pictures/s")
    print(f"test accuracy after {step} steps: {100 * accuracy(model, test):.2f} %")


if __name__ == "__main__":
    main()
