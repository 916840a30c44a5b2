"""Functions in Python that a `__torch_function__` gets whole, as it gets native ones.

Native functions look for `__torch_function__` among their arguments themselves. A function in Python does not: what it calls would be
taken over, and the subclass would see `norm` and `div` where the program called `F.normalize`. So from the first subclass of Tensor that
has a `__torch_function__` of its own (or the first mode) on, the code of these functions is replaced by code that looks first:

    F.normalize(x, dim=0)  -->  does an argument take over?  --yes-->  call_override(F.normalize, (x,), {"dim": 0, "p": 2.0, ...})
                                                             --no--->  what it was

Other programs pay nothing. The function objects stay the same, so that `from torch.nn.functional import normalize` and
tables whose keys are functions work. Arguments that have defaults are handed over by name, and all of them, where PyTorch's function is
written in Python and so does the same. Which functions: those of `flambeau`, `nn.functional`, `linalg`, `fft` and `special` with a
parameter that is annotated as a Tensor, those of `*tensors`, the methods in `METHODS`, and of `nn.init` those in `_INIT`, which hand over
all arguments by name. Functions that make tensors of what is none (`_MADE`) look from the first mode on: only modes see them.

Objects that are no Tensors and have a `__torch_function__`, such as an operator that stands for a matrix, are seen by native functions.
Nobody hears of their classes, so a function in Python sees them once there is a subclass of Tensor, and from the start where `import torch`
means this library (`flambeau.compat.torch`).
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flambeau import _C
from flambeau._C import Tensor

if TYPE_CHECKING:
    import inspect

# Outside of nn.functional: what is Python in PyTorch, too.
_PYTHON_THERE = frozenset("cdist stft tensordot unique_consecutive".split())

# Of nn.functional: what PyTorch has as native functions, which get arguments as they were given, and are in its top level.
_NATIVE_THERE = frozenset(
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d cosine_similarity one_hot pairwise_distance pdist scaled_dot_product_attention".split()
)

# Methods of Tensor in Python: what would be seen in their place is `to`, `detach`, `eq`, or nothing.
METHODS = (
    "float double half bfloat16 long int short char byte bool cfloat cdouble cpu cuda type type_as view_as reshape_as expand_as "
    "tolist numpy backward register_hook register_post_accumulate_grad_hook is_shared share_memory_ "
    "__repr__ __format__ __contains__ __reversed__ __array__ __deepcopy__ __reduce_ex__"
).split()

# Of nn.init: what PyTorch hands over.
_INIT = frozenset(("uniform_", "normal_", "constant_", "kaiming_uniform_"))

# What makes tensors, in Python here and native in PyTorch.
_MADE = (
    "tensor as_tensor asarray scalar_tensor sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
    "sparse_compressed_tensor"
).split()

on = False
_modes_seen = False
_lock = threading.RLock()
_looking: dict[types.FunctionType, types.CodeType] = {}
_own: dict[types.FunctionType, types.CodeType] = {}


def own_code(function: types.FunctionType) -> types.CodeType:
    """What the function is written as."""
    return _own.setdefault(function, function.__code__)


def resting_code(function: types.FunctionType) -> types.CodeType:
    """The code that the function has while no program is traced: its own, or what looks first."""
    return _looking.get(function) or own_code(function)


# ---------------------------------------------------------------- how a call is handed over


def is_native_in_pytorch(name: str) -> bool:
    """Whether a function of `nn.functional` that is Python here is native in PyTorch."""
    return name in _NATIVE_THERE or name.endswith("_")


def names_arguments(function: types.FunctionType) -> bool:
    """Whether PyTorch's function is in Python, which hands arguments with defaults over by name."""
    name = function.__name__
    if _of_init(function):
        return True
    if vars(importlib.import_module("flambeau.nn.functional")).get(name) is function:
        return not is_native_in_pytorch(name)
    return name in _PYTHON_THERE


def _of_init(function: types.FunctionType) -> bool:
    return function.__name__ in _INIT and vars(sys.modules.get("flambeau.nn.init", types)).get(function.__name__) is function


def by_name(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, those with defaults by name."""
    import inspect

    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    plain: list[Any] = []
    named: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        if signature.parameters[key].default is inspect.Parameter.empty:
            plain.append(value)
        else:
            named[key] = value
    return tuple(plain), named


def _entries(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and what lies in lists and tuples of them."""
    for value in (*args, *kwargs.values()):
        if type(value) in (tuple, list):
            yield from value
        else:
            yield value


def _entry(function: types.FunctionType, original: types.FunctionType) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """What a call with an argument that takes over, or inside of a mode, does."""
    import inspect

    signature = inspect.signature(function)
    named: list[bool] = []
    all_named = _of_init(function)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(getattr(type(value), "_sees_parts", False) for value in _entries(args, kwargs)):
            return original(*args, **kwargs)
        if not named:
            named.append(names_arguments(function))
        if named[0]:
            args, kwargs = by_name(signature, args, kwargs)
            if all_named:
                args, kwargs = (), dict(zip(signature.parameters, args)) | kwargs
        return _C.call_override(function, args, kwargs)

    return enter


# ---------------------------------------------------------------- the code that looks

_MARKS = ("flambeau: whether one takes over", "flambeau: what takes over", "flambeau: what it was")


def _parameters(code: types.CodeType) -> tuple[list[str], list[str]] | None:
    """Names of parameters, those by name alone apart; None where there are any number of them."""
    import inspect

    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_posonlyargcount:
        return None
    n, more = code.co_argcount, code.co_kwonlyargcount
    return list(code.co_varnames[:n]), list(code.co_varnames[n : n + more])


@functools.cache
def _compiled(text: str) -> types.CodeType:
    space: dict[str, Any] = {}
    exec(compile(text, "<flambeau>", "exec"), space)
    return space["factory"]().__code__  # type: ignore[no-any-return]


def code_that_runs(lines: list[str], function: types.FunctionType, constants: dict[str, Any]) -> types.CodeType:
    """Code for the function from the lines of one, with values in place of texts. It names the same free variables: its cells stay."""
    free = own_code(function).co_freevars
    head = ["def factory():", *(f"    {name} = None" for name in free)]
    body = [lines[0], *(f"    if 0: {name}" for name in free), *lines[1:]]
    code = _compiled("\n".join([*head, *("    " + line for line in body), "    return call"]))
    own = own_code(function)
    values = tuple(constants.get(value, value) if isinstance(value, str) else value for value in code.co_consts)
    return code.replace(co_consts=values, co_name=function.__name__, co_filename=own.co_filename, co_firstlineno=own.co_firstlineno)


def as_it_was(function: types.FunctionType) -> types.FunctionType:
    """Another function object with the function's own code."""
    made = types.FunctionType(own_code(function), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def as_written(function: Any) -> Any:
    """A function of this library with its own code and parameters, whatever code it has now; anything else as it is."""
    return as_it_was(function) if isinstance(function, types.FunctionType) and function in _own else function


def _code_that_looks(function: types.FunctionType, look: Callable[..., bool] | None = None) -> types.CodeType:
    import inspect

    original = as_it_was(function)
    found = _parameters(own_code(function))
    looks, enters, was = (repr(mark) for mark in _MARKS)
    if found is None or not names_arguments(function):  # handed over as it was called
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        lines = [
            "def call(*args, **kwargs):",
            f"    look = {looks}",
            "    if look(*args) or kwargs and look(*kwargs.values()):",
            f"        enter = {enters}",
            "        return enter(args, kwargs)",
            f"    was = {was}",
            "    return was(*args, **kwargs)",
        ]
    else:
        plain, named = found
        keys = ", ".join(f"{key!r}: {key}" for key in named)
        passed = ", ".join([*plain, *(f"{key}={key}" for key in named)])
        lines = [
            f"def call({', '.join([*plain, *(['*'] if named else []), *named])}):",
            f"    _look = {looks}",
            f"    if _look({', '.join([*plain, *named])}):",
            f"        _enter = {enters}",
            f"        return _enter(({''.join(name + ', ' for name in plain)}), {{{keys}}})",
            f"    _was = {was}",
            f"    return _was({passed})",
        ]
    look = look or (_C.has_override if found else _looks_inside)
    return code_that_runs(lines, function, dict(zip(_MARKS, (look, _entry(function, original), original))))


def _looks_inside(*args: Any) -> bool:
    """`has_override` of arguments and of what lies in lists and tuples of them, for functions of any number of tensors."""
    if _C.has_override(*args):
        return True
    for value in args:
        if type(value) in (tuple, list) and _C.has_override(*value):
            return True
    return False


# ---------------------------------------------------------------- which functions, and from when on


def functions_of(space: Any) -> list[types.FunctionType]:
    """The functions of a namespace that arguments take over whole."""
    every = [value for _, value in sorted(vars(space).items()) if isinstance(value, types.FunctionType)]
    if getattr(space, "__name__", "").endswith("nn.init"):
        return [value for value in every if value.__name__ in _INIT]
    return [value for value in every if vars(space).get(value.__name__) is value and _is_taken_over(value)]


def _is_taken_over(function: types.FunctionType) -> bool:
    import inspect

    if function.__name__.startswith("_") or (function.__module__ or "").partition(".")[0] not in ("flambeau", "torch"):
        return False
    given = [(key, str(text)) for key, text in function.__annotations__.items() if key != "return"]
    takes = any(key in ("tensors", "operands") or "Tensor" in text for key, text in given)
    return takes and isinstance(inspect.unwrap(function), types.FunctionType)


_SPACES = ("flambeau", *(f"flambeau.{name}" for name in ("nn.functional", "nn.init", "linalg", "fft", "special")))


def turn_on() -> None:
    """Has all of them look at their arguments from now on."""
    global on
    with _lock:
        if on:
            return
        on = True
        for name in _SPACES:
            meet_all(name)
        for name in METHODS:
            _look(vars(Tensor)[name])


def _in_a_mode(*args: Any) -> bool:
    return _C.has_override(None)


def turn_on_for_modes() -> None:
    """The same, and what only modes see."""
    global _modes_seen
    turn_on()
    if not _modes_seen:
        with _lock:
            _modes_seen = True
            space = vars(sys.modules["flambeau"])
            for name in _MADE:
                if isinstance(space.get(name), types.FunctionType):
                    _look(space[name], _in_a_mode)


def meet(value: Any) -> None:
    """Has a function of the package that was loaded just now look, too."""
    if on and isinstance(value, types.FunctionType):
        with _lock:
            if _is_taken_over(value):
                _look(value)
            elif _modes_seen and value.__name__ in _MADE:
                _look(value, _in_a_mode)


def meet_all(name: str) -> None:
    """Has the functions of a namespace look, if it is loaded; what is loaded later calls this at its end."""
    if on and name in sys.modules:
        with _lock:
            for function in functions_of(sys.modules[name]):
                _look(function)


def _look(function: types.FunctionType, look: Callable[..., bool] | None = None) -> None:
    if function in _looking:
        return
    own = own_code(function)
    _looking[function] = _code_that_looks(function, look)
    if function.__code__ is own:  # no trace has replaced it
        function.__code__ = _looking[function]


def hear_of(cls: type[Any], /, **kwargs: Any) -> None:
    """`Tensor.__init_subclass__`: the first class with a `__torch_function__` of its own turns it on."""
    super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
    if on or cls.__dict__.get("_sees_parts", False):
        return
    taker = cls.__dict__.get("__torch_function__")
    if taker is not None and taker is not _C.no_torch_function:
        turn_on()

