"""Arguments that mean nothing are refused by name: no function of nn.functional, and no constructor, answers in Python's own words."""

from __future__ import annotations

import dis
import inspect
import os

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.utils import prune, rnn


def x(*shape):
    return fl.arange(1.0, 1.0 + np.prod(shape)).view(*shape) / 7


CLASSES = fl.tensor([0, 2, 1, 0])
# Calls that work, with all of the arguments that are tried.
CALLS = [
    (F.interpolate, (x(1, 1, 4, 4),), dict(size=(3, 3), mode="bilinear", align_corners=False, antialias=False)),
    (F.interpolate, (x(1, 1, 4, 4),), dict(scale_factor=2.0, recompute_scale_factor=True)),
    (F.grid_sample, (x(1, 1, 4, 4), x(1, 2, 2, 2)), dict(mode="bilinear", padding_mode="zeros", align_corners=False)),
    (F.affine_grid, (x(1, 2, 3), [1, 1, 2, 2]), dict(align_corners=False)),
    (F.pad, (x(1, 2, 3), (1, 1)), dict(mode="constant", value=1.0)),
    (F.pad, (x(1, 2, 3), (1, 1)), dict(mode="reflect")),
    (F.cross_entropy, (x(4, 3), CLASSES), dict(label_smoothing=0.1)),
    (F.softmax, (x(2, 3),), dict(dim=1)),
    (F.gumbel_softmax, (x(2, 3),), dict(tau=1.0, hard=False, dim=-1)),
    (F.normalize, (x(2, 3),), dict(p=2.0, dim=1, eps=1e-12)),
    (F.cosine_similarity, (x(2, 3), x(2, 3)), dict(dim=1, eps=1e-8)),
    (F.embedding, (CLASSES, x(4, 2)), dict(padding_idx=0, max_norm=1.0, scale_grad_by_freq=False, sparse=False)),
    (F.embedding_bag, (CLASSES, x(4, 2)), dict(offsets=fl.tensor([0, 2]), mode="mean", include_last_offset=False, padding_idx=0)),
    (F.max_pool2d, (x(1, 1, 4, 4), 2), dict(stride=2, padding=0, return_indices=False)),
    (F.lp_pool2d, (x(1, 1, 4, 4), 2.0, 2), dict(stride=2, ceil_mode=False)),
    (F.fractional_max_pool2d, (x(1, 1, 4, 4), 2), dict(output_size=(2, 2), return_indices=False)),
    (F.max_unpool2d, (x(1, 1, 2, 2), fl.zeros(1, 1, 2, 2, dtype=fl.int64), 2), dict(stride=2, padding=0, output_size=(4, 4))),
    (F.adaptive_avg_pool2d, (x(1, 1, 4, 4), (2, 2)), {}),
    (F.conv2d, (x(1, 2, 4, 4), x(2, 2, 3, 3)), dict(stride=1, padding="same", dilation=1)),
    (F.unfold, (x(1, 1, 4, 4), 2), dict(dilation=1, padding=0, stride=1)),
    (F.fold, (x(1, 4, 9), (4, 4), 2), dict(dilation=1, padding=0, stride=1)),
    (F.layer_norm, (x(2, 3), (3,)), dict(eps=1e-5)),
    (F.batch_norm, (x(2, 4, 3), None, None), dict(training=True, eps=1e-5)),
    (F.instance_norm, (x(2, 4, 3),), dict(use_input_stats=True, eps=1e-5)),
    (F.dropout, (x(2, 3),), dict(p=0.5, training=True)),
    (F.dropout2d, (x(2, 3, 2, 2),), dict(p=0.5, training=True)),
    (F.alpha_dropout, (x(2, 3),), dict(p=0.5, training=True)),
    (F.feature_alpha_dropout, (x(2, 3),), dict(p=0.5, training=True)),
    (F.triplet_margin_loss, (x(4, 3), x(4, 3), x(4, 3)), dict(margin=1.0, eps=1e-6, swap=False)),
    (F.poisson_nll_loss, (x(4, 3), x(4, 3)), dict(log_input=True, full=False)),
    (F.kl_div, (x(4, 3), x(4, 3)), dict(reduction="batchmean", log_target=False)),
    (F.huber_loss, (x(4, 3), x(4, 3)), dict(delta=1.0)),
    (F.smooth_l1_loss, (x(4, 3), x(4, 3)), dict(beta=1.0)),
    (F.scaled_dot_product_attention, (x(1, 2, 3, 4),) * 3, dict(dropout_p=0.0, is_causal=False, enable_gqa=False)),
    (F.rrelu, (x(2, 3),), dict(lower=0.1, upper=0.3, training=False)),
    (F.hardtanh, (x(2, 3),), dict(min_val=-1.0, max_val=1.0)),
    (F.pdist, (x(3, 2),), dict(p=2.0)),
    (nn.Conv2d, (2, 4, 3), dict(stride=1, padding=0, dilation=1, groups=1)),
    (nn.GroupNorm, (2, 4), dict(eps=1e-5)),
    (nn.LayerNorm, ((3,),), dict(eps=1e-5)),
    (nn.LSTM, (3, 4), dict(num_layers=1, dropout=0.0, proj_size=0)),
    (nn.Embedding, (5, 3), dict(padding_idx=0)),
    (nn.MultiheadAttention, (4, 2), dict(kdim=4)),
    (nn.AdaptiveLogSoftmaxWithLoss, (6, 10, [3, 7]), dict(div_value=4.0)),
    (nn.ReflectionPad2d, (1,), {}),
    (nn.Dropout, (), dict(p=0.5)),
    (rnn.pad_sequence, ([x(2), x(3)],), dict(batch_first=False)),
    (rnn.pack_padded_sequence, (x(3, 2, 1), [3, 2]), {}),
    (prune.l1_unstructured, (nn.Linear(3, 2), "weight", 0.5), {}),
    (nn.init.trunc_normal_, (x(2, 3),), dict(mean=0.0, std=1.0)),
    (fl.optim.lr_scheduler.StepLR, (fl.optim.SGD([x(2).requires_grad_()], 0.1), 2), dict(gamma=0.1)),
]
ABSURD = [
    float("nan"), float("inf"), "x", None, (), [], {}, object(), int, 0.5, 0, 2**70, 1j, fl.empty(0), fl.tensor([1, 2]), fl.ones(2, 3, device="meta"), ["a"], [1, 2],
]  # fmt: skip


def in_pythons_words(error):
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    raised = dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
    if type(error).__module__ != "builtins":
        return False
    return f"{os.sep}flambeau{os.sep}" in code.co_filename and not raised and not str(error).partition(": ")[0].isidentifier()


@pytest.mark.parametrize("function, args, kwargs", CALLS, ids=lambda v: getattr(v, "__name__", None))
def test_absurd_arguments_are_refused_by_name(function, args, kwargs):
    found = []
    for place in [*range(len(args)), *kwargs]:
        for value in ABSURD:
            given, named = list(args), dict(kwargs)
            if isinstance(place, int):
                given[place] = value
            else:
                named[place] = value
            try:
                function(*given, **named)
            except Exception as error:  # noqa: BLE001
                if in_pythons_words(error):
                    found.append(f"{place} = {value!r}: {type(error).__name__}: {error}")
    assert not found


SWITCHES = [
    (function, args, kwargs, name)
    for function, args, kwargs in CALLS
    if inspect.isfunction(function)
    for name in kwargs
    if isinstance(kwargs[name], bool) and function is not rnn.pad_sequence
]


@pytest.mark.parametrize("function, args, kwargs, name", SWITCHES, ids=lambda v: getattr(v, "__name__", v if isinstance(v, str) else ""))
def test_switches_take_no_texts(function, args, kwargs, name):
    for wrong in ("no", [], object(), (1,)):
        with pytest.raises(TypeError, match=f"{function.__name__}: {name} "):
            function(*args, **{**kwargs, name: wrong})
    function(*args, **{**kwargs, name: np.bool_(kwargs[name])})


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: F.smooth_l1_loss(x(2), x(2), beta=float("nan")), "values for beta, got nan"),
        (lambda: F.pdist(x(3, 2), float("nan")), "p = nan"),
        (lambda: fl.cdist(x(3, 2), x(3, 2), float("nan")), "p values, got nan"),
        (lambda: F.rrelu(x(2), 0.1, float("inf")), "upper = inf"),
        (lambda: F.rrelu(x(2), -float("inf"), 0.1, training=True), "lower = -inf"),
        (lambda: F.cosine_similarity(x(2, 3), x(2, 3), eps=-1), "eps = -1"),
        (lambda: F.celu(x(2), 0.0), "alpha = 0"),
        (lambda: F.fractional_max_pool2d(x(1, 1, 4, 4), 2, output_ratio=float("inf")), "output_ratio = inf"),
    ],
)
def test_numbers_that_no_formula_takes(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_layer_names_its_argument():
    with pytest.raises(TypeError, match=r"Conv2d: input is a list; expected a Tensor"):
        nn.Conv2d(1, 1, 1)([1])
    with pytest.raises(TypeError, match=r"Conv2d: stride = nan is a float; expected an int or 2 of them"):
        nn.Conv2d(1, 1, 1, stride=float("nan"))
    with pytest.raises(TypeError, match=r"missing 1 required positional argument"):  # Python says it best
        nn.Bilinear(2, 2, 2)(x(2))


def test_errors_of_the_callers_functions_stay_as_they_are():
    def distance(a, b):
        return {}["key"]

    with pytest.raises(KeyError) as caught:
        F.triplet_margin_with_distance_loss(x(2, 3), x(2, 3), x(2, 3), distance_function=distance)
    assert type(caught.value) is KeyError


def test_in_place_by_name_inside_of_transformations():
    def f(a):
        b = a.clone()
        return fl._C.ops.exp_(input=b)

    want = np.exp(x(2, 3).numpy())
    np.testing.assert_allclose(fl.vmap(f)(x(2, 3)).numpy(), want, rtol=1e-6)
    value, tangent = fl.func.jvp(f, (x(2, 3),), (fl.ones(2, 3),))
    np.testing.assert_allclose(tangent.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(fl.vmap(lambda a: a.new_tensor(2.0) + a)(x(2, 3)).numpy(), x(2, 3).numpy() + 2, rtol=1e-6)
