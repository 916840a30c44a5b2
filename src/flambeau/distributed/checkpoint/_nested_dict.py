"""States as one flat dict, and back: what lies in dicts, and in lists that hold tensors or dicts, gets a name of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau._C import Tensor
from flambeau.distributed.checkpoint.metadata import STATE_DICT_TYPE

OBJ_PATH = tuple[str | int, ...]
FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict: STATE_DICT_TYPE, before_2_4: bool = False) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """(the values by flat names, the path of each name). Keys of dicts become text.

    `before_2_4`: as versions of PyTorch before 2.4 did, which left dicts whole that hold neither tensors nor other dicts.

    >>> flatten_state_dict({"a": {"b": 1, "c": [2, 3]}})
    ({'a.b': 1, 'a.c': [2, 3]}, {'a.b': ('a', 'b'), 'a.c': ('a', 'c')})
    """
    flat: STATE_DICT_TYPE = {}
    paths: FLATTEN_MAPPING = {}
    waiting: list[tuple[OBJ_PATH, Any]] = []
    waiting += [((str(key),), value) for key, value in state_dict.items()][::-1]
    while waiting:
        path, value = waiting.pop()
        if _is_whole(value, before_2_4):
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}: the paths {paths[name]} and {path} have one name")
            flat[name], paths[name] = value, path
            continue
        items: Any = [(str(key), part) for key, part in value.items()] if isinstance(value, Mapping) else list(enumerate(value))
        waiting += [((*path, key), part) for key, part in items][::-1]
    return flat, paths


def _is_whole(value: Any, before_2_4: bool) -> bool:
    """Whether it is no dict, and no list with tensors or with what is not whole itself."""
    if not isinstance(value, (Mapping, list)):
        return True
    if isinstance(value, Mapping) and not before_2_4:
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return not any(
        isinstance(part, Tensor) or (isinstance(part, (Mapping, list)) and not _is_whole(part, before_2_4)) for part in parts
    )


def set_element(root_dict: Any, path: OBJ_PATH, value: Any) -> None:
    """Puts a value under its path, and makes the dicts and lists on the way that are not there.

    >>> state = {}
    >>> set_element(state, ("a", 1, "b"), 5)
    >>> state
    {'a': [None, {'b': 5}]}
    """
    at = root_dict
    for key, following in zip(path, path[1:]):
        empty: Any = {} if type(following) is str else []
        if isinstance(at, Mapping):
            at = at.setdefault(key, empty)  # type: ignore[attr-defined]
        else:
            _extend(at, key)
            if at[key] is None:
                at[key] = empty
            at = at[key]
    if type(path[-1]) is int:
        _extend(at, path[-1])
    at[path[-1]] = value


def _extend(items: Any, index: Any) -> None:
    while len(items) <= index:
        items.append(None)


def unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """The nested state again, of the flat values and their paths."""
    nested: STATE_DICT_TYPE = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
