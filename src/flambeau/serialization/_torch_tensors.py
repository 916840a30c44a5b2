"""Tensors of PyTorch's pickles: what stands for the functions that rebuild them."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import LAYOUTS, sparse_coo, strided
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._named import refused
from flambeau.serialization._pickle import Global, plain
from flambeau.serialization._sharing import check_place
from flambeau.serialization._torch_context import (
    Context,
    Function,
    Storage,
    attributes,
    expect,
    is_dict,
)

_OF_TENSORS = frozenset(dir(Tensor))


def _tensor(names: Context, storage: Storage, dtype: Any, offset: Any, sizes: Any, strides: Any) -> Tensor:
    if not isinstance(sizes, tuple) or not isinstance(strides, tuple):
        raise FileFormatError(f"a tensor has sizes {short(sizes)} and strides {short(strides)}; expected tuples")
    flat = names.flat(storage, dtype)
    if 0 in sizes and offset > flat.numel():  # a view of something empty may begin anywhere
        offset = flat.numel()
    place = [offset, list(sizes), list(strides)]
    if fault := check_place({"at": place}, [flat.numel()], dtype.itemsize):
        raise FileFormatError(f"a tensor of {storage.what} has (offset, sizes, strides) {fault.removeprefix('at = ')}")
    return flat.as_strided(place[1], place[2], flat.storage_offset() + offset).detach()


def _with_grad(value: Tensor, wanted: bool) -> Tensor:
    if wanted and not (value.is_floating_point() or value.is_complex()):
        raise FileFormatError(f"a tensor of dtype {value.dtype} can not require grad")
    return value.requires_grad_(True) if wanted else value


def _check_hooks(hooks: Any) -> None:
    if hooks is not None and (not is_dict(hooks) or hooks):
        raise FileFormatError(f"a tensor comes with backward hooks {short(hooks)}, which no file may set")


def _bits(names: Context, value: Tensor, bits: Any) -> Tensor:
    """Conjugates and negatives that PyTorch has not computed."""
    if bits is None:
        return value
    if not is_dict(bits) or not bits.keys() <= {"conj", "neg"} or not all(type(bit) is bool for bit in bits.values()):
        raise FileFormatError(f"a tensor comes with metadata {short(bits)}; expected conj or neg")
    if any(bits.values()):
        names.charge(value.numel() * value.element_size(), "a conjugate")
    if bits.get("conj"):
        if not value.is_complex():
            raise FileFormatError(f"a tensor of dtype {value.dtype} is said to be conjugated")
        value = value.conj()
    if bits.get("neg"):
        if value.dtype == _C.bool:
            raise FileFormatError("a tensor of dtype bool is said to be negated")
        value = -value
    return value


def _rebuild_tensor(names: Context, args: tuple[Any, ...]) -> Tensor:
    expect("_rebuild_tensor", args, Storage, int, object, object)
    return _tensor(names, args[0], _typed(args[0]), *args[1:])


def _typed(storage: Storage) -> Any:
    if storage.dtype is None:
        raise FileFormatError(f"{storage.what} is untyped, and the tensor does not name its element type")
    return storage.dtype


def _rebuild_tensor_v2(names: Context, args: tuple[Any, ...]) -> Tensor:
    expect("_rebuild_tensor_v2", args, Storage, int, object, object, bool, object, object, optional=1)
    _check_hooks(args[5])
    value = _tensor(names, args[0], _typed(args[0]), *args[1:4])
    return _with_grad(_bits(names, value, args[6] if len(args) > 6 else None), args[4])


def _rebuild_tensor_v3(names: Context, args: tuple[Any, ...]) -> Tensor:
    expect("_rebuild_tensor_v3", args, Storage, int, object, object, bool, object, _C.dtype, object, optional=1)
    _check_hooks(args[5])
    value = _tensor(names, args[0], args[6], *args[1:4])
    return _with_grad(_bits(names, value, args[7] if len(args) > 7 else None), args[4])


def _rebuild_meta(names: Context, args: tuple[Any, ...]) -> Tensor:
    expect("_rebuild_meta_tensor_no_storage", args, _C.dtype, tuple, tuple, bool)
    dtype, sizes, strides, grad = args
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides) if type(n) is type(s) is int)
    count = reach if all(type(n) is int and n for n in sizes) else 0
    if fault := check_place({"at": [0, list(sizes), list(strides)]}, [max(0, count)], dtype.itemsize):
        raise FileFormatError(f"a tensor on meta has (offset, sizes, strides) {fault.removeprefix('at = ')}")
    if count * dtype.itemsize >= 2**59:
        raise FileFormatError(f"a tensor on meta has sizes {short(sizes)} and strides {short(strides)}, which is too large")
    flat = _C.ops.empty(count, dtype=dtype, device="meta")
    return _with_grad(flat.as_strided(list(sizes), list(strides), 0), grad)


def _uninitialized(names: Context, args: tuple[Any, ...]) -> Tensor:
    from flambeau.nn.parameter import UninitializedParameter

    expect("UninitializedParameter", args, bool)
    return UninitializedParameter(args[0])


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor) or not value.is_leaf or value.layout is not strided:
        raise FileFormatError(f"{name} is called with {short(value)}; expected a dense tensor")


def _rebuild_parameter(names: Context, args: tuple[Any, ...]) -> Tensor:
    from flambeau.nn.parameter import Parameter

    expect("_rebuild_parameter", args, object, bool, object)
    _check_tensor("_rebuild_parameter", args[0])
    _check_hooks(args[2])
    _with_grad(args[0].detach(), args[1])
    return Parameter(args[0], args[1])


def _rebuild_parameter_with_state(names: Context, args: tuple[Any, ...]) -> Tensor:
    expect("_rebuild_parameter_with_state", args, object, bool, object, object)
    value = _rebuild_parameter(names, args[:3])
    _set_attributes(names, value, args[3])
    return value


def _set_attributes(names: Context, value: Tensor, state: Any) -> None:
    if isinstance(state, tuple) and len(state) == 2:  # attributes, and slots, of which a tensor has none
        if state[1]:
            raise FileFormatError(f"a tensor has slots {short(state[1])}; expected none")
        state = state[0] or {}
    if state is None:  # how Python says that an object has no attributes
        return
    (state,) = plain((state,))
    names.charge(len(state) if is_dict(state) else 1, "a state")
    value.__dict__.update(attributes(state, "a tensor", _OF_TENSORS))


def _rebuild_from_type(names: Context, args: tuple[Any, ...]) -> Tensor:
    """Tensors with attributes or of a class that the user allows, and Buffers, which are tensors with two attributes."""
    name = "_rebuild_from_type_v2"
    if len(args) != 4 or not isinstance(args[0], Global) or args[0].name not in REBUILDS or not isinstance(args[2], tuple):
        raise FileFormatError(f"{name} is called with {short(args)}, which are not its arguments")
    kind = args[1].name if isinstance(args[1], Global) else ""
    own = args[1] if isinstance(args[1], type) and issubclass(args[1], Tensor) and names.is_allowed(args[1]) else None
    if isinstance(args[1], type) and not names.is_allowed(args[1]):
        raise refused(f"{args[1].__module__}.{args[1].__qualname__}")
    if own is None and kind not in ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"):
        raise FileFormatError(f"a tensor of class {kind or short(args[1])} is wanted; expected Tensor, Parameter or Buffer")
    value: Tensor = REBUILDS[args[0].name](names, args[2])
    state = args[3]
    if own is not None:
        _check_tensor(name, value)
        value = _with_grad(value.detach().as_subclass(own), value.requires_grad)
        if own.__setstate__ is not Tensor.__setstate__:  # type: ignore[attr-defined]
            (state,) = plain((state,))
            names.run(own, lambda: names.set_state(value, state))
            return value
    elif kind == "torch.nn.parameter.Parameter":
        value = _rebuild_parameter(names, (value, value.requires_grad, None))
    elif is_dict(state) and state.get("_is_buffer") is True and type(state.get("persistent")) is bool:
        from flambeau.nn.parameter import Buffer

        _check_tensor(name, value)
        grad = value.requires_grad
        value = _with_grad(Buffer(value.detach(), persistent=state["persistent"]), grad)
        state = {key: entry for key, entry in state.items() if key not in ("_is_buffer", "persistent")}
    _set_attributes(names, value, state)
    return value


def _layout(names: Context, args: tuple[Any, ...]) -> Any:
    expect("_get_layout", args, str)
    kind = LAYOUTS.get(args[0].removeprefix("torch.")) if args[0].startswith("torch.") else None
    if kind is None:
        raise FileFormatError(f"the layout {short(args[0])} has no counterpart here; expected torch. and one of {', '.join(LAYOUTS)}")
    return kind


def _rebuild_sparse(names: Context, args: tuple[Any, ...]) -> Any:
    from flambeau.sparse import _construct

    if len(args) != 2 or args[0] not in LAYOUTS.values() or args[0] is strided or not isinstance(args[1], tuple):
        raise FileFormatError(f"_rebuild_sparse_tensor is called with {short(args)}, which are not its arguments")
    is_coo = args[0] is sparse_coo
    n, data = (2, args[1]) if is_coo else (3, args[1])
    fits = len(data) in ((3, 4) if is_coo else (4,)) and isinstance(data[n], tuple)
    if not fits or not all(type(k) is int and 0 <= k < 2**63 for k in data[n]):
        raise FileFormatError(f"a sparse tensor is made of {short(data)}; expected indices, values and a size")
    for part in data[:n]:
        _check_tensor("_rebuild_sparse_tensor", part)
        if part.is_meta:
            raise FileFormatError("a sparse tensor has a part on meta")
        names.charge(part.numel() * part.element_size(), "a sparse tensor's parts")
    # Indices are checked once, so they must not lie in a mapped file, which may change.
    parts = [*(part.clone() for part in data[: n - 1]), *data[n - 1 : n + 1]]
    try:
        if is_coo:
            made = _construct.sparse_coo_tensor(parts[0], parts[1], parts[2])
            return made.coalesce() if data[3:] == (True,) else made  # in order, as the file says it is
        return _construct.sparse_compressed_tensor(parts[0], parts[1], parts[2], parts[3], layout=args[0])
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        raise FileFormatError(f"a sparse tensor does not fit together: {error}") from None


REBUILDS: dict[str, Function] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
}
TENSORS: dict[str, Function] = {
    **REBUILDS,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
    "torch.serialization._get_layout": _layout,
    "torch.nn.parameter.UninitializedParameter": _uninitialized,
}
