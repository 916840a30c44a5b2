"""Structures of trees as text and back: JSON, in the form that `torch.utils._pytree` writes.

A node is {"type": name, "context": what its type makes of it, "children_spec": [nodes]}, a leaf a node of type null. Nothing of a text is run:
types are those that were registered here, and the factory of a defaultdict is looked up in modules that are imported already.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

PROTOCOL = 1


class Written(NamedTuple):
    """How a type is written: its name, and what is made of a context, and a context of that; None: JSON."""

    name: str
    dump: Callable[[Any], Any] | None = None
    load: Callable[[Any], Any] | None = None


def _factory(context: Any) -> Any:
    found: Any = sys.modules.get(context["default_factory_module"])
    for part in context["default_factory_name"].split("."):
        found = getattr(found, part, None)
    if not callable(found):
        given = f"{context['default_factory_module']}.{context['default_factory_name']}"
        raise ValueError(f"treespec_loads: {given} is not there; expected what a module that is imported has")
    return found


def _dump_defaultdict(context: Any) -> Any:
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys}


def _dump_namedtuple(kind: type) -> str:
    if kind not in named_tuples:
        raise NotImplementedError(f"treespec_dumps: {kind.__name__} is a named tuple without a name to be written; call _register_namedtuple")
    return named_tuples[kind]


def _load_namedtuple(name: str) -> type:
    for kind, known in named_tuples.items():
        if known == name:
            return kind
    raise NotImplementedError(f"treespec_loads: {name!r} is no named tuple that is known; call _register_namedtuple")


named_tuples: dict[type, str] = {}
types: dict[Any, Written] = {
    tuple: Written("builtins.tuple"),
    list: Written("builtins.list"),
    dict: Written("builtins.dict"),
    OrderedDict: Written("collections.OrderedDict"),
    deque: Written("collections.deque"),
    defaultdict: Written("collections.defaultdict", _dump_defaultdict, lambda context: [_factory(context), context["dict_context"]]),
    namedtuple: Written("collections.namedtuple", _dump_namedtuple, _load_namedtuple),
}


def _node(spec: Any) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    written = types.get(spec.type)
    if written is None:
        raise NotImplementedError(f"treespec_dumps: {spec.type.__name__} has no name to be written; register it with a serialized_type_name")
    if written.dump is not None:
        context = written.dump(spec.context)
    else:
        try:
            context = json.dumps(spec.context)
        except TypeError as error:
            how = "register it with to_dumpable_context and from_dumpable_context"
            raise TypeError(f"treespec_dumps: the context of {written.name} can not be written ({error}); {how}") from None
    return {"type": written.name, "context": context, "children_spec": [_node(child) for child in spec.children_specs]}


def written(spec: Any, protocol: int | None) -> str:
    """A structure as text."""
    return json.dumps([_known(PROTOCOL if protocol is None else protocol), _node(spec)])


def _known(protocol: Any) -> int:
    if protocol != PROTOCOL:
        raise ValueError(f"treespec: protocol {protocol}; expected {PROTOCOL}")
    return PROTOCOL


def read(text: str, make: Callable[[Any, Any, list[Any]], Any]) -> Any:
    """A structure of its text; `make` makes one of type, context and children."""
    protocol, root = json.loads(text)
    _known(protocol)
    return _read(root, {known.name: kind for kind, known in types.items()}, make)


def _read(given: dict[str, Any], by_name: dict[str, Any], make: Callable[[Any, Any, list[Any]], Any]) -> Any:
    name, context = given["type"], given["context"]
    if name is None:
        return make(None, None, [])
    if name not in by_name:
        raise NotImplementedError(f"treespec_loads: {name!r} is no type that is registered under that name")
    load = types[by_name[name]].load or json.loads
    return make(by_name[name], load(context), [_read(child, by_name, make) for child in given["children_spec"]])
