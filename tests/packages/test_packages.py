"""Packages run on flambeau unmodified. That their numbers are PyTorch's, tests/parity/test_packages.py says."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from golden import RELATIVE, differences, path_of

pytestmark = pytest.mark.eager("programs in processes of their own")


def numbers(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value] if isinstance(value, (int, float)) else []


def check_kept(program, said):
    """Numbers are those that PyTorch had, as far as they were asked for."""
    kept = json.loads(path_of(program).read_text())
    assert set(said) <= set(kept)
    assert not differences(said, {key: kept[key] for key in said}, RELATIVE.get(program, 1e-4))


SMALL = (
    "backpack", "botorch", "captum", "diffusers", "entmax", "fastai", "geoopt", "gluonts", "gpytorch", "higher", "ignite", "kornia",
    "monai", "nflows", "opacus", "open_clip", "optimum", "peft", "ptflops", "pyro", "pytorch_metric_learning", "pytorch_msssim",
    "pytorch_optimizer", "schedulefree", "segmentation_models_pytorch", "sentence_transformers", "stable_baselines3", "tensordict",
    "torch_geometric", "torchcde", "torchdiffeq", "torchjd", "torchrl", "torchsde", "ultralytics", "vector_quantize_pytorch",
    "vit_pytorch", "zuko",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs_package(name)) for name in SMALL])
def test_a_package_says_what_it_says_in_pytorch(run, name):
    check_kept(f"{name}_", run(f"{name}_"))


@pytest.mark.needs_package("einops")
def test_einops(run):
    out = run("einops_")
    assert out["repeat"] == [2, 8, 3]
    assert out["pack"] == [[2, 32, 8], [[3, 8], [8]], [2, 8, 8]]
    assert out["mix"] == [2, 5, 4]


@pytest.mark.needs_package("torchinfo")
def test_torchinfo(run):
    out = run("torchinfo_")
    assert out["params"] == 8 * 9 + 8 + 16 + 4 * 16 * (32 + 16 + 2) + 170
    assert any("LSTM" in line for line in out["text"])


@pytest.mark.needs_package("torchmetrics")
def test_torchmetrics(run):
    out = run("torchmetrics_")
    assert len(out) >= 30
    assert all(math.isfinite(n) for n in numbers(out))
    assert out["mean"] == pytest.approx((1 + 2 + 8) / 4)
    assert out["wer"] == pytest.approx(2 / 6)


@pytest.mark.needs_package("x_transformers", "einx", "torch_einops_utils")
def test_x_transformers(run):
    out = run("x_transformers_")
    assert out["losses"][-1] < 0.75 * out["losses"][0]
    assert len(out["tokens"][0]) == 8


@pytest.mark.needs_package("transformers")
def test_transformers_models(run):
    out = run("transformers_models")
    assert len(out) >= 25
    check_kept("transformers_models", out)


@pytest.mark.needs_package("transformers", "accelerate")
def test_transformers_trainer(run):
    out = run("transformers_trainer")
    assert len(out["losses"]) == 24
    assert out["same"]


@pytest.mark.needs_package("pytorch_lightning")
def test_pytorch_lightning(run):
    out = run("pytorch_lightning_")
    assert out["resumed"][:2] == [5, 20]


@pytest.mark.needs_package("timm", "torchvision")
def test_timm(run):
    out = run("timm_")
    check_kept("timm_", out)
    losses, rate = out["training"]
    assert losses[-1] < losses[0]
    assert rate == pytest.approx(1e-3 * 0.5 * (1 + math.cos(math.pi * 4 / 5)), rel=0.1)


TIMM = sorted(json.loads(path_of("timm_models").read_text()))


@pytest.mark.needs_package("timm", "torchvision")
@pytest.mark.parametrize("part", range(4))
def test_timm_models(run, part):
    check_kept("timm_models", run("timm_models", *TIMM[part::4]))


@pytest.mark.needs_package("torchvision", "PIL")
def test_torchvision(run):
    out = run("torchvision_")
    check_kept("torchvision_", out)
    assert out["v2"] == [3, 16, 16]
    assert all(math.isfinite(n) for n in numbers(out))


@pytest.mark.needs_package("torchvision", "PIL")
def test_torchvision_classifiers(run):
    check_kept("torchvision_classifiers", run("torchvision_classifiers"))


@pytest.mark.needs_package("torchvision")
def test_torchvision_detection(run):
    out = run("torchvision_detection")
    for name in ("fasterrcnn", "maskrcnn", "retinanet", "ssdlite", "fcos"):
        assert out[name]["steps"][1] < out[name]["steps"][0] and math.isfinite(out[name]["grad"])
        assert len(out[name]["found"]) == 2
    assert "loss_mask" in out["maskrcnn"]["losses"]
    assert out["autocast"] == ["torch.bfloat16", [1]]
    assert out["gradient"] == pytest.approx(8)
    assert out["meta"] == [3, 2, 2, 2]
    assert out["twice"] == "double backwards on roi_align not supported"
    assert out["deform"] == [1, 3, 16, 16] and out["same"]


@pytest.mark.needs_package("transformers")
def test_a_report_of_an_installed_package_runs_nothing_of_it(packages):
    command = [sys.executable, "-X", "importtime", "-m", "flambeau", "run", "--report", "transformers"]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": packages}, capture_output=True, text=True, timeout=600)
    assert "missing" in result.stdout.splitlines()[-1]
    assert "transformers" not in {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
