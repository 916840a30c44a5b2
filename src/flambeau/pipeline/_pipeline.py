"""`Pipeline`: a training step through a Sequential that is cut into stages, by any schedule.

Schedules such as 1F1B begin backwards while forwards are still to come, so the loss has to be computed inside: `step` takes the batch, the
target and the loss. What comes out is what one backward of the whole batch's loss leaves: `.grad` of the parameters and of the inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd import Function
from flambeau.nn import Module, Sequential
from flambeau.nn._errors import kind_of
from flambeau.pipeline._cut import Split, split
from flambeau.pipeline._executor import Run, check_ops, draw, seed_here
from flambeau.pipeline._lower import MODES
from flambeau.pipeline._microbatch import gather, scatter
from flambeau.pipeline._stage import Grads, Settings
from flambeau.pipeline.gpipe import committing, packets_of, partitions_of, schedule_of, verify_row
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.simulate import Timeline, happened
from flambeau.pipeline.skip import layout
from flambeau.utils.checkpoint import _tensors

Loss = Callable[[Any, Any], Tensor]


class _Result(Function):
    """The loss, and as its gradients what the stages have computed already."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, grads: Grads, *inputs: Tensor) -> Tensor:
        ctx.grads = grads
        return loss.detach()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        return (None, None, *ctx.grads)


class Pipeline(Module):
    """Trains a model in stages that work at the same time.

    Args:
        module: the Sequential. Its layers are used, not copied; its state dict is this module's. A parameter may be in several stages. With
            `sample`, a module of any kind, which `split` cuts into as many stages as the schedule has.
        ranks: how many threads work on it.
        schedule: "gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "dualpipe-v", or a `Schedule`.
        micro_batches: into how many parts a batch is cut, as even as can be. There are fewer where there are fewer samples.
        checkpoint: whose activations are computed again in backward instead of kept: "always", "except_last" or "never". A `Schedule` that
            has recomputes says it itself.
        balance: how many layers each stage has; by default as even as can be. With "interleaved" and "looped-bfs" there may be several
            stages per rank: as many as `balance` says, by default two. With "zb-v" and "dualpipe-v" there are two.
        devices: where ranks are; by default the CPU.
        sample: an input as large as a micro-batch, of a module that is to be split. With a `transport` each process gives one.
        transport: ranks that are processes, as `MPITransport()`: what is made then is a `DistributedPipeline`.

    Attributes:
        timeline: what the last `step` did and when, in seconds: its `bubble`, `grid()` and `draw("run.svg")` stand beside those of
            `Schedule.simulate()`. None before the first step.

    Raises:
        TypeError, ValueError: something about the arguments; nothing was changed.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._pipeline import Pipeline
        >>> model = fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.Linear(8, 2))
        >>> pipe = Pipeline(model, ranks=2, micro_batches=4)
        >>> loss = pipe.step(fl.ones(8, 4), fl.zeros(8, 2), fl.nn.functional.mse_loss)
        >>> model[2].weight.grad.shape
        flambeau.Size([2, 8])
        >>> pipe(fl.ones(3, 4)).shape
        flambeau.Size([3, 2])
    """

    module: Sequential

    def __new__(cls, *args: Any, transport: Any = None, **kwargs: Any) -> Pipeline:
        if cls is Pipeline and transport is not None:
            from flambeau.pipeline._processes import DistributedPipeline

            cls = DistributedPipeline
        return super().__new__(cls)

    def __init__(
        self,
        module: Module,
        ranks: int,
        *,
        schedule: str | Schedule = "1f1b",
        micro_batches: int,
        checkpoint: str = "never",
        balance: Iterable[int] | None = None,
        devices: Iterable[Any] | None = None,
        sample: Any = None,
        transport: None = None,
    ) -> None:
        super().__init__()
        if sample is None:
            _sequential(module)
        elif balance is not None:
            raise ValueError("Pipeline: both sample and balance are given; expected one of them, since a module that is split is balanced")
        self.ranks, self.micro_batches = _positive("ranks", ranks), _positive("micro_batches", micro_batches)
        if checkpoint not in MODES:
            raise ValueError(f"Pipeline: checkpoint = {checkpoint!r}; expected 'always', 'except_last' or 'never'")
        self.checkpoint = checkpoint
        wanted = None if balance is None else [operator.index(n) for n in balance]
        self.schedule = schedule
        self._chunks = _chunks(schedule, self.ranks, wanted)
        full = self._schedule_of(self.micro_batches)
        _check_schedule(full, schedule, self)
        layers = self._split(module, sample, full) if sample is not None else _sequential(module)
        self.balance = _balance(len(layers), full.stages, wanted)
        parts = partitions_of(layers, self.balance)
        self._skips = layout(parts)
        places = None if devices is None else [_C.device(d) for d in devices]
        if places is not None and len(places) < self.ranks:
            raise ValueError(f"Pipeline: there are {len(places)} devices for {self.ranks} ranks; expected one for each")
        for s, part in enumerate(parts):
            if places is not None:
                part.to(places[full.rank_of[s]])
        self.module = layers
        self.timeline: Timeline | None = None

    def _split(self, module: Module, sample: Any, full: Schedule) -> Split:
        """Segments of the module, as many as the schedule has stages."""
        return split(module, sample, full.stages)

    def _schedule_of(self, micro_batches: int) -> Schedule:
        if isinstance(self.schedule, str):
            # A rule that needs more micro-batches than a small batch gives is followed without those that are not there.
            most = self.micro_batches if self.schedule == "dualpipe-v" else micro_batches
            return schedule_of(self.schedule, self.ranks, most, self._chunks, self.checkpoint)
        return self.schedule if self.checkpoint == "never" else self.schedule.with_recompute(self.checkpoint)

    def extra_repr(self) -> str:
        name = self.schedule if isinstance(self.schedule, str) else self.schedule.name
        how = f"micro_batches={self.micro_batches}, checkpoint={self.checkpoint!r}, balance={self.balance}"
        return f"ranks={self.ranks}, schedule={name!r}, {how}"

    # ---- running

    def forward(self, x: Any) -> Any:
        """The model's output for a batch. It has no history: gradients are what `step` is for.

        Args:
            x: a tensor, or a nest of tuples, lists and dicts with tensors in it, with the batch in dim 0.
        """
        pieces = scatter(x, self.micro_batches)
        run = Run(self._schedule_of(len(pieces)), self._layers(), packets_of(x, pieces), Settings(seed_here(), False, self._skips))
        with committing(self):
            run.run("F")
        draw(run)
        return gather([run.outputs[i].value for i in range(len(pieces))])

    def step(self, x: Any, target: Any, loss_fn: Loss) -> Tensor:
        """Forward, loss and backward of a batch; adds to `.grad` what `loss.backward()` would.

        Args:
            x: as for `forward`. Gradients go on into what it was computed from.
            target: what `loss_fn` is given of it; its tensors are cut as those of `x`.
            loss_fn: called with output and target of a micro-batch; gives the mean of their samples' losses, a 0-d tensor. It is
                called in a thread of its own, as layers are.

        Returns:
            The loss of the batch, the mean over its samples, without a history.

        Raises:
            BaseException: what a layer or the loss raised, with a note that says where. No `.grad` has changed then.
        """
        _check_step(target)
        extra = list(loss_fn.parameters()) if isinstance(loss_fn, Module) else []
        if not any(t.requires_grad for t in (*_tensors(x), *self.parameters(), *extra)):
            raise RuntimeError("Pipeline.step: neither a parameter nor x requires grad, so there is nothing to train; use pipe(x)")
        pairs = scatter((x, target), self.micro_batches)
        pieces = [piece for piece, _ in pairs]
        weights = _weights([int(next(_tensors(piece)).shape[0]) for piece in pieces])
        run = Run(
            self._schedule_of(len(pieces)), self._layers(), packets_of(x, pieces), Settings(seed_here(), True, self._skips),
            lambda i, y: _checked(loss_fn(y, pairs[i][1])), extra,
        )  # fmt: skip
        run.seed_backward = lambda i, loss: [ops.full_like(loss, weights[i])]
        with committing(self):
            run.run("FRBIW")
        self.timeline = happened(run.schedule.name, run.trace)
        draw(run)
        total = _total(run, weights)
        _Result.apply(total, [*run.batch_grads(), *run.grads], *_tensors(x), *run.parameters).backward()
        return total

    def _layers(self) -> list[list[tuple[str, Module]]]:
        verify_row(self.module, "Pipeline: module")
        children = iter(self.module.named_children())
        return [[next(children) for _ in range(n)] for n in self.balance]

    # ---- state: the wrapped model's

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the wrapped model, under its names."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Loads a state of the wrapped model."""
        return self.module.load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # As a part of a larger model, whose loading does not come through load_state_dict.
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}module.{key[len(prefix) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _weights(sizes: Sequence[int]) -> list[float]:
    """The share of each micro-batch in the batch's samples. Micro-batches may differ by a sample, so their mean is not the batch's."""
    return [n / sum(sizes) if sum(sizes) else 1 / len(sizes) for n in sizes]


def _checked(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss_fn returned {kind_of(loss)}; expected a 0-d Tensor, the mean over the samples")
    if loss.dim() != 0 or not loss.is_floating_point():
        raise ValueError(f"loss_fn returned {loss.dtype} {list(loss.shape)}; expected 0-d floating point, the mean over the samples")
    return loss


def _total(run: Run, weights: Sequence[float]) -> Tensor:
    """The loss of the batch, of the losses of its micro-batches."""
    losses = [run.outputs[i] for i in range(len(weights))]
    if not any(packet.wanted[0] for packet in losses):
        raise RuntimeError("Pipeline.step: the loss does not depend on anything that requires grad")
    total: Tensor = losses[0].value * weights[0]
    for packet, weight in zip(losses[1:], weights[1:]):
        total = total + packet.value * weight
    return total


# ------------------------------------------------------------------------------------------------------------------------------ checks


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"Pipeline: {name} = {value!r}; expected an integer >= 1")
    return value


def _check_step(target: Any) -> None:
    if not _C.is_grad_enabled():
        raise RuntimeError("Pipeline.step: gradients are switched off here (no_grad); call it outside, or pipe(x) for outputs alone")
    if any(t.requires_grad for t in _tensors(target)):
        raise ValueError("Pipeline.step: a tensor of target requires grad, but gets none; pass target.detach(), or make it part of x")


def _sequential(module: Any) -> Sequential:
    if not isinstance(module, Sequential):
        raise TypeError(
            f"Pipeline: module is a {kind_of(module)}; expected an nn.Sequential, whose layers are put into stages, or sample=, so that it "
            "is split"
        )
    if len(list(module.named_children())) != len(module):
        raise ValueError("Pipeline: a layer is in the module twice; expected each once")
    verify_row(module, "Pipeline: module")
    return module


def _chunks(schedule: str | Schedule, ranks: int, balance: Sequence[int] | None) -> int:
    """Stages per rank where the schedule leaves it open."""
    if schedule not in ("interleaved", "looped-bfs") or balance is None:
        return 2
    if not balance or len(balance) % ranks:
        raise ValueError(f"Pipeline: balance has {len(balance)} stages for {ranks} ranks of {schedule!r}; expected a multiple of {ranks}")
    return len(balance) // ranks


def _check_schedule(full: Schedule, given: str | Schedule, pipe: Pipeline) -> None:
    check_ops(full)
    if not isinstance(given, str) and (len(given.ranks), given.micro_batches) != (pipe.ranks, pipe.micro_batches):
        raise ValueError(
            f"Pipeline: the schedule has {len(given.ranks)} ranks and {given.micro_batches} micro-batches, but ranks = {pipe.ranks} and "
            f"micro_batches = {pipe.micro_batches}; expected the same"
        )
    if not full.ops & {"B", "I"}:
        raise ValueError(f"Pipeline: schedule {full.name!r} has no backwards; expected one of a training step (pipe(x) leaves them out)")


def _balance(layers: int, stages: int, balance: list[int] | None) -> list[int]:
    if balance is None:
        if layers < stages:
            raise ValueError(f"Pipeline: the module has {layers} layers for {stages} stages; expected at least one for each")
        return [layers * (s + 1) // stages - layers * s // stages for s in range(stages)]
    if len(balance) != stages or sum(balance) != layers or min(balance) < 1:
        raise ValueError(
            f"Pipeline: balance = {balance} (sum {sum(balance)}) for {stages} stages and {layers} layers; expected a positive number of "
            "layers for each stage, together all of them"
        )
    return balance

