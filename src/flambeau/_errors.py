"""Errors of two kinds, for what PyTorch finds wrong by an assertion: programs and their tests catch AssertionError there.

They are what this library raises for such an argument anyway, and an AssertionError, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau._C import (
    ArgumentError,
    AutogradError,
    DeviceError,
    DTypeError,
    RangeError,
    ShapeError,
)


class AssertedValueError(ValueError, AssertionError):
    """A value that an argument can not have."""


class AssertedTypeError(TypeError, AssertionError):
    """An argument of another type."""


class AssertedRuntimeError(RuntimeError, AssertionError):
    """Something that can not be done now."""


class AssertedArgumentError(ArgumentError, AssertionError):
    """A value that an argument of an op can not have."""


class NoExtensionError(NotImplementedError):
    """A compiled extension of PyTorch's, which can not be here.

    An operator whose kernel needs one takes its kernel for all devices, or refuses the call.
    """


class _NotExportedHistory(AutogradError, BufferError):
    pass


class _NotExportedDevice(DeviceError, BufferError):
    pass


class _NotExported(ArgumentError, BufferError):
    pass


_NOT_EXPORTED: dict[type[Exception], type[Exception]] = {
    AutogradError: _NotExportedHistory,
    DeviceError: _NotExportedDevice,
    ArgumentError: _NotExported,
}


def not_exported(error: Exception) -> Exception:
    """An error in the place of this one, which is also what DLPack has for it."""
    return next(made for kind, made in _NOT_EXPORTED.items() if isinstance(error, kind))(str(error))


class WrongLengthError(ValueError, IndexError):
    """A sequence with too few values, or too many."""


class NoParameterError(ValueError, AttributeError, KeyError):
    """A name that no parameter of a module has."""

    __str__ = Exception.__str__


class NoTensorError(TypeError, AttributeError):
    """Something else in the place of a tensor (or of another object), where PyTorch reads an attribute that it does not have."""


class MisfitError(TypeError):
    """An argument that an operation of Python's did not take, with the argument's name; its kinds are also what the operation raised."""


class _NoAttribute(MisfitError, AttributeError):
    pass


class _NoIndex(MisfitError, IndexError):
    pass


class _NoKey(MisfitError, KeyError):
    __str__ = Exception.__str__


class _NoDivisor(ArgumentError, ZeroDivisionError):
    pass


class _NoRoom(ArgumentError, OverflowError):
    pass


_MISFITS: dict[type[Exception], type[Exception]] = {
    AttributeError: _NoAttribute,
    IndexError: _NoIndex,
    KeyError: _NoKey,
    OverflowError: _NoRoom,
    TypeError: MisfitError,
    ValueError: ArgumentError,
    ZeroDivisionError: _NoDivisor,
}


def misfit_error(error: Exception, text: str) -> Exception:
    """An error with this text in the place of `error`; programs that catch that one still catch it."""
    return _MISFITS[type(error)](text)


class RefusedTypeError(TypeError, ValueError, RuntimeError):
    """A value of another type than a transformation of functions takes: PyTorch raises each of the three, depending on the place."""


class RefusedValueError(ValueError, RuntimeError):
    """A value that an argument can not have, which PyTorch finds late."""


class RefusedElementsError(DTypeError, ValueError):
    """A tensor of other elements than a transformation of functions takes."""


class NoFolderError(FileNotFoundError, RuntimeError):
    """A file that is to be written into a folder that is not there."""


class NotThereError(ArgumentError, NotImplementedError):
    """A value that an argument can not have, where PyTorch says that the case is not implemented."""


class AssertedShapeError(ShapeError, AssertionError):
    """Shapes that do not fit."""


class NoCUDAError(DeviceError):
    """There is no CUDA backend."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who}: this build of flambeau has no CUDA backend (Torch not compiled with CUDA enabled)")


def no_such_axis(op: str, name: str, dim: int, shape: Sequence[int], what: str = "the tensor") -> RangeError:
    """The error for an axis that `what` has not; with PyTorch's words, which tests of packages look for."""
    n = max(len(shape), 1)
    where = f"{op}: {name} = {dim}, but {what} has shape {list(shape)}"
    if -n <= dim < n:  # of a 0-d tensor, where it would count as one axis elsewhere
        return RangeError(f"{where}; expected one with an axis")
    return RangeError(f"{where}: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")


class NoSparseError(TypeError, NotImplementedError):
    """What is not there for sparse tensors: PyTorch says that the kernel is not implemented."""


class SchemaError(TypeError, RuntimeError):
    """A call of an operator that its schema does not fit."""
