"""Recurrent layers: RNN, LSTM, GRU and their cells.

The input half of the gates does not depend on time, so it is one matrix product over the whole
sequence; the loop over time then costs one product with the hidden state and one fused cell op.

    x [T, B, I] --linear--> gx [T, B, G]          once
    for t:  gh = h W_hh^T + b_hh;  h = cell(gx[t], gh, h)

For LSTM and GRU that loop is one op (`lstm_sequence`, `gru_sequence`). A PackedSequence runs the loop here,
over its shrinking batches: going forward the rows that end are cut off and kept, going backward they join
when their last step comes.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, overload

from flambeau._C import ArgumentError, ShapeError, Tensor, is_autocast_enabled, ops
from flambeau._errors import RefusedElementsError, RefusedTypeError
from flambeau._warn import warn
from flambeau.nn import init
from flambeau.nn._room import check_room
from flambeau.nn.functional._dropout import check_p
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _step(
    mode: str, gx: Tensor, gh: Tensor, state: tuple[Tensor, ...], projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    if mode == "LSTM":
        h, c = ops.lstm_cell(gx, gh, state[1])[:2]
        return h if projection is None else ops.linear(h, projection), c
    if mode == "GRU":
        return (ops.gru_cell(gx, gh, state[0])[0],)
    return (ops.tanh(gx + gh) if mode == "RNN_TANH" else ops.relu(gx + gh),)


def _run(
    mode: str,
    x: Tensor,
    sizes: list[int] | None,
    state: tuple[Tensor, ...],
    weights: list[Tensor | None],
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One layer in one direction; x is [T, B, I], or packed [rows, I] with the batch sizes."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    assert w_ih is not None and w_hh is not None
    if sizes is None and not x.shape[1]:  # no sequences, however many steps they have
        y = (ops.linear(x, w_ih, b_ih) + ops.linear(state[0], w_hh, b_hh)).narrow(-1, 0, state[-1].shape[-1])
        return y if w_hr is None else ops.linear(y, w_hr), state
    if sizes is None and x.shape[0] and mode == "LSTM" and w_hr is None:
        bias = b_ih if b_hh is None or b_ih is None else b_ih + b_hh
        ys, h, c = ops.lstm_sequence(ops.linear(x, w_ih, bias), state[0], state[1], w_hh, reverse)[:3]
        return ys, (h, c)
    if sizes is None and x.shape[0] and mode == "GRU":
        ys, h = ops.gru_sequence(ops.linear(x, w_ih, b_ih), state[0], w_hh, b_hh, reverse)[:2]
        return ys.to(state[0].dtype), (h.to(state[0].dtype),)  # autocast widens
    gx_all = ops.linear(x, w_ih, b_ih)
    if sizes is None:
        gx = list(gx_all.unbind(0))
        sizes = [x.shape[1]] * x.shape[0]
        packed = False
    else:
        gx = list(gx_all.split(sizes, 0))
        packed = True
    steps = range(len(gx) - 1, -1, -1) if reverse else range(len(gx))
    first = state
    n = sizes[steps[0]]
    if n < first[0].shape[0]:
        state = tuple(s[:n] for s in first)
    ended: list[tuple[Tensor, ...]] = []
    outputs: list[Any] = [None] * len(gx)
    for t in steps:
        if sizes[t] < n:
            ended.append(tuple(s[sizes[t] : n] for s in state))
            state = tuple(s[: sizes[t]] for s in state)
        elif sizes[t] > n:
            state = tuple(ops.cat([s, f[n : sizes[t]]], 0) for s, f in zip(state, first))
        n = sizes[t]
        state = _step(mode, gx[t], ops.linear(state[0], w_hh, b_hh), state, w_hr)
        outputs[t] = state[0]
    if ended:
        parts = [state, *reversed(ended)]
        state = tuple(ops.cat([part[i] for part in parts], 0) for i in range(len(state)))
    return (ops.cat(outputs, 0) if packed else ops.stack(outputs, 0)), state


def run_layers(
    mode: str, x: Tensor, sizes: list[int] | None, states: tuple[Tensor, ...], weights: Sequence[Sequence[Tensor]], bidirectional: bool,
    projects: bool, dropout: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """All layers, with dropout between them; x is [T, B, I], or packed [rows, I] with the batch sizes."""
    directions = 2 if bidirectional else 1
    finals: list[tuple[Tensor, ...]] = []
    for first in range(0, len(weights), directions):
        outputs = []
        for k in range(first, first + directions):
            w: list[Any] = list(weights[k])
            projection = [w.pop()] if projects else [None]
            w = [*w, None, None][:4] + projection
            out, final = _run(mode, x, sizes, tuple(s[k] for s in states), w, k > first)
            outputs.append(out)
            finals.append(final)
        x = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
        if dropout and first + directions < len(weights):
            x = ops.dropout(x, dropout, True)
    return x, tuple(ops.stack([f[i] for f in finals], 0) for i in range(len(states)))


class RNNBase(Module):
    """What the three recurrent layers share: parameters, layers, directions, packing."""

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"]
    _fl_later = {"proj_size": 0}
    _flat_weights: list[Any]
    _flat_weight_refs: list[Any]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _GATES:
            raise ValueError(f"{name}: Unrecognized RNN mode: {mode}; expected one of {', '.join(_GATES)}")
        if proj_size and mode != "LSTM":
            raise ValueError(f"{name}: proj_size = {proj_size}, but the proj_size argument is only supported for LSTM, not RNN or GRU")
        if proj_size < 0:
            raise ValueError(f"{name}: proj_size should be a positive integer or zero to disable projections, got {proj_size}")
        if proj_size >= max(hidden_size, 1):
            raise ValueError(f"{name}: proj_size has to be smaller than hidden_size, got {proj_size} and {hidden_size}")
        for what, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if size <= 0:
                raise ValueError(f"{name}: {what} must be greater than zero, got {size}")
        for what, flag in (("bias", bias), ("batch_first", batch_first)):
            if type(flag) is not bool:
                raise TypeError(f"{name}: {what} is a {type(flag).__name__}; expected a bool")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float, Real)):
            raise RefusedTypeError(f"{name}: dropout = {dropout!r} is a {type(dropout).__name__}; expected a number from 0 to 1")
        check_p(name, dropout)
        if dropout > 0 and num_layers == 1:
            warn(f"{name}: dropout = {dropout} acts between layers and there is only one")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        rows = _GATES[mode] * hidden_size
        check_room(f"{name}: num_layers", num_layers)
        self._all_weights: list[list[str]] = self._fl_names()
        for k, names in enumerate(self._all_weights):
            n_in = input_size if k < self._fl_directions else self._fl_state_size * self._fl_directions
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (rows, n_in), "weight_hh": (rows, self._fl_state_size), "bias_ih": (rows,), "bias_hh": (rows,),
                "weight_hr": (proj_size, hidden_size),
            }  # fmt: skip
            for name in names:
                data = ops.empty(*shapes[name.partition("_l")[0]], device=device, dtype=dtype)
                self.register_parameter(name, Parameter(data))
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self._init_flat_weights()
        self.reset_parameters()

    @property
    def _fl_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _fl_state_size(self) -> int:
        """Of h; c has always hidden_size."""
        return self.proj_size or self.hidden_size

    def _fl_names(self) -> list[list[str]]:
        """Of the weights of each layer and direction."""
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else []), *(["weight_hr"] if self.proj_size else [])]
        suffixes = [f"_l{layer}{direction}" for layer in range(self.num_layers) for direction in ("", "_reverse")[: self._fl_directions]]
        return [[kind + suffix for kind in kinds] for suffix in suffixes]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Per layer and direction: weight_ih, weight_hh; with bias, bias_ih, bias_hh; with a projection, weight_hr."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # Note [The list of weights]: what computes is `_flat_weights`, in which programs put other tensors than the parameters (such as dropped
    # weights), in whole or one by one. Whatever has been assigned under a weight's name since the list was made, in whatever way, makes the
    # list anew: `_flat_weight_refs` refer to what the names meant then.

    def _init_flat_weights(self) -> None:
        """Makes the list of weights of what their names mean now."""
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if weight is None else weakref.ref(weight) for weight in self._flat_weights]
        self.flatten_parameters()

    def _weights_have_changed(self) -> bool:
        """Whether a weight's name means another tensor than when the list was made."""
        for ref, name in zip(self._flat_weight_refs, self._flat_weights_names):
            weight = getattr(self, name, None)
            if weight is not None and ref is not None and ref() is not weight:
                return True
        return len(self._flat_weight_refs) != len(self._flat_weights_names)

    def _update_flat_weights(self) -> None:
        if self._weights_have_changed():
            self._init_flat_weights()

    def _fl_layer_weights(self) -> list[list[Tensor]]:
        """What `all_weights` says, of the tensors that compute."""
        self._update_flat_weights()
        if any(weight is None for weight in self._flat_weights):
            return self.all_weights  # type: ignore[return-value]  # raises, with the name
        rest = iter(self._flat_weights)
        return [[next(rest) for _ in names] for names in self._all_weights]  # type: ignore[misc]

    def __setattr__(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        super().__setattr__(name, value)
        if name in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(name)] = value

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._flat_weight_refs = []  # what is referred to can not be swapped
        result = super()._apply(fn, recurse)
        self._init_flat_weights()
        return result

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._flat_weight_refs = []
        super()._load_from_state_dict(*args, **kwargs)
        self._init_flat_weights()

    def _replicate_for_data_parallel(self) -> Any:
        replica = super()._replicate_for_data_parallel()
        replica._flat_weights, replica._flat_weight_refs = self._flat_weights[:], self._flat_weight_refs[:]
        return replica

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_flat_weight_refs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Files written before have the names elsewhere, and once had tensors for them.
        if not isinstance(state.get("_all_weights", [[None]])[0][0], str):
            self._all_weights = self._fl_names()
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self._init_flat_weights()

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises for an input, or the data of a packed sequence, of other axes or features."""
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def _fl_expected(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * self._fl_directions, batch, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of the state h."""
        return self._fl_expected(input, batch_sizes, self._fl_state_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raises for a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises for an input or state that `forward` would not take."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state in another order of the batch."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def reset_parameters(self) -> None:
        """Draws U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Kept for scripts that call it; the parameters need no special layout."""

    def _fl_check_state(self, name: str, given: Tensor, batch: int, batched: bool) -> Tensor:
        layers = self.num_layers * self._fl_directions
        size = self.hidden_size if name == "c_0" else self._fl_state_size
        wanted = [layers, batch, size] if batched else [layers, size]
        if list(given.shape) != wanted:
            kind, own = type(self).__name__, f"{name} has shape {list(given.shape)}"
            if given.dim() != len(wanted):
                which = "hx and cx" if self.mode == "LSTM" else "hx"
                what = "batched 3-D" if batched else "unbatched 2-D"
                raise ShapeError(f"{kind}: For {what} input, {which} should also be {len(wanted)}-D: {own}; expected {wanted}")
            place = f"[{int(name == 'c_0')}]" if self.mode == "LSTM" else ""
            raise ShapeError(f"{kind}: Expected hidden{place} size {tuple(wanted)}, got {list(given.shape)} as {name}")
        return given if batched else given.unsqueeze(1)

    if TYPE_CHECKING:
        # Packed sequences give packed sequences; the state is a tensor, of an LSTM a pair.
        @overload
        def __call__(self, input: Tensor, hx: Any = ...) -> tuple[Tensor, Any]: ...

        @overload
        def __call__(self, input: PackedSequence, hx: Any = ...) -> tuple[PackedSequence, Any]: ...

        def __call__(self, input: Any, hx: Any = ...) -> Any: ...

    def forward(self, input: Any, hx: Any = None) -> Any:
        name = type(self).__name__
        packed = isinstance(input, PackedSequence)
        sizes: list[int] | None = None
        batched = True
        if packed:
            x = input.data
            sizes = input.batch_sizes.tolist()
            batch = sizes[0]
        else:
            x = input
            if x.dim() not in (2, 3):
                raise ShapeError(
                    f"{name}: Expected input to be 2D or 3D, got {x.dim()}D instead: shape {list(x.shape)}; expected "
                    f"[T, B, {self.input_size}] (batch_first: [B, T, {self.input_size}]) or [T, {self.input_size}]"
                )
            batched = x.dim() == 3
            if not batched:
                x = x.unsqueeze(1)
            elif self.batch_first:
                x = x.transpose(0, 1)
            if x.shape[0] == 0:
                raise ShapeError(
                    f"{name}: input has shape {list(input.shape)}; expected a length > 0"
                )
            batch = x.shape[1]
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]} "
                f"(shape {list(x.shape)})"
            )
        is_lstm = self.mode == "LSTM"
        states = self._fl_initial(x, hx, batch, batched, is_lstm)
        if packed and input.sorted_indices is not None and hx is not None:
            states = tuple(s.index_select(1, input.sorted_indices) for s in states)
        dropout, weights = self.dropout if self.training else 0.0, self._fl_layer_weights()
        if x.dtype is not (kind := weights[0][0].dtype) and not is_autocast_enabled():
            raise RefusedElementsError(f"{name}: input is {x.dtype}, the weights are {kind}; convert one of them: input.to({kind})")
        x, last = run_layers(self.mode, x, sizes, states, weights, self.bidirectional, bool(self.proj_size), dropout)
        result: Any
        if packed:
            if input.unsorted_indices is not None:
                last = tuple(s.index_select(1, input.unsorted_indices) for s in last)
            result = PackedSequence(
                x, input.batch_sizes, input.sorted_indices, input.unsorted_indices
            )
        elif not batched:
            result = x.squeeze(1)
            last = tuple(s.squeeze(1) for s in last)
        else:
            result = x.transpose(0, 1) if self.batch_first else x
        return result, (last if is_lstm else last[0])

    def _fl_initial(
        self, x: Tensor, hx: Any, batch: int, batched: bool, is_lstm: bool
    ) -> tuple[Tensor, ...]:
        if hx is None:
            layers = self.num_layers * self._fl_directions
            sizes = (self._fl_state_size, self.hidden_size) if is_lstm else (self.hidden_size,)
            return tuple(ops.zeros(layers, batch, n, dtype=x.dtype, device=x.device) for n in sizes)
        if is_lstm:
            if not isinstance(hx, (tuple, list)) or len(hx) != 2:
                raise TypeError(f"LSTM: hx = {type(hx).__name__}; expected a tuple (h_0, c_0)")
            return tuple(
                self._fl_check_state(n, s, batch, batched) for n, s in zip(("h_0", "c_0"), hx)
            )
        return (self._fl_check_state("h_0", hx, batch, batched),)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if self.batch_first:
            parts.append(f"batch_first={self.batch_first}")
        if self.dropout:
            parts.append(f"dropout={self.dropout}")
        if self.bidirectional:
            parts.append(f"bidirectional={self.bidirectional}")
        return ", ".join(parts)


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), or relu with `nonlinearity='relu'`.

    Shape: input [T, B, I] (`batch_first`: [B, T, I]; unbatched [T, I]), h_0 [layers * directions,
    B, H] -> output [T, B, directions * H], h_n.

    Raises:
        ValueError: shapes that do not fit, or an unknown nonlinearity.

    Source: Elman 1990.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = ...,
            bias: bool = ...,
            batch_first: bool = ...,
            dropout: float = ...,
            bidirectional: bool = ...,
            proj_size: int = ...,
            device: Any = ...,
            dtype: Any = ...,
            *,
            nonlinearity: str = ...,
        ) -> None: ...

        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = ...) -> tuple[Tensor, Tensor]: ...

        @overload
        def __call__(self, input: PackedSequence, hx: Tensor | None = ...) -> tuple[PackedSequence, Tensor]: ...

        def __call__(self, input: Any, hx: Any = ...) -> Any: ...

    else:

        def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
            if len(args) > 3 and isinstance(args[3], str):  # RNN(input, hidden, layers, nonlinearity)
                nonlinearity = args[3]
                args = (*args[:3], *args[4:])
            if nonlinearity not in ("tanh", "relu"):
                raise ValueError(f"RNN: Unknown nonlinearity {nonlinearity!r}; expected 'tanh' or 'relu'")
            self_nonlinearity = nonlinearity
            super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
            self.nonlinearity = self_nonlinearity


class LSTM(RNNBase):
    """Long short-term memory with gates in the order i, f, g, o.

    Shape: input [T, B, I], h_0 and c_0 [layers * directions, B, H] -> output [T, B, directions *
    H], (h_n, c_n). With `proj_size` P > 0 every h is multiplied by weight_hr [P, H], so that output, h_0
    and h_n have P features instead of H.

    Raises:
        ValueError: shapes that do not fit, or a proj_size that is not below hidden_size.

    Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000; Sak et al. 2014 for the projection.

    >>> import flambeau as fl
    >>> out, (h, c) = fl.nn.LSTM(4, 6, batch_first=True)(fl.zeros(2, 5, 4))
    >>> out.shape, h.shape
    (flambeau.Size([2, 5, 6]), flambeau.Size([1, 2, 6]))
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = ...,
            bias: bool = ...,
            batch_first: bool = ...,
            dropout: float = ...,
            bidirectional: bool = ...,
            proj_size: int = ...,
            device: Any = ...,
            dtype: Any = ...,
        ) -> None: ...

        @overload
        def __call__(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = ...) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

        @overload
        def __call__(
            self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = ...
        ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...

        def __call__(self, input: Any, hx: Any = ...) -> Any: ...

    else:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of the state c."""
        return self._fl_expected(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises for an input or states that `forward` would not take."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states in another order of the batch."""
        return hx if permutation is None else tuple(state.index_select(1, permutation) for state in hx)


class GRU(RNNBase):
    """Gated recurrent unit with gates in the order r, z, n.

    Shape: input [T, B, I], h_0 [layers * directions, B, H] -> output [T, B, directions * H], h_n.

    Source: Cho et al. 2014.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = ...,
            bias: bool = ...,
            batch_first: bool = ...,
            dropout: float = ...,
            bidirectional: bool = ...,
            proj_size: int = ...,
            device: Any = ...,
            dtype: Any = ...,
        ) -> None: ...

        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = ...) -> tuple[Tensor, Tensor]: ...

        @overload
        def __call__(self, input: PackedSequence, hx: Tensor | None = ...) -> tuple[PackedSequence, Tensor]: ...

        def __call__(self, input: Any, hx: Any = ...) -> Any: ...

    else:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__("GRU", *args, **kwargs)


def _misfit(i: int, given: Tensor, wanted: list[int]) -> str:
    """What is wrong with state `i` of a cell."""
    if given.dim() == len(wanted):
        if given.shape[-1] != wanted[-1]:
            return f"hidden{i} has inconsistent hidden_size: got {given.shape[-1]}, expected {wanted[-1]}: "
        if len(wanted) == 2:
            return f"Input batch size {wanted[0]} doesn't match hidden{i} batch size {given.shape[0]}: "
    return ""


class RNNCellBase(Module):
    """What the three cells share: weights of `num_chunks * hidden_size` rows, and a step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None
    _fl_mode: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(ops.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(ops.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            data = ops.empty(rows, device=device, dtype=dtype) if bias else None
            self.register_parameter(name, None if data is None else Parameter(data))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(max(self.hidden_size, 1))
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    if TYPE_CHECKING:

        def __call__(self, input: Tensor, hx: Tensor | None = ...) -> Tensor: ...

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        name = type(self).__name__
        if input.dim() not in (1, 2) or input.shape[-1] != self.input_size:
            n = self.input_size
            what = f"Expected input to be 1D or 2D, got {input.dim()}D instead"
            if input.dim() in (1, 2):
                what = f"input has inconsistent input_size: got {input.shape[-1]} expected {n}"
            raise ShapeError(f"{name}: {what}: shape {list(input.shape)}; expected [B, {n}] or [{n}]")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        n = 2 if self._fl_mode == "LSTM" else 1
        if hx is None:
            zero = ops.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            state: tuple[Tensor, ...] = (zero,) * n
        else:
            given = tuple(hx) if n == 2 else (hx,)
            for i, s in enumerate(given):
                wanted = [*input.shape[:-1], self.hidden_size]
                if list(s.shape) != wanted:
                    raise ShapeError(f"{name}: {_misfit(i, s, wanted)}hx has shape {list(s.shape)}; expected {wanted}")
            state = given if batched else tuple(s.unsqueeze(0) for s in given)
        gx = ops.linear(x, self.weight_ih, self.bias_ih)
        gh = ops.linear(state[0], self.weight_hh, self.bias_hh)
        state = _step(self._fl_mode, gx, gh, state)
        if not batched:
            state = tuple(s.squeeze(0) for s in state)
        return state if n == 2 else state[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text + ("" if self.bias is True else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """One step of RNN.

    Shape: input [B, I], hx [B, H] -> [B, H].
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNNCell: Unknown nonlinearity: {nonlinearity}; expected 'tanh' or 'relu'")
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def _fl_mode(self) -> str:  # type: ignore[override]
        return f"RNN_{self.nonlinearity.upper()}"

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of LSTM.

    Shape: input [B, I], (h, c) each [B, H] -> (h, c).
    """

    _fl_mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, input: Tensor, hx: tuple[Tensor, Tensor] | None = ...
        ) -> tuple[Tensor, Tensor]: ...


class GRUCell(RNNCellBase):
    """One step of GRU.

    Shape: input [B, I], hx [B, H] -> [B, H].
    """

    _fl_mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)
