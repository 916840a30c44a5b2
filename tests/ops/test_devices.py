"""One rule for tensors on meta beside others, for every op of the table: a meta result, or an error that names the argument."""

from __future__ import annotations

import pytest
from opgen.rules import is_inplace_op
from support.table import OPS, arrays, call, is_spec, tensors

import flambeau as fl
from flambeau import _C


def tensors_in(sample):
    """Names of a sample's tensors."""
    return [n for n, v in sample.items() if is_spec(v) or (isinstance(v, list) and v and is_spec(v[0]))]


CASES = [(op, k) for op in OPS for k, sample in enumerate(op.get("samples", [])) if tensors_in(sample)]
IDS = [f"{op.ident}-{k}" for op, k in CASES]


def on_meta(value):
    return [v.to("meta") for v in value] if isinstance(value, list) else value.to("meta")


def flat(results):
    return [t for r in results for t in (r if isinstance(r, (tuple, list)) else [r])]


@pytest.mark.parametrize("op, index", CASES, ids=IDS)
def test_all_on_meta(op, index):
    """The shapes and types of the real call, or a refusal where they depend on elements."""
    args = tensors(op, arrays(op, index))
    given = tensors_in(op.get("samples")[index])
    try:
        results = call(op, {n: on_meta(v) if n in given else v for n, v in args.items()})
    except fl.DeviceError as refused:
        assert any(word in str(refused) for word in ("on meta", "meta tensor")), refused
        return
    expected = flat(call(op, args))
    for got, want in zip(flat(results), expected, strict=True):
        assert got.is_meta and got.shape == want.shape and got.dtype == want.dtype


@pytest.mark.parametrize("op, index", CASES, ids=IDS)
def test_one_on_meta(op, index):
    """Each tensor in turn: never a result on the CPU, which would be computed from nothing."""
    args = tensors(op, arrays(op, index))
    given = tensors_in(op.get("samples")[index])
    for name in given if len(given) > 1 else ():
        moved = {**args, name: on_meta(args[name])}
        try:
            results = call(op, moved)
        except (fl.DeviceError, NotImplementedError) as refused:
            assert "meta" in str(refused)
        else:
            assert all(t.is_meta for t in flat(results))


INPLACE = [
    (op, k)
    for op, k in CASES
    if (op.get("inplace") or is_inplace_op(op)) and op.sig.args[0].name in tensors_in(op.get("samples")[k]) and len(tensors_in(op.get("samples")[k])) > 1
]


@pytest.mark.parametrize("op, index", INPLACE, ids=[f"{op.ident}-{k}" for op, k in INPLACE])
def test_what_is_written_on_the_cpu_is_not_computed_from_meta(op, index):
    args = tensors(op, arrays(op, index))
    given, first = tensors_in(op.get("samples")[index]), op.sig.args[0].name
    name = op.name if is_inplace_op(op) else op.name + "_"
    for other in given:
        if other == first:
            continue
        target = args[first].clone()
        before = target.tolist()
        with pytest.raises(fl.DeviceError, match="would be written from"):
            getattr(_C.ops, name)(**{**args, first: target, other: on_meta(args[other])})
        assert target.tolist() == before


def test_a_device_by_its_name_or_by_another():
    assert fl.device(device="cpu") == fl.device(device=fl.device("cpu")) == fl.device(type="cpu") == fl.device("cpu")
    with pytest.raises(TypeError):
        fl.device(device=3.5)
