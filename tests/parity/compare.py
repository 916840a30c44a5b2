"""What an entry of PyTorch's sample database does in both libraries, property by property.

    found = Entry("add", How()).run()     # {("values", "float32"): Found(checked=10, differences=[...]), ...}

| property | what is the same |
|---|---|
| values | values, shape and dtype of each result, and whether the call is refused |
| strided | the same with arguments that are not contiguous |
| method, operator | the same of `x.add(y)` and `x + y` |
| inplace | the same of `x.add_(y)`, which returns x |
| names | other names of the function, as function and as method |
| alias | whether results lie in the memory of an argument, and with which strides |
| out | `out=` of the right type, of another one, empty, with its identity |
| gradient, second | gradients, and gradients of gradients |
| errors | wrong calls are refused, by an error that PyTorch's class catches |
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from beside import TOLERANCES, dtype_name, torch
from samples import Missing, op_db, ours_of, shown, spread, tensors, theirs_of, translated, values

import flambeau as fl

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "complex64", "complex128"]
GRADIENT_DTYPES = ["float64", "complex128"]
FEW = 3  # samples of properties that hardly depend on them
TOLERANCES = {**TOLERANCES, "complex64": (1e-4, 1e-4), "complex128": (1e-8, 1e-9)}


@dataclass
class Found:
    """Of a property: how many samples were compared, and in words what differed."""

    checked: int = 0
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class How:
    """How an entry is compared: `random` results have the same shapes and types alone, `scale` loosens the tolerance."""

    random: bool = False
    scale: float = 1.0


# ---- results


def flat(v):
    return [x for e in v for x in flat(e)] if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size) else [v]


def difference(got, want, how):
    """None, or in words where two results differ."""
    if isinstance(want, torch.Tensor):
        return difference_of_tensors(got, want, how)
    if isinstance(want, torch.Size):
        return None if tuple(got) == tuple(want) else f"{got} here, {want} there"
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"{type(got).__name__} here, {type(want).__name__} of {len(want)} there"
        ours, theirs = (getattr(type(v), "__match_args__", None) for v in (got, want))
        if theirs and ours != theirs:
            return f"fields {ours} here, {theirs} there"
        return next((d for d in (difference(a, b, how) for a, b in zip(got, want)) if d), None)
    if isinstance(want, torch.dtype):
        return None if str(got).rsplit(".")[-1] == str(want).rsplit(".")[-1] else f"{got} here, {want} there"
    if isinstance(got, fl.Tensor):
        return f"a tensor here, {type(want).__name__} there"
    if how.random or got == want or (got != got and want != want):
        return None
    if isinstance(want, (float, complex)) and np.isclose(got, want, rtol=1e-5 * how.scale):
        return None
    return f"{got!r} here, {want!r} there"


def difference_of_tensors(got, want, how):
    if not isinstance(got, fl.Tensor):
        return f"{type(got).__name__} here, a tensor there"
    if tuple(got.shape) != tuple(want.shape):
        return f"shape {list(got.shape)} here, {list(want.shape)} there"
    if dtype_name(got) != dtype_name(want):
        return f"{dtype_name(got)} here, {dtype_name(want)} there"
    if want.device.type == "meta" or want.layout is not torch.strided:
        return None if str(got.device) == str(want.device) else f"{got.device} here, {want.device} there"
    if how.random:
        return None
    return difference_of_values(values(got), values(want), dtype_name(want), how.scale)


def difference_of_values(a, b, dtype, scale):
    if dtype not in TOLERANCES:
        return None if np.array_equal(a, b) else f"values: {_first(a, b, a != b)}"
    rtol, atol = TOLERANCES[dtype]
    finite = np.abs(b[np.isfinite(b)])
    size = max(1.0, float(finite.max())) if finite.size else 1.0
    with np.errstate(all="ignore"):
        same = np.isclose(a, b, rtol=rtol * scale, atol=atol * scale * size, equal_nan=True)
    if np.iscomplexobj(b):  # a complex number is not finite where a part is not, and parts may differ in what they are then
        same |= ~np.isfinite(a) & ~np.isfinite(b)
    return None if same.all() else f"values: {_first(a, b, ~same)}"


def _first(a, b, where):
    at = tuple(int(i) for i in np.argwhere(where)[0]) if np.ndim(where) else ()
    return f"{a[at]} here, {b[at]} there at {list(at)} ({int(np.sum(where))} of {np.size(where)})"


# ---- calls


def _call(f, *args, **kwargs):
    try:
        return f(*args, **kwargs), None
    except (Missing, KeyboardInterrupt):
        raise
    except AttributeError as error:
        if "flambeau" in str(error) and "has no attribute" in str(error):
            raise Missing(str(error).split("'")[-2]) from error
        return None, error
    except Exception as error:
        return None, error


def _not_there(error):
    """PyTorch has no kernel for the type: what another library does is its own matter."""
    return isinstance(error, NotImplementedError) or "not implemented" in str(error) or "not supported" in str(error)


def _says(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"


def _where(error):
    last = [f for f in traceback.extract_tb(error.__traceback__) if "flambeau" in f.filename]
    return f" ({last[-1].name})" if last else ""


class Comparison:
    """What is found of one entry."""

    def __init__(self, name, how):
        self.name = name
        self.how = how
        self.found: dict[tuple[str, str], Found] = {}

    def note(self, prop, dtype, what, sample=None):
        found = self.found.setdefault((prop, dtype), Found())
        found.checked += 1
        if what:
            found.differences.append(f"{what} <- {shown(sample)}" if sample is not None else what)

    def refused(self, call, kind, regex, said):
        _, error = _call(call)
        text = None
        if error is None:
            text = f"accepted here, {kind.__name__} there: {regex[:100]} <- {said}"
        elif not isinstance(error, kind):
            text = f"{_says(error)} here, {kind.__name__} there <- {said}"
        self.note("errors", "", text)


class Entry(Comparison):
    """One entry of the database of functions, and ours beside it."""

    def __init__(self, name, how):
        super().__init__(name, how)
        self.op = op_db()[name]

    def ours(self, f, path=None):
        return None if f is None else translated(f, path)

    # one call on both sides: None where nothing is to be said, else the difference
    def both(self, theirs, ours, sample, show=True, grad=False):
        a, b = theirs_of([sample.input, *sample.args], grad), theirs_of(sample.kwargs, grad)
        how = How(random=True) if sample.kwargs.get("dropout_p") else self.how
        want, refused = _call(theirs, *a, **b)
        x, y = ours_of([sample.input, *sample.args], grad), ours_of(sample.kwargs, grad)
        got, error = _call(ours, *x, **y)
        if refused is not None:
            if error is None and not _not_there(refused):
                return f"refused there: {_says(refused)}", None
            return None, None
        if error is not None:
            return f"{_says(error)}{_where(error)}", None
        process = sample.output_process_fn_grad
        if show and process is not None:
            try:
                want2, got2 = process(want), translated(process)(got)
                if any(isinstance(t, torch.Tensor) for t in flat(want2)):
                    return difference(got2, want2, how), (want, got, a, b, x, y)
            except Missing:
                pass
        return difference(got, want, how), (want, got, a, b, x, y)

    def samples(self, dtype, requires_grad=False):
        torch.manual_seed(0)
        np.random.seed(0)
        return spread(self.op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=requires_grad))

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = self.ours(self.op.op, self.op.name)
            for dtype in DTYPES:
                if getattr(torch, dtype) in self.op.supported_dtypes("cpu"):
                    self.forward(f, dtype, self.samples(dtype))
            for dtype in GRADIENT_DTYPES:
                if getattr(torch, dtype) in self.op.supported_backward_dtypes("cpu") and self.op.supports_autograd and not self.how.random:
                    self.gradients(f, dtype, self.samples(dtype, requires_grad=True))
            self.names()
            self.errors(f)
        return self.found

    def forward(self, f, dtype, samples):
        for sample in samples:
            text, results = self.both(self.op.op, f, sample)
            self.note("values", dtype, text, sample)
            if results is not None and text is None:
                self.alias(dtype, sample, *results)
        for sample in samples[:FEW]:
            if tensors([sample.input, sample.args]):
                self.note("strided", dtype, self.both(self.op.op, f, sample.noncontiguous())[0], sample)
        for prop, theirs in (("method", self.op.method_variant), ("operator", self.op.operator_variant), ("inplace", self.op.inplace_variant)):
            self.variant(prop, theirs, dtype, samples)
        if self.op.supports_out:
            self.out(f, dtype, samples)

    def variant(self, prop, theirs, dtype, samples):
        samples = [s for s in samples if not (prop == "inplace" and s.broadcasts_input)]
        if theirs is None or not samples:
            return
        try:
            ours = self.ours(theirs)
        except Missing as error:
            self.note(prop, "", f"not there: {error}")
            return
        for sample in samples[:FEW]:
            if prop == "operator" and sample.kwargs:
                continue
            text, results = self.both(theirs, ours, sample)
            if not text and results is not None and prop == "inplace" and (results[1] is results[4][0]) != (results[0] is results[2][0]):
                text = "another tensor is returned"
            self.note(prop, dtype, text, sample)

    def alias(self, dtype, sample, want, got, a, b, x, y):
        ins_t, ins_o = tensors([a, b]), tensors([x, y])
        for g, w in zip(flat(got), flat(want)):
            if not isinstance(w, torch.Tensor) or not w.numel() or w.device.type == "meta" or w.layout is not torch.strided:
                continue
            theirs = any(w.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in ins_t if t.device.type != "meta" and t.numel())
            ours = any(_in_memory_of(g, t) for t in ins_o)
            text = None
            if theirs != ours:
                text = f"{'a view' if ours else 'a copy'} here, {'a view' if theirs else 'a copy'} there"
            elif theirs and tuple(g.stride()) != tuple(w.stride()) and w.numel() > 1:
                text = f"strides {tuple(g.stride())} here, {tuple(w.stride())} there"
            self.note("alias", dtype, text, sample)

    def out(self, f, dtype, samples):
        for sample in samples[:FEW]:
            want, refused = _call(self.op.op, *theirs_of([sample.input, *sample.args]), **theirs_of(sample.kwargs))
            if refused is not None or not all(isinstance(w, torch.Tensor) for w in flat(want)) or not flat(want):
                continue
            if not isinstance(want, torch.Tensor) and any(isinstance(w, (tuple, list)) for w in want):
                continue  # tensors in tuples of tuples
            if isinstance(want, torch.Tensor):
                shape = lambda make: make(want)  # noqa: E731
            else:
                shape = lambda make: tuple(make(w) for w in want)  # noqa: E731
            makers = {
                "of the same type": lambda w: torch.empty_like(w),
                "empty": lambda w: torch.empty(0, dtype=w.dtype),
                "of int32": lambda w: torch.empty_like(w, dtype=torch.int32),
                "of float64": lambda w: torch.empty_like(w, dtype=torch.float64),
            }
            for kind, make in makers.items():
                text = self.out_of(f, sample, shape(make))
                self.note("out", dtype, text and f"out {kind}: {text}", sample)

    def out_of(self, f, sample, out):
        theirs, ours = theirs_of(out), ours_of(out)
        want, refused = _call(self.op.op, *theirs_of([sample.input, *sample.args]), **theirs_of(sample.kwargs), out=theirs)
        got, error = _call(f, *ours_of([sample.input, *sample.args]), **ours_of(sample.kwargs), out=ours)
        if refused is not None or error is not None:
            if (refused is None) == (error is None) or (refused is not None and _not_there(refused)):
                return None
            return f"refused there: {_says(refused)}" if error is None else _says(error)
        if any((g is o) != (w is t) for g, o, w, t in zip(flat(got), flat(ours), flat(want), flat(theirs))):
            return "another tensor is returned"
        kinds = [t.dtype for t in tensors([sample.input, sample.args]) if t.dtype.is_floating_point]
        rounded = (3e7 if torch.bfloat16 in kinds else 3e6 if torch.float16 in kinds else 1e5) if theirs_are_wider(theirs, kinds) else 1.0
        return difference(ours, theirs, How(self.how.random, self.how.scale * rounded))

    # ---- gradients

    def gradients(self, f, dtype, samples):
        second = self.op.supports_gradgrad
        for sample in samples:
            if sample.kwargs.get("dropout_p"):
                continue
            text, text2 = self.gradients_of(f, sample, second)
            self.note("gradient", dtype, text, sample)
            if second and text is None:
                self.note("second", dtype, text2, sample)

    def gradients_of(self, f, sample, second):
        wrapper = self.op.gradcheck_wrapper
        their_wrapper, our_wrapper = wrapper, translated(wrapper)
        process = sample.output_process_fn_grad
        our_process = translated(process) if process is not None else None
        theirs, error = _call(_gradients, torch, their_wrapper, self.op.op, theirs_of([sample.input, *sample.args], True), theirs_of(sample.kwargs, True), process, second)
        if error is not None or theirs is None:
            return None, None
        ours, error = _call(_gradients, fl, our_wrapper, f, ours_of([sample.input, *sample.args], True), ours_of(sample.kwargs, True), our_process, second and theirs[1] is not None)
        if error is not None:
            return f"{_says(error)}{_where(error)}", None
        if ours is None:
            return "no gradient here", None
        first = _compare_gradients(ours[0], theirs[0], self.how)
        if theirs[1] is None:
            return first, None
        zeros = [(np.zeros_like(b), dtype) for b, dtype in theirs[1]]
        return first, _compare_gradients(ours[1] or zeros, theirs[1], self.how)

    # ---- names and errors

    def names(self):
        for alias in self.op.aliases:
            name = alias.name.removeprefix("torch.")
            for place, path in ((torch, name), (torch.Tensor, name), (torch.Tensor, name + "_")):
                if (place is torch or "." not in path) and _has(place, path):
                    ours = fl if place is torch else fl.Tensor
                    self.note("names", "", None if _has(ours, path) else f"not there: {'' if place is torch else 'Tensor.'}{path}")

    def errors(self, f):
        if self.op.error_inputs_func is None:
            return
        torch.manual_seed(0)
        for wrong in self.op.error_inputs("cpu"):
            sample = wrong.sample_input
            if any(t.device.type not in ("cpu", "meta") for t in tensors([sample.input, sample.args, sample.kwargs])):
                continue
            if _call(lambda: self.op.op(sample.input, *sample.args, **sample.kwargs))[1] is None:
                continue  # the database calls a method or an operator there
            self.refused(lambda: f(*ours_of([sample.input, *sample.args]), **ours_of(sample.kwargs)), wrong.error_type, wrong.error_regex, shown(sample))  # noqa: B023


def theirs_are_wider(out, kinds):
    """Whether results were computed in a narrower type than `out` has, whose tolerance is too strict then."""
    return any(isinstance(t, torch.Tensor) and t.dtype in (torch.float64, torch.complex128) for t in flat(out)) and torch.float64 not in kinds


def _has(place, path):
    try:
        reduce(getattr, path.split("."), place)
    except AttributeError:
        return False
    return True


def _in_memory_of(x, y):
    if not x.numel() or not y.numel() or str(y.device) == "meta":
        return False
    start = y.data_ptr() - y.storage_offset() * y.element_size()
    return start <= x.data_ptr() < start + y._storage_bytes()


def _gradients(lib, wrapper, f, args, kwargs, process, second):
    """Gradients of a weighted sum of all results, and those of a weighted sum of these; None where there are none."""
    result = wrapper(f, *args, **kwargs)
    result = process(result) if process is not None else result
    leaves = [t for t in tensors([args, kwargs]) if t.requires_grad]
    total = _weighted(lib, flat(result), 7)
    if total is None or not leaves:
        return None
    first = lib.autograd.grad(total, leaves, create_graph=second, allow_unused=True)
    if not second:
        return _arrays(first, leaves), None
    again = _weighted(lib, [g for g in first if g is not None], 8)
    if again is None:
        return _arrays(first, leaves), None
    return _arrays(first, leaves), _arrays(lib.autograd.grad(again, leaves, allow_unused=True), leaves)


def _weighted(lib, results, seed):
    rng = np.random.default_rng(seed)
    total = None
    for r in results:
        if not isinstance(r, lib.Tensor):
            continue
        weights = rng.standard_normal(tuple(r.shape))
        if not r.requires_grad:
            continue
        w = lib.tensor(np.asarray(weights)).to(r.dtype)
        part = (r * (w * (1 + 0.5j) if r.is_complex() else w)).sum()
        part = lib.real(part) if r.is_complex() else part
        total = part if total is None else total + part
    return total


def _arrays(gradients, leaves):
    return [(np.zeros(tuple(t.shape)) if g is None else values(g), dtype_name(t)) for g, t in zip(gradients, leaves)]


def _compare_gradients(ours, theirs, how):
    for k, ((a, _), (b, dtype)) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape:
            return f"gradient {k}: shape {a.shape} here, {b.shape} there"
        if text := difference_of_values(a, b, dtype, how.scale * 10):
            return f"gradient {k}: {text}"
    return None

