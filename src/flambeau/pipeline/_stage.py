"""A stage of a pipeline during one call: its layers, and per micro-batch an autograd graph of its own.

    from the stage before                                             to the next stage
        value -- detached leaf -- layer -- layer -- ... -- output -- detached value
    grad  <----- of the leaf  <----- autograd.grad ----- output <---- its gradient

Graphs of stages are not connected; gradients travel as messages. So a backward is a call in the stage's own thread, and the order of
backwards is that of the schedule. A skip tensor that another stage pops is one more output here and one more leaf there.

A checkpointed forward keeps its inputs alone, and `recompute` makes the graph from them. A backward may come in two halves: what other
stages wait for, and the gradients of the parameters.

Note [Random numbers of a pipeline]
-----------------------------------
Before each layer its thread's generator is seeded by a mix of a number that the call took from the caller's generator, the index of the
layer in the whole model, and the micro-batch. So a layer draws the same for any cut into stages, any schedule and when it is recomputed,
whatever other threads do meanwhile. The number is what the caller's generator is at; it makes a draw if some layer made one, so that the
next call has another number, and a model without random layers leaves it alone.

Note [Memory that two values share]
-----------------------------------
Without a pipeline a layer may write to a tensor that is a skip tensor, too, or a second output, or is used outside: all are one memory with
one history. Here each value is a leaf of its own, so the write would be seen by all and its gradient by one. Values whose memory is
another value's as well say so on their way (`shared`), and the stage whose layer writes to one refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import strided
from flambeau._notes import write_note
from flambeau._running import run_backward
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd import inference_mode, set_grad_enabled
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.nn import Module, Parameter
from flambeau.pipeline._flags import use_flags
from flambeau.pipeline.skip import Key, Namespace, use_store
from flambeau.utils.checkpoint import _tensors, _with

Layers = Sequence[tuple[str, Module]]
Grads = list["Tensor | None"]
SkipGrads = dict[Key, "Tensor | None"]
_MASK = 2**64 - 1
_LOSS = -1  # its place among the layers, whose number depends on the cut where a module is split


class Packet(NamedTuple):
    """What goes from stage to stage: a value whose tensors have no history.

    Attributes:
        wanted: for each of its tensors whether a gradient is wanted.
        shared: for each whether it is another value's memory, too: see Note [Memory that two values share].
    """

    value: Any
    wanted: tuple[bool, ...]
    shared: tuple[bool, ...] = ()


@dataclass
class Settings:
    """What all stages of a call have in common; most of it is what held in the calling thread.

    Args:
        seed: drawn once per call.
        skips: where skip tensors are stashed and popped.
        check: called with what a layer of a partition returned and where, at the ends of stages.
    """

    seed: int
    records: bool  # whether there will be a backward
    skips: dict[Key, tuple[int, int]]
    check: Callable[[Any, str], None] | None = None
    inference: bool = field(default_factory=_C.is_inference_mode_enabled)
    autocast: tuple[bool, Any, bool] = field(
        default_factory=lambda: (_C.is_autocast_enabled(), _C.get_autocast_dtype(), _C.is_autocast_cache_enabled())
    )
    saved_hooks: tuple[Any, Any] | None = field(default_factory=_C.saved_hooks)

    def entered(self, records: bool) -> AbstractContextManager[Any]:
        """The modes of the calling thread, and recording as it is wanted."""
        plain = not (self.inference or self.autocast[0] or self.saved_hooks)
        return set_grad_enabled(records) if plain else self._entered(records)

    @contextmanager
    def _entered(self, records: bool) -> Iterator[None]:
        enabled, dtype, cache = self.autocast
        with ExitStack() as stack:
            if self.inference:
                stack.enter_context(inference_mode())
            stack.enter_context(set_grad_enabled(records))
            if enabled:
                # Entered anew for each micro-batch: a kept cast of a weight would connect their graphs.
                stack.enter_context(autocast("cpu", dtype, cache_enabled=cache))
            if self.saved_hooks:
                stack.enter_context(saved_tensors_hooks(*self.saved_hooks))
            yield

    def seed_of(self, layer: int, micro: int) -> int:
        """See Note [Random numbers of a pipeline]."""
        return _mixed(_mixed(_mixed(self.seed) + layer) + micro)


def _mixed(x: int) -> int:
    """splitmix64: every bit of the result depends on all of x's."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _leaf(x: Tensor, wanted: bool) -> Tensor:
    return x.detach().requires_grad_() if wanted else x


@dataclass
class _Graph:
    """What a backward starts from, and where it ends."""

    inputs: list[Tensor]  # leaves, or what needs no gradient
    outputs: list[Tensor] = field(default_factory=list)
    popped: dict[Key, Tensor] = field(default_factory=dict)
    stashed: dict[Key, Tensor] = field(default_factory=dict)


@dataclass
class _Kept:
    """What a checkpointed forward leaves for its recompute."""

    packet: Packet
    versions: list[tuple[Tensor, int]]  # of what came in when it did
    popped: dict[Key, tuple[Tensor | None, bool, bool]] = field(default_factory=dict)


def _span(x: Tensor) -> tuple[int, int]:
    """From where to where in its storage a tensor's elements lie, in bytes."""
    begin = x.storage_offset()
    end = begin + sum((n - 1) * abs(step) for n, step in zip(x.shape, x.stride())) + 1
    return begin * x.element_size(), end * x.element_size()


def _overlaps(x: Tensor, y: Tensor) -> bool:
    """Of two tensors of one storage."""
    if x is y:
        return True
    if not (x.numel() and y.numel()):
        return False
    (a, b), (c, d) = _span(x), _span(y)
    return a < d and c < b


def _shared(outgoing: Sequence[Tensor], arrived: Sequence[tuple[Tensor, int]]) -> list[bool]:
    """For each value that leaves a stage whether its memory is that of another, or of one that was shared when it came."""
    if len(outgoing) < 2 and not arrived:
        return [False] * len(outgoing)
    by_storage: dict[int, list[Tensor]] = {}
    for x in (*outgoing, *(x for x, _ in arrived)):
        if x.layout is strided:
            by_storage.setdefault(x._storage_ptr(), []).append(x)
    return [x.layout is strided and sum(_overlaps(x, y) for y in by_storage[x._storage_ptr()]) > 1 for x in outgoing]


def _alone(dx: Tensor | None) -> Tensor | None:
    """A gradient that holds no more than itself: those of `cat` are views of one tensor, which would wait with each of them."""
    return dx.clone() if dx is not None and dx.layout is strided and dx._storage_bytes() > dx.nbytes + 512 else dx


class _Ends:
    """Where a backward through a graph begins, and the leaves where it ends, besides parameters."""

    def __init__(self, graph: _Graph, grads: Grads, skip_grads: SkipGrads) -> None:
        pairs = [(y, dy) for y, dy in zip(graph.outputs, grads) if dy is not None and y.requires_grad]
        pairs += [(y, dy) for key, y in graph.stashed.items() if y.requires_grad and (dy := skip_grads.get(key)) is not None]
        self.roots, self.of_roots = [y for y, _ in pairs], [dy for _, dy in pairs]
        self.wanted = [x.requires_grad for x in graph.inputs]
        self.keys = [key for key, x in graph.popped.items() if x.requires_grad]
        self.leaves = [*(x for x in graph.inputs if x.requires_grad), *(graph.popped[key] for key in self.keys)]

    def sorted(self, found: Sequence[Tensor | None]) -> tuple[Grads, SkipGrads]:
        """Gradients of `leaves` as those of the inputs and those of skip tensors."""
        arrived = map(_alone, found)
        return [next(arrived) if wanted else None for wanted in self.wanted], {key: next(arrived) for key in self.keys}


class SkipPost(Protocol):
    """How skip tensors come and go, each with whether its gradient is wanted, and whether its memory is shared."""

    def send_skip(self, key: Key, micro: int, tensor: Tensor | None, wanted: bool, shared: bool, /) -> None:
        """Sends one to the stage that pops it."""

    def take_skip(self, key: Key, micro: int, /) -> tuple[Tensor | None, bool, bool]:
        """Waits for the one that this stage pops."""


class _Store:
    """Where skippable layers of one run of a stage stash and pop; see `Stage`.

    Attributes:
        leaving: what goes to other stages when the run is over.
        shared: tensors whose memory another value has, too, with their versions.
    """

    def __init__(self, stage: Stage, micro: int, packet: Packet, graph: _Graph, kept: _Kept | None, again: bool) -> None:
        self.stage, self.micro, self.graph, self.kept, self.again = stage, micro, graph, kept, again
        self.here: dict[Key, Tensor | None] = {}
        self.leaving: dict[Key, Tensor | None] = {}
        self.shared = [(x, _C.version_of(x)) for x, shared in zip(_tensors(packet.value), packet.shared) if shared]

    def stash(self, namespace: Namespace | None, name: str, tensor: Tensor | None, /) -> None:
        key = (namespace, name)
        here = self.stage.index
        if self.stage.settings.skips.get(key, (here, here))[1] == here:
            self.here[key] = tensor
            return
        if tensor is not None:
            self.graph.stashed[key] = tensor
        self.leaving[key] = tensor

    def pop(self, namespace: Namespace | None, name: str, /) -> Tensor | None:
        key = (namespace, name)
        here = self.stage.index
        if self.stage.settings.skips.get(key, (here, here))[0] == here:
            return self.here.pop(key)
        tensor, wanted, shared = self._arrived(key)
        if tensor is None:
            return None
        if shared:
            self.shared.append((tensor, _C.version_of(tensor)))
        leaf = self.graph.popped[key] = _leaf(tensor, wanted)
        return _C.stand_in(leaf) if wanted else leaf  # a layer may work in place

    def _arrived(self, key: Key) -> tuple[Tensor | None, bool, bool]:
        if self.kept and self.again:
            return self.kept.popped[key]
        arrived = self.stage.post.take_skip(key, self.micro)
        if self.kept:
            self.kept.popped[key] = arrived
            if arrived[0] is not None:
                self.kept.versions.append((arrived[0], _C.version_of(arrived[0])))
        return arrived

    def send(self, outputs: Sequence[Tensor]) -> tuple[bool, ...]:
        """Sends the skip tensors to the stages that pop them; returns which outputs share their memory."""
        stashed = [x for x in self.leaving.values() if x is not None]
        shared = iter(_shared([*outputs, *stashed], self.shared))
        of_outputs = tuple(next(shared) for _ in outputs)
        for key, x in self.leaving.items():
            if x is None:
                self.stage.post.send_skip(key, self.micro, None, False, False)
            else:
                wanted = self.stage.wants_grad(x, self.kept is not None, self.graph)
                self.stage.post.send_skip(key, self.micro, x.detach(), wanted, next(shared))
        return of_outputs

    def check_shared(self, layer: str) -> None:
        """Refuses what `layer` wrote to: see Note [Memory that two values share]."""
        if all(_C.version_of(x) == version for x, version in self.shared):
            return
        raise _C.AutogradError(
            f"stage {self.stage.index}, micro-batch {self.micro}: layer '{layer}' works in-place on memory that another value has, too "
            "(the batch, which requires grad, or a second output or skip tensor of an earlier stage), whose gradient would be wrong; have "
            "the layer not work in-place, or hand on a clone()"
        )


class Stage:
    """Consecutive layers of a model, and what they leave in one call.

    Args:
        index: of the stage.
        first: index of its first layer in the model.
        layers: names and modules.
        checkpointed: the micro-batches whose forward keeps its inputs alone.
        loss: of the last stage: called with micro-batch and output, what it returns takes the output's place.
        extra: parameters that the loss has.
        post: carries skip tensors between stages.

    Attributes:
        grads: of `parameters`, summed in the order of the backwards.
        drew: whether a layer drew a random number.
        keeps: whether backwards leave what another one needs.
    """

    def __init__(
        self,
        index: int,
        first: int,
        layers: Layers,
        settings: Settings,
        post: SkipPost,
        checkpointed: frozenset[int] = frozenset(),
        loss: Callable[[int, Any], Tensor] | None = None,
        extra: Sequence[Parameter] = (),
    ) -> None:
        self.index, self.first, self.layers, self.settings, self.loss = index, first, layers, settings, loss
        self.post, self.checkpointed = post, checkpointed
        every = [*(p for _, layer in layers for p in layer.parameters()), *extra]
        self.parameters = list({id(p): p for p in every if p.requires_grad}.values())
        self.drew = self.keeps = False
        self.forget_grads()
        self._graphs: dict[int, _Graph] = {}
        self._kept: dict[int, _Kept] = {}
        self._later: dict[int, Any] = {}  # backwards whose first half is done

    def forget_grads(self) -> None:
        """Lets the sums of gradients begin anew."""
        self.grads: Grads = [None] * len(self.parameters)
        self._owned = [False] * len(self.parameters)  # sums, which nobody else has

    def wants_grad(self, output: Tensor, checkpointing: bool, graph: _Graph) -> bool:
        """Whether what made this tensor has a use for its gradient. Where nothing is recorded: whether it might have."""
        if not self.settings.records or not checkpointing:
            return bool(self.settings.records and output.requires_grad)
        if not output.is_floating_point():
            return False
        return bool(self.parameters) or any(x.requires_grad for x in (*graph.inputs, *graph.popped.values()))

    def forward(self, micro: int, packet: Packet) -> Packet:
        """The outputs for a micro-batch."""
        checkpointing = micro in self.checkpointed
        records = self.settings.records and not checkpointing
        kept = _Kept(packet, [(x, _C.version_of(x)) for x in _tensors(packet.value)]) if checkpointing and self.settings.records else None
        graph = _Graph([_leaf(x, wanted and self.settings.records) for x, wanted in zip(_tensors(packet.value), packet.wanted)])
        with self.settings.entered(records), use_flags(checkpointing=checkpointing):
            store = _Store(self, micro, packet, graph, kept, again=False)
            output = self._run(packet.value, micro, graph, store)
        outputs = list(_tensors(output))
        shared = store.send(outputs)
        wanted = tuple(self.wants_grad(y, kept is not None, graph) for y in outputs)
        if kept is not None:
            self._kept[micro] = kept
        elif records:
            graph.outputs = outputs
            self._graphs[micro] = graph
        return Packet(_with(output, iter([y.detach() for y in outputs])), wanted, shared)

    def recompute(self, micro: int) -> None:
        """Makes the graph of a micro-batch whose forward was checkpointed."""
        kept = self._kept.get(micro) if self.keeps else self._kept.pop(micro, None)
        if kept is None:
            raise RuntimeError(f"stage {self.index} keeps nothing of micro-batch {micro}; expected a checkpointed forward before")
        self._check_versions(kept, micro)
        graph = _Graph([_leaf(x, wanted) for x, wanted in zip(_tensors(kept.packet.value), kept.packet.wanted)])
        with self.settings.entered(records=True), use_flags(recomputing=True):
            output = self._run(kept.packet.value, micro, graph, _Store(self, micro, kept.packet, graph, kept, again=True))
        graph.outputs = list(_tensors(output))
        self._graphs[micro] = graph

    def _check_versions(self, kept: _Kept, micro: int) -> None:
        if all(_C.version_of(x) == version for x, version in kept.versions):
            return
        raise _C.AutogradError(
            f"stage {self.index}, micro-batch {micro}: its input was changed by an in-place operation after the forward began, so it can "
            "not be recomputed; have the stage's first layer not work in-place, put it at the end of the stage before, or use "
            "checkpoint='never'"
        )

    def _run(self, value: Any, micro: int, graph: _Graph, store: _Store) -> Any:
        if _C.is_grad_enabled():
            value = _with(value, iter([_C.stand_in(x) if x.requires_grad else x for x in graph.inputs]))  # a layer may work in place
        generator = _C.current_generator()
        name = "input"
        with use_store(store):
            try:
                for at, (name, layer) in enumerate(self.layers, self.first):  # noqa: B007 (errors name it)
                    generator.manual_seed(self.settings.seed_of(at, micro))
                    value = layer(value)
                    if store.shared:
                        store.check_shared(name)
                    self.drew = self.drew or _C.draws_of(generator) > 0
            except Cancelled:
                raise
            except BaseException as error:
                annotate(error, f"in layer '{name}'")
                raise
        if self.settings.check is not None:
            self.settings.check(value, f"output of partition {self.index}, layer '{name}'")
        if self.loss is not None:
            generator.manual_seed(self.settings.seed_of(_LOSS, micro))
            try:
                value = self.loss(micro, value)
            except BaseException as error:
                annotate(error, "in the loss")
                raise
            self.drew = self.drew or _C.draws_of(generator) > 0
        return value

    def backward(self, micro: int, grads: Grads, skip_grads: SkipGrads) -> tuple[Grads, SkipGrads]:
        """Adds a micro-batch's gradients of the parameters; returns those of its inputs and of the skip tensors that it popped."""
        again = self.keeps and micro not in self.checkpointed  # else it is made from what is kept
        graph = self._graphs[micro] if again else self._graphs.pop(micro)
        ends = _Ends(graph, grads, skip_grads)
        found: Sequence[Tensor | None] = [None] * (len(ends.leaves) + len(self.parameters))
        if ends.roots and found:
            # Hooks of parameters run where the micro-batches' gradients have been added up.
            wanted = [*ends.leaves, *self.parameters]
            found = run_backward(ends.roots, ends.of_roots, again, False, wanted, False, True, leaf_hooks=False)
        self._add(found[len(ends.leaves) :])
        return ends.sorted(found)

    def backward_inputs(self, micro: int, grads: Grads, skip_grads: SkipGrads) -> tuple[Grads, SkipGrads]:
        """The first half of `backward`: what it returns. `backward_parameters` adds the rest."""
        graph = self._graphs.pop(micro)
        ends = _Ends(graph, grads, skip_grads)
        found: Sequence[Tensor | None] = [None] * len(ends.leaves)
        if ends.roots:
            both = _C.SplitBackward(ends.roots, ends.of_roots, ends.leaves, self.parameters)
            found = both.first()
            self._later[micro] = both
        return ends.sorted(found)

    def backward_parameters(self, micro: int) -> None:
        """The second half of `backward`."""
        later = self._later.pop(micro, None)
        if later is not None:
            self._add(later.second())

    def _add(self, grads: Sequence[Tensor | None]) -> None:
        for k, dp in enumerate(grads):
            total = self.grads[k]
            if dp is None:
                continue
            if total is None:
                self.grads[k] = dp
            elif self._owned[k]:
                total.add_(dp)
            else:  # the first may be shared: the gradient of a sum is one tensor for both of its terms
                self.grads[k], self._owned[k] = total + dp, True


class Cancelled(BaseException):
    """Another rank has failed; ends a worker from inside of its action."""


def annotate(error: BaseException, note: str) -> None:
    """Says where an error happened; never raises."""
    try:
        write_note(error, note, None, error.args)
    except Exception:
        return
