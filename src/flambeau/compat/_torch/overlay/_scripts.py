"""Classes of TorchScript's, which is not here: programs ask whether something is one of them, and nothing is."""

from __future__ import annotations

from typing import Any, NoReturn

# Types of values in scripts; `torch.device` is the class of devices in Python, `torch.DeviceObjType` the type of one in a script.
JIT_TYPES = (
    "AnyType", "AwaitType", "BoolType", "ClassType", "ComplexType", "DeviceObjType", "DictType", "EnumType", "FloatType", "FutureType",
    "InterfaceType", "IntType", "ListType", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType", "StreamObjType", "StringType",
    "SymBoolType", "SymIntType", "TensorType", "TupleType", "UnionType",
)  # fmt: skip


class JitType:
    """A type of TorchScript's. None can be made.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__}: there is no TorchScript here, and none of its types")


class ScriptMethod:
    """A method of a scripted module; none is, since `jit.script` returns the module itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("ScriptMethod: there is no TorchScript here; methods are Python's")


class ScriptObject:
    """An object of a scripted class; none is."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("ScriptObject: there is no TorchScript here; objects are Python's")


for _name in JIT_TYPES:
    globals()[_name] = type(_name, (JitType,), {"__doc__": "A type of TorchScript's.", "__module__": "torch"})
