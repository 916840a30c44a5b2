"""`torch` means flambeau in a process that asks for it: names, identity, refusals. Each test is a program in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")


def python(code, *arguments, status=0):
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
    assert result.returncode == status, result.stderr[-3000:]
    return result.stdout if status == 0 else result.stderr


def test_the_surface_is_the_library():
    lines = says("""
        import torch, flambeau, torch.nn.functional as F, torch.nn as nn
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data import DataLoader
        print(torch.Tensor is flambeau.Tensor, nn.Linear is flambeau.nn.Linear, F.relu is flambeau.nn.functional.relu)
        print(torch.nn.functional is F, StepLR is flambeau.optim.lr_scheduler.StepLR)
    """)
    assert lines == ["True True True", "True True"]


def test_the_version_is_one_that_can_be_compared():
    lines = says("""
        import importlib.metadata, importlib.util, torch
        from torch.torch_version import TorchVersion
        version = importlib.metadata.version("torch")
        print(version == torch.__version__, torch.__version__ >= "2.1", torch.__version__ < (2, 5), isinstance(torch.__version__, TorchVersion))
        print(version.split(".")[:2], torch.version.cuda, importlib.util.find_spec("torch") is not None, importlib.util.find_spec("torch.no") is None)
        print("torch" in importlib.metadata.packages_distributions())
    """)
    assert lines == ["True True False True", "['2', '13'] None True True", "True"]


def test_what_modules_import_of_the_standard_library_is_there():
    lines = says("""
        import importlib, math, pickle, torch
        from torch.serialization import pickle as theirs
        from flambeau.compat._torch.standard import IMPORTED
        found = [(path, name) for path, names in IMPORTED.items() for name in names.split()]
        modules = {path: importlib.import_module(f"torch.{path}" if path else "torch") for path in IMPORTED}
        print(theirs is pickle, torch.math is math, len(found) > 250, "os" in torch.__all__)
        print([(path, name) for path, name in found if getattr(modules[path], name) is not importlib.import_module(name)])
        print(hasattr(torch, "calendar"), hasattr(torch.nn, "math"), torch.cuda.amp.common.amp_definitely_not_available())
    """)
    assert lines == ["True True True False", "[]", "False False True"]


def test_what_modules_have_from_each_other_is_there():
    lines = says("""
        import torch, torch.nn.functional as F, torch.utils.data
        from torch.functional import F as f
        from torch.nn.modules.conv import _ConvNd, _pair, _triple
        from torch.nn.modules.activation import warnings, xavier_uniform_
        from torch.optim.adam import ParamsT, _use_grad_for_differentiable
        from torch.optim.lr_scheduler import Optimizer
        from torch.distributions.categorical import logits_to_probs, probs_to_logits
        from torch.utils.data.dataloader import DataLoader, Dataset
        print(torch.sparse.torch is torch, torch.nn.functional.torch is torch, torch.utils.data.sampler.torch is torch, f is F)
        print(_pair(2), _triple(1), xavier_uniform_ is torch.nn.init.xavier_uniform_, Optimizer is torch.optim.Optimizer, Dataset is torch.utils.data.Dataset)
        print(hasattr(torch.nn.modules.conv, "xavier"), hasattr(torch.optim.adam, "Adamm"), hasattr(torch.fft, "F"))
    """)
    assert lines == ["True True True True", "(2, 2) (1, 1, 1) True True True", "False False False"]


def test_modules_of_packages_of_the_standard_library_are_there_as_after_an_import_of_pytorch():
    lines = says("""
        import multiprocessing as mp, concurrent, ctypes, http, urllib, sys, torch
        print("multiprocessing.connection" in sys.modules, mp.connection.Connection.__name__, concurrent.futures.Future.__name__)
        print(http.client.OK == 200, urllib.request.Request.__name__, ctypes.util.find_library.__name__, hasattr(mp, "shared_memory"))
        try:
            mp.connexion
        except AttributeError as error:
            print(error)
    """)
    assert lines[:2] == ["False Connection Future", "True Request find_library False"]
    assert lines[2].startswith("module 'multiprocessing' has no attribute 'connexion'")


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("nn.modules.batchnorm", "_BatchNorm BatchNorm2d SyncBatchNorm"),
        ("nn.modules.conv", "_ConvNd _ConvTransposeMixin Conv2d LazyConv2d"),
        ("nn.modules.container", "Sequential ModuleList"),
        ("nn.modules.module", "Module _IncompatibleKeys _EXTRA_STATE_KEY_SUFFIX"),
        ("nn.modules.loss", "_Loss CrossEntropyLoss CTCLoss"),
        ("nn.modules.utils", "_pair _triple consume_prefix_in_state_dict_if_present"),
        ("nn.utils.prune", "l1_unstructured BasePruningMethod"),
        ("nn.attention", "SDPBackend sdpa_kernel"),
        ("nn.attention.bias", "CausalBias CausalVariant causal_lower_right causal_upper_left"),
        ("nn.grad", "conv1d_input conv2d_weight"),
        ("nn.utils.stateless", "functional_call _reparametrize_module"),
        ("utils.data._utils.collate", "default_collate default_collate_fn_map collate"),
        ("utils.dlpack", "from_dlpack to_dlpack"),
        ("_tensor_str", "printoptions get_printoptions"),
        ("nn.attention.flex_attention", "flex_attention create_block_mask"),
        ("nn.parallel", "DataParallel DistributedDataParallel"),
        ("utils._pytree", "tree_map tree_flatten register_pytree_node"),
        ("utils.hooks", "RemovableHandle"),
        ("utils.data.dataloader", "DataLoader default_collate _BaseDataLoaderIter"),
        ("utils.model_zoo", "load_url"),
        ("autograd.grad_mode", "no_grad set_grad_enabled"),
        ("optim.adamw", "AdamW adamw"),
        ("optim.sgd", "SGD sgd"),
        ("optim.rprop", "Rprop rprop"),
        ("optim._functional", "adam sgd sparse_adam"),
        ("optim.lr_scheduler", "_warn_get_lr_called_within_step"),
        ("storage", "_load_from_bytes UntypedStorage"),
        ("_tensor", "_rebuild_from_type_v2 Tensor"),
        ("_utils", "_rebuild_tensor_v3 _rebuild_sparse_tensor _rebuild_meta_tensor_no_storage"),
        ("jit._trace", "trace TracedModule"),
        ("_jit_internal", "FunctionModifiers get_torchscript_modifier is_ignored_fn should_drop"),
        ("nn.functional", "_canonical_mask _none_or_dtype"),
        ("cuda.amp", "autocast GradScaler amp_definitely_not_available"),
        ("cuda.amp.common", "amp_definitely_not_available"),
        ("cpu.amp.autocast_mode", "autocast"),
        ("cpu.amp.grad_scaler", "GradScaler"),
        ("jit.annotations", "BroadcastingList2"),
        ("_C", "DisableTorchFunctionSubclass _log_api_usage_once _jit_set_profiling_mode _jit_override_can_fuse_on_cpu"),
        ("_dynamo", "OptimizedModule is_dynamo_supported"),
        ("_dynamo.eval_frame", "OptimizedModule"),
        ("library", "custom_op register_fake"),
        ("backends.cpu", "get_cpu_capability"),
        ("types", "Device Number"),
        ("distributed", "is_available is_initialized"),
        ("distributions.utils", "broadcast_all lazy_property"),
        ("__config__", "show parallel_info"),
        ("futures", "Future collect_all wait_all"),
        ("nn.parallel.scatter_gather", "scatter gather"),
        ("distributed.nn", "all_reduce"),
        ("distributed.optim", "ZeroRedundancyOptimizer"),
        ("distributed.rpc", "is_available"),
        ("utils.checkpoint", "checkpoint get_device_states set_device_states"),
        ("_subclasses.fake_tensor", "is_fake FakeTensor unset_fake_temporarily"),
        ("fx.experimental.proxy_tensor", "get_proxy_mode"),
        ("_tensor_str", "PRINT_OPTS _tensor_str"),
        ("serialization", "MAP_LOCATION FILE_LIKE load"),
        ("distributed.device_mesh", "DeviceMesh init_device_mesh"),
        ("distributed.fsdp", "FSDPModule MixedPrecisionPolicy fully_shard"),
        ("distributed._composable.fsdp", "FSDPModule"),
        ("distributed.algorithms._checkpoint.checkpoint_wrapper", "CheckpointImpl CheckpointWrapper checkpoint_wrapper offload_wrapper"),
        ("distributed.checkpoint", "CheckpointException FileSystemReader FileSystemWriter async_save load save save_state_dict"),
        ("distributed.checkpoint._nested_dict", "flatten_state_dict unflatten_state_dict"),
        ("distributed.checkpoint.default_planner", "DefaultLoadPlanner DefaultSavePlanner _EmptyStateDictLoadPlanner"),
        ("distributed.checkpoint.format_utils", "dcp_to_torch_save torch_save_to_dcp"),
        ("distributed.checkpoint.metadata", "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex STATE_DICT_TYPE TensorProperties"),
        ("distributed.checkpoint.state_dict", "StateDictOptions get_model_state_dict get_state_dict set_model_state_dict set_state_dict"),
        ("distributed.checkpoint.state_dict_loader", "_load_state_dict load"),
        ("distributed.checkpoint.state_dict_saver", "_save_state_dict save"),
        ("distributed.checkpoint.stateful", "Stateful StatefulT"),
        ("distributed.checkpoint.optimizer", "load_sharded_optimizer_state_dict"),
        ("distributed.checkpoint.utils", "CheckpointException find_state_dict_object"),
        ("distributed.checkpoint._fsspec_filesystem", "FsspecReader FsspecWriter"),
        ("distributed._composable_state", "_get_module_state"),
        ("distributed.fsdp._common_utils", "_FSDPState"),
        ("distributed.launcher", "LaunchConfig elastic_launch launch_agent"),
        ("distributed.fsdp.api", "FullStateDictConfig ShardingStrategy StateDictSettings"),
        ("distributed.fsdp.fully_sharded_data_parallel", "BackwardPrefetch FullyShardedDataParallel MixedPrecision"),
        ("_C._distributed_c10d", "ProcessGroup ReduceOp Work"),
        ("_C._distributed_rpc", "PyRRef"),
        ("distributions.kl", "_KL_REGISTRY kl_divergence register_kl"),
        ("nn.modules.dropout", "_DropoutNd"),
        ("nn.modules.linear", "NonDynamicallyQuantizableLinear"),
        ("nn.modules.transformer", "_detect_is_causal_mask _generate_square_subsequent_mask _get_activation_fn _get_clones _get_seq_len"),
        ("utils.data.dataloader", "_DatasetKind _MultiProcessingDataLoaderIter _SingleProcessDataLoaderIter"),
        ("distributed._tensor", "DTensor DeviceMesh"),
        ("distributed._tensor.experimental", "implicit_replication"),
        ("distributions.transforms", "_InverseTransform AffineTransform"),
        ("random", "default_generator fork_rng"),
        ("serialization", "DEFAULT_PROTOCOL SourceChangeWarning default_restore_location location_tag normalize_storage_type validate_cuda_device"),
        ("serialization", "LoadEndianness get_crc32_options get_default_load_endianness get_default_mmap_options set_default_mmap_options"),
        ("utils.data._utils", "ExceptionWrapper"),
        ("utils._contextlib", "_DecoratorContextManager"),
        ("utils._foreach_utils", "_group_tensors_by_device_and_dtype _has_foreach_support"),
        ("utils.data._utils.collate", "np_str_obj_array_pattern default_collate"),
        ("utils.data.dataloader", "_collate_fn_t get_worker_info"),
        ("nn.init", "_calculate_correct_fan _calculate_fan_in_and_fan_out _no_grad_fill_ _no_grad_normal_ _no_grad_trunc_normal_ _no_grad_zero_"),
        ("_utils", "ExceptionWrapper _flatten_dense_tensors _get_device_index _import_dotted_name _rebuild_tensor_v2 _take_tensors classproperty"),
        ("utils.weak", "TensorWeakRef WeakIdKeyDictionary WeakIdRef WeakTensorKeyDictionary"),
        ("utils._python_dispatch", "TorchDispatchMode is_traceable_wrapper_subclass"),
        ("utils.cpp_extension", "BuildExtension CUDA_HOME load load_inline"),
        ("utils._device", "DeviceContext set_device"),
        ("utils.tensorboard.writer", "SummaryWriter"),
        ("_dynamo.config", "automatic_dynamic_shapes patch suppress_errors"),
        ("_inductor.config", "coordinate_descent_tuning patch triton"),
        ("_dynamo.utils", "counters is_compile_supported warn_once"),
        ("cuda.nvtx", "mark range range_pop range_push"),
        ("utils.data._utils.worker", "WorkerInfo _generate_state get_worker_info"),
        ("utils.data._utils.fetch", "_IterableDatasetFetcher _MapDatasetFetcher"),
        ("utils.data._utils.pin_memory", "pin_memory"),
        ("utils._pytree", "_namedtuple_flatten arg_tree_leaves is_structseq_instance key_get keystr"),
        ("nn.utils._named_member_accessor", "NamedMemberAccessor swap_tensor"),
        ("nn._reduction", "get_enum legacy_get_string"),
        ("nn.functional", "_canonical_mask _in_projection _in_projection_packed _mha_shape_check _pair _Reduction"),
        ("nn.functional", "BroadcastingList2 boolean_dispatch conv_tbc handle_torch_function has_torch_function has_torch_function_variadic"),
        ("fx.experimental.symbolic_shapes", "free_unbacked_symbols guard_or_false statically_known_true sym_eq"),
        ("xpu", "get_device_capability memory_reserved memory_stats reset_peak_memory_stats"),
        ("mps", "current_allocated_memory driver_allocated_memory recommended_max_memory"),
        ("onnx", "OperatorExportTypes TrainingMode"),
        ("onnx.operators", "shape_as_tensor"),
        ("cuda.profiler", "profile start stop"),
        ("_tensor_str", "_add_suffixes _tensor_str"),
        ("_utils", "_element_size"),
        ("_dynamo.eval_frame", "OptimizedModule is_dynamo_supported"),
        ("_inductor", "cudagraph_mark_step_begin"),
        ("_C", "_LinAlgError _get_default_device"),
        ("accelerator", "current_stream get_memory_info memory_allocated memory_stats reset_peak_memory_stats"),
        ("cpu", "Event Stream StreamContext current_stream stream"),
        ("library", "impl_abstract register_fake"),
        ("nn.modules.normalization", "CrossMapLRN2d LocalResponseNorm"),
        ("optim.optimizer", "ParamsT _default_to_fused_or_foreach _get_value _use_grad_for_differentiable _view_as_real"),
        ("distributions.multivariate_normal", "MultivariateNormal _batch_mahalanobis _batch_mv _precision_to_scale_tril"),
        ("distributions.lowrank_multivariate_normal", "_batch_capacitance_tril _batch_lowrank_logdet _batch_lowrank_mahalanobis"),
        ("distributions.transforms", "_clipped_sigmoid _sum_rightmost"),
        ("autograd.function", "Function InplaceFunction once_differentiable"),
        ("autograd.graph", "Node saved_tensors_hooks"),
        ("quantization", "QuantStub prepare"),
        ("_C._functorch", "get_unwrapped is_batchedtensor maybe_get_bdim"),
        ("_vmap_internals", "_vmap vmap"),
        ("optim.lbfgs", "LBFGS _cubic_interpolate _strong_wolfe"),
        ("autograd.functional", "_as_tuple _construct_standard_basis_for _grad_postprocess _tuple_postprocess jacobian"),
        ("_functorch.vmap", "_add_batch_dim _get_name _maybe_remove_batch_dim vmap"),
        ("nn.parameter", "Parameter UninitializedTensorMixin"),
        ("quantization.observer", "HistogramObserver MinMaxObserver ObserverBase PerChannelMinMaxObserver"),
        ("quantization.qconfig", "QConfig"),
        ("ao.quantization", "FakeQuantizeBase ObserverBase QConfig"),
        ("nn.quantized", "BatchNorm2d FloatFunctional"),
        ("_jit_internal", "BroadcastingList2 _copy_to_script_wrapper _overload boolean_dispatch"),
        ("fx.node", "Node map_aggregate map_arg"),
        ("fx.proxy", "GraphAppendingTracer Proxy TraceError"),
        ("fx.graph_module", "GraphModule"),
        ("fx._symbolic_trace", "Tracer is_fx_tracing"),
        ("utils.data.datapipes", "iter map"),
        ("utils.data.datapipes.iter.combinatorics", "SamplerIterDataPipe ShufflerIterDataPipe"),
        ("utils.data.datapipes.map.combining", "ConcaterMapDataPipe ZipperMapDataPipe"),
        ("utils.data.datapipes.datapipe", "DataChunk IterDataPipe MapDataPipe"),
        ("utils.data.datapipes._decorator", "functional_datapipe"),
        ("utils.data.graph", "traverse_dps"),
        ("utils.data.graph_settings", "apply_sharding get_all_graph_pipes"),
        ("_guards", "active_fake_mode detect_fake_mode"),
        ("distributed.autograd", "context is_available"),
        ("distributed.elastic.multiprocessing.errors", "record"),
        ("_functorch.make_functional", "FunctionalModule make_functional"),
        ("_C", "DeviceObjType ScriptMethod ScriptObject _get_cudnn_enabled _is_alias_of _mps_is_available"),
        ("nn.modules.module", "_global_parameter_registration_hooks"),
        ("autograd.graph", "register_multi_grad_hook"),
    ],
)  # fmt: skip
def test_a_module_has_its_names(module, names):
    code = f"import torch.{module} as m\nfrom torch.{module} import {', '.join(names.split())}\nprint(m.__name__)"
    assert says(code) == [f"torch.{module}"]


def test_trees_of_all_containers():
    lines = says("""
        import collections, torch
        from torch.utils import _pytree as t
        N = collections.namedtuple("N", "u v")
        tree = {"a": [1, (2, N(3, 4))], "b": collections.OrderedDict(x=5), "c": collections.deque([6], maxlen=3), "d": collections.defaultdict(int, y=7)}
        print([t.keystr(path) for path, _ in t.tree_flatten_with_path(tree)[0]])
        print(t.tree_map(lambda x: -x, tree) == {"a": [-1, (-2, N(-3, -4))], "b": {"x": -5}, "c": collections.deque([-6]), "d": {"y": -7}})
        best = torch.ones(2, 3).max(1)
        print(type(t.tree_map(lambda x: x + 1, best)) is type(best), t.is_structseq_instance(best), t.is_namedtuple_instance(best), len(t.tree_leaves(best)))
        print(t.arg_tree_leaves(1, [2], z={"q": 3}), t.key_get(tree, (t.MappingKey("a"), t.SequenceKey(1), t.SequenceKey(1), t.GetAttrKey("u"))))
    """)
    places = ["['a'][0]", "['a'][1][0]", "['a'][1][1].u", "['a'][1][1].v", "['b']['x']", "['c'][0]", "['d']['y']"]
    assert lines == [str(places), "True", "True True False 2", "[1, 2, 3] 3"]


def test_what_stands_for_a_batch_inside_of_vmap():
    lines = says("""
        import torch
        from torch._C import _functorch as f
        from torch._functorch.vmap import _add_batch_dim, _maybe_remove_batch_dim

        def inside(x):
            seen = [f.is_batchedtensor(x), f.maybe_get_bdim(x), tuple(f.get_unwrapped(x).shape), f.is_gradtrackingtensor(x)]
            level = f.maybe_current_level()
            y = _add_batch_dim(torch.arange(6.0).view(2, 3), 1, level)
            back = _maybe_remove_batch_dim("inside", y * 2, level, 3, 1)
            print(seen, tuple(y.shape), back.tolist(), f.is_batchedtensor(back))
            return x

        torch.vmap(inside, in_dims=1)(torch.ones(4, 3))
        print(f.is_batchedtensor(torch.ones(1)), f.maybe_get_bdim(torch.ones(1)), f.maybe_current_level())
    """)
    assert lines == ["[True, 0, (3, 4), False] (2,) [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] False", "False -1 None"]


def test_what_stands_for_a_matrix_takes_functions_over_whole():
    """It is no Tensor, and `linalg` is Python here: it must see `solve`, not what `solve` calls."""
    lines = says("""
        import torch

        class Operator:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func, len(args), sorted(kwargs or {})

        o, x = Operator(), torch.ones(2)
        for f in (torch.linalg.solve, torch.linalg.eigvalsh, torch.linalg.cholesky, torch.logdet, torch.fft.fft, torch.special.expit):
            func, given, named = f(o, x) if f is torch.linalg.solve else f(o)
            print(func is f, given, named)
        print(torch.linalg.solve_triangular(A=o, B=x, upper=True)[1:], torch.nn.functional.normalize(o, dim=0)[1:])
        print(torch.linalg.solve(2 * torch.eye(2), x).tolist(), torch.meshgrid([x, o])[0] is torch.meshgrid)
    """)
    assert lines[:6] == ["True 2 []", *["True 1 []"] * 5]
    assert lines[6:] == ["(0, ['A', 'B', 'upper']) (1, ['dim', 'eps', 'out', 'p'])", "[0.5, 0.5] True"]


def test_helpers_that_packages_call():
    lines = says("""
        import gc, torch, torch._utils as u, torch.nn.functional as F
        from torch.utils.weak import WeakTensorKeyDictionary
        from torch.nn.utils._named_member_accessor import NamedMemberAccessor
        from torch.utils.data._utils.worker import _generate_state
        from torch.utils.data._utils.fetch import _IterableDatasetFetcher
        from torch.optim.optimizer import _use_grad_for_differentiable
        a, b = torch.arange(3.0), torch.ones(2, 2)
        flat = u._flatten_dense_tensors([a, b])
        print(flat.tolist(), [tuple(x.shape) for x in u._unflatten_dense_tensors(flat, [a, b])], [len(g) for g in u._take_tensors([a, b.double(), a, a], 24)])
        print(u._get_device_index("cuda:2"), u._get_device_index("cpu", allow_cpu=True), u._get_all_device_indices())
        try:
            try:
                raise KeyError("k")
            except KeyError:
                held = u.ExceptionWrapper(where="in worker 3")
            held.reraise()
        except KeyError as error:
            print(str(error).splitlines()[0], len(str(error).splitlines()) > 3)
        table, x, y = WeakTensorKeyDictionary(), torch.ones(1), torch.ones(1)
        table[x], table[y] = 1, 2
        print(len(table), table[x], x in table, torch.ones(1) in table)
        del y
        gc.collect()
        print(len(table), list(table.values()), len(table.copy()))
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        members = NamedMemberAccessor(net)
        before, missing = members.swap_tensors_dict({"0.weight": b})
        print(net[0].weight is b, missing, members.check_keys(["0.weight", "z"])[1])
        members.swap_tensors_dict(before)
        print(isinstance(net[0].weight, torch.nn.Parameter), list(net.state_dict())[:2])
        print(_generate_state(12345678901, 3))
        fetcher = _IterableDatasetFetcher(range(3), True, list, False)
        print(fetcher.fetch([0, 1]), fetcher.fetch([0, 1]))
        q, k, w = torch.randn(3, 2, 4), torch.randn(5, 2, 4), torch.randn(12, 4)
        print([torch.allclose(p, F.linear(x, v), atol=1e-6) for p, x, v in zip(F._in_projection_packed(q, k, k, w), (q, k, k), w.chunk(3))])
        print(F._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float32).tolist(), F._mha_shape_check(q, k, k, None, None, 2))

        class Plain(torch.optim.Optimizer):
            def __init__(self, params, differentiable=False):
                super().__init__(params, dict(differentiable=differentiable))

            @_use_grad_for_differentiable
            def step(self, closure=None):
                return torch.is_grad_enabled()

        print(Plain([torch.nn.Parameter(a)]).step(), Plain([torch.nn.Parameter(a)], True).step(), torch.is_grad_enabled())
        try:
            torch.utils.cpp_extension.load("fast", ["fast.cpp"])
        except NotImplementedError as error:
            print(str(error).split(":")[0])
    """)
    assert lines == [
        "[0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0] [(3,), (2, 2)] [2, 1, 1]",
        "2 -1 None",
        "Caught KeyError in worker 3. True",
        "2 1 True False",
        "1 [1] 1",
        "True [] ['z']",
        "True ['0.weight', '0.bias']",
        "[2973762914, 2096409635, 2530576639, 2673913251]",
        "[0, 1] [2]",
        "[True, True, True]",
        "[-inf, 0.0] True",
        "False True True",
        "cpp_extension.load('fast')",
    ]


@pytest.mark.slow
def test_what_is_missing_is_named_with_the_nearest_and_the_place(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import torch\ntry:\n    torch.nn.functional.sofmax\nexcept AttributeError as e:\n    print(e)\n"
                       "try:\n    from torch.nn import Linaer\nexcept ImportError as e:\n    print(e)\n"
                       "try:\n    import torch.nn.modules.bachnorm\nexcept ModuleNotFoundError as e:\n    print(e, e.name)\n"
                       "print(hasattr(torch, 'zzz'), getattr(torch.nn, 'zzz', 3))\n")  # fmt: skip
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", str(program)], capture_output=True, text=True, check=True)
    near, missing, module, asked = result.stdout.splitlines()
    assert near == f"torch.nn.functional.sofmax is not in flambeau; the nearest name is torch.nn.functional.softmax (asked for at {program}:3)"
    assert missing == f"torch.nn.Linaer is not in flambeau; the nearest name is torch.nn.Linear (asked for at {program}:7)"
    assert module.endswith(f"the nearest name is torch.nn.modules.batchnorm (asked for at {program}:11) torch.nn.modules.bachnorm")
    assert asked == "False 3"


def test_texts_and_modules_say_torch():
    lines = says("""
        import torch
        print(torch.float32, torch.Size([2]), torch.ones(2).type(), torch.nn.BatchNorm2d, torch.strided, torch.channels_last)
        print(torch.Tensor.__module__, torch.nn.Linear.__module__, torch.nn.Sequential.__module__, torch.nn.functional.relu.__module__)
        print(torch.typename(torch.ones(1)), torch.typename(torch.nn.Linear(1, 1)))
        print(torch.ones(1).untyped_storage(), torch.ones(1).storage(), torch.FloatStorage)
        import pickle
        print(pickle.loads(pickle.dumps(torch.UntypedStorage)) is torch.UntypedStorage)
    """)
    assert lines == [
        "torch.float32 torch.Size([2]) torch.FloatTensor <class 'torch.nn.modules.batchnorm.BatchNorm2d'> torch.strided torch.channels_last",
        "torch torch.nn.modules.linear torch.nn.modules.container torch.nn.functional",
        "torch.FloatTensor torch.nn.modules.linear.Linear",
        " 0", " 0", " 128", " 63",
        "[torch.storage.UntypedStorage(device=cpu) of size 4]  1.0",
        "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 1] <class 'torch.FloatStorage'>",
        "True",
    ]  # fmt: skip


def test_classes_say_the_module_in_which_pytorch_has_them():
    lines = says("""
        import torch, torch.distributions as d
        for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.ASGD,
                     torch.optim.Rprop, torch.optim.Adafactor, torch.optim.Muon, d.Transform, d.TanhTransform, d.StackTransform, d.SoftmaxTransform):
            print(kind)
    """)
    modules = {"Adafactor": "torch.optim", "Muon": "torch.optim"}
    names = "Adam AdamW Adadelta Adamax NAdam RAdam ASGD Rprop Adafactor Muon".split()
    transforms = "Transform TanhTransform StackTransform SoftmaxTransform".split()
    wanted = [f"<class '{modules.get(name, f'torch.optim.{name.lower()}')}.{name}'>" for name in names]
    assert lines == wanted + [f"<class 'torch.distributions.transforms.{name}'>" for name in transforms]


def test_pickles_and_copies_find_classes_by_these_names():
    lines = says("""
        import copy, pickle, torch, collections
        for value in (torch.nn.Linear, torch.float16, torch.nn.functional.gelu, torch.device("cpu"), torch.Size([1]), torch.optim.Adam, torch.channels_last):
            back = pickle.loads(pickle.dumps(value))
            assert back == value, value
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
        data = pickle.dumps(model)
        print(b"torch.nn.modules.batchnorm" in data, b"flambeau.nn.modules" in data)
        print(torch.equal(pickle.loads(data)[0].weight, model[0].weight), copy.deepcopy(model))
    """)
    assert lines[0] == "True False"
    assert lines[1].startswith("True Sequential(")


def test_annotations_of_classes_can_be_read():
    assert says("""
        import torch, typing
        print(typing.get_type_hints(torch.nn.Module)["training"], len(typing.get_type_hints(torch.optim.lr_scheduler.LRScheduler)) >= 0)
    """) == ["<class 'bool'> True"]


def test_what_a_program_writes_is_seen_by_our_layers():
    assert says("""
        import torch, flambeau
        seen = []
        torch.nn.init.kaiming_uniform_ = lambda t, *a, **k: seen.append(t.shape)
        torch.nn.Linear(3, 2)
        print(seen, flambeau.nn.init.kaiming_uniform_ is torch.nn.init.kaiming_uniform_)
        torch.backends.cudnn.benchmark = True
        print(flambeau.backends.cudnn.benchmark)
        with torch.backends.cudnn.flags(enabled=False):
            print(torch.backends.cudnn.enabled)
        print(torch.backends.cudnn.enabled)
    """) == ["[torch.Size([2, 3])] True", "True", "False", "True"]


@pytest.mark.slow
def test_another_torch_is_refused(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '1.0'\n")
    error = python("import sys; sys.path.insert(0, sys.argv[1])\nimport torch, flambeau.compat.torch", str(tmp_path), status=1)
    assert "another `torch` is loaded already (version 1.0" in error
    assert "flambeau run" in error


@pytest.mark.slow
def test_importing_the_machinery_changes_nothing():
    code = "import sys, flambeau.compat._torch as t, flambeau\nprint(t.is_installed(), 'torch' in sys.modules, flambeau.float32)"
    assert python(code).split() == ["False", "False", "flambeau.float32"]


def test_answers_are_true():
    lines = says("""
        import torch
        print(torch.cuda.is_available(), torch.cuda.device_count(), torch.distributed.is_available(), torch.mps.is_available(), torch.xpu.is_available())
        print(torch.accelerator.is_available(), torch.accelerator.current_accelerator(), torch.backends.mps.is_available(), torch.onnx.is_in_onnx_export())
        f = torch.jit.script(lambda x: x + 1)
        print(f(torch.ones(2)), torch.jit.is_scripting(), torch.compile(f)(torch.ones(1)), torch.compiler.is_compiling())
        def refused(call):
            try:
                call()
            except Exception as error:
                print(type(error).__name__, str(error)[:60])
        refused(lambda: torch.cuda.Stream())
        refused(lambda: torch.distributed.init_process_group("gloo"))
        refused(lambda: torch.distributed.all_reduce(torch.ones(1)))
        refused(lambda: torch.jit.save(f, "x"))
        refused(lambda: torch.ops.nowhere.something)
        refused(lambda: torch.classes.nowhere.Something)
        refused(lambda: torch.ops.load_library("x.so"))
        refused(lambda: torch.hub.load("user/repository", "model"))
        refused(lambda: torch.hub.load_state_dict_from_url("https://example.org/w.pth", "/nowhere"))
        refused(lambda: torch.onnx.export(f, (), "x"))
        refused(lambda: torch.zeros(2, dtype=torch.qint8))
        print(torch.ops.aten.add(torch.ones(1), 2), torch.ops.aten.add.Tensor(torch.ones(1), torch.ones(1)))
    """)
    assert lines[:3] == ["False 0 False False False", "False None False False", "tensor([2., 2.]) False tensor([2.]) False"]
    assert [line.split()[0] for line in lines[3:14]] == [
        "NoCUDAError", "RefusedValueError", "RefusedValueError", "Error", "AttributeError", "AttributeError", "OSError", "DownloadRefused", "DownloadRefused",
        "OnnxExporterError", "TypeError",
    ]  # fmt: skip
    assert lines[14] == "tensor([3.]) tensor([2.])"


def test_hub_loads_local_folders(tmp_path):
    (tmp_path / "hubconf.py").write_text("import torch\ndef small(n=2):\n    'A layer.'\n    return torch.nn.Linear(n, 1)\n")
    code = f"import torch\nprint(torch.hub.load({str(tmp_path)!r}, 'small', source='local', n=3), torch.hub.list({str(tmp_path)!r}, source='local'))"
    assert says(code) == ["Linear(in_features=3, out_features=1, bias=True) ['small']"]


def test_old_tensor_types():
    assert says("""
        import torch
        x = torch.LongTensor([1, 2])
        print(x, isinstance(x, torch.LongTensor), isinstance(x, torch.FloatTensor), x.type("torch.DoubleTensor").dtype, torch.FloatTensor(2, 3).shape)
        print(isinstance(x, torch.cuda.LongTensor), x.type(torch.FloatTensor).dtype)
    """) == ["tensor([1, 2]) True False torch.float64 torch.Size([2, 3])", "False torch.float32"]


def test_lists_of_tensors():
    assert says("""
        import torch
        xs = [torch.ones(2), torch.full((1,), 4.0)]
        torch._foreach_mul_(xs, 2)
        torch._foreach_add_(xs, xs, alpha=0.5)
        torch._foreach_addcmul_(xs, xs, xs, value=-1)
        print(xs, torch._foreach_sqrt(torch._foreach_mul(xs, -1)), torch._foreach_norm(xs)[1], torch._foreach_div([torch.tensor([3])], 2)[0])
        print(torch._foreach_mul([torch.ones(2, 1), torch.ones(3)], [torch.ones(1, 4), torch.ones(3)])[0].shape)  # these broadcast, as one by one
    """) == ["[tensor([-6., -6.]), tensor([-132.])] (tensor([2.4495, 2.4495]), tensor([11.4891])) tensor(132.) tensor([1.5000])", "torch.Size([2, 4])"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_processes_that_are_started_anew_have_these_names(tmp_path, how):
    program = tmp_path / "started.py"
    program.write_text("import torch\nimport torch.multiprocessing as mp\n"
                       "def work(rank, x):\n    if rank == 1:\n        raise ValueError('from one')\n    assert x.sum() == 3\n"
                       f"if __name__ == '__main__':\n    try:\n        mp.start_processes(work, (torch.ones(3),), nprocs=2, start_method='{how}')\n"
                       "    except mp.ProcessRaisedException as e:\n        print('from one' in str(e), e.error_index)\n")  # fmt: skip
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", str(program)], capture_output=True, text=True, timeout=300)
    assert result.stdout.split() == ["True", "1"], result.stderr[-2000:]


def test_classes_lie_in_modules_that_are_loaded():
    """cloudpickle writes a class by its name only if sys.modules has its module."""
    assert says("""
        import pickle, sys
        import torch
        nn, optim, data = torch.nn, torch.optim, torch.utils.data
        kinds = [nn.Module, nn.Linear, nn.Parameter, nn.functional.relu, nn.init.zeros_, optim.Adam, optim.lr_scheduler.StepLR, data.DataLoader,
                 data.Dataset, torch.distributions.Normal, torch.autograd.Function, torch.no_grad, torch.amp.autocast]
        print([kind.__name__ for kind in kinds if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind])
        print(nn.Linear.__module__, pickle.loads(pickle.dumps((torch, nn.functional))) == (torch, nn.functional))
    """) == ["[]", "torch.nn.modules.linear True"]


@pytest.mark.slow
def test_a_program_gets_its_arguments_status_and_folder(tmp_path):
    (tmp_path / "beside.py").write_text("value = 5\n")
    (tmp_path / "main.py").write_text("import sys, beside, torch\nprint(sys.argv[1:], beside.value, __name__)\nsys.exit(3)\n")
    run = [sys.executable, "-m", "flambeau", "run"]
    result = subprocess.run([*run, str(tmp_path / "main.py"), "--report", "-m", "x"], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("['--report', '-m', 'x'] 5 __main__\n", 3)
    result = subprocess.run([*run, "-m", "main", "a"], capture_output=True, text=True, cwd=tmp_path)
    assert (result.stdout, result.returncode) == ("['a'] 5 __main__\n", 3)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "text"), [
    (["nowhere.py"], "nowhere.py does not exist"), (["-m", "no_such_module_here"], "there is no module of this name"), ([], "expected a Python file"),
    (["--report", "no_such_package_here"], "expected a Python file, a folder, or an installed package"),
])  # fmt: skip
def test_what_can_not_be_run_is_said(words, text):
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", *words], capture_output=True, text=True)
    assert result.returncode == 2
    assert text in result.stderr


@pytest.mark.slow
def test_a_report_lists_what_a_program_would_miss(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('it was run')\nimport torch\nimport torch.nn as nn\nfrom torch import optim as o, nowhere\n"
                       "x = torch.nn.functional.relu6(1)\ny = nn.Linaer(2, 3)\nz = o.Adamm\n"
                       "try:\n    from torch.utils import nothing_like_it\nexcept ImportError:\n    pass\n"
                       "def f():\n    import torch.nn.functional as F\n    return F.sofmax(x)\n"
                       "if hasattr(torch, 'zzz'):\n    torch.zzz()\ngetattr(torch, 'yyy')\nx.unknown()\ntorch.Tensor.no_method\n")  # fmt: skip
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", "--report", str(program)], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    assert result.stdout.splitlines() == [
        "program.py:4: torch.nowhere; the nearest name is torch.where",
        "program.py:6: torch.nn.Linaer; the nearest name is torch.nn.Linear",
        "program.py:7: torch.optim.Adamm; the nearest name is torch.optim.Adam",
        "program.py:9: torch.utils.nothing_like_it (guarded)",
        "program.py:14: torch.nn.functional.sofmax; the nearest name is torch.nn.functional.softmax",
        "program.py:16: torch.zzz (guarded)",
        "program.py:17: torch.yyy",
        "program.py:19: torch.Tensor.no_method",
        f"{program}: 1 file, 6 names missing, 2 more guarded",
    ]


@pytest.mark.slow
def test_files_are_pytorchs(tmp_path):
    """What a program saves has PyTorch's format, and weights_only=False reads as much as can be read without running anything."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, zipfile, torch\n"
        "path = sys.argv[1]\n"
        "torch.save({'w': torch.arange(3), 'step': 4}, path)\n"
        "assert zipfile.is_zipfile(path)\n"
        "for found in (torch.load(path), torch.load(path, weights_only=False), torch.serialization.load(path, map_location='cpu')):\n"
        "    print(found['w'].tolist(), found['step'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "run", program, tmp_path / "x.pt"], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "[0, 1, 2] 4\n" * 3


def test_arguments_of_files_mean_what_they_mean(tmp_path):
    """Texts of Python 2, streams from before 1.6, and names that nobody knows."""
    lines = says(f"""
        import torch, zipfile, collections
        path = {str(tmp_path / "x.pt")!r}
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("archive/data.pkl", b"\\x80\\x02}}U\\x01kU\\x02\\xc3\\xa9s.")
            z.writestr("archive/version", "3")
        for how in ({{"encoding": "utf-8"}}, {{"encoding": "latin1"}}, {{"encoding": "bytes"}}):
            print(ascii(torch.load(path, weights_only=False, **how)))
        try:
            torch.load(path, encodings="utf-8")
        except TypeError as error:
            print(error)
        torch.save(collections.Counter("aab"), path, _use_new_zipfile_serialization=False)
        print(open(path, "rb").read(2), zipfile.is_zipfile(path), torch.load(path))
    """)
    assert lines == [
        r"{'k': '\xe9'}", r"{'k': '\xc3\xa9'}", r"{b'k': b'\xc3\xa9'}",
        "load: unexpected argument encodings = 'utf-8'; expected encoding, errors, fix_imports or buffers beside those of its own",
        r"b'\x80\x02' False Counter({'a': 2, 'b': 1})",
    ]  # fmt: skip


def test_named_results_and_distributions_say_their_name():
    assert says("""
        import torch
        print(torch.ones(1, 2).max(1))
        base = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(3, 2), torch.ones(3, 2)), 1)
        print(torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()]).expand((4, 3)).batch_shape)
    """) == ["torch.return_types.max(", "values=tensor([1.]),", "indices=tensor([0]))", "torch.Size([4, 3])"]  # fmt: skip


def test_what_packages_call_of_pytorchs_inside():
    # torch-geometric reduces neighbours by their rows, ptwt makes sparse rows unit vectors, Lightning's profiler ends one that still runs.
    assert says("""
        import torch
        x = torch.arange(6.0).reshape(3, 2)
        print(torch._segment_reduce(x, "amax", offsets=torch.tensor([0, 1, 3]), initial=None).tolist())
        print(torch._segment_reduce(x, "mean", lengths=torch.tensor([1, 2])).tolist())
        print(torch.native_norm(torch.eye(4).to_sparse()), torch.native_norm(torch.eye(4).to_sparse(), 1))
        seen = [torch.autograd._profiler_enabled()]
        with torch.profiler.profile():
            seen.append(torch.autograd._profiler_enabled())
            torch.autograd._disable_profiler()
            seen.append(torch.autograd._profiler_enabled())
        print(seen, torch.autograd._disable_profiler())
    """) == ["[[0.0, 1.0], [4.0, 5.0]]", "[[0.0, 1.0], [3.0, 4.0]]", "tensor(2.) tensor(4.)", "[False, True, False] None"]  # fmt: skip


def test_places_in_sorted_sequences():
    # diffusers' schedulers look for a number, torch-geometric for the rows of a sparse matrix.
    assert says("""
        import torch
        b = torch.tensor([1.0, 2.0, 3.0])
        print(torch.searchsorted(b, 2.0).item(), torch.searchsorted(b, 2.0, side="right").item(), torch.bucketize(2.5, b).item(), torch.bucketize(2, b).dtype)
        print(torch.searchsorted(torch.tensor([1, 2, 3]), 2.5).item(), torch.searchsorted(b.flip(0), b, sorter=torch.tensor([2, 1, 0])).tolist())
        print(torch.searchsorted(b, input=b, right=True).tolist(), torch.searchsorted(b, values=b, out_int32=True).dtype)
        for given in ({"side": "left", "right": True}, {"side": "up"}, {"sorter": torch.tensor([0])}):
            try:
                torch.searchsorted(b, b, **given)
            except RuntimeError as error:
                print(error)
        rows = torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
        print(rows.tolist(), torch._convert_indices_from_csr_to_coo(rows, torch.tensor([1, 0, 2])).tolist())
        print(torch._convert_indices_from_csr_to_coo(rows, torch.tensor([1, 0, 2]), transpose=True, out_int32=True))
    """) == [
        "1 2 2 torch.int64",
        "2 [0, 1, 2]",
        "[1, 2, 3] torch.int32",
        "searchsorted: side = 'left' and right = True contradict each other; give one of them",
        "searchsorted: side = 'up'; expected 'left' or 'right'",
        "searchsorted: sorter has shape [1]; expected that of sorted_sequence, [3]",
        "[0, 2, 2, 3, 3] [[0, 0, 2], [1, 0, 2]]",
        "tensor([[1, 0, 2],",
        "        [0, 0, 2]], dtype=torch.int32)",
    ]  # fmt: skip


def test_what_is_spread_over_processes_can_be_named_and_not_made():
    lines = says("""
        import torch, torch.distributed.fsdp as fsdp
        print(isinstance(torch.nn.Linear(1, 1), fsdp.FSDPModule), torch.distributed.device_mesh.DeviceMesh.__name__)
        for make in (torch.distributed.device_mesh.DeviceMesh, fsdp.FullyShardedDataParallel, fsdp.MixedPrecisionPolicy):
            try:
                make()
            except RuntimeError as error:
                print(str(error).partition(";")[0])
    """)
    shard = "distributed.fsdp: there is no process group whose processes could have parts of a module"
    assert lines == ["False DeviceMesh", "distributed.device_mesh: there is no process group whose processes could form a grid", shard, shard]


def test_layouts_can_be_asked_for():
    # Packages that miss a name put another layout in its place.
    assert says("""
        import torch
        x = torch.eye(2).to_sparse()
        print([x.layout == kind for kind in (torch.sparse_coo, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.jagged)], torch.sparse_csc)
    """) == ["[True, False, False, False, False] torch.sparse_csc"]


def test_ways_to_quantise_can_be_named():
    assert says("""
        import copy, pickle, torch
        kind = torch.per_tensor_symmetric
        print(kind, isinstance(kind, torch.qscheme), kind == torch.per_tensor_affine, pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind)
    """) == ["torch.per_tensor_symmetric True False True"]


def test_options_of_files_and_what_is_not_quantised():
    assert says("""
        import mmap, torch
        from torch import serialization as s
        print(s.get_default_mmap_options() == mmap.MAP_PRIVATE, s.get_crc32_options(), s.set_crc32_options(False), s.get_crc32_options())
        with s.set_default_mmap_options(mmap.MAP_PRIVATE):
            pass
        for flags in (mmap.MAP_SHARED, 77):
            try:
                s.set_default_mmap_options(flags)
            except ValueError as error:
                print(error)
        print(torch.is_vulkan_available(), torch.dequantize(torch.ones(2, dtype=torch.int8)), torch.ones(1).half().dequantize().dtype)
    """) == [
        "True True None False",
        "set_default_mmap_options: flags = MAP_SHARED; expected MAP_PRIVATE: files are mapped so that what is written to a tensor does not come into its file",
        "set_default_mmap_options: flags = 77; expected mmap.MAP_PRIVATE",
        "False tensor([1., 1.]) torch.float32",
    ]  # fmt: skip


def test_storages_of_files_go_where_a_program_says(tmp_path):
    assert says(f"""
        import torch
        from torch.serialization import default_restore_location, location_tag
        torch.save({{"x": torch.ones(2)}}, {str(tmp_path / "x.pt")!r})
        for place in ("cpu", "meta", "cuda:0", "moon"):
            try:
                print(torch.load({str(tmp_path / "x.pt")!r}, map_location=lambda s, l: default_restore_location(s, place))["x"].device)
            except RuntimeError as error:
                print(str(error).partition(";")[0])
        bytes = torch.ones(2).untyped_storage()
        print(location_tag(bytes), default_restore_location(bytes, "cpu") is bytes, default_restore_location(bytes, "meta").device)
    """) == [
        "cpu",
        "meta",
        "load: a storage was saved on cuda:0, which is not here",
        "default_restore_location: a storage was saved on 'moon', which is not here",
        "cpu True meta",
    ]  # fmt: skip


def test_gradients_of_softmaxes_that_packages_write_themselves():
    assert says("""
        import torch
        for kind in ("softmax", "log_softmax"):
            x, g = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
            y = getattr(torch, f"_{kind}")(x, -1, False)
            y.backward(g)
            own = getattr(torch, f"_{kind}_backward_data")(g, y.detach(), -1, x.dtype)
            print(torch.equal(y, getattr(torch, kind)(x, -1)), torch.allclose(own, x.grad, atol=1e-6), own.dtype)
            print(getattr(torch, f"_{kind}")(x.bfloat16(), -1, True).dtype)
    """) == ["True True torch.float32", "torch.float32"] * 2  # fmt: skip


def test_what_optimizers_and_printers_of_packages_call():
    assert says("""
        import torch
        from torch.optim.optimizer import Optimizer
        groups = Optimizer._group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(2, dtype=torch.float64)], [torch.zeros(1), torch.zeros(2)]])
        print([(dtype, [x.tolist() for x in lists[1]]) for (_, dtype), (lists, _) in groups.items()])
        print(torch._tensor_str._add_suffixes("Index([1, 2]", ["dim_size=3", "sorted"], 6, False), torch._utils._element_size(torch.float64), torch._C._get_default_device())
        print(torch.onnx.operators.shape_as_tensor(torch.ones(2, 3)), torch.xpu.memory_stats(), torch.xpu.get_rng_state_all())
        for ask in (torch.mps.driver_allocated_memory, torch.xpu.get_device_capability, torch.cuda.profiler.start, torch.backends.mps.is_macos_or_newer):
            try:
                ask(*(13, 0) if "macos" in ask.__name__ else ())
            except RuntimeError as error:
                print(type(error).__name__)
    """) == [
        "[(torch.float32, [[0.0]]), (torch.float64, [[0.0, 0.0]])]",
        "Index([1, 2], dim_size=3, sorted) 8 cpu",
        "tensor([2, 3]) {} []",
        "DeviceError", "DeviceError", "NoCUDAError", "DeviceError",
    ]  # fmt: skip


def test_what_is_said_of_an_accelerator_and_of_streams_of_the_processor():
    assert says("""
        import torch, warnings
        for name in ("memory_allocated", "memory_stats", "current_stream", "get_memory_info", "synchronize"):
            try:
                getattr(torch.accelerator, name)()
            except RuntimeError as error:
                print(error)
        with torch.cpu.stream(torch.cpu.Stream()):
            torch.cpu.current_stream().wait_stream(torch.cpu.Stream(1))
        print(torch.cpu.Event().query())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(torch.library.impl_abstract("nobodys::op")(len) is len, caught[0].category.__name__)
        from torch.utils.collect_env import get_pretty_env_info
        print(get_pretty_env_info().partition(" (")[0])
    """) == [
        *(f"accelerator.{name}: this build of flambeau computes on the CPU"
          for name in ("memory_allocated", "memory_stats", "current_stream", "get_memory_info", "synchronize")),
        "True",
        "True FutureWarning",
        "PyTorch version: 2.13.0+flambeau",
    ]  # fmt: skip


def test_what_packages_derive_from():
    assert says("""
        import torch
        from torch.utils._contextlib import _DecoratorContextManager
        from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

        class named(_DecoratorContextManager):
            def __init__(self, name): self.name = name
            def clone(self): return named(self.name)
            def __enter__(self): print("in", self.name)
            def __exit__(self, *args): print("out", self.name)

        @named("a")
        def double(x):
            return 2 * x

        print(double(3))

        class Wraps(torch.optim.Optimizer):
            def __init__(self, optimizer):
                self.optimizer = optimizer
                self._patch_step_function()
            def step(self, closure=None): self.optimizer.step()

        w = torch.ones(1, requires_grad=True)
        wraps = Wraps(torch.optim.SGD([w], lr=0.5))
        wraps.register_step_post_hook(lambda *args: print("stepped"))
        w.sum().backward()
        wraps.step()
        print(w.item())
        a, b, c = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(2)
        (first, one), (second, two) = _group_tensors_by_device_and_dtype([[a, b, c], [None, b, a], []], with_indices=True).values()
        print(first[0][1] is c, first[1], one, second[0][0] is b, second[2], two)
    """) == ["in a", "out a", "6", "stepped", "0.5", "True [None, tensor([1.])] [0, 2] True [] [1]"]


def test_variables_of_programs_before_0_4():
    assert says("""
        import torch
        from torch.autograd import Variable
        x = torch.ones(2, requires_grad=True)
        v = Variable(x, requires_grad=True)
        print(v.requires_grad, v.is_leaf, v.data_ptr() == x.data_ptr(), Variable(x).requires_grad, isinstance(x, Variable), isinstance(3, Variable))
        print(torch.autograd.grad(v * 2, v, grad_outputs=Variable(torch.FloatTensor(v.size()).fill_(1.0), requires_grad=False))[0])
        print(issubclass(torch.nn.Parameter, Variable), torch.autograd.variable.Variable is Variable)
    """) == ["True True True False True False", "tensor([2., 2.])", "True True"]  # fmt: skip


def test_modules_are_facades_however_they_are_reached():
    assert says("""
        import torch
        print(torch._C.__name__, hasattr(torch._C, "DispatchKeySet"), torch.autograd.__name__, torch.nn.functional.__name__)
    """) == ["torch._C True torch.autograd torch.nn.functional"]  # fmt: skip


def test_devices_as_regions_and_warnings_that_come_once():
    assert says("""
        import warnings, torch
        from torch.utils._device import DeviceContext, set_device
        from torch._dynamo.utils import warn_once
        with DeviceContext("meta"):
            print(torch.zeros(2).device.type, end=" ")
        print(set_device("meta")(lambda: torch.ones(2))().device.type, torch.ones(2).device.type)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for text in ("a", "a", "b"):
                warn_once(text)
        print([str(w.message) for w in found], found[0].filename)
    """) == ["meta meta cpu", "['a', 'b'] <string>"]  # fmt: skip


def test_settings_of_compilers_are_kept_and_patched():
    assert says("""
        import torch, torch._dynamo.config, torch._inductor.config
        c = torch._dynamo.config
        c.cache_size_limit = 64
        with c.patch(cache_size_limit=3, unheard_of=1), c.patch("verbose", True):
            print(c.cache_size_limit, c.unheard_of, c.verbose, end=" ")
        print(c.cache_size_limit, hasattr(c, "unheard_of"), c.verbose)
        torch._inductor.config.triton.unique_kernel_names = torch._inductor.config.own = True
        with torch._inductor.config.patch({"max_autotune": True}):
            print(torch._inductor.config.max_autotune, torch._inductor.config.own, torch._dynamo.config is c)
    """) == ["3 1 True 64 False False", "True True True"]  # fmt: skip


def test_switches_of_torchscript_are_kept():
    assert says("""
        import torch
        c = torch._C
        print(c._jit_set_profiling_executor(False), c._jit_set_profiling_executor(True), c._jit_can_fuse_on_cpu(), end=" ")
        print(c._jit_override_can_fuse_on_cpu(True), c._jit_can_fuse_on_cpu(), c._jit_can_fuse_on_gpu())
    """) == ["True False False None True True"]  # fmt: skip


def test_every_line_of_the_map_leads_somewhere():
    from flambeau.compat._torch.finder import sources_of
    from flambeau.compat._torch.names import SOURCES

    for path, source in SOURCES.items():
        wanted = 1 if isinstance(source, str) else len(source)
        assert len(sources_of(f"torch.{path}")) >= wanted, f"torch.{path} is said to be {source}"


def test_functions_say_their_names():
    lines = says("""
        import torch
        from torch.overrides import resolve_name
        print(resolve_name(torch.Tensor.add), resolve_name(torch.nn.functional.relu), resolve_name(torch.linalg.norm), resolve_name(torch.Tensor.shape.__get__))
        print(type(torch.frexp(torch.ones(2))))
    """)
    assert lines == ["torch.Tensor.add torch.nn.functional.relu torch.linalg.norm torch.Tensor.shape.__get__", "<class 'torch.return_types.frexp'>"]


def test_what_programs_put_into_functional_is_what_layers_call():
    lines = says("""
        import torch, torch.nn.functional as F
        own, calls = F.linear, []
        F.linear = lambda *args: calls.append(len(args)) or own(*args)
        torch.nn.Linear(2, 3)(torch.ones(1, 2))
        F.linear = own
        torch.nn.Linear(2, 3)(torch.ones(1, 2))
        print(calls, torch.nn.Linear.__constants__, torch.is_storage(torch.ones(1).untyped_storage()), torch.lobpcg(torch.eye(9))[0])
    """)
    assert lines == ["[3] ['in_features', 'out_features'] True tensor([1.])"]


def test_pickles_of_pytorchs_tensors_are_read():
    """Plain pickles that PyTorch wrote, in which the bytes of each tensor are a file of their own: a transposed view, a parameter and one on meta."""
    packed = (
        "c-q}l%Wl&^6!q9n0s}4OQJ}n9U=ub`+=M_^ut42dyv)WMG;-}}ZRC1##^Xvws+3Ja!#D5&@Cit)oF8L`G%85#4={^6Gk1>eopX-v$o>ec9V;Q@w8JWu<t1g3?^IcyFvW{fNOrJEK^B-"
        "&Z_ys7EEiG2cBR;7JBNyw6n4yFk?^>ryf6m}CtM|#RgdiYE6r!W>Tlb#pBta*@9)++I{A9`!!i4j{y?~5S=LYrC1R1Y11`%<6d(o?F6pN{Q!3|-"
        "7fBWsu<PTH>a02(a#m)ac?stTZaZw~WSI)7(D3ch(YLHnX!>sGnj)guL(6xo%Cv2VErXuZfi<T`w>2&G;e;bdxU4Z-{qCT<+3kBzdtPsVdEt0i!SS6p3hsMTPRn=}m_!|eK3(<bg^n-"
        "bhE4OONM(hG#stj(tuZbHxaeEH<C6)fPkd*BOVe0ulJi(;NlN-wCS3C5RTe9X%TEF<DJ%!La*l<=NJjfyaY?a~l6GpRTG0Q-6wiD1yzdRR{xyZ1ZOSQFn?n9J1Xok-"
        "z_kF^$G8z-RXae&xM{+zX=+5it*{p0&heki-7mNo;Ql#^Yqg`r<P?G}<^>N<CW!7DHa$I4>!!hm2@j_Vj{-dAo!=K25lH"
    )
    lines = says(f"""
        import base64, pickle, zlib
        import torch
        a, b, c = pickle.loads(zlib.decompress(base64.b85decode({packed!r})))
        print(a.tolist(), a.stride(), type(b).__name__, b.tolist(), b.requires_grad, c.device)
        i = torch.tensor([[0, 1], [1, 0]])
        print(torch._utils._rebuild_sparse_tensor(torch.serialization._get_layout("torch.sparse_coo"), (i, torch.ones(2), (2, 2), True)).to_dense().tolist())
        print(pickle.loads(pickle.dumps(torch.ones(2).untyped_storage())).nbytes())
    """)
    assert lines == ["[[0.0], [1.0], [2.0]] (1, 3) Parameter [1.0] True meta", "[[0.0, 1.0], [1.0, 0.0]]", "8"]


def test_line_search_of_a_minimizer_and_its_basis():
    lines = says("""
        import torch
        from torch.autograd.functional import _as_tuple, _construct_standard_basis_for, _grad_postprocess, _tuple_postprocess
        from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe
        print(round(_cubic_interpolate(0.0, 0.0, -1.0, 1.0, 0.0, 1.0), 6), _cubic_interpolate(0.0, 0.0, -1.0, 1.0, 0.0, 1.0, bounds=(0.7, 0.9)))
        x, d = torch.tensor([1.0, -2.0]), torch.tensor([-2.0, 4.0])
        quadratic = lambda x, t, d: (float(((x + t * d) ** 2).sum()), 2 * (x + t * d))
        f, g, t, calls = _strong_wolfe(quadratic, x, 1.0, d, 5.0, 2 * x, (2 * x).dot(d), c2=0.1)
        print(f, g.tolist(), t, calls)
        a, b = _construct_standard_basis_for((torch.ones(2), torch.ones(1).double()), (2, 1))
        print(a.tolist(), b.tolist(), b.dtype)
        one = torch.ones(1, requires_grad=True) * 2
        print(_as_tuple(3), _as_tuple((one,), "a", "f")[0], _tuple_postprocess((1,), False), _tuple_postprocess(((1,), (2,)), (True, False)))
        print(_grad_postprocess((one,), False)[0].requires_grad, _grad_postprocess(one, True).requires_grad)
        """)
    assert lines == [
        "0.5 0.7",
        "0.0 [0.0, 0.0] 0.5 2",
        "[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]] [[0.0], [0.0], [1.0]] torch.float64",
        "(3,) True 1 (1, 2)",
        "False True",
    ]


def test_every_name_that_a_module_lists_can_be_read():
    """A facade's own helpers are no attributes: a module of ours may have a name of theirs."""
    lines = says("""
        import importlib, torch
        from flambeau.compat._torch.facade import Facade
        methods = sorted(n for n in vars(Facade) if not n.startswith("__"))
        print(methods)
        for path in ("utils.checkpoint", "nn.functional", "utils.data", "optim", "autograd", "linalg", "distributions", "serialization"):
            module = importlib.import_module(f"torch.{path}")
            for name in dir(module):
                getattr(module, name)
        print("read")
    """)
    assert lines == ["[]", "read"]


def test_switches_of_torch_s_notes():
    assert says("""
        import torch
        from torch.utils.serialization import config
        with config.patch({"load.mmap": True, "save.compute_crc32": False}):
            print(config.load.mmap, torch.serialization.get_crc32_options())
        print(config.load.mmap, config.save.compute_crc32, torch.serialization.get_crc32_options(), config.save.storage_alignment)
        try:
            config.load.map = True
        except AttributeError as error:
            print(error)
        torch.utils.backcompat.broadcast_warning.enabled = True
        print(torch.utils.backcompat.keepdim_warning.enabled, torch.compiler.list_backends(), torch._dynamo.list_backends())
    """) == [
        "True False",
        "False True True 64",
        "torch.utils.serialization.config has no 'map'; it has mmap, endianness, mmap_flags, calculate_storage_offsets",
        "False ['flambeau'] ['flambeau']",
    ]


def test_a_switch_refuses_what_its_module_refuses():
    assert says("""
        import torch
        torch.utils.deterministic.fill_uninitialized_memory = False
        try:
            torch.utils.deterministic.fill_uninitialized_memory = True
        except NotImplementedError as error:
            print(error)
        print(torch.utils.deterministic.fill_uninitialized_memory)
    """) == [
        "fill_uninitialized_memory = True: empty, empty_like and resize_ leave memory as it is; full(shape, nan) and full_like(x, nan) fill it",
        "False",
    ]
