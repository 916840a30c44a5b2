"""A batch that looks like one of its samples: what functions see inside of `vmap`.

    Batched x: shape [3]          value: [64, 3]        64 samples of shape [3], along axis 0

The tensor that the core sees has the sample's shape and type, and lies on the meta device, so that nothing can read a number from it.
Rules (`_rules_*.py`) compute results for all samples by one call on the values; from the op table come those of element-wise ops,
reductions, and whatever takes axes by name (`batch` in docs/op-table.md). What has no rule is called once per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._warn import warn
from flambeau.func._levels import (
    Level,
    Tensors,
    Wrapped,
    dtype_of,
    highest,
    may_adopt,
    replaced,
    shape_of,
    twin,
    wrapped_in,
)
from flambeau.func._pullback import plain_parts, pullback
from flambeau.func._table import Overload, bound, call_of, overloads, written_first
from flambeau.func._tree import flatten, tree_map

Rule = Callable[..., Any]
_rules: dict[str, Rule] = {}
_composed: dict[str, Rule] = {}
_raw_rules: dict[str, Rule] = {}
_warned: set[str] = set()
_LIKE_FIRST = ("index", "source", "src")  # arguments that have as many axes as the first one


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers `f(level, **arguments)`, by the table's names, which returns values or NotImplemented."""

    def register(function: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, function))
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """What `rule` registered for an op."""
    return _rules.get(name)


def composed(*names: str) -> Callable[[Rule], Rule]:
    """Registers `f(**arguments)`, by the table's names, which computes the result of other ops on batches."""

    def register(function: Rule) -> Rule:
        _composed.update(dict.fromkeys(names, function))
        return function

    return register


def raw_rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers `f(level, args, kwargs)` for a call that is no op of the table; it returns what the caller gets."""

    def register(function: Rule) -> Rule:
        _raw_rules.update(dict.fromkeys(names, function))
        return function

    return register


class Batched(Wrapped):
    """One tensor per sample of a `vmap`."""

    _value: Tensor  # [batch, *shape]
    _level: BatchLevel
    _repeats: bool  # it was made of nothing but copies of one value for all samples; ask `BatchLevel.repeats`

    def _parts(self) -> list[Tensor]:
        return [self._value]

    def _of(self, parts: Sequence[Tensor]) -> Batched:
        made = self._level.wrap(parts[0])
        made._repeats = self._repeats
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Batched(level={self._level.number}, samples={self._level.size}, value={self._value!r})"

    def __bool__(self) -> bool:
        raise _refused("It looks like you're attempting to use a Tensor in some data-dependent control flow", "where()")

    def __float__(self) -> float:
        raise _refused("a tensor is made a Python number", "ops on the tensor")

    __int__ = __index__ = __complex__ = __float__  # type: ignore[assignment]

    def __len__(self) -> int:
        sizes = shape_of(self)
        if not sizes:
            raise TypeError("len() of a 0-d tensor")
        return int(sizes[0])

    def __contains__(self, item: Any) -> bool:
        raise _refused("`in` compares values", "(x == item).any()")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refused("a tensor is made an array", "ops on the tensor")

    def numpy(self, *, force: bool = False) -> Any:
        """Refused: a batch has no single value."""
        raise _refused("a tensor is made an array", "ops on the tensor")

    def tolist(self) -> Any:
        """Refused: a batch has no single value."""
        raise _refused("a tensor is made a list", "ops on the tensor")

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Refused: gradients inside of a vmap are `func.grad`'s."""
        raise _C.AutogradError("vmap: backward() inside of the function; use func.grad or func.vjp there, or call backward() on the result")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        raise _refused("a tensor is copied with Python's deepcopy", "clone()")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _refused("a tensor is pickled", "the result of the vmap")


def _refused(what: str, instead: str) -> RuntimeError:
    return RuntimeError(f"vmap: {what}, but inside of vmap it stands for one value per sample; use {instead} instead")


class BatchLevel(Level):
    """A running `vmap`."""

    size: int

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness
        self._follows = False  # whether it is known which batches repeat one value

    # ------------------------------------------------------------------------------------- values

    def wrap(self, value: Tensor) -> Batched:
        """The batch along axis 0 of value."""
        shape, dtype = shape_of(value)[1:], dtype_of(value)
        out: Batched = Tensor._make_subclass(Batched, ops.empty(shape, dtype=dtype, device="meta"), False)
        out._level, out._value, out._sizes, out._kind, out._repeats = self, value, shape, dtype, False
        return out

    def repeated(self, value: Tensor) -> Batched:
        out = self.wrap(value)
        out._repeats = self._follows = True
        return out

    def holds(self, x: Any) -> bool:
        """True if x is a batch of this level."""
        return isinstance(x, Batched) and x._level is self

    def repeats(self, x: Any) -> bool:
        """True if x is known to be the same for all samples: a stand-in of what is no batch, or computed of such alone."""
        return self._follows and isinstance(x, Batched) and x._level is self and x._repeats

    def full(self, x: Tensor) -> Tensor:
        """[batch, *shape], whether or not x is a batch."""
        if isinstance(x, Batched) and x._level is self:
            return x._value
        return ops.expand(x, (self.size, *shape_of(x)))

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, Tensor):
            return self.wrap(result)
        return tree_map(lambda v: self.wrap(v) if isinstance(v, Tensor) else v, result)

    def pullback(self, ys: Tensors, xs: Tensors, vs: Tensors, keep: bool, retain: bool, others: Tensors) -> list[Tensor]:
        """One backward for the batch, whose stand-ins have a part for each sample; or one per sample where they were made outside."""
        if any(self.holds(x) for x in xs):
            inner = [x._value if isinstance(x, Batched) and self.holds(x) else x for x in xs]
            found = pullback([self.full(y) for y in ys], inner, [self.full(v) for v in vs], keep, retain, others)
            return [self.wrap(g) if self.holds(x) else g for g, x in zip(found, xs, strict=True)]
        rows = []
        for i in range(self.size):
            sample = _Sample(self, i)
            rows.append(pullback([sample(y) for y in ys], xs, [sample(v) for v in vs], keep, others=others))
        if not rows:
            return [self.wrap(ops.empty((0, *shape_of(x)), dtype=dtype_of(x))) for x in xs]
        return [self.wrap(ops.stack(list(column))) for column in zip(*rows, strict=True)]

    # ------------------------------------------------------------------------------------- calls

    def run(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not args and _in_place(name):
            args, kwargs = written_first(kwargs)
        if self._follows and self.size and _writes(name) and not self.holds(args[0]) and self._all_repeat((*args, *kwargs.values())):
            if _C.is_grad_enabled() and any(part.requires_grad for part in plain_parts(wrapped_in((*args, *kwargs.values())))):
                args = (self._adopted_as(name, args[0]), *args[1:])  # the same for all, but each sample has a gradient of its own
                return self.run(name, args, kwargs)
            sample = _Sample(self, 0)  # what is written is the same for all, who share what it is written to
            return call_of(name)(*replaced(args, sample), **dict(zip(kwargs, replaced(kwargs.values(), sample), strict=True)))
        result = self._called(name, args, kwargs)
        if self._follows:
            self._follow(name, args, kwargs, result)
        return result

    def _adopted_as(self, name: str, x: Any) -> Batched:
        """A tensor that samples share, to which what repeats is written: a copy for each of them, of which it gets one in the end."""
        if not may_adopt(x):
            self.check_written(name, x)
        inner = twin(x)
        copies = ops.clone(ops.expand(inner, (self.size, *shape_of(x))))
        return self.adopt(x, inner, Batched, _value=copies, _repeats=True)  # type: ignore[no-any-return]

    def kept(self, x: Any) -> Any:
        """x as it is now, where it will be a plain tensor again."""
        return self.wrap(x._value) if any(x is one for one, _ in self._adopted) else x

    def given_back(self, x: Tensor, held: Mapping[str, Any]) -> None:
        if held["_repeats"]:
            x.copy_(ops.select(held["_value"], 0, 0).detach())

    def _all_repeat(self, values: Sequence[Any]) -> bool:
        return all(x._repeats for x in wrapped_in(values) if isinstance(x, Batched) and x._level is self)

    def _follow(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Marks results of nothing but what repeats."""
        draws = any(entry.draws for entry in overloads(name) or overloads(name.rstrip("_")))
        read = args[:1] if name.endswith("_as") else (*args, *kwargs.values())  # of the other one the shape, or the type
        if not draws and self._all_repeat(read):
            for y in flatten(result)[0]:
                if isinstance(y, Batched) and y._level is self:
                    y._repeats = True
        elif _writes(name) and self.repeats(args[0]):
            self._follows = False  # so may have been what it is a view of

    def _called(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if raw := _raw_rules.get(name):
            result = raw(self, args, kwargs)
            return self.loop(name, args, kwargs) if result is NotImplemented else result
        known = overloads(name)
        if known and known[0].batch == "each":
            result = self.each(name, args, kwargs)
        else:
            found = bound(name, args, kwargs) if known else None
            if found and not _in_place(name) and (other := _composed.get(found[0].name)):
                result = other(**found[1])
                return self.loop(name, args, kwargs) if result is NotImplemented else result
            result = NotImplemented if found is None else self._by_rule(name, *found)
            if result is NotImplemented and found is not None:
                result = self._of_numbers(name, *found)
            if result is NotImplemented and found is not None and _in_place(name):
                result = self._copied_back(name, args, kwargs)
        if result is NotImplemented:
            return self.loop(name, args, kwargs)
        return args[0] if _in_place(name) else self._wrapped(result)

    def ended(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise RuntimeError(f"{name}: a tensor of a vmap that has returned; return what is needed from the function instead of storing it")

    def _by_rule(self, name: str, entry: Overload, given: dict[str, Any]) -> Any:
        own = _rules.get(entry.name + "_" if _in_place(name) and not _in_place(entry.name) else entry.name)
        if own:
            return own(self, **given)
        if _in_place(name):
            return NotImplemented
        if entry.batch == "axes":
            return self.axes(name, entry, given)
        if entry.batch == "leading":
            return self.leading(name, given)
        return NotImplemented

    def each(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Element-wise: samples get axes of size 1 in front until all operands have as many axes."""
        call = call_of(name)
        tensors: list[Any] = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if len(tensors) == 1:
            values = [a._value if a is tensors[0] else a for a in args]
            return call(*values, **{k: v._value if v is tensors[0] else v for k, v in kwargs.items()})
        if _in_place(name):
            self.check_written(name, args[0])
        if name == "fill_":  # a number for each sample
            call = call_of("copy_")
        ranks = [len(shape_of(t)) for t in tensors]
        rank = max(ranks)
        if _in_place(name) and ranks[0] < rank:
            return NotImplemented  # the op's own error
        dtype = _common_dtype(name, tensors, ranks)
        written = tensors[0] if _in_place(name) else None
        aligned = {
            id(t): self.aligned(t, rank, dtype if r == 0 and t is not written else None)
            for t, r in zip(tensors, ranks, strict=True)
            if self.holds(t)
        }
        return call(*(aligned.get(id(a), a) for a in args), **{k: aligned.get(id(v), v) for k, v in kwargs.items()})

    def aligned(self, x: Tensor, rank: int, dtype: Any = None) -> Tensor:
        """[batch, 1, ..., 1, *shape] with `rank` axes after the first."""
        value = self.full(x)
        shape = shape_of(value)
        if dtype is not None and dtype_of(value) not in (dtype, _C.bool):
            value = ops.cast(value, dtype)
        missing = rank - len(shape) + 1
        return ops.view(value, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else value

    def axes(self, name: str, entry: Overload, given: dict[str, Any]) -> Any:
        """One tensor, of which the op touches the axes that are named: those are one further to the right."""
        x = given[entry.args[0].name]
        if not self.holds(x):
            return NotImplemented
        rank = len(shape_of(x))
        if rank == 0:
            return NotImplemented
        given = dict(given)
        for arg in entry.args:
            if arg.type == "dim":
                given[arg.name] = self.axis(name, arg.name, given.get(arg.name, arg.default), rank)
            elif arg.type == "dim?":
                if given.get(arg.name) is None:
                    return NotImplemented
                given[arg.name] = self.axis(name, arg.name, given[arg.name], rank)
            elif arg.type.startswith("dim["):
                given[arg.name] = self.axes_named(name, arg.name, given.get(arg.name), rank)
        given[entry.args[0].name] = x._value
        return call_of(name)(**given)

    def _of_numbers(self, name: str, entry: Overload, given: dict[str, Any]) -> Any:
        """Samples without axes, of which an op is told the only one: it is one of size 1, and the result's shape that of a sample's."""
        x = given[entry.args[0].name]
        kinds = [arg for arg in entry.args if arg.type.startswith("dim")]
        if not kinds or not isinstance(x, Tensor) or shape_of(x) or _in_place(name):
            return NotImplemented
        if not all(d in (0, -1) for arg in kinds for d in _listed(given.get(arg.name, arg.default))):
            return NotImplemented  # the op's own error
        numbers = [n for n in (entry.args[0].name, *_LIKE_FIRST) if isinstance(given.get(n), Tensor) and not shape_of(given[n])]
        wide = {**given, **{n: self.wrap(ops.unsqueeze(self.full(given[n]), 1)) for n in numbers}}
        result = self._by_rule(name, entry, wide)
        if result is NotImplemented:
            return NotImplemented
        bare = replaced(given.values(), lambda v: ops.empty(shape_of(v), dtype=dtype_of(v), device="meta"))
        expected = call_of(name)(**dict(zip(given, bare, strict=True)))
        return tree_map(lambda y, like: ops.view(y, (self.size, *like.shape)), result, expected)

    def _copied_back(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the form that returns a new tensor gives, written to the tensor."""
        x = args[0]
        self.check_written(name, x)
        if not hasattr(ops, name[:-1]):
            return NotImplemented
        value = ops.clone(x._value) if _C.is_grad_enabled() else x._value  # a gradient may read what is written over
        result = self.run(name[:-1], (self.wrap(value), *args[1:]), kwargs)
        if not isinstance(result, Tensor) or shape_of(result) != shape_of(x):
            return NotImplemented
        return ops.copy_(x._value, self.full(result))

    def axis(self, name: str, what: str, dim: Any, rank: int) -> int:
        """Where an axis of a sample is in the value."""
        if not -rank <= dim < rank:
            raise IndexError(f"{name}: {what} = {dim}, but a sample has {rank} axes; expected {-rank} <= {what} <= {rank - 1}")
        return int(dim) + 1 if dim >= 0 else int(dim)

    def axes_named(self, name: str, what: str, dims: Any, rank: int) -> tuple[int, ...]:
        """The same for several, all where none is named."""
        return tuple(self.axis(name, what, d, rank) for d in _listed(dims)) or tuple(range(1, rank + 1))

    def leading(self, name: str, given: dict[str, Any]) -> Any:
        """Axes in front of all tensors are a batch to the op."""
        tensors = [v for v in given.values() if isinstance(v, Tensor)]
        if len({len(shape_of(t)) for t in tensors}) != 1:
            return NotImplemented
        return call_of(name)(**{k: self.full(v) if isinstance(v, Tensor) else v for k, v in given.items()})

    def loop(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], before: Callable[[], None] | None = None, call: Any = None
    ) -> Any:
        """One call per sample, of `call` or what has the name; `before` each, where that is meant to be so."""
        if _in_place(name) or name == "__setitem__":
            self.check_written(name, args[0])
        if self.size == 0:
            raise RuntimeError(f"vmap: {name} has no batching rule, and there is no sample to call it on; expected a batch of at least 1")
        if before is None and name not in _warned:
            _warned.add(name)
            warn(f"vmap: there is no batching rule for {name}, so it is called once for each of the samples, which is slow")
        call = call or call_of(name)
        results = []
        for i in range(self.size):
            if before is not None:
                before()
            sample = _Sample(self, i)
            keywords = dict(zip(kwargs, replaced(kwargs.values(), sample), strict=True))
            results.append(call(*replaced(args, sample), **keywords))
        if _in_place(name):
            return args[0]
        return self._stacked(name, results)

    def _stacked(self, name: str, results: list[Any]) -> Any:
        def together(first: Any, *others: Any) -> Any:
            if isinstance(first, Tensor):
                if any(shape_of(o) != shape_of(first) for o in others):
                    shapes = sorted({str(list(shape_of(o))) for o in (first, *others)})
                    raise RuntimeError(f"vmap: {name} gives the samples results of shapes {', '.join(shapes)}; expected one shape")
                return self.wrap(ops.stack([first, *others]))
            if any(o != first for o in others):
                other = next(o for o in others if o != first)
                raise RuntimeError(f"vmap: {name} gives other values for other samples: {first!r} and {other!r}; expected one value")
            return first

        return tree_map(together, *results)

    def check_written(self, name: str, x: Any) -> None:
        """Raises where a tensor that all samples share would be written to."""
        if not self.holds(x):
            raise RuntimeError(
                f"vmap: {name} would write one value per sample to a tensor of shape {list(shape_of(x))} that all {self.size} samples "
                "share; use the form that returns a new tensor, or make it of a batched one (new_zeros, zeros_like)"
            )


class _Sample:
    """Takes sample i of every batch."""

    def __init__(self, level: BatchLevel, i: int) -> None:
        self.level, self.i = level, i

    def __call__(self, x: Tensor) -> Tensor:
        return ops.select(x._value, 0, self.i) if isinstance(x, Batched) and x._level is self.level else x


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _writes(name: str) -> bool:
    return _in_place(name) or name == "__setitem__" or name.startswith("set:")


def _listed(dims: Any) -> tuple[int, ...]:
    return () if dims is None else (dims,) if hasattr(dims, "__index__") else tuple(dims)


def _common_dtype(name: str, tensors: Sequence[Tensor], ranks: Sequence[int]) -> Any:
    """The result's type, where samples without axes would count for more once they have one."""
    if min(ranks) > 0 or len({dtype_of(t) for t in tensors}) == 1:
        return None
    kinds = [ops.empty((1,) * min(rank, 1), dtype=dtype_of(t), device="meta") for t, rank in zip(tensors, ranks, strict=True)]
    if name.rstrip("_") in ("where", "masked_fill"):
        kinds = [kind for kind in kinds if kind.dtype is not _C.bool] or kinds
    found = kinds[0]
    for kind in kinds[1:]:
        found = ops.empty((1,) * max(found.ndim, kind.ndim), dtype=_C.result_type(found, kind), device="meta")
    return found.dtype


def has_batch(level: BatchLevel, values: Any) -> bool:
    """True if a batch of the level is among the arguments."""
    return any(tensor._level is level for tensor in wrapped_in(values))


def unbatched(values: Sequence[Tensor | None]) -> tuple[BatchLevel | None, list[Tensor | None]]:
    """The vmap that values are batches of, the innermost of several, and the values with an axis in front; None where that is no vmap."""
    level = highest([x for x in values if x is not None])
    if not isinstance(level, BatchLevel):
        return None, list(values)
    return level, [None if x is None else level.full(x) for x in values]
