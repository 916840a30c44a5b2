"""A forecaster of hourly demand: a GRU reads seven days and says the next two, with the range to expect.

The series is generated: a day's curve, a week's, a slow drift, and weather that wanders. The network gives three quantiles for each
hour; the pinball loss makes them lie above 10 %, 50 % and 90 % of what comes (Koenker and Bassett 1978). The last quarter of the series
is held out.

    python examples/forecaster.py --steps 400
"""

import argparse
import math

import flambeau as fl

nn = fl.nn
PAST, FUTURE = 168, 48
QUANTILES = (0.1, 0.5, 0.9)


def make_series(days):
    """Hourly values, [24 days]."""
    hour = fl.arange(24 * days)
    day = fl.sin(2 * math.pi * (hour - 8) / 24) + 0.4 * fl.sin(4 * math.pi * hour / 24)
    weekend = ((hour // 24) % 7 >= 5) * 1.0
    drift = 0.5 * fl.sin(2 * math.pi * hour / (24 * 90))
    shocks = fl.randn(24 * days, dtype=fl.float64)
    # Weather forgets itself within about two days: w[t] = 0.98 w[t - 1] + shock, here as a sum of the last 200 shocks.
    kernel = 0.98 ** fl.arange(199, -1, -1, dtype=fl.float64)
    weather = nn.functional.conv1d(nn.functional.pad(shocks, (199, 0))[None, None], kernel[None, None])[0, 0]
    series = day * (1 - 0.6 * weekend) - 0.5 * weekend + drift + 0.06 * weather + 0.05 * fl.randn(24 * days)
    return series.to(fl.get_default_dtype())


class Forecaster(nn.Module):
    """The past [B, 168] to quantiles of what comes [B, 48, 3]."""

    def __init__(self, width):
        super().__init__()
        self.gru = nn.GRU(1, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width + PAST, 128), nn.ReLU(), nn.Linear(128, FUTURE * len(QUANTILES)))

    def forward(self, past):
        # Relative to the last day's mean, so that the drift need not be learned.
        level = past[:, -24:].mean(1, keepdim=True)
        seen = past - level
        _, state = self.gru(seen.unsqueeze(2))  # [1, B, width]
        change = self.head(fl.cat([state[0], seen], dim=1)).view(-1, FUTURE, len(QUANTILES))
        # As a week ago, but for what the network knows better.
        return level[:, :, None] + seen[:, :FUTURE, None] + change


def pinball_loss(said, truth):
    """said [B, H, 3], truth [B, H]."""
    over = truth[..., None] - said
    q = fl.tensor(QUANTILES)
    return fl.maximum(q * over, (q - 1) * over).mean()


def make_model(args):
    return Forecaster(args.width)


def windows(series, starts):
    """The past and the future at these starts: [B, 168] and [B, 48]."""
    both = series[starts[:, None] + fl.arange(PAST + FUTURE)]
    return both[:, :PAST], both[:, PAST:]


def train(model, args, series=None):
    """Returns the loss of every step."""
    if series is None:
        series = make_series(args.days)
    seen = series[: len(series) * 3 // 4]
    optimizer = fl.optim.Adam(model.parameters(), lr=3e-3)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    losses = []
    for step in range(1, args.steps + 1):
        past, future = windows(seen, fl.randint(0, len(seen) - PAST - FUTURE, (args.batch_size,)))
        loss = pinball_loss(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


def draw(past, future, said, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axis, before, after, (low, middle, high) in zip(figure.subplots(2, 1, sharex=True), past, future, said.transpose(1, 2)):
        hours = range(FUTURE)
        axis.plot(range(-72, 0), before[-72:].numpy(), color="gray", linewidth=1)
        axis.fill_between(hours, low.numpy(), high.numpy(), color="C0", alpha=0.25, label="10 % to 90 %")
        axis.plot(hours, middle.numpy(), color="C0", linewidth=1.5, label="forecast")
        axis.plot(hours, after.numpy(), color="black", linewidth=1, label="what came")
        axis.axvline(0, color="gray", linewidth=0.5)
    axis.set_xlabel("hours from now")
    axis.legend(fontsize=8, ncols=3)
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="forecaster.png", help="where to draw; '' for nowhere")
    return parser


@fl.no_grad()
def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model, series = make_model(args), make_series(args.days)
    with fl.enable_grad():
        train(model, args, series)
    held_out = series[len(series) * 3 // 4 :]
    past, future = windows(held_out, fl.arange(0, len(held_out) - PAST - FUTURE, 13))
    said = model(past)
    error = (said[..., 1] - future).abs().mean().item()
    a_week_ago = (past[:, :FUTURE] - future).abs().mean().item()
    within = ((future >= said[..., 0]) & (future <= said[..., 2])).float().mean().item()
    print(f"held out: mean error {error:.3f}, of the same hour a week ago {a_week_ago:.3f}")
    print(f"{100 * within:.0f} % of the hours lie within the range of 80 %")
    if args.picture:
        pick = fl.tensor([3, len(past) // 2 + 2])
        draw(past[pick], future[pick], said[pick], args.picture)


if __name__ == "__main__":
    main()
