"""Bytes of each rank of a pipeline, as if it were a device with a memory of its own.

All ranks share the allocator, so a step is made with one rank, which does the actions of all of them one after the other, in the order in
which they end in a simulation. What the allocator gives out or gets back during an action counts for the rank whose action it is. What goes
to another rank is copied when it is sent, as to another device it would be; the copy counts for the rank that gets it.

Used by tests/pipeline/test_memory.py and by benchmarks/pipeline_memory.py.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import flambeau as fl
from flambeau import _C, nn
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._actions import Action
from flambeau.pipeline._executor import Run, _Post
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.simulate import in_turn

BLOCK = 512  # what the allocator rounds sizes up to


def allocated() -> int:
    _C.graph.settle()
    return fl.memory_stats()["allocated_bytes"]


def size_of(value: Any) -> int:
    """What the allocator gives out for the tensors of a nest: whole blocks."""
    return sum(-(-t.numel() * t.itemsize // BLOCK) * BLOCK for t in tensors_of(value))


class Meter:
    """Counts the bytes of each rank while actions are done one at a time.

    Attributes:
        held: now, by rank.
        peak: at most, within actions too; copies for others count there.
        activations: at most, between actions, without gradients of parameters and losses that wait for the end of the step.
        left: by op and stage, by how much the first such action changed what its rank holds.
        messages: bytes by sender and receiver, of the first micro-batch that was sent.
    """

    def __init__(self, rank_of: dict[int, int]) -> None:
        n = 1 + max(rank_of.values())
        self.rank_of = rank_of
        self.held, self.peak, self.activations, self.results = [0] * n, [0] * n, [0] * n, [0] * n
        self.left: dict[tuple[str, int], int] = {}
        self.messages: dict[tuple[int, int], int] = {}
        self.here = Action("F", 0, 0)
        self.copied = 0  # bytes of messages that the action has sent to other ranks

    def perform(self, original: Any, run: Run, rank: int, a: Action) -> Any:
        """Does an action: what the allocator gives out or gets back counts for the rank of its stage, and copies for those who get them."""
        rank, before = self.rank_of[a.stage], allocated()
        self.here, self.copied = a, 0
        fl.reset_peak_memory_stats()
        result = original(run, 0, a)
        change = allocated() - before - self.copied
        highest = fl.memory_stats()["peak_allocated_bytes"] - before
        self.peak[rank] = max(self.peak[rank], self.held[rank] + highest)
        self.held[rank] += change
        if a.stage + 1 == len(run.stages):
            self.losses(run, rank, a)
        grads = [0] * len(self.held)
        for stage in run.stages:
            grads[self.rank_of[stage.index]] += size_of([g for g in stage.grads if g is not None])
        if a.op not in ("B", "W"):
            self.left.setdefault((a.op, a.stage), change)
        for r, held in enumerate(self.held):
            self.peak[r] = max(self.peak[r], held)
            self.activations[r] = max(self.activations[r], held - grads[r] - self.results[r])
        return result

    def losses(self, run: Run, rank: int, a: Action) -> None:
        """Notes what there is of losses: those of forwards stay, those of recomputes go with the backward."""
        size = size_of(run.outputs[a.micro].value)
        if a.op in ("F", "R"):
            self.results[rank] += size
        elif a.op in ("B", "I") and a.micro in run.stages[a.stage].checkpointed:
            self.results[rank] -= size

    def put(self, original: Any, post: Any, kind: str, stage: int, micro: int, value: Any, key: Any = None) -> None:
        """Sends a message, to another rank as a copy."""
        size, rank = size_of(value), self.rank_of[stage]
        if micro == 0:
            pair = self.here.stage, stage
            self.messages[pair] = self.messages.get(pair, 0) + size
        if rank != self.rank_of[self.here.stage]:
            value = map_tensors(value, lambda x: x.clone())
            self.copied += size
            self.held[rank] += size
        original(post, kind, stage, micro, value, key)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All runs are under this meter within the scope."""
        performs, puts = Run._perform, _Post.put
        Run._perform, _Post.put = partialmethod(_call, self.perform, performs), partialmethod(_call, self.put, puts)
        try:
            yield
        finally:
            Run._perform, _Post.put = performs, puts


def _call(receiver: Any, watch: Any, original: Any, *args: Any) -> Any:
    return watch(original, receiver, *args)


def metered(model: nn.Sequential, schedule: Schedule, balance: Sequence[int], x: fl.Tensor) -> Meter:
    """One step by a schedule that has its recomputes, with gradients from nothing."""
    flat, meter = Schedule([in_turn(schedule.simulate())], schedule.name), Meter(schedule.rank_of)
    pipe = Pipeline(model, 1, schedule=flat, micro_batches=flat.micro_batches, balance=balance)
    model.zero_grad(set_to_none=True)
    gc.collect()  # stages of an earlier step
    with meter.watching():
        pipe.step(x, (), lambda y, _: y.square().mean())
    model.zero_grad(set_to_none=True)
    return meter


def sizes(model: nn.Sequential, balance: Sequence[int], x: fl.Tensor) -> dict[str, Any]:
    """What one micro-batch leaves in each stage and sends to others, as `Costs` take it."""
    n = len(balance)
    words = [" ".join(f"{s}{op}0" for op in "FIW") for s in range(n)]
    alone = metered(model, Schedule.parse("\n".join(f"rank {s}: {word}" for s, word in enumerate(words))), balance, x)
    forward = [alone.left["F", s] for s in range(n)]
    forward[-1] -= sum(alone.results)
    inputs = [sum(size for (source, target), size in alone.messages.items() if source < target == s) for s in range(n)]
    grads = [sum(size for (source, target), size in alone.messages.items() if source > target == s) for s in range(n)]
    waiting = [forward[s] + inputs[s] + grads[s] + alone.left["I", s] for s in range(n)]
    return {"activation": forward, "waiting": waiting, "messages": alone.messages}
