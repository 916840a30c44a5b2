"""Programs written for PyTorch, as they are published, run unmodified by `flambeau run`."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from flambeau.datasets import Digits

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
pytestmark = pytest.mark.eager("programs in processes of their own")


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    arrays = {}
    for name, part in (("train", Digits(train=True)), ("test", Digits(train=False))):
        arrays[f"{name}_images"] = part.data.view(-1, 8, 8).numpy()
        arrays[f"{name}_labels"] = part.targets.numpy()
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    words = "the cat sat on the mat and saw the dog run to the old red barn by the hill where it had met her".split()
    order = np.random.default_rng(0).integers(0, len(words), 3000)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(words[i] for i in order))
    return path


def run(program, *arguments):
    command = [sys.executable, "-m", "flambeau", "run", str(PROGRAMS / f"{program}.py"), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def numbers(pattern, output):
    return [float(n) for n in re.findall(pattern, output)]


@pytest.mark.slow
def test_char_gpt(text):
    out = run("char_gpt", text)
    first, last = re.search(r"first ([\d.]+) last ([\d.]+)", out).groups()
    assert float(last) < float(first) - 0.5
    assert len(out.split("\n", 1)[1].rstrip("\n")) == 41


@pytest.mark.slow
def test_digits(digits, tmp_path):
    out = run("digits", digits, "--save-model", tmp_path / "digits.pt")
    assert int(re.findall(r"Accuracy: (\d+)/599", out)[-1]) > 480
    assert "saved and loaded: True" in out


@pytest.mark.slow
def test_vae(digits):
    losses = numbers(r"Average loss: ([\d.]+)", run("vae", digits))
    assert losses[-1] < losses[0] - 5


@pytest.mark.slow
def test_dcgan(digits):
    out = run("dcgan", digits)
    assert numbers(r"Loss_D: ([\d.]+)", out)[0] < 1.45
    assert "(8, 1, 8, 8)" in out


@pytest.mark.slow
def test_word_lm(text):
    out = run("word_lm", text)
    losses = numbers(r"loss +([\d.]+)", out)
    assert losses[1] < losses[0]
    assert losses[1] < numbers(r"uniform ([\d.]+)", out)[0]


@pytest.mark.slow
def test_actor_critic():
    assert numbers(r"running reward ([\d.]+)", run("actor_critic"))[0] > 40


@pytest.mark.slow
def test_super_resolution(digits):
    learned, bicubic = re.search(r"PSNR: ([\d.]+) dB, bicubic ([\d.]+) dB", run("super_resolution", digits)).groups()
    assert float(learned) > float(bicubic) + 1


@pytest.mark.slow
def test_logistic_regression(digits):
    out = run("logistic_regression", digits)
    losses = [float(n) for n in re.search(r"losses (.*)", out)[1].split()]
    assert losses[0] == pytest.approx(np.log(10), abs=1e-6)
    assert losses == sorted(losses, reverse=True)
    assert numbers(r"accuracy ([\d.]+)", out)[0] > 0.93
