"""Products: powers, exponentials, chains of matrices, and what else is made of sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import whole_number
from flambeau._out import deliver
from flambeau.amp.autocast_mode import _cast
from flambeau.linalg import _complex_factors, _complex_systems
from flambeau.linalg._arguments import check_tensors


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`flambeau.matmul`."""
    return deliver("linalg.matmul", ops.matmul(input, other), out)  # type: ignore[no-any-return]


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonal of the last two axes."""
    return ops.diagonal(A, offset, dim1, dim2)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The sum of conj(x) * y along `dim`; x and y broadcast.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.vecdot(fl.tensor([[1.0, 2.0], [3.0, 4.0]]), fl.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    check_tensors("linalg.vecdot", x=x, y=y)
    if _C.is_autocast_enabled():
        x, y = _cast((x, y), _C.get_autocast_dtype())
    return deliver("linalg.vecdot", (ops.conj(x) * y).sum(dim), out)  # type: ignore[no-any-return]


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The vector product along an axis of size 3; the other axes broadcast."""
    check_tensors("linalg.cross", input=input, other=other)
    if input.ndim != other.ndim:
        raise _C.ShapeError(f"linalg.cross: input has shape {list(input.shape)}, other {list(other.shape)}; expected as many axes")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"linalg.cross: dim = {dim}, but the tensors have shape {list(input.shape)}")
    shape, other_shape = input.shape, other.shape
    if shape[dim] != 3 or other_shape[dim] != 3:
        raise _C.ShapeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {shape[dim]} and {other_shape[dim]}")
    if shape != other_shape:
        from flambeau._functions import broadcast_tensors

        input, other = broadcast_tensors(input, other)
    return deliver("linalg.cross", ops.vector_product(input, other, dim), out)  # type: ignore[no-any-return]


def matrix_exp(A: Tensor) -> Tensor:
    """e^A = 1 + A + A^2 / 2 + ..., by Higham's scaling and squaring (2005).

    Shape:
        A [..., n, n] -> [..., n, n]

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.matrix_exp(fl.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return _complex_factors.linalg_matrix_exp(A)  # type: ignore[no-any-return]


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """A multiplied n times, by repeated squaring; of the inverse for negative n, the unit matrix for 0.

    Shape:
        A [..., m, m] -> [..., m, m]

    Raises:
        LinAlgError: n < 0, and A is singular.
    """
    check_tensors("linalg.matrix_power", A=A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise _C.ShapeError(f"linalg.matrix_power: A has shape {list(A.shape)}; expected square matrices, [..., m, m]")
    n = whole_number("linalg.matrix_power", "n", n)
    if n < 0:
        A, n = _complex_systems.linalg_inv_ex(A, check_errors=True)[0], -n
    if n == 0:
        return deliver("linalg.matrix_power", ops.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape).clone(), out)  # type: ignore[no-any-return]
    found: Tensor | None = None
    power = A
    while n:
        if n & 1:
            found = power if found is None else found @ power
        n >>= 1
        if n:
            power = power @ power
    assert found is not None
    return deliver("linalg.matrix_power", found.clone() if found is A else found, out)  # type: ignore[no-any-return]


def _best_order(sizes: Sequence[int]) -> list[list[int]]:
    """Where to cut matrices i ... j of sizes[i] by sizes[i + 1] for the fewest multiplications, by dynamic programming."""
    n = len(sizes) - 1
    if n == 3:  # two ways, as in most calls
        a, b, c, d = sizes
        return [[0, 0, int(a * c * (b + d) <= b * d * (a + c))], [0, 0, 1], [0, 0, 0]]
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return cut


def _multiplied(parts: Sequence[Tensor], cut: list[list[int]], i: int, j: int) -> Tensor:
    """The product of matrices i ... j, cut where `_best_order` says."""
    if i == j:
        return parts[i]
    k = cut[i][j]
    return ops.mm(_multiplied(parts, cut, i, k), _multiplied(parts, cut, k + 1, j))


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices in the order that takes the fewest multiplications. The first and the last may be vectors.

    Shape:
        [n0, n1], [n1, n2], ..., [nk-1, nk] -> [n0, nk]

    Raises:
        ShapeError: sizes that do not meet, or axes that are not one or two.
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise _C.ArgumentError(f"linalg.multi_dot: expected at least 2 tensors but got {len(parts)}")
    shapes = [list(t.shape) for t in parts]
    row, column = len(shapes[0]) == 1, len(shapes[-1]) == 1
    if {len(s) for s in shapes[row : len(shapes) - column]} - {2}:
        raise _C.ShapeError(f"linalg.multi_dot: shapes {shapes}; expected matrices, of which the first and the last may be vectors")
    if row:
        parts[0] = parts[0].unsqueeze(0)
    if column:
        parts[-1] = parts[-1].unsqueeze(-1)
    sizes = [1, *shapes[0]] if row else [*shapes[0]]
    for i, shape in enumerate(shapes[1:]):
        if shape[0] != sizes[-1]:
            raise _C.ShapeError(f"linalg.multi_dot: tensors {i} and {i + 1} with shapes {shapes[i]} and {shape} cannot be multiplied")
        sizes.append(1 if len(shape) == 1 else shape[1])
    found = ops.mm(*parts) if len(parts) == 2 else _multiplied(parts, _best_order(sizes), 0, len(parts) - 1)
    if column:
        found = found.squeeze(-1)
    if row:
        found = found.squeeze(0)
    return deliver("linalg.multi_dot", found, out)  # type: ignore[no-any-return]


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde matrices: the powers 0, 1, ..., N - 1 of each element; as many as there are elements by default.

    Shape:
        x [..., n] -> [..., n, N]
    """
    check_tensors("linalg.vander", x=x)
    if x.ndim == 0:
        x = x.reshape(1)
    count = x.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise _C.ArgumentError(f"linalg.vander: N = {N}; expected N > 1")
    kind: Any = x.dtype if x.is_floating_point() or x.is_complex() else _C.int64
    columns = x.to(kind).unsqueeze(-1)
    ones = ops.ones([*x.shape, 1], dtype=kind, device=x.device)
    if count <= 1:
        return ones.narrow(-1, 0, count)
    return ops.cumprod(ops.cat([ones, columns.expand([*x.shape, count - 1])], -1), -1)
