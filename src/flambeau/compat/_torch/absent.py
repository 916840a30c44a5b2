"""What is said of names of PyTorch's that are not here, where more is known than the nearest name."""

from __future__ import annotations

_REMOVED = "PyTorch removed it; use"
_QUANTISED = "there are no quantised tensors; fake_quantize_per_tensor_affine and its kin round as they do"
_UNFLATTENED = "a graph has operators alone, and no modules that it could be taken apart into"

# A name, or the beginning of a path, -> what to do instead.
ABSENT: dict[str, str] = {
    "torch.cholesky_solve_ex": f"{_REMOVED} torch.cholesky_solve",
    "torch.distributed.rpc": "there are no calls between processes; torch.multiprocessing starts processes and has queues",
    "torch.eig": f"{_REMOVED} torch.linalg.eig, whose results are complex",
    "torch.export.AdditionalInputs": "sizes that vary are named by dynamic_shapes",
    "torch.export.ModuleCallEntry": _UNFLATTENED,
    "torch.export.ModuleCallSignature": _UNFLATTENED,
    "torch.export.ShapesCollection": "sizes that vary are named by dynamic_shapes",
    "torch.export.UnflattenedModule": _UNFLATTENED,
    "torch.export.unflatten": _UNFLATTENED,
    "torch.ifft": f"{_REMOVED} torch.fft.ifft, whose values are complex",
    "torch.irfft": f"{_REMOVED} torch.fft.irfft, whose argument is complex",
    "torch.lstsq": f"{_REMOVED} torch.linalg.lstsq(A, B), whose arguments are the other way round",
    "torch.matrix_rank": f"{_REMOVED} torch.linalg.matrix_rank",
    "torch.nested": "there are no tensors of unequal lengths; nn.utils.rnn pads and packs sequences",
    "torch.quantize_per_channel": _QUANTISED,
    "torch.quantize_per_tensor": _QUANTISED,
    "torch.quantize_per_tensor_dynamic": _QUANTISED,
    "torch.rfft": f"{_REMOVED} torch.fft.rfft, whose values are complex (torch.view_as_real has the old layout)",
    "torch.solve": f"{_REMOVED} torch.linalg.solve(A, B), whose arguments are the other way round",
    "torch.sparse.SparseSemiStructuredTensor": "there are no kernels for this pattern",
    "torch.sparse.to_sparse_semi_structured": "there are no kernels for this pattern",
    "torch.symeig": f"{_REMOVED} torch.linalg.eigh(A, UPLO='U')",
}


def instead_of(path: str) -> str | None:
    """What is known of a full name, or of the module that it would be in.

    >>> instead_of("torch.nested.nested_tensor") == ABSENT["torch.nested"], instead_of("torch.solved")
    (True, None)
    """
    while path:
        if path in ABSENT:
            return ABSENT[path]
        path = path.rpartition(".")[0]
    return None
