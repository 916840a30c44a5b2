"""`out=`: any function writes its result into tensors of the caller."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import bits
from support.table import arrays, call, cases, tensors

import flambeau as fl

X = [[1.0, -2.0], [3.0, 4.0]]

CALLS = {
    "add": lambda x, **kw: fl.add(x, x, **kw),
    "mm": lambda x, **kw: fl.mm(x, x, **kw),
    "sum": lambda x, **kw: fl.sum(x, 1, **kw),
    "cat": lambda x, **kw: fl.cat([x, x], **kw),
    "abs": lambda x, **kw: fl.abs(x, **kw),
    "vstack": lambda x, **kw: fl.vstack([x, x], **kw),
    "quantile": lambda x, **kw: fl.quantile(x, 0.5, **kw),
    "arange": lambda x, **kw: fl.arange(5, dtype=fl.float32, **kw),
}


@pytest.mark.parametrize("name", CALLS)
def test_result_is_written_into_out(name):
    x, call = fl.tensor(X), CALLS[name]
    want = call(x)
    out = fl.full(want.shape, 7.0)
    assert call(x, out=out) is out
    assert fl.equal(out, want)


@pytest.mark.parametrize("name", CALLS)
def test_empty_out_is_resized_without_a_warning(name, recwarn):
    x, call = fl.tensor(X), CALLS[name]
    out = fl.empty(0)
    assert call(x, out=out) is out
    assert fl.equal(out, call(x))
    assert not recwarn


def test_out_of_another_shape_is_resized_with_a_warning():
    with pytest.warns(UserWarning, match=r"add: out has shape \[3\] and is resized to \[2, 2\]"):
        fl.add(fl.tensor(X), 1, out=fl.empty(3))


def test_several_results():
    values, indices = fl.empty(2), fl.empty(2, dtype=fl.int64)
    found = fl.max(fl.tensor(X), 1, out=(values, indices))
    assert found.values is values and found.indices is indices
    assert (values.tolist(), indices.tolist()) == ([1.0, 4.0], [0, 1])


def test_out_may_be_an_argument():
    x = fl.tensor(X)
    fl.mm(x, x, out=x)
    assert x.tolist() == [[-5.0, -10.0], [15.0, 10.0]]


def test_wider_type_is_filled():
    assert fl.add(fl.tensor([1]), 1, out=fl.empty(1, dtype=fl.float64)).tolist() == [2.0]


@pytest.mark.parametrize("dtype", [fl.int32, fl.float64])
@pytest.mark.filterwarnings("ignore:range")
def test_range_counts_in_the_type_of_out(dtype):
    out = fl.empty(0, dtype=dtype)
    assert fl.range(1, 7, 2, out=out) is out
    assert out.tolist() == [1, 3, 5, 7] and out.dtype is dtype


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: fl.sqrt(fl.tensor(X), out=fl.empty(2, 2, dtype=fl.int64)), fl.DTypeError, r"result type flambeau\.float32 can't be cast to the desired output type flambeau\.int64"),
        (lambda: fl.add(fl.tensor(X), 1, out=[1.0]), TypeError, "add: out = list; expected a tensor"),
        (lambda: fl.max(fl.tensor(X), 1, out=fl.empty(2)), TypeError, "max: out = Tensor; expected a tuple of 2 tensors"),
        (lambda: fl.add(fl.tensor(X, requires_grad=True), 1, out=fl.empty(2, 2)), fl.AutogradError, r"add\(\): functions with out=\.\.\. arguments don't support automatic differentiation"),
    ],
)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_without_grad_mode_a_tensor_may_require_grad():
    x = fl.tensor(X, requires_grad=True)
    with fl.no_grad():
        assert fl.neg(x, out=fl.empty(2, 2)).tolist() == [[-1.0, 2.0], [-3.0, -4.0]]


def test_methods_have_no_out():
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        fl.tensor(X).add(1, out=fl.empty(2, 2))


def _peak(compute):
    """Bytes that a call takes at most beside those that were there, its result among them; scratch is as it may be in this build."""
    compute()
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    result = compute()
    assert result.shape == (1000, 1000)
    return fl.memory_stats()["peak_allocated_bytes"] - before


@pytest.mark.slow
@pytest.mark.eager("memory at a moment")
def test_the_result_is_computed_in_outs_memory():
    x, out = fl.randn(1000, 1000), fl.empty(1000, 1000)
    for op, args in ((fl.add, (x, 1)), (fl.matmul, (x, x)), (fl.cumsum, (x, 1)), (fl.cat, ([x[:9], x[9:]],))):
        made, given = _peak(lambda op=op, args=args: op(*args)), _peak(lambda op=op, args=args: op(*args, out=out))
        assert given <= made - 4 * x.numel(), op


@pytest.mark.eager("memory at a moment")
def test_the_result_of_many_axes_is_computed_in_outs_memory():
    """Also where operands lie with channels last: what is given lies in rows, whoever sees it."""
    shape = (4, 6, 20, 30)
    x, out = fl.randn(shape), fl.empty(shape)
    seen, positive = out.numpy(), x > 0
    pictures = fl.nn.functional.conv2d(fl.randn(4, 3, 20, 30), fl.randn(6, 3, 1, 1))
    in_rows = [
        lambda **k: fl.add(x, 1, **k), lambda **k: fl.tanh(x, **k), lambda **k: fl.where(positive, x, 0, **k), lambda **k: fl.cumsum(x, 2, **k),
        lambda **k: fl.bmm(x.view(24, 20, 30), fl.eye(30).expand(24, 30, 30), **k), lambda **k: fl.cat([x[:, :2], x[:, 2:]], 1, **k),
    ]  # fmt: skip
    channels_last = [lambda **k: fl.mul(pictures, pictures, **k), lambda **k: fl.cat([pictures[:, :1], pictures[:, 1:]], 1, **k)]
    for compute in in_rows + channels_last:
        want = compute()
        into = out.view(want.shape)
        fl.reset_peak_memory_stats()
        before = fl.memory_stats()["allocated_bytes"]
        assert compute(out=into) is into
        taken = fl.memory_stats()["peak_allocated_bytes"] - before
        assert bits(into) == bits(want) and np.array_equal(seen.reshape(-1), want.numpy().reshape(-1))
        assert compute in channels_last or taken < 4 * x.numel()


def _has_out(op):
    named = [a.name for a in op.sig.args]
    made = op.name.startswith(("empty", "new_empty"))  # without values
    return len(op.sig.outs) == 1 and op.methods != ["internal"] and not made and "out" not in named and not op.name.endswith("_")


@pytest.mark.parametrize("op, index", cases(_has_out))
def test_every_op_gives_the_same_bits_in_outs_memory(op, index):
    """Also where a step on the way has out's shape, and where out holds what the op reads: `OfferOut` in csrc/autograd/meta.h."""

    def call_out(args, out):
        fl.manual_seed(0)
        return getattr(fl._C.ops, op.name)(**args, out=out)

    args = tensors(op, arrays(op, index))
    fl.manual_seed(0)
    (want,) = call(op, args)
    if not isinstance(want, fl.Tensor) or want.layout is not fl.strided:
        pytest.skip("no dense tensor")
    want = want.clone()
    around = fl.ones(want.numel() + 10, dtype=want.dtype)
    out = around[3 : want.numel() + 3].view(want.shape)
    version = out._version
    assert call_out(args, out) is out and bits(out) == bits(want)
    assert out._version == version + 1
    assert bits(around[:3]) == bits(around[-3:]) == bits(fl.ones(3, dtype=want.dtype))
    for name, value in args.items():
        if isinstance(value, fl.Tensor) and value.shape == want.shape and value.dtype is want.dtype:
            assert bits(call_out({**args, name: (own := value.clone())}, own)) == bits(want), name


@pytest.mark.parametrize("call", [
    lambda **kw: fl.full((2,), 2.7, **kw), lambda **kw: fl.linspace(0, 10, 4, **kw), lambda **kw: fl.arange(0, 1, 0.1, **kw), lambda **kw: fl.eye(2, **kw),
    lambda **kw: fl.logspace(0, 1, 4, **kw), lambda **kw: fl.range(0, 1, 0.1, **kw),
])  # fmt: skip
def test_what_is_made_from_numbers_is_made_in_outs_type(call):
    want = call(dtype=fl.float64)
    around = fl.ones(want.numel() + 10, dtype=fl.float64)
    assert bits(call(out=around[5:-5].view(want.shape))) == bits(want)
    assert around[:5].tolist() == around[-5:].tolist() == [1] * 5
    if want.numel() < 10:
        assert fl.equal(call(out=fl.empty(want.shape, dtype=fl.int64)), call(dtype=fl.int64))


def test_autocast_leaves_what_is_written_into():
    x, out = fl.randn(9, 9), fl.empty(9, 9)
    with fl.autocast("cpu", dtype=fl.bfloat16):
        fl.mm(x, x, out=out)
    assert bits(out) == bits(x @ x)


def test_an_argument_that_takes_over_sees_out():
    class Seen(fl.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(kwargs)
            return super().__torch_function__(function, types, args, kwargs or {})

    seen, out = [], fl.empty(2)
    fl.add(fl.ones(2).as_subclass(Seen), 1, out=out)
    assert seen[0]["out"] is out and out.tolist() == [2, 2]


def test_out_is_on_the_result_s_device():
    with pytest.raises(fl.DeviceError, match="the result is on cpu, out on meta"):
        fl.add(fl.ones(2), 1, out=fl.empty(2, device="meta"))
    assert fl.zeros(2, out=fl.empty(2, device="meta")).is_meta
