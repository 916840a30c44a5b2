"""testing.make_tensor and the older comparison."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.testing import assert_allclose, assert_close, make_tensor

DTYPES = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint16", "complex32"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("apart", [False, True])
def test_values_lie_within_their_bounds(name, apart):
    dtype = getattr(fl, name)
    x = make_tensor(3, 40, dtype=dtype, noncontiguous=apart)
    assert x.shape == (3, 40) and x.dtype is dtype and x.is_contiguous() is not apart
    values = (fl.view_as_real(x.to(fl.complex64)) if dtype.is_complex else x).double()
    first, last = {"bool": (0, 1), "uint8": (0, 9), "uint16": (0, 9)}.get(name, (-9, 9))
    assert first <= values.min().item() and values.max().item() <= last and len(values.unique()) > 1
    assert make_tensor((2, 0), dtype=dtype).shape == (2, 0) and make_tensor((), dtype=dtype).shape == ()


def test_options():
    x = make_tensor((50,), dtype=fl.int32, low=-1, high=2, exclude_zero=True)
    assert set(x.tolist()) == {-1, 1}
    assert make_tensor((2,), dtype=fl.float32, requires_grad=True).requires_grad and make_tensor((2,), dtype=fl.float32, device="meta").is_meta
    with pytest.raises(ValueError, match="low = 3, high = 3"):
        make_tensor((2,), dtype=fl.float32, low=3, high=3)
    with pytest.raises(ValueError, match="finite"):
        make_tensor((2,), dtype=fl.float32, low=float("-inf"))


def test_the_older_comparison():
    with pytest.warns(FutureWarning, match="assert_close"):
        assert_allclose(fl.tensor([1.0, float("nan")]), [1.0, float("nan")])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="Tensor-likes are not close! Mismatched elements"):
        assert_allclose(fl.tensor([1.0]), [1.1])


def test_generators_can_be_seeded_and_cloned():
    g = fl.Generator()
    assert g.seed() == g.initial_seed()
    other = g.clone_state()
    assert fl.equal(fl.rand(3, generator=g), fl.rand(3, generator=other))


def test_sequences_come_back():
    sequences = [fl.randn(n, 2) for n in (2, 4, 1)]
    packed = fl.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    for a, b in zip(fl.nn.utils.rnn.unpack_sequence(packed), sequences, strict=True):
        assert fl.equal(a, b)


def test_means_in_place():
    model = fl.nn.Linear(2, 2)
    one = fl.optim.swa_utils.AveragedModel(model)
    other = fl.optim.swa_utils.AveragedModel(model, multi_avg_fn=fl.optim.swa_utils.get_swa_multi_avg_fn())
    for _ in range(3):
        with fl.no_grad():
            model.weight.add_(1.0)
        one.update_parameters(model), other.update_parameters(model)
    assert fl.allclose(one.module.weight, other.module.weight)


@pytest.mark.parametrize("name", fl.nn.init.OLD_NAMES)
def test_older_names_of_initial_values(name):
    more = {"constant": (2.0,), "sparse": (0.5,)}.get(name, ())
    make = lambda: fl.zeros(3, 3, 3) if name == "dirac" else fl.zeros(3, 3)  # noqa: E731
    fl.manual_seed(0)
    with pytest.warns(FutureWarning, match=f"{name}_"):
        one = getattr(fl.nn.init, name)(make(), *more)
    fl.manual_seed(0)
    assert fl.equal(one, getattr(fl.nn.init, name + "_")(make(), *more))


def test_modules_without_initial_values():
    layer = fl.nn.utils.skip_init(fl.nn.BatchNorm2d, 3)
    assert type(layer) is fl.nn.BatchNorm2d and not layer.weight.is_meta and not layer.running_mean.is_meta
    with pytest.raises(RuntimeError, match="no argument 'device'"):
        fl.nn.utils.skip_init(fl.nn.ReLU)
    with pytest.raises(TypeError, match="expected a class of modules"):
        fl.nn.utils.skip_init(int)


def test_assert_close_goes_through_mappings_and_names_the_entry():
    a = {"w": fl.ones(2), "b": [fl.zeros(1), 3.0]}
    fl.testing.assert_close(a, {"b": (fl.zeros(1), 3.0), "w": fl.ones(2)})
    with pytest.raises(AssertionError, match=r"\['b'\]: \[1\]: Scalars are not close! Mismatched elements"):
        fl.testing.assert_close(a, {"w": fl.ones(2), "b": [fl.zeros(1), 4.0]})
    with pytest.raises(AssertionError, match=r"only in the first \['b'\], only in the second \['c'\]"):
        fl.testing.assert_close(a, {"w": fl.ones(2), "c": 1})
    with pytest.raises(AssertionError, match="^told: The values for attribute 'shape' do not match"):
        fl.testing.assert_close(fl.ones(2), fl.ones(3), msg=lambda text: f"told: {text}")
    x = fl.ones(2, 3)
    fl.testing.assert_close(x, fl.ones(3, 2).t())
    with pytest.raises(AssertionError, match="strides differ"):
        fl.testing.assert_close(x, fl.ones(3, 2).t(), check_stride=True)


def test_classes_are_compared_where_subclasses_are_not_allowed():
    a, b = fl.nn.Parameter(fl.ones(2)), fl.ones(2)
    assert_close(a, b)
    assert_close([1, True], [1, True], allow_subclasses=False)
    assert_close(1, 1.0, allow_subclasses=False, check_dtype=False)
    assert_close([b], (b.clone(),), allow_subclasses=False)
    with pytest.raises(TypeError, match=r"No comparison pair was able to handle inputs of type <class 'flambeau\.nn\.parameter\.Parameter'> and <class 'flambeau\.Tensor'>"):
        assert_close({"a": a}, {"a": b}, allow_subclasses=False)


def test_devices_are_compared():
    a, meta = fl.ones(2), fl.ones(2, device="meta")
    with pytest.raises(AssertionError, match="The values for attribute 'device' do not match"):
        assert_close(a, meta)
    assert_close(a, meta, check_device=False)
    assert_close(meta, meta)
    with pytest.raises(AssertionError, match="The values for attribute 'shape' do not match"):
        assert_close(fl.ones(3), meta, check_device=False)


def test_layouts_are_compared():
    dense = fl.eye(3)
    sparse, rows = dense.to_sparse(), dense.to_sparse_csr()
    for x in (sparse, rows):
        assert_close(x, x)
        with pytest.raises(AssertionError, match=r"The values for attribute 'layout' do not match: flambeau"):
            assert_close(x, dense)
        assert_close(x, dense, check_layout=False, check_stride=True)
        with pytest.raises(AssertionError, match="Tensor-likes are not close! Mismatched elements: 1 / 9"):
            assert_close(x, fl.diag(fl.tensor([1.0, 2.0, 1.0])), check_layout=False)
    assert_close(rows, sparse, check_layout=False)
    with pytest.raises(AssertionError, match="numbers of elements that are stored differ: 3 and 2"):
        assert_close(sparse, fl.diag(fl.tensor([1.0, 0.0, 1.0])).to_sparse())


def test_numbers_are_compared_as_wide_as_they_are():
    """As PyTorch does: Python's floats are float64, NumPy's numbers are Python's, bools are compared with bools alone."""
    check = fl.testing.assert_close
    check(1.0, np.float64(1.0))
    check(np.float32(0.5), 0.5)
    check(np.bool_(True), True)
    check(1.0, 1.0 + 1e-9)
    for a, b in ((1.0, 1.0 + 1e-6), (1e-3, 1e-3 + 2e-7), (1.0, 1), (np.int64(1), 1.0), (2**53, 2**53 + 10**9), (True, False)):
        with pytest.raises(AssertionError):
            check(a, b)
    check(1.0, 1, check_dtype=False)
    for a, b in ((True, 1), (1.0, np.bool_(True))):
        with pytest.raises(TypeError, match="a bool is compared with a bool alone"):
            check(a, b, check_dtype=False)
    dense = fl.eye(2)
    with pytest.raises(AssertionError, match=r"The values for attribute 'layout' do not match: flambeau"):
        check(dense, dense.to_sparse(), allow_subclasses=False)
