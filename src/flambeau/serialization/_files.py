"""Files that appear only when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from typing import Any

from flambeau._errors import NoFolderError, NoTensorError


def path_of(op: str, f: Any) -> str:
    try:
        return os.fsdecode(f)
    except TypeError:
        raise NoTensorError(f"{op}: f is a {type(f).__name__}; expected 'f' to be string, path, or a file-like object") from None


def write_file(path: str, write: Callable[[Any], None]) -> None:
    """Calls `write(file)` for what `path` stands for: a link's target, a pipe, or a file that is replaced at the end."""
    try:
        target = os.path.realpath(path)
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if os.path.exists(target) and not os.path.isfile(target):  # a pipe, a device
            with open(target, "wb") as file:
                write(file)
        else:
            _replace(target, write)
    except OSError as error:
        folder = os.path.dirname(path)
        if isinstance(error, FileNotFoundError) and folder and not os.path.isdir(folder):
            raise NoFolderError(errno.ENOENT, f"Parent directory {folder} does not exist.", path) from None
        if error.errno is None or error.filename == path:
            raise
        # The names in the error are the temporary file's or the link's target.
        raise OSError(error.errno, error.strerror, path) from None


def write_text(path: Any, text: str) -> None:
    """Writes a text as UTF-8, as `write_file` does."""
    data = text.encode()
    write_file(os.fsdecode(path), lambda file: file.write(data))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _replace(path: str, write: Callable[[Any], None]) -> None:
    """Writes to a temporary name in the same folder, syncs, and renames."""
    folder, name = os.path.split(path)
    # A name may be as long as the file system allows; the temporary one holds its beginning. It is known before the file is there, so that
    # whatever comes between, as Ctrl+C may, leaves no file behind.
    temporary = os.path.join(folder, f"{name[:32]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=_private) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            mode = os.stat(path).st_mode & 0o777
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise
    try:
        where = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(where)
    except OSError:
        pass  # some file systems cannot sync a folder; the data itself is synced
    finally:
        os.close(where)
