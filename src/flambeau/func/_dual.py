"""A tensor with a direction: forward mode.

    Dual x:  primal p, tangent t        f(x):  primal f(p), tangent J(p) t

Three rules make tangents of all ops, and none is written for an op:

* An op that is linear (the table's gradients tell: `tools/opgen/emit_traits.py`) is applied to the tangent.
* The Jacobian of an element-wise op is diagonal, and so its own transpose: what the op's backward makes of the tangent.
* For any other op, g(u) = J^T u is linear in u. Its transpose, by a backward through the backward, is J.

The tangent of an output that has no derivative (a comparison, an index) is left out: the result is plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._shapes import broadcast_shapes
from flambeau.func._compositions import COMPOSITIONS
from flambeau.func._levels import (
    Level,
    Tensors,
    Wrapped,
    dtype_of,
    held_by,
    may_adopt,
    may_adopt_with_base,
    replaced,
    shape_of,
    twin,
)
from flambeau.func._pullback import (
    batches_of,
    end,
    finished,
    plain_parts,
    plain_stands,
    pullback,
    recording,
    stand_in,
)
from flambeau.func._table import Overload, bound, call_of, overloads, written_first
from flambeau.func._tree import flatten, tree_map

# Methods and attributes that are no ops of the table, and linear in their tensor.
_LINEAR = frozenset(("to", "contiguous", "__getitem__", "get:T", "get:mT", "get:H", "get:mH", "get:real", "get:imag"))
# Compositions that are linear in several tensors; what the op of one's tangent reads of the other arguments.
_LINEAR_IN = {"index_put": dict.fromkeys(("x", "values"), frozenset(("indices", "accumulate")))}
_ASKED = frozenset(("requires_grad_", "set:requires_grad", "set:data", "set:grad", "detach_", "resize_"))


class Dual(Wrapped):
    """A tensor and its derivative along one direction."""

    _primal: Tensor
    _tangent: Tensor
    _level: DualLevel
    _family: bool  # a view, or a tensor with views: others see its tangent's memory
    _owned: bool  # nobody else sees it

    def _parts(self) -> list[Tensor]:
        return [self._primal, self._tangent]

    def _of(self, parts: Sequence[Tensor]) -> Dual:
        return self._level.dual(*parts)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if not self._level.open:
            return repr(self._primal)
        shown = repr(self._primal)[:-1]
        between = ",\n       " if "\n" in shown else ", "
        return f"{shown}{between}tangent={self._tangent!r})"

    def __bool__(self) -> bool:
        return bool(self._primal)

    def numpy(self, *, force: bool = False) -> Any:
        """The primal as an array."""
        return self._primal.numpy(force=force)

    def tolist(self) -> Any:
        """The primal as nested lists."""
        return self._primal.tolist()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._primal.__array__(*args, **kwargs)

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Backward from the primal."""
        self._primal.backward(*args, **kwargs)

    def __format__(self, spec: str) -> str:
        return format(self._primal, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        raise RuntimeError("deepcopy: a dual tensor belongs to its level; use clone(), or copy its primal")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("pickle: a dual tensor belongs to its level; pickle its primal and its tangent")


class DualLevel(Level):
    """A running `jvp`, or a `forward_ad.dual_level`."""

    # ------------------------------------------------------------------------------------- values

    def dual(self, primal: Tensor, tangent: Tensor) -> Dual:
        """A tensor with a tangent of its shape."""
        shape, dtype = shape_of(primal), dtype_of(primal)
        out: Dual = Tensor._make_subclass(Dual, ops.empty(shape, dtype=dtype, device="meta"), False)
        out._level, out._primal, out._tangent, out._sizes, out._kind = self, primal, tangent, shape, dtype
        out._family = out._owned = False
        return out

    def holds(self, x: Any) -> bool:
        """True if x has a tangent of this level."""
        return isinstance(x, Dual) and x._level is self

    def primal(self, x: Any) -> Any:
        """x without its tangent of this level."""
        return x._primal if isinstance(x, Dual) and x._level is self else x

    def tangent(self, x: Any) -> Tensor | None:
        """The tangent of x, None for zero."""
        return x._tangent if isinstance(x, Dual) and x._level is self else None

    def pullback(self, ys: Tensors, xs: Tensors, vs: Tensors, keep: bool, retain: bool, others: Tensors) -> list[Tensor]:
        """The tangent of a gradient v J is the gradient of v times the tangent of y, plus the tangent of v times J."""
        inner = [self.primal(x) for x in xs]
        found = pullback([self.primal(y) for y in ys], inner, [self.primal(v) for v in vs], keep, others=others)
        tops: list[Tensor] = []
        weights: list[Tensor] = []
        for y, v in zip(ys, vs, strict=True):
            if (t := self.tangent(y)) is not None:
                tops.append(t)
                weights.append(self.primal(v))
            if (t := self.tangent(v)) is not None:
                tops.append(self.primal(y))
                weights.append(t)
        if not tops:
            return found
        return [self.dual(g, t) for g, t in zip(found, pullback(tops, inner, weights, keep, others=others), strict=True)]

    # ------------------------------------------------------------------------------------- calls

    def run(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name == "__setitem__":
            return self._written_at(args)
        if name.endswith("_") and not name.endswith("__") and name not in _ASKED:
            return self._in_place(name, args, kwargs)
        if name in _LINEAR:
            return self._linear_method(name, args, kwargs)
        known = overloads(name)
        found = bound(name, args, kwargs) if known else None
        if known and found is None:  # such as narrow(x, dim, a tensor, length): the op tells which form it is
            given = {str(i): value for i, value in enumerate((*args, *kwargs.values()))}
            if any(map(self._within, given.values())):
                count = len(args)
                call = call_of(name)
                again = not any(entry.draws for entry in known)
                return self.transposed(
                    lambda **v: call(*list(v.values())[:count], **dict(zip(kwargs, list(v.values())[count:], strict=True))), given, again
                )
        if found is None or not any(map(self._within, found[1].values())):
            return call_of(name)(*replaced(args, self.primal), **self._primals(kwargs))
        if name.startswith("new_") or name.endswith("_like"):  # may be written to, so that it needs a tangent
            made = call_of(name)(*replaced(args, self.primal), **self._primals(kwargs))
            return self._joined(made, ops.new_zeros(next(self._tangents(args)), shape_of(made), dtype=dtype_of(made)))
        return self._op(name, *found)

    def ended(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Without its level a dual tensor is its primal."""
        return call_of(name)(*replaced(args, self.primal), **self._primals(kwargs))

    def _primals(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(kwargs, replaced(kwargs.values(), self.primal), strict=True))

    def _tangents(self, values: Sequence[Any]) -> Iterator[Tensor]:
        return (x._tangent for x in values if isinstance(x, Dual) and x._level is self)

    def _op(self, name: str, entry: Overload, given: dict[str, Any]) -> Any:
        if (composed := COMPOSITIONS.get(name)) and (result := composed(**given)) is not NotImplemented:
            return result
        duals = [key for key, value in given.items() if self._within(value)]
        linear = entry.linear or _LINEAR_IN.get(name, {})
        if linear and all(key in linear for key in duals):
            return self._linear(name, entry, linear, given, duals)
        if entry.body == "each" and any(isinstance(value, complex) for value in given.values()):
            given = {key: self._as_complex(value) for key, value in given.items()}  # else what is imaginary of a derivative would go
        if entry.body == "each" and not any(dtype_of(x).is_complex for x in given.values() if isinstance(x, Tensor)):
            return self._diagonal(name, given, duals)
        return self.transposed(call_of(name), given, again=not entry.draws)

    def _as_complex(self, value: Any) -> Any:
        return value.to(_C.result_type(ops.empty((1,), dtype=dtype_of(value), device="meta"), 1j)) if self.holds(value) else value

    def _within(self, value: Any) -> bool:
        return self.holds(value) or (type(value) in (tuple, list) and any(self.holds(v) for v in value))

    def _linear(self, name: str, entry: Overload, linear: Mapping[str, frozenset[str]], given: dict[str, Any], duals: list[str]) -> Any:
        """The op of each tangent, with what its gradient does not read at zero."""
        call = call_of(name)
        plain = {key: replaced([value], self.primal)[0] for key, value in given.items()}
        result = call(**plain)
        if len(duals) == 1 and self.holds(x := given[duals[0]]) and _shares(flatten(result)[0], x._primal):
            return self._view(x, result, lambda t: call(**{**plain, duals[0]: t}))
        tangents = []
        for key in duals:
            read = linear[key]
            around = {k: v if k in read else _zero(entry, k, v) for k, v in plain.items() if k != key}
            if isinstance(given[key], (tuple, list)):
                along: Any = [ops.zeros_like(v) if (t := self.tangent(v)) is None else t for v in given[key]]
            else:
                along = self.tangent(given[key])
            tangents.append(call(**{**around, key: along}))
        total = tangents[0]
        for more in tangents[1:]:
            total = tree_map(ops.add, total, more)
        return self._joined(result, total)

    def _linear_method(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        x, *others = args
        call = call_of(name)
        others, keywords = replaced(others, self.primal), self._primals(kwargs)
        if not self.holds(x):
            return call(x, *others, **keywords)
        result = call(x._primal, *others, **keywords)
        if _shares(flatten(result)[0], x._primal):
            return self._view(x, result, lambda t: call(t, *others, **keywords))
        return self._joined(result, call(x._tangent, *others, **keywords))

    def _view(self, x: Dual, result: Any, call: Callable[[Tensor], Any]) -> Any:
        """What a function gives that returns views: that of the tangent is a view, too."""
        self._own(x)
        return self._joined(result, call(x._tangent), family=True)

    def _own(self, x: Dual) -> None:
        """Before a view of x is made: what is written to one tangent, the other has to see, and nobody else."""
        like, t = held_by(x._primal), x._tangent
        if not x._family:
            x._tangent = _laid_as(t, like, not x._owned)  # so that what is a view of the primal is one of the tangent, too
        if not x._family and isinstance(x._primal, Wrapped):
            x._tangent = ops.add(x._tangent, ops.zeros_like(x._primal))  # what is written belongs to the levels of the primal, too
        x._family = True

    def _joined(self, result: Any, tangent: Any, family: bool = False) -> Any:
        def join(p: Any, t: Any) -> Any:
            if not isinstance(p, Tensor) or not (dtype_of(p).is_floating_point or dtype_of(p).is_complex):
                return p
            out = self.dual(p, t)
            out._family = family
            return out

        return tree_map(join, result, tangent)

    def _diagonal(self, name: str, given: dict[str, Any], duals: list[str]) -> Any:
        """Element-wise: what backward makes of tangents. Operands are as large as the result, so that nothing is summed."""
        plain = {key: self.primal(value) for key, value in given.items()}
        keep = _C.is_grad_enabled()
        shape = tuple(broadcast_shapes(*(shape_of(v) for v in plain.values() if isinstance(v, Tensor))))
        tangents = [self.tangent(given[key]) for key in duals]
        # A batch of tangents of one primal: the derivative is computed once.
        once = bool(set(batches_of(tangents)) - set(batches_of(plain.values())))
        levels = batches_of(plain.values())
        with recording():
            xs = []
            for key in duals:
                x = plain[key] if shape_of(plain[key]) == shape else ops.expand(plain[key], shape)
                xs.append(stand_in(x, levels, keep))
            y = call_of(name)(**{**plain, **dict(zip(duals, xs, strict=True))})
            if not _has_gradient(y):
                return finished(y, xs, keep)
            own = plain_stands(xs)
            total = None
            for x, t in zip(xs, tangents, strict=True):
                assert t is not None
                if dtype_of(t) is not dtype_of(y):
                    t = ops.cast(t, dtype_of(y))
                if once:
                    (slope,) = pullback([y], [x], [ops.ones_like(y)], keep, others=own)
                    part = ops.mul(slope, t)
                else:
                    t = t if shape_of(t) == shape else ops.expand(t, shape)
                    (part,) = pullback([y], [x], [t], keep, others=own)
                total = part if total is None else ops.add(total, part)
            assert total is not None
            if dtype_of(total) is not dtype_of(y):
                total = ops.cast(total, dtype_of(y))
        y = finished(y, xs, keep)
        end(xs)
        return self.dual(y, total)

    def transposed(self, call: Any, given: dict[str, Any], again: bool = True) -> Any:
        """Any op: J t is the gradient of J^T u by u, in the direction t. `again` says that a second call gives the same."""
        keep = _C.is_grad_enabled()
        keys = list(given)
        leaves, build = flatten([list(v) if type(v) in (tuple, list) else v for v in given.values()])
        originals = list(leaves)
        own = batches_of(self.primal(leaf) for leaf in leaves)
        # Of one primal with a batch of directions the op is called for a batch, too, if it may be called twice.
        levels = batches_of(leaves) if again else own
        values = None
        if len(levels) > len(own):
            values = call(**dict(zip(keys, build([self.primal(leaf) for leaf in leaves]), strict=True)))
        with recording():
            xs, tangents = [], []
            for i, leaf in enumerate(leaves):
                if self.holds(leaf):
                    xs.append(stand_in(leaf._primal, levels, keep))
                    tangents.append(leaf._tangent)
                    leaves[i] = xs[-1]
            result = call(**dict(zip(keys, build(leaves), strict=True)))
            outs, remake = flatten(result)
            at = [i for i, leaf in enumerate(originals) if self.holds(leaf)]
            if len(at) == 1 and _shares(outs, originals[at[0]]._primal):
                part = at[0]

                def of(x: Tensor) -> Any:
                    return call(**dict(zip(keys, build([*originals[:part], x, *originals[part + 1 :]]), strict=True)))

                return self._view(originals[part], of(originals[part]._primal), of)
            at = [i for i, y in enumerate(outs) if _has_gradient(y)]
            ys = [outs[i] for i in at]
            us = [stand_in(ops.zeros_like(y), levels, False) for y in ys]
            rows = pullback(ys, xs, us, True)
            found = pullback(rows, us, tangents, keep, others=plain_stands(xs))
        outs = [finished(y, xs, keep) for y in outs] if values is None else flatten(values)[0]
        end([*xs, *us])
        for i, t in zip(at, found, strict=True):
            outs[i] = self.dual(outs[i], t)
        return remake(outs)

    # ------------------------------------------------------------------------------------- writes

    def _in_place(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the form that returns a new tensor gives is written to both parts."""
        if not args:
            args, kwargs = written_first(kwargs)
        x = args[0]
        if not self.holds(x):
            x = self._adopted_as(name, x, (*args[1:], *kwargs.values()))
            args = (x, *args[1:])
        if name in ("copy_", "fill_", "zero_"):
            source = args[1] if len(args) > 1 else next((v for k, v in kwargs.items() if k in ("src", "value")), 0.0)
            t = self.tangent(source)
            call_of(name)(x._primal, *replaced(args[1:], self.primal), **self._primals(kwargs))
            tangent = ops.zeros_like(x._tangent) if t is None else ops.expand(t.to(x._kind), shape_of(x))
        elif (entries := overloads(name)) and entries[0].draws:
            call_of(name)(x._primal, *args[1:], **kwargs)
            tangent = ops.zeros_like(x._tangent)
        else:
            given = [part for part in (*args, *kwargs.values()) if isinstance(part, Tensor)]
            if _C.is_grad_enabled() and any(map(_has_gradient, plain_parts(given))):
                args = (self.dual(ops.clone(x._primal), ops.clone(x._tangent)), *args[1:])  # what a graph saves is not written to
            result = call_of(name[:-1])(*args, **kwargs)
            ops.copy_(x._primal, self.primal(result))
            t = self.tangent(result)
            tangent = ops.zeros_like(x._tangent) if t is None else t
        if x._family:
            ops.copy_(x._tangent, tangent)
        else:
            x._tangent = tangent
        return x

    def _written_at(self, args: Sequence[Any]) -> None:
        x, index, value = args
        if not self.holds(x):
            x = self._adopted_as("x[...] = ...", x, (value,))
        t = self.tangent(value)
        self._widen(x, t)
        family = x._family
        self._own(x)
        x._family, x._owned = family, True  # no view is left of it
        index = replaced([index], self.primal)[0]
        x._primal[index] = self.primal(value)
        x._tangent[index] = 0 if t is None else t

    def _widen(self, x: Dual, tangent: Tensor | None) -> None:
        """Gives the tangent of x the batches of one that is to be written to it."""
        missing = [level for level in batches_of([tangent]) if level not in batches_of([x._tangent])]
        if tangent is None or not missing:
            return
        if x._family:
            raise RuntimeError(
                "jvp: a batch of directions (jacfwd, or jvp inside of vmap) would be written to a view whose base has one; write to one "
                "that is made of an input (zeros_like, new_zeros)"
            )
        x._tangent = ops.add(x._tangent, ops.new_zeros(tangent, ()))

    def _adopted_as(self, name: str, x: Any, given: Iterable[Any]) -> Dual:
        """A tensor without a tangent to which a value with one is written: it has one, too, as wide as that."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: what is written is a {type(x).__name__}; expected a Tensor")
        if not may_adopt(x):
            if may_adopt_with_base(x):
                return self._adopted_view(x, given)
            raise RuntimeError(
                f"jvp: {name} would write a value with a tangent to a tensor of shape {list(shape_of(x))} that can have none (it is a "
                "view or has views, wants a gradient, or holds integers); use the form that returns a new tensor, or write to one that "
                "is made of an input (zeros_like, new_zeros)"
            )
        primal = twin(x)
        return self.adopt(x, primal, Dual, _primal=primal, _tangent=self._zeros(primal, given), _family=False, _owned=True)  # type: ignore[no-any-return]

    def _zeros(self, primal: Tensor, given: Iterable[Any]) -> Tensor:
        """A tangent to which those of `given` can be written."""
        tangent = ops.zeros_like(primal)
        for t in self._tangents([value for value in given if isinstance(value, Dual)]):
            tangent = ops.add(tangent, ops.new_zeros(t, (), dtype=dtype_of(primal)))
        return tangent

    def _adopted_view(self, x: Any, given: Iterable[Any]) -> Dual:
        """The only view of a tensor: that one has a tangent, too, of which the view's is a view."""
        base, where = x._base, (x.shape, x.stride(), x.storage_offset() - x._base.storage_offset())
        primal = twin(base)
        tangent = _laid_as(self._zeros(primal, given), primal, False)
        for one, p, t in ((base, primal, tangent), (x, primal.as_strided(*where), tangent.as_strided(*where))):
            self.adopt(one, p, Dual, _primal=p, _tangent=t, _family=True, _owned=False)
        return x  # type: ignore[no-any-return]


def _laid_as(t: Tensor, like: Tensor, copy: bool) -> Tensor:
    """t laid out in memory as `like` is, where one of them may have axes of batches in front; a copy where it is not, or one is wanted."""
    if isinstance(t, Wrapped):
        return t._of([_laid_as(part, like, copy) for part in t._parts()])
    own = min(t.ndim, like.ndim)
    shape, given = t.shape[t.ndim - own :], like.stride()[like.ndim - own :]
    order = sorted(range(own), key=lambda axis: (given[axis], -axis))  # the innermost first
    strides, step = [0] * own, 1
    for axis in order:
        strides[axis], step = step, step * shape[axis]
    if shape != like.shape[like.ndim - own :] or t.stride()[t.ndim - own :] == tuple(strides):
        return ops.clone(t) if copy else t
    for size in reversed(t.shape[: t.ndim - own]):
        strides.insert(0, step)
        step *= size
    return ops.copy_(ops.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device), t)


def _shares(results: Sequence[Any], x: Tensor) -> bool:
    """True if there are tensors among results, and each lies in the memory of x."""
    memory = held_by(x)._storage_ptr()
    found = [held_by(y)._storage_ptr() == memory for y in results if isinstance(y, Tensor)]
    return bool(found) and all(found)


def _has_gradient(y: Any) -> bool:
    return isinstance(y, Tensor) and bool(y.requires_grad)


def _zero(entry: Overload, key: str, value: Any) -> Any:
    """What a linear op is given for an argument that the gradient in question does not read."""
    kind = next(a.type for a in entry.args if a.name == key)
    if kind.startswith("Tensor") and isinstance(value, (tuple, list)):
        return [v if v is None else ops.zeros_like(v) for v in value]
    if isinstance(value, Tensor):
        return ops.zeros_like(value)
    return 0 if kind in ("Operand", "number", "number?") and value is not None else value
