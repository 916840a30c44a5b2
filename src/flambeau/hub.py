"""`torch.hub`: models of local folders (`hubconf.py`) and weights that lie in the cache already. Nothing is ever downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import url2pathname

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_dir: str | None = None


def __getattr__(name: str) -> Any:
    """`tqdm`, which programs take from here as they find it in PyTorch, where it is installed."""
    if name == "tqdm":
        with contextlib.suppress(ImportError):
            return importlib.import_module("tqdm.auto").tqdm
    raise AttributeError(f"module 'flambeau.hub' has no attribute '{name}'")


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # in names of files: the first digits of what is in them


class DownloadRefused(RuntimeError):
    """Something is asked for that only a download could bring."""


def _refused(what: str, instead: str) -> NoReturn:
    raise DownloadRefused(
        f"hub: {what} would have to be downloaded, and flambeau downloads nothing: code and weights of others are yours to fetch "
        f"and to trust. {instead}"
    )


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of what was fetched before: `$TORCH_HOME/hub`, or what `set_dir` said."""
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: Any) -> None:
    """Takes another folder."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _folder(repo_or_dir: str, source: str, force_reload: bool) -> str:
    if source not in ("github", "local"):
        raise ValueError(f"hub: source = {source!r}; expected 'github' or 'local'")
    if source == "local":
        return os.fspath(repo_or_dir)
    if force_reload:
        _refused(f"the repository {repo_or_dir} (force_reload=True)", "Leave force_reload out to use what lies in the cache.")
    name, _, branch = repo_or_dir.partition(":")
    for ref in [branch] if branch else ["main", "master"]:
        place = os.path.join(get_dir(), f"{name.replace('/', '_')}_{ref.replace('/', '_')}")
        if os.path.isdir(place):
            return place
    _refused(f"the repository {repo_or_dir}", "Clone it and call hub.load(folder, model, source='local').")


def _entries(folder: str) -> Any:
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"hub: {path} does not exist; expected a folder with a hubconf.py")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _is_there(package: str) -> bool:
    try:
        return package in sys.modules or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a package in one that is not there
        return False


def _entry(folder: str, model: str) -> Any:
    module = _entries(folder)
    wanted = getattr(module, "dependencies", None) or ()
    if missing := [package for package in wanted if package != "torch" and not _is_there(package)]:  # torch is this library
        raise RuntimeError(f"hub: {folder}/hubconf.py depends on {', '.join(missing)}; expected these to be installed")
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"hub: {folder}/hubconf.py has no entry {model!r}; it has {', '.join(_names(folder))}")
    return found


def _names(folder: str) -> Any:
    module = _entries(folder)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> Any:  # noqa: A001
    """The entries of a hubconf.py."""
    return _names(_folder(github, source, force_reload))


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check", *, source: str = "github"
) -> Any:  # noqa: A001
    """The docstring of an entry."""
    return _entry(_folder(github, source, force_reload), model).__doc__


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the entry `model` of a folder's hubconf.py returns; a repository has to lie in the cache already.

    What lies there was put there by the user, so that it is neither validated nor asked about (`skip_validation`, `trust_repo`).

    Raises:
        DownloadRefused: it does not.
        RuntimeError: there is no such entry, or what `dependencies` in hubconf.py names is not installed.
    """
    return _entry(_folder(repo_or_dir, source, force_reload), model)(*args, **kwargs)


def _local(url: str) -> str | None:
    """The path that a file:// URL of this machine means; None for other URLs."""
    parts = urlparse(url)
    return url2pathname(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copies the file that a file:// URL means; any other is refused.

    Args:
        hash_prefix: the first digits of the SHA-256 that the file is to have.
        progress: taken for PyTorch's sake: a copy takes no time that is worth a bar.

    Raises:
        DownloadRefused: the URL is none of this machine.
        FileNotFoundError: there is no such file.
        RuntimeError: it has other digits; `dst` is left as it was.
    """
    source, dst = _local(url), os.path.expanduser(os.fspath(dst))
    if source is None:
        _refused(url, f"Fetch it yourself and put it at {dst}.")
    part = f"{dst}.{os.getpid()}.part"
    try:
        shutil.copyfile(source, part)
        if hash_prefix is not None:
            _check_digits(part, hash_prefix, source)
        os.replace(part, dst)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Loads the file of that name from the cache (`get_dir()/checkpoints`), where a file:// URL is copied to.

    Raises:
        DownloadRefused: it is not there.
        RuntimeError: `check_hash`, and the file has not the digits of SHA-256 that its name has.
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        download_url_to_file(url, path, progress=progress)
    if check_hash:
        named = HASH_REGEX.search(os.path.basename(path))
        _check_digits(path, named[1] if named else "", path)
    from flambeau import load as load_file

    return load_file(path, map_location, weights_only=weights_only)


def _check_digits(path: str, digits: str, name: str) -> None:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    if not found.hexdigest().startswith(digits):
        raise RuntimeError(f"hub: {name} has the SHA-256 {found.hexdigest()}; expected one that begins with {digits}")


load_url = load_state_dict_from_url
