"""Classes of tensors with a `__torch_dispatch__`, and tensors of theirs without memory."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")

HEAD = """
import copy, gc, pickle, weakref
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils._pytree import tree_map
aten = torch.ops.aten
seen = []
class Wrapper(torch.Tensor):
    __slots__ = ["elem"]
    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        self = torch.Tensor._make_wrapper_subclass(cls, elem.shape, strides=elem.stride(), dtype=elem.dtype, device=elem.device, requires_grad=requires_grad)
        self.elem = elem
        return self
    def __repr__(self):
        return f"Wrapper({self.elem})"
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        inner = lambda x: x.elem if isinstance(x, cls) else x
        outer = lambda x: cls(x) if isinstance(x, torch.Tensor) else x
        return tree_map(outer, func(*tree_map(inner, args), **tree_map(inner, kwargs or {})))
class Packed(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)
    def __init__(self, data, scale):
        self.data_, self.scale = data, scale
    def dequantize(self):
        return self.data_.to(self.scale.dtype) * self.scale
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        x = args[0]
        if func in (aten.detach.default, aten.clone.default, aten.t.default):
            return cls(func(x.data_), func(x.scale))
        if func in (aten.mm.default, aten.addmm.default):
            return func(*(x.dequantize() if isinstance(x, cls) else x for x in args), **(kwargs or {}))
        return NotImplemented
    def __tensor_flatten__(self):
        return ["data_", "scale"], None
    @classmethod
    def __tensor_unflatten__(cls, inner, context, size=None, stride=None):
        return cls(inner["data_"], inner["scale"])
def packed(w):
    scale = w.abs().amax(1, keepdim=True) / 127
    return Packed((w / scale).round().to(torch.int8), scale)
"""


def run(code):
    return says(HEAD + "\n".join(line.removeprefix("        ") for line in code.splitlines()))


def test_a_class_sees_both_directions_and_autograd_is_above_it():
    lines = run("""
        plain = torch.randn(3, 4, requires_grad=True)
        want = (plain * 2 + 1).relu().sum()
        want.backward()
        x = Wrapper(plain.detach(), requires_grad=True)
        y = (x * 2 + 1).relu().sum()
        print(type(y).__name__, y.requires_grad, y.grad_fn is not None, y.shape)
        print(seen); seen.clear()
        y.backward()
        print(seen); seen.clear()
        print(type(x.grad).__name__, torch.equal(x.grad.elem, plain.grad), torch.equal(y.elem, want.detach()))
        print(y.item() == want.item(), float(y) == want.item(), bool(y > -1))
    """)
    assert lines[0] == "Wrapper True True torch.Size([])"
    assert lines[1] == str(["aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default", "aten.sum.default"])
    assert eval(lines[2])[:4] == ["aten.ones_like.default", "aten.expand.default", "aten.threshold_backward.default", "aten.mul.Tensor"]
    assert lines[3:] == ["Wrapper True True", "True True True"]


def test_views_constructors_and_what_has_a_size_by_value():
    lines = run("""
        e = torch.randn(4, 6)
        x = Wrapper(e)
        same = lambda a, b: type(a) is Wrapper and a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.elem, b)
        f = [
            lambda t: t.t(), lambda t: t.T, lambda t: t.transpose(0, 1), lambda t: t.permute(1, 0), lambda t: t[1:3, ::2], lambda t: t[2], lambda t: t[..., 0],
            lambda t: t.view(2, 12), lambda t: t.t().reshape(-1), lambda t: t.unsqueeze(0).expand(3, 4, 6), lambda t: t[:, :1].squeeze(1), lambda t: t[None].squeeze(),
            lambda t: t.flatten(), lambda t: t.diagonal(), lambda t: t.unfold(0, 2, 1), lambda t: t.narrow(1, 1, 2), lambda t: t[t > 0], lambda t: t.nonzero(),
            lambda t: torch.cat([t, torch.zeros(1, 6)]), lambda t: torch.stack([t[0], t[1]]), lambda t: torch.where(t > 0, t, -t), lambda t: t[[1, 0]], lambda t: t.to(torch.float64),
            lambda t: t.max(1)[0], lambda t: t.sort(1).indices, lambda t: t.cumsum(0), lambda t: F.layer_norm(t, (6,)), lambda t: F.softmax(t, 1), lambda t: t @ t.t(),
            lambda t: torch.ones_like(t), lambda t: t.new_zeros(2), lambda t: torch.full_like(t, 3, dtype=torch.int64), lambda t: t.clone(), lambda t: t.detach(),
            lambda t: F.linear(t, torch.ones(2, 6), torch.ones(2)), lambda t: F.conv1d(t[None], torch.ones(3, 4, 2)), lambda t: F.mse_loss(t, torch.zeros(4, 6)),
        ]
        print([k for k, g in enumerate(f) if not same(g(x), g(e))])
        for many in (lambda t: t.unbind(0), lambda t: t.split(3, 1), lambda t: t.chunk(2), lambda t: torch.split(t, [1, 3])):
            print([same(a, b) for a, b in zip(many(x), many(e), strict=True)])
        seen.clear()
        x.t(), x.select(0, 1), x.slice if 0 else x[1:3], x.squeeze(0), torch.zeros_like(x, dtype=torch.float64), x.double()
        print(seen)
    """)
    assert lines[0] == "[]"
    assert all("False" not in line for line in lines[1:5])
    assert eval(lines[5]) == [f"aten.{n}" for n in ("t.default", "select.int", "slice.Tensor", "squeeze.dim", "zeros_like.default", "_to_copy.default")]


def test_writes_in_place_and_views_of_what_is_inside():
    lines = run("""
        x = Wrapper(torch.zeros(2, 3))
        y = x.add_(1)
        print(y is x, x.elem.sum().item(), x.mul_(torch.full((3,), 2.0)) is x, x.elem.sum().item())
        x[0].fill_(7)
        print(x.elem.tolist())
        x[:, 1] = 5
        print(x.elem.tolist())
        w = Wrapper(torch.ones(3), requires_grad=True)
        z = w * 2
        z.add_(1).sum().backward()
        print(w.grad)
        opt = torch.optim.SGD([w], lr=0.5)
        opt.step()
        print(w)
    """)
    assert lines == [
        "True 6.0 True 12.0", "[[7.0, 7.0, 7.0], [2.0, 2.0, 2.0]]", "[[7.0, 5.0, 7.0], [2.0, 5.0, 2.0]]", "Wrapper(tensor([2., 2., 2.]))", "Wrapper(tensor([0., 0., 0.]))",
    ]  # fmt: skip


def test_a_packed_weight_in_a_module():
    lines = run("""
        m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        x = torch.randn(5, 8, requires_grad=True)
        want = m(x)
        (want_grad,) = torch.autograd.grad(want.sum(), x)
        for k in (0, 2):
            m[k].weight = nn.Parameter(packed(m[k].weight.detach()), requires_grad=False)
        print(type(m[0].weight).__name__, isinstance(m[0].weight, nn.Parameter), m[0].weight.dtype, m[0].weight.shape)
        y = m(x)
        y.sum().backward()
        print(type(y) is torch.Tensor, (y - want).abs().max().item() < 0.1, (x.grad - want_grad).abs().max().item() < 0.1, m[0].bias.grad.shape, m[0].weight.grad)
        print([type(v).__name__ for v in m.state_dict().values()])
        n = copy.deepcopy(m)
        print(type(n[0].weight).__name__, n[0].weight is m[0].weight, torch.equal(n(x), y), n[0].weight.data_.data_ptr() == m[0].weight.data_.data_ptr())
        q = pickle.loads(pickle.dumps(packed(torch.ones(2, 2))))
        print(type(q).__name__, q.dequantize().tolist())
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass
        print(is_traceable_wrapper_subclass(q), is_traceable_wrapper_subclass(x), round(transform_subclass(q, lambda name, t: t * 2).scale[0].item() * 127, 4))
        try:
            q + 1
        except TypeError as e:
            print(e)
        print(q.data_ptr())
        try:
            torch.Tensor.numpy(q)
        except RuntimeError as e:
            print(e)
        print(q)
    """)
    assert lines[:4] == [
        "Packed True torch.float32 torch.Size([16, 8])", "True True True torch.Size([16]) None", "['Packed', 'Tensor', 'Packed', 'Tensor']", "Packed False True False",
    ]  # fmt: skip
    assert lines[4].startswith("Packed [[1.0") and lines[5] == "True False 2.0"
    assert lines[6] == "aten.add.Tensor: no __torch_dispatch__ of its arguments takes it (no implementation found); they are Packed"
    assert lines[7] == "0" and lines[8].startswith("a tensor of class Packed has no memory: ") and lines[9] == "Packed(..., size=(2, 2), dtype=torch.float32)"


def test_classes_inside_of_classes_and_beside_modes():
    lines = run("""
        from torch.utils._python_dispatch import TorchDispatchMode
        class Other(Wrapper):
            pass
        x = Wrapper(Other(torch.ones(2)))
        y = x * 3
        print(type(y).__name__, type(y.elem).__name__, y.elem.elem.tolist(), seen); seen.clear()
        z = Wrapper(torch.ones(2)) + Other(torch.ones(2))
        print(type(z).__name__)
        class Log(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                print("mode", func, types)
                return func(*args, **(kwargs or {}))
        w = Wrapper(torch.ones(2))
        with Log():
            v = w * 2
            torch.ones(2) * 2
        print(type(v).__name__, v.elem.tolist())
        class Function(Wrapper):
            calls = []
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.calls.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs)
        u = F.relu(Function(-torch.ones(2)))
        print(type(u).__name__, u.elem.tolist(), "relu" in Function.calls)
    """)
    assert lines[0] == "Wrapper Other [3.0, 3.0] ['aten.mul.Tensor', 'aten.mul.Tensor']"
    assert lines[1] == "Other"
    assert lines[2:5] == ["mode aten.mul.Tensor (<class '__main__.Wrapper'>,)", "mode aten.ones.default ()", "mode aten.mul.Tensor ()"]
    assert lines[5:] == ["Wrapper [2.0, 2.0]", "Function [-0.0, -0.0] True".replace("-0.0", "0.0")]


def test_a_class_with_memory_of_its_own():
    lines = run("""
        class Marked(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                plain = lambda x: x.as_subclass(torch.Tensor) if isinstance(x, cls) else x
                seen.append(str(func))
                out = func(*tree_map(plain, args), **(kwargs or {})).as_subclass(cls)
                out.mark = "made by " + str(func)
                return out
        x = torch.Tensor._make_subclass(Marked, torch.ones(3))
        y = x * 2
        print(type(y).__name__, y.mark, y.tolist(), seen)
    """)
    assert lines == ["Marked made by aten.mul.Tensor [2.0, 2.0, 2.0] ['aten.mul.Tensor']"]


def test_nothing_is_kept():
    lines = run("""
        gc.disable()
        e = torch.randn(3)
        x = Wrapper(e, requires_grad=True)
        y = (x.exp() * x).sum()
        r = [weakref.ref(t) for t in (x, y, e)]
        y.backward()
        grad = weakref.ref(x.grad.elem)
        del y
        print(r[1]() is None)
        del x, e
        print([t() is None for t in r], grad() is None)
        p = packed(torch.ones(2, 2))
        p.me = p
        r = weakref.ref(p.data_)
        del p
        print(r() is None)
        gc.enable(); gc.collect()
        print(r() is None)
    """)
    assert lines == ["True", "[True, True, True] True", "False", "True"]


def test_what_can_not_be_made_is_refused():
    lines = run("""
        class Plain(torch.Tensor):
            pass
        for make in (
            lambda: torch.Tensor._make_wrapper_subclass(Plain, (2,)),
            lambda: torch.Tensor._make_wrapper_subclass(int, (2,)),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (-1,)),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3), strides=(1,)),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3), strides=2),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (2**40, 2**40)),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (2,), dtype="float"),
            lambda: torch.Tensor._make_wrapper_subclass(Wrapper, (2,), device="cuda"),
        ):
            try:
                make()
                print("made")
            except (RuntimeError, TypeError, ValueError) as e:
                print(str(e).splitlines()[0])
    """)
    assert lines[0].startswith("_make_wrapper_subclass: class Plain has no __torch_dispatch__")
    assert lines[1] == "_make_wrapper_subclass: cls is no subclass of Tensor"
    assert "made" not in lines and len(lines) == 8 and not any("not iterable" in line for line in lines), lines


def test_what_calls_keep_goes_with_them_inside_of_a_mode():
    lines = run("""
        from torch.utils._python_dispatch import TorchDispatchMode
        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))
        gc.disable()
        with Mode():
            w = Wrapper(torch.ones(3))
            left = []
            for k in range(5):
                y = w * k
                left.append(weakref.ref(y.elem))
                del y
            w * 1
            print([r() is None for r in left])
    """)
    assert lines == ["[True, True, True, True, True]"]


def test_views_are_views_to_autograd():
    lines = run("""
        def leaf():
            return Wrapper(torch.ones(3), requires_grad=True)
        def grad(f):
            w = leaf()
            f(w).sum().backward()
            return w.grad.elem.tolist()
        def write(u, index, value):
            u[index] = value
            return u
        def through(y, change):
            change(y)
            return y
        print(grad(lambda w: write(w * 1, 1, 9.0)), grad(lambda w: through(w * 1, lambda y: y.view(3, 1).mul_(3))))
        def attempt(f):
            try:
                return f()
            except RuntimeError as e:
                return "refused"
        def overwritten():
            w = leaf()
            z = (w * w).sum()
            with torch.no_grad():
                w[0] = 5.0
            z.backward()
        print([attempt(f) for f in (
            lambda: grad(lambda w: through(w.exp(), lambda y: y.view(-1).add_(1))), overwritten, lambda: leaf().view(-1).add_(1), lambda: write(leaf(), 0, 1),
        )])
        x, p = Wrapper(torch.zeros(3)), torch.ones(1, requires_grad=True)
        x[0:1] = p
        x.sum().backward()
        print(p.grad.elem.tolist(), x.elem.tolist())
        v = Wrapper(torch.zeros(3))
        view = v.view(-1)
        view.add_(1)
        print(v._version, view._is_view(), view._base is v, v.detach()._version, v.elem.tolist())
    """)
    assert lines[0] == "[1.0, 0.0, 1.0] [3.0, 3.0, 3.0]"
    assert lines[1] == str(["refused"] * 4)
    assert lines[2:] == ["[1.0] [1.0, 0.0, 0.0]", "1 True True 1 [1.0, 1.0, 1.0]"]


def test_types_and_shapes_change_with_what_is_inside():
    lines = run("""
        x = Wrapper(torch.arange(4.0))
        print(x.view(torch.int32).elem.tolist(), seen[-1])
        y = Wrapper(torch.arange(6.0).reshape(2, 3))
        y.t_()
        print(y.shape, y.elem.shape)
        for f in (lambda: y.resize_(2), lambda: torch.save({"y": y}, __import__("io").BytesIO())):
            try:
                f()
                print("taken")
            except (RuntimeError, NotImplementedError) as e:
                print(type(e).__name__)
        class Wide(torch.Tensor):
            @staticmethod
            def __new__(cls, e):
                self = torch.Tensor._make_wrapper_subclass(cls, e.shape, dtype=torch.float32)
                self.e = e
                return self
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return func(*(t.e if isinstance(t, cls) else t for t in args), **(kwargs or {})).float()
        e = torch.linspace(-2, 2, 5, dtype=torch.float64)
        print((F.gelu(Wide(e), approximate="tanh") == F.gelu(e, approximate="tanh").float()).all().item())
        torch.manual_seed(0); a = torch.rand_like(Wrapper(torch.ones(4))); torch.manual_seed(0)
        print(torch.equal(a.elem, torch.rand(4)))
        class Half(Wide):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                if func is aten.t.default:
                    return args[0].e.t()
                raise NotImplementedError(str(func))
        print(F.linear(torch.ones(2, 4), Half(torch.ones(3, 4)), torch.ones(3)).tolist())
        w = Wrapper(torch.ones(2, 2), requires_grad=True)
        (w * w).sum().backward()
        try:
            torch.optim.Adafactor([w]).step()
        except NotImplementedError as e:
            print(e)
    """)
    assert lines[0] == "[0, 1065353216, 1073741824, 1077936128] aten.view.dtype"
    assert lines[1] == "torch.Size([3, 2]) torch.Size([3, 2])" and "taken" not in lines[2:4]
    assert lines[4:7] == ["True", "True", "[[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]"]
    assert lines[7].startswith("Adafactor: it steps over memory")


def test_slots_and_attributes_outlive_the_object():
    lines = run("""
        p = torch.zeros(3, requires_grad=True)
        p.grad = Wrapper(torch.ones(3))
        print(p.grad.elem.tolist())
        class Fn(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: x * 2)
            backward = staticmethod(lambda ctx, g: Wrapper(torch.full((3,), 3.0)))
        q = torch.zeros(3, requires_grad=True)
        Fn.apply(q * 1).sum().backward()
        print(type(q.grad).__name__, q.grad.elem.tolist())
        x = Wrapper(torch.ones(3), requires_grad=True)
        y = (x * x).sum()
        x.elem = torch.full((3,), 10.0)
        print(torch.autograd.grad(y, x)[0].elem.tolist())
        class Kept(Wrapper):
            pass
        k = Kept(torch.ones(2), requires_grad=True)
        k.note = "kept"
        z = (k * 2).exp()
        w = weakref.ref(k)
        del k
        print(w() is None, z.grad_fn.next_functions[0][0].next_functions[0][0].variable is None)
    """)
    assert lines[:2] == ["[1.0, 1.0, 1.0]", "Wrapper [3.0, 3.0, 3.0]"]
    assert lines[2] == "[20.0, 20.0, 20.0]"
    assert lines[3].startswith("True")


def test_a_mode_inside_of_a_class_s_region():
    lines = run("""
        from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
        class Log(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))
        keep = Wrapper(torch.ones(1))
        for region in (Log, _disable_current_modes):
            x = torch.ones(3, requires_grad=True)
            y = x * 2
            def hook(g):
                with region():
                    return g * 2
            y.register_hook(hook)
            (y * 2).sum().backward()
            print(x.grad.tolist())
        class Inside(Wrapper):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                with Log():
                    torch.ones(2) * 2
                return super().__torch_dispatch__(func, types, args, kwargs)
        print((Inside(torch.ones(2)) * 3 + 1).elem.tolist())
        with Log():
            print((Inside(torch.ones(2)) * 3 + 1).elem.tolist())
    """)
    assert lines == ["[8.0, 8.0, 8.0]"] * 2 + ["[4.0, 4.0]"] * 2
