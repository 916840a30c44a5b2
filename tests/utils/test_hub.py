"""`hub`: files of this machine are copied, nothing else is fetched."""

from __future__ import annotations

import hashlib

import pytest

import flambeau as fl
from flambeau import hub


def test_a_file_of_this_machine_is_copied(tmp_path):
    source, target = tmp_path / "some source.bin", tmp_path / "target.bin"
    source.write_bytes(b"weights")
    digits = hashlib.sha256(b"weights").hexdigest()
    hub.download_url_to_file(source.as_uri(), target, hash_prefix=digits[:8], progress=False)
    assert target.read_bytes() == b"weights"
    with pytest.raises(RuntimeError, match=f"SHA-256 {digits}; expected one that begins with ffff"):
        hub.download_url_to_file(source.as_uri(), target, hash_prefix="ffff")
    with pytest.raises(OSError, match="No such file"):
        hub.download_url_to_file((tmp_path / "none").as_uri(), target)
    assert target.read_bytes() == b"weights"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some source.bin", "target.bin"]


@pytest.mark.parametrize("url", ["https://example.org/a.pt", "file://elsewhere/a.pt", "a.pt"])
def test_anything_else_is_refused(url, tmp_path):
    with pytest.raises(hub.DownloadRefused, match="flambeau downloads nothing"):
        hub.download_url_to_file(url, tmp_path / "a.pt")
    with pytest.raises(hub.DownloadRefused, match="flambeau downloads nothing"):
        hub.load_state_dict_from_url(url, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_state_of_this_machine_is_loaded_by_way_of_the_cache(tmp_path):
    fl.save({"weight": fl.ones(2)}, tmp_path / "model.pt", format="pt")
    found = hub.load_state_dict_from_url((tmp_path / "model.pt").as_uri(), tmp_path / "cache")
    assert found["weight"].tolist() == [1.0, 1.0]
    assert (tmp_path / "cache" / "model.pt").exists()


def test_dependencies_are_looked_for(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['torch', 'json', 'no_such_package', 'no_such_package.part']\ndef one(): return 1\n")
    for call in (lambda: hub.load(str(tmp_path), "one", source="local"), lambda: hub.help(str(tmp_path), "one", source="local")):
        with pytest.raises(RuntimeError, match="depends on no_such_package, no_such_package.part; expected these to be installed"):
            call()
    assert hub.list(str(tmp_path), source="local") == ["one"]
    (tmp_path / "hubconf.py").write_text("dependencies = ['torch', 'json']\ndef one(): return 1\n")
    assert hub.load(str(tmp_path), "one", source="local") == 1
