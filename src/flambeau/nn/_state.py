"""`state_dict` and `load_state_dict`: a module's tensors under their dotted names.

The dict is flat and ordered as the module tree; `_metadata` on it carries each module's version, so
that a later version of a layer can read an older file in `_load_from_state_dict`. Loading collects
every missing, unexpected and mismatched key and raises once.
"""

from __future__ import annotations

import contextlib
import difflib
import weakref
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.__future__ import switches
from flambeau._C import Tensor
from flambeau._errors import AssertedRuntimeError
from flambeau._handles import RemovableHandle
from flambeau._warn import warn
from flambeau.autograd import no_grad
from flambeau.nn._errors import kind_of
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.utils._swap import swap_tensors

_EXTRA_STATE = "_extra_state"
_PUBLIC = "_from_public_api"  # marks functions that register_state_dict_post_hook was given


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: the keys that were missing and those nobody wanted."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMixin:
    """The saving and loading half of Module."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Any
    _state_dict_pre_hooks: Any
    _load_state_dict_pre_hooks: Any

    # -------------------------------------------------------------------------------------- saving

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Returns the parameters and persistent buffers under their dotted names.

        The tensors share memory with the module; `keep_vars=True` keeps their autograd history.
        """
        if args:  # the older positional spelling
            warn("state_dict: destination, prefix and keep_vars are given by position, which is an older form; name them", FutureWarning)
            destination, prefix, keep_vars = [*args, *[destination, prefix, keep_vars][len(args) :]]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        if self._state_dict_pre_hooks:
            for hook in tuple(self._state_dict_pre_hooks.values()):
                hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        if not self._state_dict_hooks:
            return destination  # type: ignore[no-any-return]
        for hook in tuple(self._state_dict_hooks.values()):
            changed = hook(self, destination, prefix, local_metadata)
            if changed is not None:
                if getattr(hook, _PUBLIC, False):
                    raise RuntimeError(
                        f"state_dict: a post-hook of {type(self).__name__} returned {kind_of(changed)}; "
                        "expected None, it changes its argument in place"
                    )
                destination = changed
        return destination  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Writes this node's own tensors; layers with other state override it."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Override together with `set_extra_state` to keep more than tensors in the state_dict."""
        raise RuntimeError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Receives what `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} defines no set_extra_state()")

    # ------------------------------------------------------------------------------------- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies the tensors of `state_dict` into this module and everything below it.

        With `strict` every key must match; `assign` takes the given tensors themselves instead of
        copying into the present ones (dtype and device then come from the file).

        Raises:
            TypeError: `state_dict` is no mapping.
            RuntimeError: keys or shapes differ; one text lists all of them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: Expected state_dict to be dict-like, got {type(state_dict)}")
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        state._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        _load_below(self, state, "", metadata, assign, missing, unexpected, errors)
        if strict:
            if near := _near_matches(missing, unexpected):
                errors.insert(0, near)
            if unexpected:
                errors.insert(0, _listing("Unexpected key(s)", unexpected))
            if missing:
                errors.insert(0, _listing("Missing key(s)", missing))
        if errors:
            raise RuntimeError(
                f"load_state_dict: Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this node's own tensors; layers that read older files override it."""
        if self._load_state_dict_pre_hooks:
            for hook in tuple(self._load_state_dict_pre_hooks.values()):
                hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {k: v for k, v in self._parameters.items() if v is not None}
        for k, v in self._buffers.items():
            if v is not None and k not in self._non_persistent_buffers_set:
                own[k] = v
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(f"'{key}' is a {type(value).__name__}; expected a Tensor")
                continue
            if is_lazy(value):
                if not is_lazy(target):
                    error_msgs.append(f"{key} has no shape in the state_dict, which is older than the first forward; the module's has one")
                continue
            shape = target.shape
            if not shape and value.shape == (1,):
                value = value[0]
            if value.shape != shape:
                error_msgs.append(
                    f"size mismatch for {key}: the state_dict has shape {list(value.shape)}, "
                    f"the module has {list(shape)}"
                )
                continue
            if target.is_meta and not value.is_meta and not assign:
                warn(f"load_state_dict: {key} is on meta in the module, so that nothing is copied; pass assign=True to take what is loaded")
            try:
                with no_grad():
                    if switches.swap:
                        _swap_in(target, value, assign)
                    elif assign:
                        self._fl_assign(name, target, value)
                    else:
                        target.copy_(value)
            except Exception as error:
                error_msgs.append(
                    f"while copying '{key}' ({list(value.shape)} {value.dtype} -> "
                    f"{list(target.shape)} {target.dtype}): {error}"
                )
        extra_key = prefix + _EXTRA_STATE
        takes_extra = type(self).set_extra_state is not StateMixin.set_extra_state
        if takes_extra:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or (key == extra_key and takes_extra):
                    continue
                head, dot, _ = key[len(prefix) :].partition(".")
                if dot and head in self._modules:
                    continue
                if dot or head not in own:
                    unexpected_keys.append(key)

    def _fl_assign(self, name: str, target: Tensor, value: Tensor) -> None:
        if name in self._parameters:
            if not isinstance(value, Parameter):
                value = Parameter(value, target.requires_grad)
            else:
                value.requires_grad_(target.requires_grad)
            self._parameters[name] = value
        else:
            self._buffers[name] = value

    # --------------------------------------------------------------------------------------- hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before this module's state is collected."""
        return _put(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after the state was
        collected; the hook changes the dict in place.
        """
        with contextlib.suppress(AttributeError):  # of what takes no attributes, as methods do
            hook._from_public_api = True  # type: ignore[attr-defined]
        return _put(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older one: the hook may return another dict."""
        if getattr(hook, _PUBLIC, False):
            raise RuntimeError("_register_state_dict_hook: register_state_dict_post_hook was given this hook before; expected another")
        return _put(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module's state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            hook = _WithModule(hook, self)
        return _put(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may edit the lists in place."""
        return _put(self._load_state_dict_post_hooks, hook)  # type: ignore[attr-defined]


def _load_below(
    module: Any, local: Any, prefix: str, metadata: Any, assign: bool, missing: list[str], unexpected: list[str], errors: list[str]
) -> None:
    """Loads a module and what is below it, of the keys that begin with `prefix`."""
    local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
    if module._modules:
        of_children: dict[str, Any] = {}
        begin = len(prefix)
        for key, value in local.items():
            if key.startswith(prefix) and (end := key.find(".", begin)) >= 0:
                of_children.setdefault(key[begin:end], {})[key] = value
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                dotted = "." in name  # as setattr takes it
                of_child = {k: v for k, v in local.items() if k.startswith(below)} if dotted else of_children.get(name, {})
                _load_below(child, of_child, below, metadata, assign, missing, unexpected, errors)
    if not module._load_state_dict_post_hooks:
        return
    incompatible = _IncompatibleKeys(missing, unexpected)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, incompatible) is not None:
            raise AssertedRuntimeError(
                "a load_state_dict post-hook must change its argument in place and return None"
            )


class _WithModule:
    """A hook with its module as first argument; a class, so that it survives deepcopy and
    pickle. The module holds it, so it does not hold the module.
    """

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self._module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        module = self._module()
        if module is None:
            raise RuntimeError("load_state_dict: a hook of a module that is gone was called; expected to be called by its module")
        return self.hook(module, *args)

    def __getstate__(self) -> tuple[Any, Any]:
        return self.hook, self._module()

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _put(table: Any, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


_MOST_COMPARED = 200  # names: comparing takes the square of their number


def _prefix(long: list[str], short: list[str]) -> tuple[str, int]:
    """What most of the short names lack, and how many are among the long ones with it; an empty text where it is less than half of them.

    Not all have to: files have names that are not missed (`num_batches_tracked` of older ones, a wrapper's own, a head's).
    """
    wanted = set(short)
    found: Counter[str] = Counter()
    for key in long:
        end = -1
        while (end := key.find(".", end + 1)) >= 0:
            if key[end + 1 :] in wanted:
                found[key[: end + 1]] += 1
    prefix, count = max(found.items(), key=lambda item: item[1], default=("", 0))
    return (prefix, count) if 2 * count >= len(short) else ("", 0)


def _near_matches(missing: list[str], unexpected: list[str]) -> str:
    """What the names that nobody wanted may have been meant for, or an empty text."""
    if not missing or not unexpected:
        return ""
    prefix, count = _prefix(unexpected, missing)
    if prefix:
        whole = all(key.startswith(prefix) for key in unexpected)
        what = f"all of them begin with '{prefix}'" if whole else f"{count} of the missing are there behind '{prefix}'"
        return f"{what}: pass {{k.removeprefix('{prefix}'): v for k, v in state_dict.items()}}"
    prefix, count = _prefix(missing, unexpected)
    if prefix:
        what = "all of them" if all(key.startswith(prefix) for key in missing) else f"{count} of the unexpected"
        return f"{what} lack '{prefix}': pass {{'{prefix}' + k: v for k, v in state_dict.items()}}"
    pairs = []
    for key in unexpected[:_MOST_COMPARED]:
        close = difflib.get_close_matches(key, missing[:_MOST_COMPARED], n=1, cutoff=0.8)
        if close:
            pairs.append(f'"{key}" for "{close[0]}"')
    return f"near matches: {', '.join(pairs)}" if pairs else ""


def _listing(what: str, keys: list[str]) -> str:
    return f"{what} in state_dict: " + ", ".join(f'"{key}"' for key in keys)


def _swap_in(target: Tensor, value: Tensor, assign: bool) -> None:
    """Makes the target what it says is to be loaded in its place."""
    new = target.module_load(value, assign=assign)
    if new is target or new is value:
        raise RuntimeError("module_load returned one of its tensors; expected a new one, as of detach() or clone()")
    if isinstance(target, Parameter):
        new = new.requires_grad_(target.requires_grad) if isinstance(new, Parameter) else Parameter(new, target.requires_grad)
    swap_tensors(target, new)
