"""A graph as text: one line a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flambeau.graph._structure import Arg, Draw, DType, Node, Ref, Structure, Value

SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "complex64": "c64", "complex128": "c128", "complex32": "c32",
    "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
}  # fmt: skip


def type_of(value: Value) -> str:
    return f"{SHORT[value.dtype]}[{', '.join(map(str, value.sizes))}]"


def _argument(arg: Arg, node: Node, whole: Callable[[int, str], str]) -> str:
    if isinstance(arg, Ref):
        return whole(arg.value, "!" if arg.value in node.writes else "")
    if isinstance(arg, DType):
        return arg.name
    if isinstance(arg, Draw):
        return "draw"
    if isinstance(arg, tuple):
        return f"({', '.join([_argument(item, node, whole) for item in arg])}{',' if len(arg) == 1 else ''})"
    return repr(arg)


def lines(graph: Structure) -> Iterator[str]:
    """What `print` writes.

        graph(%0: f32[8, 16] x, %1: f32[16] w):           inputs, with their buffers' names
          %3: f32[8, 16] = mul(%0: f32[8, 16], ...)       # file:line
          add_(%3!: f32[8, 16], 1)                        "!": overwritten
          %5: f32[8, 4] b2+4 = ...                        one of several views of buffer 2, from element 4 on
          return %5
    """
    shared: dict[int, int] = {}
    for value in graph.values:
        shared[value.buffer] = shared.get(value.buffer, 0) + 1

    def whole(index: int, mark: str = "") -> str:
        value = graph.values[index]
        where = ""
        if shared[value.buffer] > 1:
            where = f" b{value.buffer}" + (f"+{value.offset}" if value.offset else "")
        return f"%{index}{mark}: {type_of(value)}{where}"

    def named(index: int) -> str:
        name = graph.buffers[graph.values[index].buffer].name
        return whole(index) + (f" {name}" if name else "")

    yield f"graph({', '.join(map(named, graph.inputs))}):"
    for index, value in enumerate(graph.values):
        if value.buffer in graph.constants:
            yield f"  {named(index)} = constant"
    for node in graph.nodes:
        made = ", ".join(map(whole, node.outs))
        call = f"{node.op}({', '.join(_argument(arg, node, whole) for arg in node.args)})"
        yield f"  {made + ' = ' if made else ''}{call}{'  # ' + node.source if node.source else ''}"
    yield f"  return {', '.join(f'%{value}' for value in graph.outputs)}"
