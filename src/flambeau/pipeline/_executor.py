"""Threads that follow a schedule: one a rank, in the order of its list, waiting for nothing but data.

    rank 0:  0F0 -> 0F1 ------------> 0B1 -> 0B0        each arrow down is a `put`, each action first a `take`;
                \\      \\             /      /           who puts goes on at once
    rank 1:      1F0 -> 1F1 -> 1B1 -> 1B0

`run_ranks` is that and no more; `Run` is one pass of a batch through stages, and says what actions do. The first action that fails, by
whatever exception, ends all ranks: those that wait are woken, the others stop before their next action. Threads never outlive the call.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.nn import Parameter
from flambeau.pipeline._actions import Action
from flambeau.pipeline._stage import Cancelled, Grads, Layers, Packet, Settings, Stage, annotate
from flambeau.pipeline._transport import Call
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.skip import Key
from flambeau.utils.checkpoint import _tensors

Perform = Callable[[int, Action], "float | None"]
Trace = list[list[tuple[Action, float, float]]]


_ABSENT = object()


class Mail:
    """What ranks send each other: a value under a key, taken once, by the rank's own thread. Who sends never waits.

    A rank has an inbox, a queue of C's, so that to wait and to be woken costs no lock in Python. What it finds there before it is wanted
    it puts aside.
    """

    def __init__(self, ranks: int) -> None:
        self._inbox: list[SimpleQueue[tuple[Hashable, Any] | None]] = [SimpleQueue() for _ in range(ranks)]
        self._aside: list[dict[Hashable, Any]] = [{} for _ in range(ranks)]
        self.cancelled = False

    def put(self, rank: int, key: Hashable, value: Any) -> None:
        """Sends a value to a rank."""
        if not self.cancelled:
            self._inbox[rank].put((key, value))

    def take(self, rank: int, key: Hashable) -> Any:
        """The value for this rank under a key; waits for it."""
        inbox, aside = self._inbox[rank], self._aside[rank]
        while not self.cancelled:
            if (value := aside.pop(key, _ABSENT)) is not _ABSENT:
                return value
            if (sent := inbox.get()) is not None:
                aside[sent[0]] = sent[1]
        raise Cancelled

    def cancel(self) -> None:
        """Wakes all who wait, and lets nobody wait again."""
        self.cancelled = True
        for inbox, aside in zip(self._inbox, self._aside):
            aside.clear()
            with suppress(Empty):
                while True:
                    inbox.get_nowait()
            inbox.put(None)


def follow(rank: int, actions: Sequence[Action], perform: Perform, call: Call, trace: list[tuple[Action, float, float]]) -> None:
    """Performs a rank's actions in this thread.

    Raises:
        Cancelled: another rank has failed.
        BaseException: what an action raised, with a note that says where.
    """
    # The thread draws from a generator of its own meanwhile: see Note [Random numbers of a pipeline].
    with _C.held(_C.set_thread_generator, _C.Generator()):
        for action in actions:
            if call.cancelled:
                raise Cancelled
            try:
                begin = perform(rank, action)
            except Cancelled:
                raise
            except BaseException as error:
                annotate(error, f"in rank {rank}, stage {action.stage}, micro-batch {action.micro}, {_MEANING[action.op]} ({action})")
                raise
            if begin is not None:
                trace.append((action, begin, time.perf_counter()))


class _Run:
    """One run of all ranks by threads."""

    def __init__(self, lists: Sequence[Sequence[Action]], perform: Perform, mail: Mail) -> None:
        self.lists, self.perform, self.mail = lists, perform, mail
        self.trace: Trace = [[] for _ in lists]
        self.lock = threading.Lock()
        self.failure: BaseException | None = None
        self.started = [False] * len(lists)
        self.ended = [False] * len(lists)
        self.gates = [threading.Lock() for _ in lists]  # open when their threads end
        for gate in self.gates:
            gate.acquire()
        context = contextvars.copy_context()
        self.threads = [
            # A context can be entered by one thread at a time, so each has a copy.
            threading.Thread(target=context.copy().run, args=(self.work, rank), name=f"flambeau-rank-{rank}", daemon=True)
            for rank in range(len(lists))
        ]

    def fail(self, error: BaseException) -> None:
        with self.lock:
            if self.failure is None:
                self.failure = error
        self.mail.cancel()

    def start(self, rank: int) -> None:
        """Starts a rank's thread, which starts the next one's: Ctrl-C is raised in the main thread, so only the first start can break."""
        if rank < len(self.threads):
            self.threads[rank].start()
            self.started[rank] = True

    def work(self, rank: int) -> None:
        """A thread's whole life."""
        try:
            self.start(rank + 1)
            follow(rank, self.lists[rank], self.perform, self.mail, self.trace[rank])
        except Cancelled:
            pass
        except BaseException as error:
            self.fail(error)
        finally:
            self.ended[rank] = True
            self.gates[rank].release()

    def wait(self) -> None:
        """Returns when all threads have ended.

        Does not rely on `join`: one that Ctrl-C interrupts takes its thread for ended (CPython 3.11). A start that it interrupts leaves
        open whether there is a thread, so the first gets a second to show.
        """
        for rank, thread in enumerate(self.threads):
            if rank and not self.started[rank]:
                return
            while not self.ended[rank]:
                opened = self.gates[rank].acquire(timeout=-1 if self.started[rank] else 1.0)
                if not (opened or self.started[rank] or thread.is_alive()):
                    return
            if thread.is_alive():
                thread.join()


_MEANING = {"F": "forward", "R": "recompute", "B": "backward", "I": "backward of the inputs", "W": "backward of the parameters"}


def check_ops(schedule: Schedule) -> None:
    """Refuses schedules with sends and receives, which ranks here do by themselves.

    Raises:
        ValueError: there are some.
    """
    others = sorted(schedule.ops - set(_MEANING))
    if others:
        raise ValueError(
            f"schedule {schedule.name!r} has actions {', '.join(others)}; expected computations alone ({', '.join(_MEANING)}): values are "
            "sent as soon as they are there"
        )


def run_ranks(lists: Sequence[Sequence[Action]], perform: Perform, mail: Mail) -> Trace:
    """Performs all actions, each rank's in their order in a thread of its own.

    Args:
        lists: per rank its actions.
        perform: called with rank and action in the rank's thread; takes and puts what it needs. It may return when its data were there, by
            `time.perf_counter()`.
        mail: that of this run; it is of no use after a failure.

    Returns:
        Per rank its actions, from when to when, as far as `perform` says it.

    Raises:
        BaseException: the first that an action raised, with a note that says where; Ctrl-C of the calling thread.

    Example:
        >>> from flambeau.pipeline import Schedule
        >>> from flambeau.pipeline._executor import Mail, run_ranks
        >>> mail, done = Mail(2), []
        >>> def perform(rank, action):
        ...     if rank == 1:
        ...         done.append(mail.take(1, action.micro))
        ...     else:
        ...         mail.put(1, action.micro, str(action))
        >>> run_ranks(Schedule.parse("rank 0: 0F0 0F1\\nrank 1: 1F0 1F1").ranks, perform, mail)
        [[], []]
        >>> done
        ['0F0', '0F1']
    """
    call = _Run(lists, perform, mail)
    try:
        call.start(0)
        call.wait()
    except BaseException as error:
        try:
            call.fail(error)
        finally:
            _join(call)
    if call.failure is not None:
        failure, call.failure = call.failure, None
        try:
            raise failure
        finally:
            del failure  # the traceback holds this frame
    return call.trace


def _join(call: _Run) -> None:
    """Waits for the end of all threads, however often Ctrl-C comes."""
    while True:
        try:
            return call.wait()
        except BaseException as error:
            call.fail(error)


class _Post:
    """Mail by stages instead of ranks. Stages know it and not the run, which would be a circle that holds on to memory."""

    def __init__(self, rank_of: dict[int, int], skips: dict[Key, tuple[int, int]], mail: Call | None = None) -> None:
        self.rank_of, self.skips = rank_of, skips
        self.mail: Call = Mail(0) if mail is None else mail
        self._index = {key: k for k, key in enumerate(skips)}  # a namespace is another object in each process

    def put(self, kind: str, stage: int, micro: int, value: Any, key: Key | None = None) -> None:
        self.mail.put(self.rank_of[stage], (kind, stage, micro, None if key is None else self._index[key]), value)

    def take(self, kind: str, stage: int, micro: int, key: Key | None = None) -> Any:
        return self.mail.take(self.rank_of[stage], (kind, stage, micro, None if key is None else self._index[key]))

    def send_skip(self, key: Key, micro: int, tensor: Tensor | None, wanted: bool, shared: bool) -> None:
        self.put("SF", self.skips[key][1], micro, (tensor, wanted, shared), key)

    def take_skip(self, key: Key, micro: int) -> tuple[Tensor | None, bool, bool]:
        arrived: tuple[Tensor | None, bool, bool] = self.take("SF", self.skips[key][1], micro, key)
        return arrived


class Run:
    """A batch on its way through the stages: forwards and backwards in one go, or the backwards later.

    Args:
        schedule: says what each rank does; recomputes in it say which forwards are checkpointed.
        partitions: per stage its layers.
        packets: the micro-batches.
        settings: see `Settings`.
        loss: called with micro-batch and output of the last stage; its result is the output then.
        extra: parameters that the loss has.

    Attributes:
        outputs: those of the last stage, by micro-batch.
        output_grads: those of the outputs, which the backwards start from.
        seed_backward: makes them of micro-batch and output instead, where forwards and backwards are one run.
        input_grads: those of the micro-batches, as the backwards give them.
        trace: per rank the actions of the last `run`, from when to when, waiting for data of neighbours left out.
    """

    def __init__(
        self,
        schedule: Schedule,
        partitions: Sequence[Layers],
        packets: Sequence[Packet],
        settings: Settings,
        loss: Callable[[int, Any], Tensor] | None = None,
        extra: Sequence[Parameter] = (),
    ) -> None:
        self.schedule, self.packets, self.settings = schedule, packets, settings
        self._post = _Post(schedule.rank_of, settings.skips)
        self.outputs: dict[int, Packet] = {}
        self.output_grads: dict[int, Grads] = {}
        self.input_grads: dict[int, Grads] = {}
        self.seed_backward: Callable[[int, Any], Grads] | None = None
        self.trace: Trace = []
        self.lock = threading.Lock()  # of backwards, which may come from several threads
        again: dict[int, set[int]] = {}
        for _, a in schedule:
            if a.op == "R":
                again.setdefault(a.stage, set()).add(a.micro)
        self.stages: list[Stage] = []
        first = 0
        for s, layers in enumerate(partitions):
            last = s + 1 == len(partitions)
            checkpointed = frozenset(again.get(s, ()))
            stage = Stage(s, first, layers, settings, self._post, checkpointed, loss if last else None, extra if last else ())
            self.stages.append(stage)
            first += len(layers)
        self._sent = [[key for key, (a, b) in settings.skips.items() if a == s != b] for s in range(first and len(partitions))]
        self._got = [[key for key, (a, b) in settings.skips.items() if a != s == b] for s in range(first and len(partitions))]

    @property
    def parameters(self) -> list[Parameter]:
        """Of all stages, in order."""
        return [p for stage in self.stages for p in stage.parameters]

    @property
    def grads(self) -> Grads:
        """Of `parameters`."""
        return [g for stage in self.stages for g in stage.grads]

    def run(self, ops: str) -> None:
        """Performs the actions whose op is among these letters, of the micro-batches that there are."""
        lists = [[a for a in actions if a.op in ops and a.micro < len(self.packets)] for actions in self.schedule.ranks]
        self._post.mail = mail = Mail(len(lists))
        self.trace = run_ranks(lists, self._perform, mail)

    def run_backward(self, keep: bool) -> None:
        """Performs recomputes and backwards; they can be performed again if what they need is kept."""
        self.input_grads.clear()
        for stage in self.stages:
            stage.keeps = keep
            stage.forget_grads()
        self.run("RB")

    def _perform(self, rank: int, a: Action) -> float:
        if a.op == "F":
            return self._forward(a.stage, a.micro)
        if a.op in ("B", "I"):
            return self._backward(a.stage, a.micro, whole=a.op == "B")
        begin = time.perf_counter()
        stage = self.stages[a.stage]
        (stage.recompute if a.op == "R" else stage.backward_parameters)(a.micro)
        return begin

    def _forward(self, s: int, i: int) -> float:
        packet = self.packets[i] if s == 0 else self._post.take("F", s, i)
        begin = time.perf_counter()
        output = self.stages[s].forward(i, packet)
        if s + 1 == len(self.stages):
            self.outputs[i] = output
        else:
            self._post.put("F", s + 1, i, output)
        return begin

    def _backward(self, s: int, i: int, whole: bool) -> float:
        if s + 1 < len(self.stages):
            dy = self._post.take("B", s, i)
        else:
            dy = self.output_grads.pop(i) if self.seed_backward is None else self.seed_backward(i, self.outputs[i].value)
        skips = {key: self._post.take("SB", s, i, key) for key in self._sent[s]}
        begin = time.perf_counter()
        backward = self.stages[s].backward if whole else self.stages[s].backward_inputs
        dx, popped = backward(i, dy, skips)
        for key in self._got[s]:
            self._post.put("SB", self.settings.skips[key][0], i, popped.get(key), key)
        if s == 0:
            self.input_grads[i] = dx
        else:
            self._post.put("B", s - 1, i, dx)
        return begin

    def batch_grads(self) -> Grads:
        """Gradients of the batch's tensors: those of the micro-batches, put together."""
        columns = zip(*(_tensors(packet.value) for packet in self.packets))
        return [self._joined(k, list(pieces)) for k, pieces in enumerate(columns)]

    def _joined(self, k: int, pieces: list[Tensor]) -> Tensor | None:
        found = [self.input_grads[i][k] for i in range(len(pieces))]
        if all(dx is None for dx in found):
            return None
        return ops.cat([ops.zeros_like(x) if dx is None else dx for x, dx in zip(pieces, found)], 0)


def seed_here() -> int:
    """A number that the calling thread's generator stands for; see Note [Random numbers of a pipeline]."""
    return int.from_bytes(bytes(_C.current_generator().get_state().tolist()), "little") % (2**61 - 1)


def draw(run: Run) -> None:
    """Moves the calling thread's generator on, if the run has used the number."""
    if any(stage.drew for stage in run.stages):
        ops.rand((1,))
