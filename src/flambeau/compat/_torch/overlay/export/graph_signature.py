"""`torch.export.graph_signature`: what the parameters of an exported graph are, and its results."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

__all__ = ["ConstantArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "TensorArgument"]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by its node's name."""

    name: str


@dataclasses.dataclass
class ConstantArgument:
    """What is no tensor, as it was when the program was exported."""

    name: str
    value: Any


class InputKind(enum.Enum):
    """What a parameter of the graph gets."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What a result of the graph is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class InputSpec:
    """One parameter: `target` is the name of a module's parameter or buffer, or of a constant."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        return _line(self) + ("" if self.persistent is None else f" persistent={self.persistent}")


@dataclasses.dataclass
class OutputSpec:
    """One result: `target` is the name of what it is the new value of."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None

    def __str__(self) -> str:
        return _line(self)


def _line(spec: InputSpec | OutputSpec) -> str:
    return f"{spec.arg.name}: {spec.kind.name}" + ("" if spec.target is None else f" target={spec.target!r}")


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which results are gradients; graphs here have none."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """All parameters and results of a graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: str(spec.target) for spec in self.input_specs if spec.kind is kind}

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {spec.arg.name: str(spec.target) for spec in self.output_specs if spec.kind is kind}

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Nodes -> the parameters that they get."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Nodes -> the buffers that they get."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """Nodes -> the constants that they get."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the module's parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of its buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of those that its state_dict has not."""
        return tuple(str(spec.target) for spec in self.input_specs if spec.kind is InputKind.BUFFER and spec.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the constants."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Nodes of the program's arguments, and what of them is no tensor."""
        return tuple(_value(spec.arg) for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The same of what it returns."""
        return tuple(_value(spec.arg) for spec in self.output_specs if spec.kind is OutputKind.USER_OUTPUT)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Nodes -> the buffers whose new values they are: of programs without writing in place (`run_decompositions`)."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """The same of parameters."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """The same of arguments."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: a program is exported without its gradients."""
        return None

    def __str__(self) -> str:
        return "\n".join(["", "# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""])


def _value(arg: TensorArgument | ConstantArgument) -> Any:
    return arg.name if isinstance(arg, TensorArgument) else arg.value
