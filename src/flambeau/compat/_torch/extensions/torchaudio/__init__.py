"""The operators of torchaudio's compiled extension: loops over samples (`_filters`), alignments and the loss of transducers (`_paths`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.compat._torch.extensions.torchaudio import _filters, _paths
from flambeau.library import Library

_OPS: dict[str, dict[str, Callable[..., Any]]] = {
    "_torchaudio": {
        "cuda_version() -> int?": lambda: None,
        "is_align_available() -> bool": lambda: True,
    },
    "torchaudio": {
        "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> ()": (
            _filters.lfilter_core_loop
        ),
        "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, Tensor(a!) output_waveform) -> ()": (
            _filters.overdrive_core_loop
        ),
        "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)": (
            _paths.forced_align
        ),
        "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, "
        "bool fused_log_softmax) -> (Tensor, Tensor)": _paths.rnnt_loss_forward,
    },
}

libraries = []
for namespace, schemas in _OPS.items():
    library = Library(namespace, "DEF")
    for schema, function in schemas.items():
        library.impl(library.define(schema), function, "CPU")
    libraries.append(library)
