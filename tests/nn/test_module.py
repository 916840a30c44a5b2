"""Module: registering, walking, casting, hooks, state, printing, copying."""

import copy
import gc
import pickle
import sys
import warnings
import weakref

import pytest

import flambeau as fl
from flambeau import nn


class Block(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.fc = nn.Linear(n, n)
        self.norm = nn.BatchNorm1d(n)
        self.scale = nn.Parameter(fl.ones(n))
        self.register_buffer("steps", fl.zeros(1))
        self.register_buffer("cache", fl.zeros(2), persistent=False)

    def forward(self, x):
        return self.norm(self.fc(x)) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


# ------------------------------------------------------------------------------------ attributes


def test_names_come_in_order_and_own_ones_first():
    names = [name for name, _ in Block().named_parameters()]
    assert names == ["scale", "fc.weight", "fc.bias", "norm.weight", "norm.bias"]


def test_buffers_persistent_and_not():
    block = Block()
    assert [n for n, _ in block.named_buffers(recurse=False)] == ["steps", "cache"]
    assert "cache" not in block.state_dict() and "steps" in block.state_dict()


OLDER = {
    "conv": (lambda: nn.Conv1d(2, 2, 1), ["padding_mode"], (1, 2, 3)), "transposed": (lambda: nn.ConvTranspose1d(2, 2, 1), ["padding_mode"], (1, 2, 3)),
    "Softmax": (nn.Softmax, ["dim"], (2,)), "Softmin": (nn.Softmin, ["dim"], (2,)), "LogSoftmax": (nn.LogSoftmax, ["dim"], (2,)),
    "AvgPool3d": (lambda: nn.AvgPool3d(1), ["padding", "ceil_mode", "count_include_pad"], (1, 1, 1, 1)),
    "LSTM": (lambda: nn.LSTM(2, 3), ["proj_size"], (2, 2)), "GRU": (lambda: nn.GRU(2, 3, 2, bias=False, bidirectional=True), ["proj_size", "_all_weights"], (2, 2)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 4).eval(), ["activation"], (2, 4)), "decoder": (lambda: nn.TransformerDecoderLayer(4, 2, 4).eval(), ["activation"], (2, 4)),
    "attention": (lambda: nn.MultiheadAttention(4, 2), ["_qkv_same_embed_dim"], (2, 4)),
    "module": (nn.Identity, ["_forward_pre_hooks", "_state_dict_pre_hooks", "_backward_pre_hooks", "_non_persistent_buffers_set", "_is_full_backward_hook"], (1,)),
}  # fmt: skip


@pytest.mark.parametrize(("make", "later", "shape"), OLDER.values(), ids=OLDER)
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_what_was_pickled_before_there_was_an_attribute_gets_it(make, later, shape):
    layer = make()
    again = type(layer).__new__(type(layer))
    again.__setstate__({key: value for key, value in layer.__getstate__().items() if key not in later})
    assert vars(again).keys() >= set(later)
    inputs = (fl.randn(shape),) * {"TransformerDecoderLayer": 2, "MultiheadAttention": 3}.get(type(layer).__name__, 1)
    got, want = again(*inputs), layer(*inputs)
    assert fl.equal(*(x[0] if isinstance(x, tuple) else x for x in (got, want))) and list(again.state_dict()) == list(layer.state_dict())


@pytest.mark.parametrize(
    "value", [nn.Parameter(fl.zeros(1)), nn.Linear(1, 1), nn.Buffer(fl.zeros(1))], ids=repr
)
def test_assigning_before_init_is_an_error(value):
    class Bad(nn.Module):
        def __init__(self):
            self.x = value

    with pytest.raises(AttributeError, match=r"before Module\.__init__\(\) call \('x'\); call super"):
        Bad()


def test_a_tensor_cannot_replace_a_parameter():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot assign .* as parameter 'weight'"):
        layer.weight = fl.zeros(2, 2)


def test_a_tensor_cannot_replace_a_child():
    net = Net()
    with pytest.raises(TypeError, match="as child module 'head'"):
        net.head = fl.zeros(1)


def test_none_keeps_the_name_reserved():
    layer = nn.Linear(2, 2)
    layer.bias = None
    assert layer.bias is None and "bias" in layer._parameters
    assert list(layer.state_dict()) == ["weight"]
    assert layer(fl.ones(1, 2)).shape == (1, 2)


def test_changing_kind_moves_between_tables():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(fl.zeros(1))
    assert "x" in m._parameters and "x" not in m.__dict__
    m.y = nn.Parameter(fl.zeros(1))
    m.y = None
    m.z = fl.zeros(1)
    assert "z" in m.__dict__ and not m._buffers


def test_deleting_attributes():
    net = Block()
    del net.scale, net.steps, net.fc
    assert not hasattr(net, "scale") and not hasattr(net, "steps") and not hasattr(net, "fc")
    with pytest.raises(AttributeError):
        del net.scale


def test_a_plain_tensor_may_stand_in_after_deleting_the_parameter():
    layer = nn.Linear(2, 2, bias=False)
    del layer.weight
    layer.weight = 2 * fl.eye(2)
    assert layer(fl.ones(1, 2)).tolist() == [[2.0, 2.0]]


def test_missing_attribute_names_class_and_attribute():
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wieght'"):
        nn.Linear(1, 1).wieght  # noqa: B018


@pytest.mark.parametrize("name, text", [("a.b", "contain"), ("", "can.*t be empty string"), ("forward", "already")])
def test_bad_names(name, text):
    with pytest.raises(KeyError, match=text):
        nn.Module().register_parameter(name, nn.Parameter(fl.zeros(1)))
    with pytest.raises(KeyError, match=text):
        nn.Module().register_buffer(name, fl.zeros(1))
    with pytest.raises(KeyError, match=text):
        nn.Module().add_module(name, nn.Identity())


def test_a_parameter_must_be_a_leaf_and_a_parameter():
    m = nn.Module()
    with pytest.raises(TypeError, match="flambeau.nn.Parameter or None"):
        m.register_parameter("w", fl.zeros(1))
    with pytest.raises(TypeError, match="Tensor or None"):
        m.register_buffer("b", 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        m.add_module("m", 3)


def test_dir_lists_everything():
    names = dir(Net())
    assert {"blocks", "head", "forward"} <= set(names)


# ----------------------------------------------------------------------------------------- walking


def test_named_modules_and_children():
    net = Net()
    names = [n for n, _ in net.named_modules()]
    assert names[:4] == ["", "blocks", "blocks.0", "blocks.0.fc"]
    assert [n for n, _ in net.named_children()] == ["blocks", "head"]


def test_tied_parameters_come_once():
    a = nn.Linear(2, 2)
    b = nn.Linear(2, 2)
    b.weight = a.weight
    net = nn.Sequential(a, b, a)
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 6
    assert len(list(net.modules())) == 3
    assert len(list(net.state_dict())) == 6


def test_get_submodule_parameter_buffer():
    net = Net()
    assert net.get_submodule("blocks.1.fc") is net.blocks[1].fc
    assert net.get_parameter("blocks.0.scale") is net.blocks[0].scale
    assert net.get_buffer("blocks.0.steps") is net.blocks[0].steps
    with pytest.raises(AttributeError, match="Block has no attribute `fcc`; its children: fc, norm"):
        net.get_submodule("blocks.1.fcc")
    with pytest.raises(AttributeError, match="`steps` is not an nn.Parameter"):
        net.get_parameter("blocks.0.steps")
    with pytest.raises(AttributeError, match="`scale` is not a buffer"):
        net.get_buffer("blocks.0.scale")


# ---------------------------------------------------------------------------------------- changing


def test_train_and_eval_reach_everything():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)


@pytest.mark.parametrize(
    "cast, dtype",
    [
        (lambda m: m.double(), fl.float64),
        (lambda m: m.bfloat16(), fl.bfloat16),
        (lambda m: m.half(), fl.float16),
        (lambda m: m.double().float(), fl.float32),
        (lambda m: m.to(fl.float64), fl.float64),
        (lambda m: m.to("cpu", fl.float64), fl.float64),
        (lambda m: m.to(fl.zeros(1, dtype=fl.float64)), fl.float64),
        (lambda m: m.to(dtype=fl.float64), fl.float64),
    ],
)
def test_casting_keeps_the_parameter_objects(cast, dtype):
    block = Block()
    before = list(block.parameters())
    assert cast(block) is block
    after = list(block.parameters())
    assert all(a is b for a, b in zip(before, after))
    assert all(p.dtype == dtype for p in after)
    assert block.norm.running_mean.dtype == dtype
    assert block.norm.num_batches_tracked.dtype == fl.int64  # integers are not cast


def test_casting_takes_the_gradients_along():
    layer = nn.Linear(2, 2)
    layer(fl.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight.grad.dtype == fl.float64
    layer.zero_grad()
    layer(fl.ones(1, 2, dtype=fl.float64)).sum().backward()
    assert layer.weight.grad.dtype == fl.float64


def test_to_refuses_integers_and_nonsense():
    with pytest.raises(TypeError, match="floating point"):
        nn.Linear(1, 1).to(fl.int64)
    with pytest.raises(TypeError, match="expected a device"):
        nn.Linear(1, 1).to([])
    with pytest.raises(TypeError, match="unknown argument 'dtpye'"):
        nn.Linear(1, 1).to(dtpye=fl.float32)


def test_requires_grad_and_zero_grad():
    layer = nn.Linear(2, 2)
    layer(fl.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
    layer.requires_grad_(False)
    assert not layer(fl.ones(1, 2)).requires_grad


def test_apply_visits_children_first():
    seen = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen[0] == "Linear" and seen[-1] == "Net"


# ------------------------------------------------------------------------------------------- hooks


def test_forward_hooks_order_and_change():
    layer = nn.Identity()
    log = []
    layer.register_forward_pre_hook(lambda m, args: log.append("pre1"))
    layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,), prepend=True)
    layer.register_forward_hook(lambda m, args, out: log.append(f"post {out.item()}"))
    handle = layer.register_forward_hook(lambda m, args, out: out * 10)
    assert layer(fl.tensor(1.0)).item() == 20.0
    assert log == ["pre1", "post 2.0"]
    handle.remove()
    handle.remove()
    assert layer(fl.tensor(1.0)).item() == 2.0


def test_hooks_with_kwargs():
    class Scale(nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    m = Scale()
    m.register_forward_pre_hook(lambda m, a, k: (a, {"factor": 3.0}), with_kwargs=True)
    seen = []
    m.register_forward_hook(lambda m, a, k, out: seen.append(k), with_kwargs=True)
    assert m(fl.tensor(2.0), factor=1.0).item() == 6.0
    assert seen == [{"factor": 3.0}]


def test_always_called_hook_runs_on_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("x")

    m = Fails()
    log = []
    m.register_forward_hook(lambda m, a, out: log.append(out), always_call=True)
    with pytest.raises(KeyError):
        m(1)
    assert log == [None]


def test_full_backward_hooks_see_and_change_gradients():
    layer = nn.Linear(2, 1, bias=False)
    with fl.no_grad():
        layer.weight.copy_(fl.tensor([[2.0, 3.0]]))
    log = []
    layer.register_full_backward_pre_hook(lambda m, gout: (gout[0] * 10,))

    def hook(m, gin, gout):
        log.append((gin[0].tolist(), gout[0].tolist()))
        return (gin[0] + 1,)

    layer.register_full_backward_hook(hook)
    x = fl.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert log == [([[20.0, 30.0]], [[10.0]])]
    assert x.grad.tolist() == [[21.0, 31.0]]
    assert layer.weight.grad.tolist() == [[10.0, 10.0]]


def test_hooks_of_all_modules():
    from flambeau.nn.modules import module as everywhere

    log = []
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    model[0].register_forward_hook(lambda m, args, out: log.append("own"))
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, args: log.append(f"before {type(m).__name__}")),
        everywhere.register_module_forward_hook(lambda m, args, out: log.append(f"after {type(m).__name__}")),
        everywhere.register_module_forward_hook(lambda m, args, kwargs, out: out * 2 if isinstance(m, nn.ReLU) else None, with_kwargs=True),
        everywhere.register_module_full_backward_pre_hook(lambda m, gout: log.append(f"back to {type(m).__name__}")),
        everywhere.register_module_full_backward_hook(lambda m, gin, gout: log.append(f"through {type(m).__name__}")),
    ]
    x = fl.ones(1, 1, requires_grad=True)
    y = model(x)
    assert log == ["before Sequential", "before Linear", "after Linear", "own", "before ReLU", "after ReLU", "after Sequential"]
    log.clear()
    y.sum().backward()
    assert log == ["back to Sequential", "back to ReLU", "through ReLU", "back to Linear", "through Linear", "through Sequential"]
    for handle in handles:
        handle.remove()
    log.clear()
    model(x)
    assert log == ["own"]
    assert nn.Linear(1, 1)(x)._version == 0 and not nn.Linear(1, 1)._forward_hooks.hooked and not log[1:]


def test_hooks_of_all_modules_are_called_on_an_error():
    from flambeau.nn.modules.module import register_module_forward_hook

    log = []
    with register_module_forward_hook(lambda m, args, out: log.append((type(m).__name__, out)), always_call=True):
        with pytest.raises(RuntimeError):
            nn.Linear(2, 2)(fl.ones(3))
    assert log == [("Linear", None)]


def test_hooks_of_registrations():
    from flambeau.nn.modules import module as everywhere

    log = []
    with (
        everywhere.register_module_parameter_registration_hook(lambda m, name, value: log.append(name)),
        everywhere.register_module_buffer_registration_hook(lambda m, name, value: value + 1 if name == "mean" else None),
        everywhere.register_module_module_registration_hook(lambda m, name, value: nn.Identity() if isinstance(value, nn.ReLU) else None),
    ):
        model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU())
        model.register_buffer("mean", fl.zeros(1))
        model.other = nn.ReLU()
    assert log == ["weight"] and model.mean.item() == 1.0
    assert [type(m).__name__ for m in model] == ["Linear", "Identity", "Identity"]
    assert type(nn.Sequential(nn.ReLU())[0]) is nn.ReLU


def test_hooks_of_registrations_see_parts_go():
    from flambeau.nn.modules import module as everywhere

    model, log = nn.Module(), []
    model.child, model.mean, model.weight = nn.ReLU(), nn.Buffer(fl.zeros(1)), nn.Parameter(fl.zeros(1))
    with (
        everywhere.register_module_module_registration_hook(lambda m, name, value: log.append((name, value))),
        everywhere.register_module_buffer_registration_hook(lambda m, name, value: log.append((name, value))),
        everywhere.register_module_parameter_registration_hook(lambda m, name, value: log.append((name, value))),
    ):
        model.child = model.mean = model.weight = None
    assert log == [("child", None), ("mean", None)]  # as in PyTorch, not of a parameter


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"])
def test_the_backward_runs_the_hooks_that_there_were_at_the_call(register):
    layer, seen = nn.Linear(2, 1), []
    first = getattr(layer, register)(lambda *given: seen.append("first"))
    y = layer(fl.ones(1, 2, requires_grad=True)).sum()
    first.remove()
    second = getattr(layer, register)(lambda *given: seen.append("second"))
    y.backward()
    assert seen == ["first"]
    second.remove()
    layer(fl.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["first"]


def test_the_backward_runs_the_hooks_of_all_modules_that_there_were_at_the_call():
    from flambeau.nn.modules import module as everywhere

    layer, seen = nn.Linear(2, 1), []
    before = everywhere.register_module_full_backward_pre_hook(lambda *given: seen.append("before"))
    after = everywhere.register_module_full_backward_hook(lambda *given: seen.append("after"))
    y = layer(fl.ones(1, 2, requires_grad=True)).sum()
    before.remove()
    after.remove()
    y.backward()
    assert seen == ["before", "after"]


def test_a_module_is_not_copied_by_to():
    layer = nn.Linear(1, 1)
    for args, given in (("cpu",), {"copy": True}), (("cpu", fl.float64, False, True), {}):
        with pytest.raises(RuntimeError, match="Module.to: copy is given"):
            layer.to(*args, **given)
    assert layer.to("cpu", fl.float64, True).weight.dtype is fl.float64
    with pytest.warns(UserWarning, match="Module.to: dtype = flambeau.complex64"):
        layer.to(fl.complex64)


def test_a_handle_says_where_its_hook_is():
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_hook(print)
    assert handle.hooks_dict_ref() is layer._forward_hooks


class Returns(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        return self.what(x)


@pytest.mark.parametrize(("what", "full"), [(lambda x: [x * 2, x * 3], False), (lambda x: {"n": 1, "a": x * 2, "b": x * 3}, False), (lambda x: (x * 2, x * 3), True)])
def test_backward_hooks_of_a_list_and_a_dict(what, full):
    """Full ones are called for a tensor and a tuple alone, which a warning says, older ones for a list and the first tensor of a dict, too."""
    for register in ("register_backward_hook", "register_full_backward_hook"):
        net, seen, x = Returns(what), [], fl.ones(2, requires_grad=True)
        getattr(net, register)(lambda module, inputs, outputs: seen.append(outputs[0].tolist()))
        called = full or register == "register_backward_hook"
        with warnings.catch_warnings() if called else pytest.warns(UserWarning, match="hooks of Returns are not called: forward returned a"):
            y = net(x)
        assert type(y) is type(what(x))
        sum(part.sum() for part in (y.values() if isinstance(y, dict) else y) if isinstance(part, fl.Tensor)).backward()
        assert seen == ([[1, 1]] if called else []) and x.grad.tolist() == [5, 5]


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
@pytest.mark.parametrize(("given", "kind", "text"), [
    (lambda: fl.ones(2, 2), RuntimeError, r"gradient 0 is flambeau.float32 \[2, 2\]; expected flambeau.float32 \[2\]"), (lambda: fl.ones(1), RuntimeError, r"\[1\]; expected"),
    (lambda: fl.ones(2).double(), RuntimeError, "gradient 0 is flambeau.float64"), (lambda: "a", TypeError, "gradient 0 is a str"),
])  # fmt: skip
def test_backward_hooks_give_gradients_of_the_same_kind(register, given, kind, text):
    net, x = Returns(lambda x: x * 2), fl.ones(2, requires_grad=True)
    handle = getattr(net, register)(lambda *args: (given(),))
    with pytest.raises(kind, match=f"hook of Returns: .*{text}"):
        net(x).sum().backward()
    assert x.grad is None
    handle.remove()
    getattr(net, register)(lambda *args: [fl.full((2,), 3.0)])
    net(x).sum().backward()
    assert x.grad.tolist() == ([3, 3] if register == "register_full_backward_hook" else [6, 6])


def test_no_gradient_can_be_given_where_no_argument_requires_one():
    layer, given = nn.Linear(2, 1), [None]
    layer.register_full_backward_hook(lambda *args: given[0])
    for allowed in (None, (None,), (None, None)):  # of any number, as in PyTorch
        given[0] = allowed
        layer(fl.ones(1, 2)).sum().backward()
    for wrong in (fl.ones(1, 2), (fl.ones(1, 2),)):
        given[0] = wrong
        with pytest.raises(RuntimeError, match="where no input requires gradient should always return None"):
            layer(fl.ones(1, 2)).sum().backward()


def test_outputs_behind_backward_hooks_that_nothing_uses_have_no_gradient():
    net, x = Returns(lambda x: (x * 2, x.exp() * net.scale)), fl.ones(2, requires_grad=True)
    net.scale = nn.Parameter(fl.ones(()))
    net.register_full_backward_pre_hook(lambda *args: None)
    used, _ = net(x)
    assert type(used.grad_fn).__name__ == "BackwardHookFunctionBackward"
    used.sum().backward()
    assert x.grad.tolist() == [2, 2] and net.scale.grad is None
    y = fl.ones(2, requires_grad=True)
    pair = nn.Bilinear(2, 2, 2)
    pair.forward = lambda x, y: (x * 2, y * 3)
    pair.register_full_backward_pre_hook(lambda *args: None)
    pair(x, y)[0].sum().backward()
    assert y.grad.tolist() == [0, 0]  # arguments have zeros, as in PyTorch


def test_full_backward_hook_without_input_gradient():
    layer = nn.Linear(2, 1)
    seen = []
    layer.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout[0].item())))
    layer(fl.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1.0)]


def test_a_handle_does_not_keep_the_module_alive():
    layer = nn.Identity()
    handle = layer.register_forward_hook(lambda m, a, o: None)
    ref = weakref.ref(layer)
    del layer
    gc.collect()
    assert ref() is None
    handle.remove()


# ------------------------------------------------------------------------------------------- state


def test_state_dict_round_trip_and_sharing():
    a, b = Net(), Net()
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    for x, y in zip(a.state_dict().values(), b.state_dict().values()):
        assert (x == y).all()
    state = a.state_dict()
    state["head.bias"].fill_(7.0)
    assert a.head.bias.tolist() == [7.0, 7.0]  # the memory is shared
    assert not state["head.bias"].requires_grad
    assert a.state_dict(keep_vars=True)["head.bias"] is a.head.bias
    assert list(a.state_dict(prefix="net."))[0].startswith("net.blocks.0.")


def test_one_error_lists_everything():
    net = Net()
    state = dict(net.state_dict())
    del state["head.bias"]
    state["extra"] = fl.zeros(1)
    state["blocks.0.nose"] = fl.zeros(1)
    state["head.weight"] = fl.zeros(5, 3)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    text = str(error.value)
    for part in ('"head.bias"', '"extra"', '"blocks.0.nose"', "[5, 3]", "[2, 3]", "for Net"):
        assert part in text
    with pytest.raises(RuntimeError, match="size mismatch"):  # also when not strict
        net.load_state_dict(state, strict=False)
    del state["head.weight"]
    result = net.load_state_dict(state, strict=False)
    assert sorted(result.missing_keys) == ["head.bias", "head.weight"]
    assert sorted(result.unexpected_keys) == ["blocks.0.nose", "extra"]


def test_load_assign_takes_the_tensors_themselves():
    layer = nn.Linear(2, 2)
    weight = fl.ones(2, 2, dtype=fl.float64)
    layer.load_state_dict({"weight": weight, "bias": fl.zeros(2)}, assign=True)
    assert layer.weight.dtype == fl.float64 and isinstance(layer.weight, nn.Parameter)
    weight.fill_(5.0)
    assert layer.weight[0, 0].item() == 5.0


def test_state_dict_hooks():
    layer = nn.Linear(1, 1)
    layer.register_state_dict_post_hook(
        lambda m, sd, prefix, meta: sd.pop(prefix + "bias") and None
    )
    assert list(layer.state_dict()) == ["weight"]

    other = nn.Linear(1, 1)

    def rename(m, sd, prefix, *rest):
        sd[prefix + "weight"] = sd.pop(prefix + "w")

    other.register_load_state_dict_pre_hook(rename)
    other.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    other.load_state_dict({"w": fl.full((1, 1), 4.0)})
    assert other.weight.item() == 4.0


def test_extra_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    a, b = Counter(), Counter()
    a.n = 5
    b.load_state_dict(a.state_dict())
    assert b.n == 5
    with pytest.raises(RuntimeError, match="_extra_state"):
        b.load_state_dict({})


def test_old_batch_norm_files_without_counter_load():
    norm = nn.BatchNorm1d(2)
    norm(fl.ones(3, 2))
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    norm.load_state_dict(state)
    assert norm.num_batches_tracked.item() == 1  # it stays what it is


# ------------------------------------------------------------------------ printing, copying, errors


def test_repr_of_a_tree():
    net = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU()]))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n"
        "  )\n"
        ")"
    )


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_keep_ties(how):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    twin = how(net)
    assert twin[1].weight is twin[0].weight and twin[0].weight is not net[0].weight
    assert isinstance(twin[0].weight, nn.Parameter) and twin[0].weight.requires_grad
    with fl.no_grad():
        twin[0].weight.fill_(9.0)
    assert net[0].weight[0, 0].item() != 9.0


def test_deepcopy_keeps_hooks_working():
    layer = nn.Identity()
    layer.register_forward_hook(_double)
    assert copy.deepcopy(layer)(fl.tensor(2.0)).item() == 4.0


def _double(module, args, output):
    return output * 2


def _notes(error):
    return "\n".join(getattr(error, "__notes__", [])) + str(error)


def test_an_error_names_the_module_path():
    net = Net()
    with pytest.raises(Exception) as error:
        net.blocks[1].norm.forward = lambda x: 1 / 0
        net(fl.zeros(2, 3))
    assert "in module blocks.1.norm (BatchNorm1d(3," in _notes(error.value)

    with pytest.raises(Exception) as error:
        Net()(fl.zeros(2, 4))
    text = _notes(error.value)
    assert "in module blocks.0.fc (Linear(in_features=3, out_features=3, bias=True))" in text
    assert len(error.value.__notes__) == 1
    # Tracebacks print notes since 3.11; before, the message has the note as well.
    assert text.count("in module") == (1 if sys.version_info >= (3, 11) else 2)


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()(1)


def test_init_takes_no_arguments():
    with pytest.raises(TypeError, match=r"Module\.__init__\(\) got 2 positional arguments"):
        nn.Module(1)


def test_full_backward_hooks_are_not_called_where_a_second_derivative_reaches_the_inputs_alone():
    net, seen = nn.Tanh(), []
    net.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs[0].item()))
    x = fl.ones(1, requires_grad=True)
    y = net(x)
    (slope,) = fl.autograd.grad(y, x, create_graph=True)
    slope.backward(retain_graph=True)
    assert seen == [slope.item()]
    (slope + y).backward()
    assert len(seen) == 2


def test_full_backward_hooks_see_none_for_an_unused_output():
    class Net(nn.Module):
        def forward(self, x, z):
            return x * 2, z.detach(), x + 1

    seen = []
    net = Net()
    net.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, outputs)))
    x, z = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    net(x, z)[0].sum().backward()
    ((inputs, outputs),) = seen
    assert outputs[0].tolist() == [1, 1] and outputs[1] is None and outputs[2] is None
    assert [g.tolist() for g in inputs] == [[2, 2], [0, 0]] and x.grad.tolist() == [2, 2]


def test_full_backward_hooks_see_zeros_for_a_tensor_that_does_not_require_grad():
    seen = []
    loss = nn.L1Loss()
    loss.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs))
    x = fl.tensor([1.0, 2.0], requires_grad=True)
    loss(x, fl.zeros(2)).backward()
    picked = nn.NLLLoss()
    picked.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs))
    picked(fl.zeros(1, 2, requires_grad=True), fl.tensor([1])).backward()
    assert [[g.tolist() for g in grads] for grads in seen] == [[[0.5, 0.5], [0, 0]], [[[0, -1]], [0]]]
    assert seen[1][1].dtype == fl.int64 and not seen[0][1].requires_grad

    class Scaled(nn.Module):
        def forward(self, x, by, how):
            return x * by

    net = Scaled()
    net.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs))
    net(fl.ones(1), fl.ones(1), "fast")
    net(x, 3, "fast").sum().backward()
    assert [None if g is None else g.tolist() for g in seen[2]] == [[3, 3], None, None]


def test_the_call_by_its_parts():
    class Doubled(nn.Linear):
        def _call_impl(self, *args, **kwargs):
            return super()._call_impl(*args, **kwargs) * 2

    layer = Doubled(2, 3)
    x = fl.ones(1, 2)
    plain = fl.nn.functional.linear(x, layer.weight, layer.bias)
    seen = []
    layer.register_forward_hook(lambda m, args, y: seen.append(y))
    assert fl.equal(layer(x), plain * 2) and fl.equal(layer._wrapped_call_impl(x), plain * 2) and len(seen) == 2 and fl.equal(seen[0], plain)
    assert fl.equal(nn.Linear._call_impl(layer, x), plain) and nn.Module.dump_patches is False


def test_a_module_on_meta_that_loads_without_assign_warns():
    with fl.device("meta"):
        module = nn.Linear(2, 3)
    state = nn.Linear(2, 3).state_dict()
    with pytest.warns(UserWarning, match="weight is on meta in the module, so that nothing is copied; pass assign=True"):
        module.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.load_state_dict(module.state_dict())
        module.load_state_dict(state, assign=True)
    assert module.weight.tolist() == state["weight"].tolist()


@pytest.mark.parametrize("given", [(), ("p.",), ("p.", True)])
def test_state_dict_by_position(given):
    module, out = nn.Linear(1, 1), {}
    with pytest.warns(FutureWarning, match="given by position, which is an older form; name them"):
        found = module.state_dict(out, *given)
    prefix = "".join(given[:1])
    assert found is out and list(out) == [f"{prefix}weight", f"{prefix}bias"]
    assert out[f"{prefix}weight"].requires_grad is (len(given) == 2)


def test_ops_as_attributes_of_a_class_are_called_without_the_object():
    """They are native in PyTorch, so that Python does not bind them."""

    class Layer(fl.nn.Module):
        convolve = fl.conv1d
        activate = fl.nn.functional.softsign
        similar = staticmethod(fl.cosine_similarity)
        again = fl.nn.Module.extra_repr

        def twice(self, x):
            return 2 * self.activate(x)

        def forward(self, x, w):
            return self.twice(self.convolve(x, w))

    layer, x, w = Layer(), fl.randn(1, 1, 5), fl.randn(2, 1, 3)
    assert fl.equal(layer(x, w), 2 * fl.nn.functional.softsign(fl.conv1d(x, w)))
    assert layer.convolve is fl.conv1d and layer.again() == ""


def name_of(layer, end=""):
    return type(layer).__name__ + end


@pytest.mark.parametrize(
    "decorate",
    [fl.no_grad(), fl.inference_mode(), fl.autocast("cpu"), fl.compile, fl.func.vmap, fl.compiler.disable],
    ids=["no_grad", "inference_mode", "autocast", "compile", "vmap", "disable"],
)
def test_functions_that_our_decorators_made_are_methods_where_a_class_has_them(decorate):
    """As openai-whisper writes its `decode`: the decorator's code is ours, the function is not."""

    class Layer(fl.nn.Module):
        told = decorate(name_of)

    bound = Layer().told
    assert bound.__self__.__class__ is Layer and bound.__func__ is vars(Layer)["told"]


def test_a_decorated_function_of_a_class_gets_the_object():
    class Layer(fl.nn.Module):
        told = fl.no_grad()(name_of)

    assert Layer().told("!") == "Layer!"


def test_classes_say_their_bases():
    class Mine(fl.nn.Module):
        pass

    assert not hasattr(Mine, "__orig_bases__") and Mine.__mro__[1] is fl.nn.Module and fl.nn.Module.__mro__[-1] is object


class Hiding(nn.Module):
    """Walks in ways of its own: what is below it is not seen."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.scale = nn.Parameter(fl.ones(2))

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        yield prefix, self

    def named_children(self):
        return iter(())


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: nn.Sequential(m), lambda m: nn.Sequential(nn.Sequential(m), nn.ReLU())])
def test_walks_of_a_class_of_its_own_are_taken(wrap):
    hiding = Hiding()
    net = wrap(hiding)
    assert [id(p) for p in net.parameters()] == [id(hiding.scale)] == [id(p) for _, p in net.named_parameters()]
    assert hiding.inner not in list(net.modules()) and hiding in list(net.modules())
    net.eval()
    assert not hiding.training and hiding.inner.training
    hiding.named_modules = lambda memo=None, prefix="", remove_duplicate=True: iter([(prefix, hiding), (f"{prefix}.more", hiding.inner)])
    assert hiding.inner in list(net.modules())


def test_modules_in_two_places_and_circles_come_once():
    shared = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net = nn.Sequential(shared, nn.Sequential(shared, nn.Tanh()))
    net[1].add_module("none", None)
    assert [name for name, _ in net.named_modules()] == ["", "0", "0.0", "0.1", "1", "1.1"]
    assert [name for name, _ in net.named_modules(prefix="m", remove_duplicate=False)] == [
        "m", "m.0", "m.0.0", "m.0.1", "m.1", "m.1.0", "m.1.0.0", "m.1.0.1", "m.1.1"
    ]  # fmt: skip
    assert list(net.modules()) == [module for _, module in net.named_modules()]
    assert len(list(net.parameters())) == 2 and len(list(net.modules(remove_duplicate=False))) == 9


def test_a_child_whose_name_has_a_dot_is_loaded():
    net, other = nn.Module(), nn.Module()
    for each, value in ((net, 1.0), (other, 2.0)):
        setattr(each, "a.b", nn.Linear(1, 1))
        nn.init.constant_(getattr(each, "a.b").weight, value)
    net.load_state_dict(other.state_dict(), strict=False)
    assert getattr(net, "a.b").weight.item() == 2.0


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: [d]], ids=["dict", "list"])
def test_a_handle_removes_from_a_dict_that_was_empty_when_it_was_made(wrap):
    from collections import OrderedDict

    from flambeau.utils.hooks import RemovableHandle

    hooks, extra = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=wrap(extra))
    hooks[handle.id] = extra[handle.id] = print
    handle.remove()
    assert not hooks and not extra
