"""The types of sparse tensors: what they hold, how they are made, shown and turned into each other.

The core of a sparse tensor is on the meta device, so that code which does not know of it can not read wrong numbers. Calls of native
functions and methods come to `__torch_function__`, which looks for what `_functions.py` and `_places.py` have under their name.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Sequence
from types import GetSetDescriptorType
from typing import Any, ClassVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import NoSparseError
from flambeau._memory_format import layout, sparse_coo, sparse_csr
from flambeau._no_tensor import CONFUSED, said_by_op, wants_tensors
from flambeau._print import parts_text

# How to coalesce: the places in order, an index, and whether places were there more than once. If so, the index says to which place each
# value is added, else it is the order of the values.
Merging = tuple[Tensor, Tensor, bool]
_SHAPE = Tensor.shape.__get__
_SET_CORE = Tensor.data.__set__  # type: ignore[attr-defined]
# What the core itself can answer.
_GEOMETRY = {
    "__len__", "dim", "dtype", "element_size", "is_complex", "is_floating_point", "itemsize", "ndim", "ndimension", "nelement", "numel",
    "shape", "size",
}  # fmt: skip
_MISSING = "{}: is not there for sparse tensors; call .to_dense() first"


def _missing(name: str) -> Callable[..., Any]:
    """A method of Tensor that is written in Python, refused as native ones are."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NoSparseError(_MISSING.format(name))

    method.__name__ = method.__qualname__ = name
    return method


class SparseTensor(Tensor):
    """What the layouts have in common. `_val` are the values, through which gradients go."""

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
            raise NoSparseError(_MISSING.format(name))
        try:
            return known(*args, **(kwargs or {}))
        except CONFUSED as error:
            found = said_by_op(error, name, func, args, kwargs or {})
            if found is not error:
                raise found from None
            raise

    def _with(self, values: Tensor) -> SparseTensor:
        """The same places with other values."""
        raise NotImplementedError

    def to_coo(self) -> SparseCOO:
        raise NotImplementedError

    def parts(self) -> dict[str, Tensor]:
        """What it is made of, by name."""
        raise NotImplementedError

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """crow, col and values of a matrix by compressed rows."""
        raise NotImplementedError

    def once(self, gradient: Tensor) -> Tensor:
        """What a gradient by the values is by this tensor."""
        return gradient

    # ---- attributes

    layout: layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.layout is sparse_csr

    @property  # type: ignore[override]
    def data(self) -> SparseTensor:
        return self._with(self._val.detach())

    @data.setter
    def data(self, value: Any) -> None:
        if type(value) is not type(self):
            raise TypeError(f"data = {type(value).__name__}; expected a {type(self).__name__}, as the tensor is one")
        self.turn_into(value._with(value._val.detach()).requires_grad_(self.requires_grad))

    def turn_into(self, other: Any) -> None:
        """From now on this tensor is what another one of its class is, of that one's size, with its history."""
        _C.no_torch_function(_SET_CORE, (), (self, other), None)

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
        self.requires_grad_(value)

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
        """How many axes have indices; of a batch of matrices those of one."""
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
        indices, values = coo._idx, coo._val
        empty = ops.zeros(size_of(coo), dtype=values.dtype, device=values.device)
        dense = ops.index_put(empty, list(indices.unbind(0)), values, True) if indices.shape[0] else empty + values.sum(0)
        return dense if dtype is None else dense.to(dtype)

    @wants_tensors
    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
    ) -> Any:
        """This tensor by coordinates, or in the given layout."""
        from flambeau.sparse._compressed import known_layout, to_compressed

        if (kind := known_layout("to_sparse", layout)) is not None:
            return to_compressed("to_sparse", self, kind, blocksize, dense_dim)
        if dense_dim is not None:
            sparse_dim = self.ndim - dense_dim
        if sparse_dim is not None and sparse_dim != self.to_coo().sparse_dim():
            return self.to_dense().to_sparse(sparse_dim)
        return self.to_coo()

    to_sparse_coo = to_sparse

    def smm(self, mat: Tensor) -> SparseCOO:
        """The product with a dense matrix, by coordinates."""
        from flambeau.sparse._products import smm

        return smm(self, mat)

    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> SparseCOO:
        """`flambeau.sspaddmm` of this tensor."""
        from flambeau.sparse._products import sspaddmm

        return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if not self.is_leaf:
            raise _C.AutogradError("deepcopy: the sparse tensor is the result of a computation; call .detach() first")
        values = self._val.detach().clone()
        memo[id(self)] = found = self._with(values)
        if isinstance(found, SparseCOO):
            found.become(SparseCOO.make(found._idx.clone(), values, found.shape, found._in_order))
        found.requires_grad_(self.requires_grad)
        if self.grad is not None:
            found.grad = copy.deepcopy(self.grad, memo)
        return found

    numpy, tolist, __array__, __dlpack__, backward, register_hook, retain_grad = map(
        _missing, ("numpy", "tolist", "__array__", "__dlpack__", "backward", "register_hook", "retain_grad")
    )

    @wants_tensors
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
    _merge: tuple[Tensor, Merging] | None = None  # indices, and how these are coalesced

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

    def turn_into(self, other: SparseCOO) -> None:
        super().turn_into(other)
        self._kept, self._merge = other._kept, other._merge

    def sparse_resize_(self, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseCOO:
        """Gives this tensor another size in place: one where all of its places are, which stay what they are.

        Args:
            sparse_dim, dense_dim: how many axes have indices, and how many are whole in each value. Others than before only without places.

        Raises:
            ShapeError: a size without a place that there is, or another number of axes.
        """
        from flambeau.sparse._inplace import resized

        return resized("sparse_resize_", self, size, sparse_dim, dense_dim)

    def sparse_resize_and_clear_(self, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseCOO:
        """Gives this tensor any other size in place, and takes its places away."""
        from flambeau.sparse._inplace import resized

        return resized("sparse_resize_and_clear_", self, size, sparse_dim, dense_dim, True)

    def resize_as_(self, other: Tensor) -> SparseCOO:
        """`sparse_resize_` to the size of another sparse tensor."""
        if not isinstance(other, SparseCOO):
            raise TypeError(f"resize_as_: other is a {type(other).__name__}; expected a sparse tensor in coordinates")
        return self.sparse_resize_(other.shape, other.sparse_dim(), other.dense_dim())

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

    def requires_grad_(self, requires_grad: bool = True) -> SparseCOO:
        if requires_grad and not self._in_order and not self.requires_grad:
            self._val = self._val.detach()  # the hook is not for a tensor that the program has
            self._val.requires_grad_().register_hook(functools.partial(_once, weakref.ref(self)))
        else:
            self._val.requires_grad_(requires_grad)
        return self

    def once(self, gradient: Tensor) -> Tensor:
        """As above: each value of a place that is there twice has the gradient of their sum, which is there once."""
        if self._in_order or not self._merging()[2]:
            return gradient
        places, index, _ = self._merging()
        n = index.shape[0]
        first = ops.scatter_reduce(ops.full((places.shape[1],), n), 0, index, ops.arange(n), "amin")
        return ops.index_copy(ops.zeros_like(gradient), 0, first, ops.index_select(gradient, 0, first))  # type: ignore[no-any-return]

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

    def _values(self) -> Tensor:
        """The values as they lie; of places that may be there twice without a history, as the tensor is a function of their sums."""
        held = self._val
        return held if self._in_order or not held.requires_grad else held.detach()

    def sparse_dim(self) -> int:
        return self._idx.shape[0]

    def is_coalesced(self) -> bool:
        return self._in_order

    def coalesce(self) -> SparseCOO:
        if self._in_order:
            return self
        places, found = merged(self._merging(), self._val)
        return SparseCOO.make(places, found, size_of(self), True)

    def _merging(self) -> Merging:
        indices = self._idx
        if self._merge is None or self._merge[0] is not indices:  # a gradient that was added to has others by now
            self._merge = indices, merging(indices, size_of(self))
        return self._merge[1]

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        x = self.coalesce()
        indices, values = x._idx, x._val
        if indices.shape[0] != 2 or values.ndim != 1:
            given = f"{indices.shape[0]} axes with indices and {values.ndim - 1} dense ones"
            raise _C.ShapeError(f"sparse.mm: the sparse tensor has {given}; expected a matrix, with 2 and 0")
        row, column = indices.unbind(0)
        return ops.sparse_compress(row, size_of(x)[0]), column, values

    def __reduce_ex__(self, protocol: Any) -> Any:
        return remade, (SparseCOO, (self._idx, self._val.detach(), tuple(self.shape), self._in_order), self.requires_grad)

    def parts(self) -> dict[str, Tensor]:
        return {"indices": self._idx, "values": self._val}

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return parts_text(self.parts(), self._footer(), True, tensor_contents)


def _once(of: weakref.ref[SparseCOO], gradient: Tensor) -> Tensor:
    x = of()
    return gradient if x is None else x.once(gradient)


def remade(cls: Any, parts: tuple[Any, ...], requires_grad: bool) -> Any:
    return cls.make(*parts).requires_grad_(requires_grad)


def size_of(x: SparseTensor) -> _C.Size:
    """`x.shape` as the core has it, without the way through `__torch_function__`."""
    return _C.no_torch_function(_SHAPE, (), (x,), None)  # type: ignore[no-any-return]


def linear(indices: Tensor, size: Sequence[int]) -> Tensor:
    """One number for each place, in row-major order."""
    if not indices.shape[0]:
        return ops.zeros((indices.shape[1],), dtype=_C.int64)
    keys, *others = indices.unbind(0)
    for d, index in enumerate(others, 1):
        keys = keys * size[d] + index
    return keys


def merging(indices: Tensor, size: Sequence[int]) -> Merging:
    """How values at these places are coalesced."""
    places, element = ops.sparse_merging(indices, size[: indices.shape[0]])
    return places, element, places.shape[1] != element.shape[0]


def merged(how: Merging, values: Tensor) -> tuple[Tensor, Tensor]:
    """The places in order, and the values there. Those of one place are added in the order in which they are given."""
    places, index, adds = how
    if not adds:
        return places, ops.index_select(values, 0, index)
    none = ops.zeros((places.shape[1], *values.shape[1:]), dtype=values.dtype, device=values.device)
    return places, ops.index_add(none, 0, index, values)


_C.set_sparse_class(SparseCOO)  # what the core's sparse tensors are to Python
