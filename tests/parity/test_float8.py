"""Floats of 8 bits beside PyTorch: every 16-bit pattern as a float, cast; every code, back; files in both directions."""

import io

import numpy as np
import pytest
import torch

import flambeau as fl

ALL = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("source", ["bfloat16", "float16"])
def test_casts(name, source):
    bits = np.arange(2**16).astype(np.uint16).view(np.int16)
    ours = fl.tensor(bits).view(getattr(fl, source)).to(getattr(fl, name)).view(fl.uint8).numpy()
    theirs = torch.tensor(bits).view(getattr(torch, source)).to(getattr(torch, name)).view(torch.uint8).numpy()
    nan = np.isnan(torch.tensor(bits).view(getattr(torch, source)).double().numpy())
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])
    assert fl.tensor(ours[nan]).view(getattr(fl, name)).float().isnan().all()


@pytest.mark.parametrize("name", ALL)
def test_floats_between_and_codes(name):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(20000) * 2.0 ** rng.integers(-20, 20, 20000)).astype(np.float32)
    ours, theirs = fl.tensor(x).to(getattr(fl, name)), torch.tensor(x).to(getattr(torch, name))
    np.testing.assert_array_equal(ours.view(fl.uint8).numpy(), theirs.view(torch.uint8).numpy())
    codes = np.arange(256).astype(np.uint8)
    np.testing.assert_array_equal(fl.tensor(codes).view(getattr(fl, name)).float().numpy(), torch.tensor(codes).view(getattr(torch, name)).float().numpy())
    a, b = fl.finfo(getattr(fl, name)), torch.finfo(getattr(torch, name))
    assert [getattr(a, field) for field in ("bits", "eps", "max", "min", "tiny")] == [getattr(b, field) for field in ("bits", "eps", "max", "min", "tiny")]


@pytest.mark.parametrize("name", ALL)
def test_files(name, tmp_path):
    theirs = torch.tensor([1.0, 2.0, 4.0]).to(getattr(torch, name))
    torch.save({"x": theirs, "row": theirs[1:]}, tmp_path / "theirs.pt")
    found = fl.load(tmp_path / "theirs.pt")
    assert found["x"].tolist() == [1.0, 2.0, 4.0] and found["row"].dtype is getattr(fl, name) and found["row"].tolist() == [2.0, 4.0]
    buffer = io.BytesIO()
    fl.save({"x": found["x"]}, buffer, format="pt")
    buffer.seek(0)
    back = torch.load(buffer, weights_only=True)["x"]
    assert back.dtype is getattr(torch, name) and back.float().tolist() == [1.0, 2.0, 4.0]
