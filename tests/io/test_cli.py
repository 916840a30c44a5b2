"""The command line and the demo."""

import pytest

from flambeau import cli
from flambeau._demo import run


def test_info_prints_the_configuration(capsys):
    assert cli.main(["info"]) == 0
    assert "flambeau" in capsys.readouterr().out


def test_the_command_is_required(capsys):
    with pytest.raises(SystemExit):
        cli.main([])
    assert "demo" in capsys.readouterr().err


def test_the_demo_learns_saves_and_draws(tmp_path):
    result = run(folder=str(tmp_path), quiet=True)
    assert result.accuracy >= 0.98
    assert result.same_after_reload
    assert (tmp_path / "flambeau-demo.safetensors").exists()
    if result.picture_path is not None:
        assert (tmp_path / "flambeau-demo.png").read_bytes()[:4] == b"\x89PNG"
