"""`flambeau.masked` beside NumPy's masked arrays."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4, 5))
MASK = RNG.random((3, 4, 5)) > 0.4
MASK[0, 0] = False  # a slice of nothing
KEPT = np.ma.masked_array(X, ~MASK)


def filled(result, value):
    return np.ma.filled(result, value)


@pytest.mark.parametrize("dim", [None, 0, 2, (0, 2)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(dim, keepdim):
    x, mask = fl.tensor(X), fl.tensor(MASK)
    for name, expected in {
        "sum": filled(KEPT.sum(axis=dim, keepdims=keepdim), 0.0),
        "amax": filled(KEPT.max(axis=dim, keepdims=keepdim), -np.inf),
        "amin": filled(KEPT.min(axis=dim, keepdims=keepdim), np.inf),
        "mean": filled(KEPT.mean(axis=dim, keepdims=keepdim), np.nan),
        "norm": np.sqrt(filled((KEPT**2).sum(axis=dim, keepdims=keepdim), 0.0)),
        "logsumexp": np.log(filled(np.exp(KEPT).sum(axis=dim, keepdims=keepdim), 0.0)),
        "prod": np.where(MASK, X, 1).prod(axis=dim, keepdims=keepdim),
    }.items():
        args = (2.0, dim) if name == "norm" else (dim,)
        with np.errstate(divide="ignore"):
            got = getattr(fl.masked, name)(x, *args, keepdim=keepdim, mask=mask)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_variance(correction):
    x, mask = fl.tensor(X), fl.tensor(MASK)
    got = fl.masked.var(x, 2, correction=correction, mask=mask).numpy()
    for i in range(3):
        for j in range(4):
            kept = X[i, j][MASK[i, j]]
            if len(kept) > correction:
                expected = ((kept - kept.mean()) ** 2).sum() / (len(kept) - correction)
                assert got[i, j] == pytest.approx(expected, rel=1e-10)
            else:
                assert not np.isfinite(got[i, j]) or len(kept) == 1
    np.testing.assert_allclose(fl.masked.std(x, 2, correction=correction, mask=mask).numpy(), np.sqrt(got))


def test_normalisations_and_sums_up_to_an_element():
    x, mask = fl.tensor(X[1:]), fl.tensor(MASK[1:])
    e = np.where(MASK[1:], np.exp(X[1:]), 0)
    np.testing.assert_allclose(fl.masked.softmax(x, 0, mask=mask).numpy()[:, MASK[1:].any(0)], (e / e.sum(0).clip(1e-300))[:, MASK[1:].any(0)])
    y = fl.masked.normalize(x, 2.0, 1, mask=mask)
    assert y[~mask].count_nonzero() == 0
    np.testing.assert_allclose(fl.masked.cumsum(x, 2, mask=mask).numpy(), np.where(MASK[1:], X[1:], 0).cumsum(2))
    np.testing.assert_allclose(fl.masked.cumprod(x, 2, mask=mask).numpy(), np.where(MASK[1:], X[1:], 1).cumprod(2))
    np.testing.assert_array_equal(fl.masked.argmax(x, 2, mask=mask).numpy(), KEPT[1:].argmax(2))


def test_medians_and_integers():
    x, mask = fl.tensor([[3, 1, 2], [9, 8, 7]]), fl.tensor([[True, True, True], [True, False, True]])
    assert fl.masked.median(x, 1, mask=mask).tolist() == [2, 7]
    assert fl.masked.amax(x, 1, mask=~mask).tolist() == [fl.iinfo(fl.int64).min, 8]
    assert fl.masked.sum(x.to(fl.int8), 1, mask=mask).dtype is fl.int64
    with pytest.raises(ValueError, match="lets nothing through"):
        fl.masked.median(x, 1, mask=~mask)
    with pytest.raises(ValueError, match="type is flambeau.int64"):
        fl.masked.mean(x, 1, mask=mask)


def test_gradients_reach_what_is_let_through_alone():
    x = fl.tensor(X, requires_grad=True)
    fl.masked.mean(x, mask=fl.tensor(MASK)).backward()
    np.testing.assert_allclose(x.grad.numpy(), MASK / MASK.sum())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: fl.masked.sum(x, mask=fl.ones(2, 3, 4, 5, dtype=fl.bool)), IndexError, "expected a mask that broadcasts"),
        (lambda x: fl.masked.sum(x, 3), IndexError, "dim = 3 of a tensor with 3 axes"),
        (lambda x: fl.masked.sum(x, (0, -3)), RuntimeError, "names axis 0 twice"),
        (lambda x: fl.masked.var(x, 0, True, correction=2), ValueError, "expected one of them"),
        (lambda x: fl.masked.sum(x, mask=fl.ones(2, dtype=fl.bool)), RuntimeError, "shape"),
    ],
)
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(fl.tensor(X))


def test_a_product_of_one_number_is_a_copy():
    x = fl.tensor(2.0)
    fl.masked.prod(x, 0).fill_(7.0)
    assert x.item() == 2.0


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_a_mask_is_of_bools(dtype):
    x, mask = fl.ones(2), fl.tensor([1, 0]).to(getattr(fl, dtype))
    for call in (x.masked_fill, x.masked_fill_):
        with pytest.raises(RuntimeError, match=f"mask is {dtype}; expected bool"):
            call(mask, 5.0)
    assert x.tolist() == [1, 1]
    if dtype == "uint8":
        assert fl.where(mask, x, 0.0).tolist() == [1, 0]
    else:
        with pytest.raises(RuntimeError, match=f"condition is {dtype}; expected bool"):
            fl.where(mask, x, 0.0)
    assert fl.where(mask)[0].tolist() == [0]  # one argument: positions of what is not 0
