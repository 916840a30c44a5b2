"""Ordinary classes of the program: which of them `load(weights_only=False)` makes instances of, and how.

PyTorch's programs save objects beside their tensors: a space of actions, a tokenizer, a configuration. Such an object is its class by name
and its attributes. It is made again without `__init__`, and gets its attributes as they are in the file; where its class has a
`__setstate__` or a `__new__`, that is called, which is code of the program and not of the file. A class derived from `set`, `frozenset`,
`OrderedDict`, `defaultdict`, `Counter` or `deque`, whose pickles call it, is not called either: the container's own functions make the
instance.

That a file is trusted does not make it right to run what it names, so kept out are classes

* with a `__del__`: it would run with whatever attributes the file says, and delete files, say;
* of Python's own library, but for modules of harmless ones;
* of packages that start processes, run text as code, unpickle, or load libraries;
* that say by functions of their own how they are made (`__reduce__`), or are made by compiled code.
"""

from __future__ import annotations

import copyreg
import sys
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import FunctionType, MemberDescriptorType
from typing import Any

from flambeau._C import Tensor
from flambeau.nn._errors import kind_of
from flambeau.serialization._allowed import is_never_allowed
from flambeau.serialization._errors import FileFormatError, short

# What objects of classes derived from these are made of: the types of the arguments of __new__, None for any, which it ignores.
_ROOTS: dict[type, tuple[type, ...] | None] = {
    object: None, dict: None, list: None, tuple: (tuple,), str: (str,), bytes: (bytes,), int: (int,), float: (float,),
    complex: (float, float),
}  # fmt: skip
# Containers whose pickles call the class with these.
_CALLED: dict[type, str] = {
    set: "a list", frozenset: "a list", OrderedDict: "nothing", defaultdict: "None or a class of plain values", Counter: "a dict",
    deque: "nothing, or an empty tuple and the most items",
}  # fmt: skip
_BASES = {*_ROOTS, *_CALLED, typing.Generic, typing.Protocol}
# What a defaultdict of a file may make: functions of no arguments that make something empty.
FACTORIES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (list, dict, int, float, set, str, tuple, bool, complex, frozenset, bytes, bytearray, OrderedDict, Counter, deque)
}
_FROM_A_CLASS_STATEMENT = 1 << 9  # Py_TPFLAGS_HEAPTYPE
# Modules of Python's whose classes only hold what they are given.
_HARMLESS = {
    "_collections_abc", "abc", "calendar", "collections", "configparser", "contextlib", "graphlib", "numbers", "statistics", "string",
    "textwrap", "uuid",
}  # fmt: skip
# What starts processes and threads, runs text as code, unpickles, loads libraries, opens files and connections: no instances, no values.
_KEPT_OUT = {
    # of Python
    "_ctypes", "_pickle", "_posixsubprocess", "_thread", "_winapi", "asyncio", "atexit", "bdb", "cProfile", "code", "codeop",
    "compileall", "concurrent", "copyreg", "ctypes", "dbm", "distutils", "doctest", "ensurepip", "faulthandler", "fileinput",
    "ftplib", "gc", "http", "idlelib", "imaplib", "imp", "importlib", "io", "_io", "lib2to3", "linecache", "mailbox", "marshal",
    "mmap", "modulefinder", "multiprocessing", "nntplib", "pdb", "pickle", "pickletools", "pipes", "pkgutil", "poplib", "profile",
    "pstats", "pty", "py_compile", "resource", "runpy", "sched", "select", "selectors", "shelve", "signal", "site", "smtpd",
    "smtplib", "socket", "_socket", "socketserver", "sqlite3", "ssl", "sysconfig", "tarfile", "telnetlib", "tempfile", "threading",
    "timeit", "tkinter", "trace", "turtle", "unittest", "urllib", "venv", "weakref", "_weakref", "webbrowser", "winreg", "wsgiref",
    "xmlrpc", "zipapp", "zipfile", "zipimport",
    # of packages
    "Cython", "IPython", "_distutils_hack", "_pytest", "billiard", "cffi", "cloudpickle", "cppyy", "dill", "execnet", "fabric",
    "fsspec", "invoke", "ipykernel", "joblib", "loky", "multiprocess", "numba", "paramiko", "pexpect", "pip", "pkg_resources",
    "pluggy", "plumbum", "psutil", "ptyprocess", "pyximport", "pytest", "ray", "setuptools", "sh", "zmq",
}  # fmt: skip


def is_kept_out(module: str) -> bool:
    """Whether a module is one of those whose classes and functions no file gets by `weights_only=False`."""
    return is_never_allowed(module) or module.partition(".")[0] in _KEPT_OUT


def is_reduced_by_object(kind: Any) -> bool:
    """Whether instances are pickled as `object` does it: the class by name, and the attributes."""
    return (
        kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__ and kind not in copyreg.dispatch_table
        and not issubclass(kind, type) and bool(kind.__flags__ & _FROM_A_CLASS_STATEMENT)
    )  # fmt: skip


def why_not_made(kind: Any) -> str | None:
    """Why no file gets an instance of a class that the program has imported, or None where it does.

    >>> class Space:
    ...     pass
    >>> class Closing:
    ...     def __del__(self):
    ...         pass
    >>> why_not_made(Space), why_not_made(Closing)
    (None, 'its __del__ would run with what the file says')
    """
    for base in kind.__mro__:
        if base in _BASES or base is Tensor:
            continue
        whose = "it is" if base is kind else f"its base {base.__qualname__} is"
        module = base.__module__ if isinstance(base.__module__, str) else ""
        top = module.partition(".")[0]
        if is_kept_out(module):
            return f"{whose} of {top}, whose objects do more than hold what they are given"
        if not base.__flags__ & _FROM_A_CLASS_STATEMENT:
            return f"{whose} made by compiled code"
        if top in sys.stdlib_module_names and top not in _HARMLESS:
            return f"{whose} of Python's own {top}"
        if "__del__" in vars(base):
            return "its __del__ would run with what the file says"
    if issubclass(kind, Tensor):  # whose functions make it: `_torch_tensors.py`
        return None if kind.__reduce_ex__ is Tensor.__reduce_ex__ else "it says by functions of its own how it is made"
    if not is_reduced_by_object(kind) and not is_called(kind):
        return "it says by functions of its own how it is made"
    root = _root(kind)
    new = kind.__new__
    if new is not root.__new__ and not (isinstance(new, FunctionType) and root is object):
        return "it has a __new__ of its own"
    room = bool(kind.__dictoffset__) + bool(kind.__weakrefoffset__) + len(_slots(kind))
    return "it is made by compiled code" if kind.__basicsize__ > root.__basicsize__ + 8 * room else None


def is_called(kind: Any) -> bool:
    """Whether instances are pickled as a container does it that is called with its items."""
    root = _root(kind)
    return (
        root in _CALLED and kind is not root and kind.__reduce__ is root.__reduce__ and kind.__reduce_ex__ is root.__reduce_ex__
        and kind not in copyreg.dispatch_table
    )  # fmt: skip


def _root(kind: type) -> type:
    return next(base for base in kind.__mro__ if base in _ROOTS or base in _CALLED)


def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    """What `__slots__` of a class and of its bases has made."""
    found: dict[str, MemberDescriptorType] = {}
    for base in reversed(kind.__mro__):
        if "__slots__" in vars(base):
            found |= {name: member for name, member in vars(base).items() if isinstance(member, MemberDescriptorType)}
    return found


def new_instance(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An instance without `__init__`."""
    if issubclass(kind, Tensor):
        raise FileFormatError(f"an instance of {kind.__qualname__} is wanted without elements; expected one that is made of a tensor")
    root = _root(kind)
    if root in _CALLED:
        raise FileFormatError(f"an instance of {kind.__qualname__} is wanted without items; expected a call")
    if kind.__new__ is not root.__new__:
        return kind.__new__(kind, *args, **kwargs)
    wanted = _ROOTS[root]
    if wanted is None:
        return root.__new__(kind)
    if kwargs or tuple(map(type, args)) != wanted:
        raise FileFormatError(f"a {kind.__qualname__} is made of {short(args)}; expected {', '.join(part.__name__ for part in wanted)}")
    return root.__new__(kind, *args)  # type: ignore[call-arg]


def called_instance(kind: Any, args: tuple[Any, ...], check: Callable[[list[Any]], None]) -> Any:
    """What a call of a class that `is_called` would give, by the container's own functions. `check` looks at what is hashed."""
    root: Any = _root(kind)
    fits = True
    made = root.__new__(kind)
    if root in (set, frozenset):
        (items,) = args if len(args) == 1 and type(args[0]) is list else ([],)
        fits = not args or items is args[0]
        check(items)
        if root is set:
            set.update(made, items)
        else:
            made = frozenset.__new__(kind, items)
    elif root is Counter:
        fits = not args or len(args) == 1 and type(args[0]) is dict
        if fits and args:
            dict.update(made, args[0])
    elif root is defaultdict:
        fits = len(args) <= 1 and (not args or args[0] is None or any(args[0] is factory for factory in FACTORIES.values()))
        if fits:
            defaultdict.__init__(made, *args)
    elif root is deque:
        most = args[1] if len(args) == 2 else None
        fits = not args or args[0] == () and len(args) <= 2 and (most is None or type(most) is int and 0 <= most < 2**63)
        if fits:
            deque.__init__(made, (), most)
    else:
        fits = not args
    if not fits:
        raise FileFormatError(f"a {kind.__qualname__} is made of {short(args)}; expected {_CALLED[root]}")
    return made


def add_items(target: Any, items: list[Any]) -> None:
    """By the functions of the list or deque that an object is."""
    (list if isinstance(target, list) else deque).extend(target, items)


def set_ordinary_state(target: Any, state: Any) -> None:
    """What pickle does for BUILD, but that nothing but attributes and slots is set where the class has no `__setstate__`."""
    kind = type(target)
    if (own := getattr(kind, "__setstate__", None)) is not None:
        own(target, state)
        return
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in parts:
        if part is not None and (not isinstance(part, dict) or not all(type(key) is str for key in part)):
            raise FileFormatError(f"{kind_of(target)} has the state {short(state)}; expected attributes by names")
    held, slots = parts
    members = _slots(kind) if slots else {}
    for key, value in (slots or {}).items():
        if key not in members:
            raise FileFormatError(
                f"{kind_of(target)} has the slot {short(key)} in the file; expected one of {', '.join(members) or 'none'}"
            )
        members[key].__set__(target, value)
    if held:
        target.__dict__.update(held)
