"""What older programs call."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import _older
from flambeau.nn import functional as F

NAMES = sorted(name for name, module in fl._LAZY_NAMES.items() if module == "_older")
INPLACE = [name for name in NAMES if name.endswith("_") and hasattr(fl.Tensor, name) and not hasattr(F, name)]


@pytest.mark.parametrize("name", INPLACE)
def test_functions_that_write_into_their_tensor_are_the_methods(name):
    more = {"addmv_": (fl.ones(2, 2), fl.ones(2)), "as_strided_": ((2,), (0,)), "clamp_": (0.3,), "clip_": (0.3,), "clamp_max_": (0.3,), "clamp_min_": (0.3,),
            "ldexp_": (fl.tensor([2, 3]),), "xlogy_": (fl.ones(2),), "gcd_": (fl.tensor([4, 6]),), "lcm_": (fl.tensor([4, 6]),)}.get(name, ())  # fmt: skip
    make = (lambda: fl.tensor([6, 9])) if name in ("gcd_", "lcm_") else lambda: fl.tensor([0.25, 0.5])
    make = (lambda: fl.tensor([1.5, 2.0])) if "cosh" in name else make
    one, other = make(), make()
    assert getattr(fl, name)(one, *more) is one
    getattr(other, name)(*more)
    assert fl.equal(one, other)
    with pytest.raises(TypeError):
        getattr(fl, name)("text", *more)
    assert name in dir(fl)


def test_losses_by_number():
    a, b, y = fl.tensor([1.0, 2.0]), fl.tensor([0.0, 3.0]), fl.tensor([1.0, -1.0])
    for number, text in enumerate(_older.REDUCTIONS):
        assert fl.equal(fl.margin_ranking_loss(a, b, y, 0.5, number), F.margin_ranking_loss(a, b, y, 0.5, reduction=text))
        assert fl.equal(fl.hinge_embedding_loss(a, y, reduction=number), F.hinge_embedding_loss(a, y, reduction=text))
    assert fl.equal(fl.margin_ranking_loss(a, b, y), F.margin_ranking_loss(a, b, y, reduction="none"))  # as there
    with pytest.raises(ValueError, match="reduction = 3; expected 0"):
        fl.margin_ranking_loss(a, b, y, 0.0, 3)
    with pytest.raises(TypeError, match="multiple values for argument 'input1'"):
        fl.margin_ranking_loss(a, b, y, input1=a)


def test_new():
    x = fl.ones(2, dtype=fl.float64)
    assert x.new().shape == (0,) and x.new(2, 3).shape == (2, 3) and x.new(fl.Size([4])).shape == (4,)
    assert x.new([1, 2]).tolist() == [1.0, 2.0] and x.new([1, 2]).dtype == fl.float64
    assert x.new(fl.tensor([3])).dtype == fl.float64 and x.new(np.arange(2)).tolist() == [0.0, 1.0]
    assert fl.ones(1, device="meta").new(2).is_meta and x.new(2, device="meta").is_meta
    assert x.new(size=(2, 3)).shape == (2, 3)
    for size in (3, float("inf"), "3"):
        with pytest.raises(TypeError, match="expected a tuple of ints alone"):
            x.new(size=size)


def test_new_of_a_sparse_tensor_is_sparse():
    """As optimizers make updates of rows: `grad.new(grad._indices(), values, grad.size())`."""
    x = fl.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), dtype=fl.float64)
    assert x.new(x._indices(), fl.tensor([3.0, 4.0]), x.size()).to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert x.new(x._indices(), fl.tensor([3.0, 4.0])).dtype == fl.float32
    for empty, shape in ((x.new(), (0,)), (x.new(2, 3), (2, 3)), (x.new(fl.Size([4])), (4,))):
        assert empty.is_sparse and empty._nnz() == 0 and empty.shape == shape and empty.dtype == fl.float64


def test_python_functions_over_elements():
    x = fl.arange(6).reshape(2, 3).t()
    assert x.apply_(lambda v: v * v).tolist() == [[0, 9], [1, 16], [4, 25]]
    assert fl.zeros(2, 2).map_(fl.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [[1, 2], [1, 2]]
    assert fl.zeros(2).map2_(fl.ones(2), fl.tensor([3.0, 4.0]), lambda a, b, c: b * c).tolist() == [3, 4]
    assert fl.zeros(0).apply_(lambda v: 1 / 0).shape == (0,)
    y = fl.ones(3)
    with pytest.raises(ZeroDivisionError):
        y.apply_(lambda v: 1 / 0)
    assert y.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="has no derivative"):
        fl.ones(2, requires_grad=True).apply_(abs)
    with pytest.raises(TypeError, match="must be callable, not int"):
        y.apply_(3)
    with pytest.raises(TypeError, match="'x' must be Tensor, not float"):
        y.map2_(1.0, y, max)


def test_geometry_and_kinds():
    x = fl.empty(2, 3, 4)
    assert x.dim_order() == (0, 1, 2) and x.transpose(0, 2).dim_order() == (2, 1, 0)
    assert x.is_set_to(x[:]) and not x.is_set_to(x.clone()) and not x.is_set_to(x[1:])
    assert (x.dense_dim(), x.sparse_dim()) == (3, 0)
    assert not any(getattr(x, f"is_{kind}") for kind in ("quantized", "nested", "mkldnn", "mps", "xpu", "xla", "ipu", "mtia", "maia", "vulkan"))
    assert fl.equal(fl.tensor([0.2, 2.0]).hardshrink(), fl.tensor([0.0, 2.0]))


def test_channels_are_dropped_whole():
    fl.manual_seed(0)
    out = fl.feature_dropout(fl.ones(20, 10, 3, 3), 0.5, True).flatten(2)
    assert set(out.flatten().tolist()) == {0.0, 2.0} and fl.equal(out.amax(2), out.amin(2))
    assert fl.equal(fl.feature_dropout(fl.ones(2, 2, 2), 0.5, False), fl.ones(2, 2, 2))


@pytest.mark.parametrize("name", ["alpha_dropout_", "conv_tbc", "dropout_", "embedding_renorm_", "feature_alpha_dropout_", "feature_dropout_", "native_dropout"])
def test_what_is_no_tensor_is_refused(name):
    more = {"conv_tbc": (fl.ones(1, 1, 1), fl.ones(1)), "embedding_renorm_": (fl.tensor([0]), 1.0, 2.0)}.get(name, (0.5, True))
    with pytest.raises(TypeError):
        getattr(fl, name)("text", *more)
