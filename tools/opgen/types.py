"""The closed set of argument types of the op table, and what each is in C++, Python and a saved node."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class ArgType:
    """One spelling of the table. `kind` names the parser's conversion (bindings/args.h)."""

    spelling: str
    param: str  # C++ parameter type
    kind: str  # enumerator of fl::py::Kind
    stub: str  # in _C.pyi
    store: str | None = None  # member type in a node, when not saved as a tensor

    @property
    def many(self) -> bool:
        """Whether it is a list of tensors."""
        return self.param == "TensorList"


_TYPES = [
    ArgType("Tensor", "const Tensor&", "Tensor", "Tensor"),
    ArgType("Tensor?", "const Tensor&", "OptTensor", "Tensor | None"),
    ArgType("Tensor[]", "TensorList", "TensorList", "Sequence[Tensor]"),
    ArgType("Tensor?[]", "TensorList", "OptTensorList", "Sequence[Tensor | None]"),
    ArgType("Operand", "const Operand&", "Operand", "Tensor | Number"),
    ArgType("int", "int64_t", "Int", "int", "int64_t"),
    ArgType("int?", "std::optional<int64_t>", "OptInt", "int | None", "std::optional<int64_t>"),
    ArgType("int[]", "IntList", "IntList", "Sequence[int]", "Dims"),
    ArgType("int[]?", "std::optional<IntList>", "OptIntList", "Sequence[int] | int | None", "std::optional<Dims>"),
    ArgType("dim", "int64_t", "Int", "int", "int64_t"),
    ArgType("dim?", "std::optional<int64_t>", "OptInt", "int | None", "std::optional<int64_t>"),
    ArgType("dim[]", "IntList", "DimList", "Sequence[int] | int", "Dims"),
    ArgType("dim[]?", "std::optional<IntList>", "OptIntList", "Sequence[int] | int | None", "std::optional<Dims>"),
    ArgType("float", "double", "Float", "float", "double"),
    ArgType("float?", "std::optional<double>", "OptFloat", "float | None", "std::optional<double>"),
    ArgType("bool", "bool", "Bool", "bool", "bool"),
    ArgType("bool?", "std::optional<bool>", "OptBool", "bool | None", "std::optional<bool>"),
    ArgType("number", "Scalar", "Number", "Number", "Scalar"),
    ArgType("number?", "std::optional<Scalar>", "OptNumber", "Number | None", "std::optional<Scalar>"),
    ArgType("str", "std::string_view", "Str", "str", "std::string"),
    ArgType("str?", "std::optional<std::string_view>", "OptStr", "str | None", "std::optional<std::string>"),
    ArgType("dtype", "DType", "DType", "dtype", "DType"),
    ArgType("dtype?", "std::optional<DType>", "OptDType", "dtype | None", "std::optional<DType>"),
    ArgType("device?", "std::optional<Device>", "OptDevice", "device | str | None", "std::optional<Device>"),
    ArgType("Generator?", "Generator*", "OptGenerator", "Generator | None"),
]
TYPES = {t.spelling: t for t in _TYPES}


def arg_type(spelling: str) -> ArgType:
    """The type of that spelling; `int[2]` (an int or a list of exactly two) is made on demand."""
    if spelling in TYPES:
        return TYPES[spelling]
    fixed = re.fullmatch(r"int\[(\d)\]", spelling)
    if fixed:
        return ArgType(spelling, "IntList", f"IntTuple{fixed[1]}", "Sequence[int] | int", "Dims")
    raise ValueError(f"unknown argument type '{spelling}'; expected one of {', '.join(TYPES)} or int[N]")
