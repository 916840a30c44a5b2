"""Entries of PyTorch's databases of modules and optimizers in both libraries, as compare.py does it for functions.

| property | what is the same |
|---|---|
| values | a module's outputs in training and evaluation, with PyTorch's parameters; parameters after steps of an optimizer |
| state | names and shapes in `state_dict()` |
| gradient | gradients of a module's input and parameters |
| errors | wrong constructions and calls are refused, by an error that PyTorch's class catches |
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
from beside import torch
from compare import (
    Comparison,
    _call,
    _says,
    _weighted,
    _where,
    difference,
    difference_of_values,
    flat,
)
from samples import Missing, load, named, ours_of, tensors, theirs_of, values

import flambeau as fl

STEPS = 4
HOW_TO_COMPUTE = ("foreach", "fused", "capturable", "differentiable")  # arguments of an optimizer that change no result


@functools.cache
def module_db():
    return {f"module {m.name}": m for m in load("common_modules").module_db if m.module_cls.__module__.startswith("torch.nn.")}


@functools.cache
def optim_db():
    return {f"optimizer {o.name}": o for o in load("common_optimizers").optim_db}


class ModuleEntry(Comparison):
    def __init__(self, name, how):
        super().__init__(name, how)
        self.info = module_db()[name]

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.ours = named(f"nn.{self.info.module_cls.__name__}")
            for training in (True, False):
                for dtype in ("float32", "float64"):
                    if getattr(torch, dtype) in self.info.supported_dtypes("cpu"):
                        torch.manual_seed(0)
                        for sample in self.info.module_inputs_func(
                            self.info, device="cpu", dtype=getattr(torch, dtype), requires_grad=dtype == "float64", training=training
                        ):
                            self.sample(sample, dtype, training)
            self.errors()
        return self.found

    def sample(self, sample, dtype, training):
        made, call = sample.constructor_input, sample.forward_input
        theirs = self.info.module_cls(*made.args, **made.kwargs).to(getattr(torch, dtype)).train(training)
        ours, error = _call(lambda: self.ours(*ours_of(made.args), **ours_of(made.kwargs)).to(getattr(fl, dtype)).train(training))
        said = f"{list(made.args)} {made.kwargs}"[:100]
        if error is not None:
            self.note("values", dtype, f"{_says(error)}{_where(error)} <- {said}")
            return
        if self.info.is_lazy:
            for module, convert in ((theirs, theirs_of), (ours, ours_of)):
                _call(lambda module=module, convert=convert: module(*convert(call.args), **convert(call.kwargs)))
        there, here = ({k: tuple(v.shape) for k, v in m.state_dict().items() if hasattr(v, "shape")} for m in (theirs, ours))
        if there != here:
            self.note("state", dtype, f"{here} here, {there} there <- {said}")
            return
        self.note("state", dtype, None)
        ours.load_state_dict({k: ours_of(v) for k, v in theirs.state_dict().items() if isinstance(v, torch.Tensor)}, strict=False)
        grad = dtype == "float64"
        a, b, x, y = theirs_of(call.args, grad), theirs_of(call.kwargs, grad), ours_of(call.args, grad), ours_of(call.kwargs, grad)
        want, refused = _call(theirs, *a, **b)
        got, error = _call(ours, *x, **y)
        if refused is not None:
            return
        if error is not None:
            self.note("values", dtype, f"{_says(error)}{_where(error)} <- {said}")
            return
        text = difference(got, want, self.how)
        self.note("values", dtype, text and f"{text} <- {said}{' training' if training else ''}")
        if grad and text is None and not self.how.random:
            self.gradients(got, want, [*ours.parameters(), *tensors([x, y])], [*theirs.parameters(), *tensors([a, b])], said)

    def gradients(self, got, want, ours, theirs, said):
        totals = _weighted(fl, flat(got), 7), _weighted(torch, flat(want), 7)
        if totals[1] is None:
            return
        if totals[0] is None:
            self.note("gradient", "float64", f"none here <- {said}")
            return
        pairs = [(o, t) for o, t in zip(ours, theirs) if t.requires_grad]
        here, error = _call(fl.autograd.grad, totals[0], [o for o, _ in pairs], allow_unused=True)
        there = torch.autograd.grad(totals[1], [t for _, t in pairs], allow_unused=True)
        if error is not None:
            self.note("gradient", "float64", f"{_says(error)} <- {said}")
            return
        zeros = [np.zeros(tuple(t.shape)) for _, t in pairs]
        found = ([z if g is None else values(g) for g, z in zip(gs, zeros)] for gs in (here, there))
        texts = [difference_of_values(h, t, "float64", self.how.scale * 10) for h, t in zip(*found)]
        self.note("gradient", "float64", next((f"{t} <- {said}" for t in texts if t), None))

    def errors(self):
        if self.info.module_error_inputs_func is None:
            return
        torch.manual_seed(0)
        for wrong in self.info.module_error_inputs_func(self.info, device="cpu", dtype=torch.float64, requires_grad=False, training=True):
            made, call = wrong.module_error_input.constructor_input, wrong.module_error_input.forward_input
            said = f"{list(made.args)} {made.kwargs}"[:100]

            def run(made=made, call=call, on_call="FORWARD" in str(wrong.error_on)):
                module = self.ours(*ours_of(made.args), **ours_of(made.kwargs)).to(fl.float64)
                return module(*ours_of(call.args), **ours_of(call.kwargs)) if on_call else module

            self.refused(run, wrong.error_type, wrong.error_regex, said)


class OptimizerEntry(Comparison):
    def __init__(self, name, how):
        super().__init__(name, how)
        self.info = optim_db()[name]

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.ours = named(f"optim.{self.info.optim_cls.__name__}")
            for sample in self.info.optim_inputs_func(device="cpu", dtype=torch.float32):
                text, state = self.steps(sample.kwargs)
                self.note("values", "float32", text and f"{text} <- {sample.kwargs}")
                self.note("state", "float32", state and f"{state} <- {sample.kwargs}")
            self.errors()
        return self.found

    def steps(self, kwargs):
        """Some steps from the same parameters along the same gradients; how parameters and states differ then."""
        rng = np.random.default_rng(3)
        starts = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3), (5, 2))]
        slopes = [[rng.standard_normal(s.shape).astype(np.float32) for s in starts] for _ in range(STEPS)]
        ends, states = [], []
        for lib, cls, convert in ((torch, self.info.optim_cls, theirs_of), (fl, self.ours, ours_of)):
            parameters = [lib.nn.Parameter(lib.tensor(s.copy())) for s in starts]
            found, error = _call(_stepped, lib, cls, parameters, slopes, convert(kwargs), self.info.step_requires_closure)
            if lib is torch and error is not None:
                return None, None
            if error is not None:
                return f"{_says(error)}{_where(error)}", None
            ends.append([values(p) for p in parameters])
            states.append(found)
        texts = [difference_of_values(h, t, "float32", self.how.scale) for h, t in zip(ends[1], ends[0])]
        return next((t for t in texts if t), None), None if states[0] == states[1] else f"{states[1]} here, {states[0]} there"

    def errors(self):
        for wrong in self.info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
            if not issubclass(wrong.error_type, Exception) or issubclass(wrong.error_type, Warning):
                continue
            sample = wrong.optimizer_error_input
            parameters = [torch.nn.Parameter(torch.ones(2, 2))] if sample.params is None else sample.params

            def run(sample=sample, parameters=parameters):
                return self.ours(_parameters(parameters), **ours_of(sample.kwargs))

            self.refused(run, wrong.error_type, wrong.error_regex, sample.desc)


def _parameters(v, made=None):
    made = {} if made is None else made
    if isinstance(v, torch.nn.Parameter):
        return made.setdefault(id(v), fl.nn.Parameter(ours_of(v.detach())))  # one object stays one
    if isinstance(v, (list, tuple)):
        return type(v)(_parameters(p, made) for p in v)
    if isinstance(v, dict):
        return {k: _parameters(p, made) for k, p in v.items()}
    return ours_of(v)


def _stepped(lib, cls, parameters, slopes, kwargs, closure):
    optimizer = cls(parameters, **kwargs)
    for slope in slopes:
        for p, g in zip(parameters, slope):
            p.grad = lib.tensor(g.copy())

        def loss():
            optimizer.zero_grad()
            total = sum((p * p).sum() + (p * p * p * p).sum() for p in parameters)
            total.backward()
            return total

        optimizer.step(*([loss] if closure else []))
    state = optimizer.state_dict()
    groups = sorted(k for g in state["param_groups"] for k in g if k not in HOW_TO_COMPUTE)
    return sorted({k for s in state["state"].values() for k in s}), groups


__all__ = ["Missing", "ModuleEntry", "OptimizerEntry", "module_db", "optim_db"]
