"""Bytes of each rank, as if it were a device with a memory of its own (tests/support/meter.py), beside the plan.

The plan is `Timeline.peak`, with what one micro-batch alone was seen to leave in each stage and to send. Beside it stands what ranks hold
between actions, without gradients of parameters. The largest U-Net counts everything, within actions, too: parameters, one number for each
that the optimizer keeps (SGD with momentum), gradients, and weights as they are packed for their second use.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import harness
from pipeline_cases import Table

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Schedule
from flambeau.pipeline._measure import measure
from flambeau.pipeline._planner import bytes_of
from flambeau.pipeline.balance import balance_cost
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from support.meter import metered, size_of, sizes  # noqa: E402

STATE = 2  # numbers per parameter that are there all the time: itself and its momentum
PUBLISHED = {1: 2.21, 2: 4.99, 4: 7.80, 8: 15.82}  # 1e9 parameters of the largest U-Net on as many GPUs of 22 GiB (Kim et al. 2020)
# Beside these its gradient, that of a micro-batch before it is added, and a convolution's weight as it is packed for forward and backward.
TRAINING = STATE + 4
SIZE, DEPTH, WIDTH = 32, 4, 8


# ------------------------------------------------------------------------------------------------------------------------------ U-Net


@skippable(stash=["skip"])
class Keep(nn.Module):
    def forward(self, x: fl.Tensor) -> Iterator[Any]:
        yield stash("skip", x)
        return x


@skippable(pop=["skip"])
class Join(nn.Module):
    def forward(self, x: fl.Tensor) -> Iterator[Any]:
        skip = yield pop("skip")
        return fl.cat([skip, x], 1)


def convolution(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


def unet(convolutions: int, width: int = WIDTH) -> nn.Sequential:
    """U-Net(B, C) of Kim et al. 2020, smaller: B convolutions at each level, C channels at the top, twice as many at the next."""
    widths = [width * 2**i for i in range(DEPTH + 1)]
    spaces = [Namespace() for _ in range(DEPTH)]
    layers: list[nn.Module] = [convolution(3, width)]
    for space, a, b in zip(spaces, widths, widths[1:]):
        layers += [convolution(a, a) for _ in range(convolutions)]
        layers += [Keep().isolate(space), nn.Sequential(nn.MaxPool2d(2), convolution(a, b))]
    layers += [convolution(widths[-1], widths[-1]) for _ in range(convolutions)]
    for space, a, b in zip(spaces[::-1], widths[::-1], widths[-2::-1]):
        layers += [nn.ConvTranspose2d(a, b, 2, stride=2), Join().isolate(space), convolution(a, b)]
        layers += [convolution(b, b) for _ in range(convolutions)]
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 1))


# ------------------------------------------------------------------------------------------------------------------------------ rigs


def mib(size: float) -> str:
    return f"{size / 2**20:.2f}"


def parameters(model: nn.Sequential, balance: Sequence[int], schedule: Schedule) -> list[int]:
    """Bytes by rank."""
    found, children = [0] * len(schedule.ranks), iter(model)
    for stage, n in enumerate(balance):
        found[schedule.rank_of[stage]] += sum(size_of(list(next(children).parameters())) for _ in range(n))
    return found


def beside_the_plan(chosen: argparse.Namespace, ranks: int) -> None:
    """Peaks of activations and messages by rank, measured and planned, for each schedule and checkpointing."""
    model, m = unet(2), chosen.micro_batches
    x = fl.randn(m, 3, SIZE, SIZE)
    layers = measure(model, x[:1], 0.0)
    metered(model, Schedule.make("gpipe", 1, m), [len(model)], x)  # packs weights, which stay packed until they are written
    table = Table(["ranks", "schedule", "checkpoint", "MiB by rank: measured", "planned", "measured / planned"], chosen.markdown)
    for name in SCHEDULES:
        schedule = Schedule.make(name, ranks, m)
        balance = balance_cost([c.activation for c in layers], schedule.stages)
        costs = sizes(model, balance, x[:1])
        for checkpoint in ("never", "always"):
            full = schedule.with_recompute(checkpoint)
            plan = full.simulate(**costs).peak
            found = metered(model, full, balance, x).activations
            ratios = [a / b for a, b in zip(found, plan)]
            between = "to the byte" if found == plan else f"{min(ratios):.3f}..{max(ratios):.3f}"
            table.row([str(ranks), name, checkpoint, " ".join(map(mib, found)), " ".join(map(mib, plan)), between])


SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"]


def candidate(convolutions: int, ranks: int, m: int) -> tuple[nn.Sequential, Schedule, list[int]]:
    """A U-Net, and how it is trained: in whole, with recompute, cut evenly by what its layers take."""
    model = unet(convolutions)
    layers = measure(model, fl.randn(1, 3, SIZE, SIZE), 0.0)
    balance = balance_cost([TRAINING * c.parameters + c.activation for c in layers], ranks)
    return model, Schedule.make("gpipe", ranks, m).with_recompute("always"), balance


def planned(convolutions: int, ranks: int, m: int) -> int:
    """Bytes of the rank that needs most to train a U-Net, by the plan."""
    model, schedule, balance = candidate(convolutions, ranks, m)
    peak = schedule.simulate(**sizes(model, balance, fl.randn(1, 3, SIZE, SIZE))).peak
    return int(max(TRAINING * p + held for p, held in zip(parameters(model, balance, schedule), peak)))


def needed(convolutions: int, ranks: int, m: int) -> int:
    """Bytes of the rank that needs most to train a U-Net, by a step of it."""
    model, schedule, balance = candidate(convolutions, ranks, m)
    meter = metered(model, schedule, balance, fl.randn(m, 3, SIZE, SIZE))
    return max(STATE * p + peak for p, peak in zip(parameters(model, balance, schedule), meter.peak))


def largest(cap: int, ranks: int, m: int, least: int) -> tuple[int, int, int]:
    """The most convolutions a level that fit, and the bytes of the fullest rank with these, and with one more.

    The plan says where to look; that they fit, and one more does not, is what steps show.
    """
    low, high = least - 1, least
    while planned(high, ranks, m) <= cap:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if planned(middle, ranks, m) <= cap else (low, middle)
    low = max(low, 1)
    fits, more = needed(low, ranks, m), needed(low + 1, ranks, m)
    while more <= cap:
        low, fits, more = low + 1, more, needed(low + 2, ranks, m)
    while fits > cap and low:
        low, fits, more = low - 1, needed(low - 1, ranks, m), fits
    return low, fits, more


def main(chosen: argparse.Namespace) -> None:
    """The rig of memory."""
    numbers, cap, m = [int(n) for n in chosen.ranks.split(",")], bytes_of(chosen.cap), chosen.micro_batches
    fl.set_num_threads(1)
    print(f"{harness.machine()}; U-Net(B, {WIDTH}), {SIZE}x{SIZE}, {m} micro-batches of one sample")
    for ranks in numbers:
        if ranks > 1:
            beside_the_plan(chosen, ranks)
    print(f"\nthe largest U-Net(B, {WIDTH}) that trains with {chosen.cap} a rank: gpipe, checkpoint 'always', SGD with momentum")
    head = ["ranks", "B", "parameters", "beside one rank", "published", "MiB of the fullest rank", "planned", "with B + 1"]
    table, least, one = Table(head, chosen.markdown), 1, 0
    for ranks in numbers:
        most, held, more = largest(cap, ranks, m, least)
        count = sum(p.numel() for p in unet(most).parameters())
        one, least = one or count, most
        published = PUBLISHED[ranks] / PUBLISHED[numbers[0]] if ranks in PUBLISHED and numbers[0] in PUBLISHED else 0.0
        grown, plan = f"{count / one:.2f}", mib(planned(most, ranks, m))
        table.row([str(ranks), str(most), str(count), grown, f"{published:.2f}", mib(held), plan, mib(more)])
