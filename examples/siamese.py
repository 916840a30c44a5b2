"""A siamese network: two pictures go through the same weights, and the distance of what comes out says whether they show the same.

Pairs of seven digits train it, with the contrastive loss of Hadsell et al. (2006): equal ones are pulled together, others pushed apart
up to a margin. It learns a distance and no classes, so that digits that it has never seen (0, 4, 6) can be told apart, too.

    python examples/siamese.py --steps 600
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, F = fl.nn, fl.nn.functional
UNSEEN = (0, 4, 6)
MARGIN = 1.0


def load(train):
    """Pictures [N, 1, 8, 8] in 0..1 and labels."""
    digits = Digits(train=train)
    return fl.from_dlpack(digits.data).unsqueeze(1) / 16.0, fl.from_dlpack(digits.targets)


def make_model(args):
    """Pictures [B, 1, 8, 8] to points [B, args.features]."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [B, 64, 4, 4]
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, args.features),
    )


def make_pairs(pictures, labels, n):
    """Two batches of `n` pictures and whether they show the same digit: of about half of the pairs by choice."""
    one = fl.randint(0, len(labels), (n,))
    any_other = fl.randint(0, len(labels), (n,))
    # A random picture of the same digit: the largest of random numbers that are zero elsewhere.
    alike = ((labels[one, None] == labels) * fl.rand(n, len(labels))).argmax(1)
    other = fl.where(fl.rand(n) < 0.45, alike, any_other)
    return pictures[one], pictures[other], labels[one] == labels[other]


def contrastive_loss(a, b, same):
    distance = F.pairwise_distance(a, b)
    return fl.where(same, distance.square(), F.relu(MARGIN - distance).square()).mean()


def train(model, args):
    """Returns the loss of every step."""
    pictures, labels = load(train=True)
    keep = ~fl.isin(labels, fl.tensor(UNSEEN))
    pictures, labels = pictures[keep], labels[keep]
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(1, args.steps + 1):
        first, second, same = make_pairs(pictures, labels, args.batch_size)
        loss = contrastive_loss(model(first), model(second), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def verify(model, chosen):
    """How many pairs of held-out digits are told right by half of the margin; and the points and labels of these digits."""
    pictures, labels = load(train=False)
    keep = fl.isin(labels, fl.tensor(UNSEEN)) == (chosen == "new")
    points, labels = model(pictures[keep]), labels[keep]
    said = fl.cdist(points, points) < MARGIN / 2
    same = labels[:, None] == labels
    # Pairs of equals are few: both kinds count alike.
    right = [(said == same)[same].float().mean().item(), (said == same)[~same].float().mean().item()]
    return sum(right) / 2, points, labels


def draw(parts, path):
    """`parts`: a title, points [N, features] and labels [N] each; points are shown by their two main directions."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axis, (title, points, labels) in zip(figure.subplots(1, len(parts)), parts):
        points = points - points.mean(0)
        _, _, directions = fl.linalg.svd(points, full_matrices=False)
        flat = points @ directions[:2].T
        for digit in labels.unique().tolist():
            of_digit = flat[labels == digit].numpy()
            axis.plot(of_digit[:, 0], of_digit[:, 1], ".", markersize=5, label=str(digit), color=f"C{digit}")
        axis.set_title(title, fontsize=9)
        axis.legend(fontsize=7, markerscale=1.5, handletextpad=0.1)
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="siamese.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    train(model, args)
    known, new = verify(model, "known"), verify(model, "new")
    unseen = ", ".join(map(str, UNSEEN))
    print(f"pairs of held-out pictures told right: {100 * known[0]:.1f} %; of {unseen}, which were never seen, {100 * new[0]:.1f} %")
    if args.picture:
        titles = (f"held out: {100 * known[0]:.1f} % of pairs right", f"{unseen}, never seen in training: {100 * new[0]:.1f} %")
        draw([(title, *part[1:]) for title, part in zip(titles, (known, new))], args.picture)


if __name__ == "__main__":
    main()
