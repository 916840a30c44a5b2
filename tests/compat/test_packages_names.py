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


@pytest.mark.slow
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
        from torch.nn.parallel.replicate import _broadcast_coalesced_reshape
        print(callable(p.replicate), callable(p.parallel_apply), p.parallel_apply([abs, abs], [1, (-2,)]))
        print(_broadcast_coalesced_reshape([torch.ones(1)], []))
        try:
            _broadcast_coalesced_reshape([torch.ones(1)], [0])
        except RuntimeError as error:
            print(error)
    """)
    assert lines == ["True True [1, 2]", "[]", "replicate: devices = [0], but this build of flambeau has no CUDA backend; call the module itself"]


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
    assert config.weight().dtype == "int8" and config.weight().quant_min == -128
    for call in (quantization.convert, fl.nn.quantized.Linear, lambda: fl.nn.quantized.Conv2d.from_float(None)):
        with pytest.raises(NotImplementedError, match="quantised tensors|use MinMaxObserver"):
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


def test_a_tracer_that_says_trace_itself():
    """torch_geometric's, which keeps its own layers whole: it takes the tracer's parts, and replaces calls by them."""
    lines = says("""
        import torch, torch.fx._symbolic_trace as st

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.one = torch.nn.Linear(3, 3)
            def forward(self, x):
                return torch.nn.functional.dropout(self.one(x).relu(), 0.5, self.training) + self.one.bias

        class Tracer(torch.fx.Tracer):
            @st.compatibility(is_backward_compatible=True)
            def trace(self, root, concrete_args=None):
                self.root, function, cache = root, type(root).forward, {}
                assert isinstance(function, st.FunctionType) and not isinstance(root, st.ScriptObject)
                self.submodule_paths, self.tensor_attrs = {m: name for name, m in root.named_modules()}, {}
                self.graph = st.Graph(tracer_cls=type(self))
                function, args = self.create_args_for_root(function, True, concrete_args)
                @st.functools.wraps(st._orig_module_getattr)
                def get(module, name):
                    return self.getattr(name, st._orig_module_getattr(module, name), cache)
                @st.functools.wraps(st._orig_module_call)
                def call(module, *args, **kwargs):
                    return self.call_module(module, lambda *a, **k: st._orig_module_call(module, *a, **k), args, kwargs)
                with st._Patcher() as patcher:
                    patcher.patch_method(torch.nn.Module, "__getattr__", get, deduplicate=False)
                    patcher.patch_method(torch.nn.Module, "__call__", call, deduplicate=False)
                    st._patch_wrapped_functions(patcher)
                    st._autowrap_check(patcher, {}, self._autowrap_function_ids)
                    self.create_node("output", "output", (self.create_arg(function(*args)),), {})
                return self.graph

        net = Net()
        graph = Tracer().trace(net)
        print([(node.op, getattr(node.target, "__name__", node.target)) for node in graph.nodes])
        print(torch.nn.Module.__call__ is st._orig_module_call, torch.nn.Module.__getattr__ is st._orig_module_getattr)
        x, net = torch.ones(2, 3), net.eval()
        print(torch.equal(torch.fx.GraphModule(net, Tracer().trace(net))(x), net(x)))
    """)
    assert lines[0] == str([
        ("placeholder", "x"), ("call_module", "one"), ("call_method", "relu"), ("call_function", "dropout"), ("get_attr", "one.bias"),
        ("call_function", "add"), ("output", "output"),
    ])  # fmt: skip
    assert lines[1:] == ["True True", "True"]


def test_tensors_are_told_apart_by_cdata():
    """As pyro does: the same object has one number, and another view of its bytes another."""
    lines = says("""
        import torch
        p = torch.nn.Parameter(torch.ones(2))
        a = p.detach()
        print(p._cdata == p._cdata, p._cdata != a._cdata, type(p._cdata).__name__)
    """)
    assert lines == ["True True int"]


def test_progress_of_downloads_is_shown_by_what_hub_shows_it_by():
    assert fl.hub.tqdm is pytest.importorskip("tqdm.auto").tqdm
    with pytest.raises(AttributeError, match="'flambeau.hub' has no attribute 'tqdn'"):
        fl.hub.tqdn  # noqa: B018


def test_layers_have_the_classes_above_them_that_packages_ask_for():
    lines = says("""
        import torch
        from torch import nn
        from torch.nn.modules import batchnorm, conv, dropout, padding, pooling
        for kind, above in ((nn.Dropout2d, dropout._DropoutNd), (nn.MaxPool1d, pooling._MaxPoolNd), (nn.AvgPool1d, pooling._AvgPoolNd), (nn.AvgPool3d, pooling._AvgPoolNd),
                            (nn.AdaptiveAvgPool2d, pooling._AdaptiveAvgPoolNd), (nn.AdaptiveMaxPool3d, pooling._AdaptiveMaxPoolNd), (nn.LPPool1d, pooling._LPPoolNd),
                            (nn.LPPool2d, pooling._LPPoolNd), (nn.MaxUnpool2d, pooling._MaxUnpoolNd), (nn.ConstantPad1d, padding._ConstantPadNd), (nn.ZeroPad3d, nn.ConstantPad3d),
                            (nn.ReflectionPad2d, padding._ReflectionPadNd), (nn.ReplicationPad3d, padding._ReplicationPadNd), (nn.CircularPad1d, padding._CircularPadNd),
                            (nn.ReLU6, nn.Hardtanh), (nn.LazyConv2d, conv._LazyConvXdMixin), (nn.LazyBatchNorm1d, batchnorm._LazyNormBase)):
            if not issubclass(kind, above):
                print(kind, above)
        print(nn.ReLU6(), nn.ReLU6().max_val, nn.ZeroPad2d(1), nn.ZeroPad2d(1).value, type(nn.MultiheadAttention(4, 2).out_proj) is nn.modules.linear.NonDynamicallyQuantizableLinear)
    """)
    assert lines == ["ReLU6() 6.0 ZeroPad2d((1, 1, 1, 1)) 0.0 True"]


def test_helpers_of_transformers():
    lines = says("""
        import torch
        from torch.nn.modules import transformer as t
        layers = t._get_clones(torch.nn.Linear(2, 2), 3)
        print(len(layers), layers[0].weight is layers[1].weight, torch.equal(layers[0].weight, layers[1].weight), t._get_activation_fn("relu") is torch.nn.functional.relu)
        mask = t._generate_square_subsequent_mask(3)
        print(mask.tolist(), t._detect_is_causal_mask(mask), t._detect_is_causal_mask(mask.T), t._detect_is_causal_mask(None), t._get_seq_len(torch.ones(2, 3, 4), True))
        try:
            t._get_activation_fn("tanh")
        except RuntimeError as error:
            print(error)
    """)
    inf = float("inf")
    assert lines[0] == "3 False True True"
    assert lines[1] == f"{[[0.0, -inf, -inf], [0.0, 0.0, -inf], [0.0, 0.0, 0.0]]} True False False 3"
    assert lines[2] == "activation should be relu/gelu, not tanh"


def test_functions_of_pythons_carry_attributes():
    """As fastai does: which draws of weights go with an activation is kept on it."""
    lines = says("""
        import torch.nn.functional as F
        for f in (F.relu, F.relu6, F.leaky_relu, F.sigmoid, F.tanh, F.softsign, F.tanhshrink, F.glu):
            f.draws = "uniform"
        print(F.tanh.draws, F.glu.__name__)
    """)
    assert lines == ["uniform glu"]


def test_a_pass_over_a_loader_of_somebody_elses():
    """As fastai does: its loader has a DataLoader's private parts, and PyTorch's iterator runs over it."""
    lines = says("""
        import torch
        from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
        class Loader:
            _auto_collation, drop_last, num_workers, timeout, _dataset_kind = False, False, 0, 0, _DatasetKind.Iterable
            dataset, _index_sampler = ["a", "b", "c"], range(10)
            def collate_fn(self, item):
                return item * 2
        print(list(_SingleProcessDataLoaderIter(Loader())))
        rows = torch.utils.data.DataLoader(range(5), batch_size=2)
        print([x.tolist() for x in _SingleProcessDataLoaderIter(rows)], rows._dataset_kind == _DatasetKind.Map)
        print([isinstance(iter(rows), kind) for kind in (_BaseDataLoaderIter, _SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter)])
        Loader.num_workers = 2
        for kind in (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter):
            try:
                kind(Loader())
            except (AssertionError, NotImplementedError) as error:
                print(error)
    """)
    assert lines[:3] == ["['aa', 'bb', 'cc']", "[[0, 1], [2, 3], [4]] True", "[True, True, False]"]
    assert lines[3] == "num_workers = 2 and timeout = 0; expected 0 and 0"
    assert lines[4] == "Loader: num_workers = 2, but only DataLoader has workers here; set num_workers to 0"


def test_places_of_another_class_than_the_picture():
    """As fastai does: what a class has registered for `F.grid_sample` is asked with that function."""
    lines = says("""
        import torch, torch.nn.functional as F
        class Base(torch.Tensor):
            known = {}
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func in cls.known and all(map(isinstance, args, cls.known[func])):
                    types = (torch.Tensor,)
                return super().__torch_function__(func, types, args, kwargs or {})
        class Picture(Base): pass
        class Places(Base): pass
        picture, places = torch.ones(1, 1, 2, 2).as_subclass(Picture), torch.zeros(1, 1, 1, 2).as_subclass(Places)
        try:
            F.grid_sample(picture, places, align_corners=False)
        except TypeError as error:
            print("refused")
        Base.known[F.grid_sample] = (Picture, Places)
        print(type(F.grid_sample(picture, places, align_corners=False)).__name__)
        print(torch.vmap(lambda x, at: F.grid_sample(x[None], at[None], align_corners=False).sum())(torch.ones(2, 1, 2, 2), torch.zeros(2, 1, 1, 2)))
    """)
    assert lines == ["refused", "Picture", "tensor([1., 1.])"]


def test_numbers_as_they_stand_in_a_tensors_text():
    """pfhedge prints its instruments so."""
    lines = says("""
        import torch
        from torch._tensor_str import _Formatter
        for values in ([1.0, 2.0], [1.5, -200.25], [1e-6, 1e5], [3, -40], [True, False], [float("inf"), 2.5], []):
            x = torch.tensor(values)
            f = _Formatter(x)
            print([f.format(v) for v in x.tolist()], f.width() == f.max_width, f.width(), f.int_mode, bool(f.sci_mode), f.floating_dtype)
        print(_Formatter(torch.ones(2, requires_grad=True)).format(0.5))
    """)
    assert lines == [
        "['1.', '2.'] True 2 True False True", "['   1.5000', '-200.2500'] True 9 False False True",
        "['1.0000e-06', '1.0000e+05'] True 10 False True True", "['  3', '-40'] True 3 True False False",
        "[' True', 'False'] True 5 True False False", "['   inf', '2.5000'] True 6 False False True", "[] True 1 True False True", "0.",
    ]  # fmt: skip


def test_how_often_functions_may_be_compiled_anew():
    """heavyball's optimizers take their steps in this region."""
    lines = says("""
        import sys, torch
        config = torch._dynamo.config
        before = config.recompile_limit, config.accumulated_recompile_limit
        with torch._dynamo.utils.disable_cache_limit():
            print(config.recompile_limit == config.accumulated_recompile_limit == sys.maxsize)
        print((config.recompile_limit, config.accumulated_recompile_limit) == before)
    """)
    assert lines == ["True", "True"]


def test_events_of_tensorboard_by_their_module():
    """Lightning's logger asks for `hparams` there, where tensorboard is installed."""
    lines = says("""
        import torch.utils.tensorboard
        from torch.utils.tensorboard.summary import hparams, scalar
        print(hparams.__name__, torch.utils.tensorboard.summary.scalar is scalar, torch.utils.tensorboard.writer.SummaryWriter.__name__)
    """)
    assert lines == ["hparams True SummaryWriter"]
