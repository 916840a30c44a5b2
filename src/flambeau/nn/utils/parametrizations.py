"""Ready parametrizations: weight, spectral and orthogonal normalisation of a parameter (`nn.utils.parametrize` has the mechanism)."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau._info import finfo
from flambeau._no_tensor import wants_tensors
from flambeau.autograd import no_grad
from flambeau.nn.functional import normalize
from flambeau.nn.module import Module
from flambeau.nn.utils.parametrize import is_parametrized, register_parametrization
from flambeau.nn.utils.weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _weight(what: str, module: Module, name: str) -> Tensor:
    """The tensor that shall be parametrised.

    Raises:
        ValueError: there is none of that name.
    """
    if name in getattr(module, "_parameters", {}) or name in getattr(module, "_buffers", {}) or is_parametrized(module, name):
        value = getattr(module, name)
        if isinstance(value, Tensor):
            return value
    raise ValueError(f"{what}: {type(module).__name__} does not have a parameter, a buffer, or a parametrized element with name '{name}'")


class _WeightNorm(Module):
    """original0 v / |v| of the directions v = original1, with the lengths original0."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, lengths: Tensor, directions: Tensor) -> Tensor:
        return directions * (lengths / norm_except_dim(directions, 2, self.dim))  # type: ignore[no-any-return]

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim).clone(), weight


@wants_tensors
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replaces the parameter `name` by its lengths and directions, of which it is computed whenever it is read.

    State dicts of `nn.utils.weight_norm` (`weight_g`, `weight_v`) are loaded, too.

    Args:
        dim: the axis along which each slice has a length of its own; None: one length for all.

    Raises:
        ValueError: there is no such parameter.
        RuntimeError: it is parametrised already.

    Source: Salimans and Kingma 2016, eq. 2.

    >>> import flambeau as fl
    >>> layer = fl.nn.utils.parametrizations.weight_norm(fl.nn.Linear(20, 40), name="weight")
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (flambeau.Size([40, 1]), flambeau.Size([40, 20]))
    """
    _weight("weight_norm", module, name)
    if is_parametrized(module, name):
        raise RuntimeError(f"weight_norm: '{name}' of {type(module).__name__} is parametrised already; it must be the first")
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(state: dict[str, Any], prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state for key in old):
            for i, key in enumerate(old):
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)

    module._register_load_state_dict_pre_hook(older_names)
    return module


class _SpectralNorm(Module):
    """The weight divided by u^T W v, with u and v by power iteration (buffers `_u` and `_v`)."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        if not -weight.ndim <= dim < max(weight.ndim, 1):
            raise IndexError(f"spectral_norm: dim = {dim}; expected {-weight.ndim} to {weight.ndim - 1} for shape {list(weight.shape)}")
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim % max(weight.ndim, 1), eps
        if weight.ndim > 1:
            with no_grad():
                matrix = self._matrix(weight.detach())
                for name, size in zip(("_u", "_v"), matrix.shape):
                    self.register_buffer(name, normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)  # type: ignore[no-any-return]

    def _iterate(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            self._u.copy_(normalize(ops.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(ops.mv(matrix.t().conj() if matrix.is_complex() else matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim <= 1:
            return normalize(weight, dim=0, eps=self.eps)  # type: ignore[no-any-return]
        matrix = self._matrix(weight)
        if self.training:
            with no_grad():
                self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next forward writes into the buffers
        return weight / ops.vdot(u, ops.mv(matrix, v))  # type: ignore[no-any-return]

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # there is no other weight that the user could mean


@wants_tensors
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides the parameter `name` by its largest singular value, estimated by power iteration.

    Vectors are divided by their norm. In training each reading iterates; `parametrize.cached()` makes it one per region.

    Args:
        n_power_iterations: iterations of each reading in training; 15 come before the first.
        eps: what norms are at least taken to be.
        dim: the axis of the outputs; by default 1 for transposed convolutions and 0 for others.

    Raises:
        ValueError: there is no such parameter, or no iterations.
        IndexError: the weight has no axis `dim`.

    Source: Miyato et al. 2018, algorithm 1.

    >>> import flambeau as fl
    >>> layer = fl.nn.utils.parametrizations.spectral_norm(fl.nn.Linear(20, 40), n_power_iterations=50)
    >>> round(fl.linalg.matrix_norm(layer.weight, 2).item(), 3)
    1.0
    """
    weight = _weight("spectral_norm", module, name)
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, if it is wide) of a matrix without constraint."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("orthogonal: the householder map is for real weights; take 'matrix_exp' or 'cayley' for complex ones")
        self.shape, self.orthogonal_map, self.use_trivialization = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, free: Tensor) -> Tensor:
        wide = free.shape[-2] < free.shape[-1]
        tall = free.mT if wide else free
        rows, columns = tall.shape[-2:]
        if self.orthogonal_map == "householder":
            vectors = tall.tril(-1)
            q = ops.linalg_householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(-2)))
            q = q * tall.diagonal(0, -2, -1).sign().detach().unsqueeze(-2)
        else:
            lower = ops.constant_pad(tall.tril(), [0, rows - columns], 0.0)
            skew = lower - lower.mH
            if self.orthogonal_map == "matrix_exp":
                q = skew.matrix_exp()
            else:
                from flambeau import linalg  # here alone: it takes a while to load

                one = ops.eye(rows, dtype=skew.dtype, device=skew.device)
                q = linalg.solve(one - 0.5 * skew, one + 0.5 * skew)
            q = q.narrow(-1, 0, columns)
        if self.use_trivialization and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q  # type: ignore[no-any-return]

    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ValueError(f"orthogonal: a matrix of shape {list(value.shape)}; expected {list(self.shape)}")
        wide = value.shape[-2] < value.shape[-1]
        tall = value.mT if wide else value
        rows, columns = tall.shape[-2:]
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                what = f"a weight can not be assigned through the map '{self.orthogonal_map}' without trivialization"
                raise NotImplementedError(f"orthogonal: {what}; pass use_trivialization=True, or orthogonal_map='householder'")
            from flambeau.linalg._factors import geqrf

            packed, tau = geqrf(tall)
            diagonal = packed.diagonal(0, -2, -1)
            diagonal.sign_()
            diagonal.mul_(ops.where(tau == 0, -1.0, 1.0))
            return packed.mT if wide else packed  # type: ignore[no-any-return]
        if rows != columns:
            tall = ops.cat([tall, tall.new_empty((*tall.shape[:-1], rows - columns)).normal_(0, 1)], -1)
        self.base = _orthonormal(tall) if rows != columns or not _is_orthonormal(tall) else tall.clone()
        if rows != columns:
            self.base = self.base.contiguous()
        free = ops.zeros_like(value)
        free.diagonal(0, -2, -1).fill_(-1.0)  # any of which the skew part is 0
        return free  # type: ignore[no-any-return]


def _orthonormal(matrix: Tensor) -> Tensor:
    """The Q of the factors whose R has a positive diagonal, which is the nearest for an almost orthogonal matrix."""
    q, r = ops.linalg_qr(matrix)
    return q * r.diagonal(0, -2, -1).sgn().unsqueeze(-2)  # type: ignore[no-any-return]


def _is_orthonormal(matrix: Tensor) -> bool:
    n = matrix.shape[-1]
    one = ops.eye(n, dtype=matrix.dtype, device=matrix.device)
    return not matrix.numel() or bool((matrix.mH @ matrix - one).abs().max() <= 10 * n * finfo(matrix.dtype).eps)


@wants_tensors
def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Makes the parameter `name` a matrix, or a batch of them, with orthonormal columns (rows, if it is wide).

    Args:
        orthogonal_map: how a matrix without constraint becomes an orthogonal one: "matrix_exp" (of A - A^H; the default for square and
            complex ones), "cayley" ((I - A/2)^-1 (I + A/2), A as before) or "householder" (a product of reflections; the
            default otherwise).
        use_trivialization: multiplies by a constant orthogonal matrix, which starts as what the weight was (nearly), and which
            an assignment replaces.

    Raises:
        ValueError: there is no such parameter, it has fewer than two axes, or there is no such map.

    Source: Lezcano Casado 2019, eq. 2 and section 4; Golub and Van Loan 2013, section 5.1.

    >>> import flambeau as fl
    >>> layer = fl.nn.utils.parametrizations.orthogonal(fl.nn.Linear(20, 40))
    >>> bool((layer.weight.mT @ layer.weight - fl.eye(20)).abs().max() < 1e-5)
    True
    """
    weight = _weight("orthogonal", module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"orthogonal: Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions, '{name}' {list(weight.shape)}"
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal: orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
