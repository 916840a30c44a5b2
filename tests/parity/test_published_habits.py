"""What published programs ask for at the edges: rules of forward mode, layers derived from common classes, switches, older names."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def rules_of_forward_mode(lib):
    fwd = part(lib, "autograd.forward_ad")

    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_forward(x)
            ctx.result = x.exp() * scale
            return ctx.result, x.argsort()

        @staticmethod
        def jvp(ctx, tangent, scale):
            assert scale is None and len(ctx.saved_tensors) == 1
            return tangent * ctx.result, None

    class Sine(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.saved_tensors[0].cos()

    class Wrong(Sine):
        @staticmethod
        def jvp(ctx, t):
            return t

    x, t = data(lib, 3), data(lib, 3, seed=1)
    with fwd.dual_level():
        y, order = Exp.apply(fwd.make_dual(x, t), 2.0)
        found = [fwd.unpack_dual(y), fwd.unpack_dual(order), str(fwd.make_dual(lib.ones(2), lib.zeros(2)))]
    double = x.double().requires_grad_()
    check = lib.autograd.gradcheck
    return [
        [tuple(pair) if pair.tangent is not None else (pair.primal, "none") for pair in found[:2]],
        found[2],
        lib.func.jvp(Sine.apply, (x,), (t,)),
        check(Sine.apply, (double,), check_forward_ad=True),
        check(Wrong.apply, (double,)),
        check(Wrong.apply, (double,), check_forward_ad=True, raise_exception=False),
        check(Sine.apply, (double,), check_forward_ad=True, check_backward_ad=False),
    ]


def layers_derived_from_common_classes(lib):
    conv = part(lib, "nn.modules.conv")

    class Standardized(conv._ConvNd):
        def __init__(self, i, o, k, stride=1, padding=0, dilation=1, groups=1, bias=True):
            pairs = [(v, v) for v in (k, stride, padding, dilation)]
            super().__init__(i, o, *pairs, False, (0, 0), groups, bias, "zeros")

        def forward(self, x):
            w = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            w = w / (w.flatten(1).std(1).view(-1, 1, 1, 1) + 1e-5)
            return lib.nn.functional.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)

    class Transposed(conv._ConvTransposeNd):
        def __init__(self, i, o, k):
            super().__init__(i, o, (k,), (2,), (0,), (1,), True, (1,), 1, True, "zeros")

        def forward(self, x):
            return lib.nn.functional.conv_transpose1d(x, self.weight, self.bias, self.stride, self.padding, self.output_padding)

    layer, other = filled(lib, Standardized(2, 4, 3, padding=1, groups=2)), filled(lib, Transposed(2, 3, 3))
    return [str(layer), layer(data(lib, 1, 2, 5, 5)).sum((2, 3)), str(other), other(data(lib, 1, 2, 4)), layer.transposed, other.transposed]


def sparse_tensors_by_older_names(lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        indices, values = lib.LongTensor([[0, 1, 1], [2, 0, 2]]), lib.FloatTensor([3, 4, 5])
        adjacency = lib.sparse.FloatTensor(indices, values, lib.Size([3, 3]))
        return [
            lib.spmm(adjacency, data(lib, 3, 2)), str(adjacency.type()).partition(".")[2], lib.sparse.FloatTensor(2, 3).shape,
            [isinstance(adjacency, kind) for kind in (lib.sparse.FloatTensor, lib.sparse.DoubleTensor)],
            lib.sparse.FloatTensor(indices, values.double()).dtype.itemsize, lib.ones(1).volatile,
        ]  # fmt: skip


def conversions_with_switches(lib):
    switches, found = lib.__future__, []
    try:
        for swap, overwrite in ((False, False), (True, False), (False, True)):
            switches.set_swap_module_params_on_conversion(swap)
            switches.set_overwrite_module_params_on_conversion(overwrite)
            layer = filled(lib, lib.nn.Linear(2, 2))
            weight = layer.weight
            weight.sum().backward()
            layer.double()
            found += [layer.weight is weight, weight.dtype.itemsize, layer.weight.grad]
            layer.load_state_dict(filled(lib, lib.nn.Linear(2, 2), seed=3).state_dict(), assign=swap)
            found += [layer.weight is weight, layer.weight]
    finally:
        switches.set_swap_module_params_on_conversion(False)
        switches.set_overwrite_module_params_on_conversion(False)
    return found


def modules_on_meta(lib):
    with lib.device("meta"):
        module = lib.nn.Linear(2, 2)
    state = filled(lib, lib.nn.Linear(2, 2)).state_dict()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.load_state_dict(state)
    before = module.weight.is_meta
    module.load_state_dict(state, assign=True)
    return [len(caught), before, module.weight, Refused(refusal(lambda: lib.ones(2, device="meta").sum().item()))]


@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_do_the_same(program):
    same(program(fl), program(torch), program.__name__)
