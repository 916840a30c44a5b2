"""Modules that programs import from where PyTorch keeps them, though their content has another place here."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.distributed import _fsdp_wrap as fsdp

PLACES = {
    "torch.cuda.amp.autocast_mode": ("autocast", "custom_bwd", "custom_fwd"),
    "torch.cuda.amp.grad_scaler": ("GradScaler",),
    "torch.cuda.streams": ("Event", "Stream"),
    "torch.distributed.distributed_c10d": ("ProcessGroup", "ReduceOp", "init_process_group"),
    "torch.distributed.fsdp.wrap": ("enable_wrap", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap"),
    "torch.profiler.profiler": ("profile", "schedule"),
    "torch.signal.windows.windows": ("hann", "kaiser"),
    "torch.testing._comparison": ("assert_close",),
    "torch.testing._creation": ("make_tensor",),
    "torch.xpu.random": ("manual_seed",),
    "torch._VF": ("gru_cell", "lstm_cell"),
}


@pytest.mark.slow
@pytest.mark.eager("programs in processes of their own")
def test_modules_have_the_names_of_their_packages():
    program = textwrap.dedent(f"""\
        import flambeau.compat.torch
        import importlib
        for place, names in {PLACES!r}.items():
            module, package = importlib.import_module(place), importlib.import_module(place.rpartition(".")[0])
            for name in names:
                value = getattr(module, name)
                assert place.endswith(".wrap") or value is getattr(package, name), (place, name)
        print("all")
        """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "all\n", done.stderr


def test_policies_say_what_would_be_wrapped():
    layer, attention, several = nn.Linear(2, 2), nn.MultiheadAttention(4, 2), nn.ModuleList()
    assert fsdp.always_wrap_policy(layer, recurse=False, nonwrapped_numel=0)
    assert fsdp.transformer_auto_wrap_policy(layer, False, 6, {nn.Linear}) and not fsdp.transformer_auto_wrap_policy(
        layer, False, 6, {nn.ReLU}
    )
    assert fsdp.transformer_auto_wrap_policy(layer, True, 6, {nn.ReLU})
    assert fsdp.lambda_auto_wrap_policy(layer, False, 6, lambda module: module is layer)
    small = fsdp.size_based_auto_wrap_policy
    assert not small(layer, False, 6) and small(layer, False, 6, min_num_params=6)
    assert small(several, True, 6, 6) and not small(several, False, 6, 6) and small(several, False, 6, 6, exclude_wrap_modules=())
    assert not small(attention, True, 6, 6) and small(attention, False, 6, 6) and small(attention, True, 6, 6, force_leaf_modules=())
    assert fsdp.ModuleWrapPolicy([nn.Linear])(layer, False) and repr(fsdp.ModuleWrapPolicy([nn.Linear])).startswith("ModuleWrapPolicy({")


def test_wrap_wraps_inside_of_its_region():
    layer = nn.Linear(2, 2)
    assert fsdp.wrap(layer) is layer
    with fsdp.enable_wrap(wrapper_cls=lambda module, **options: (module, options), a=1, b=2):
        with fsdp.enable_wrap(wrapper_cls=fl.nn.Sequential):
            assert fsdp.wrap(layer)[0] is layer
        assert fsdp.wrap(layer, b=3) == (layer, {"a": 1, "b": 3})
    assert fsdp.wrap(layer) is layer
