"""Where a split module has its tensors: in which table of which submodule, and in whose process, if each has those of its own segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from flambeau._C import Tensor
from flambeau.autograd import no_grad
from flambeau.nn import Module, Parameter
from flambeau.pipeline._trace import CutError

Home = tuple[dict[str, Any], str]  # the table of a module in which a tensor is, and its name
Uses = Iterable[tuple[int, Tensor]]  # segments, and tensors of the module that they use

_FIRST = frozenset({0})


def homes_of(module: Module) -> Iterator[tuple[str, Home]]:
    """All places where a module has a tensor, by their names in a state dict; one that is in two places comes twice."""
    for path, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, x in table.items():
                if x is not None:
                    yield f"{path}.{name}" if path else name, (table, name)


def to_meta(x: Tensor) -> Tensor:
    """A tensor without its bytes. A parameter stays the object that it is."""
    if not isinstance(x, Parameter):
        return x.to("meta")
    x.grad = None
    with no_grad():
        x.data = x.detach().to("meta")
    return x


class Owners:
    """Which segments use which tensors. What none uses is the first one's.

    Args:
        module: the one that was split.
        uses: of all its recordings.
        kept: the segments of this process.

    Attributes:
        segments: by the name of a tensor.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._homes import Owners
        >>> model = fl.nn.Linear(2, 3)
        >>> owners = Owners(model, [(1, model.weight)], kept=[0])
        >>> owners.release()
        >>> owners.segments, model.weight.is_meta, model.bias.is_meta
        ({'weight': frozenset({1}), 'bias': frozenset({0})}, True, False)
    """

    def __init__(self, module: Module, uses: Uses, kept: Collection[int]) -> None:
        self.module, self.kept = module, frozenset(kept)
        users: dict[int, set[int]] = {}
        for segment, x in uses:
            users.setdefault(id(x), set()).add(segment)
        self.segments = {key: frozenset(users.get(id(table[name]), _FIRST)) for key, (table, name) in homes_of(module)}

    def release(self) -> None:
        """Gives the bytes of tensors back that no segment of this process uses; not those of integers, which may be positions."""
        for key, (table, name) in list(homes_of(self.module)):
            if table[name].is_floating_point() and not self.segments.get(key, _FIRST) & self.kept:
                table[name] = to_meta(table[name])

    def check(self, uses: Uses) -> None:
        """Refuses a recording whose segments use tensors that their process has not kept.

        Raises:
            CutError: names segment and tensor.
        """
        names = {id(table[name]): key for key, (table, name) in homes_of(self.module)}
        for segment, x in uses:
            key = names.get(id(x))
            if key is not None and segment not in self.segments[key]:
                others = ", ".join(map(str, sorted(self.segments[key])))
                raise CutError(
                    f"split: in this mode segment {segment} uses '{key}', which is in the process of segment {others}; make the pipeline "
                    "while the module is in this mode"
                )
