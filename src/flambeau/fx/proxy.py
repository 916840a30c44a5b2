"""What stands for values while a program is traced: whatever is done with a `Proxy` becomes a node of a graph, and another `Proxy`.

    y = flambeau.relu(x)     the core finds x's __torch_function__ ------------+
    y = x + 1                operators of Proxy ------------------------------ +--> tracer.create_proxy(op, target, args, kwargs)
    y = x.view(-1)           Attribute, which becomes a method when called ----+         create_arg: values -> what a node may have
                                                                                         create_node -> Proxy(node)
Its value is not known, so that a program can not decide by it; that is a `TraceError`.
"""

from __future__ import annotations

import copy
import dataclasses
import dis
import enum
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau.fx.node import Argument, Node, Target, has_side_effect, map_aggregate
from flambeau.fx.traceback import get_current_meta

if TYPE_CHECKING:
    from types import FrameType

    from flambeau.fx.graph import Graph

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "TraceError", "TracerBase", "assert_fn"]

_WAYS = "make it a constant (concrete_args), keep it inside of a leaf module (Tracer.is_leaf_module), or of a function that fx.wrap marks"


class TraceError(ValueError):
    """A program that is traced looks at a value, which is not there."""


@has_side_effect
def assert_fn(x: Any) -> None:
    """What a traced `assert` does."""
    assert x


@dataclasses.dataclass
class Scope:
    """Where the program is: the path of a module, and its type."""

    module_path: str
    module_type: Any


class TracerBase:
    """What makes nodes of what is done with proxies: the part that `Tracer` and `GraphAppendingTracer` share.

    record_stack_traces: keeps where the program said it, in `node.meta["stack_trace"]`. trace_asserts: `assert` about a proxy becomes a
    node. proxy_buffer_attributes: buffers are proxies, too.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    param_shapes_constant: bool = False
    scope: Scope
    module_stack: dict[str, tuple[str, Any]]

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument], name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node at the end of the graph; a tracer that changes what is recorded overrides it."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        stack = getattr(self, "module_stack", None)
        if stack:
            node.meta["nn_module_stack"] = dict(stack)
        if kind not in ("placeholder", "output"):
            node.meta.update(get_current_meta())
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """A node of a call, and what stands for its result.

        Raises:
            TypeError: an argument is none that a node may have.
        """
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, tuple(args_), dict(kwargs_), name, type_expr)
        if self.record_stack_traces:
            node.stack_trace = "".join(traceback.format_list(_program_frames()))
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """What a node keeps of an argument: the node of a proxy; containers of such; plain values as they are.

        Raises:
            NotImplementedError: the value is none of these.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(item) for item in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._fl_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if isinstance(a, _PLAIN) or a is None or a is ... or isinstance(a, Node) or _is_enum(a):
            return a
        if callable(a):
            return a
        raise NotImplementedError(
            f"fx: argument {a!r} is a {type(a).__name__}, of which a graph can not be made; expected proxies, tensors, numbers, texts, "
            "functions, element types, and tuples, lists, dicts and slices of them"
        )

    def _fl_key(self, key: Any) -> Any:
        kept = self.create_arg(key)
        found: list[Node] = []
        map_aggregate(kept, lambda x: found.append(x) if isinstance(x, Node) else x)
        if found:
            raise TraceError(f"fx: a dict has the traced value {found[0].name} as a key; keys must be known while a program is traced")
        return kept

    def to_bool(self, obj: Proxy) -> bool:
        """What `if proxy` means: refused, and to be overridden.

        Raises:
            TraceError: always.
        """
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: the program asks whether "
            f"{obj.node.name} is true; {_WAYS}"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What `for x in proxy` means: refused, and to be overridden.

        Raises:
            TraceError: always.
        """
        raise TraceError(
            f"Proxy object cannot be iterated: the length of {obj.node.name} is not known while a program is traced, be it in a loop, "
            f"`*args` or `**kwargs`; {_WAYS}"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `proxy.keys()` gives: a node that calls it."""
        return Attribute(obj, "keys")()


_PLAIN = (
    str, int, float, bool, complex, bytes, flambeau.dtype, flambeau.device, flambeau.memory_format, flambeau.layout, flambeau.Tensor,
)  # fmt: skip


def _is_enum(a: Any) -> bool:
    return isinstance(a, enum.Enum)


class GraphAppendingTracer(TracerBase):
    """A tracer that adds to a graph which is there."""

    def __init__(self, graph: Graph) -> None:
        from flambeau.fx._takeover import record_whole_while

        super().__init__()
        self.graph = graph
        record_whole_while(self)
        self.scope = Scope("", None)
        self.module_stack = {}


class Proxy:
    """Stands for the result of a node while a program is traced.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import Graph, Proxy
        >>> graph = Graph()
        >>> x = Proxy(graph.placeholder("x"))
        >>> y = fl.relu(x.view(-1) + 1)
        >>> y, y.node.args, x.node.users
        (Proxy(relu), (add,), {view: None})
    """

    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if not isinstance(node, Node):
            raise TypeError(f"Proxy: node is a {type(node).__name__}; expected a Node of a graph")
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name in ("node", "tracer", "__fx_create_arg__", "__array_interface__", "__array_struct__", "__array__", "__dlpack__"):
            raise AttributeError(f"Proxy has no attribute {name!r}")
        return Attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        """A copy; attributes of a proxy are recorded, and `copy` must not look for one."""
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked_by(sys._getframe(1))
        if count is not None:  # a, b = x says how many there are
            return (operator.getitem(self, i) for i in range(count))  # type: ignore[call-overload]
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assert(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def keys(self) -> Any:
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            f"'len' is not supported in symbolic tracing by default: the length of {self.node.name} is not known. If you want this call "
            "to be recorded, please call fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tracers: dict[TracerBase, None] = {}
        map_aggregate((args, kwargs or {}), lambda x: tracers.setdefault(x.tracer) if isinstance(x, Proxy) else x)
        tracer = next(iter(tracers))
        if any(other.graph is not tracer.graph for other in tracers):
            raise TraceError(f"{func.__name__}: its arguments are of {len(tracers)} graphs; one program is traced into one graph")
        name = getattr(func, "__name__", "")
        if _is_tensor_method(func):
            return tracer.create_proxy("call_method", name, args, kwargs or {})
        return tracer.create_proxy("call_function", func, args, kwargs or {}, name=tracer.graph._target_to_str(func))


def _is_tensor_method(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return func is not None and getattr(flambeau.Tensor, name, None) is func and vars(flambeau).get(name) is not func


class Attribute(Proxy):
    """An attribute of a proxy: `getattr` when its value is used, a method when it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node is made when somebody asks for the value, as most attributes are methods that are called."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape is known: `shape`, `size` and the like are the parameter's."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: flambeau.Tensor) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, flambeau.Tensor):
            raise TypeError(f"ParameterProxy: param is a {type(param).__name__}; expected a Parameter")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.numel()


# ---------------------------------------------------------------------- operators

_BOTH = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split()
_ONE_WAY = "eq ne lt gt le ge getitem neg pos invert".split()


def _operator(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def recorded(*args: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", function, args, {})

    recorded.__name__ = recorded.__qualname__ = f"__{name.strip('_')}__"
    return recorded


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def recorded(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    recorded.__name__ = recorded.__qualname__ = f"__r{name.strip('_')}__"
    return recorded


for _name in (*_BOTH, *_ONE_WAY):
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in _BOTH:
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))


# ---------------------------------------------------------------------- what the program is doing


def _instructions(frame: FrameType) -> Iterator[dis.Instruction]:
    """The frame's instruction and those after it."""
    return (at for at in dis.get_instructions(frame.f_code) if at.offset >= frame.f_lasti)


def _unpacked_by(frame: FrameType) -> int | None:
    """How many values the frame takes apart (`a, b = x`); None where it does something else."""
    at = next(_instructions(frame), None)
    return at.arg if at is not None and at.opname == "UNPACK_SEQUENCE" else None


def _is_assert(frame: FrameType) -> bool:
    """Whether the frame stands at the condition of an `assert`."""
    following = [at for at, _ in zip(_instructions(frame), range(8), strict=False)]
    names = [at.opname for at in following if at.opname not in ("CACHE", "EXTENDED_ARG", "NOT_TAKEN", "TO_BOOL")]
    if names and names[0] == "COMPARE_OP":  # from Python 3.13 on it asks for the truth itself
        del names[0]
    jumps = bool(names) and names[0].startswith("POP_JUMP") and names[0].endswith("IF_TRUE")
    return jumps and len(names) > 1 and names[1] in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")


def _program_frames() -> traceback.StackSummary:
    """The lines that were being run, without those of this package."""
    frames = traceback.extract_stack()
    own = __file__.rpartition("/")[0]
    return traceback.StackSummary.from_list([frame for frame in frames if not frame.filename.startswith(own)])
