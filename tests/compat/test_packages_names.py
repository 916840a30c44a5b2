"""What single packages from PyPI ask for: `functorch`, classes of scripts and of quantised models, trees of `module._parameters`."""

import subprocess
import sys

import pytest
from support.as_torch import python, says

import flambeau as fl

pytestmark = pytest.mark.eager("programs in processes of their own")


def test_functorch_is_found_beside_torch():
    lines = says("""
        import functorch, importlib.util, torch, warnings
        from functorch import FunctionalModule, make_functional, make_functional_with_buffers
        warnings.simplefilter("ignore")
        net, x = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)), torch.ones(4, 2)
        f, params = make_functional(net)
        print(type(f) is FunctionalModule, torch.equal(f(params, x), net(x)), list(f.parameters()), params[0] is net[0].weight, torch.equal(params[0], net[0].weight))
        grads = functorch.grad(lambda p: f(p, x).sum())(params)
        print([tuple(g.shape) for g in grads], functorch.vmap(lambda a: 2 * a)(x).shape == x.shape)
        norm = torch.nn.BatchNorm1d(2)
        g, params, buffers = make_functional_with_buffers(norm, disable_autograd_tracking=True)
        print(len(params), len(buffers), params[0].requires_grad, torch.equal(g(params, buffers, x), norm(x)))
        nets = [torch.nn.Linear(2, 1) for _ in range(3)]
        h, params, buffers = functorch.combine_state_for_ensemble(nets)
        print(torch.allclose(functorch.vmap(h, in_dims=(0, 0, None))(params, buffers, x), torch.stack([net(x) for net in nets])))
        print(functorch.__version__ == torch.__version__, importlib.util.find_spec("functorch.dim"))
    """)
    assert lines == ["True True [] False True", "[(3, 2), (3,), (1, 3), (1,)] True", "2 3 False True", "True", "True None"]


def test_functorch_warns_and_refuses():
    stderr = python("import functorch\nfunctorch.vmap(abs)\nimport functorch.dims", status=1)
    assert "FutureWarning: functorch.vmap is deprecated: it moved into torch; use torch.vmap" in stderr or "ModuleNotFoundError" in stderr
    assert "the module functorch.dims is not in flambeau (asked for at <string>:3)" in stderr
    stderr = python("import functorch, torch\nfunctorch.make_functional(torch.nn.BatchNorm1d(2))", status=1)
    assert "the model has buffers (running_mean, running_var, num_batches_tracked); call make_functional_with_buffers" in stderr


def test_reports_look_at_functorch(tmp_path):
    (tmp_path / "program.py").write_text("import functorch\nfrom functorch import make_functional, make_fx\nfunctorch.functionalize\n")
    code = "from flambeau.compat._torch.report import report; import sys; sys.exit(report(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "program.py")], capture_output=True, text=True)
    assert "functorch.make_fx" in done.stdout and "functorch.functionalize" in done.stdout and "make_functional" not in done.stdout.split("; the nearest")[0]
    assert done.returncode == 1


def test_classes_that_nothing_is_one_of():
    lines = says("""
        import torch
        from torch._C import ScriptMethod
        print(torch.DeviceObjType, isinstance(torch.device("cpu"), torch.DeviceObjType), torch.cuda._initialized, isinstance(len, ScriptMethod))
        for kind in (torch.DeviceObjType, ScriptMethod):
            try:
                kind()
            except NotImplementedError as error:
                print(error)
    """)
    assert lines[0] == "<class 'torch.DeviceObjType'> False False False" and all("there is no TorchScript here" in line for line in lines[1:]) and len(lines) == 3


def test_a_function_stays_before_the_module_of_its_name():
    lines = says("""
        import torch.nn.parallel.replicate, torch.nn.parallel.parallel_apply
        import torch.nn.parallel as p
        print(callable(p.replicate), callable(p.parallel_apply), p.parallel_apply([abs, abs], [1, (-2,)]))
    """)
    assert lines == ["True True [1, 2]"]


def test_trees_go_into_parameters_as_into_dicts(tmp_path):
    (tmp_path / "optree").mkdir()
    (tmp_path / "optree/registry.py").write_text("__GLOBAL_NAMESPACE = object()\n")
    (tmp_path / "optree/__init__.py").write_text(
        "import optree.registry\nkinds = {}\ndef register_pytree_node(kind, flatten, unflatten, namespace):\n    kinds[kind] = flatten, unflatten\n"
    )
    lines = says(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import optree, torch
        from torch.utils import _pytree
        table = torch.nn.Linear(2, 3)._parameters
        flatten, unflatten = optree.kinds[type(table)]
        values, keys, entries = flatten(table)
        print(keys, entries, [tuple(v.shape) for v in values], type(unflatten(keys, values)) is type(table))
        print(_pytree.tree_map(lambda x: tuple(x.shape), table))
    """)
    assert lines == ["('weight', 'bias') ('weight', 'bias') [(3, 2), (3,)] True", "{'weight': (3, 2), 'bias': (3,)}"]


def test_inner_questions():
    lines = says("""
        import torch
        from torch._jit_internal import boolean_dispatch
        from torch.fx.node import map_aggregate, map_arg
        x = torch.arange(6.0)
        print(torch._C._is_alias_of(x, x.view(2, 3)), torch._C._is_alias_of(x, x.clone()), torch._C._get_cudnn_enabled())
        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, f, types, args=(), kwargs=None):
                return f(*args, **(kwargs or {}))
        with Mode():
            inside = torch._C._is_torch_function_mode_enabled()
        print(inside, torch._C._is_torch_function_mode_enabled())
        choose = boolean_dispatch("flag", 1, False, lambda x, flag=False: "yes", lambda x, flag=False: "no", "m", "f")
        print(choose(1), choose(1, True), choose(1, flag=True), choose.__name__)
        print(map_aggregate({"a": [1, (2, slice(3, None))]}, lambda v: v and -v), map_arg((1, 2), lambda v: None))
        print(torch.ops.aten._convolution(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True).item())
    """)
    assert lines == ["True False True", "True False", "no yes yes f", "{'a': [-1, (-2, slice(-3, None, None))]} (1, 2)", "4.0"]


def test_observers_can_be_named_and_derived_from():
    quantization = fl.ao.quantization
    config = quantization.QConfig(activation=quantization.MinMaxObserver, weight=quantization.MinMaxObserver.with_args(dtype="int8"))
    assert config.activation is quantization.MinMaxObserver and config == tuple(config)
    for call in (config.activation, config.weight, quantization.FakeQuantize, fl.nn.quantized.Linear, lambda: fl.nn.quantized.Conv2d.from_float(None)):
        with pytest.raises(NotImplementedError, match="quantised tensors|observers in flambeau"):
            call()

    class Largest(quantization.ObserverBase):
        def forward(self, x):
            self.seen = x.amax()
            return x

        def calculate_qparams(self):
            return self.seen / 127, 0

    made = Largest.with_args(is_dynamic=True).with_callable_args(dtype=lambda: fl.int8)()
    assert made.is_dynamic and made.dtype is fl.int8 and made(fl.tensor([254.0])).item() == 254 and made.calculate_qparams()[0].item() == 2
    with pytest.raises(ValueError, match="weight is a Largest; expected its class"):
        quantization.QConfig(Largest, made)

    class Rounds(quantization.FakeQuantizeBase):
        def forward(self, x):
            return fl.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 7) if self.fake_quant_enabled[0] else x

        def calculate_qparams(self):
            return 0.5, 0

    net = fl.nn.Sequential(Rounds())
    assert net(fl.tensor([0.3])).item() == 0.5
    net.apply(quantization.disable_fake_quant)
    assert net(fl.tensor([0.3])).item() == fl.tensor(0.3).item() and sorted(net.state_dict()) == ["0.fake_quant_enabled", "0.observer_enabled"]
