"""Modes below autograd: `torch.utils._python_dispatch.TorchDispatchMode`."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
aten = torch.ops.aten
class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.calls.append(str(func))
        return out
"""


def run(code):
    return says(HEAD + "\n".join(line.removeprefix("        ") for line in code.splitlines()))


def test_calls_of_both_directions_are_seen():
    lines = run("""
        x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)
        want = torch.autograd.grad((x @ w).relu().exp().sum(), (x, w))
        with Log() as log:
            found = torch.autograd.grad((x @ w).relu().exp().sum(), (x, w))
        print(log.calls)
        print([torch.equal(a, b) for a, b in zip(found, want)])
        y = x * 2
        print(len(log.calls), y.requires_grad)
    """)
    calls = eval(lines[0])
    assert calls[:4] == ["aten.mm.default", "aten.relu.default", "aten.exp.default", "aten.sum.default"]
    assert calls.count("aten.mm.default") == 3 and "aten.threshold_backward.default" in calls
    assert lines[1:] == ["[True, True]", f"{len(calls)} True"]


def test_a_step_of_training_counts_what_products_cost():
    lines = run("""
        class Flops(TorchDispatchMode):
            count = 0
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out, packet = func(*args, **(kwargs or {})), func.overloadpacket
                if packet in (aten.mm, aten.addmm, aten.bmm):
                    a, b = args[-2:]
                    self.count += 2 * a.numel() * b.shape[-1]
                elif packet is aten.convolution:
                    self.count += 2 * out.numel() * args[1][0].numel()
                elif packet is aten.convolution_backward:
                    dy, x, weight, mask = *args[:3], args[-1]
                    self.count += 2 * dy.numel() * weight[0].numel() * (mask[0] + mask[1])
                return out
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
        x, target = torch.randn(2, 3, 8, 8), torch.tensor([1, 2])
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as known:
            F.cross_entropy(net(x), target).backward()
        with Flops() as flops:
            F.cross_entropy(net(x), target).backward()
        print(flops.count == known.get_total_flops(), flops.count)
        net(x)
        with torch.device("meta"):
            net = nn.Linear(5, 7)
            with Flops() as flops:
                net(torch.zeros(3, 5))
        print(flops.count)
    """)
    assert lines[0].startswith("True ") and lines[1] == str(2 * 3 * 5 * 7)


def test_results_are_the_mode_s():
    lines = run("""
        class Shift(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                return out + 1 if func is aten.mul.Tensor else out
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        with Shift():
            y = x * x
        y.sum().backward()
        print(y.tolist(), x.grad.tolist(), y.grad_fn.name())
        class Instead(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if func is aten.sin.default:
                    return func(args[0] * 0)
                if func is aten.cos.default:
                    return torch.full_like(args[0], 7.0)
                return func(*args)
        with Instead():
            print(x.sin().tolist(), x.cos().tolist(), x.max(0))
            z = torch.ones(2)
            z.add_(1).mul_(torch.tensor([3.0, 4.0]))
            print(z.tolist(), torch.sort(torch.tensor([3, 1])).values.tolist(), torch.cat([z, z]).tolist(), F.layer_norm(z, (2,)).tolist())
    """)
    assert lines == [
        "[5.0, 10.0] [4.0, 6.0] MulBackward0",
        "[0.0, 0.0] [7.0, 7.0] torch.return_types.max(",
        "values=tensor(3., grad_fn=<MaxBackward0>),",
        "indices=tensor(1))",
        "[6.0, 8.0] [1, 3] [6.0, 8.0, 6.0, 8.0] [-0.9999949932098389, 0.9999949932098389]",
    ]


def test_what_does_not_fit_is_refused_and_nothing_stays():
    text = run("""
        class Wrong(TorchDispatchMode):
            def __init__(self, how):
                super().__init__()
                self.how = how
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return self.how(func, args)
        x = torch.ones(2)
        for how in (lambda f, a: f(*a).double(), lambda f, a: torch.ones(3), lambda f, a: None, lambda f, a: 1 / 0, lambda f, a: (f(*a), f(*a))):
            y = x.clone()
            try:
                with Wrong(how):
                    x.exp()
            except Exception as error:
                print(type(error).__mro__[-4].__name__, error)
        try:
            with Wrong(lambda f, a: 1 / 0):
                y.add_(1)
        except ZeroDivisionError:
            print(y.tolist(), torch.utils._python_dispatch._get_current_dispatch_mode(), (x + 1).tolist())
        try:
            with TorchDispatchMode():
                x + 1
        except NotImplementedError as error:
            print(error)
    """)
    assert "returned float64 [2] on cpu; expected float32 [2] on cpu" in text[0]
    assert "float32 [3]" in text[1]
    assert len(text) == 7 and "division by zero" in text[3]
    assert text[5] == "[1.0, 1.0] None [2.0, 2.0]"
    assert text[6].startswith("TorchDispatchMode: expected a method __torch_dispatch__")


def test_regions_nest():
    lines = run("""
        from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack, _pop_mode_temporarily
        class Name(TorchDispatchMode):
            def __init__(self, name):
                super().__init__()
                self.name = name
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                print(self.name, func, len(_get_current_dispatch_mode_stack()))
                return func(*args) * 1
        x = torch.ones(2)
        with Name("outer"):
            with Name("inner"):
                x.exp()
                with _disable_current_modes():
                    x.exp()
                with _pop_mode_temporarily():
                    x.neg()
            x.sin()
        x.cos()
    """)
    assert lines == [
        "inner aten.exp.default 1", "outer aten.exp.default 0", "outer aten.mul.Tensor 0", "outer aten.neg.default 0", "outer aten.sin.default 0",
    ]  # fmt: skip


def test_random_numbers_modules_and_optimizers():
    lines = run("""
        def train(mode):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.GELU(), nn.LSTM(8, 3))
            optimizer = torch.optim.AdamW(net.parameters(), 0.1)
            for _ in range(3):
                with mode:
                    optimizer.zero_grad()
                    loss = net(torch.randn(5, 2, 4))[0].square().mean()
                    loss.backward()
                    optimizer.step()
            return [loss.detach(), *(p.detach() for p in net.parameters())]
        import contextlib
        found, want = train(Log()), train(contextlib.nullcontext())
        print(all(torch.equal(a, b) for a, b in zip(found, want)), len(want))
    """)
    assert lines == ["True 13"] or lines[0].startswith("True ")


def test_beside_lazy_regions_threads_and_compiled_functions():
    lines = run("""
        import threading, flambeau
        x = torch.randn(8)
        with Log() as log:
            with flambeau.lazy():
                y = x.exp() + 1
            z = torch.compile(lambda t: t.exp() + 1)(x)
            thread = threading.Thread(target=lambda: x.tan())
            thread.start(); thread.join()
            x.neg()
        print(torch.equal(y, x.exp() + 1), torch.equal(z, y), log.calls[-1], "aten.tan.default" in log.calls)
        with flambeau.lazy():
            a = x.exp()
            with Log() as log:
                b = a + 1
            c = b * 2
        print(torch.equal(c, (x.exp() + 1) * 2), log.calls)
        s = x.to_sparse()
        with Log() as log:
            (s @ x[:, None] if s.dim() == 2 else s + s)
        print(_ := [v.item() for v in torch.ones(2)], x.tolist() == x.numpy().tolist())
    """)
    assert lines == ["True True aten.neg.default False", "True ['aten.add.Tensor']", "[1.0, 1.0] True"]


def test_operators_have_overloads():
    lines = run("""
        add = torch.ops.aten.add
        print(add, repr(add), add.Tensor, repr(add.Tensor), add.Tensor is torch.ops.aten.add.Tensor, add.Tensor is add.default)
        print(add.Tensor.name(), add.default.name(), add.Tensor.namespace, add.Tensor.overloadpacket is add, add.Tensor.__name__, add.Tensor._overloadname)
        print(isinstance(add.Tensor, torch._ops.OpOverload), isinstance(add, torch._ops.OpOverloadPacket), isinstance(add, torch._ops.OpOverload))
        print(add.Tensor(torch.ones(2), 1).tolist(), {add.Tensor: 1}[torch.ops.aten.add.Tensor])
    """)
    assert lines == [
        "aten.add <OpOverloadPacket(op='aten.add')> aten.add.Tensor <OpOverload(op='aten.add', overload='Tensor')> True False",
        "aten::add.Tensor aten::add aten True add.Tensor Tensor", "True True False", "[2.0, 2.0] 1",
    ]  # fmt: skip


def test_overloads_are_those_of_aten():
    lines = run("""
        print(aten.add.overloads(), aten.mm.overloads(), aten.relu.overloads(), aten.softmax.overloads())
        print([hasattr(op, name) for op in (aten.add, aten.mm, aten.relu, aten.softmax) for name in ("default", "Tensor", "out", "Nonsense")])
        print("Tensor" in dir(aten.add), aten.add.Tensor.__qualname__, copy.copy(aten.add.Tensor) is aten.add.Tensor)
        try:
            aten.mm.Tensor
        except AttributeError as error:
            print(error)
    """.replace("print", "import copy\n        print", 1))
    assert lines[0] == (
        "['Tensor', 'Scalar', 'out', 'Scalar_out', 'default'] ['default', 'out', 'dtype_out', 'dtype'] ['default'] ['int', 'int_out']"
    )
    # default, Tensor, out, Nonsense
    assert eval(lines[1]) == [True, True, True, False, True, False, True, False, True, False, True, False, False, False, False, False]
    assert lines[2:] == ["True aten::add.Tensor True", "aten.mm has no overload 'Tensor'; expected one of default, out, dtype_out, dtype"]


def test_gradients_have_names_for_tables_of_programs():
    lines = run("""
        names = "native_batch_norm_backward native_layer_norm_backward select_backward slice_backward threshold_backward max_pool2d_with_indices_backward"
        table = {getattr(aten, name).default: name for name in names.split()}
        class Count(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if func in table:
                    print(table[func])
                return func(*args, **(kwargs or {}))
        x = torch.randn(2, 3, 4, 4, requires_grad=True)
        with Count():
            nn.BatchNorm2d(3)(x).relu().sum().backward()
        with Count():
            F.layer_norm(x, (4,)).sum().backward()
            x[0].sum().backward()
            x[:, 1:].sum().backward()
        print(aten.tanh_backward(torch.ones(2), torch.tensor([0.0, 0.5])).tolist(), hasattr(aten, "nonsense_backward"), hasattr(torch.ops.prims, "select_backward"))
        try:
            aten.max_pool2d_with_indices_backward.default(x, x, [2, 2], [2, 2], [0, 0], [1, 1], False, x)
        except NotImplementedError as error:
            print(error)
    """)
    assert lines[:5] == ["threshold_backward", "native_batch_norm_backward", "native_layer_norm_backward", "select_backward", "slice_backward"]
    assert lines[5:] == [
        "[1.0, 0.75] False False",
        "aten::max_pool2d_with_indices_backward: this gradient is made of other kernels in flambeau; call autograd.grad with the operator's result",
    ]


def test_a_mode_keeps_nothing():
    lines = run("""
        import gc, weakref
        gc.collect(); gc.disable()
        log, x = Log(), torch.ones(3, requires_grad=True)
        with log:
            y = x.exp()
        gone = weakref.ref(log), weakref.ref(y)
        del log, y
        print([r() is None for r in gone])
        class Fails(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                raise KeyError("no")
        mode = Fails()
        try:
            with mode:
                x.exp()
        except KeyError:
            pass
        gone = weakref.ref(mode)
        del mode
        print(gone() is None)
    """)
    assert lines == ["[True, True]", "True"]


def test_regions_may_end_in_another_order():
    lines = run("""
        from torch.utils._python_dispatch import _get_current_dispatch_mode
        def gen():
            with Log() as log:
                yield log
                torch.ones(1) + 1
        x = torch.ones(2)
        with Log() as outer:
            g = gen()
            inner = next(g)
        x.exp()
        print(inner.calls, outer.calls, _get_current_dispatch_mode() is inner)
        for _ in g:
            pass
        x.neg()
        print(_get_current_dispatch_mode(), inner.calls[:3], outer.calls)
    """)
    assert lines == ["['aten.exp.default'] [] True", "None ['aten.exp.default', 'aten.ones.default', 'aten.add.Tensor'] []"]


# What PyTorch 2.13 tells of the same program.
VIEWS = """
ones [2] -> (2,) | t (2, 2) -> (2, 2) | view (2, 2) [4] -> (4,) | select (2, 2) 0 0 -> (2,) | pow (2, 2) 2 -> (2, 2) | select (2, 2) 0 0 -> (2,)
| select (2,) 0 0 -> () | _local_scalar_dense () -> 0.0 | transpose (2, 2) 0 1 -> (2, 2) | unsqueeze (2, 2) 0 -> (1, 2, 2) | squeeze (2, 2) -> (2, 2)
| expand (2, 2) [3, 2, 2] -> (3, 2, 2) | permute (2, 2) [1, 0] -> (2, 2) | view (2, 2) [4] -> (4,) | zeros [2, 3] -> (2, 3) | empty [2] -> (2,) | arange 3 -> (3,)
| full [2] 1.0 -> (2,) | new_zeros (2, 2) [2] -> (2,) | zeros_like (2, 2) -> (2, 2) | rand [2] -> (2,) | nonzero (2, 2) -> (3, 2)
"""


def test_views_constructors_and_values_are_seen():
    lines = run("""
        def told(a):
            return str(tuple(a.shape)) if isinstance(a, torch.Tensor) else str(a)
        told_of = []
        class Tell(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                result = func(*args, **(kwargs or {}))
                told_of.append(" ".join([func.__name__.partition(".")[0], *map(told, args), "->", told(result)]))
                return result
        x = torch.arange(4.).reshape(2, 2)
        with Tell():
            torch.ones(2); x.t(); x.view(4); x[0]; x**2; x[0, 0].item()
            x.transpose(0, 1); x.unsqueeze(0); x.squeeze(); x.expand(3, 2, 2); x.permute(1, 0); x.reshape(4)
            torch.zeros(2, 3); torch.empty(2); torch.arange(3); torch.full((2,), 1.); x.new_zeros(2); torch.zeros_like(x); torch.rand(2); x.nonzero()
            y = x.view(4)
            y.add_(1)
            w = torch.ones(2, 2, requires_grad=True)
            (w.t() @ x)[0].sum().backward()
        print(" | ".join(told_of[:22]))
        print(y._base is x._base, x.tolist(), w.grad.tolist())
    """)
    assert lines == [" ".join(VIEWS.split()), "True [[1.0, 2.0], [3.0, 4.0]] [[3.0, 0.0], [7.0, 0.0]]"]


def test_calls_can_be_made_again_and_otherwise():
    lines = run("""
        kept = []
        class Keep(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                kept.append((func, args, kwargs))
                return func(*args, **kwargs)
        class Wide(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
                return func(*wide, **kwargs).float()
        class Tuples(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*[tuple(a) if isinstance(a, list) else a for a in args], **kwargs)
        x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
        with Keep():
            first, second = torch.add(x, y, alpha=2), x + 1
        print(first.tolist(), second.tolist(), [(func(*args, **kwargs).tolist(), kwargs) for func, args, kwargs in kept])
        with Wide():
            print(torch.add(x, y, alpha=2).tolist(), (x / 3).tolist(), x.cumsum(0).tolist(), (x[None] @ y[:, None]).tolist())
        with Tuples():
            print(torch.cat([x, y]).tolist(), torch.stack([x, y]).tolist())
        import copy, pickle
        with Keep():
            torch.ones(2, 2, requires_grad=True).sum(0).exp().sum().backward()
        names = [func for func, *_ in kept]
        print(pickle.loads(pickle.dumps(names)) == names, copy.deepcopy(names) == names)
    """)
    assert lines == [
        "[7.0, 12.0] [2.0, 3.0] [([7.0, 12.0], {'alpha': 2}), ([2.0, 3.0], {})]", "[7.0, 12.0] [0.3333333432674408, 0.6666666865348816] [1.0, 3.0] [[13.0]]",
        "[1.0, 2.0, 3.0, 5.0] [[1.0, 2.0], [3.0, 5.0]]", "True True",
    ]  # fmt: skip


def test_regions_that_record_and_that_take_calls_may_interleave():
    lines = run("""
        import flambeau
        x = torch.ones(3)
        for first, second in ((Log(), flambeau.lazy()), (flambeau.lazy(), Log())):
            first.__enter__(); second.__enter__()
            y = x + 1
            first.__exit__(None, None, None)
            z = y * 2
            second.__exit__(None, None, None)
            log = first if isinstance(first, Log) else second
            print(z.tolist(), log.calls, flambeau._C.graph.recording(), (x - 1).tolist(), len(log.calls))
    """)
    assert lines == ["[4.0, 4.0, 4.0] [] False [0.0, 0.0, 0.0] 0", "[4.0, 4.0, 4.0] ['aten.add.Tensor', 'aten.mul.Tensor'] False [0.0, 0.0, 0.0] 2"]


def test_what_writes_in_place_may_be_called_with_a_tensor_that_lies_otherwise():
    lines = run("""
        class Turned(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.x = args[0].t().contiguous().t()
                return func(self.x, *args[1:], **(kwargs or {}))
        x, mask, ones, a = torch.arange(9.0).view(3, 3), torch.tensor([[False, True, False]] * 3), torch.ones(9), torch.randn(3, 3)
        last, row, places = torch.tensor([2]), torch.ones(1, 3), torch.tensor([[0], [1]])
        for call in (lambda x: x.tril_(), lambda x: x.triu_(1), lambda x: x.masked_scatter_(mask, ones), lambda x: x.addmm_(a, a),
                     lambda x: x.index_add_(0, last, row), lambda x: x.scatter_(1, places, 7.0)):
            given = x.clone()
            with Turned() as mode:
                call(given)
            print(torch.allclose(mode.x, call(x.clone())))
        class Columns(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(wide[:, ::2])
        wide = torch.arange(18).view(3, 6)
        given = torch.zeros(3, 3, dtype=torch.int64)
        with Columns():
            given.bitwise_not_()
        print(wide.tolist())
    """)
    assert lines[:-1] == ["True"] * 6
    assert eval(lines[-1]) == [[-1 - v if v % 2 == 0 else v for v in range(6 * r, 6 * r + 6)] for r in range(3)]
