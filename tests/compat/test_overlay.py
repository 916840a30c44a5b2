"""What only `torch` has under `flambeau run` has a reason; the rest is the library's, for who writes `import flambeau as torch`."""

import ast
import copy
import pathlib
import subprocess
import sys

import pytest

import flambeau as fl
from flambeau.compat import _torch
from flambeau.compat._torch.reasons import REASONS

OVERLAY = pathlib.Path(_torch.__file__).parent / "overlay"
FILES = {".".join(p.relative_to(OVERLAY).with_suffix("").parts).removesuffix("__init__").rstrip("."): p for p in OVERLAY.rglob("*.py")}


def is_private(path):
    return any(part.startswith("_") for part in path.split(".") if part != "__config__")


def public_names(path):
    """What a file defines, or declares in its `__all__` without having it from the library."""
    found, known = set(), set()
    for node in ast.parse(FILES[path].read_text()).body:
        if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("flambeau.compat"):
            known |= {name.asname or name.name for name in node.names}
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add("*" if node.name == "__getattr__" else node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names = [name for target in targets for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
        found |= {name.id for name in names if isinstance(name, ast.Name)}
        if any(isinstance(name, ast.Name) and name.id == "__all__" for name in names) and node.value is not None:
            found |= set(ast.literal_eval(node.value))
    return {name for name in found - known if not name.startswith("_") or name == "__version__"}


# Functions that may leave arguments by name unread, each with its reason.
UNREAD = {"with_options": "of a class that builds extensions, which are refused when they are built"}


@pytest.mark.parametrize("path", sorted(path for path in FILES if not is_private(path)))
def test_each_name_has_a_reason(path):
    """A new public name of the overlay belongs into the library, or into `reasons.py`."""
    reasons = REASONS.get(path, {})
    assert public_names(path) == set(reasons)
    assert all(len(reason) > 10 for reason in reasons.values())


@pytest.mark.slow
def test_no_reason_is_left_over():
    assert set(REASONS) == {path for path in FILES if not is_private(path) and public_names(path)}


@pytest.mark.parametrize("path", sorted(FILES))
def test_no_function_drops_arguments_by_name(path):
    """`**kwargs` that a body never reads would swallow what a program asks for; functions that raise may have them."""
    tree = ast.parse(FILES[path].read_text())
    refusing = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _raises(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.kwarg and node.name not in UNREAD and not _raises(node, refusing):
            used = {name.id for part in node.body for name in ast.walk(part) if isinstance(name, ast.Name)}
            assert node.args.kwarg.arg in used, f"{FILES[path]}:{node.lineno}: {node.name} drops **{node.args.kwarg.arg}"


def _raises(node, refusing=()):
    """Whether a function ends with an error, by itself or by one of those."""
    last = node.body[-1]
    call = last.value if isinstance(last, (ast.Expr, ast.Return)) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in refusing:
        return True
    return isinstance(last, ast.Raise) or (node.returns is not None and "NoReturn" in ast.unparse(node.returns))


MOVED = """
    __config__.show accelerator.is_available ao.quantization.QuantStub are_deterministic_algorithms_enabled autograd.profiler.kineto_available
    backends.cpu.get_cpu_capability backends.cuda.flash_sdp_enabled backends.mha.get_fastpath_enabled backends.mkl.is_available
    backends.opt_einsum.is_available compiler.disable compiler.is_exporting compiler.set_stance cuda.amp.GradScaler cuda.amp.autocast
    cuda.Stream cuda.OutOfMemoryError cuda.FloatTensor cuda.nvtx.range_push distributed.ReduceOp distributed.get_rank distributed.is_available
    distributed.is_initialized fx.wrap GradScaler get_deterministic_debug_mode get_device_module hub.get_dir hub.load
    is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled jit.annotate jit.export jit.ignore jit.is_scripting jit.script
    jit.trace jit.unused mps.is_available mtia.is_available nn.DataParallel nn.SyncBatchNorm nn.attention.sdpa_kernel
    nn.parallel.DistributedDataParallel nn.quantized.FloatFunctional onnx.export onnx.is_in_onnx_export OutOfMemoryError
    profiler.kineto_available random.default_generator serialization.DEFAULT_PROTOCOL set_deterministic_debug_mode set_warn_always Event
    Stream SymInt sym_float sym_max types.Device use_deterministic_algorithms utils.checkpoint.get_device_states
    utils.flop_counter.FlopCounterMode utils.model_zoo.load_url version.cuda xpu.is_available _assert _check
""".split()


@pytest.mark.parametrize("name", MOVED)
def test_the_library_has_what_programs_ask_of_torch(name):
    value = fl
    for part in name.split("."):
        value = getattr(value, part)
    assert name.rpartition(".")[2] in dir(fl if "." not in name else _owner(name))


def _owner(name):
    value = fl
    for part in name.split(".")[:-1]:
        value = getattr(value, part)
    return value


@pytest.mark.slow
@pytest.mark.eager("a program in a process of its own")
def test_torch_has_the_same_objects():
    names = [name for name in MOVED if name not in ("version.cuda", "serialization.DEFAULT_PROTOCOL")]
    code = f"""
import flambeau.compat.torch, torch, flambeau
def find(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root
print([name for name in {names!r} if find(torch, name) is not find(flambeau, name)])
print(torch.version.__version__.startswith("2."), flambeau.version.__version__ == flambeau.__version__, torch.jit.script.__module__, torch.cuda.FloatTensor)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True True torch.jit <class 'torch.cuda.FloatTensor'>"]


# ------------------------------------------------------------------------------------------- what they answer


def test_deterministic_algorithms_are_a_setting():
    try:
        assert (fl.are_deterministic_algorithms_enabled(), fl.get_deterministic_debug_mode()) == (False, 0)
        for mode, number in (("warn", 1), ("error", 2), (1, 1), (0, 0), (2, 2)):
            fl.set_deterministic_debug_mode(mode)
            assert fl.get_deterministic_debug_mode() == number and fl.are_deterministic_algorithms_enabled() == (number > 0)
            assert fl.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
        fl.use_deterministic_algorithms(True, warn_only=True)
        assert fl.get_deterministic_debug_mode() == 1
        fl.use_deterministic_algorithms(True)
        assert fl.get_deterministic_debug_mode() == 2
        with pytest.raises(RuntimeError, match="debug_mode = 'loud'; expected 'default', 'warn' or 'error'"):
            fl.set_deterministic_debug_mode("loud")
        with pytest.raises(RuntimeError, match="debug_mode = 7"):
            fl.set_deterministic_debug_mode(7)
        for call, text in ((lambda: fl.set_deterministic_debug_mode(2.0), "expected str or int"), (lambda: fl.use_deterministic_algorithms("x"), "mode = 'x'")):
            with pytest.raises(TypeError, match=text):
                call()
    finally:
        fl.use_deterministic_algorithms(False)


def test_warnings_that_come_each_time():
    import warnings

    from flambeau._warn import warn

    def seen(action):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(action)
            for _ in range(3):
                warn("the same place")
        return len(found)

    assert not fl.is_warn_always_enabled()
    try:
        fl.set_warn_always(True)
        assert fl.is_warn_always_enabled() and seen("default") >= 3 and seen("ignore") == 0
    finally:
        fl.set_warn_always(False)
    with pytest.raises(RuntimeError, match="set_warn_always: b = 1; expected True or False"):
        fl.set_warn_always(1)


def test_switches_of_attention_are_kept():
    cuda, mha = fl.backends.cuda, fl.backends.mha
    try:
        cuda.enable_math_sdp(False)
        mha.set_fastpath_enabled(False)
        assert not cuda.math_sdp_enabled() and not mha.get_fastpath_enabled() and cuda.flash_sdp_enabled()
        with cuda.sdp_kernel(enable_flash=False):
            assert not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
        assert cuda.flash_sdp_enabled() and not cuda.math_sdp_enabled()
    finally:
        cuda.enable_math_sdp(True)
        mha.set_fastpath_enabled(True)


def test_arguments_that_are_refused(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword"):
        fl.jit.trace(len, (), check_traces=True)
    with pytest.raises(AttributeError, match="nothing"):
        fl.jit.trace_module(fl.nn.Linear(1, 1), {"forward": (), "nothing": ()})
    with pytest.raises(fl.hub.DownloadRefused, match="force_reload=True"):
        fl.hub.load("user/repository", "model", force_reload=True)
    with pytest.raises(NotImplementedError, match="custom_mapping"):
        fl.utils.flop_counter.FlopCounterMode(custom_mapping={1: 2})
    for how, error in (({"stance": "odd"}, RuntimeError), ({"stance": "fail_on_recompile"}, NotImplementedError), ({"force_backend": "x"}, NotImplementedError)):
        with pytest.raises(error, match="set_stance"), fl.compiler.set_stance(**how):
            pass
    with pytest.raises(NotImplementedError, match="check_fwd_over_rev"):
        fl.autograd.gradgradcheck(fl.sin, fl.ones(1, dtype=fl.float64, requires_grad=True), check_fwd_over_rev=True)
    with pytest.raises(TypeError, match="fast_modes"):
        fl.autograd.gradcheck(fl.sin, fl.ones(1, dtype=fl.float64, requires_grad=True), fast_modes=True)


def test_digits_of_weights_are_compared(tmp_path):
    import hashlib

    fl.save({"x": fl.ones(2)}, tmp_path / "w.pt")
    digits = hashlib.sha256((tmp_path / "w.pt").read_bytes()).hexdigest()[:8]
    for name, right in ((f"w-{digits}.pt", True), ("w-00000000.pt", False), ("w.pt", True)):
        (tmp_path / name).write_bytes((tmp_path / "w.pt").read_bytes())
        url = f"https://example.org/{name}"
        assert fl.hub.load_state_dict_from_url(url, str(tmp_path))["x"].tolist() == [1, 1]
        if right:
            assert fl.hub.load_state_dict_from_url(url, str(tmp_path), check_hash=True)["x"].tolist() == [1, 1]
        else:
            with pytest.raises(RuntimeError, match="expected one that begins with 00000000"):
                fl.hub.load_state_dict_from_url(url, str(tmp_path), check_hash=True)


@pytest.mark.parametrize("name", ["cudart", "initial_seed", "get_sync_debug_mode", "graph_pool_handle", "memory_snapshot", "MemPool", "utilization"])
def test_what_needs_a_gpu_is_refused(name):
    with pytest.raises(RuntimeError, match=f"cuda.{name}: this build of flambeau has no CUDA backend"):
        getattr(fl.cuda, name)()


def test_questions_to_a_gpu_that_have_an_answer():
    cuda = fl.cuda
    assert [cuda.memory_cached(), cuda.max_memory_cached(), cuda.is_tf32_supported(), cuda.memory_stats_as_nested_dict()] == [0, 0, False, {}]
    assert cuda.set_stream(None) is cuda.reset_max_memory_cached() is None and not isinstance(fl.ones(1).storage(), cuda.FloatStorage)
    assert fl.backends.cuda.preferred_linalg_library() == fl.backends.cuda.preferred_linalg_library("default") == 0
    for wrong in (lambda: fl.backends.cuda.preferred_linalg_library("magma"), lambda: cuda.set_stream(0)):
        with pytest.raises(RuntimeError, match="no CUDA backend"):
            wrong()


def test_functions_of_cuda_amp_need_no_device():
    class Double(fl.autograd.Function):
        @staticmethod
        @fl.cuda.amp.custom_fwd
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        @fl.cuda.amp.custom_bwd
        def backward(ctx, dy):
            return 2 * dy

    x = fl.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_fork_is_a_future():
    future = fl.jit.fork(lambda a, b: a + b, 1, b=2)
    assert isinstance(future, fl.futures.Future) and fl.jit.wait(future) == 3 and future.then(lambda f: f.value() + 1).wait() == 4


def test_batch_norm_of_several_processes_is_batch_norm_in_one():
    net = fl.nn.SyncBatchNorm.convert_sync_batchnorm(fl.nn.Sequential(fl.nn.BatchNorm2d(2)))
    assert type(net[0]) is fl.nn.SyncBatchNorm and net.eval()(fl.ones(1, 2, 3, 3)).shape == (1, 2, 3, 3)
    x = fl.arange(36.0).reshape(2, 2, 3, 3)
    assert fl.equal(net.train()(x), fl.nn.BatchNorm2d(2)(x)) and int(net[0].num_batches_tracked) == 1


def test_units_of_tables():
    with fl.profiler.profile() as prof:
        fl.ones(3) + 1
    averages = prof.key_averages()
    assert "us" not in averages.table(time_unit="s", limits=False).replace("cpu", "") and "ms" in averages.table(time_unit="ms", limits=False)
    with pytest.raises(ValueError, match="time_unit = 'h'; expected 's', 'ms', 'us'"):
        averages.table(time_unit="h")
    with pytest.raises(NotImplementedError, match="top_level_events_only"):
        averages.table(top_level_events_only=True)


def test_marks_of_torchscript_stay_on_functions():
    jit = fl.jit
    for mark, modifier in ((jit.export, "EXPORT"), (jit.ignore, "IGNORE"), (jit.ignore(), "IGNORE"), (jit.ignore(True), "UNUSED"), (jit.unused, "UNUSED")):

        @mark
        def function(x):
            return x

        assert function(3) == 3 and function._torchscript_modifier == getattr(jit.FunctionModifiers, modifier)

    class Marked(fl.nn.Module):
        @jit.unused
        @property
        def four(self):
            return 4

    assert Marked().four == 4 and Marked.four.fget._torchscript_modifier == jit.FunctionModifiers.UNUSED
    assert jit.interface(Marked).__torch_script_interface__
    with pytest.raises(RuntimeError, match="must be a bool or a function but got 5"):
        jit.ignore(5)
    with pytest.raises(RuntimeError, match="must be applied to a class"):
        jit.interface(5)
    for wrong in ((5, {}), (fl.nn.Linear(1, 1), 5)):
        with pytest.raises(AttributeError, match="jit.trace_module: expected"):
            jit.trace_module(*wrong)


def test_regions_of_torchscript_have_no_effect():
    with pytest.warns(UserWarning, match="Only works in script mode"), fl.jit.strict_fusion():
        pass
    with fl.jit.fuser("fuser1"), pytest.raises(RuntimeError, match="unrecognized fuser option"), fl.jit.fuser("other"):
        pass
    assert fl.jit._wait(fl.jit._fork(fl.jit._unwrap_optional, 3)) == 3


@pytest.mark.parametrize(
    "make",
    [
        fl.jit.script,
        lambda m: fl.jit.trace(m, fl.ones(1, 2)),
        lambda m: fl.jit.trace_module(m, {"forward": (fl.ones(1, 2),)}),
        lambda m: fl.jit.freeze(fl.jit.script(m.eval())),
        lambda m: copy.deepcopy(fl.jit.script(m)),
    ],
    ids=["script", "trace", "trace_module", "freeze", "copy"],
)
def test_a_scripted_module_has_save_as_a_method(tmp_path, make):
    plain, module, extra = fl.nn.Linear(2, 3), make(fl.nn.Linear(2, 3)), {"a": ""}
    assert not hasattr(plain, "save")
    for name in ("first", "second"):  # what was loaded can be saved, too
        with pytest.warns(UserWarning, match="no TorchScript"):
            module.save(tmp_path / name, _extra_files={"a": name})
        loaded = fl.jit.load(tmp_path / name, _extra_files=extra)
        assert fl.equal(loaded.weight, module.weight) and extra == {"a": name.encode()}
        module = loaded


@pytest.mark.parametrize("freeze", [fl.jit.freeze, fl.jit.optimize_for_inference])
def test_parameters_of_frozen_modules_are_constants(freeze):
    module, x = fl.nn.Sequential(fl.nn.utils.weight_norm(fl.nn.Linear(2, 3)), fl.nn.BatchNorm1d(3)).eval(), fl.ones(2, 2)
    before = module(x)
    frozen = freeze(fl.jit.script(module))
    assert fl.equal(frozen(x), before) and before.requires_grad and module(x).requires_grad and not frozen(x).requires_grad
    assert frozen(x).numpy().shape == (2, 3)
    with fl.no_grad():
        module[0].weight_g.mul_(3)
    assert fl.equal(frozen(x), before) and not fl.equal(module(x), before)
    assert fl.autograd.grad(frozen(y := fl.ones(2, 2, requires_grad=True)).sum(), y)[0].shape == (2, 2)
    with pytest.raises(RuntimeError, match="training mode"):
        fl.jit.freeze(module.train())


def test_a_module_s_own_save_is_its_own():
    class Own(fl.nn.Module):
        def save(self):
            return "own"

    assert fl.jit.script(Own()).save() == "own"


def test_switches_of_torchscript_s_speed_change_nothing():
    fl.jit.enable_onednn_fusion(True)  # as PyTorch's performance tuning guide has it
    assert fl.jit.onednn_fusion_enabled() is False and fl.jit.set_fusion_strategy([("STATIC", 2)]) == []
    module, x = fl.nn.Linear(2, 3).eval(), fl.ones(1, 2)
    with fl.jit.fuser("fuser3"):
        assert fl.equal(fl.jit.freeze(fl.jit.trace(module, x))(x), module(x))


def test_modules_are_kept_whole_in_the_place_of_torchscript(tmp_path):
    module, x, extra = fl.jit.trace(fl.nn.Sequential(fl.nn.Linear(2, 3), fl.nn.LSTM(3, 2)).eval(), fl.ones(1, 2)), fl.randn(4, 2), {"a.txt": "", "b": "kept"}
    with pytest.warns(UserWarning, match="no TorchScript"):
        fl.jit.save(module, tmp_path / "m.pt", _extra_files={"a.txt": "text"})
    found = fl.jit.load(tmp_path / "m.pt", map_location="cpu", _extra_files=extra)
    assert fl.equal(found(x)[0], module(x)[0]) and not found.training and extra == {"a.txt": b"text", "b": "kept"}
    with pytest.raises(fl.jit.Error, match="there is no TorchScript here"):
        fl.jit.save(lambda x: x, tmp_path / "f.pt")
    fl.save({"x": fl.ones(1)}, tmp_path / "other.pt", format="pt")
    with pytest.raises(fl.jit.Error, match="there is no TorchScript here"):
        fl.jit.load(tmp_path / "other.pt")
