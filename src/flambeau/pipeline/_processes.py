"""`DistributedPipeline`: a `Pipeline` whose ranks are processes, each with the bytes of its own stages alone.

    every process        step(x, target, loss_fn)
    first stage's rank   x into micro-batches; tells all others how many there are, of what sizes, and the number that seeds layers
    every rank           its own list of the schedule, in the thread that called
    every rank           tells the last stage's rank that it is done; when all are, that tells all of them the loss
    every process        adds to .grad, and only now: a failure of any rank leaves all as they were

What ranks do is `Run` of `_executor.py`, as with threads: it does not know where a `put` leads.
"""

from __future__ import annotations

import contextvars
import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flambeau._C import Tensor, ops
from flambeau.nn import Module, Parameter
from flambeau.nn.utils.clip_grad import _grads, clip_grads_with_norm_, get_total_norm
from flambeau.pipeline._actions import Action
from flambeau.pipeline._cut import CutReport, Report, Split, StageReport, split
from flambeau.pipeline._executor import Run, _Post, follow, seed_here
from flambeau.pipeline._homes import to_meta
from flambeau.pipeline._microbatch import gather, map_tensors, scatter
from flambeau.pipeline._pipeline import (
    Loss,
    Pipeline,
    _check_step,
    _checked,
    _Result,
    _total,
    _weights,
)
from flambeau.pipeline._segments import form_of
from flambeau.pipeline._stage import Cancelled, Packet, Settings, annotate
from flambeau.pipeline._trace import CutError
from flambeau.pipeline._transport import ProcessCall, Transport
from flambeau.pipeline.gpipe import committing, packets_of
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.simulate import happened
from flambeau.utils.checkpoint import _tensors

_ALL_OPS = "FRBIW"


class _RankRun(Run):
    """A `Run` of which this process performs one rank. Stages of other ranks are there, and are never run."""

    def perform(self, rank: int, call: ProcessCall, ops: str) -> None:
        """Performs this rank's actions in the calling thread. In `trace` their times count from here.

        Raises:
            BaseException: what an action raised, with a note that says where.
        """
        self.trace = [[] for _ in self.schedule.ranks]
        self._post = _Post(self.schedule.rank_of, self.settings.skips, call)
        for stage in self.stages:
            stage.post = self._post
        actions = [a for a in self.schedule.ranks[rank] if a.op in ops and a.micro < len(self.packets)]
        trace: list[tuple[Action, float, float]] = []
        start = time.perf_counter()
        contextvars.copy_context().run(follow, rank, actions, self._perform, call, trace)
        self.trace[rank] = [(a, begin - start, end - start) for a, begin, end in trace]

    def exchange_shared(self, rank: int, call: ProcessCall) -> None:
        """Gives stages of other ranks the gradients of parameters that are in one of this rank's, too, so that all add the same."""
        place = self.schedule.rank_of
        homes: dict[int, set[int]] = {}
        for stage in self.stages:
            for p in stage.parameters:
                homes.setdefault(id(p), set()).add(place[stage.index])
        for stage in self.stages:
            for k, p in enumerate(stage.parameters):
                if place[stage.index] == rank:
                    for other in homes[id(p)] - {rank}:
                        call.put(other, ("shared", stage.index, k), stage.grads[k])
        for stage in self.stages:
            for k, p in enumerate(stage.parameters):
                if place[stage.index] != rank and rank in homes[id(p)]:
                    stage.grads[k] = call.take(rank, ("shared", stage.index, k))


class _Recorder:
    """Sees to it that processes with parts of one module have the same recordings, under the numbers of the first segment's process.

    That one meets a micro-batch of a new size or mode, and gives it to the others until a call has shown that all have recorded it.
    """

    def __init__(self, parts: Split) -> None:
        self.parts = parts
        self._new: set[str] = set()
        self._common: set[str] = set()

    def announced(self, pieces: Sequence[Any]) -> list[tuple[str, str, int, Any]]:
        """Where the first segment is, of each kind of micro-batch: form, mode, number of the recording, and one if it may be new."""
        recordings, rows = self.parts.recordings, []
        kinds = {form_of(piece): piece for piece in pieces}
        self._new = {recordings.key(form) for form in kinds}
        for form, piece in kinds.items():
            key = recordings.key(form)
            shown = None if key in self._common else map_tensors(piece, lambda x: x.detach())
            rows.append((form, _digest(key), recordings.index_of(piece), shown))
        return rows

    def follow(self, rows: Sequence[tuple[str, str, int, Any]], rank: int, first: int) -> None:
        """Elsewhere: records what is new.

        Raises:
            CutError: the module is in another mode than the first segment's.
        """
        recordings = self.parts.recordings
        for form, digest, number, piece in rows:
            if _digest(recordings.key(form)) != digest:
                raise CutError(
                    f"the module of rank {rank} is in another mode than that of rank {first}: train or eval, autocast, or a number that a "
                    "submodule has as an attribute; expected the same in all processes"
                )
            known = recordings.known(form)
            recordings.numbers[number] = recordings.index_of(piece) if known is None else known

    def commit(self) -> None:
        """Takes note that all ranks have come through the call."""
        self._common |= self._new


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _cut_of(parts: Split) -> tuple[str, list[int]]:
    """What has to be the same in all processes: the ops, and where they are cut."""
    program, cuts = parts.recordings.programs[0], parts.recordings.cuts[0]
    return _digest(repr([(node.op, place.path) for node, place in zip(program.graph.nodes, program.found.places)])), cuts


class DistributedPipeline(Pipeline):
    """Trains a model in stages that processes work on.

    Every process makes the same model and calls the same methods; each waits for the others there. The model's parameters and buffers of
    other ranks' stages are moved to the meta device: they keep names and shapes, and no bytes.

    Args:
        module: the Sequential, made in each process with the same seed. A parameter may be in stages of several ranks. With `sample`, a
            module of any kind: the first stage's rank measures it and chooses the cuts, which are those of all.
        ranks: how many processes work on it: all of `transport`.
        transport: the ranks, as `MPITransport()`.
        schedule, micro_batches, checkpoint, balance: as of `Pipeline`.
        sample: likewise, given in every process. It is recorded in training and in eval mode. Micro-batches of other sizes are recorded
            when the first stage meets them, in all processes at once.

    Attributes:
        timeline: as of `Pipeline`, in every process that of all ranks. Clocks of machines differ, so each rank's times count from when it
            had word of the batch.

    Raises:
        TypeError, ValueError: something about the arguments; nothing was changed.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._processes import DistributedPipeline
        >>> DistributedPipeline(fl.nn.Sequential(fl.nn.Linear(2, 2)), transport=None, micro_batches=2)
        Traceback (most recent call last):
        TypeError: DistributedPipeline: transport is a NoneType; expected ranks that are processes, as MPITransport()
    """

    def __init__(
        self,
        module: Module,
        ranks: int | None = None,
        *,
        transport: Transport,
        schedule: str | Schedule = "1f1b",
        micro_batches: int,
        checkpoint: str = "never",
        balance: Iterable[int] | None = None,
        sample: Any = None,
    ) -> None:
        if not hasattr(transport, "open"):
            kind = type(transport).__qualname__
            raise TypeError(f"DistributedPipeline: transport is a {kind}; expected ranks that are processes, as MPITransport()")
        if ranks not in (None, transport.size):
            raise ValueError(f"DistributedPipeline: ranks = {ranks} on {transport.size} processes; expected a rank for each")
        self.transport = transport
        super().__init__(
            module, transport.size, schedule=schedule, micro_batches=micro_batches, checkpoint=checkpoint, balance=balance, sample=sample
        )
        self._rank_of = self._schedule_of(self.micro_batches).rank_of
        self._recorder = _Recorder(self.module) if isinstance(self.module, Split) else None
        if self._recorder is not None and sample is None:
            with self._call("split") as call:
                self._check_cut(call, self._recorder.parts)
        self._release()

    # ---- a module that is split

    def _split(self, module: Module, sample: Any, full: Schedule) -> Split:
        """Segments of the module, cut where the first stage's rank cuts it."""
        self._rank_of = full.rank_of
        rank, first = self.transport.rank, self._rank_of[0]
        with self._call("split") as call:
            if rank == first:
                parts = split(module, sample, full.stages)
                for other in range(self.transport.size):
                    if other != rank:
                        call.put(other, ("cut",), (_cut_of(parts)[1], dataclasses.astuple(parts.report)))
            else:
                cuts, (stages, crossings, held) = call.take(rank, ("cut",))
                parts = split(module, sample, at=cuts[1:-1])
                parts.report = Report([StageReport(*s) for s in stages], [CutReport(*c) for c in crossings], held)
            parts.prepare_modes(sample)
            self._check_cut(call, parts)
        return parts

    def _check_cut(self, call: ProcessCall, parts: Split) -> None:
        """Returns when all ranks have cut at the same places."""
        mine, first = _cut_of(parts), self._rank_of[0]
        theirs = self._exchange(call, "cut_of", mine)[first]
        if mine != theirs:
            raise CutError(
                f"rank {self.transport.rank} has cut its module at {mine[1][1:-1]} of {mine[1][-1]} ops, rank {first} at "
                f"{theirs[1][1:-1]} of {theirs[1][-1]}; expected the same module and the same cuts in all processes, as "
                "Pipeline(sample=) or split(at=) makes them"
            )
        self._exchange(call, "same_cut", True)

    # ---- what is here

    def _rank_of_layers(self) -> list[tuple[str, Module, int]]:
        """Name, layer and rank of each layer."""
        return [(name, layer, self._rank_of[s]) for s, layers in enumerate(self._layers()) for name, layer in layers]

    def local_parameters(self) -> Iterator[Parameter]:
        """The parameters of this process's stages, each once: what its optimizer is for."""
        mine = (p for _, layer, rank in self._rank_of_layers() if rank == self.transport.rank for p in layer.parameters())
        return iter({id(p): p for p in mine}.values())

    def _release(self) -> None:
        """Gives the bytes of other ranks' stages back."""
        layers = self._rank_of_layers()
        if self._recorder is not None:
            self._owners = self._recorder.parts.keep([s for s, (_, _, rank) in enumerate(layers) if rank == self.transport.rank])
            return
        mine = [module for _, layer, rank in layers if rank == self.transport.rank for module in layer.modules()]
        kept = {id(module) for module in mine} | {id(p) for module in mine for p in module.parameters(recurse=False)}
        for _, layer, _ in layers:
            for module in layer.modules():
                if id(module) not in kept:
                    _to_meta(module, kept)

    # ---- running

    @contextmanager
    def _call(self, what: str) -> Iterator[ProcessCall]:
        """All ranks in the same call: an exception of this one fails all, and that of another is raised here."""
        call = self.transport.open(what)
        try:
            yield call
        except Cancelled:
            failure = call.failure()
            stages = [str(s) for s, rank in self._rank_of.items() if rank == failure.rank]
            annotate(failure, f"rank {failure.rank} has stage {', '.join(stages)}; this is rank {self.transport.rank}, in its {what}")
            raise failure from None
        except BaseException as error:
            call.fail(error)
            raise
        finally:
            call.close()

    def _begin(self, call: ProcessCall, x: Any) -> tuple[list[Packet], list[int], int]:
        """The micro-batches where the first stage is, as many places elsewhere; their sizes; the number that seeds layers."""
        rank, first = self.transport.rank, self._rank_of[0]
        if rank != first:
            sizes, seed, rows = call.take(rank, ("begin",))
            if self._recorder is not None:
                self._recorder.follow(rows, rank, first)
            return [Packet(None, ())] * len(sizes), sizes, seed
        pieces = scatter(x, self.micro_batches)
        sizes = [int(next(_tensors(piece)).shape[0]) for piece in pieces]
        rows = [] if self._recorder is None else self._recorder.announced(pieces)
        seed = seed_here()
        for other in range(self.transport.size):
            if other != rank:
                call.put(other, ("begin",), (sizes, seed, rows))
        return packets_of(x, pieces), sizes, seed

    def _end(self, call: ProcessCall, run: _RankRun, result: Callable[[], Any]) -> Any:
        """What the last stage's rank has as the result, everywhere, after all ranks have done their part."""
        rank, last = self.transport.rank, self._rank_of[len(self.balance) - 1]
        call.put(last, ("done", rank), (any(stage.drew for stage in run.stages), run.trace[rank]))
        if rank == last:
            value = result()
            done = [call.take(rank, ("done", other)) for other in range(self.transport.size)]
            for other in range(self.transport.size):
                call.put(other, ("result",), (value, done))
        value, done = call.take(rank, ("result",))
        if self._recorder is not None:
            self._recorder.commit()
        run.trace = [trace for _, trace in done]
        if any(drew for drew, _ in done):
            ops.rand((1,))
        return value

    def forward(self, x: Any) -> Any:
        """The model's output for a batch, in every process, without a history.

        Args:
            x: as for `Pipeline`; used where the first stage is, others may give None.
        """
        with self._call("forward") as call:
            packets, sizes, seed = self._begin(call, x)
            run = _RankRun(self._schedule_of(len(sizes)), self._layers(), packets, Settings(seed, False, self._skips))
            with committing(self):
                run.perform(self.transport.rank, call, "F")
                return self._end(call, run, lambda: gather([run.outputs[i].value for i in range(len(sizes))]))

    def step(self, x: Any, target: Any, loss_fn: Loss) -> Tensor:
        """Forward, loss and backward of a batch; adds to `.grad` of this process's parameters what `loss.backward()` would.

        Args:
            x: as for `Pipeline.step`; used where the first stage is, others may give None.
            target, loss_fn: likewise; used where the last stage is.

        Returns:
            The loss of the batch, in every process, without a history.

        Raises:
            PipelineError: another rank has failed, or is gone. No `.grad` has changed, in no process.
            BaseException: what a layer or the loss raised here, with a note that says where.
        """
        with self._call("step") as call:
            self._check_step(target, loss_fn)
            packets, sizes, seed = self._begin(call, x)
            run = self._run_of(packets, sizes, seed, target, loss_fn)
            weights = _weights(sizes)
            run.seed_backward = lambda i, loss: [ops.full_like(loss, weights[i])]
            with committing(self):
                run.perform(self.transport.rank, call, _ALL_OPS)
                run.exchange_shared(self.transport.rank, call)
                total: Tensor = self._end(call, run, lambda: _total(run, weights))
        self.timeline = happened(run.schedule.name, run.trace)
        self._accumulate(run, total, x)
        return total

    def _check_step(self, target: Any, loss_fn: Any) -> None:
        _check_step(target)
        if self._has_loss() and not callable(loss_fn):
            rank = self.transport.rank
            raise TypeError(f"Pipeline.step: loss_fn = {loss_fn!r} in rank {rank}, where the last stage is; expected a function")

    def _has_loss(self) -> bool:
        return self.transport.rank == self._rank_of[len(self.balance) - 1]

    def _run_of(self, packets: list[Packet], sizes: list[int], seed: int, target: Any, loss_fn: Loss) -> _RankRun:
        settings = Settings(seed, True, self._skips)
        if not self._has_loss():
            return _RankRun(self._schedule_of(len(sizes)), self._layers(), packets, settings)
        # Cut beside a tensor of the batch's size, so that targets are cut as x is.
        targets = [t for _, t in scatter((ops.empty((sum(sizes), 0)), target), self.micro_batches)]
        extra = list(loss_fn.parameters()) if isinstance(loss_fn, Module) else []
        self._check_extra(extra)
        return _RankRun(
            self._schedule_of(len(sizes)), self._layers(), packets, settings, lambda i, y: _checked(loss_fn(y, targets[i])), extra
        )  # fmt: skip

    def _check_extra(self, extra: Sequence[Parameter]) -> None:
        ids = {id(p) for p in extra}
        for name, layer, rank in self._rank_of_layers():
            if rank != self.transport.rank and any(id(p) in ids for p in layer.parameters()):
                raise ValueError(
                    f"Pipeline.step: layer '{name}' of rank {rank} has a parameter that loss_fn has, too, in rank {self.transport.rank}; "
                    "expected loss_fn to have its own, or to be a layer of the model"
                )

    def _accumulate(self, run: _RankRun, total: Tensor, x: Any) -> None:
        """Adds to `.grad` what this process has gradients of, in the order of `Pipeline`."""
        first = self.transport.rank == self._rank_of[0]
        inputs, grads = (list(_tensors(x)), run.batch_grads()) if first else ([], [])
        here = {id(p) for stage in run.stages if self._rank_of[stage.index] == self.transport.rank for p in stage.parameters}
        pairs = [(p, dp) for p, dp in zip(run.parameters, run.grads) if id(p) in here]
        inputs += [p for p, _ in pairs]
        grads += [dp for _, dp in pairs]
        if any(t.requires_grad for t in inputs):
            _Result.apply(total, grads, *inputs).backward()

    # ---- what needs all ranks

    def _everywhere(self, what: str, value: Any) -> list[Any]:
        """What each rank gives, by rank."""
        with self._call(what) as call:
            return self._exchange(call, what, value)

    def _exchange(self, call: ProcessCall, what: str, value: Any) -> list[Any]:
        rank = self.transport.rank
        for other in range(self.transport.size):
            call.put(other, (what, rank), value)
        return [call.take(rank, (what, other)) for other in range(self.transport.size)]

    def _homes(self) -> dict[str, int]:
        """By the name of a tensor of the model, or of a layer, the rank whose value counts."""
        ranks = {name: rank for name, _, rank in self._rank_of_layers()}
        if self._recorder is None:
            return ranks
        order = list(ranks.values())
        return {key: order[min(segments)] for key, segments in self._owners.segments.items()}

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The complete state of the wrapped model, under its names, in every process: all processes call it."""
        state = super().state_dict(*args, **kwargs)
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        ranks = self._homes()

        def home(key: str) -> int | None:
            name = key[len(prefix) :] if key.startswith(prefix) else ""
            return ranks.get(name, ranks.get(name.partition(".")[0]))

        mine = {key: value for key, value in state.items() if home(key) == self.transport.rank}
        for rank, part in enumerate(self._everywhere("state_dict", mine)):
            if rank != self.transport.rank:
                state.update(part)
        return state

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Loads a state of the wrapped model, of which each process keeps its part."""
        result = super().load_state_dict(state_dict, strict, assign)
        self._release()
        return result

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scales the gradients of all ranks so that their common norm is at most `max_norm`: all processes call it.

        Returns:
            The norm before, in every process the same.
        """
        first: dict[int, int] = {}
        for _, layer, rank in self._rank_of_layers():
            for p in layer.parameters():
                first.setdefault(id(p), rank)
        mine = list(self.local_parameters())
        counted = _grads([p for p in mine if first[id(p)] == self.transport.rank])  # a shared parameter counts once
        norms = self._everywhere("clip_grad_norm_", get_total_norm(counted, norm_type).detach())
        total = get_total_norm([ops.stack([norm.reshape(()) for norm in norms])], norm_type)
        clip_grads_with_norm_(mine, max_norm, total)
        return total


def _to_meta(module: Module, kept: set[int]) -> None:
    """Drops the bytes of a module's own tensors, but for parameters that are kept; objects stay."""
    for p in module.parameters(recurse=False):
        if id(p) not in kept:
            to_meta(p)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = to_meta(buffer)
