"""Functions whose arguments stand in another order here, at the top level, than in `nn.functional`."""

from __future__ import annotations

from flambeau._C import ArgumentError, Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau.nn import functional as F

__all__ = ["batch_norm", "embedding", "embedding_bag", "gru_cell", "instance_norm", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]

MODES = ("sum", "mean", "max")


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.batch_norm`, with weight and bias before the running statistics.

    Shape: input [N, C, *], all others [C].
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.instance_norm`, with weight and bias before the running statistics.

    Shape: input [N, C, *], all others [C].
    """
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@wants_tensors
def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """`nn.functional.embedding`, with the table before the indices. A negative `padding_idx` is no row.

    Shape: weight [V, D], indices [*] of int -> [*, D].

    >>> import flambeau as fl
    >>> fl.embedding(fl.eye(3), fl.tensor([2]))
    tensor([[0., 0., 1.]])
    """
    return F.embedding(indices, weight, padding_idx if padding_idx >= 0 else None, None, 2.0, scale_grad_by_freq, sparse)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag`, with the table first and the mode as a number: 0 sums, 1 takes means, 2 maxima.

    Shape: weight [V, D], indices [n] of int, offsets [B] -> [B, D]; the bag of each index [n]; the size of each bag [B]; and, for
    maxima, which indices they are of [B, D], else an empty tensor.

    Raises:
        ValueError: another mode.
    """
    if not isinstance(mode, int) or mode not in (0, 1, 2):
        raise ArgumentError(f"embedding_bag: mode = {mode!r}; expected 0 (sum), 1 (mean) or 2 (max)")
    result = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, MODES[mode], sparse, per_sample_weights, include_last_offset, padding_idx
    )
    starts = offsets[:-1] if include_last_offset else offsets
    ends = ops.cat([starts[1:], offsets[-1:] if include_last_offset else ops.full((1,), indices.shape[0], dtype=offsets.dtype)])
    sizes = ends - starts
    bag = ops.repeat_interleave(ops.arange(starts.shape[0], dtype=offsets.dtype), sizes)
    where = ops.empty((0,), dtype=offsets.dtype)
    if mode == 2:
        rows = weight.detach()[indices]
        which = ops.arange(indices.shape[0], dtype=offsets.dtype).unsqueeze(-1)
        first = ops.where(rows[: bag.shape[0]] == result.detach()[bag], which[: bag.shape[0]], indices.shape[0])
        least = ops.full(result.shape, indices.shape[0], dtype=offsets.dtype)
        least = least.scatter_reduce(0, bag.unsqueeze(-1).expand(first.shape), first, "amin")
        where = ops.where(least < indices.shape[0], ops.cat([indices, indices.new_zeros(1)])[least], -1)
    return result, bag, sizes, where


# ---- one step of recurrent layers: input [B, I], hx [B, H], weights [gates * H, I or H], biases [gates * H]


@wants_tensors
def lstm_cell(
    input: Tensor, hx: tuple[Tensor, Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The next states (h, c) of an LSTM with gates i, f, g, o, as `nn.LSTMCell` computes them.

    Shape: input [B, I], hx two of [B, H], w_ih [4 * H, I], w_hh [4 * H, H], biases [4 * H] -> two of [B, H].
    """
    h, c = hx
    new_h, new_c = ops.lstm_cell(F.linear(input, w_ih, b_ih), F.linear(h, w_hh, b_hh), c)[:2]
    return new_h, new_c


@wants_tensors
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """The next state of a GRU with gates r, z, n, as `nn.GRUCell` computes it.

    Shape: input [B, I], hx [B, H], w_ih [3 * H, I], w_hh [3 * H, H], biases [3 * H] -> [B, H].
    """
    return ops.gru_cell(F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh), hx)[0]


@wants_tensors
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """tanh(w_ih input + b_ih + w_hh hx + b_hh).

    Shape: input [B, I], hx [B, H], w_ih [H, I], w_hh [H, H], biases [H] -> [B, H].
    """
    return ops.tanh(F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))


@wants_tensors
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """relu(w_ih input + b_ih + w_hh hx + b_hh).

    Shape: input [B, I], hx [B, H], w_ih [H, I], w_hh [H, H], biases [H] -> [B, H].
    """
    return ops.relu(F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))
