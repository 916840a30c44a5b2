"""uint16, uint32, uint64 and complex32: what PyTorch does with them, flambeau does, too, unless it is listed."""

from __future__ import annotations

import warnings

import pytest
import torch

import flambeau as fl

TYPES = ["uint16", "uint32", "uint64", "complex32"]
CALLS = {
    "mul": lambda lib, x: x * x, "mul number": lambda lib, x: x * 2, "div": lambda lib, x: x / x, "float number": lambda lib, x: x + 1.5,
    "eq": lambda lib, x: x == x, "ne": lambda lib, x: x != 2, "and": lambda lib, x: x & x, "or": lambda lib, x: x | 1, "xor": lambda lib, x: x ^ x,
    "add": lambda lib, x: x + x, "sub": lambda lib, x: x - x, "neg": lambda lib, x: -x, "sum": lambda lib, x: x.sum(), "prod": lambda lib, x: x.prod(),
    "any": lambda lib, x: x.any(), "all": lambda lib, x: x.all(), "cumsum": lambda lib, x: x.cumsum(0), "cumprod": lambda lib, x: x.cumprod(0),
    "sort": lambda lib, x: x.sort()[0], "sorted places": lambda lib, x: x.sort(descending=True)[1], "unique": lambda lib, x: x.unique(),
    "counts": lambda lib, x: lib.unique(x, return_inverse=True, return_counts=True), "cat": lambda lib, x: lib.cat([x, x]), "stack": lambda lib, x: lib.stack([x, x]),
    "cat floats": lambda lib, x: lib.cat([x, lib.ones(1)]), "where": lambda lib, x: lib.where(x == 1, x, x), "index": lambda lib, x: x[lib.tensor([0, 1])],
    "mask": lambda lib, x: x[x == 1], "fill": lambda lib, x: x.clone().fill_(3), "zero": lambda lib, x: x.clone().zero_(), "zeros": lambda lib, x: lib.zeros_like(x),
    "ones": lambda lib, x: lib.ones_like(x), "full": lambda lib, x: lib.full((2,), 7, dtype=x.dtype), "float": lambda lib, x: x.float(),
    "long": lambda lib, x: x.long(), "bool": lambda lib, x: x.bool(), "complex": lambda lib, x: x.to(lib.complex64), "back": lambda lib, x: x.double().to(x.dtype),
    "isnan": lambda lib, x: x.isnan(), "isfinite": lambda lib, x: x.isfinite(), "sqrt": lambda lib, x: x.sqrt(), "exp": lambda lib, x: x.exp(),
    "equal": lambda lib, x: lib.equal(x, x), "allclose": lambda lib, x: lib.allclose(x, x), "repeat": lambda lib, x: x.repeat(2), "roll": lambda lib, x: x.roll(1),
    "repeat_interleave": lambda lib, x: x.repeat_interleave(2), "contiguous": lambda lib, x: x.expand(2, 3).t().contiguous(), "split": lambda lib, x: x.split(1)[0],
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 1)), "diag": lambda lib, x: x.diag(), "copy": lambda lib, x: lib.zeros(3).copy_(x),
    "setitem": lambda lib, x: x.clone().index_fill_(0, lib.tensor([1]), 1), "item": lambda lib, x: x[0].item(), "repr": lambda lib, x: repr(x),
    "plus floats": lambda lib, x: x + lib.tensor([1.0]), "plus halves": lambda lib, x: x + lib.tensor([1.0]).half(), "real": lambda lib, x: x.real,
    "view_as_real": lambda lib, x: lib.view_as_real(x), "bytes": lambda lib, x: x.view(lib.uint8), "typename": lambda lib, x: x.type(), "size": lambda lib, x: x.element_size(),
    "range": lambda lib, x: (lib.iinfo(x.dtype).min, lib.iinfo(x.dtype).max, lib.iinfo(x.dtype).bits), "topk": lambda lib, x: x.topk(2)[0],
    "dlpack": lambda lib, x: x.numpy().dtype.name, "promote": lambda lib, x: lib.promote_types(x.dtype, lib.bfloat16), "abs": lambda lib, x: x.abs(),
}  # fmt: skip
REFUSED = {  # where PyTorch answers
    ("prod", "complex32"), ("cumsum", "complex32"), ("cumprod", "complex32"), ("abs", "complex32"),
}  # fmt: skip


def plain(value, lib):
    if isinstance(value, lib.Tensor):
        return str(value.dtype).partition(".")[2], value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(v, lib) for v in value]
    return str(value).replace("torch", "flambeau")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch(name, dtype):
    def run(lib):
        data = [3 + 1j, 1, 2 - 0.5j] if dtype == "complex32" else [3, 1, 2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(CALLS[name](lib, lib.tensor(data, dtype=getattr(lib, dtype))), lib)

    try:
        want = run(torch)
    except Exception:
        pytest.skip("PyTorch refuses")
    if (name, dtype) in REFUSED:
        with pytest.raises(TypeError, match=dtype):
            run(fl)
        return
    assert run(fl) == want
