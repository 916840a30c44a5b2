"""Pruning: a parameter times a mask of zeros and ones, which is applied before every forward.

A pruned parameter `weight` is three things: the parameter `weight_orig`, the buffer `weight_mask`, and the attribute `weight`, their
product. Pruning again goes on with what is left (`PruningContainer`); `remove` makes the product the parameter.

>>> import flambeau as fl
>>> from flambeau.nn.utils import prune
>>> layer = fl.nn.Linear(4, 2)
>>> layer = prune.l1_unstructured(layer, "weight", amount=0.5)
>>> int((layer.weight == 0).sum()), sorted(name for name, _ in layer.named_parameters())
(4, ['bias', 'weight_orig'])
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import NoneType
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import AssertedValueError
from flambeau._no_tensor import wants_tensors
from flambeau.nn.module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer", "RandomStructured",
    "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _check_amount(amount: Any) -> None:
    """Refuses what is no amount, whatever it is of."""
    _count(amount, None)


def _count(amount: Any, size: int | None) -> int:
    """How many of `size` parts an amount is: a share, or a number. None: of how many is not known yet."""
    if isinstance(amount, bool) or not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount = {amount!r}; expected a share between 0 and 1, or a number of parts")
    if isinstance(amount, numbers.Integral):
        if int(amount) < 0 or (size is not None and int(amount) > size):
            if int(amount) >= 0:
                raise ValueError(f"prune: amount={amount} should be smaller than the number of parameters to prune={size}, or that number")
            raise ValueError(f"prune: amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        return int(amount)
    if not 0.0 <= float(amount) <= 1.0:
        raise ValueError(f"prune: amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    return round(float(amount) * (size or 0))


class BasePruningMethod(ABC):
    """A way to choose what is pruned: derived classes define `compute_mask(t, default_mask)`, and in PRUNING_TYPE what it looks at."""

    PRUNING_TYPE: str = "unstructured"  # or "structured" (whole slices), "global" (several parameters)
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook: computes the product."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of scores `t`; zero wherever `default_mask` is."""

    def apply_mask(self, module: Module) -> Tensor:
        """orig x mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        orig = getattr(module, self._tensor_name + "_orig")
        return mask.to(orig.dtype) * orig  # type: ignore[no-any-return]

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Prunes the parameter `name`, further where it is pruned already.

        Raises:
            AttributeError: there is no such parameter.
            TypeError: what is there is no parameter.
            ValueError: the scores have another shape.
        """
        before = _hooks_of(module, name)
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if before:
            key, old = before[0]
            chain = old if isinstance(old, PruningContainer) else PruningContainer(old)
            chain.add_pruning_method(method)
            orig, mask = getattr(module, name + "_orig"), getattr(module, name + "_mask").clone()
            made: BasePruningMethod = chain
        else:
            weight = _parameter(module, name)
            orig, mask, made = weight, ops.ones_like(weight).detach(), method
        # As the last forward had it, where it is pruned already: rewound values count from the next one on.
        scores = (getattr(module, name) if before else orig) if importance_scores is None else importance_scores
        if scores.shape != orig.shape:
            found, wanted = list(scores.shape), list(orig.shape)
            raise AssertedValueError(f"prune: importance_scores has shape {found}; expected {wanted}, as '{name}' has")
        mask = made.compute_mask(scores.detach(), mask)
        if before:
            del module._forward_pre_hooks[key]
            module._buffers[name + "_mask"] = mask
        else:
            del module._parameters[name]
            module.register_parameter(name + "_orig", orig)
            module.register_buffer(name + "_mask", mask)
        setattr(module, name, made.apply_mask(module))
        module.register_forward_pre_hook(made)
        return made

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with zeros where it would be pruned."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertedValueError(f"prune: importance_scores has shape {list(scores.shape)}; expected {list(t.shape)}")
        return t * self.compute_mask(scores, ops.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Makes the product the parameter."""
        name = self._tensor_name
        weight = self.apply_mask(module).detach()
        orig = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        orig.data = weight
        module.register_parameter(name, orig)


def _parameter(module: Module, name: str) -> Any:
    found = module._parameters.get(name)
    if found is None:
        have = f"its parameters are {', '.join(module._parameters) or 'none'}"
        if not hasattr(module, name):
            raise AttributeError(f"prune: '{type(module).__name__}' object has no attribute '{name}'; {have}")
        raise TypeError(f"prune: '{name}' of {type(module).__name__} is a {type(getattr(module, name)).__name__}; {have}")
    return found


def _hooks_of(module: Module, name: str) -> list[tuple[int, BasePruningMethod]]:
    hooks: Any = module._forward_pre_hooks
    return [(key, hook) for key, hook in hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, one after the other: each chooses among what is left."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods[0] if len(methods) == 1 and isinstance(methods[0], Iterable) else methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Appends one.

        Raises:
            TypeError: it is no method of pruning.
            ValueError: it prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: got a {type(method).__name__}; expected a BasePruningMethod")
        if self._pruning_methods and method._tensor_name != self._tensor_name:
            name = self._tensor_name
            raise ValueError(f"PruningContainer: the method prunes '{method._tensor_name}'; expected '{name}', as the others do")
        self._tensor_name = method._tensor_name
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What the last method leaves of what was left: slices that are not all pruned, or elements."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype)
        left: Any = mask == 1 if method.PRUNING_TYPE == "unstructured" else (slice(None),) * t.ndim
        if method.PRUNING_TYPE == "structured":
            dim = getattr(method, "dim", -1) % t.ndim
            kept = [axis for axis in range(t.ndim) if axis != dim]
            rows = (mask.sum(kept) if kept else mask) != 0
            left = (slice(None),) * dim + (rows.nonzero().view(-1),)
        part = method.compute_mask(t[left], mask[left])
        out = mask.clone()
        out[left] = part.to(mask.dtype)
        return out


class Identity(BasePruningMethod):
    """Prunes nothing, and makes the module one that is pruned."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Elements at random."""

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        n = _count(self.amount, t.numel())
        mask.view(-1)[ops.randperm(t.numel())[:n]] = 0
        return mask


class L1Unstructured(BasePruningMethod):
    """The elements next to zero."""

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:  # type: ignore[override]
        """Prunes the parameter `name`, further where it is pruned already; by `importance_scores` in place of its own values."""
        return super().apply(module, name, amount, importance_scores=importance_scores)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        n = _count(self.amount, t.numel())
        if n:
            mask.view(-1)[ops.topk(t.abs().reshape(-1), n, largest=False)[1]] = 0
        return mask


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"
    dim: int
    amount: Any

    def _fl_pruned(self, t: Tensor, default_mask: Tensor, scores: Tensor) -> Tensor:
        """The mask without the slices along `dim` of the lowest scores."""
        n = _count(self.amount, t.shape[self.dim])
        mask = default_mask.clone()
        if n:
            mask.transpose(0, self.dim)[ops.topk(scores, n, largest=False)[1]] = 0
        return mask

    def _fl_check(self, t: Tensor) -> None:
        if t.ndim < 2:
            raise ValueError(f"prune: whole slices of a tensor of {t.ndim} axes; expected at least 2, or an unstructured method")
        if not -t.ndim <= self.dim < t.ndim:
            raise _C.RangeError(f"prune: dim = {self.dim}, but the tensor has shape {list(t.shape)}; expected {-t.ndim} <= dim < {t.ndim}")


class RandomStructured(_Structured):
    """Slices along an axis at random."""

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        self._fl_check(t)
        return self._fl_pruned(t, default_mask, ops.rand((t.shape[self.dim],)))


class LnStructured(_Structured):
    """The slices along an axis with the smallest n-norms."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None) -> Any:  # type: ignore[override]
        """Prunes the parameter `name`, further where it is pruned already; by `importance_scores` in place of its own values."""
        return super().apply(module, name, amount, n, dim, importance_scores=importance_scores)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        self._fl_check(t)
        others = [axis for axis in range(t.ndim) if axis != self.dim % t.ndim]
        return self._fl_pruned(t, default_mask, ops.norm(t, self.n, others))


class CustomFromMask(BasePruningMethod):
    """What a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if self.mask.shape != default_mask.shape:
            raise AssertedValueError(f"prune: mask has shape {list(self.mask.shape)}; expected {list(default_mask.shape)}")
        return default_mask * self.mask.to(default_mask.dtype)


# ---- functions


@wants_tensors
def identity(module: Module, name: str) -> Module:
    """Makes `name` a pruned parameter of which nothing is pruned yet."""
    Identity.apply(module, name)
    return module


@wants_tensors
def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prunes elements at random: a share of them, or a number."""
    RandomUnstructured.apply(module, name, amount)
    return module


@wants_tensors
def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Module:
    """Prunes the elements next to zero, or of the smallest scores."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


@wants_tensors
def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prunes slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


@wants_tensors
def ln_structured(module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None) -> Module:
    """Prunes the slices along `dim` with the smallest n-norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


@wants_tensors
def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes where a mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


@wants_tensors
def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prunes several parameters as one vector: `amount` is a share, or a number, of all elements.

    Raises:
        TypeError: the method prunes slices.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(f"global_unstructured: parameters is a {type(parameters).__name__}; expected pairs (module, name)")
    pairs = list(parameters)
    if not isinstance(importance_scores, (dict, NoneType)):
        found = type(importance_scores).__name__
        raise TypeError(f"global_unstructured: importance_scores is a {found}; expected a dict by (module, name)")
    scores = {} if importance_scores is None else importance_scores
    if pruning_method.PRUNING_TYPE != "unstructured":
        what = f"{pruning_method.__name__} prunes {pruning_method.PRUNING_TYPE} parts"
        raise TypeError(f"global_unstructured: {what}; expected an unstructured method")
    weights = [scores.get((m, n), getattr(m, n)).detach() for m, n in pairs]
    masks = [getattr(m, n + "_mask", ops.ones_like(w)) for (m, n), w in zip(pairs, weights)]
    method: Any = pruning_method(**kwargs)
    method._tensor_name = "temporary"
    chain = PruningContainer(method)
    flat = chain.compute_mask(ops.cat([w.reshape(-1) for w in weights]), ops.cat([m.reshape(-1) for m in masks]))
    start = 0
    for (module, name), weight in zip(pairs, weights):
        custom_from_mask(module, name, flat[start : start + weight.numel()].view(weight.shape))
        start += weight.numel()


@wants_tensors
def remove(module: Module, name: str) -> Module:
    """Makes the pruned values the parameter.

    Raises:
        ValueError: `name` is not pruned.
    """
    for key, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(f"prune.remove: Parameter '{name}' of module {type(module).__name__} has to be pruned before pruning can be removed")


@wants_tensors
def is_pruned(module: Module) -> bool:
    """Whether a part of the module is pruned."""
    for part in module.modules():
        if part._forward_pre_hooks and any(isinstance(hook, BasePruningMethod) for hook in part._forward_pre_hooks.values()):
            return True
    return False
