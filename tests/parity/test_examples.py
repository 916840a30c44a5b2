"""The examples train as in PyTorch: the same file, its import changed, from the same weights and with the same draws.

Every random draw of an example comes from NumPy here, so that both libraries see the same pictures, batches and noise. In float64 the
losses of 50 steps agree to 1e-8. In float32 rounding grows along the way as the model has it, by up to some hundred times between the first
and the last step, in PyTorch as here. So PyTorch's own distance from its float64 run is the measure: ours may be as far, up to a factor.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import types

import numpy as np
import pytest

import flambeau as fl

torch = pytest.importorskip("torch", reason="torch is not installed; `make parity` installs it")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.eager("whole programs")

STEPS = 50
SMALL = {
    "actor_critic": "--moves 40 --width 16",
    "char_gpt": "--batch-size 4 --length 24 --width 32 --blocks 2",
    "dcgan": "--batch-size 16",
    "diffusion": "--batch-size 8 --width 16 --blocks 2",
    "forecaster": "--batch-size 4 --days 60 --width 12",
    "graph_convolution": "--nodes 120",
    "logistic_regression": "--penalty 0",
    "lstm_language_model": "--batch-size 4 --length 12 --vocabulary 200 --width 24",
    "resnet18": "--batch-size 16 --pictures 128 --width 8 --lr 0.005",
    "siamese": "--batch-size 16",
    "super_resolution": "--batch-size 2 --size 24 --width 8",
    "unet": "--batch-size 2 --size 24 --width 4",
    "vae": "--batch-size 16 --width 32",
}


def load(name, library):
    """The example as a module; its one line that names the library is changed."""
    source = (EXAMPLES / f"{name}.py").read_text()
    line = "import flambeau as fl\n"
    assert source.count(line) == 1
    module = types.ModuleType(f"{name}_with_{library.__name__}")
    exec(compile(source.replace(line, f"import {library.__name__} as fl\n"), f"{name}.py", "exec"), module.__dict__)
    assert module.fl is library
    return module


@contextlib.contextmanager
def drawing_alike(library, seed=0):
    """What draws random numbers takes them from NumPy, in the library's types."""
    rng = np.random.default_rng(seed)

    def floats(values, dtype=None):
        return library.tensor(values, dtype=dtype or library.get_default_dtype())

    def sizes(size):
        return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size

    def multinomial(chances, n):
        assert n == 1 and chances.dim() == 1
        below = np.cumsum(chances.detach().double().numpy())
        return library.tensor([min(int(np.searchsorted(below, rng.random() * below[-1])), len(below) - 1)])

    draws = {
        "rand": lambda *size, dtype=None: floats(rng.random(sizes(size)), dtype),
        "randn": lambda *size, dtype=None: floats(rng.standard_normal(sizes(size)), dtype),
        "randn_like": lambda x: floats(rng.standard_normal(tuple(x.shape)), x.dtype),
        "randint": lambda low, high, size: library.tensor(rng.integers(low, high, tuple(size))),
        "randperm": lambda n: library.tensor(rng.permutation(n)),
        "multinomial": multinomial,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, draw in draws.items():
            patch.setattr(library, name, draw)
        yield


def losses_of(module, library, weights, args, dtype):
    """The losses of a training from these weights."""
    library.set_default_dtype(getattr(library, dtype))
    try:
        with drawing_alike(library):
            model = module.make_model(args)
            model.load_state_dict({key: library.tensor(value) for key, value in weights.items()})
            return np.array(module.train(model, args))
    finally:
        library.set_default_dtype(library.float32)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_fifty_steps_from_the_same_weights(name, capsys):
    ours, theirs = load(name, fl), load(name, torch)
    args = ours.options().parse_args(["--steps", str(STEPS), *SMALL[name].split()])
    fl.manual_seed(0)
    weights = {key: value.numpy().copy() for key, value in ours.make_model(args).state_dict().items()}
    runs = {
        (module.fl.__name__, dtype): losses_of(module, module.fl, weights, args, dtype)
        for module in (ours, theirs)
        for dtype in ("float64", "float32")
    }
    exact = runs["torch", "float64"]
    assert len(exact) == STEPS and np.isfinite(exact).all() and np.ptp(exact) > 0
    np.testing.assert_allclose(runs["flambeau", "float64"], exact, rtol=1e-8, atol=1e-10)

    unit = np.finfo(np.float32).eps * np.maximum(np.abs(exact), 1e-2)
    ours_off, theirs_off = (np.abs(runs[library, "float32"] - exact) / unit for library in ("flambeau", "torch"))
    if sys.stdout.isatty() or True:
        with capsys.disabled():
            print(f"\n{name}: f64 {np.abs(runs['flambeau', 'float64'] / exact - 1).max():.1e}, units of f32: ours {ours_off.max():.1f} torch {theirs_off.max():.1f}; ours at 1st {ours_off[0]:.1f} {theirs_off[0]:.1f}; loss {exact[0]:.4f} {exact[-1]:.4f}")
    allowed = 8 * np.maximum.accumulate(theirs_off) + 16
    assert (ours_off <= allowed).all(), f"furthest {ours_off.max():.0f} units of rounding, PyTorch {theirs_off.max():.0f}"
