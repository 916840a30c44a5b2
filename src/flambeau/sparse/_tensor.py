"""The types of sparse tensors: what they hold, how they are made, shown and turned into each other.

The core of a sparse tensor is on the meta device, so that code which does not know of it can not read wrong numbers. Calls of native
functions and methods come to `__torch_function__`, which looks for what `_functions.py` and `_places.py` have under their name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GetSetDescriptorType
from typing import Any, ClassVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._memory_format import layout, sparse_coo, sparse_csr
from flambeau._print import parts_text
from flambeau._warn import warn_once

# What the core itself can answer.
_GEOMETRY = {
    "__len__", "dim", "dtype", "element_size", "is_complex", "is_floating_point", "itemsize", "ndim", "ndimension", "nelement", "numel",
    "shape", "size",
}  # fmt: skip
_MISSING = "{}: is not there for sparse tensors; call .to_dense() first"


def _missing(name: str) -> Callable[..., Any]:
    """A method of Tensor that is written in Python, refused as native ones are."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(_MISSING.format(name))

    method.__name__ = method.__qualname__ = name
    return method


class SparseTensor(Tensor):
    """What both layouts have in common. `_val` are the values, through which gradients go."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}  # name -> what answers, filled by `_answers.answers`
    _val: Tensor
    _sees_parts = True  # of functions in Python, what they call

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        owner = getattr(func, "__self__", None)
        name = owner.__name__ if type(owner) is GetSetDescriptorType else func.__name__
        if name in _GEOMETRY:
            return _C.no_torch_function(func, types, args, kwargs)
        known = SparseTensor.functions.get(name)
        if known is None:
            raise TypeError(_MISSING.format(name))
        return known(*args, **(kwargs or {}))

    def _with(self, values: Tensor) -> SparseTensor:
        """The same places with other values."""
        raise NotImplementedError

    def to_coo(self) -> SparseCOO:
        raise NotImplementedError

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """crow, col and values of a matrix by compressed rows."""
        raise NotImplementedError

    # ---- attributes

    layout: layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.layout is sparse_csr

    @property
    def data(self) -> SparseTensor:  # type: ignore[override]
        return self._with(self._val.detach())

    @property
    def device(self) -> Any:  # type: ignore[override]
        return self._val.device

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return self._val.is_cpu

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return self._val.is_cuda

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return self._val.is_meta

    @property
    def requires_grad(self) -> bool:
        return self._val.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._val.requires_grad = value

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        return self._val.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self._val.grad_fn

    @property  # type: ignore[override]
    def grad(self) -> SparseTensor | None:
        """The gradient by the values, at the places of this tensor."""
        return None if self._val.grad is None else self._with(self._val.grad)

    @grad.setter
    def grad(self, value: SparseTensor | None) -> None:
        if value is not None and (not isinstance(value, SparseTensor) or value._val.shape != self._val.shape):
            raise TypeError(f"grad = {type(value).__name__}; expected None or a sparse tensor with as many values")
        self._val.grad = None if value is None else value._val

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self._val.requires_grad_(requires_grad)
        return self

    # ---- methods

    def values(self) -> Tensor:
        """The values, one for each place: [nnz], and the dense axes behind."""
        return self._val

    def _values(self) -> Tensor:
        return self._val

    def _nnz(self) -> int:
        """How many places there are."""
        return self._val.shape[0]

    def sparse_dim(self) -> int:
        """How many axes have indices."""
        return 2

    def dense_dim(self) -> int:
        """How many axes are whole in each value."""
        return self._val.ndim - 1

    def is_coalesced(self) -> bool:
        """Whether places are in order and none is there twice."""
        return True

    def coalesce(self) -> SparseTensor:
        """The same tensor with its places in order, and the values of equal places added up."""
        return self

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements, with zeros where there is no place.

        Args:
            masked_grad: True or None; the gradient by a sparse tensor is by its values.
        """
        if masked_grad is False:
            raise ValueError("to_dense: masked_grad = False; expected True or None, as gradients are by values alone")
        coo = self.to_coo()
        empty = ops.zeros(coo.shape, dtype=coo._val.dtype, device=coo._val.device)
        dense = ops.index_put(empty, list(coo._idx.unbind(0)), coo._val, True) if coo._idx.shape[0] else empty + coo._val.sum(0)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
        """This tensor by coordinates, or in the given layout."""
        if layout is sparse_csr:
            return self.to_sparse_csr()
        if layout not in (None, sparse_coo):
            raise ValueError(f"to_sparse: layout = {layout!r}; expected None, flambeau.sparse_coo or flambeau.sparse_csr")
        if sparse_dim is not None and sparse_dim != self.sparse_dim():
            return self.to_dense().to_sparse(sparse_dim)
        return self.to_coo()

    to_sparse_coo = to_sparse

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseCSR:
        """This matrix by compressed rows."""
        if self.ndim != 2 or self.dense_dim() or dense_dim:
            given = f"shape {list(self.shape)} with {self.dense_dim()} dense axes"
            raise _C.ShapeError(f"to_sparse_csr: the tensor has {given}; expected a matrix without dense axes")
        return SparseCSR.make(*self.rows(), self.shape)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if not self.is_leaf:
            raise _C.AutogradError("deepcopy: the sparse tensor is the result of a computation; call .detach() first")
        values = self._val.detach().clone().requires_grad_(self.requires_grad)
        memo[id(self)] = found = self._with(values)
        if isinstance(found, SparseCOO):
            found.become(SparseCOO.make(found._idx.clone(), values, found.shape, found._in_order))
        return found

    numpy, tolist, __array__, __dlpack__, backward, register_hook, retain_grad = map(
        _missing, ("numpy", "tolist", "__array__", "__dlpack__", "backward", "register_hook", "retain_grad")
    )

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def _footer(self) -> list[str]:
        dtype = self._val.dtype
        parts = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}"]
        if dtype not in (_C.get_default_dtype(), _C.int64, _C.bool, _C.get_default_dtype().to_complex()):
            parts.append(f"dtype={dtype}")
        parts.append(f"layout={self.layout}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return parts


class SparseCOO(SparseTensor):
    """Coordinates: value k stands at the place indices[:, k] of the first axes."""

    layout = sparse_coo
    _kept: Tensor | None = None  # values of a class of Python's, whose object the core would not keep
    _merge: tuple[Tensor, tuple[Tensor | None, Tensor | None, Tensor]] | None = None  # see _merged

    @staticmethod
    def make(indices: Tensor, values: Tensor, size: Sequence[int], in_order: bool = False) -> SparseCOO:
        """Of parts that fit."""
        x: SparseCOO = _C.make_sparse(SparseCOO, indices, values, tuple(size), in_order)
        if type(values) is not Tensor:
            x._kept = values
        return x

    def become(self, other: SparseCOO, values: Tensor | None = None) -> None:
        """From now on this tensor has the places of another one, and its values or these."""
        held = other._val if values is None else values
        _C.set_sparse_parts(self, other._idx, held, other._in_order)
        self._kept, self._merge = None if type(held) is Tensor else held, other._merge

    @property
    def _idx(self) -> Tensor:  # [sparse_dim, nnz]
        return _C.sparse_indices(self)

    @property
    def _val(self) -> Tensor:  # type: ignore[override]
        return _C.sparse_values(self)

    @_val.setter
    def _val(self, values: Tensor) -> None:
        self.become(self, values)

    @property
    def _in_order(self) -> bool:
        return _C.sparse_is_coalesced(self)

    def _with(self, values: Tensor) -> SparseCOO:
        indices = self._idx
        found = SparseCOO.make(indices, values, (*self.shape[: indices.shape[0]], *values.shape[1:]), self._in_order)
        found._merge = self._merge
        return found

    def to_coo(self) -> SparseCOO:
        return self

    def indices(self) -> Tensor:
        """The places, [sparse_dim, nnz].

        Raises:
            RuntimeError: the tensor is not coalesced.
        """
        self._require_order("indices")
        return self._idx

    def values(self) -> Tensor:
        """The values, one for each place: [nnz], and the dense axes behind.

        Raises:
            RuntimeError: the tensor is not coalesced.
        """
        self._require_order("values")
        return self._val

    def _coalesced_(self, coalesced: bool) -> SparseCOO:
        """Notes that places are in order and none is there twice, or that this is not known. The caller knows; nothing is looked at."""
        held = self._val
        _C.set_sparse_parts(self, self._idx, held, coalesced)
        self._kept = None if type(held) is Tensor else held
        return self

    def _require_order(self, name: str) -> None:
        if not self._in_order:
            raise RuntimeError(f"{name}: the sparse tensor is not coalesced, so that places may be there twice; call .coalesce() first")

    def _indices(self) -> Tensor:
        return self._idx

    def sparse_dim(self) -> int:
        return self._idx.shape[0]

    def is_coalesced(self) -> bool:
        return self._in_order

    def _merged(self) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """How to coalesce: an order of the values, the place to which each is added then (None: its own), and all places."""
        indices = self._idx
        if self._merge is None or self._merge[0] is not indices:  # a gradient that was added to has others by now
            keys = linear(indices, self.shape)
            order = ops.argsort(keys, 0, False, True)
            keys = ops.index_select(keys, 0, order)
            new = ops.cat([ops.ones((1,), dtype=_C.bool), keys[1:] != keys[:-1]])
            starts = ops.nonzero(new).reshape(-1)
            group = None if starts.shape[0] == keys.shape[0] else ops.cumsum(new.to(_C.int64), 0) - 1
            self._merge = indices, (order, group, ops.index_select(indices, 1, ops.index_select(order, 0, starts)))
        return self._merge[1]

    def coalesce(self) -> SparseCOO:
        if self._in_order:
            return self
        order, group, places = self._merged()
        assert order is not None
        values = ops.index_select(self._val, 0, order)
        if group is not None:
            none = ops.zeros((places.shape[1], *values.shape[1:]), dtype=values.dtype, device=values.device)
            values = ops.index_add(none, 0, group, values)
        return SparseCOO.make(places, values, self.shape, True)

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.sparse_dim() != 2 or self.dense_dim():
            given = f"{self.sparse_dim()} axes with indices and {self.dense_dim()} dense ones"
            raise _C.ShapeError(f"sparse.mm: the sparse tensor has {given}; expected a matrix, with 2 and 0")
        x = self.coalesce()
        return ops.sparse_compress(x._idx[0], self.shape[0]), x._idx[1], x._val

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _remade, (SparseCOO, (self._idx, self._val.detach(), tuple(self.shape), self._in_order), self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return parts_text({"indices": self._idx, "values": self._val}, self._footer(), True, tensor_contents)


class SparseCSR(SparseTensor):
    """Compressed rows of a matrix: row r has the values crow[r] ... crow[r + 1] - 1, in the columns col."""

    layout = sparse_csr
    _crow: Tensor  # [rows + 1]
    _col: Tensor  # [nnz]

    @staticmethod
    def make(crow: Tensor, col: Tensor, values: Tensor, size: Sequence[int]) -> SparseCSR:
        """Of parts that fit."""
        warn_once("sparse CSR tensors are in beta state: what they can do, and how it is called, may change")
        x = ops.empty(tuple(size), dtype=values.dtype, device="meta").as_subclass(SparseCSR)
        x._crow, x._col, x._val = crow, col, values
        return x

    def _with(self, values: Tensor) -> SparseCSR:
        return SparseCSR.make(self._crow, self._col, values, self.shape)

    def to_coo(self) -> SparseCOO:
        counts = self._crow[1:] - self._crow[:-1]
        row = ops.repeat_interleave(ops.arange(counts.shape[0]), counts)
        # Columns may be in any order within a row.
        return SparseCOO.make(ops.stack([row, self._col]), self._val, self.shape).coalesce()

    def crow_indices(self) -> Tensor:
        """Where each row begins among the values, and where the last one ends: [rows + 1]."""
        return self._crow

    def col_indices(self) -> Tensor:
        """The column of each value."""
        return self._col

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._crow, self._col, self._val

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _remade, (SparseCSR, (self._crow, self._col, self._val.detach(), tuple(self.shape)), self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = {"crow_indices": self._crow, "col_indices": self._col, "values": self._val}
        return parts_text(parts, self._footer(), False, tensor_contents)


def _remade(cls: Any, parts: tuple[Any, ...], requires_grad: bool) -> Any:
    return cls.make(*parts).requires_grad_(requires_grad)


def linear(indices: Tensor, size: Sequence[int]) -> Tensor:
    """One number for each place, in row-major order."""
    keys = ops.zeros((indices.shape[1],), dtype=_C.int64)
    for d in range(indices.shape[0]):
        keys = keys * size[d] + indices[d]
    return keys


_C.set_sparse_class(SparseCOO)  # what the core's sparse tensors are to Python
