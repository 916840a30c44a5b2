"""Bytes of each rank, as if it were a device with a memory of its own.

All ranks share the allocator here, so a step is made with one rank, which does the actions of all of them one after the other in an order
that their schedule allows, and what the allocator gives out or gets back during an action counts for the rank whose action it is. What
a stage gets from another rank is copied when it arrives, as to another device it would be; the copy counts for the rank that gets it.
A rank also has its parameters and one number for each of them that the optimizer keeps (SGD with momentum); gradients count as they come.

The plan is `Timeline.peak` with the bytes that the forward of one micro-batch leaves; it knows activations alone. So gradients of
parameters are left out of what stands beside it, and messages that nobody has taken yet, weights as they are packed for their second use,
and what exists only during an action. Losses are not, 512 bytes each, nor is what the second half of a backward needs of the first.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import harness
from pipeline_cases import Table

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._measure import measure
from flambeau.pipeline._microbatch import map_tensors, scatter, tensors_of
from flambeau.pipeline._planner import bytes_of
from flambeau.pipeline._stage import Packet, Stage
from flambeau.pipeline.balance import balance_cost
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

STATE = 2  # numbers per parameter that are there all the time: itself and its momentum
PUBLISHED = {1: 2.21, 2: 4.99, 4: 7.80, 8: 15.82}  # 1e9 parameters of the largest U-Net on as many GPUs of 22 GiB (Kim et al. 2020)
SIZE, DEPTH, WIDTH = 32, 4, 8
BLOCK = 512  # what the allocator rounds sizes up to


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


# ------------------------------------------------------------------------------------------------------------------------------ meter


def allocated() -> int:
    return fl.memory_stats()["allocated_bytes"]


def size_of(value: Any) -> int:
    """What the allocator gives out for the tensors of a nest: whole blocks."""
    return sum(-(-t.numel() * t.itemsize // BLOCK) * BLOCK for t in tensors_of(value))


class Meter:
    """Counts the bytes of each rank while stages work, one at a time.

    Attributes:
        held: now, by rank.
        peak: at most, within actions too.
        activations: at most, between actions, without gradients of parameters and messages that nobody has taken yet.
        left: by stage, what the first forward that recorded left.
        inputs: by stage, bytes of its input and of the skip tensors that it gets from others.
    """

    def __init__(self, rank_of: dict[int, int]) -> None:
        n = 1 + max(rank_of.values())
        self.rank_of = rank_of
        self.held, self.peak, self.activations, self.waiting = [0] * n, [0] * n, [0] * n, [0] * n
        self.left: dict[int, int] = {}
        self.inputs: dict[int, int] = {}
        self.stages: dict[int, Stage] = {}
        self.before, self.sender = allocated(), 0

    def perform(self, stage: Stage, sender: int, work: Callable[[], Any]) -> Any:
        """Does an action whose messages are from stage `sender`."""
        rank = self.rank_of[stage.index]
        self.settle(rank)
        before = self.before
        self.stages[stage.index], self.sender = stage, self.rank_of.get(sender, rank)
        fl.reset_peak_memory_stats()
        result = work()
        stats = fl.memory_stats()
        self.peak[rank] = max(self.peak[rank], self.held[rank] + stats["peak_allocated_bytes"] - before)
        self.held[rank] += stats["allocated_bytes"] - before
        self.before = stats["allocated_bytes"]
        return result

    def settle(self, next_rank: int) -> None:
        """What was given back since the last action is the message that it got, and its sender's; what was taken, is for the next one."""
        now = allocated()
        self.held[self.sender if now < self.before else next_rank] += now - self.before
        self.before = now
        for rank in range(len(self.held)):
            grads = sum(size_of([g for g in s.grads if g is not None]) for s in self.stages.values() if self.rank_of[s.index] == rank)
            self.activations[rank] = max(self.activations[rank], self.held[rank] - grads - self.waiting[rank])

    def copied(self, value: Any, here: int, sender: int) -> Any:
        """What arrives from another rank, in the memory of this one."""
        away = self.rank_of.get(sender, self.rank_of[here]) != self.rank_of[here]
        return map_tensors(value, lambda x: x.clone()) if away else value

    def message(self, value: Any, sender: int, receiver: int, sign: int) -> None:
        """Notes what waits with its sender, or no longer does; the caller, before the first stage and behind the last, is no sender."""
        if sender in self.rank_of and receiver in self.rank_of:
            self.waiting[self.rank_of[sender]] += sign * size_of(value)

    # ---- in the place of the methods of Stage

    def forward(self, original: Any, stage: Stage, micro: int, packet: Packet) -> Packet:
        here = stage.index
        if not isinstance(stage.post, Copying):
            stage.post = Copying(stage.post, self, stage)

        def work() -> Packet:
            return original(stage, micro, packet._replace(value=self.copied(packet.value, here, here - 1)))

        self.settle(self.rank_of[here])
        before = self.held[self.rank_of[here]]
        self.inputs.setdefault(here, size_of(packet.value))
        output: Packet = self.perform(stage, here - 1, work)
        if micro in stage.checkpointed:  # else it is a part of what the stage holds anyway
            self.message(output.value, here, here + 1, 1)
        if here and micro in self.stages[here - 1].checkpointed:
            self.message(packet.value, here - 1, here, -1)
        self.left.setdefault(here, self.held[self.rank_of[here]] - before)
        return output

    def backward(self, original: Any, stage: Stage, micro: int, grads: Any, skip_grads: Any) -> Any:
        here = stage.index

        def work() -> Any:
            popper = {key: stage.settings.skips[key][1] for key in skip_grads}
            skips = {key: self.copied(dy, here, popper[key]) for key, dy in skip_grads.items()}
            return original(stage, micro, self.copied(grads, here, here + 1), skips)

        found = self.perform(stage, here + 1, work)
        for dx, sender, receiver, sign in (*self.skips(stage, skip_grads, -1), *self.skips(stage, found[1], 1)):
            self.message(dx, sender, receiver, sign)
        self.message(found[0], here, here - 1, 1)
        self.message(grads, here + 1, here, -1)
        return found

    def skips(self, stage: Stage, grads: Any, sign: int) -> list[tuple[Any, int, int, int]]:
        """Gradients of skip tensors with who sends and who gets them."""
        return [([dx], *stage.settings.skips[key][::-1], sign) for key, dx in grads.items()]

    def own(self, original: Any, stage: Stage, micro: int) -> Any:
        """An action that gets no message."""
        return self.perform(stage, stage.index, lambda: original(stage, micro))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All stages work under this meter within the scope."""
        watched = {
            "forward": self.forward, "backward": self.backward, "backward_inputs": self.backward,
            "recompute": self.own, "backward_parameters": self.own,
        }  # fmt: skip
        originals = {name: getattr(Stage, name) for name in watched}
        for name, watch in watched.items():
            setattr(Stage, name, partialmethod(_call, watch, originals[name]))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(Stage, name, original)


def _call(stage: Stage, watch: Any, original: Any, *args: Any) -> Any:
    return watch(original, stage, *args)


class Copying:
    """Carries skip tensors, and copies what comes from another rank."""

    def __init__(self, post: Any, meter: Meter, stage: Stage) -> None:
        self.post, self.meter, self.stage = post, meter, stage

    def send_skip(self, key: Any, micro: int, tensor: fl.Tensor | None, wanted: bool) -> None:
        if micro in self.stage.checkpointed:
            self.meter.message(tensor, *self.stage.settings.skips[key], 1)
        self.post.send_skip(key, micro, tensor, wanted)

    def take_skip(self, key: Any, micro: int) -> tuple[fl.Tensor | None, bool]:
        tensor, wanted = self.post.take_skip(key, micro)
        source, here = self.stage.settings.skips[key][0], self.stage.index
        copy = self.meter.copied(tensor, here, source)
        if micro in self.meter.stages[source].checkpointed:
            self.meter.message(tensor, source, here, -1)
        if micro == 0 and source != here:
            self.meter.inputs[here] += size_of(tensor)
        before = allocated()
        del tensor
        given_back = before - allocated()
        self.meter.held[self.meter.rank_of[source]] -= given_back
        self.meter.held[self.meter.rank_of[here]] += given_back
        return copy, wanted


def in_turn(schedule: Schedule) -> Schedule:
    """All actions in one rank, in the order in which they would begin."""
    timeline = schedule.simulate()
    begun = [(begin, rank, k) for rank, begins in enumerate(timeline.begin) for k, begin in enumerate(begins)]
    return Schedule([[schedule.ranks[rank][k]._replace(overlaps=False) for _, rank, k in sorted(begun)]], schedule.name)


def metered(model: nn.Sequential, schedule: Schedule, balance: Sequence[int], x: fl.Tensor) -> Meter:
    """One step by a schedule that has its recomputes, with gradients from nothing."""
    flat, meter = in_turn(schedule), Meter(schedule.rank_of)
    pipe = Pipeline(model, 1, schedule=flat, micro_batches=flat.micro_batches, balance=balance)
    model.zero_grad(set_to_none=True)
    gc.collect()  # stages of an earlier step
    with meter.watching():
        meter.before = allocated()
        pipe.step(x, (), lambda y, _: y.square().mean())
        model.zero_grad(set_to_none=True)
    return meter


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
    """Peaks of activations by rank, measured and planned, for each schedule and checkpointing."""
    model, m = unet(2), chosen.micro_batches
    x = fl.randn(m, 3, SIZE, SIZE)
    layers = measure(model, scatter(x, m)[0], 0.0)
    metered(model, Schedule.make("gpipe", 1, m), [len(model)], x)  # packs weights, which stay packed until they are written
    table = Table(["ranks", "schedule", "checkpoint", "MiB by rank: measured", "planned", "most of it"], chosen.markdown)
    for name in SCHEDULES:
        for checkpoint in ("never", "always"):
            schedule = Schedule.make(name, ranks, m)
            balance = balance_cost([c.activation for c in layers], schedule.stages)
            recorded = metered(model, schedule, balance, x)
            inputs = [recorded.inputs[s] for s in range(schedule.stages)]
            left = [recorded.left[s] for s in range(schedule.stages)]
            full = schedule.with_recompute(checkpoint)
            plan = full.simulate(activation=left, boundary=inputs).peak
            found = metered(model, full, balance, x).activations if checkpoint != "never" else recorded.activations
            worst = max(a / b for a, b in zip(found, plan))
            table.row([str(ranks), name, checkpoint, " ".join(map(mib, found)), " ".join(map(mib, plan)), f"{worst:.3f}"])


SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"]


def needed(convolutions: int, ranks: int, m: int) -> tuple[int, int]:
    """Parameters of a U-Net, and the bytes of the rank that needs most to train it."""
    model, x = unet(convolutions), fl.randn(m, 3, SIZE, SIZE)
    layers = measure(model, scatter(x, m)[0], 0.0)
    balance = balance_cost([(STATE + 1) * c.parameters + c.activation for c in layers], ranks)
    schedule = Schedule.make("gpipe", ranks, m).with_recompute("always")
    meter = metered(model, schedule, balance, x)
    held = [STATE * p + peak for p, peak in zip(parameters(model, balance, schedule), meter.peak)]
    return sum(p.numel() for p in model.parameters()), max(held)


def largest(cap: int, ranks: int, m: int, least: int) -> tuple[int, int, int]:
    """The most convolutions a level that fit, their parameters, and the bytes of the fullest rank."""
    low, high, fits = least - 1, least, (0, 0)
    while (found := needed(high, ranks, m))[1] <= cap:
        low, high, fits = high, 2 * high, found
    while high - low > 1:
        middle = (low + high) // 2
        found = needed(middle, ranks, m)
        if found[1] <= cap:
            low, fits = middle, found
        else:
            high = middle
    return low, *fits


def main(chosen: argparse.Namespace) -> None:
    """The rig of memory."""
    numbers, cap = [int(n) for n in chosen.ranks.split(",")], bytes_of(chosen.cap)
    print(f"{harness.machine()}; U-Net(B, {WIDTH}), {SIZE}x{SIZE}, {chosen.micro_batches} micro-batches of one sample")
    for ranks in numbers:
        if ranks > 1:
            beside_the_plan(chosen, ranks)
    print(f"\nthe largest U-Net(B, {WIDTH}) that trains with {chosen.cap} a rank: gpipe, checkpoint 'always', SGD with momentum")
    head = ["ranks", "B", "parameters", "beside one rank", "published", "MiB of the fullest rank"]
    table, least, one = Table(head, chosen.markdown), 1, 0
    for ranks in numbers:
        convolutions, count, held = largest(cap, ranks, chosen.micro_batches, least)
        one, least = one or count, max(1, convolutions)
        published = PUBLISHED[ranks] / PUBLISHED[numbers[0]] if ranks in PUBLISHED and numbers[0] in PUBLISHED else 0.0
        grown = f"{count / one:.2f}" if one else "-"
        table.row([str(ranks), str(convolutions), str(count), grown, f"{published:.2f}", mib(held)])
