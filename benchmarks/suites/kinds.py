"""Ops over matrices of other types and other layouts than float32 row by row: 512 x 512 elements, or 8 images of 32 x 32 x 32.

Programs meet these less often than plain floats, and libraries tend to forget one: an op that converts, copies or loops one by one
costs many times what its neighbours do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.case import Case

N = 512
FLOATS = {
    "turned": lambda tl: tl.randn(N, N).t(),
    "every other column": lambda tl: tl.randn(N, 2 * N)[:, ::2],
    "columns of more": lambda tl: tl.randn(N, N + 88)[:, 30 : 30 + N],
    "a column repeated": lambda tl: tl.randn(N, 1).expand(N, N),
    "channels last": lambda tl: tl.randn(8, 32, 32, 32).contiguous(memory_format=tl.channels_last),
    "float64": lambda tl: tl.randn(N, N, dtype=tl.float64),
    "bfloat16": lambda tl: tl.randn(N, N).bfloat16(),
    "float16": lambda tl: tl.randn(N, N).half(),
    "complex64": lambda tl: tl.randn(N // 2, N // 2, dtype=tl.complex64),
}
INTEGERS = {
    "int64": lambda tl: tl.randint(1, 100, (N, N)),
    "int32": lambda tl: tl.randint(1, 100, (N, N), dtype=tl.int32),
    "uint8": lambda tl: tl.randint(1, 100, (N, N), dtype=tl.uint8),
    "int16": lambda tl: tl.randint(1, 100, (N, N), dtype=tl.int16),
    "bool": lambda tl: tl.rand(N, N) > 0.5,
}

BOTH = """
x + y; x * y; x - 1; x * 2; -x; x.abs(); x.clone(); x + y.flip(0); x.contiguous(); x > y; x == y; x.float(); x.double();
x.to(tl.int64); x.to(tl.int32); x.bool(); tl.maximum(x, y); tl.where(x > y, x, y); x.sign(); x.sum(); x.sum(0); x.sum(1);
x.mean(); x.mean(0); x.max(); x.max(0); x.max(1); x.argmax(); x.argmax(1); x.amax(0); x.prod(1); x.std(); x.var(1); x.norm();
x.all(); x.any(1); x.cumsum(0); x.cumsum(1); x.sort(1); x.topk(5); x.argsort(0); x.logsumexp(1); x.softmax(1); x.softmax(0);
x.log_softmax(1); x.count_nonzero(); x.unique(); x.aminmax(); x.mode(1); x.kthvalue(3, 1); x.nonzero(); tl.var_mean(x, 1);
F.layer_norm(x, x.shape[1:]); x.flatten().dot(y.flatten()); tl.histc(x, 20); x.cummax(1); x.logcumsumexp(1); x.diff();
x.nansum(); x.min(1); x.flip(1); x.roll(7, 1); tl.cat([x, y], 1); tl.cat([x, y], 0); tl.stack([x, y], -1); x[::3].clone();
x[:, 5:99].clone(); x[y > 0]; x.masked_fill(y > 0, 1); x.index_select(0, few); x[few]; x.transpose(0, 1).contiguous(); x.tril();
x.gather(1, places); x.masked_select(y > 0); F.pad(x, (1, 1, 1, 1)); x.repeat_interleave(2, 0); x.take(many);
x.diagonal().sum(); tl.zeros_like(x).copy_(x); x.mT.clone(); x.equal(y); x.unfold(0, 4, 2).contiguous();
x.split(64, 1)[0].contiguous(); tl.rot90(x); x.tile(2); tl.full_like(x, 1); x.nan_to_num()
"""
OF_FLOATS = """
x / y; x.exp(); x.log1p(); x.sqrt(); x.tanh(); x.sigmoid(); x.relu(); x.sin(); x.square(); x.pow(3); x.reciprocal(); x.round();
x.clamp(-1, 1); tl.lerp(x, y, 0.3); tl.addcmul(x, x, y); F.gelu(x); F.silu(x); x.isnan(); x.floor(); x.erf(); x.log();
tl.atan2(x, y); x.fmod(0.7); x % 0.7; x.half(); x.bfloat16()
"""
OF_INTEGERS = """
x // 3; x % 3; x & y; x | y; x ^ y; x.to(tl.uint8); x.clamp(5, 50); x / y; x.pow(2); ~x; tl.bitwise_and(x, 3); x < 3
"""

# What PyTorch refuses.
ORDER = """
x > y; tl.maximum(x, y); tl.where(x > y, x, y); x.sign(); x.max(); x.max(0); x.max(1); x.argmax(); x.argmax(1); x.amax(0);
x.sort(1); x.topk(5); x.argsort(0); x.softmax(1); x.softmax(0); x.log_softmax(1); x.unique(); x.aminmax(); x.mode(1);
x.kthvalue(3, 1); F.layer_norm(x, x.shape[1:]); tl.histc(x, 20); x.cummax(1); x.nansum(); x.min(1); x[y > 0];
x.masked_fill(y > 0, 1); x.masked_select(y > 0); x.relu(); x.round(); x.clamp(-1, 1); F.gelu(x); x.floor(); x.erf();
tl.atan2(x, y); x.fmod(0.7); x % 0.7; x.logcumsumexp(1); x.nan_to_num()
"""
FRACTIONS = """
x.mean(); x.mean(0); x.std(); x.var(1); x.norm(); x.softmax(1); x.softmax(0); x.log_softmax(1); tl.var_mean(x, 1);
F.layer_norm(x, x.shape[1:]); tl.histc(x, 20); x.logcumsumexp(1)
"""
SIGNS = "x - 1; -x; x.abs(); x.argmax(); x.argmax(1); x.topk(5); x.kthvalue(3, 1); x.flatten().dot(y.flatten()); x.diff()"


def _statements(*texts: str) -> list[str]:
    return [s.strip() for text in texts for line in text.splitlines() for s in line.split(";") if s.strip()]


def operands(make: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)
        x = make(tl)
        return {
            "tl": tl, "F": tl.nn.functional, "x": x, "y": make(tl), "few": tl.arange(7, -1, -1), "many": tl.arange(1000),
            "places": tl.zeros(x.shape, dtype=tl.int64),
        }  # fmt: skip

    return setup


def _left_out(kind: str) -> set[str]:
    if kind in FLOATS:
        return set(_statements(ORDER)) if kind == "complex64" else set()
    return set(_statements(FRACTIONS, *([SIGNS] if kind == "bool" else [])))


CASES = [
    Case(f"{statement}, {kind}", "us", operands(make), statement, max_ratio=1.15, headline=False)
    for kinds, own in ((FLOATS, OF_FLOATS), (INTEGERS, OF_INTEGERS))
    for kind, make in kinds.items()
    for statement in _statements(BOTH, own)
    if statement not in _left_out(kind)
]
