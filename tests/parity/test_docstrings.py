"""The examples in PyTorch's docstrings do here what they do there.

They are read from the installed PyTorch and run once by each library (docstrings.py). Compared are, statement by statement, whether there is
an error and of what class, and else what the statement made and printed: types, shapes, values and text. What raises in PyTorch, too
(no GPU, undefined names), says nothing, and neither do random numbers.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from beside import torch
from docstrings import programs, statements

pytestmark = pytest.mark.filterwarnings("ignore")
RUNNER = pathlib.Path(__file__).with_name("docstrings.py")

PARTS = {
    "torch": "torch.Tensor torch",
    "nn": "nn nn.functional nn.init nn.parameter nn.attention nn.utils nn.utils.parametrize nn.utils.parametrizations nn.utils.rnn nn.utils.prune "
    "nn.utils.stateless nn.modules.module nn.modules.lazy nn.parallel",
    "numbers": "linalg fft special signal.windows sparse masked nested quasirandom random",
    "training": "optim optim.lr_scheduler optim.swa_utils autograd autograd.functional autograd.graph autograd.forward_ad autograd.profiler func "
    "utils.data utils.checkpoint amp distributions distributions.constraints distributions.transforms distributions.kl",
    "rest": "utils utils._pytree utils.dlpack utils.hooks utils.flop_counter utils.benchmark testing serialization futures overrides library compiler "
    "accelerator cpu fx jit export package profiler storage ao.quantization",
}  # fmt: skip

# Large, and compared in test_nn.py and test_more_layers.py.
SKIPPED = {
    f"torch.nn.{name}"
    for name in "AvgPool3d BatchNorm3d CircularPad3d Conv3d ConvTranspose3d InstanceNorm3d LocalResponseNorm MaxPool3d ReplicationPad3d Transformer "
    "TransformerDecoder TransformerEncoder".split()
}

# What differs on purpose, by reason: docstrings, with the number of statements where it is not 1. An item that does not differ fails.
DIFFERENT = {
    "waits for the core": "torch.Tensor.grad_dtype torch.set_default_dtype "
    "torch.set_flush_denormal:2",
    "tensors are packed without history, in the order of the arguments": "torch.autograd.graph.saved_tensors_hooks",
    "conjugates and negatives are computed when they are asked for": "torch.conj torch.resolve_conj torch.resolve_neg",
    "which of equal elements comes first is not said": "torch.sort",
    "vectors are right with either sign": "torch.linalg.eig torch.linalg.eigh torch.linalg.svd torch.svd",
    "memory formats change no strides": "torch.Tensor.dim_order:2 torch.empty_permuted",
    "another generator": "torch.Generator.get_state torch.Generator.initial_seed torch.Generator.seed",
    "there are no streams, events or graphs of a device": "torch.Event torch.accelerator.Graph torch.accelerator.Graph.debug_dump torch.accelerator.synchronize:2",
    "a device that is not here is refused at once": "torch.nn.DataParallel torch.set_default_device:6",
    "there are no quantised tensors": "torch.quantize_per_channel torch.quantize_per_tensor:4 torch.quantize_per_tensor_dynamic "
    "torch.quantized_batch_norm torch.quantized_max_pool1d torch.quantized_max_pool2d",
    "the array of a masked tensor is refused by another class of error": "torch.masked.is_masked_tensor",
    "there are no nested tensors": "torch.nested.as_nested_tensor:2 torch.nested.masked_select torch.nested.narrow "
    "torch.nested.nested_tensor torch.nested.nested_tensor_from_jagged torch.nested.to_padded_tensor",
    "a prototype of PyTorch's": "torch.hash_tensor torch.nn.attention.register_flash_attention_impl",
    "no fake tensors, no kernels by dispatch keys, no Triton": "torch.func.functionalize:3 torch.library.get_kernel:4 torch.library.register_fake "
    "torch.library.register_torch_dispatch torch.library.triton_op torch.library.wrap_triton",
    "what register_autocast and register_vmap return, and a misprint of Library": "torch.library.register_autocast torch.library.register_vmap:2",
    "a result of a custom op has memory of its own": "torch.library.custom_op",
    "NumPy's functions are not replaced by ours": "torch.compiler.wrap_numpy",
    "PyTorch's tables and tools for its own tests and backends": "torch.overrides.get_testing_overrides "
    "torch.overrides.redispatch_function torch.utils.ThroughputBenchmark torch.utils.generate_methods_for_privateuse1_backend:3 "
    "torch.utils.rename_privateuse1_backend",
    "there is no training over processes but flambeau.pipeline": "torch.nn.parallel.DistributedDataParallel",
    "not there yet": "torch.serialization.register_package",
    "PyTorch's own modules are among them": "torch.serialization.safe_globals",
    "an argument that is handed on is an alias with a history": "torch.func.grad",
    "a profile prints nothing": "torch.autograd.profiler.profile torch.autograd.profiler.record_function",
    "less is told of a processor": "torch.cpu.get_capabilities",
}  # fmt: skip


def module_of(path):
    return torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)


@functools.cache
def corpus():
    """(name, statements) of all programs, by part; each docstring once."""
    found, seen = {}, set()
    for part, paths in PARTS.items():
        found[part] = []
        for path in paths.split():
            for name, doc in programs(module_of(path if path.startswith("torch") else f"torch.{path}")):
                if doc in seen:
                    continue
                seen.add(doc)
                if name not in SKIPPED and (sources := statements(doc)):
                    found[part].append((name, sources))
    return found


def records(folder, part):
    """{name: (ours, theirs)} of a part's programs, which two processes run."""
    todo = corpus()[part]
    (folder / "programs.json").write_text(json.dumps(todo))
    here = {}
    for library in ("flambeau", "torch"):
        (folder / library).mkdir()
        call = [sys.executable, str(RUNNER), library, str(folder / "programs.json"), str(folder / library / "records")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "FLAMBEAU_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TORCHDYNAMO_DISABLE": "1"}
        here[library] = subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    read = {}
    for library, process in here.items():
        output, _ = process.communicate()
        assert process.returncode == 0, output
        with open(folder / library / "records", "rb") as file:
            read[library] = dict(pickle.load(file) for _ in todo)
    return {name: (read["flambeau"][name], read["torch"][name]) for name, _ in todo}


# Comparing -----------------------------------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)j?")


def close(ours, theirs, dtype=""):
    if ours is None or theirs is None or isinstance(ours, str) or isinstance(theirs, str):
        return ours is None or theirs is None or ours == theirs
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(close(a, b, dtype) for a, b in zip(ours, theirs))
    loose = {"float64": 1e-9, "complex128": 1e-9, "bfloat16": 2e-2, "float16": 2e-3}.get(dtype, 1e-4)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=loose, atol=loose, equal_nan=True)


def same_text(ours, theirs):
    """The same but for the last digits of numbers, and white space."""
    ours, theirs = (re.sub(r"grad_fn=<\w+>", "grad_fn=<>", " ".join(t.split())) for t in (ours, theirs))
    if ours == theirs:
        return True
    if NUMBER.sub("#", ours).replace(" ", "") != NUMBER.sub("#", theirs).replace(" ", ""):
        return False
    numbers = zip(NUMBER.findall(ours), NUMBER.findall(theirs))
    return all(np.isclose(complex(a), complex(b), rtol=2e-3, atol=2e-4, equal_nan=True) for a, b in numbers)


def differences(ours, theirs, rough, where=""):
    """What differs between two values as docstrings.normal says them; of random ones only types and shapes count."""
    if ours[0] != theirs[0]:
        yield f"{where} is {ours[:2]} here, {theirs[:2]} there"
    elif ours[0] == "tensor":
        for key, value in theirs[1].items():
            if ours[1][key] != value:
                yield f"{where}.{key} is {ours[1][key]} here, {value} there"
                return
        if not rough:
            if not close(ours[2], theirs[2], theirs[1]["dtype"]):
                yield f"{where}: {ours[3]} here, {theirs[3]} there"
            elif not same_text(ours[3], theirs[3]):
                yield f"{where} prints {ours[3]!r} here, {theirs[3]!r} there"
    elif ours[0] == "array":
        if ours[1] != theirs[1] or not rough and not (close(ours[2], theirs[2], ours[1])):
            yield f"{where}: {ours[1:]} here, {theirs[1:]} there"
    elif ours[0] == "value":
        number = all(x[1] in ("float", "complex") for x in (ours, theirs))
        equal = ours[1:] == theirs[1:] or number and np.isclose(ours[2], theirs[2], rtol=1e-4, atol=1e-5, equal_nan=True)
        if ours[1] != theirs[1] or not rough and not equal and not (ours[1] == "str" and same_text(ours[2], theirs[2])):
            yield f"{where}: {ours[1:]} here, {theirs[1:]} there"
    elif ours[0] in ("mapping", "sequence", "module"):
        if not same_text(ours[1], theirs[1]):
            yield f"{where}: {ours[1]} here, {theirs[1]} there"
        a, b = (x[2] if isinstance(x[2], dict) else dict(enumerate(x[2])) for x in (ours, theirs))
        if list(a) != list(b):
            yield f"{where} has {list(a)} here, {list(b)} there" if not rough else ""
        for key in [k for k in a if k in b]:
            yield from differences(a[key], b[key], rough, f"{where}[{key!r}]")
    elif not same_text(" ".join(map(str, ours)), " ".join(map(str, theirs))) and not rough:
        yield f"{where}: {ours[1:]} here, {theirs[1:]} there"


def compare(ours, theirs):
    """The statements that differ, as (statement, what differs), and how many were compared.

    What uses a name that a statement with a difference, or one that only PyTorch refuses, has made is not looked at.
    """
    if isinstance(theirs, str) or isinstance(ours, str):
        return ([] if isinstance(theirs, str) else [("", ours)]), 0
    rough, spoiled, different, count = set(), set(), [], 0
    for mine, other in zip(ours, theirs):
        if spoiled & set(other["names"]):
            spoiled |= set(other["names"])
            continue
        found = []
        if "error" in other:
            if "error" not in mine:
                found = [f"no error here, {other['text']} there"]
        elif "error" in mine:
            found = [f"{mine['text']} here"]
        else:
            count += 1
            from_random = bool(rough & set(other["names"]))
            random = other["moved"] or from_random
            if random:  # parameters of a new module are filled, and buffers may be random
                alike = [n for n in other["fresh"] if n in mine["made"] and not list(differences(mine["made"][n], other["made"][n], False))]
                rough |= set(other["names"]) - (set(alike) if not from_random else set())
            found = list(differences(mine["value"], other["value"], random, "result"))
            for name, value in other["made"].items():
                found += differences(mine["made"][name], value, random and name in rough, name) if name in mine["made"] else [f"no {name} here"]
            if not random and not same_text(mine["printed"], other["printed"]):
                found.append(f"prints {mine['printed']!r} here, {other['printed']!r} there")
        if found := [f for f in found if f]:
            spoiled |= set(other["names"])
            different.append((other["source"], "; ".join(found)[:1500]))
    return different, count


def expected(part):
    """How many statements of which docstrings are listed."""
    listed = dict(item.partition(":")[::2] for items in DIFFERENT.values() for item in items.split())
    return {name: int(listed[name] or 1) for name, _ in corpus()[part] if name in listed}


@pytest.mark.parametrize("part", PARTS)
def test_examples_of_docstrings(part, tmp_path):
    found = {name: compare(*pair)[0] for name, pair in records(tmp_path, part).items()}
    differ, listed = {name: len(what) for name, what in found.items() if what}, expected(part)
    text = [f"{name}: {found[name] or 'nothing differs'}" for name in sorted({*differ, *listed}) if differ.get(name) != listed.get(name)]
    assert not text, "\n".join(["of what differs this is not listed so:", *text])


def test_what_is_listed_is_there():
    names = {name for programs_of_part in corpus().values() for name, _ in programs_of_part}
    listed = {item.partition(":")[0] for items in DIFFERENT.values() for item in items.split()}
    assert listed <= names and len(names) > 900
    assert len(listed) == sum(len(items.split()) for items in DIFFERENT.values())
