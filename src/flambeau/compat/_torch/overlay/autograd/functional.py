"""`torch.autograd.functional`: beside its functions what minimizers of packages make their own Jacobians with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C as _core
from flambeau._C import Tensor

__all__: list[str] = []


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """A tuple of what was given as one tensor or as a tuple; with the names of argument and function before it whether it was one."""
    many = tuple(inp) if isinstance(inp, tuple) else (inp,)
    if arg_name is None and fn_name is None:
        return many
    for k, value in enumerate(many):
        if not isinstance(value, Tensor):
            raise TypeError(f"{fn_name}: {arg_name}[{k}] is a {type(value).__name__}; expected a tensor or a tuple of tensors")
    return isinstance(inp, tuple), many


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """What was made of tuples, without those around what had been given as one tensor."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    if isinstance(to_unpack, tuple) and not inner:
        res = tuple(entry[0] for entry in res)
    return res if outer else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results, without their history unless there is to be one."""
    if isinstance(inputs, Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple(_grad_postprocess(x, create_graph) for x in inputs)


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """The unit vectors of all elements together, cut into columns of each tensor: [elements of all, elements of one] each."""
    total, begin, parts = sum(tensor_numels), 0, []
    for x, n in zip(tensors, tensor_numels):
        part = _core.ops.zeros((total, n), dtype=x.dtype)
        part[begin : begin + n].fill_diagonal_(1)
        parts.append(part)
        begin += n
    return tuple(parts)
