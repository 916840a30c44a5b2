"""Sobol sequences beside PyTorch's: the same numbers, however they are drawn."""

import pytest

import flambeau as fl

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 20, 100, 1111, 21201])
def test_sequences(dimension):
    ours, theirs = (lib.quasirandom.SobolEngine(dimension) for lib in (fl, torch))
    assert (ours.sobolstate.numpy() == theirs.sobolstate.numpy()).all()
    for n in (1, 1, 5, 2, 64, 7):
        assert ours.draw(n).numpy().tobytes() == theirs.draw(n).numpy().tobytes()
    for engine in (ours, theirs):
        engine.fast_forward(9)
    assert ours.draw(3, dtype=fl.float64).numpy().tobytes() == theirs.draw(3, dtype=torch.float64).numpy().tobytes()
    for engine in (ours, theirs):
        engine.reset()
        engine.fast_forward(5)
    assert ours.draw(2).numpy().tobytes() == theirs.draw(2).numpy().tobytes() and ours.num_generated == theirs.num_generated
    assert repr(ours) == repr(theirs)
    for engine in (ours, theirs):
        engine.reset()
    for m in (2, 2, 3):
        assert ours.draw_base2(m).numpy().tobytes() == theirs.draw_base2(m).numpy().tobytes()
