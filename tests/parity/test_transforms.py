"""PyTorch's samples inside of `vmap` and `jvp`: what it takes there is taken here, with its numbers, and with no more calls per sample."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from beside import torch
from compare import How, difference, flat
from differences import RANDOM, SCALE
from samples import Missing, op_db, ours_of, shown, spread, theirs_of, translated
from verdict import looked_up

import flambeau as fl
from flambeau.func import _batched, jvp, vmap

pytestmark = pytest.mark.filterwarnings("ignore")

_BY_VALUE = "values decide how large results are, or which elements belong together"
_UP_TO = "vectors are given up to a factor"
_WRONG = "PyTorch's is no derivative: differences agree with what is here"
_WITHOUT = "no derivative there either, which says zero"

# Where PyTorch answers and this library does not, answers otherwise, or calls an op once per sample.
NOT_IN_VMAP = {
    **dict.fromkeys("masked_select nonzero_static histogram nn.functional.embedding_bag _segment_reduce/lengths _segment_reduce/offsets".split(), _BY_VALUE),
    **dict.fromkeys("linalg.eig linalg.eigh linalg.svd svd".split(), _UP_TO),
    "istft": "whether the window is zero anywhere is asked of its values",
    "gather": "an index without elements that has more axes than the tensor",
    "index_fill": "PyTorch's fills all samples with the value of the last one",
    "max_pool2d_with_indices_backward": "no such name in flambeau.ops",
    "nn.functional.batch_norm": "samples without axes, and one of the two statistics for all samples",
    "nn.functional.batch_norm/without_cudnn": "one of the two statistics for all samples",
    "nn.functional.gaussian_nll_loss": "losses do not broadcast",
}
NOT_IN_JVP = {
    **dict.fromkeys(
        "cholesky_inverse cholesky_solve linalg.cholesky linalg.cholesky_ex triangular_solve nn.functional.batch_norm native_batch_norm "
        "nn.functional.binary_cross_entropy nn.functional.cross_entropy nn.functional.linear_cross_entropy nn.functional.linear_cross_entropy/chunked "
        "nn.functional.linear_cross_entropy/chunked_none nn.functional.nll_loss nn.functional.silu/complex nn.functional.soft_margin_loss "
        "scatter_reduce/prod linalg.lstsq special.modified_bessel_i0 special.modified_bessel_i1".split(), _WRONG
    ),
    **dict.fromkeys("linalg.eig linalg.eigh linalg.svd svd".split(), _UP_TO),
    **{
        f"special.{name}": _WITHOUT
        for name in "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p modified_bessel_k0 "
        "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
        "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w spherical_bessel_j0".split()
    },
    "logcumsumexp": "less exact there",
    "max_pool2d_with_indices_backward": "no such name in flambeau.ops",
    "nn.functional.gaussian_nll_loss": "losses do not broadcast",
    "var/unbiased": "a variance of nothing",
    "var_mean/unbiased": "a variance of nothing",
}
# Windows that overlap: which of the values that are put in one place stays is a matter of PyTorch's threads.
BY_CHANCE = {"nn.functional.max_unpool2d"}
MOST = 5  # samples of an entry
BOTH = [(fl, fl.Tensor), (torch, torch.Tensor)]


def leaves(v, kind):
    """The tensors of nested arguments."""
    if isinstance(v, dict):
        v = list(v.values())
    return [t for e in v for t in leaves(e, kind)] if isinstance(v, (list, tuple)) else [v] if isinstance(v, kind) else []


def rebuilt(v, kind, tensors):
    """The same arguments with other tensors, taken one after the other."""
    if isinstance(v, kind):
        return next(tensors)
    if isinstance(v, dict):
        return {k: rebuilt(e, kind, tensors) for k, e in v.items()}
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        parts = [rebuilt(e, kind, tensors) for e in v]
        return type(v)(*parts) if hasattr(v, "_fields") else type(v)(parts)
    return v


class Call:
    """A sample in both libraries, as a function of some of its tensors."""

    def __init__(self, op, sample):
        self.functions = [translated(op.op, op.name if op.variant_test_name == "" else None), op.op]
        given = [sample.input, list(sample.args), dict(sample.kwargs)]
        self.given = [ours_of(given), theirs_of(given)]
        self.tensors = [leaves(g, kind) for g, (_, kind) in zip(self.given, BOTH)]
        self.same = len(self.tensors[0]) == len(self.tensors[1])

    def function(self, which, chosen):
        def f(*some):
            tensors = [t.clone() for t in self.tensors[which]]
            for i, x in zip(chosen, some):
                tensors[i] = x
            x, args, kwargs = rebuilt(self.given[which], BOTH[which][1], iter(tensors))
            found = flat(self.functions[which](x, *args, **kwargs))
            return tuple(y for y in found if isinstance(y, BOTH[which][1]))

        return f


def calls(name):
    op = op_db()[name]
    if looked_up(RANDOM, name) or name == "normal/in_place" or "dropout" in name or "attention" in name:
        return  # draws
    for dtype in (torch.float64, torch.complex128, torch.int64, torch.bool):
        if dtype in op.supported_dtypes("cpu"):
            break
    try:
        samples = spread(op.sample_inputs("cpu", dtype, requires_grad=False))
    except (NotImplementedError, RuntimeError):
        return
    for sample in samples[:: max(1, len(samples) // MOST)]:
        try:
            call = Call(op, sample)
        except Missing:
            continue
        if call.same and call.tensors[0]:
            yield call, shown(sample)


def tried(f, *args):
    """(result, error, whether something was called once per sample)."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result, error = f(*args), None
        except Exception as found:
            result, error = None, f"{type(found).__name__}: {found}"
    return result, error, any("batching rule" in str(w.message) for w in said)


def subsets(count):
    """All; each by itself, of three at most."""
    return [list(range(count)), *([i] for i in range(min(count, 3)) if count > 1)]


def differences_in_vmap(name, monkeypatch):
    how = How(scale=100 * (looked_up(SCALE, name) or 1.0))
    for call, text in calls(name):
        for chosen in subsets(len(call.tensors[0])):
            results = []
            for which, (lib, _) in enumerate(BOTH):
                monkeypatch.setattr(_batched, "_warned", set())
                samples = [call.tensors[which][i] for i in chosen]
                batch = [lib.stack([x, x * 0.97 if x.is_floating_point() else x]) for x in samples]
                results.append(tried((vmap if lib is fl else torch.vmap)(call.function(which, chosen)), *batch))
            (ours, error, slow), (theirs, theirs_error, theirs_slow) = results
            if theirs_error:
                continue
            if error:
                yield f"{text} {chosen}: {error}"
            elif slow and not theirs_slow:
                yield f"{text} {chosen}: called once per sample here"
            elif found := different(ours, theirs, how):
                yield f"{text} {chosen}: {found}"


def different(ours, theirs, how):
    try:
        return difference(ours, theirs, how)
    except fl.DeviceError as error:  # on the meta device, though no argument was
        return str(error)


def differences_in_jvp(name):
    how = How(scale=100 * (looked_up(SCALE, name) or 1.0))
    for call, text in calls(name):
        smooth = [i for i, t in enumerate(call.tensors[0]) if t.is_floating_point() or t.is_complex()]
        rng = np.random.default_rng(0)
        along = [rng.uniform(0.5, 1, tuple(call.tensors[0][i].shape)) for i in smooth]
        for chosen in [smooth, *([i] for i in smooth if len(smooth) > 1)]:
            if not chosen:
                continue
            results = []
            for which, (lib, _) in enumerate(BOTH):
                xs = [call.tensors[which][i].clone() for i in chosen]
                ts = [lib.tensor(along[smooth.index(i)]).to(x.dtype) for i, x in zip(chosen, xs)]
                results.append(tried((jvp if lib is fl else torch.func.jvp), call.function(which, chosen), tuple(xs), tuple(ts)))
            (ours, error, _), (theirs, theirs_error, _) = results
            if theirs_error:
                continue
            if error:
                yield f"{text} {chosen}: {error}"
            elif found := different(ours, [[t + 0 if t._is_zerotensor() else t for t in part] for part in theirs], how):
                yield f"{text} {chosen}: {found}"


def names():
    return sorted(name for name in op_db() if not name.startswith(("_refs", "prims")))


@pytest.mark.parametrize("name", names())
def test_vmap(name, monkeypatch):
    found = next(differences_in_vmap(name, monkeypatch), None)
    if reason := NOT_IN_VMAP.get(name):
        assert found, f"differs no more, but is said to: {reason}"
    else:
        assert not found


@pytest.mark.parametrize("name", names())
def test_jvp(name):
    found = next(differences_in_jvp(name), None)
    if name in BY_CHANCE:
        assert not found or "values: " in found
    elif reason := NOT_IN_JVP.get(name):
        assert found, f"differs no more, but is said to: {reason}"
    else:
        assert not found
