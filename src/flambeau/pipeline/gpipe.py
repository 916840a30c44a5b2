"""`GPipe`: a Sequential cut into partitions, which work on micro-batches at the same time, behind the face of an ordinary module.

    forward    micro-batches in, through all partitions (F actions of the "gpipe" schedule), outputs put together
    backward   one node of the graph, whose inputs are the batch's tensors and all parameters, runs the other actions (R, B)
               and returns the gradients; so `.grad`, hooks and `autograd.grad` are the engine's, as with any function

What ranks do is in `_executor.py`, what a partition does with a micro-batch in `_stage.py`.

The node can be run again where the graph was retained (what is recomputed takes parameters as they are then), and not be differentiated
itself. Gradients go to parameters and to the batch: another tensor that a layer uses and that requires grad gets none.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd import Function
from flambeau.nn import Module, ModuleList, Sequential
from flambeau.nn._changes import parse_to
from flambeau.nn._errors import kind_of
from flambeau.pipeline._cut import Split
from flambeau.pipeline._executor import Run, draw, seed_here
from flambeau.pipeline._lower import MODES
from flambeau.pipeline._microbatch import check, gather, scatter
from flambeau.pipeline._stage import Grads, Packet, Settings
from flambeau.pipeline.batchnorm import DeferredBatchNorm, convert
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.skip import layout, verify_skippables
from flambeau.utils.checkpoint import _tensors, _with

_HINT = """

If your model is still under development, its optimal balance would change
frequently. In this case, we recommend to have it computed from the model:

  from flambeau.pipeline import GPipe
  from flambeau.pipeline.balance import balance_by_time

  partitions = 4
  sample = flambeau.empty(...)
  balance = balance_by_time(partitions, model, sample)
"""
_DENIED = "denied to move parameters and buffers, because GPipe should manage device placement"


@lru_cache(maxsize=64)
def schedule_of(name: str, ranks: int, micro_batches: int, chunks: int, checkpoint: str) -> Schedule:
    """A schedule by its name, with recomputes. Made once: the check of a large one takes longer than a small model."""
    options = {"chunks": chunks} if name in ("interleaved", "looped-bfs") else {}
    return Schedule.make(name, ranks, micro_batches, **options).with_recompute(checkpoint)


def packets_of(batch: Any, pieces: Sequence[Any]) -> list[Packet]:
    """Micro-batches as the first stage takes them."""
    wanted = tuple(bool(x.requires_grad) for x in _tensors(batch))
    shared = wanted if _C.is_grad_enabled() else ()  # it is the caller's memory, too
    return [Packet(_with(piece, iter([x.detach() for x in _tensors(piece)])), wanted, shared) for piece in pieces]


@contextmanager
def committing(model: Module) -> Iterator[None]:
    """Its deferred batch norms take over what they saw inside, unless that fails."""
    norms = [layer for layer in model.modules() if isinstance(layer, DeferredBatchNorm)]
    try:
        yield
    except BaseException:
        for norm in norms:
            norm.discard()
        raise
    for norm in norms:
        norm.commit()


# ------------------------------------------------------------------------------------------------------------------------------ checks


def verify_row(module: Any, what: str) -> None:
    """Checks that a Sequential is no more than its layers one after the other: a pipeline calls these and nothing around them.

    Raises:
        TypeError: it has a forward of its own.
        ValueError: it has hooks.
    """
    if "forward" in vars(module) or type(module).forward not in (Sequential.forward, Split.forward):
        raise TypeError(
            f"{what} is a {type(module).__name__} with a forward of its own, but a pipeline calls its layers one after the other; "
            "expected an nn.Sequential, or flambeau.pipeline.Pipeline(module, ..., sample=), which cuts modules of any kind"
        )
    if module._fl_has_hooks():
        raise ValueError(f"{what} has hooks, but a pipeline calls its layers and not it; register them on its layers, or on the pipeline")


def verify_module(module: Any) -> None:
    """Checks that a model can be cut: a Sequential whose children are different and share no parameters.

    Raises:
        TypeError: it is no Sequential, or one with a forward of its own.
        ValueError: a child or a parameter is in it twice, or it has hooks.
    """
    if not isinstance(module, Sequential):
        raise TypeError(
            f"module must be nn.Sequential to be partitioned, got {kind_of(module)}; flambeau.pipeline.Pipeline takes modules of any kind"
        )
    if len(list(module.named_children())) != len(module):
        raise ValueError("module with duplicate children is not supported")
    of_children = [len(list(child.parameters())) for child in module.children()]
    if len(list(module.parameters())) != sum(of_children):
        raise ValueError("module with duplicate parameters in distinct children is not supported")
    verify_row(module, "module")


def verify_balance(module: Sequential, balance: Sequence[int]) -> None:
    """Checks that a balance gives each of its partitions a layer, and all layers to partitions.

    Raises:
        ValueError: it does not.
    """
    if len(module) != sum(balance):
        raise ValueError(f"module and sum of balance have different length (module: {len(module)}, sum of balance: {sum(balance)}){_HINT}")
    if any(n <= 0 for n in balance):
        raise ValueError(f"all balance numbers must be positive integer (balance: {list(balance)}){_HINT}")


def _check_options(chunks: int, checkpoint: str) -> None:
    if chunks <= 0:
        raise ValueError("number of chunks must be positive integer")
    if checkpoint not in MODES:
        raise ValueError("checkpoint is not one of 'always', 'except_last', or 'never'")


def _devices(devices: Iterable[Any] | None, partitions: int) -> list[Any]:
    """Where partitions are. By default all GPUs, and without one the CPU as often as it takes. Each is tried, before anything is moved."""
    if devices is None:
        from flambeau import cuda

        count = cuda.device_count()
        return [_C.device("cuda", i) for i in range(count)] if count else [_C.device("cpu")] * partitions
    places = [_C.device(d) for d in devices]
    for place in places[:partitions]:
        ops.empty((0,), device=place)
    return places


def partitions_of(module: Sequential, balance: Sequence[int]) -> list[Sequential]:
    """The model's children, under their names, in as many Sequentials as there are numbers in `balance`."""
    children = iter(module.named_children())
    return [Sequential(OrderedDict(next(children) for _ in range(n))) for n in balance]


# ---------------------------------------------------------------------------------------------------------------------------- backward


class _Pipelined(Function):
    """The whole pipeline as one node."""

    @staticmethod
    def forward(ctx: Any, run: Run, outputs: list[Tensor], sizes: Any, wanted: list[bool], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.run, ctx.sizes = run, sizes
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(y for y, w in zip(outputs, wanted) if not w))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        if _C.is_grad_enabled():
            raise NotImplementedError("GPipe: gradients of gradients (create_graph=True) are not supported; use the model without it")
        run: Run | None = ctx.run
        with run.lock if run is not None else nullcontext():
            if run is None or ctx.run is None:  # or while this thread waited
                raise _C.AutogradError("GPipe: backward of this output was called before and left nothing for another; call forward again")
            keep = _C.keeps_graph()
            if not keep:
                ctx.run = None
            columns = [_split(dy, sizes) for dy, sizes in zip(grads, ctx.sizes)]
            run.output_grads = {i: [column[i] for column in columns] for i in range(len(run.packets))}
            run.run_backward(keep)
            return (None, None, None, None, *run.batch_grads(), *run.grads)


def _split(dy: Tensor | None, sizes: list[int]) -> Grads:
    """The gradient of an output, by micro-batch."""
    if dy is None:
        return [None] * len(sizes)
    return list(dy.split(sizes)) if len(sizes) > 1 else [dy]


def connected(run: Run, batch: Any) -> Any:
    """The outputs of a run put together, with a history if they have one."""
    packets = [run.outputs[i] for i in range(len(run.packets))]
    output = gather([packet.value for packet in packets])
    wanted = [any(column) for column in zip(*(packet.wanted for packet in packets))]
    if not any(wanted):
        return output
    sizes = [[int(y.shape[0]) for y in column] for column in zip(*(_tensors(packet.value) for packet in packets))]
    run.outputs.clear()
    tracked = _Pipelined.apply(run, list(_tensors(output)), sizes, wanted, *_tensors(batch), *run.parameters)
    return _with(output, iter(tracked))


# ------------------------------------------------------------------------------------------------------------------------------ module


class GPipe(Module):
    """A Sequential whose partitions work at the same time, each on another micro-batch.

    `y = model(x); loss(y, target).backward(); optimizer.step()`, as with any module. Layers must not mix the samples of a batch
    (see `deferred_batch_norm` for batch norm), take one argument, and return a Tensor or a tuple of Tensors where a partition ends.

    Args:
        module: the Sequential. Its layers are used, not copied.
        balance: how many layers each partition has.
        devices: where the partitions are; by default all GPUs, and without one the CPU for each.
        chunks: into how many micro-batches a batch is cut. There may be fewer: 5 samples in 4 chunks are 2, 2 and 1.
        checkpoint: whose activations are computed again in backward instead of kept: "always" of all micro-batches,
            "except_last" of all but the last, "never".
        deferred_batch_norm: whether batch norms get running statistics of the whole batch instead of its micro-batches.

    Attributes:
        balance, devices, chunks, checkpoint: as given; the last two may be changed at any time.
        partitions: a ModuleList of Sequentials.

    Shape: as the module's; dim 0 is the batch.

    Raises:
        TypeError, ValueError, IndexError: something about the arguments; nothing was changed.

    Source: Huang et al. 2019 (GPipe), Kim et al. 2020 (torchgpipe).

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.gpipe import GPipe
        >>> model = fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.Linear(8, 2))
        >>> pipe = GPipe(model, balance=[2, 1], chunks=4)
        >>> pipe(fl.ones(8, 4)).sum().backward()
        >>> model[0].weight.grad.shape
        flambeau.Size([8, 4])
        >>> list(pipe.state_dict())
        ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    balance: list[int]
    devices: list[Any]
    chunks: int
    checkpoint: str
    partitions: ModuleList

    def __init__(
        self,
        module: Sequential,
        balance: Iterable[int] | None = None,
        *,
        devices: Iterable[Any] | None = None,
        chunks: int = 1,
        checkpoint: str = "except_last",
        deferred_batch_norm: bool = False,
    ) -> None:
        super().__init__()
        chunks, checkpoint = int(chunks), str(checkpoint)
        if balance is None:
            raise ValueError(f"balance is required{_HINT}")
        sizes = list(balance)
        _check_options(chunks, checkpoint)
        verify_module(module)
        verify_skippables(module)
        places = _devices(devices, len(sizes))
        verify_balance(module, sizes)
        if len(sizes) > len(places):
            raise IndexError(f"too few devices to hold given partitions (devices: {len(places)}, partitions: {len(sizes)})")
        if deferred_batch_norm:
            module = convert(module)  # type: ignore[assignment]
        self.balance, self.devices = sizes, places[: len(sizes)]
        self.chunks, self.checkpoint = chunks, checkpoint
        self.partitions = ModuleList([part.to(place) for part, place in zip(partitions_of(module, sizes), self.devices)])
        self._skips = layout(self.partitions)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        """The model's output for a batch, a Tensor or a tuple of Tensors."""
        check(input, "input of the model")
        _check_options(self.chunks, self.checkpoint)
        if not self.balance:
            return input
        for j, part in enumerate(self.partitions):
            verify_row(part, f"partitions[{j}]")
        packets = packets_of(input, scatter(input, self.chunks, "chunk"))
        mode = self.checkpoint if self.training else "never"
        wanted = any(packets[0].wanted) or any(p.requires_grad for p in self.parameters())
        settings = Settings(seed_here(), _C.is_grad_enabled() and wanted, self._skips, check)
        schedule = schedule_of("gpipe", len(self.balance), len(packets), 1, mode)
        run = Run(schedule, [list(part.named_children()) for part in self.partitions], packets, settings)
        with committing(self):
            run.run("F")
        draw(run)
        return connected(run, input)

    # ---- a sequence of the layers

    def __len__(self) -> int:
        return sum(len(part) for part in self.partitions)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Module]:
        for part in self.partitions:
            yield from part.children()

    def __getitem__(self, index: int) -> Module:
        if isinstance(index, slice):
            raise TypeError("GPipe: an index is expected, not a slice; use list(model)[start:stop]")
        return list(self)[index]

    # ---- placement

    def to(self, *args: Any, **kwargs: Any) -> GPipe:
        """Casts to a dtype. Devices are the constructor's matter.

        Raises:
            TypeError: a device, or a tensor, which has one, is given.
        """
        if parse_to(args, kwargs)[0] is not None:
            raise TypeError(_DENIED)
        return super().to(*args, **kwargs)

    def cuda(self, device: Any = None) -> GPipe:
        """Denied: devices are the constructor's matter."""
        raise TypeError(_DENIED)

    def cpu(self) -> GPipe:
        """Denied: devices are the constructor's matter."""
        raise TypeError(_DENIED)

    # ---- state: keys are those of the wrapped model, so that they do not depend on the balance

    def _names(self) -> dict[str, int]:
        return {name: j for j, part in enumerate(self.partitions) for name, _ in part.named_children()}

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The state of the wrapped model, under its names."""
        if args:  # the older positional spelling
            destination, prefix, keep_vars = (*args, destination, prefix, keep_vars)[:3]
        own: Any = super().state_dict(prefix=prefix, keep_vars=keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        inner = re.compile(re.escape(prefix) + r"partitions\.\d+\.")
        destination.update((inner.sub(lambda _: prefix, key, count=1), value) for key, value in own.items())
        if hasattr(destination, "_metadata"):
            for key, value in own._metadata.items():
                if not (key + ".").startswith(f"{prefix}partitions.") or inner.match(key):
                    destination._metadata[inner.sub(lambda _: prefix, key, count=1)] = value
        return destination

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Loads what `state_dict` gave for any balance, the wrapped model's own, or one with `partitions.{j}.` before its names."""
        metadata = getattr(state_dict, "_metadata", None)
        if metadata is not None:  # names of layers decide which version of each was saved
            renamed = OrderedDict(state_dict)
            renamed._metadata = {**metadata, **{self._inner(key + ".")[:-1]: value for key, value in metadata.items() if key}}  # type: ignore[attr-defined]
            state_dict = renamed
        inner = re.compile(r"(?<![\w.])partitions\.\d+\.")
        try:
            result = super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:
            raise RuntimeError(inner.sub("", str(error))) from None
        result.missing_keys[:] = [inner.sub("", key) for key in result.missing_keys]
        return result

    def _inner(self, key: str) -> str:
        """A key of the wrapped model, or of another balance, as it is here."""
        names = self._names()
        found = re.match(r"partitions\.\d+\.(?=([^.]+)\.)", key)
        if found and found[1] in names and "partitions" not in names:
            key = key[found.end() :]
        name = key.partition(".")[0]
        return f"partitions.{names[name]}.{key}" if name in names else key

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        own = {key: value for key, value in state_dict.items() if key.startswith(prefix)}
        for key in own:
            del state_dict[key]
        state_dict.update((prefix + self._inner(key[len(prefix) :]), value) for key, value in own.items())
        super()._load_from_state_dict(state_dict, prefix, *args)
