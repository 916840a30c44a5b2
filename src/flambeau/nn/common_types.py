"""`torch.nn.common_types`: names for annotations."""

from __future__ import annotations

from typing import TypeVar, Union

from flambeau._C import Tensor

T = TypeVar("T")
_scalar_or_tuple_any_t = Union[T, tuple[T, ...]]  # noqa: UP007  (a TypeVar)
_scalar_or_tuple_1_t = Union[T, tuple[T]]  # noqa: UP007  (a TypeVar)
_scalar_or_tuple_2_t = Union[T, tuple[T, T]]  # noqa: UP007  (a TypeVar)
_scalar_or_tuple_3_t = Union[T, tuple[T, T, T]]  # noqa: UP007  (a TypeVar)
_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_any_opt_t = int | None | tuple[int | None, ...]
_size_2_opt_t = int | None | tuple[int | None, int | None]
_size_3_opt_t = int | None | tuple[int | None, int | None, int | None]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
