"""Calls of kernels as calls of ATen's operators, for modes below autograd.

Products of matrices and convolutions get ATen's form, since programs count them: what is `linear` here is `addmm` over matrices, and its gradients are `mm`.
Other kernels keep their arguments, under ATen's name where it is another.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor

# Kernels that ATen calls otherwise.
_RENAMED = {
    "as_strided_view": "as_strided", "masked_select_same": "masked_select",
    "batch_norm": "native_batch_norm", "batch_norm_backward": "native_batch_norm_backward", "cast": "_to_copy", "cat_same": "cat", "cross_entropy": "_fused_cross_entropy",
    "clamp_between": "clamp", "clamp_floats": "clamp", "constant_pad": "constant_pad_nd", "contiguous_copy": "clone",
    "embedding_backward": "embedding_dense_backward", "gelu_erf": "gelu", "gelu_erf_backward": "gelu_backward", "gelu_tanh": "gelu",
    "gelu_tanh_backward": "gelu_backward", "group_norm": "native_group_norm", "group_norm_backward": "native_group_norm_backward",
    "grid_sample": "grid_sampler_2d", "index_get": "index", "layer_norm": "native_layer_norm", "layer_norm_backward": "native_layer_norm_backward", "log_softmax": "_log_softmax",
    "log_softmax_backward": "_log_softmax_backward_data", "nll_loss": "nll_loss_forward", "prelu_kernel": "_prelu_kernel",
    "relu_backward": "threshold_backward", "rms_norm": "_fused_rms_norm", "rms_norm_backward": "_fused_rms_norm_backward", "scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "scaled_dot_product_attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward", "softmax": "_softmax",
    "softmax_backward": "_softmax_backward_data", "vector_norm": "linalg_vector_norm",
}  # fmt: skip
# Overloads other than `default`.
_BY_TENSOR = frozenset("add sub mul div".split())
_BY_OPERAND = frozenset("eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor".split())
_SHIFTS = frozenset(("bitwise_left_shift", "bitwise_right_shift"))
_BY_LAST = {"lerp": ("Scalar", "Tensor"), "index_fill": ("int_Scalar", "int_Tensor"), "scatter": ("value", "src")}  # by a number, by a tensor
_BY_AXIS = {"sum": "dim_IntList", "mean": "dim", "max": "dim", "min": "dim", "median": "dim", "prod": "dim_int", "any": "dim", "all": "dim"}
# What a kernel's name says here, and an argument in ATen.
_SAYS: dict[str, dict[str, Any]] = {
    "contiguous_copy": {"memory_format": flambeau.contiguous_format},
    **dict.fromkeys(("gelu_tanh", "gelu_tanh_backward"), {"approximate": "tanh"}),
}
# What is there by position here, and by name in ATen, with what it is where it is not given.
_NAMED = {"cast": {"dtype": "None"}}
_OTHERS = {"rsub": "Scalar", "transpose": "int", "select": "int", "slice": "Tensor", "unbind": "int", "where": "self", "fill": "Scalar", "masked_fill": "Scalar", "std": "correction", "var": "correction", "index": "Tensor", "empty": "memory_format"}


class Call:
    """A call of a kernel under an operator's name, with its own arguments."""

    def __init__(self, taken: Any) -> None:
        self._taken = taken
        self._given = tuple(taken.args())
        by_name = _NAMED.get(taken.ident) or _by_name(taken.signature)
        positions = len(self._given) - len(by_name)
        self.args = self._given[: _needed(self._given[:positions], _by_position(taken.signature))]
        self._rest_by_position = self._given[len(self.args) : positions]
        self._rest = dict(zip(by_name, self._given[positions:], strict=True))
        self.kwargs = {name: value for name, value in self._rest.items() if str(value) != by_name[name]}
        self._said = _SAYS.get(taken.ident, {})
        self.kwargs |= self._said
        name, end = (taken.name[:-1], "_") if taken.name.endswith("_") else (taken.name, "")
        name = _RENAMED.get(name, name)
        self.func = operator(name + end, _overload(name, self.args))

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Computes with these arguments; NotImplemented where they are not like its own."""
        if not kwargs.keys() <= self._rest.keys() | self._said.keys() or kwargs.keys() < self.kwargs.keys():
            return NotImplemented
        if any(kwargs[name] != value for name, value in self._said.items()):
            return NotImplemented
        kwargs = {name: value for name, value in kwargs.items() if name not in self._said}
        if len(args) == len(self.args):
            args = [*args, *self._rest_by_position]
        return self._run_kernel([*args, *(self._rest | kwargs).values()])

    def _run_kernel(self, args: Sequence[Any]) -> Any:
        """With the kernel's own arguments."""
        if not _alike(args, self._given):
            return NotImplemented
        outs = self._taken.run(_tensors(args, self._given))
        if not outs:
            return args[0] if self._taken.writes() else None
        return outs[0] if len(outs) == 1 else tuple(outs)

    def outputs(self, result: Any) -> Sequence[Any]:
        """The kernel's outputs, of what the operator is said to have returned."""
        sizes = self._taken.sizes()
        results = [] if not sizes else [result] if len(sizes) == 1 else list(result)
        return [y if i == 0 or y is None else _in_shape(y, size) for i, (y, size) in enumerate(zip(results, sizes, strict=True))]


class Whole(Call):
    """A call that is answered whole: of a view, a constructor, or of what makes a size of values."""

    def __init__(self, taken: Any) -> None:
        super().__init__(taken)
        self.kwargs.pop("requires_grad", None)
        args = [list(value) if isinstance(value, tuple) else value for value in self.args]
        name, overload = self.func._opname, self.func._overloadname
        if name == "split_with_sizes" and _is_even(sizes := args[1]):
            name, overload, args[1] = "split", "Tensor", sizes[0]
        if name == "view" and taken.ident != "view":
            overload = "dtype"
        if name == "squeeze" and len(args) > 1:
            overload = "dim" if len(args[1]) == 1 else "dims"
            args[1:] = args[1] if overload == "dim" else [args[1]]
        self.func, self.args = operator(name, overload), tuple(args)

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return NotImplemented

    def outputs(self, result: Any) -> Sequence[Any]:
        if isinstance(result, Tensor):
            return [result]
        if self.func._opname == "_local_scalar_dense":
            return [flambeau.tensor(result, dtype=self.args[0].dtype)]
        results: Sequence[Any] = result
        return results


class Parts(Call):
    """A call of what is no operator of ATen's: `compute`, of its arguments, makes its result by several."""

    def __init__(self, taken: Any, compute: Callable[..., Tensor]) -> None:
        self.func, self._taken, self._compute = None, taken, compute

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._compute(*self._taken.args())

    def outputs(self, result: Any) -> Sequence[Any]:
        return [result]


class Arranged(Call):
    """A call of a kernel whose arguments an operator has in another order: `order` has their places, and in tuples what only the operator has."""

    def __init__(self, taken: Any, name: str, order: Sequence[int | tuple[Any]]) -> None:
        super().__init__(taken)
        self.func, self._order = operator(name, "default"), order
        self.args, self.kwargs = tuple(self._given[place] if isinstance(place, int) else place[0] for place in order), {}

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs or len(args) != len(self.args):
            return NotImplemented
        own = list(self._given)
        for place, x in zip(self._order, args, strict=True):
            if isinstance(place, int):
                own[place] = x
            elif x != place[0]:
                return NotImplemented
        return self._run_kernel(own)


class Form(Call):
    """A call of a kernel as one of an operator with other arguments: `args` stands for it, and what is returned is `apart` from the kernel's output."""

    def __init__(
        self, taken: Any, name: str, args: Sequence[Any], size: Sequence[int] | None = None, place: int | None = None, overload: str = "default"
    ) -> None:
        super().__init__(taken)
        self.func, self.args, self.kwargs = operator(name, overload), tuple(args), {}
        self._size, self._place = size, place  # of the operator's result, and where that is among several

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs or len(args) != len(self.args) or any(x is not y for x, y in zip(args, self.args, strict=True)):
            return NotImplemented
        (y,) = self._taken.run(_tensors(self._given, self._given))
        y = y if self._size is None or y.shape == self._size else y.reshape(self._size)
        return y if self._place is None else tuple(y if i == self._place else None for i in range(3))

    def outputs(self, result: Any) -> Sequence[Any]:
        y = result if self._place is None else result[self._place]
        size = self._taken.sizes()[0]
        return [y if y.shape == size else y.reshape(size)]


def as_aten(taken: Any) -> Call:
    """The operator and the arguments that stand for a call. What is no operator of ATen's is taken apart."""
    if parts := _PARTS.get(taken.ident):
        return Parts(taken, parts)
    made = _FORMS.get(taken.ident)
    call = made(taken, *taken.args()) if made else None
    return call or (Whole if taken.whole else Call)(taken)


def kernel_name(name: str) -> str:
    """What a kernel is called here that ATen calls `name`."""
    name, end = (name[:-1], "_") if name.endswith("_") else (name, "")
    return next((ours for ours, atens in _RENAMED.items() if atens == name), name) + end


def operator(name: str, overload: str) -> Any:
    """`torch.ops.aten.<name>.<overload>`, also of a kernel that ATen has not."""
    from flambeau.compat._torch.overlay import ops

    return ops._kernel(name)._overload(overload)


def _overload(name: str, args: Sequence[Any]) -> str:
    second = args[1] if len(args) > 1 else None
    if name in _BY_TENSOR:
        return "Tensor"
    if name in _BY_OPERAND:
        return "Scalar" if not isinstance(second, Tensor) else "Tensor" if isinstance(args[0], Tensor) else "Scalar_Tensor"
    if name in _SHIFTS:
        return "Tensor_Scalar" if not isinstance(second, Tensor) else "Tensor" if isinstance(args[0], Tensor) else "Scalar_Tensor"
    if name in _BY_LAST and len(args) > 2:
        return _BY_LAST[name][isinstance(args[-1], Tensor)]
    if name == "pow":
        return "Tensor_Tensor" if isinstance(args[0], Tensor) and isinstance(second, Tensor) else "Tensor_Scalar" if isinstance(args[0], Tensor) else "Scalar"
    if name in _BY_AXIS:
        return _BY_AXIS[name] if second is not None else "default"
    return _OTHERS.get(name, "default")


def _in_shape(y: Tensor, size: tuple[int, ...]) -> Tensor:
    """What is kept beside a result has the same elements in ATen, and some of it more axes."""
    return y.reshape(size) if y.shape != size and y.numel() == math.prod(size) else y


def _tensors(args: Sequence[Any], own: Sequence[Any]) -> list[Any]:
    """The tensors among arguments that stand for a kernel's own, also those in lists, in order."""
    found: list[Any] = []
    for x, y in zip(args, own, strict=True):
        if isinstance(y, Tensor):
            found.append(x)
        elif isinstance(y, list):
            found += x
    return found


def _needed(args: Sequence[Any], defaults: Sequence[str | None]) -> int:
    """How many arguments ATen gets: those at the end that are as they are by default it does not."""
    n = len(args)
    while n and defaults[n - 1] is not None and not isinstance(args[n - 1], Tensor) and defaults[n - 1] == str(args[n - 1]):
        n -= 1
    return n


def _is_even(sizes: Sequence[int]) -> bool:
    """Whether parts of these sizes are those of `split(sizes[0])`."""
    return bool(sizes) and sizes[0] > 0 and all(size == sizes[0] for size in sizes[:-1]) and 0 < sizes[-1] <= sizes[0]


@functools.cache
def _by_name(signature: str) -> dict[str, str]:
    """The arguments that are given by name alone, with what they are without being given: `add(Operand a, Operand b, *, number alpha=1)`."""
    arguments = signature[signature.index("(") + 1 : signature.index(") ->")]
    _, star, behind = arguments.partition("*, ")
    pairs = (piece.split()[-1].partition("=") for piece in behind.split(", ")) if star else ()
    return {name: default for name, _, default in pairs}


@functools.cache
def _by_position(signature: str) -> list[str | None]:
    """What the arguments before those that are given by name alone are by default; None where they have to be given."""
    arguments, _, _ = signature[signature.index("(") + 1 : signature.index(") ->")].partition("*, ")
    pieces = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", arguments)
    return [piece.partition("=")[2].strip() if "=" in piece else None for piece in pieces if piece.strip()]


def _alike(args: Sequence[Any], own: Sequence[Any]) -> bool:
    """Whether a kernel can be called with `args` in place of `own`: tensors of the same shapes and types, and the same of all else."""
    if len(args) != len(own):
        return False
    for x, y in zip(args, own, strict=True):
        if isinstance(y, list):
            if not isinstance(x, list | tuple) or not _alike(x, y):
                return False
        elif isinstance(y, Tensor):
            if x is not y and not (isinstance(x, Tensor) and x.shape == y.shape and x.dtype == y.dtype and x.device == y.device):
                return False
        elif type(x) is not type(y) or x != y:
            return False
    return True


# ---------------------------------------------------------------- parts


def _expand_reduced(g: Tensor, shape: Sequence[int], dim: Sequence[int] | None, keepdim: bool) -> Tensor:
    """The gradient of a sum: one number, or one per place, for all elements."""
    if not keepdim:
        for axis in sorted(d % len(shape) for d in dim or ()):
            g = g.unsqueeze(axis)
    return g.expand(list(shape))


def _sum_to(g: Tensor, shape: Sequence[int]) -> Tensor:
    """The gradient of what was broadcast from a shape."""
    more = g.dim() - len(shape)
    axes = [*range(more), *(more + i for i, n in enumerate(shape) if n == 1 and g.shape[more + i] != 1)]
    if axes:
        g = g.sum(axes, keepdim=True)
    return g.view(list(shape)) if more else g


_PARTS: dict[str, Callable[..., Tensor]] = {"expand_reduced": _expand_reduced, "sum_to": _sum_to}


def _power(exponent: int) -> Callable[..., Call]:
    return lambda taken, x: Form(taken, "pow", (x, exponent), overload="Tensor_Scalar")


# ---------------------------------------------------------------- products


def _matrix(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _linear(taken: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Call:
    rows = _matrix(x)
    size = (rows.shape[0], weight.shape[0])
    if bias is None:
        return Form(taken, "mm", (rows, weight.t()), size)
    return Form(taken, "addmm", (bias, rows, weight.t()), size)


def _matmul(taken: Any, a: Tensor, b: Tensor) -> Call | None:
    if a.dim() >= 2 and b.dim() == 2:
        rows = _matrix(a)
        return Form(taken, "mm", (rows, b), (rows.shape[0], b.shape[1]))
    if a.dim() == 3 and b.dim() == 3 and a.shape[0] == b.shape[0]:
        return Form(taken, "bmm", (a, b))
    if a.dim() == 2 and b.dim() == 1:
        return Form(taken, "mv", (a, b))
    return Form(taken, "dot", (a, b)) if a.dim() == b.dim() == 1 else None


def _matmul_grad_a(taken: Any, dy: Tensor, b: Tensor, shape: tuple[int, ...]) -> Call | None:
    if b.dim() == 2 and dy.dim() >= 2:
        rows = _matrix(dy)
        return Form(taken, "mm", (rows, b.t()), (rows.shape[0], b.shape[0]))
    return Form(taken, "bmm", (dy, b.mT)) if dy.dim() == b.dim() == 3 == len(shape) and dy.shape[0] == b.shape[0] == shape[0] else None


def _matmul_grad_b(taken: Any, dy: Tensor, a: Tensor, shape: tuple[int, ...]) -> Call | None:
    if len(shape) == 2 and dy.dim() >= 2 and a.dim() >= 2:
        return Form(taken, "mm", (_matrix(a).t(), _matrix(dy)), shape)
    return Form(taken, "bmm", (a.mT, dy)) if dy.dim() == a.dim() == 3 == len(shape) and dy.shape[0] == a.shape[0] == shape[0] else None


def _convolution(taken: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Call:
    args = (x, weight, bias, list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)
    return Form(taken, "convolution", args)


def _transposed(
    taken: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> Call:
    args = (x, weight, bias, list(stride), list(padding), list(dilation), True, list(output_padding), groups)
    return Form(taken, "convolution", args)


def _gradient_of_convolution(place: int) -> Callable[..., Call]:
    """By the input (0) or by the weight (1), each of which is a kernel of its own here. Of the other only the shape is known."""

    def form(taken: Any, dy: Tensor, other: Tensor, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Call:
        own = _C.ops.empty(shape, dtype=other.dtype, device="meta")
        x, weight = (own, other) if place == 0 else (other, own)
        mask = [i == place for i in range(3)]
        args = (dy, x, weight, None, list(stride), list(padding), list(dilation), False, [0] * len(stride), groups, mask)
        return Form(taken, "convolution_backward", args, None, place)

    return form


# ---------------------------------------------------------------- others


def _arranged(name: str, *order: int | tuple[Any]) -> Callable[..., Call]:
    return lambda taken, *own: Arranged(taken, name, order)


def _group_norm(taken: Any, x: Tensor, groups: int, *own: Any) -> Call:
    n, channels = x.shape[:2]
    return Arranged(taken, "native_group_norm", (0, 2, 3, (n,), (channels,), (math.prod(x.shape[2:]),), 1, 4))


_FORMS: dict[str, Callable[..., Call | None]] = {
    "batch_norm": _arranged("native_batch_norm", 0, 3, 4, 1, 2, 5, 6, 7),
    "group_norm": _group_norm,
    "log_softmax": _arranged("_log_softmax", 0, 1, (False,)),
    "softmax": _arranged("_softmax", 0, 1, (False,)),
    "linear": _linear,
    "square": _power(2),
    "cube": _power(3),
    "matmul": _matmul,
    "matmul_grad_a": _matmul_grad_a,
    "matmul_grad_b": _matmul_grad_b,
    "convolution": _convolution,
    "conv_transposed": _transposed,
    "conv_backward_data": _gradient_of_convolution(0),
    "conv_backward_weight": _gradient_of_convolution(1),
}
