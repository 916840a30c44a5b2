"""Packages that trace programs or write code with `torch.fx`. That their numbers are PyTorch's, tests/parity/test_packages.py says."""

from __future__ import annotations

import json

import pytest
from golden import RELATIVE, differences, path_of

pytestmark = pytest.mark.eager("programs in processes of their own")


def check_kept(program, said):
    assert not differences(said, json.loads(path_of(program).read_text()), RELATIVE.get(program, 1e-4))


@pytest.mark.needs_package("torchvision", "timm")
def test_feature_extraction(run):
    out = run("torchvision_features")
    check_kept("torchvision_features", out)
    assert out["timm resnet18"][0] == "FeatureGraphNet"


@pytest.mark.needs_package("e3nn", "opt_einsum_fx", "opt_einsum", "sympy")
def test_e3nn_and_opt_einsum_fx(run):
    out = run("e3nn_")
    check_kept("e3nn_", out)
    assert out["equivariant"] and out["losses"][-1] < out["losses"][0]
