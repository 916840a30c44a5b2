"""`torch.ops`: operators by namespace. `aten` and `prims` are PyTorch's own, of which those that are functions here can be called; another namespace
is that of an extension, compiled against PyTorch's C++, which can not be loaded; `extensions` has the operators of some.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau.compat._torch import overlay
from flambeau.compat._torch.extensions import provide
from flambeau.compat._torch.overlay._overloads import overloads
from flambeau.compat._torch.overlay.utils import _python_dispatch

__all__ = ["load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()


class _Once:
    """What is there once: its copies are itself, and pickles know it by its name."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return _by_name, (str(self),)


def _by_name(path: str) -> Any:
    space, *names = path.split(".")
    found: Any = _kernel(names.pop(0)) if space == "aten" else _namespaces.setdefault(space, Namespace(space))
    for name in names:
        found = found._overload(name) if isinstance(found, OpOverloadPacket) else getattr(found, name)
    return found


class OpOverloadPacket(_Once):
    """An operator of ATen's: `torch.ops.aten.add`. All its overloads (`.default`, `.Tensor`) are the one function, which tells them by its arguments."""

    def __init__(self, namespace: str, name: str, function: Any) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self._namespace, self.__name__ = namespace, name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of its overloads; of an operator that has no others `default`."""
        return list(overloads.get(self.__name__, ("default",)))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.overloads()})

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("_"):
            raise AttributeError(overload)
        known = overloads.get(self.__name__, ("default", "out"))
        if overload not in known:
            raise AttributeError(f"{self} has no overload '{overload}'; expected one of {', '.join(known)}")
        return self._overload(overload)

    def _overload(self, overload: str) -> OpOverload:
        """What is there once by this name, be it an overload of ATen's or of a kernel of ours."""
        made = self.__dict__.get(overload)
        if made is None:
            made = self.__dict__[overload] = OpOverload(self, overload)
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class OpOverload(_Once):
    """One overload of an operator: `torch.ops.aten.add.Tensor`, there once. It is what `__torch_dispatch__` is told of a call."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket = self._overloadpacket = packet
        self._overloadname, self._opname, self.namespace = overload, packet.__name__, packet._namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.name()
        self.__module__ = f"torch._ops.{packet._namespace}"
        self._fl_path = f"torch.ops.{self}"
        self.tags: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if proxy := _proxy_in((*args, *kwargs.values())):
            return proxy.__torch_function__(self, (), args, kwargs)
        made = _python_dispatch.called(self, args, kwargs)
        return self.overloadpacket._function(*args, **kwargs) if made is NotImplemented else made

    def name(self) -> str:
        """`aten::add.Tensor`; of the default overload `aten::add`."""
        name = self.overloadpacket._qualified_op_name
        return name if self._overloadname == "default" else f"{name}.{self._overloadname}"

    @property
    def is_view(self) -> bool:
        """Whether its result is a view: said of none, since views are not operators that are dispatched."""
        return False

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"


def _proxy_in(values: Iterable[Any]) -> Any:
    """The class of proxies where one of fx's is among the arguments, also in a list; a graph that is traced has the operator."""
    kind = getattr(sys.modules.get("flambeau.fx.proxy"), "Proxy", None)
    return kind if kind and any(isinstance(x, kind) or (isinstance(x, list | tuple) and _proxy_in(x)) for x in values) else None


def _to_copy(x: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None, non_blocking: bool = False,
             memory_format: Any = None) -> Any:  # fmt: skip
    """A copy, in another type where one is given; how a copy to a GPU would be made has no say."""
    if layout is not None and layout != x.layout:
        raise NotImplementedError(f"aten::_to_copy: layout = {layout} of a tensor of {x.layout}; call to_dense() or to_sparse()")
    how = {name: value for name, value in (("dtype", dtype), ("device", device), ("memory_format", memory_format)) if value is not None}
    return x.to(copy=True, **how) if how else x.clone()


def _slice(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """x[start:end:step] along an axis."""
    return x[(slice(None),) * (dim % x.dim()) + (slice(start, end, step),)]


def _sparse_mm_reduce(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("aten::_sparse_mm_reduce_impl: a part of PyTorch's sparse.mm(reduce=); call flambeau.sparse.mm")


def _convolution_backward(grad_output: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                          output_padding: Any, groups: int, output_mask: Any) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of a convolution by its input, its weight and its bias, as far as they are asked for; None for the others."""
    x, weight = (flambeau.empty_like(t, device=grad_output.device) if t.is_meta else t for t in (x, weight))  # of which the shape alone matters
    with flambeau.enable_grad():
        leaves = [t.detach().requires_grad_(bool(wanted)) for t, wanted in zip((x, weight), output_mask, strict=False)]
        how = (stride, padding, dilation, transposed, output_padding, groups)
        y = overlay._convolution(leaves[0], leaves[1], None, *how, benchmark=False, deterministic=False, cudnn_enabled=False)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        found = iter(flambeau.autograd.grad(y, wanted, grad_output) if wanted else ())
    dx, dweight = (next(found) if leaf.requires_grad else None for leaf in leaves)
    return dx, dweight, grad_output.sum([0, *range(2, grad_output.dim())]) if output_mask[2] else None


def _gelu_backward(grad_output: Any, x: Any, *, approximate: str = "none") -> Any:
    kernels = flambeau._C.ops
    return kernels.gelu_tanh_backward(grad_output, x) if approximate == "tanh" else kernels.gelu_erf_backward(grad_output, x)


# What ATen calls otherwise than users do.
_ATEN: dict[str, Any] = {
    "_to_copy": _to_copy,
    "_pin_memory": flambeau.Tensor.pin_memory,
    "_sparse_addmm": flambeau.sparse.addmm,
    "_sparse_mm_reduce_impl": _sparse_mm_reduce,
    "convolution_backward": _convolution_backward,
    "gelu_backward": _gelu_backward,
    "lift_fresh_copy": flambeau.Tensor.clone,
    "_local_scalar_dense": flambeau.Tensor.item,
    "_unsafe_view": flambeau.Tensor.view,
    "alias": lambda x: x.view_as(x),
    "lift_fresh": lambda x: x,
    "slice": _slice,
    "sym_size": lambda x, dim: x.shape[dim],
    "unfold": flambeau.Tensor.unfold,
}
_PRIVATE = frozenset((
    "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo", "_convolution", "_log_softmax", "_log_softmax_backward_data",
    "_sample_dirichlet", "_shape_as_tensor", "_softmax", "_softmax_backward_data", "_standard_gamma",
))  # fmt: skip

# Gradients that ATen has as operators: programs name them in tables of what they count. Those that are kernels here can be called.
_GRADIENTS = frozenset("""
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _cdist_backward _ctc_loss_backward _embedding_bag_backward
    _embedding_bag_dense_backward _embedding_bag_sparse_backward _fused_rms_norm_backward _masked_softmax_backward _pdist_backward
    _prelu_kernel_backward _scaled_dot_product_flash_attention_for_cpu_backward _segment_reduce_backward _sparse_sum_backward
    _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d_backward _weight_norm_interface_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward
    affine_grid_generator_backward avg_pool2d_backward avg_pool3d_backward binary_cross_entropy_backward cumprod_backward
    diagonal_backward elu_backward embedding_backward embedding_dense_backward embedding_sparse_backward fractional_max_pool2d_backward
    fractional_max_pool3d_backward gather_backward glu_backward grid_sampler_2d_backward grid_sampler_3d_backward hardshrink_backward
    hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss_backward index_select_backward leaky_relu_backward
    linear_backward log_sigmoid_backward logit_backward masked_scatter_backward masked_select_backward matmul_backward
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward mish_backward mse_loss_backward multi_margin_loss_backward
    multilabel_margin_loss_backward native_batch_norm_backward native_dropout_backward native_group_norm_backward
    native_layer_norm_backward nll_loss2d_backward nll_loss_backward reflection_pad1d_backward reflection_pad2d_backward
    reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
    rrelu_with_noise_backward select_backward sigmoid_backward silu_backward slice_backward smooth_l1_loss_backward
    soft_margin_loss_backward softplus_backward softshrink_backward tanh_backward threshold_backward trace_backward unfold_backward
    upsample_bicubic2d_backward upsample_bilinear2d_backward upsample_linear1d_backward upsample_nearest1d_backward
    upsample_nearest2d_backward upsample_nearest3d_backward upsample_trilinear3d_backward value_selecting_reduction_backward
""".split())


def _found(name: str) -> Any:
    """The function that is ATen's operator of this name, or None."""
    if name in _ATEN:
        return _ATEN[name]
    for space in (flambeau, flambeau.nn.functional, flambeau.Tensor):
        if callable(function := getattr(space, name, None)):
            return function
    # `torch._name`, which PyTorch makes of ATen's operators, too. Other names are not operators.
    return getattr(overlay, name, None) if name in _PRIVATE or name.startswith("_foreach_") else None


class Namespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.name in ("aten", "prims"):
            if (function := _found(name)) is not None:
                packet = OpOverloadPacket(self.name, name, function)
                self.__dict__[name] = packet
                return packet
            if self.name == "aten" and name in _GRADIENTS:
                return _kernel(name)
            raise AttributeError(f"torch.ops.{self.name}.{name} is not in flambeau")
        registered = getattr(getattr(flambeau.ops, self.name), name, None)  # those of flambeau.library
        if registered is not None:
            return registered
        raise AttributeError(
            f"torch.ops.{self.name}.{name}: no operator of this name is registered; those of the compiled extension {self.name!r} need PyTorch's C++ library "
            "and can not be loaded"
        )


_namespaces: dict[str, Namespace] = {}


def _kernel(name: str) -> OpOverloadPacket:
    """`aten.<name>` as modes below autograd see it: also of kernels that are no operators, which can be called with what they were called with."""
    aten = _namespaces.setdefault("aten", Namespace("aten"))
    if name not in aten.__dict__:
        aten.__dict__[name] = OpOverloadPacket("aten", name, _found(name) or _itself(name))
    packet: OpOverloadPacket = aten.__dict__[name]
    return packet


def _itself(name: str) -> Any:
    """The kernel that modes see under this name, with all of its results: what autograd keeps is seen by modes alone."""
    from flambeau.compat._torch.overlay.utils._dispatched import kernel_name

    kernel = getattr(flambeau._C.ops, kernel_name(name), None)
    if kernel is None:
        return _no_kernel(name) if name in _GRADIENTS else _only_as_it_was(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        with _Results(name) as seen:
            result = kernel(*args, **kwargs)
        return (result, *seen.found[1:]) if isinstance(result, flambeau.Tensor) and seen.found else result

    return run


class _Results(_python_dispatch.TorchDispatchMode):
    """Keeps the results of an operator, where they are several."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.found: tuple[Any, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._opname == self.name and isinstance(result, tuple):
            self.found = result
        return result


def _only_as_it_was(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"aten::{name}: a kernel of flambeau's, which can be called with the arguments that __torch_dispatch__ got, or tensors like them")

    return refuse


def _no_kernel(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"aten::{name}: this gradient is made of other kernels in flambeau; call autograd.grad with the operator's result")

    return refuse


def load_library(path: Any) -> None:
    """Registers the operators of an extension whose operators are ours (`extensions`). Others are compiled against PyTorch's C++ library.

    Raises:
        OSError: the extension is none of ours.
    """
    if not provide(str(path)):
        raise OSError(f"ops.load_library: {path} is compiled against PyTorch's C++ library, which is not here; its operators are missing")
    loaded_libraries.add(str(path))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _namespaces.setdefault(name, Namespace(name))


def exists(qualname: str) -> bool:
    """Whether `ns::name` is an operator here."""
    space, _, name = qualname.partition("::")
    return hasattr(_namespaces.setdefault(space, Namespace(space)), name.partition(".")[0])
