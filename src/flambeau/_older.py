"""What older programs call: methods and functions under names that have newer ones, and Python functions over elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._from_data import tensor
from flambeau._memory_format import contiguous_format, memory_format
from flambeau._no_tensor import wants_tensors
from flambeau._spelled import spelled
from flambeau._tensor import sizes_of

# Losses, whose `reduction` is a number here, and 0, none, where it is not given: the top level of PyTorch has that default.
LOSSES = frozenset((
    "cosine_embedding_loss", "ctc_loss", "hinge_embedding_loss", "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss",
))  # fmt: skip
REDUCTIONS = ("none", "mean", "sum")


def __getattr__(name: str) -> Any:
    """Names that `_LAZY_NAMES` of the package gives to this module: functions of `nn.functional`, and methods that write."""
    import flambeau
    from flambeau.nn import functional as F

    if vars(flambeau)["_LAZY_NAMES"].get(name) != "_older":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name in LOSSES:
        made = _loss(name, getattr(F, name))
    elif name == "norm_except_dim":
        from flambeau.nn.utils.weight_norm import norm_except_dim as made
    else:
        made = getattr(F, name, None) or getattr(ops, name, None) or _inplace(name)
    globals()[name] = made
    return made


@spelled()
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """The convolution of as many axes as the weight has, or the transposed one; what `conv2d` and its kin are written with.

    Shape: input [N, C, *], weight [C_out, C / groups, *], transposed [C, C_out / groups, *].
    """
    from flambeau.nn import functional as F

    axes = weight.dim() - 2
    if axes not in (1, 2, 3):
        raise ValueError(f"convolution: weight has shape {list(weight.shape)}; expected 3, 4 or 5 axes")
    if transposed:
        op = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
        return op(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return (F.conv1d, F.conv2d, F.conv3d)[axes - 1](input, weight, bias, stride, padding, dilation, groups)


@wants_tensors
def spmm(input: Any, mat2: Any) -> Any:
    """`mm`, of a sparse matrix and a dense one.

    Shape: [m, n], [n, k] -> [m, k].
    """
    from flambeau.sparse import mm

    return mm(input, mat2)


dsmm = spmm


def _inplace(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not hasattr(input, name):
            raise TypeError(f"{name}(): argument 'input' must be a Tensor, not {type(input).__name__}")
        return getattr(input, name)(*args, **kwargs)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}(...)`."
    return function


def _loss(name: str, found: Callable[..., Any]) -> Callable[..., Any]:
    names = [p for p in inspect.signature(found).parameters if p not in ("size_average", "reduce")]

    def loss(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names)} arguments ({len(args)} given)")
        named = dict(zip(names, args))
        if twice := named.keys() & kwargs.keys():
            raise TypeError(f"{name}() got multiple values for argument '{min(twice)}'")
        named |= kwargs
        reduction = named.pop("reduction", "none")
        if not isinstance(reduction, str):
            if not isinstance(reduction, int) or isinstance(reduction, bool) or reduction not in (0, 1, 2):
                raise ValueError(f"{name}: reduction = {reduction!r}; expected 0 (none), 1 (mean), 2 (sum) or their names")
            reduction = REDUCTIONS[reduction]
        return found(**named, reduction=reduction)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = found.__doc__
    return loss


def adaptive_max_pool1d(input: Tensor, output_size: int) -> tuple[Tensor, Tensor]:
    """The maxima, as of `nn.functional.adaptive_max_pool1d`, and where they lie."""
    from flambeau.nn import functional as F

    return F.adaptive_max_pool1d(input, output_size, return_indices=True)  # type: ignore[no-any-return]


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    from flambeau.nn import functional as F

    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    from flambeau.nn import functional as F

    return F.feature_alpha_dropout(input, p, train)


@wants_tensors
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Sets whole channels to zero with probability p: input [N, C, ...]."""
    from flambeau.nn import functional as F

    if not train or input.ndim < 2:
        return F.dropout(input, p, train)
    kept = F.dropout(ops.ones((*input.shape[:2], *[1] * (input.ndim - 2)), dtype=input.dtype, device=input.device), p, True)
    return input * kept  # type: ignore[no-any-return]


def _dropping(name: str) -> Callable[[Tensor, float, bool], Tensor]:
    def function(input: Tensor, p: float, train: bool) -> Tensor:
        return ops.copy_(input, globals()[name](input, p, train))

    function.__name__ = function.__qualname__ = f"{name}_"
    function.__doc__ = f"`{name}` in place."
    return function


alpha_dropout_, feature_alpha_dropout_, feature_dropout_ = map(_dropping, ("alpha_dropout", "feature_alpha_dropout", "feature_dropout"))


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` in place."""
    from flambeau.nn import functional as F

    return F.dropout(input, p, train, inplace=True)


@wants_tensors
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """What `nn.functional.dropout` returns, and which elements stayed. `train=None` is True."""
    if train is False:
        return ops.clone(input), ops.ones_like(input, dtype=_C.bool)
    if not 0 <= p <= 1:
        raise _C.ArgumentError(f"native_dropout: p = {p}; expected 0 <= p <= 1")
    kept = ops.empty(input.shape, dtype=_C.bool, device=input.device).bernoulli_(1 - p)
    return (input * kept).mul_(1 / (1 - p) if p < 1 else 0.0), kept


@wants_tensors
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows of a table that are named, and whose norm is larger, down to `max_norm`.

    Shape: input [V, D], indices [*].
    """
    used = ops.unique_sorted(indices.reshape(-1))[0]
    rows = input.detach()[used]
    norms = ops.norm(rows, norm_type, 1, keepdim=True)
    scale = ops.where(norms > max_norm, max_norm / (norms + 1e-7), ops.ones_like(norms))
    input[used] = rows * scale
    return input


@wants_tensors
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of sequences that lie time first.

    Shape: input [T, B, C_in], weight [K, C_in, C_out], bias [C_out] -> [T + 2 pad - K + 1, B, C_out].
    """
    from flambeau.nn import functional as F

    if input.dim() != 3 or weight.dim() != 3 or weight.shape[1] != input.shape[2]:
        raise _C.ShapeError(
            f"conv_tbc: input has shape {list(input.shape)}, weight {list(weight.shape)}; expected [T, B, C_in] and [K, C_in, C_out]"
        )
    return F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1).contiguous()


_SAMPLING, _BEYOND = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """`nn.functional.grid_sample`, whose modes are numbers here: bilinear, nearest and bicubic, zeros, border and reflection."""
    from flambeau.nn import functional as F

    for name, mode in (("interpolation_mode", interpolation_mode), ("padding_mode", padding_mode)):
        if not isinstance(mode, int) or mode not in (0, 1, 2):
            raise _C.ArgumentError(f"grid_sampler: {name} = {mode!r}; expected 0, 1 or 2")
    return F.grid_sample(input, grid, _SAMPLING[interpolation_mode], _BEYOND[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`."""
    from flambeau.nn import functional as F

    return F.affine_grid(theta, size, align_corners)  # type: ignore[no-any-return]


def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The root of the sum of squares along `dim`, by default of all elements."""
    from flambeau import linalg

    return linalg.vector_norm(input, 2, dim if not isinstance(dim, (tuple, list)) or len(dim) else None, keepdim)


def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of a matrix, or of those along two axes `dim`."""
    from flambeau import linalg

    if isinstance(dim, bool):  # nuclear_norm(x, keepdim)
        dim, keepdim = None, dim
    return linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


# ---- methods


def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """A tensor of this one's type: empty of the sizes given, with the values of a sequence or tensor, or on a storage.

    `new_empty`, `new_tensor` and `set_` say which. Of a sparse tensor: sparse, without values or of `(indices, values, size=None)`.

    >>> import flambeau as fl
    >>> fl.ones(2, dtype=fl.float64).new([1, 2]).dtype, fl.ones(2).new(3, 4).shape
    (flambeau.float64, flambeau.Size([3, 4]))
    """
    from flambeau.storage import is_storage

    where: dict[str, Any] = {"dtype": self.dtype, "device": self.device if device is None else device}
    if size is not None:
        if args or isinstance(size, str) or not hasattr(size, "__iter__"):
            given = f"{type(size).__name__} beside {len(args)} other arguments" if args else type(size).__name__
            raise TypeError(f"new: size is a {given}; expected a tuple of ints alone")
        args = (_C.Size(size),)
    if self.is_sparse:
        from flambeau.sparse._construct import sparse_coo_tensor

        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, device=device)
        sizes = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
        return sparse_coo_tensor(tuple(sizes), dtype=self.dtype, device=device)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach().to(**where)  # type: ignore[no-any-return]
    if len(args) == 1 and is_storage(args[0]):
        kind = getattr(args[0], "dtype", self.dtype)
        if kind is not self.dtype:
            raise _C.DTypeError(f"new: got a storage of {kind}; expected {self.dtype}, as this tensor is, or bytes (storage.untyped())")
        return ops.empty((0,), **where).set_(args[0])  # type: ignore[no-any-return]
    shape = sizes_of("new", args)
    return tensor(args[0], **where) if shape is None else ops.empty(shape, **where)  # type: ignore[no-any-return]


def _elements(name: str, self: Tensor, others: dict[str, Tensor], function: Callable[..., Any]) -> Tensor:
    for argument, value in others.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}")
    if not callable(function):
        raise TypeError(f"{name}(): argument 'callable' must be callable, not {type(function).__name__}")
    if self.requires_grad:
        raise RuntimeError(f"{name}: a Python function has no derivative, and the tensor requires grad; call it on x.detach()")
    lists = [x.detach().expand(self.shape).reshape(-1).tolist() for x in (self, *others.values())]
    values = tensor([function(*row) for row in zip(*lists)], dtype=self.dtype).reshape(self.shape) if self.numel() else self
    return self.copy_(values)  # type: ignore[no-any-return]


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by what a Python function returns for it. Slow: one call per element.

    >>> import flambeau as fl
    >>> fl.tensor([1.0, 2.0]).apply_(lambda x: x * 10)
    tensor([10., 20.])
    """
    return _elements("apply_", self, {}, callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element a by `callable(a, b)` of the element b of another tensor, which broadcasts. Slow: one call per element."""
    return _elements("map_", self, {"tensor": tensor}, callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replaces each element a by `callable(a, b, c)` of the elements of two other tensors, which broadcast. Slow: one call per element."""
    return _elements("map2_", self, {"x": x, "y": y}, callable)


def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """`nn.functional.hardshrink` of this tensor."""
    from flambeau.nn import functional as F

    return F.hardshrink(self, lambd)


@wants_tensors
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both show the same memory in the same way: start, sizes and strides."""
    return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The axes from the one with the largest stride to that with the smallest, as they lie in memory.

    Args:
        ambiguity_check: True, or a list of memory formats of which one is to decide, refuses a tensor that has more than one order,
            such as one with an axis of size 1.

    Raises:
        RuntimeError: there is more than one order.

    >>> import flambeau as fl
    >>> fl.empty(2, 3, 4).transpose(0, 2).dim_order()
    (2, 1, 0)
    """
    strides = self.stride()
    if not isinstance(ambiguity_check, bool):
        if not isinstance(ambiguity_check, list) or not all(isinstance(f, memory_format) for f in ambiguity_check):
            raise TypeError(f"dim_order: ambiguity_check = {ambiguity_check!r}; expected a bool or a list of memory formats")
        ambiguity_check = not any(self.is_contiguous(memory_format=f) for f in ambiguity_check if f is contiguous_format or self.ndim > 3)
    if ambiguity_check and self.numel() and (1 in self.shape or len(set(strides)) < len(strides)):
        raise RuntimeError(f"dim_order: the tensor of shape {list(self.shape)}, strides {list(strides)} has more than one order")
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


def dense_dim(self: Tensor) -> int:
    """The number of axes: all of a dense tensor are dense."""
    return self.ndim


def sparse_dim(self: Tensor) -> int:
    """0: no axis of a dense tensor is sparse."""
    return 0


def dequantize(self: Tensor) -> Tensor:
    """In float32: nothing is quantised."""
    return self.to(_C.float32)


def setstate(self: Tensor, state: Any) -> None:
    """What pickles of PyTorch's old versions have: a view of a storage, or `requires_grad` and hooks."""
    if isinstance(state, dict):  # attributes, of a program's `__reduce__`
        self.__dict__.update(state)
        return
    if not isinstance(state, tuple):
        raise TypeError(f"__setstate__: the state is a {type(state).__name__}; expected attributes by name, or PyTorch's tuple")
    if not self.is_leaf:
        raise _C.AutogradError("__setstate__: the tensor has a history; expected a leaf")
    if len(state) == 4:
        self.set_(*state)
        return
    if len(state) not in (3, 5):
        raise ValueError(f"__setstate__: a state of {len(state)} parts; expected 3, 4 or 5")
    hooks, requires_grad = (state[2], state[3]) if len(state) == 5 else (state[2], state[0])
    if hooks is not None and not isinstance(hooks, dict):
        raise TypeError(f"__setstate__: the hooks are a {type(hooks).__name__}; expected a dict of them, or None")
    if len(state) == 5:
        self.data = state[0]
    self.requires_grad = requires_grad
    for hook in (hooks or {}).values():
        self.register_hook(hook)
