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


@pytest.mark.slow
def test_the_demo_learns_saves_and_draws(tmp_path):
    result = run(folder=str(tmp_path), quiet=True)
    assert result.accuracy >= 0.98
    assert result.same_after_reload
    assert (tmp_path / "flambeau-demo.safetensors").exists()
    if result.picture_path is not None:
        assert (tmp_path / "flambeau-demo.png").read_bytes()[:4] == b"\x89PNG"


def test_the_version(capsys):
    import flambeau

    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"flambeau {flambeau.__version__}\n"


@pytest.mark.parametrize("argument, value", [("--epochs", "0"), ("--epochs", "-3"), ("--epochs", "two"), ("--seed", "-1")])
def test_numbers_out_of_range(argument, value, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", f"{argument}={value}"])
    assert end.value.code == 2 and f"{argument}: '{value}'; expected an integer >= " in capsys.readouterr().err
