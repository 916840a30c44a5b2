"""What PyTorch finds by an assertion is an AssertionError here, too, beside what it is anyway."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.utils import prune
from flambeau.utils import data

q, index = fl.ones(2, 3, 4), fl.tensor([1])


def attend(key=q, value=q, query=q, **options):
    return nn.MultiheadAttention(4, 2)(query, key, value, **options)


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter([1])


def _scaled():
    scaler = fl.amp.GradScaler("cpu")
    scaler.scale(fl.ones(1))
    return scaler


CASES = [
    (lambda: fl.amp.GradScaler("cpu").update(), RuntimeError, "nothing was scaled"),
    (lambda: _scaled().update(), RuntimeError, "no inf checks were recorded"), (fl.backends.mkl.verbose(1).__enter__, RuntimeError, "expected VERBOSE_OFF"),
    (fl.backends.mkldnn.verbose(1).__enter__, RuntimeError, "start it with ONEDNN_VERBOSE=1"),
    (lambda: data.TensorDataset(fl.ones(3), fl.ones(4)), ValueError, "first dimensions must be equal"), (lambda: data.ConcatDataset([]), ValueError, "datasets should not be an empty iterable"),
    (lambda: data.ConcatDataset([Stream()]), ValueError, "ConcatDataset does not support IterableDataset"), (lambda: list(data.ChainDataset([[1]])), TypeError, "ChainDataset only supports IterableDataset"),
    (lambda: len(data.ChainDataset([[1]])), TypeError, "ChainDataset only supports IterableDataset"), (lambda: nn.MultiheadAttention(5, 2), ValueError, "embed_dim must be divisible by num_heads"),
    (lambda: nn.TransformerEncoderLayer(5, 2), ValueError, "embed_dim must be divisible by num_heads"), (lambda: attend(query=fl.ones(2, 3, 5)), RuntimeError, "query: was expecting embedding dimension of 4"),
    (lambda: attend(fl.ones(4)), RuntimeError, r"For batched \(3-D\) `query`"), (lambda: attend(value=fl.ones(3, 3, 4)), RuntimeError, r"key shape \[2, 3, 4\] does not match value shape \[3"),
    (lambda: attend(key_padding_mask=fl.ones(2, 3) > 0), RuntimeError, "key_padding_mask has shape"), (lambda: attend(attn_mask=fl.ones(2, 2).long()), TypeError, "types of attn_mask are supported"),
    (lambda: nn.Embedding(5, 3, padding_idx=7), ValueError, "padding_idx = 7"), (lambda: nn.Embedding(5, 3, _weight=fl.ones(3, 3)), RuntimeError, r"weight has shape \[3, 3\]"),
    (lambda: nn.Embedding.from_pretrained(fl.ones(3)), RuntimeError, "Embeddings parameter is expected to be 2-dimensional"), (lambda: nn.EmbeddingBag(5, 3, padding_idx=7), ValueError, "padding_idx = 7"),
    (lambda: F.embedding(index, fl.ones(3, 2), padding_idx=5), ValueError, "padding_idx = 5"), (lambda: fl.ones(3).cuda(), fl.DeviceError, "Torch not compiled with CUDA enabled"),
    (lambda: nn.Linear(2, 2).cuda(), fl.DeviceError, "Torch not compiled with CUDA enabled"), (lambda: fl.cuda.current_device(), fl.DeviceError, "cuda.current_device: .*Torch not compiled with CUDA"),
    (lambda: fl.cuda.synchronize(), fl.DeviceError, "no CUDA backend"), (lambda: fl.cuda.current_stream(), fl.DeviceError, "no CUDA backend"),
    (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 0.5, fl.ones(3)), ValueError, r"importance_scores has shape \[3\]"),
    (lambda: prune.custom_from_mask(nn.Linear(2, 2), "weight", fl.ones(3)), ValueError, r"mask has shape \[3\]"),
    (lambda: nn.Sequential(nn.ReLU()).insert(0, 3), TypeError, "module should be of type"),
    (lambda: fl.optim.swa_utils.AveragedModel(nn.ReLU(), avg_fn=max, multi_avg_fn=max), ValueError, "expected one of them"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), CASES, ids=[f"{i}-{text}" for i, (*_, text) in enumerate(CASES)])
def test_what_is_asserted(call, kind, text):
    with pytest.raises(AssertionError, match=text) as found:
        call()
    assert isinstance(found.value, kind)


def test_a_layer_without_parameters_is_nowhere():
    layer = nn.ReLU()
    assert layer.cuda() is layer


PRUNED = [
    ("x", AttributeError, "'Linear' object has no attribute 'x'; its parameters are weight, bias"), ("in_features", TypeError, "'in_features' of Linear is a int"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "text"), PRUNED)
@pytest.mark.parametrize("call", [prune.identity, lambda m, n: prune.l1_unstructured(m, n, 0.5), lambda m, n: prune.ln_structured(m, n, 0.5, 2, 0)], ids=["identity", "l1", "ln"])
def test_what_is_no_parameter_is_not_pruned(call, name, kind, text):
    layer = nn.Linear(2, 2)
    with pytest.raises(kind, match=text):
        call(layer, name)
    assert sorted(layer.state_dict()) == ["bias", "weight"] and not layer._forward_pre_hooks


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.to("cpu"),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.item(),
        lambda x: fl.ones(1).copy_(x),
    ],
)
def test_elements_of_a_meta_tensor_are_not_there(call):
    for error in (fl.NoDataError, fl.DeviceError, NotImplementedError):
        with pytest.raises(error, match="no data|no elements"):
            call(fl.ones(1, device="meta"))
