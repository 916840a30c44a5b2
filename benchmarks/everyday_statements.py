"""The statements of everyday.py by area, and what they look at: `T` is the library, `nn` and `F` are as always."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Names = dict[str, Any]


@dataclass(frozen=True)
class Area:
    """Statements, one a line, that share what they look at: `names` makes it for a library."""

    names: Callable[[Any], Names]
    statements: str

    def lines(self) -> list[str]:
        return [line.strip() for line in self.statements.strip().splitlines()]


def _part(tl: Any, name: str) -> Any:
    return importlib.import_module(f"{tl.__name__}.{name}")


def _deep(tl: Any) -> Any:
    nn = tl.nn
    return nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8)) for _ in range(60)])


def modules(tl: Any) -> Names:
    nn = tl.nn

    class Empty(nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return x

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = nn.Linear(8, 8)
            self.scale = nn.Parameter(tl.ones(8))
            self.register_buffer("mean", tl.zeros(8))
            self.width = 8

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    big, other = _deep(tl), _deep(tl)
    state = big.state_dict()
    return {
        "Empty": Empty, "Block": Block, "big": big, "other": other, "state": state, "part": dict(list(state.items())[:50]),
        "nothing": lambda m: None, "layer": nn.Linear(8, 8), "block": Block(), "empty": Empty(), "weight": nn.Parameter(tl.ones(8, 8)),
        "listed": nn.ModuleList(nn.Linear(4, 4) for _ in range(20)), "child": nn.ReLU(), "x": tl.ones(4, 8), "buffer": tl.ones(3),
        "named": nn.ModuleDict({c: nn.Linear(4, 4) for c in "abcdefgh"}), "copy": copy, "pickle": pickle,
        "parameters": nn.ParameterList([tl.ones(3) for _ in range(10)]), "keyed": nn.ParameterDict({c: tl.ones(3) for c in "abc"}),
    }  # fmt: skip


MODULES = """
    big.apply(nothing)
    big.zero_grad()
    big.zero_grad(set_to_none=False)
    big.requires_grad_(True)
    big.train()
    big.eval()
    big.to(T.float32)
    big.to("cpu")
    big.to(buffer)
    big.float()
    big.double().float()
    big.half().float()
    big.state_dict()
    big.state_dict(prefix="module.")
    big.state_dict(keep_vars=True)
    big.load_state_dict(state)
    big.load_state_dict(state, strict=False)
    big.load_state_dict(part, strict=False)
    other.load_state_dict(state, assign=True)
    list(big.parameters())
    list(big.named_parameters())
    list(big.named_parameters(recurse=False))
    list(big.buffers())
    list(big.named_buffers())
    list(big.modules())
    list(big.named_modules())
    list(big.children())
    list(big.named_children())
    sum(p.numel() for p in big.parameters())
    next(big.parameters()).device
    big.get_submodule("30.1")
    big.get_parameter("30.0.weight")
    big.get_buffer("30.2.running_mean")
    copy.deepcopy(big)
    copy.copy(block)
    pickle.loads(pickle.dumps(layer))
    repr(big)
    repr(layer)
    str(block)
    big[3]
    big[-1]
    big[3:8]
    len(big)
    for m in big: pass
    big[5] = child; big[5] = big[4]
    listed[3]
    listed[3:5]
    for m in listed: pass
    listed.append(child); listed.pop(-1)
    len(listed)
    named["c"]
    "c" in named
    for k, v in named.items(): pass
    named["x"] = child; del named["x"]
    parameters[3]
    for p in parameters: pass
    keyed["a"]
    for k, v in keyed.items(): pass
    block.register_buffer("late", buffer)
    block.register_buffer("late", buffer, persistent=False)
    block.register_parameter("extra", weight)
    block.add_module("more", child)
    block.scale
    block.mean
    block.first
    block.width
    block.training
    block.width = 9
    block.scale = block.scale
    block.mean = block.mean
    block.child = child
    block.child = child; del block.child
    hasattr(block, "missing")
    getattr(block, "missing", None)
    block._parameters
    block.extra_repr()
    empty(x)
    block(x)
    Empty()
    Block()
    nn.Identity()(x)
    nn.Parameter(buffer)
    nn.Linear(8, 8)
    nn.Linear(8, 8, bias=False)
    nn.Linear(8, 8, device="meta")
    nn.Conv2d(3, 8, 3)
    nn.BatchNorm2d(8)
    nn.LayerNorm(8)
    nn.Embedding(10, 8)
    nn.LSTM(8, 8)
    nn.MultiheadAttention(8, 2)
    nn.TransformerEncoderLayer(16, 2, 16)
    nn.Dropout(0.1)
    nn.ReLU()
    nn.GELU()
    nn.CrossEntropyLoss()
    nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    nn.ModuleList([child, child])
    nn.ParameterList([buffer, buffer])
"""


def calls(tl: Any) -> Names:
    nn = tl.nn

    def hooked(register: str, hook: Callable[..., Any], **how: Any) -> Any:
        layer = nn.Linear(8, 8)
        getattr(layer, register)(hook, **how)
        return layer

    return {
        "x": tl.randn(4, 8), "wanting": tl.randn(4, 8, requires_grad=True), "words": tl.arange(4), "layer": nn.Linear(8, 8),
        "none": lambda *a: None, "relu": nn.ReLU(), "norm": nn.LayerNorm(8), "batch": nn.BatchNorm1d(8), "still": nn.BatchNorm1d(8).eval(),
        "drop": nn.Dropout(0.1), "table": nn.Embedding(10, 8), "picture": tl.randn(1, 3, 8, 8), "conv": nn.Conv2d(3, 4, 3),
        "pool": nn.MaxPool2d(2), "entropy": nn.CrossEntropyLoss(), "mse": nn.MSELoss(), "cell": nn.LSTMCell(8, 8), "gru": nn.GRU(8, 8),
        "lstm": nn.LSTM(8, 8), "mha": nn.MultiheadAttention(8, 2, batch_first=True), "triple": tl.randn(2, 4, 8), "rms": nn.RMSNorm(8),
        "mlp": nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), "rnn": nn.RNN(8, 8),
        "flatten": nn.Flatten(), "upsample": nn.Upsample(scale_factor=2), "bilinear": nn.Bilinear(8, 8, 4),
        "encoder": nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        "decoder": nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        "forward_hook": hooked("register_forward_hook", lambda m, i, o: None),
        "changing_hook": hooked("register_forward_hook", lambda m, i, o: o),
        "kwargs_hook": hooked("register_forward_hook", lambda m, i, k, o: None, with_kwargs=True),
        "pre_hook": hooked("register_forward_pre_hook", lambda m, i: None),
        "pre_kwargs_hook": hooked("register_forward_pre_hook", lambda m, i, k: None, with_kwargs=True),
        "backward_hook": hooked("register_full_backward_hook", lambda m, i, o: None),
        "backward_pre_hook": hooked("register_full_backward_pre_hook", lambda m, o: None),
        "state_hook": hooked("register_state_dict_post_hook", lambda m, s, p, local: None), "every": _part(tl, "nn.modules.module"),
    }  # fmt: skip


CALLS = """
    layer(x)
    F.linear(x, layer.weight, layer.bias)
    relu(x)
    F.relu(x)
    norm(x)
    rms(x)
    batch(x)
    still(x)
    drop(x)
    F.dropout(x, 0.1, training=False)
    table(words)
    conv(picture)
    pool(picture)
    upsample(picture)
    flatten(picture)
    bilinear(x, x)
    entropy(x, words)
    mse(x, x)
    F.mse_loss(x, x)
    cell(x)
    rnn(x)
    gru(x)
    lstm(x)
    mha(triple, triple, triple)
    encoder(triple)
    decoder(triple, triple)
    mlp(x)
    mlp(x).sum().backward()
    layer.register_forward_hook(none).remove()
    layer.register_forward_pre_hook(none).remove()
    layer.register_full_backward_hook(none).remove()
    wanting.register_hook(none).remove()
    wanting.register_post_accumulate_grad_hook(none).remove()
    every.register_module_forward_hook(none).remove()
    forward_hook(x)
    changing_hook(x)
    kwargs_hook(x)
    pre_hook(x)
    pre_kwargs_hook(x)
    backward_hook(wanting).sum().backward()
    backward_pre_hook(wanting).sum().backward()
    state_hook.state_dict()
    nn.utils.parameters_to_vector(mlp.parameters())
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(mlp.parameters()), mlp.parameters())
    nn.utils.clip_grad_norm_(mlp.parameters(), 1.0)
    nn.utils.clip_grad_value_(mlp.parameters(), 1.0)
    nn.utils.get_total_norm([x, x])
"""


def _parameters(tl: Any, count: int) -> list[Any]:
    parameters = [tl.nn.Parameter(tl.randn(8, 8)) for _ in range(count)]
    for p in parameters:
        p.grad = tl.randn(8, 8)
    return parameters


OPTIMIZERS = "SGD Adam AdamW RMSprop Adagrad Adadelta NAdam RAdam Adamax Rprop ASGD Adafactor".split()


def optimizers(tl: Any) -> Names:
    optim = _part(tl, "optim")
    names: Names = {"O": optim, "ps": _parameters(tl, 200), "few": _parameters(tl, 10), "one": _parameters(tl, 1), "copy": copy}
    for kind in OPTIMIZERS:
        make = getattr(optim, kind)
        names |= {f"{kind}_{count}": make(_parameters(tl, count), lr=1e-5) for count in (1, 200)}
    (sparse,) = _parameters(tl, 1)
    sparse.grad = tl.sparse_coo_tensor(tl.tensor([[0, 3]]), tl.randn(2, 8), (8, 8))
    square = _parameters(tl, 1)
    adam = names["Adam_200"]
    adam.step()
    grouped = optim.SGD([{"params": [p], "lr": 0.1} for p in _parameters(tl, 20)], lr=1e-5, momentum=0.9)

    def closure() -> Any:
        return (square[0] ** 2).sum()

    def trained() -> Any:
        lbfgs.zero_grad()
        loss = (square[0] ** 2).sum()
        loss.backward()
        return loss

    lbfgs = optim.LBFGS(square, lr=1e-4, max_iter=4)
    return names | {
        "sparse": optim.SparseAdam([sparse], lr=1e-5), "lbfgs": lbfgs, "trained": trained, "closure": closure, "grouped": grouped,
        "momentum": optim.SGD(_parameters(tl, 200), lr=1e-5, momentum=0.9), "state": adam.state_dict(), "none": lambda *a: None,
        "each": optim.SGD(_parameters(tl, 200), lr=1e-5, momentum=0.9, foreach=False), "scaler": tl.amp.GradScaler("cpu", enabled=False),
    }  # fmt: skip


OPTIMIZERS_TABLE = (
    "\n".join(f"{kind}_{count}.step()" for kind in OPTIMIZERS for count in (1, 200))
    + """
    momentum.step()
    each.step()
    grouped.step()
    SGD_1.step(closure)
    lbfgs.step(trained)
    sparse.step()
    Adam_200.zero_grad()
    Adam_1.zero_grad()
    momentum.zero_grad(set_to_none=False)
    Adam_200.state_dict()
    Adam_200.load_state_dict(state)
    O.SGD(one, lr=0.1)
    O.SGD(ps, lr=0.1)
    O.Adam(one)
    O.AdamW(ps)
    O.SGD(few, lr=0.1).add_param_group({"params": one})
    for g in grouped.param_groups: g["lr"] = 0.1
    repr(SGD_1)
    copy.deepcopy(Adam_1)
    Adam_1.register_step_post_hook(none).remove()
    scaler.scale(few[0]); scaler.step(SGD_1); scaler.update()
    nn.utils.clip_grad_norm_(ps, 1.0)
    nn.utils.clip_grad_value_(ps, 1.0)
    nn.utils.clip_grad_norm_(one, 1.0)
"""
)


def schedulers(tl: Any) -> Names:
    optim = _part(tl, "optim")
    swa = _part(tl, "optim.swa_utils")
    L = optim.lr_scheduler
    long = 10**8

    def over(kind: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(L, kind)(optim.SGD(_parameters(tl, 1), lr=0.1, momentum=0.9), *args, **kwargs)

    both = optim.SGD(_parameters(tl, 1), lr=0.1)
    model = tl.nn.Linear(8, 8)
    return {
        "L": L, "optimizer": both, "step": over("StepLR", 1000), "multi": over("MultiStepLR", [30, 80]),
        "exponential": over("ExponentialLR", 0.9999), "constant": over("ConstantLR"), "linear": over("LinearLR"),
        "polynomial": over("PolynomialLR", long), "cosine": over("CosineAnnealingLR", 100), "warm": over("CosineAnnealingWarmRestarts", 10),
        "cyclic": over("CyclicLR", 0.01, 0.1, step_size_up=50), "one": over("OneCycleLR", max_lr=1, total_steps=long),
        "lambdas": over("LambdaLR", lambda e: 0.9), "times": over("MultiplicativeLR", lambda e: 1.0), "plateau": over("ReduceLROnPlateau"),
        "chained": L.ChainedScheduler([L.ConstantLR(both), L.ExponentialLR(both, 0.99999)]),
        "sequence": L.SequentialLR(both, [L.ConstantLR(both), L.ExponentialLR(both, 0.99999)], [10]),
        "swa": swa.SWALR(optim.SGD(_parameters(tl, 1), lr=0.1), 0.05), "averaged": swa.AveragedModel(model),
        "ema": swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.99)), "model": model,
    }  # fmt: skip


SCHEDULERS = """
    step.step()
    multi.step()
    exponential.step()
    constant.step()
    linear.step()
    polynomial.step()
    cosine.step()
    warm.step()
    cyclic.step()
    one.step()
    lambdas.step()
    times.step()
    plateau.step(1.0)
    chained.step()
    sequence.step()
    swa.step()
    averaged.update_parameters(model)
    ema.update_parameters(model)
    cosine.get_last_lr()
    cosine.state_dict()
    cosine.load_state_dict(cosine.state_dict())
    L.StepLR(optimizer, 10)
    L.CosineAnnealingLR(optimizer, 10)
    L.LambdaLR(optimizer, lambda e: 0.9)
"""


def tensors(tl: Any) -> Names:
    import numpy

    x = tl.randn(4, 6)
    return {
        "x": x, "y": tl.randn(4, 6), "s": tl.tensor(1.5), "i": tl.tensor(3), "t": tl.tensor(True), "v": tl.arange(100), "w": tl.randn(100),
        "wanting": tl.randn(3, requires_grad=True), "array": numpy.ones((3, 4), numpy.float32), "np": numpy, "copy": copy, "pickle": pickle,
        "numbers": [float(i) for i in range(100)], "rows": [[float(i + j) for i in range(10)] for j in range(10)], "same": tl.device("cpu"),
        "whole": list(range(100)), "scalars": [tl.tensor(1.0) for _ in range(10)], "h": x.half(), "big": tl.randn(100, 100),
        "arrays": [numpy.ones(4, numpy.float32) for _ in range(10)], "long": tl.randn(1000, 4), "kept": {x: 1},
    }  # fmt: skip


TENSORS = """
    s.item()
    i.item()
    x[0, 0].item()
    float(s)
    int(i)
    bool(t)
    if s > 1: pass
    if t: pass
    s.tolist()
    v.tolist()
    x.tolist()
    big.tolist()
    h.tolist()
    x.shape
    x.shape[0]
    n, d = x.shape
    x.shape == (4, 6)
    x.shape == y.shape
    x.shape[:-1]
    list(x.shape)
    tuple(x.shape)
    x.size()
    x.size(0)
    x.size(-1)
    x.dim()
    x.ndim
    x.numel()
    x.nelement()
    x.element_size()
    x.stride()
    x.stride(0)
    x.storage_offset()
    x.data_ptr()
    x.untyped_storage()
    x.dtype
    x.dtype == T.float32
    x.dtype is T.float32
    x.dtype in (T.float16, T.bfloat16)
    x.dtype.is_floating_point
    x.is_floating_point()
    x.is_complex()
    T.is_tensor(x)
    T.is_floating_point(x)
    isinstance(x, T.Tensor)
    x.device
    x.device == same
    x.device.type
    x.device.type == "cpu"
    T.device("cpu")
    T.device("cuda:1")
    x.is_cuda
    x.layout
    x.is_contiguous()
    x.contiguous()
    x.requires_grad
    x.requires_grad_(False)
    x.grad
    x.grad_fn
    x.is_leaf
    x.data
    x.detach()
    x.clone()
    x.to("cpu")
    x.to(T.float32)
    x.to(same)
    x.to(T.float64)
    x.to(device=same, dtype=T.float32)
    x.to(same, non_blocking=True)
    x.float()
    x.double()
    x.long()
    x.cpu()
    x.type(T.float64)
    x.type()
    x.type_as(y)
    x.T
    x.mT
    x.t()
    len(x)
    for r in x: pass
    for r in long: pass
    for n in v: pass
    a, b, c, d = x
    3 in v
    x in kept
    hash(x)
    id(x)
    copy.copy(x)
    copy.deepcopy(x)
    copy.deepcopy(wanting)
    pickle.dumps(x)
    pickle.loads(pickle.dumps(x))
    x.numpy()
    wanting.detach().cpu().numpy()
    np.asarray(x)
    np.array(x)
    np.mean(w.numpy())
    T.from_numpy(array)
    T.as_tensor(array)
    T.as_tensor(x)
    T.as_tensor(3.0)
    T.asarray(array)
    T.tensor(1.0)
    T.tensor(3)
    T.tensor(True)
    T.tensor([])
    T.tensor([1, 2, 3])
    T.tensor([1.0, 2.0, 3.0])
    T.tensor((1, 2))
    T.tensor(numbers)
    T.tensor(whole)
    T.tensor(rows)
    T.tensor(rows, dtype=T.float64)
    T.tensor(array)
    T.tensor(np.float32(1))
    T.tensor(scalars)
    T.tensor(1.0, dtype=T.float32, device="cpu")
    T.tensor(1.0, requires_grad=True)
    T.Tensor([1.0, 2.0])
    T.Tensor(3, 4)
    T.FloatTensor([1.0, 2.0])
    T.LongTensor([1, 2])
    T.stack([T.from_numpy(a) for a in arrays])
    T.tensor(np.stack(arrays))
    T.arange(10)
    T.arange(0, 10, 2)
    T.arange(0.0, 1.0, 0.1)
    T.arange(10, dtype=T.float32)
    T.linspace(0, 1, 10)
    T.logspace(0, 1, 10)
    T.zeros(3, 4)
    T.zeros((3, 4))
    T.zeros(3, 4, dtype=T.int64, device="cpu")
    T.ones(3, 4)
    T.empty(3, 4)
    T.full((3, 4), 1.5)
    T.eye(3)
    T.zeros_like(x)
    T.ones_like(x)
    T.full_like(x, 2.0)
    T.empty_like(x)
    T.rand(3, 4)
    T.randn(3, 4)
    T.randint(0, 10, (3,))
    T.randperm(10)
    T.rand_like(x)
    x.new_zeros(3)
    x.new_tensor([1.0, 2.0])
    x.new_empty(3)
    x.new_full((3,), 2.0)
    x.fill_(0.5)
    x.zero_()
    x.copy_(y)
    x.uniform_()
    x.normal_()
    x.equal(y)
    T.equal(x, y)
    T.allclose(x, y)
    T.isclose(x, y)
    (x == y).all()
    bool((x == y).all())
    x.any().item()
    x.max().item()
    x.sum().item()
    x.mean()
    x.max(1)
    values, places = x.max(1)
    x.argmax(-1)
    x.sort()
    x.topk(2)
    x.unique()
    x.isnan().any()
    x + 1
    x * 2.0
    1 - x
    x + y
    x / 2
    x // 2
    x ** 2
    x @ x.T
    -x
    x > 0
    z = x; z += 0.0
    x.add_(y, alpha=0.0)
    x.clamp(min=0)
    x.clamp_(0, 1)
    x.pow(2).sum().sqrt()
    sum(scalars)
    max(scalars)
    sum([q.item() for q in scalars])
    round(s.item(), 3)
    f"{s:.3f}"
    f"{s.item():.3f}"
    math.sqrt(s)
    "x" + str(i.item())
"""


def indexing(tl: Any) -> Names:
    x = tl.randn(6, 8)
    return {
        "x": x, "other": tl.zeros(6, 8), "cube": tl.randn(4, 5, 6), "rows": tl.tensor([0, 2, 4]), "cols": tl.tensor([1, 3, 5]),
        "mask": x > 0, "line": x[:, 0] > -9, "row": x[0].clone(), "k": tl.tensor(2), "long": tl.randn(100), "whole": tl.arange(12),
        "ids": tl.tensor([[0, 2], [1, 3]]), "copy": copy, "lengths": tl.tensor([4, 3, 2, 1, 1]),
        "ragged": [tl.randn(n, 4) for n in range(1, 9)],
    }  # fmt: skip


INDEXING = """
    x[0]
    x[-1]
    x[0, 1]
    x[0][1]
    x[k]
    x[1:3]
    x[:, 1:3]
    x[:, 0]
    x[:, ::2]
    x[..., 0]
    x[..., -1:]
    x[None]
    x[:, None]
    x[..., None]
    x[:]
    x[...]
    cube[0, :, 1:3]
    cube[:, -1, :]
    cube[:, :, None, :]
    x[[0, 2]]
    x[[0, 2], [1, 3]]
    x[rows]
    x[rows, cols]
    x[:, cols]
    x[rows[:, None], cols]
    x[mask]
    x[line]
    x[~line]
    x[x > 0]
    x[True]
    long[long.argmax()]
    x[0] = 1.0
    x[0, 1] = 1.0
    x[k] = 1.0
    x[1:3] = 1.0
    x[:, 1:3] = 1.0
    x[..., 0] = 1.0
    x[:] = 1.0
    x[0] = row
    x[:, None] = 1.0
    x[[0, 2]] = 1.0
    x[rows] = 1.0
    x[rows] = row
    x[rows, cols] = 1.0
    x[mask] = 1.0
    x[line] = row
    x[x < 0] = 0.0
    x[0] += 1.0
    x[0, 0] *= 1.0
    x.index_select(0, rows)
    x.gather(1, ids)
    x.scatter(1, ids, 1.0)
    x.scatter_add_(1, ids, other)
    x.masked_fill(mask, 0.0)
    x.masked_select(mask)
    x.index_add_(0, rows, other[:3])
    x.take(rows)
    x.nonzero()
    mask.nonzero(as_tuple=True)
    T.where(mask)
    T.where(mask, x, 0.0)
    x.narrow(0, 1, 2)
    x.select(0, 1)
    x.split(2)
    x.split([1, 2, 3])
    T.split(x, 2, dim=1)
    x.chunk(3)
    a, b = x.chunk(2, dim=1)
    x.unbind(0)
    T.unbind(x, 1)
    T.tensor_split(x, 3)
    long.unbind()
    T.stack([x, x])
    T.cat([x, x])
    T.cat(ragged)
    T.stack(list(long))
    x.view(-1)
    x.view(8, 6)
    x.view(x.size(0), -1)
    x.reshape(4, 12)
    x.flatten()
    cube.flatten(1)
    cube.permute(2, 0, 1)
    cube.transpose(0, 1)
    cube.movedim(0, -1)
    T.movedim(cube, (0, 1), (1, 0))
    x.unsqueeze(0)
    x.unsqueeze(0).squeeze(0)
    x.squeeze()
    x.expand(3, 6, 8)
    row.expand_as(x)
    x.repeat(2, 1)
    x.repeat_interleave(2, 0)
    x.tile(2)
    x.roll(1, 0)
    x.flip(0)
    T.rot90(x)
    x.tril()
    x.diag()
    x.diagonal()
    x.unfold(0, 2, 1)
    cube.unflatten(0, (2, 2))
    T.broadcast_to(row, (6, 8))
    T.broadcast_tensors(x, row)
    T.atleast_2d(row)
    T.hstack([x, x])
    T.vstack([x, x])
    T.meshgrid(rows, cols, indexing="ij")
    T.cartesian_prod(rows, cols)
    T.combinations(rows)
    T.tril_indices(4, 4)
    T.bincount(rows)
    T.searchsorted(long, x)
    T.cumsum(x, 0)
    T.diff(row)
    F.one_hot(rows)
    F.one_hot(rows, 10)
    F.pad(x, (1, 1))
    F.pad(x[None], (1, 1), mode="reflect")
    F.unfold(cube[None], 2)
    F.softmax(x, -1)
    F.log_softmax(x, dim=1)
    F.normalize(x, dim=-1)
    F.cosine_similarity(x, x)
    F.interpolate(cube[None], scale_factor=2)
    F.embedding(rows, x)
    nn.utils.rnn.pad_sequence(ragged)
    nn.utils.rnn.pad_sequence(ragged, batch_first=True, padding_value=-1)
    nn.utils.rnn.pack_sequence(ragged, enforce_sorted=False)
    nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence(ragged[::-1]))
    nn.utils.rnn.pack_padded_sequence(cube, [4, 3, 2, 1, 1])
    nn.utils.rnn.unpad_sequence(cube.clone(), lengths)
"""


def numeric(tl: Any) -> Names:
    a = tl.randn(3, 3)
    symmetric = a @ a.T + tl.eye(3)
    return {
        "a": a, "b": tl.randn(3, 3), "s": symmetric, "v": tl.randn(3), "u": tl.randn(3), "many": tl.randn(5, 3, 3), "signal": tl.randn(64),
        "L": tl.linalg, "windows": _part(tl, "signal.windows"), "special": tl.special, "fft": tl.fft, "logits": tl.randn(1, 100),
        "points": tl.randn(10, 3), "init": tl.nn.init, "weight": tl.empty(8, 8),
    }  # fmt: skip


NUMERIC = """
    T.cross(v, u, dim=0)
    L.cross(a, b)
    T.dot(v, u)
    T.outer(v, u)
    a @ v
    T.mm(a, b)
    T.bmm(many, many)
    T.matmul(many, a)
    T.addmm(a, a, b)
    L.norm(a)
    L.norm(v)
    L.norm(a, dim=-1)
    L.vector_norm(v)
    L.matrix_norm(a)
    v.norm()
    L.det(a)
    L.inv(a)
    L.solve(s, v)
    L.cholesky(s)
    L.qr(a)
    L.svd(a)
    L.svdvals(a)
    L.eigh(s)
    L.eigvalsh(s)
    L.eig(a)
    L.lstsq(a, b)
    L.slogdet(a)
    L.pinv(a)
    L.matrix_rank(a)
    L.matrix_exp(a)
    L.matrix_power(a, 3)
    L.multi_dot([a, b, a])
    L.lu_factor(a)
    L.cond(a)
    L.inv(many)
    T.trace(a)
    T.kron(a, b)
    T.cdist(points, points)
    T.einsum("ij,jk->ik", a, b)
    T.einsum("bij,bjk->bik", many, many)
    T.einsum("i,i->", v, u)
    T.einsum("ij->ji", a)
    T.einsum("ij,jk,kl->il", a, b, a)
    T.tensordot(a, b, dims=1)
    T.block_diag(a, b)
    T.hann_window(64)
    T.hamming_window(64)
    T.kaiser_window(64)
    windows.hann(64)
    windows.gaussian(64, std=7.0)
    windows.kaiser(64)
    windows.general_cosine(64, a=[0.5, 0.3, 0.2])
    fft.rfft(signal)
    fft.fftfreq(64)
    fft.fftshift(signal)
    T.stft(signal, 16, return_complex=True, window=T.hann_window(16))
    special.expit(v)
    special.logsumexp(a, 0)
    T.std_mean(a)
    T.var(a, 0)
    T.quantile(signal, 0.5)
    T.median(signal)
    T.histc(signal, 10)
    T.nan_to_num(a)
    T.lerp(a, b, 0.5)
    T.cov(points.T)
    T.corrcoef(points.T)
    T.bucketize(v, v.sort().values)
    T.multinomial(F.softmax(logits, -1), 1)
    T.multinomial(F.softmax(T.topk(logits, 10).values, -1), 1)
    init.xavier_uniform_(weight)
    init.xavier_normal_(weight)
    init.kaiming_uniform_(weight)
    init.kaiming_normal_(weight, nonlinearity="relu")
    init.orthogonal_(weight)
    init.trunc_normal_(weight, std=0.02)
    init.uniform_(weight)
    init.normal_(weight, std=0.02)
    init.zeros_(weight)
    init.constant_(weight, 0.5)
    init.eye_(weight)
    init.sparse_(weight, 0.5)
    init.calculate_gain("relu")
"""


def autograd(tl: Any) -> Names:
    nn, checkpoint = tl.nn, _part(tl, "utils.checkpoint")

    class Double(tl.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (_,) = ctx.saved_tensors
            return g * 2

    class Apart(tl.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y if ctx.needs_input_grad[0] else None, g * x

    @tl.no_grad()  # type: ignore[untyped-decorator]
    def still(x: Any) -> Any:
        return x

    @tl.inference_mode()  # type: ignore[untyped-decorator]
    def inferred(x: Any) -> Any:
        return x

    @tl.autocast("cpu", dtype=tl.bfloat16)  # type: ignore[untyped-decorator]
    def cast(x: Any) -> Any:
        return x

    mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    w = tl.randn(10, requires_grad=True)
    loss = (w * w).sum()
    return {
        "w": w, "u": tl.randn(10, requires_grad=True), "Double": Double, "Apart": Apart, "still": still, "inferred": inferred, "cast": cast,
        "mlp": mlp, "x": tl.randn(4, 8, requires_grad=True), "checkpoint": checkpoint.checkpoint,
        "sequential": checkpoint.checkpoint_sequential, "loss": loss, "func": _part(tl, "func"), "own": dict(mlp.named_parameters()),
        "plain": tl.randn(10), "batch": tl.randn(5, 8), "A": tl.autograd, "forward": _part(tl, "autograd.forward_ad"),
        "graph": _part(tl, "autograd.graph"), "AF": _part(tl, "autograd.functional"), "double": lambda x: x * 2,
        "squared": lambda x: (x * x).sum(), "product": lambda x, y: (x * y).sum(), "none": lambda *a: None,
    }  # fmt: skip


AUTOGRAD = """
    (w * w).sum().backward()
    loss.backward(retain_graph=True)
    A.backward(loss, retain_graph=True)
    A.grad(loss, w, retain_graph=True)
    A.grad((w * u).sum(), (w, u))
    A.grad((w * u).sum(), [w, u], create_graph=True)
    A.grad(loss, [w, u], retain_graph=True, allow_unused=True)
    A.grad(w * 2, w, plain)
    A.grad(A.grad((w ** 3).sum(), w, create_graph=True)[0].sum(), w)
    w.grad = None
    loss.grad_fn.next_functions
    loss.grad_fn.name()
    Double.apply(w)
    Double.apply(w).sum().backward()
    Apart.apply(w, u)
    Apart.apply(w, u).sum().backward()
    checkpoint(mlp, x, use_reentrant=False)
    checkpoint(mlp, x, use_reentrant=False).sum().backward()
    checkpoint(mlp, x, use_reentrant=True).sum().backward()
    sequential(mlp, 2, x, use_reentrant=False).sum().backward()
    with T.no_grad(): pass
    with T.enable_grad(): pass
    with T.inference_mode(): pass
    with T.set_grad_enabled(False): pass
    with T.autocast("cpu", dtype=T.bfloat16): pass
    with T.autocast("cpu", enabled=False): pass
    with A.set_detect_anomaly(False): pass
    with T.random.fork_rng(devices=[]): pass
    with graph.saved_tensors_hooks(double, double): pass
    with graph.save_on_cpu(): pass
    with forward.dual_level(): forward.unpack_dual(forward.make_dual(plain, plain))
    T.no_grad()
    T.is_grad_enabled()
    T.is_autocast_enabled("cpu")
    still(x)
    inferred(x)
    cast(x)
    w.detach().requires_grad_()
    w.retain_grad()
    w.register_hook(none).remove()
    func.functional_call(mlp, own, (x,))
    func.grad(squared)(plain)
    func.grad_and_value(squared)(plain)
    func.grad(product, argnums=(0, 1))(plain, plain)
    func.vmap(squared)(batch)
    func.vmap(product)(batch, batch)
    func.vmap(product, in_dims=(0, None))(batch, batch[0])
    func.vmap(func.grad(squared))(batch)
    func.jacrev(double)(plain)
    func.jacfwd(double)(plain)
    func.hessian(squared)(plain)
    func.vjp(squared, plain)
    func.jvp(squared, (plain,), (plain,))
    func.linearize(squared, plain)
    func.stack_module_state([mlp, mlp])
    T.vmap(double)(batch)
    AF.jacobian(double, plain)
    AF.hvp(squared, plain, plain)
    AF.vjp(squared, plain)
"""


def parametrized(tl: Any) -> Names:
    nn = tl.nn
    P, parametrize, prune = _part(tl, "nn.utils.parametrizations"), _part(tl, "nn.utils.parametrize"), _part(tl, "nn.utils.prune")

    class Twice(nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return x * 2

    simple = nn.Linear(8, 8)
    parametrize.register_parametrization(simple, "weight", Twice())
    pruned = nn.Linear(8, 8)
    prune.l1_unstructured(pruned, "weight", 0.3)
    return {
        "x": tl.randn(4, 8), "P": P, "parametrize": parametrize, "prune": prune, "Twice": Twice, "simple": simple, "pruned": pruned,
        "weighted": P.weight_norm(nn.Linear(8, 8)), "spectral": P.spectral_norm(nn.Linear(8, 8)),
        "orthogonal": P.orthogonal(nn.Linear(8, 8)),
    }  # fmt: skip


PARAMETRIZED = """
    simple(x)
    simple.weight
    with parametrize.cached(): simple.weight
    parametrize.is_parametrized(simple)
    parametrize.register_parametrization(nn.Linear(8, 8), "weight", Twice())
    simple.state_dict()
    weighted(x)
    weighted(x).sum().backward()
    spectral(x)
    orthogonal(x)
    P.weight_norm(nn.Linear(8, 8))
    P.spectral_norm(nn.Linear(8, 8))
    P.orthogonal(nn.Linear(8, 8))
    prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.3)
    prune.remove(prune.random_unstructured(nn.Linear(8, 8), "weight", 0.3), "weight")
    pruned(x)
    prune.is_pruned(pruned)
"""


DISTRIBUTIONS = {
    "Normal": "D.Normal(loc, scale{})",
    "Gamma": "D.Gamma(scale, scale{})",
    "Beta": "D.Beta(scale, scale{})",
    "Categorical": "D.Categorical(logits=table{})",
    "Bernoulli": "D.Bernoulli(logits=loc{})",
    "Dirichlet": "D.Dirichlet(table.exp(){})",
    "StudentT": "D.StudentT(scale{})",
    "Poisson": "D.Poisson(scale{})",
    "MultivariateNormal": "D.MultivariateNormal(loc[:4], T.eye(4){})",
    "Multinomial": "D.Multinomial(10, logits=loc{})",
    "Laplace": "D.Laplace(loc, scale{})",
    "Gumbel": "D.Gumbel(loc, scale{})",
    "Cauchy": "D.Cauchy(loc, scale{})",
    "LogNormal": "D.LogNormal(loc, scale{})",
    "Exponential": "D.Exponential(scale{})",
    "VonMises": "D.VonMises(loc, scale{})",
    "NegativeBinomial": "D.NegativeBinomial(scale, logits=loc{})",
    "Weibull": "D.Weibull(scale, scale{})",
    "Kumaraswamy": "D.Kumaraswamy(scale, scale{})",
    "Binomial": "D.Binomial(10, logits=loc{})",
    "Uniform": "D.Uniform(loc, loc + 1{})",
    "Geometric": "D.Geometric(logits=loc{})",
    "HalfNormal": "D.HalfNormal(scale{})",
    "Pareto": "D.Pareto(scale, scale{})",
    "OneHotCategorical": "D.OneHotCategorical(logits=table{})",
    "RelaxedBernoulli": "D.RelaxedBernoulli(T.tensor(0.5), logits=loc{})",
    "Independent": "D.Independent(D.Normal(loc, scale{0}), 1{0})",
    "MixtureSameFamily": "D.MixtureSameFamily(D.Categorical(logits=loc{0}), D.Normal(loc, scale{0}){0})",
    "TransformedDistribution": "D.TransformedDistribution(D.Normal(loc, scale{0}), [D.transforms.ExpTransform()]{0})",
    "LowRankMultivariateNormal": "D.LowRankMultivariateNormal(loc[:4], T.ones(4, 2), scale[:4]{})",
}


def distributions(tl: Any) -> Names:
    names: Names = {"D": _part(tl, "distributions"), "T": tl, "loc": tl.randn(10), "scale": tl.rand(10) + 0.5, "table": tl.randn(4, 5)}
    for kind, made in DISTRIBUTIONS.items():
        d = names[kind] = eval(made.format(""), names)
        names[f"{kind}_value"] = d.sample()
    d = names["D"]
    return names | {"n": names["Normal"], "m": d.Normal(0.0, 1.0), "b": names["Bernoulli"], "c": names["Categorical"]}


DISTRIBUTIONS_TABLE = "\n".join(
    line
    for kind, made in DISTRIBUTIONS.items()
    for line in (
        made.format(""),
        *([made.format(", validate_args=False")] if kind in ("Normal", "Categorical", "Bernoulli", "Gamma", "MultivariateNormal") else []),
        f"{kind}.sample()",
        f"{kind}.log_prob({kind}_value)",
    )
) + """
    n.sample((5,))
    n.rsample()
    n.rsample((5,))
    Gamma.rsample()
    D.Normal(0.0, 1.0)
    D.Normal(T.tensor(0.0), 1.0)
    m.sample()
    n.entropy()
    c.entropy()
    b.entropy()
    n.cdf(loc)
    n.icdf(T.sigmoid(loc))
    n.mean
    n.variance
    n.stddev
    c.probs
    b.probs
    n.batch_shape
    n.support
    n.expand((3, 10))
    repr(n)
    D.Categorical(probs=table.exp())
    D.kl_divergence(n, n)
    D.kl_divergence(m, m)
    D.kl_divergence(c, c)
    D.kl_divergence(b, b)
    D.kl_divergence(Gamma, Gamma)
    D.kl_divergence(MultivariateNormal, MultivariateNormal)
    D.kl_divergence(Independent, Independent)
"""


def data(tl: Any) -> Names:
    import numpy

    D = _part(tl, "utils.data")

    class Tensors(D.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 256

        def __getitem__(self, i: int) -> Any:
            return tl.full((3, 8, 8), float(i)), i % 10

    class Arrays(D.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 256

        def __getitem__(self, i: int) -> Any:
            return numpy.full((3, 8, 8), float(i), numpy.float32), i % 10

    class Dicts(D.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 256

        def __getitem__(self, i: int) -> Any:
            return {"x": tl.arange(64), "y": tl.tensor(i), "z": float(i), "s": "abc"}

    class Stream(D.IterableDataset):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Any:
            return iter(range(256))

    def run(*args: Any, **kwargs: Any) -> None:
        for _ in D.DataLoader(*args, **kwargs):
            pass

    paired = D.TensorDataset(tl.randn(1024, 8), tl.arange(1024))
    return {
        "D": D, "run": run, "tensors": Tensors(), "arrays": Arrays(), "dicts": Dicts(), "stream": Stream(), "paired": paired,
        "x": tl.randn(1024, 8), "y": tl.arange(1024), "joined": D.ConcatDataset([paired, paired]),
        "subset": D.Subset(paired, list(range(100))), "weights": [1.0] * 1000, "collate": D.default_collate,
        "loader": D.DataLoader(paired, batch_size=64), "pairs": [(tl.ones(3), i) for i in range(32)],
        "scalars": [float(i) for i in range(32)], "whole": list(range(32)),
        "nested": [{"a": [tl.ones(2), tl.ones(3)], "b": {"c": 1.0, "d": "text"}} for _ in range(32)],
        "triples": [(numpy.ones(3, numpy.float32), numpy.float64(1), (1, 2.0)) for _ in range(32)], "generator": tl.Generator(),
        "ragged": [tl.ones(n) for n in range(1, 33)],
    }  # fmt: skip


DATA = """
    run(tensors, batch_size=32, shuffle=True)
    run(arrays, batch_size=32)
    run(dicts, batch_size=32)
    run(stream, batch_size=32)
    run(paired, batch_size=32, shuffle=True)
    run(paired, batch_size=32, drop_last=True, generator=generator)
    run(paired, batch_size=None)
    run(paired, batch_size=32, collate_fn=list)
    run(paired, sampler=D.BatchSampler(D.RandomSampler(paired), 32, False), batch_size=None)
    D.DataLoader(paired, batch_size=64)
    len(loader)
    next(iter(loader))
    list(D.RandomSampler(paired))
    list(D.RandomSampler(paired, replacement=True, num_samples=100))
    list(D.SequentialSampler(paired))
    list(D.BatchSampler(D.SequentialSampler(paired), 32, False))
    list(D.WeightedRandomSampler(weights, 1000))
    list(D.SubsetRandomSampler(range(1000)))
    list(D.DistributedSampler(paired, num_replicas=2, rank=0))
    D.random_split(paired, [0.8, 0.2])
    D.random_split(paired, [1000, 24], generator=generator)
    D.TensorDataset(x, y)
    paired[3]
    paired[3:7]
    joined[1500]
    subset[50]
    len(joined)
    D.ConcatDataset([paired, paired])
    collate(pairs)
    collate(scalars)
    collate(whole)
    collate(nested)
    collate(triples)
    D.default_convert(nested)
    nn.utils.rnn.pad_sequence(ragged, batch_first=True)
"""


def printing(tl: Any) -> Names:
    x = tl.randn(4, 6)
    return {
        "s": tl.tensor(1.5), "i": tl.tensor(3), "x": x, "row": tl.randn(10), "whole": tl.arange(20), "long": tl.arange(100).view(10, 10),
        "big": tl.randn(1000, 1000), "cube": tl.randn(3, 4, 5), "mask": x > 0, "small": x * 1e-5,
        "mixed": x * tl.tensor([1e-6, 1.0, 1e6, 1.0, 1.0, 1.0]), "half": x.half(), "brain": x.bfloat16(), "double": x.double(),
        "byte": tl.arange(10).to(tl.uint8), "complex": tl.complex(x, x), "empty": tl.empty(0),
        "nan": tl.tensor([1.0, float("nan"), float("inf")]), "wanting": tl.randn(3, requires_grad=True), "wide": tl.randn(2, 500),
        "parameter": tl.nn.Parameter(tl.randn(3)), "meta": tl.empty(3, device="meta"), "sparse": tl.eye(3).to_sparse(),
    }  # fmt: skip


PRINTING = """
    repr(s)
    repr(i)
    repr(x)
    str(x)
    repr(row)
    repr(whole)
    repr(long)
    repr(big)
    repr(cube)
    repr(mask)
    repr(small)
    repr(mixed)
    repr(half)
    repr(brain)
    repr(double)
    repr(byte)
    repr(complex)
    repr(empty)
    repr(nan)
    repr(wanting)
    repr(wanting * 2)
    repr(parameter)
    repr(meta)
    repr(sparse)
    repr(wide)
    f"{s}"
    f"{x}"
    f"{s:.2f}"
    repr(x.shape)
    repr(x.dtype)
    repr(x.device)
    str(x.dtype)
    T.set_printoptions(precision=4)
"""


def files(tl: Any) -> Names:
    where: Names = {} if tl.__name__ == "torch" else {"format": "pt"}

    def saved(value: Any) -> bytes:
        file = io.BytesIO()
        tl.save(value, file, **where)
        return file.getvalue()

    model = tl.nn.Sequential(*[tl.nn.Linear(64, 64) for _ in range(8)])
    state, many = model.state_dict(), {str(i): tl.zeros(4) for i in range(300)}
    return {
        "saved": saved, "state": state, "many": many, "io": io, "pickle": pickle, "one": {"x": tl.ones(3), "epoch": 3}, "x": tl.ones(3),
        "state_file": saved(state), "many_file": saved(many), "one_file": saved({"x": tl.ones(3), "epoch": 3}),
        "pickled": pickle.dumps(state),
    }  # fmt: skip


FILES = """
    saved(x)
    saved(one)
    saved(state)
    saved(many)
    T.load(io.BytesIO(one_file))
    T.load(io.BytesIO(state_file))
    T.load(io.BytesIO(many_file))
    T.load(io.BytesIO(state_file), map_location="cpu")
    T.load(io.BytesIO(state_file), weights_only=False)
    pickle.dumps(state)
    pickle.loads(pickled)
"""


def sparse(tl: Any) -> Names:
    at, values = tl.randint(0, 20, (2, 50)), tl.randn(50)
    coo = tl.sparse_coo_tensor(at, values, (20, 20)).coalesce()
    return {
        "at": at, "values": values, "coo": coo, "csr": coo.to_sparse_csr(), "dense": tl.randn(20, 4), "square": tl.eye(20),
        "v": tl.randn(20),
    }  # fmt: skip


SPARSE = """
    T.sparse_coo_tensor(at, values, (20, 20))
    T.sparse_coo_tensor(at, values, (20, 20)).coalesce()
    coo.indices()
    coo.values()
    coo.to_dense()
    coo.is_sparse
    coo.is_coalesced()
    coo.t()
    coo * 2
    coo + coo
    T.sparse.mm(coo, dense)
    coo @ v
    T.sparse.sum(coo)
    square.to_sparse()
    square.to_sparse_csr()
    csr @ dense
    csr.to_dense()
    csr.crow_indices()
"""


def regions(tl: Any) -> Names:
    return {
        "x": tl.randn(4), "profiler": _part(tl, "profiler"), "generator": tl.Generator(), "backends": tl.backends,
        "state": tl.get_rng_state(), "same": tl.device("cpu"),
    }  # fmt: skip


REGIONS = """
    with profiler.record_function("step"): pass
    T.manual_seed(0)
    T.seed()
    T.initial_seed()
    T.get_rng_state()
    T.set_rng_state(state)
    T.Generator()
    generator.manual_seed(3)
    generator.initial_seed()
    generator.get_state()
    generator.set_state(state)
    T.randn(3, generator=generator)
    x.normal_(generator=generator)
    T.get_default_dtype()
    T.set_default_dtype(T.float32)
    T.get_default_device()
    with T.device("cpu"): pass
    with T.device("meta"): T.empty(3)
    T.use_deterministic_algorithms(False)
    T.are_deterministic_algorithms_enabled()
    backends.cudnn.benchmark = False
    backends.cudnn.deterministic
    backends.cuda.matmul.allow_tf32
    T.cuda.is_available()
    T.cuda.device_count()
    T.get_num_threads()
    T.set_num_threads(1)
    T.set_float32_matmul_precision("highest")
    T.get_float32_matmul_precision()
    T.finfo(T.float32)
    T.finfo(T.float32).eps
    T.iinfo(T.int64).max
    T.promote_types(T.float32, T.int64)
    T.result_type(x, 1)
    T.can_cast(T.float32, T.int64)
    T.Size([1, 2])
    T.Size([1, 2]).numel()
    T.broadcast_shapes((3, 1), (1, 4))
    T.nn.functional
    T.utils.data
    T.__version__
"""

AREAS = {
    "modules": Area(modules, MODULES),
    "calls": Area(calls, CALLS),
    "optimizers": Area(optimizers, OPTIMIZERS_TABLE),
    "schedulers": Area(schedulers, SCHEDULERS),
    "tensors": Area(tensors, TENSORS),
    "indexing": Area(indexing, INDEXING),
    "numeric": Area(numeric, NUMERIC),
    "autograd": Area(autograd, AUTOGRAD),
    "parametrized": Area(parametrized, PARAMETRIZED),
    "distributions": Area(distributions, DISTRIBUTIONS_TABLE),
    "data": Area(data, DATA),
    "printing": Area(printing, PRINTING),
    "files": Area(files, FILES),
    "sparse": Area(sparse, SPARSE),
    "regions": Area(regions, REGIONS),
}
