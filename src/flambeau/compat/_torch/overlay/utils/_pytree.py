"""`torch.utils._pytree`: nested containers as a list of leaves and a spec, with types that packages register."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from flambeau._C import Size
from flambeau._handles import Table
from flambeau.compat._torch.overlay.utils import _tree_text
from flambeau.func import _tree

__all__ = ["LeafSpec", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_flatten_with_path", "tree_iter", "tree_leaves",
           "tree_map", "tree_map_", "tree_map_only", "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads",
           "treespec_pprint"]  # fmt: skip

PyTree = Any
Context = Any
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The place of a value in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The place of a value in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The place of a value in an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How objects of a type are taken apart and put together."""

    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


SUPPORTED_NODES: dict[type, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[str, type] = {}
BUILTIN_TYPES: set[type] = {tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque}  # type: ignore[arg-type]


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, *, serialized_type_name: str | None = None, to_dumpable_context: Any = None,
                         from_dumpable_context: Any = None, flatten_with_keys_fn: Any = None) -> None:  # fmt: skip
    """Makes objects of a class containers: `flatten_fn(object)` gives (children, context), `unflatten_fn(children, context)` the object.

    Raises:
        ValueError: the class is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls.__name__} is registered already")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"register_pytree_node: {cls.__name__}: expected both of to_dumpable_context and from_dumpable_context, or none")
    if serialized_type_name is not None:
        _tree_text.types[cls] = _tree_text.Written(serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if not hasattr(cls, "_add_batch_dim"):  # such a class says itself what it is to `vmap`
        _tree.registered.setdefault(cls, functools.partial(_apart, flatten_fn, unflatten_fn))
    SUPPORTED_SERIALIZED_TYPES[serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"] = cls


def _apart(flatten_fn: Any, unflatten_fn: Any, tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """For transformations of functions, which go through such objects as through lists."""
    children, context = flatten_fn(tree)
    return list(children), lambda items: unflatten_fn(items, context)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Takes back what `register_pytree_node` did."""
    del SUPPORTED_NODES[cls]
    _tree.registered.pop(cls, None)
    _tree_text.types.pop(cls, None)
    for name in [n for n, kind in SUPPORTED_SERIALIZED_TYPES.items() if kind is cls]:
        del SUPPORTED_SERIALIZED_TYPES[name]


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a named tuple the name under which structures with it are written."""
    _tree_text.named_tuples[cls] = serialized_type_name


def register_dataclass(cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None, serialized_type_name: str | None = None) -> None:
    """Makes the fields of a dataclass its children."""
    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init and f.name not in (drop_field_names or ())]
    register_pytree_node(cls, lambda x: ([getattr(x, n) for n in names], names), lambda values, n: cls(**dict(zip(n, values))),
                         serialized_type_name=serialized_type_name, flatten_with_keys_fn=lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in names], names))  # fmt: skip


class ConstantNode(NamedTuple):
    """The context of an object without children."""

    value: Any


def register_constant(cls: type) -> None:
    """Makes objects of a class containers without children, which a spec holds: they are equal and hashed by what they are.

    Raises:
        TypeError: the class has no `__eq__` of its own, or no `__hash__`.
    """
    own = [getattr(cls, name) not in (None, getattr(object, name)) for name in ("__eq__", "__hash__")]
    if not all(own):
        raise TypeError(f"register_constant: {cls.__name__} is compared by identity; expected an __eq__ and a __hash__ of its own")
    register_pytree_node(cls, lambda x: ([], ConstantNode(x)), lambda _, context: context.value, flatten_with_keys_fn=lambda x: ([], ConstantNode(x)))


def is_constant_class(cls: type) -> bool:
    """Whether `register_constant` was called for a class."""
    node = SUPPORTED_NODES.get(cls)
    return node is not None and getattr(node.unflatten_fn, "__qualname__", "").startswith("register_constant.")


def _is_namedtuple(x: Any) -> bool:
    kind = x if isinstance(x, type) else type(x)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


is_namedtuple = is_namedtuple_class = is_namedtuple_instance = _is_namedtuple_instance = _is_namedtuple


def is_structseq(obj: Any) -> bool:
    """Whether an object or class is one of C's named tuples, as `time.struct_time`; results of several tensors are Python's here."""
    kind = obj if isinstance(obj, type) else type(obj)
    return tuple in kind.__bases__ and all(isinstance(getattr(kind, n, None), int) for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))


is_structseq_class = is_structseq_instance = is_structseq


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    if kind not in SUPPORTED_NODES:
        if isinstance(tree, Table):  # `module._parameters`, a plain dict there
            return dict
        if _is_namedtuple(tree):
            return namedtuple
        if kind.__module__.endswith(".return_types") and is_structseq(kind):  # several tensors, as `x.max(0)` returns them
            SUPPORTED_NODES[kind] = NodeDef(_tuple_flatten, lambda values, _: kind(values), _tuple_flatten_with_keys)
    return kind


# ---- the containers that are known from the start


def _numbered(flatten: Callable[[Any], tuple[list[Any], Any]], key: Any = SequenceKey) -> Callable[[Any], tuple[list[tuple[Any, Any]], Any]]:
    """A function that gives children with their places."""

    def flatten_with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten(x)
        return [(key(i), v) for i, v in enumerate(values)], context

    return flatten_with_keys


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, values))


def _ordereddict_unflatten(values: Iterable[Any], keys: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(keys, values))


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(k), v) for k, v in d.items()], [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> defaultdict[Any, Any]:
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], maxlen: Any) -> deque[Any]:
    return deque(values, maxlen=maxlen)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(GetAttrKey(name), v) for name, v in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], kind: Any) -> Any:
    return kind(*values)


_tuple_flatten_with_keys, _list_flatten_with_keys = _numbered(_tuple_flatten), _numbered(_list_flatten)
_deque_flatten_with_keys = _numbered(_deque_flatten)
_odict_flatten = _ordereddict_flatten = _dict_flatten
_odict_unflatten, _ordereddict_flatten_with_keys = _ordereddict_unflatten, _dict_flatten_with_keys
SUPPORTED_NODES[tuple] = NodeDef(_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys)
SUPPORTED_NODES[list] = NodeDef(_list_flatten, _list_unflatten, _list_flatten_with_keys)
SUPPORTED_NODES[dict] = NodeDef(_dict_flatten, _dict_unflatten, _dict_flatten_with_keys)
SUPPORTED_NODES[OrderedDict] = NodeDef(_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys)
SUPPORTED_NODES[defaultdict] = NodeDef(_defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys)
SUPPORTED_NODES[deque] = NodeDef(_deque_flatten, _deque_unflatten, _deque_flatten_with_keys)
SUPPORTED_NODES[Size] = NodeDef(_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys)
_tree_text.types[Size] = _tree_text.Written("torch.Size")
SUPPORTED_NODES[namedtuple] = NodeDef(_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys)  # type: ignore[index]


def _is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


@dataclasses.dataclass(init=True, eq=True, repr=False)
class TreeSpec:
    """The structure of a tree, without its leaves."""

    type: Any
    context: Any
    children_specs: list[TreeSpec]
    num_nodes: int = dataclasses.field(init=False, compare=False)
    num_leaves: int = dataclasses.field(init=False, compare=False)
    num_children: int = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        leaf = self.type is None
        self.num_nodes = 1 + sum(s.num_nodes for s in self.children_specs)
        self.num_leaves = 1 if leaf else sum(s.num_leaves for s in self.children_specs)
        self.num_children = len(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is the structure of one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What of `tree` stands where this structure has leaves."""
        if self.type is None:
            return [tree]
        if _get_node_type(tree) != self.type:
            raise ValueError(f"flatten_up_to: got a {type(tree).__name__}; expected a {self.type.__name__}")
        children, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if len(children) != self.num_children or (self.type is not dict and context != self.context):
            raise ValueError(f"flatten_up_to: the {type(tree).__name__} has another structure: {len(children)} children; expected {self.num_children}")
        if self.type is dict:
            if set(context) != set(self.context):
                raise ValueError(f"flatten_up_to: the keys are {context}; expected {self.context}")
            children = [tree[key] for key in self.context]
        return [leaf for child, spec in zip(children, self.children_specs) for leaf in spec.flatten_up_to(child)]

    def __repr__(self) -> str:
        return self._fl_shown(2)

    def _fl_shown(self, indent: int) -> str:
        if self.type is None:
            return "*"
        inner = f",\n{' ' * indent}".join(s._fl_shown(indent + 2) for s in self.children_specs)
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, [{inner}])"

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and other.type is None

    def __hash__(self) -> int:
        return hash(None)


def treespec_leaf() -> LeafSpec:
    """The structure of one leaf."""
    return LeafSpec()


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the structure."""
    if _is_leaf(tree, is_leaf):
        return [tree], LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    leaves: list[Any] = []
    specs = []
    for child in children:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a structure with these leaves.

    Raises:
        ValueError: their number is another.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: treespec is a {type(treespec).__name__}; expected a TreeSpec (the leaves come first)")
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: got {len(values)} leaves; expected {treespec.num_leaves}")
    return _build(treespec, iter(values))


def _build(spec: TreeSpec, values: Any) -> Any:
    if spec.type is None:
        return next(values)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_build(s, values) for s in spec.children_specs], spec.context)


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Any = None) -> Any:
    """The leaves, in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Any = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree with `func` of its leaves, and of what stands at the same places in `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(*column) for column in zip(leaves, *(spec.flatten_up_to(r) for r in rests))])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Calls `func` for the leaves, and returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function for values of a type (or those that a predicate takes), nothing for others."""
    fits = (lambda x: isinstance(x, kind)) if isinstance(kind, (type, tuple)) else kind

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return functools.wraps(func)(lambda x: func(x) if fits(x) else x)

    return decorate


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """`tree_map` for leaves of a type."""
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """`tree_map_` for leaves of a type."""
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether all leaves fit."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether a leaf fits."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether all leaves of a type fit."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, kind))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether a leaf of a type fits."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, kind))


def _keyed(tree: Any) -> list[tuple[Any, Any]]:
    kind = _get_node_type(tree)
    keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if keys is not None:
        return keys(tree)[0]
    return [(SequenceKey(i), v) for i, v in enumerate(SUPPORTED_NODES[kind].flatten_fn(tree)[0])]


def _with_paths(tree: Any, is_leaf: Any, path: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]]:
    if _is_leaf(tree, is_leaf):
        return [(path, tree)]
    return [found for key, child in _keyed(tree) for found in _with_paths(child, is_leaf, (*path, key))]


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves with their places, and the structure."""
    return _with_paths(tree, is_leaf, ()), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Any = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves with their places."""
    return _with_paths(tree, is_leaf, ())


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """`tree_map` of a function that gets each leaf's place first."""
    placed, spec = tree_flatten_with_path(tree, is_leaf)
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(placed, *(spec.flatten_up_to(r) for r in rests))])


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of a call's arguments, in order."""
    return [leaf for part in (*args, *kwargs.values()) for leaf in tree_leaves(part)]


def tree_is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether it is a leaf."""
    return _is_leaf(tree, is_leaf)


def key_get(obj: Any, kp: Any) -> Any:
    """What lies at a place."""
    for key in kp:
        obj = key.get(obj)
    return obj


def keystr(kp: Any) -> str:
    """A place as text: `['a'][0].b`."""
    return "".join(map(str, kp))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as the tree looks, with a star for each leaf: `[*, (*, {'a': *})]`."""
    return repr(tree_unflatten([_Asterisk()] * treespec.num_leaves, treespec))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON.

    Raises:
        NotImplementedError: a type without a `serialized_type_name`.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: treespec is a {type(treespec).__name__}; expected a TreeSpec")
    return _tree_text.written(treespec, protocol)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    spec: TreeSpec = _tree_text.read(serialized, lambda kind, context, children: LeafSpec() if kind is None else TreeSpec(kind, context, children))
    return spec


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads


def treespec_tuple(iterable: Iterable[TreeSpec] = ()) -> TreeSpec:
    """The structure of a tuple of trees of these structures."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of trees of these structures."""
    parts = dict(mapping, **kwargs)
    return TreeSpec(dict, list(parts), list(parts.values()))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """The leaves of a tree that may be coarser than a structure, each as often as it has leaves there; None where it does not fit."""
    if treespec.type is None or _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    out: list[Any] = []
    for child, spec in zip(children, treespec.children_specs):
        below = _broadcast_to_and_flatten(child, spec, is_leaf)
        if below is None:
            return None
        out += below
    return out
