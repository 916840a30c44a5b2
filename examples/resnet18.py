"""ResNet-18 tells clothes apart (He et al. 2016): Fashion-MNIST where its files are, garments made of boxes where not.

    python examples/resnet18.py                                                # generated garments
    python examples/resnet18.py --data some/folder --steps 400                 # the four files of Fashion-MNIST

The first layer is made for 28 x 28 pixels: 3 x 3 with a stride of 2 and no pooling; everything behind it is ResNet-18.
"""

import argparse

import flambeau as fl

nn, F = fl.nn, fl.nn.functional

# Boxes in the unit square: left, top, right, bottom.
GARMENTS = {
    "shirt": [(0.3, 0.15, 0.7, 0.85), (0.1, 0.15, 0.3, 0.4), (0.7, 0.15, 0.9, 0.4)],
    "pullover": [(0.3, 0.15, 0.7, 0.85), (0.1, 0.15, 0.27, 0.8), (0.73, 0.15, 0.9, 0.8)],
    "trousers": [(0.3, 0.1, 0.7, 0.25), (0.3, 0.25, 0.47, 0.9), (0.53, 0.25, 0.7, 0.9)],
    "shorts": [(0.25, 0.3, 0.75, 0.45), (0.25, 0.45, 0.47, 0.7), (0.53, 0.45, 0.75, 0.7)],
    "dress": [(0.38, 0.08, 0.62, 0.45), (0.32, 0.45, 0.68, 0.7), (0.25, 0.7, 0.75, 0.92)],
    "skirt": [(0.35, 0.25, 0.65, 0.4), (0.28, 0.4, 0.72, 0.6), (0.2, 0.6, 0.8, 0.8)],
    "boot": [(0.4, 0.12, 0.65, 0.75), (0.15, 0.65, 0.65, 0.85)],
    "shoe": [(0.1, 0.6, 0.9, 0.75), (0.45, 0.45, 0.9, 0.6)],
    "hat": [(0.1, 0.6, 0.9, 0.68), (0.3, 0.3, 0.7, 0.6)],
    "bag": [(0.15, 0.45, 0.85, 0.85), (0.3, 0.2, 0.37, 0.45), (0.63, 0.2, 0.7, 0.45), (0.3, 0.2, 0.7, 0.27)],
}


def made_up(n):
    """Garments of boxes that are stretched, moved and covered with noise: [n, 1, 28, 28] and labels [n]."""
    labels = fl.randint(0, len(GARMENTS), (n,))
    boxes = fl.zeros(len(GARMENTS), 4, 4)
    for k, parts in enumerate(GARMENTS.values()):
        boxes[k, : len(parts)] = fl.tensor(parts)
    stretch = 0.75 + 0.3 * fl.rand(n, 1, 2)
    shift = 0.16 * fl.rand(n, 1, 2) - 0.08
    wobble = 0.02 * fl.randn(n, 4, 4)
    placed = (boxes[labels] + wobble - 0.5) * stretch.repeat(1, 1, 2) + 0.5 + shift.repeat(1, 1, 2)
    left, top, right, bottom = placed[..., None, None].unbind(2)  # [n, 4, 1, 1]
    at = (fl.arange(28) + 0.5) / 28
    inside = (at >= left) & (at < right) & (at[:, None] >= top) & (at[:, None] < bottom)
    pictures = inside.any(1, keepdim=True) * (0.5 + 0.5 * fl.rand(n, 1, 1, 1))
    return pictures + 0.2 * fl.randn(n, 1, 28, 28), labels


def load(args):
    """Training and test pictures with labels, and the names of the classes."""
    if not args.data:
        return made_up(args.pictures), made_up(500), tuple(GARMENTS)
    from flambeau.datasets import FashionMNIST

    parts = [FashionMNIST(args.data, train=train) for train in (True, False)]
    pairs = [((fl.from_dlpack(p.data).unsqueeze(1) / 255.0 - 0.286) / 0.353, fl.from_dlpack(p.targets)) for p in parts]
    return pairs[0], tuple(half[:2000] for half in pairs[1]), parts[0].classes


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
        self.shortcut = nn.Sequential()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def make_model(args):
    w = args.width
    blocks = []
    for stage, (n_in, n_out) in enumerate(((w, w), (w, 2 * w), (2 * w, 4 * w), (4 * w, 8 * w))):
        blocks += [Block(n_in, n_out, 1 if stage == 0 else 2), Block(n_out, n_out, 1)]
    stem = [nn.Conv2d(1, w, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10))


def train(model, args):
    """Returns the loss of every step."""
    (pictures, labels), _, _ = load(args)
    optimizer = fl.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = fl.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)
    losses = []
    model.train()
    while len(losses) < args.steps:
        for at in fl.randperm(len(pictures)).split(args.batch_size):
            loss = F.cross_entropy(model(pictures[at]), labels[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if len(losses) % 10 == 0 or len(losses) == args.steps:
                print(f"step {len(losses)}: loss {losses[-1]:.4f}")
            if len(losses) == args.steps:
                break
    return losses


@fl.no_grad()
def predict(model, pictures):
    model.eval()
    return fl.cat([model(part).argmax(1) for part in pictures.split(100)])


def draw(losses, pictures, labels, said, names, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.9))
    curve = left.subplots()
    curve.plot(losses, linewidth=1)
    curve.set(xlabel="step", ylabel="loss")
    # Seven mistakes, if there are so many: they are what one wants to see; then others.
    wrong = [i for i in range(len(labels)) if said[i] != labels[i]][:7]
    order = (wrong + [i for i in range(len(labels)) if said[i] == labels[i]])[:14]
    for axis, i in zip(right.subplots(2, 7).flat, order):
        is_right = bool(said[i] == labels[i])
        title = names[said[i]] if is_right else f"{names[said[i]]}\n({names[labels[i]]})"
        axis.imshow(pictures[i, 0].numpy(), cmap="gray_r")
        axis.set_title(title, fontsize=7, color="black" if is_right else "firebrick")
        axis.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the files of Fashion-MNIST, plain or gzipped; without it garments are made up")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--pictures", type=int, default=2000, help="how many garments are made up")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--lr", type=float, default=0.05, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="resnet18.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    print(f"Fashion-MNIST from {args.data}" if args.data else "generated garments (--data FOLDER takes Fashion-MNIST)")
    model = make_model(args)
    losses = train(model, args)
    _, (pictures, labels), names = load(args)
    said = predict(model, pictures)
    print(f"test accuracy after {args.steps} steps: {100 * (said == labels).sum().item() / len(labels):.2f} %")
    if args.picture:
        draw(losses, pictures, labels, said, names, args.picture)


if __name__ == "__main__":
    main()
