"""The examples of the gallery: a short training of each makes its loss smaller, and the picture is drawn."""

import importlib.util
import math
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.eager("whole programs")

# So short that the test takes seconds, and so long that the loss falls by more than batches differ.
SHORT = {
    "char_gpt": "--steps 25 --batch-size 4 --length 32 --width 32 --blocks 2",
    "diffusion": "--steps 40 --batch-size 8 --width 16 --blocks 2",
    "forecaster": "--steps 60 --batch-size 16 --days 90 --width 16",
    "graph_convolution": "--steps 30 --nodes 200",
    "logistic_regression": "--steps 4",
    "lstm_language_model": "--steps 30 --width 32 --vocabulary 300 --batch-size 8",
    "resnet18": "--steps 24 --width 16 --pictures 200 --lr 0.02",
    "siamese": "--steps 60 --batch-size 32",
    "super_resolution": "--steps 40 --batch-size 4 --size 30 --width 12",
    "unet": "--steps 30 --batch-size 4 --size 24 --width 6",
    "vae": "--steps 60 --batch-size 32 --width 32",
    "custom_function": "--steps 60",
    "neural_ode": "--steps 25",
    "per_sample_gradients": "--steps 40",
    "physics_informed": "--steps 60 --points 64",
    # These have no loss that has to fall.
    "hessian_vector": "--steps 12",
    "actor_critic": "--steps 80 --moves 100",
    "dcgan": "--steps 80 --batch-size 32",
}


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def run(name, arguments, monkeypatch):
    """Runs an example as a program does; returns it and the losses of its last training."""
    example = load(name)
    losses, train = [], example.train

    def recorded(*args, **keywords):
        losses[:] = train(*args, **keywords)
        return list(losses)

    monkeypatch.setattr(example, "train", recorded)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    example.main()
    return example, losses


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHORT))
def test_trains_and_draws(name, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "picture.png"
    _, losses = run(name, [*SHORT[name].split(), "--picture", str(picture)], monkeypatch)
    out = capsys.readouterr().out
    assert all(math.isfinite(loss) for loss in losses)
    if name == "actor_critic":
        first, last = map(int, re.search(r"(\d+) in the first twenty, (\d+) in the last", out).groups())
        assert last > 1.5 * first
    elif name == "hessian_vector":  # guesses at the largest eigenvalue grow
        assert losses[-1] > losses[len(losses) // 2] > losses[0]
    elif name != "dcgan":
        n = max(1, len(losses) // 4)
        assert sum(losses[-n:]) < 0.95 * sum(losses[:n])
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG") and int.from_bytes(head[16:20], "big") > 400
    assert f"drew {picture}" in out


@pytest.mark.slow
def test_what_the_gan_draws_comes_nearer_to_digits():
    example = load("dcgan")
    example.fl.manual_seed(0)
    args = example.options().parse_args(SHORT["dcgan"].split())
    model, noise = example.make_model(args), example.fl.randn(64, example.N_NOISE)
    real = (example.Digits(train=True).data / 8.0 - 1.0).numpy().mean(0)

    def distance():
        return abs(example.draw_from(model["generator"], noise).mean(0) - real).mean()

    before = distance()
    example.train(model, args)
    assert distance() < 0.8 * before


WITH_PICTURES = {path.stem for path in EXAMPLES.glob("*.py") if "--picture" in path.read_text()}


def test_every_example_of_the_gallery_is_tested():
    assert set(SHORT) == WITH_PICTURES


def test_the_page_shows_every_example_once_and_its_pictures_are_small():
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == WITH_PICTURES
    assert set(re.findall(r"^\| \[(\w+)\]\(#\1\)", page, re.MULTILINE)) == WITH_PICTURES
    pictures = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert set(re.findall(r"\]\(pictures/(\w+)\.png\)", page)) == WITH_PICTURES == set(pictures)
    assert max(pictures.values()) < 60_000 and sum(pictures.values()) < 700_000


def test_the_list_of_examples_is_complete():
    listed = set(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert listed == {path.stem for path in EXAMPLES.glob("*.py")}


def test_an_example_without_matplotlib_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run("logistic_regression", ["--steps", "1"], monkeypatch)
    assert "no picture: matplotlib is missing (pip install 'flambeau[demo]')" in capsys.readouterr().out


@pytest.mark.slow
def test_a_gpt_with_a_cache_writes_the_same(monkeypatch, capsys):
    run("char_gpt", [*SHORT["char_gpt"].split(), "--picture", ""], monkeypatch)
    assert "the same text" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_cache_of_the_gpt_forgets_what_is_beyond_its_length(temperature, monkeypatch, capsys):
    example, _ = run("char_gpt", [*SHORT["char_gpt"].split(), "--steps", "1", "--picture", ""], monkeypatch)
    cache = example.Cache(3)
    for i in range(5):
        one = example.fl.full((1, 2, 1, 4), float(i))
        keys, values = cache.extend(one, -one)
    assert keys[0, 0, :, 0].tolist() == [2.0, 3.0, 4.0] and values[0, 0, :, 0].tolist() == [-2.0, -3.0, -4.0]
    model = example.make_model(example.options().parse_args(SHORT["char_gpt"].split()))
    assert len(example.write(model, "The ", 50, 16, temperature)) == 54
