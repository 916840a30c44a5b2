"""The ways in which functions are called: names of arguments, what may be left out, forms that do something of their own."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import flambeau as fl

A, B, V = fl.tensor([[1.0, 2.0], [3.0, 4.0]]), fl.tensor([[0.0, 1.0], [1.0, 0.0]]), fl.tensor([1.0, -1.0])


@pytest.mark.parametrize(
    "call, want",
    [
        (lambda: fl.mm(input=A, mat2=B), lambda: A @ B),
        (lambda: fl.bmm(A[None], mat2=B[None]), lambda: (A @ B)[None]),
        (lambda: fl.mv(A, vec=V), lambda: A @ V),
        (lambda: fl.dot(V, tensor=V), lambda: fl.tensor(2.0)),
        (lambda: fl.outer(V, vec2=V), lambda: V[:, None] * V),
        (lambda: fl.addmm(A, mat1=A, mat2=B), lambda: A + A @ B),
        (lambda: fl.addmv(V, mat=A, vec=V), lambda: V + A @ V),
        (lambda: fl.baddbmm(A, batch1=A[None], batch2=B[None]), lambda: (A + A @ B)[None]),
        (lambda: fl.addcmul(A, tensor1=A, tensor2=B, value=2), lambda: A + 2 * A * B),
        (lambda: fl.addcdiv(A, tensor1=B, tensor2=A), lambda: A + B / A),
        (lambda: fl.pow(A, exponent=2), lambda: A * A),
        (lambda: A.pow(exponent=2), lambda: A * A),
        (lambda: fl.lerp(A, end=B, weight=1.0), lambda: B),
        (lambda: fl.where(condition=A > 2, input=A, other=B), lambda: fl.tensor([[0.0, 1.0], [3.0, 4.0]])),
        (lambda: fl.heaviside(V, values=V), lambda: fl.tensor([1.0, 0.0])),
        (lambda: fl.searchsorted(fl.tensor([1.0, 2.0]), input=fl.tensor([1.5])), lambda: fl.tensor([1])),
    ],
)
def test_names_of_arguments(call, want):
    assert fl.allclose(call().to(fl.float32), want().to(fl.float32))


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.zeros_like(A, memory_format=fl.preserve_format),
        lambda: A.clone(memory_format=fl.contiguous_format),
        lambda: fl.zeros(2, 2, pin_memory=True),
        lambda: fl.empty(2, 2, memory_format=fl.contiguous_format, pin_memory=False),
        lambda: fl.rand(2, 2, pin_memory=False, layout=None),
        lambda: A.new_zeros((2, 2), pin_memory=False),
    ],
)
def test_what_says_how_memory_is_taken_changes_nothing(call):
    assert call().shape == (2, 2) and call().is_contiguous()


def test_ignored_names_are_whole_ones():
    with pytest.raises(TypeError, match="unexpected keyword argument 'pin'"):
        fl.zeros(2, pin=True)


def test_where_of_a_condition_gives_positions():
    rows, columns = fl.where(A > 1)
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [1, 0, 1])
    assert [x.tolist() for x in fl.where(fl.tensor(True))] == [[0]]


def test_nonzero_as_tuple():
    assert [x.tolist() for x in fl.nonzero(B, as_tuple=True)] == [[0, 1], [1, 0]]
    assert [x.tolist() for x in B.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert B.nonzero().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("largest", [True, False])
def test_integer_tensor_without_axes_is_no_axis(largest):
    found = (fl.max if largest else fl.min)(fl.tensor([1, 5]), fl.tensor(3))
    assert found.tolist() == ([3, 5] if largest else [1, 3])


@pytest.mark.parametrize("reduce, want", [("add", [3.0, 1.0]), ("multiply", [2.0, 1.0])])
def test_scatter_reduces(reduce, want):
    x, index = fl.ones(2), fl.tensor([0])
    assert fl.scatter(x, 0, index, fl.tensor([2.0]), reduce=reduce).tolist() == want
    assert x.clone().scatter_(0, index, 2.0, reduce=reduce).tolist() == want
    with pytest.raises(fl.ArgumentError, match="scatter: reduce = 'mean'; expected 'add' or 'multiply'"):
        fl.scatter(x, 0, index, 2.0, reduce="mean")


def test_diff_with_ends():
    assert fl.diff(fl.tensor([1, 4, 9]), prepend=fl.tensor([0]), append=fl.tensor([16])).tolist() == [1, 3, 5, 7]


def test_diff_of_no_times_is_a_copy():
    x = fl.tensor([1, 4])
    fl.diff(x, 0)[0] = 7
    assert x.tolist() == [1, 4]


def test_repeat_interleave_checks_its_size():
    x, repeats = fl.tensor([1, 2]), fl.tensor([1, 2])
    assert fl.repeat_interleave(x, repeats, output_size=3).tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="output_size = 4, but repeats give 3"):
        fl.repeat_interleave(x, repeats, output_size=4)


def test_take_along_dim_counts_from_the_end():
    assert fl.take_along_dim(A, fl.tensor([[-1], [0]]), 1).tolist() == [[2.0], [3.0]]


def test_meshgrid_of_unequal_lengths():
    x, y = fl.meshgrid(fl.arange(3), fl.arange(2), indexing="xy")
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]] and y.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_meshgrid_of_matrices_is_refused():
    with pytest.raises(RuntimeError, match=r"Expected 0D or 1D tensor in the tensor list but got tensors\[1\] of shape \[2"):
        fl.meshgrid(fl.arange(3), fl.ones(2, 2), indexing="ij")
    assert fl.meshgrid(fl.tensor(3), fl.arange(2), indexing="ij")[0].tolist() == [[3, 3]]


def test_cosine_similarity_sums_over_what_is_broadcast():
    x, y = fl.ones(1, 2), fl.ones(3, 2)
    assert fl.cosine_similarity(x, y, 0).tolist() == pytest.approx([1.0, 1.0])


def test_tensor_split_at_a_tensor():
    assert [x.tolist() for x in fl.tensor_split(fl.arange(4), fl.tensor([1, 3]))] == [[0], [1, 2], [3]]
    assert len(fl.tensor_split(fl.arange(4), fl.tensor(2))) == 2


def test_tensordot_of_an_axis_of_one():
    a, b = fl.ones(2, 1), fl.tensor([[1.0], [2.0]])
    assert fl.tensordot(a, b, dims=([1], [0])).tolist() == [[3.0], [3.0]]


def test_unique_consecutive_along_an_axis():
    x = fl.tensor([[1, 2], [1, 2], [0, 2], [1, 2]])
    values, counts = fl.unique_consecutive(x, return_counts=True, dim=0)
    assert values.tolist() == [[1, 2], [0, 2], [1, 2]] and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("function", [fl.var_mean, fl.std_mean, fl.var, fl.std])
def test_bool_is_unbiased_and_no_axis(function):
    x = fl.tensor([1.0, 3.0])
    found = function(x, False)
    assert (found[0] if isinstance(found, tuple) else found).item() == 1.0


def test_to_takes_copy_by_its_place():
    assert A.to("cpu", fl.float32, False, True).data_ptr() != A.data_ptr()
    assert A.to("cpu", fl.float32, True).data_ptr() == A.data_ptr()


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda: fl.mm(A, V), ValueError),
        (lambda: fl.dot(V, V.to(fl.float64)), TypeError),
        (lambda: A.sum(5), IndexError),
        (lambda: fl.arange(0, 1, 0), ValueError),
        (lambda: fl.gather(V, 0, fl.tensor([7])), IndexError),
        (lambda: fl.nn.functional.avg_pool2d(A[None], 2, divisor_override=0), ValueError),
    ],
)
def test_refused_calls_are_runtime_errors_too(call, kind):
    with pytest.raises(RuntimeError):
        call()
    with pytest.raises(kind):
        call()


@pytest.mark.parametrize("name", ["addbmm_", "float_power_", "ldexp_"])
def test_floats_are_not_stored_in_integers(name):
    x = fl.ones(2, 2, dtype=fl.int64)
    calls = {
        "addbmm_": lambda: x.addbmm_(x[None], x[None], beta=0.5),
        "float_power_": lambda: x.float_power_(2),
        "ldexp_": lambda: x.ldexp_(fl.tensor(2)),
    }
    with pytest.raises(fl.DTypeError, match=rf"{name}: result type (flambeau\.)?float\d\d can't be cast to the desired output type"):
        calls[name]()
    assert x.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name, args, want", [("cov", (), complex(0, 0)), ("corrcoef", (), 1)])
def test_statistics_of_complex_numbers_are_complex(name, args, want):
    found = getattr(fl, name)(fl.tensor([[1 + 1j, 2 - 1j], [0j, 1j]]))
    assert found.dtype == fl.complex64


def test_gradient_of_complex_samples():
    assert fl.gradient(fl.tensor([0j, 1 + 2j, 2 + 4j]))[0].tolist() == [1 + 2j] * 3


def test_interpolated_bytes_are_rounded():
    x = fl.tensor([[[[0, 10]]]], dtype=fl.uint8)
    assert fl.nn.functional.interpolate(x, size=(1, 3), mode="bilinear", align_corners=True).tolist() == [[[[0, 5, 10]]]]


def test_kl_div_of_negative_targets_is_nan():
    assert fl.isnan(fl.nn.functional.kl_div(V, fl.tensor([-1.0, 0.5]), reduction="none")).tolist() == [True, False]


def test_lazy_modules_keep_the_type_they_are_moved_to():
    assert fl.nn.LazyLinear(2).to(fl.float64)(fl.ones(1, 3, dtype=fl.float64)).dtype == fl.float64


@pytest.mark.parametrize("a, b, shape", [((), (2, 3), (2, 3)), ((2, 1, 3), (4, 5, 3), (2, 1, 4, 5)), ((1, 3, 0), (0,), (1, 3))])
def test_inner_of_any_axes(a, b, shape):
    assert fl.inner(fl.ones(a), fl.ones(b)).shape == shape


def test_index_add_of_bools_looks_at_alpha():
    x = fl.tensor([False, False])
    assert x.index_add(0, fl.tensor([0]), fl.tensor([True]), alpha=False).tolist() == [False, False]


def test_gradient_of_put_has_the_shape_of_its_source():
    source = fl.tensor(2.0, requires_grad=True)
    fl.ones(3).put(fl.tensor([1]), source).sum().backward()
    assert source.grad.shape == () and source.grad.item() == 1.0


def test_gradient_of_copysign_with_a_number():
    x = fl.tensor([2.0, -3.0], requires_grad=True)
    fl.copysign(x, -1.0).sum().backward()
    assert x.grad.tolist() == [-1.0, 1.0]


def test_muon_refuses_complex_parameters():
    with pytest.raises(fl.DTypeError, match="Muon: parameter 0 is flambeau.complex64; expected real numbers"):
        fl.optim.Muon([fl.nn.Parameter(fl.ones(2, 2, dtype=fl.complex64))])


def test_arithmetic_takes_two_numbers():
    calls = [(fl.add(7, 2), 9), (fl.sub(7, 2, alpha=3), 1), (fl.mul(2.5, 2), 5.0), (fl.div(7, 2), 3.5), (fl.floor_divide(-7, 2), -4),
             (fl.div(7, 2, rounding_mode="trunc"), 3), (fl.true_divide(1, 2), 0.5), (fl.multiply(2, 3), 6), (fl.add(1, 2j), 1 + 2j)]  # fmt: skip
    for got, want in calls:
        assert got.shape == () and got.item() == want and got.dtype is fl.tensor(want).dtype
    assert fl.add(7, 2, out=fl.zeros(())).item() == 9.0
    for call in (lambda: fl.eq(1, 2), lambda: fl.maximum(1, 2), lambda: fl.pow(2, 3)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("name, d", [("avg_pool1d", 1), ("avg_pool2d", 2), ("avg_pool3d", 3), ("max_pool1d", 1), ("max_pool2d", 2), ("max_pool3d", 3)])
def test_a_last_window_beyond_the_input(name, d):
    pool = getattr(fl.nn.functional, name)
    x = fl.arange(2.0).reshape(1, 1, 2, *[1] * (d - 1)).expand(1, 1, *[2] * d).clone().requires_grad_()
    y = pool(x, 3, 2, ceil_mode=True)
    assert y.shape == (1, 1, *[1] * d) and y.item() == (1.0 if "max" in name else 0.5)
    y.sum().backward()
    assert x.grad.sum().item() == pytest.approx(1.0)
    for size, stride in ((5, 2), (3, 1)):
        with pytest.raises(ValueError, match="as large as the kernel"):
            pool(x, size, stride, ceil_mode=True)
    with pytest.raises(ValueError, match="as large as the kernel"):
        pool(x, 3, 2)


def test_out_of_another_class_takes_the_call():
    seen = []

    class Out:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, types, sorted(kwargs)))
            return "taken"

    for call, func in (
        (lambda o: fl.stack([fl.ones(2)], out=o), fl.stack), (lambda o: fl.add(fl.ones(2), 1, out=o), fl.add), (lambda o: fl.add(1, 2, alpha=2, out=o), fl.add)
    ):  # fmt: skip
        assert call(Out()) == "taken" and seen[-1][0] is func and "out" in seen[-1][2]


def test_split_takes_its_documented_keyword():
    x = fl.arange(5.0)
    assert [part.tolist() for part in fl.split(x, split_size_or_sections=2)] == [[0.0, 1.0], [2.0, 3.0], [4.0]]
    assert [part.tolist() for part in fl.split(x, split_size_or_sections=[1, 4])] == [[0.0], [1.0, 2.0, 3.0, 4.0]]


X = fl.arange(6.0).reshape(2, 3) + 1


@pytest.mark.parametrize(
    "call, want",
    [
        (lambda: fl.linalg.norm(input=X, axis=0, keepdims=True), lambda: fl.linalg.norm(X, dim=0, keepdim=True)),
        (lambda: fl.linalg.vector_norm(X, axis=1, keepdims=True), lambda: fl.linalg.vector_norm(X, 2, 1, True)),
        (lambda: fl.linalg.matrix_norm(a=X, axis=(0, 1)), lambda: fl.linalg.matrix_norm(X)),
        (lambda: fl.linalg.cross(x1=X, x2=X.flip(1), axis=1), lambda: fl.linalg.cross(X, X.flip(1))),
        (lambda: fl.linalg.pinv(input=X), lambda: fl.linalg.pinv(X)),
        (lambda: fl.linalg.lstsq(input=A, b=B).solution, lambda: fl.linalg.solve(A, B)),
        (lambda: fl.linalg.tensorsolve(input=A, other=V), lambda: fl.linalg.tensorsolve(A, V)),
        (lambda: fl.fft.fft(x=X, axis=0).real, lambda: fl.fft.fft(X, dim=0).real),
        (lambda: fl.fft.fftshift(X, axis=1), lambda: fl.fft.fftshift(X, 1)),
        (lambda: fl.special.logsumexp(X, axis=0, keepdims=True), lambda: fl.special.logsumexp(X, 0, True)),
        (lambda: fl.special.xlogy(x1=X, x2=X), lambda: fl.special.xlogy(X, X)),
        (lambda: X.quantile(0.5, axis=1, keepdims=True), lambda: X.quantile(0.5, 1, True)),
        (lambda: fl.trapezoid(X, axis=0), lambda: fl.trapezoid(X, dim=0)),
        (lambda: fl.cov(a=X), lambda: fl.cov(X)),
        (lambda: fl.tensor_split(X, 3, axis=1)[1], lambda: X[:, 1:2]),
        (lambda: fl.renorm(X, 2, axis=0, maxnorm=1.0), lambda: fl.renorm(X, 2, 0, 1.0)),
        (lambda: fl.cosine_similarity(X, X + 1, axis=0), lambda: fl.cosine_similarity(X, X + 1, 0)),
    ],
)
def test_names_of_schemas_and_of_numpy(call, want):
    assert call().shape == want().shape and fl.allclose(call(), want())


def test_one_argument_by_two_names_is_refused():
    with pytest.raises(TypeError, match="norm: got both axis and dim, which are one argument"):
        fl.linalg.norm(X, axis=0, dim=0)


def test_functions_that_take_other_names_are_pickled_by_their_package():
    for function in (fl.linalg.norm, fl.fft.fft, fl.special.xlogy, fl.quantile):
        assert pickle.loads(pickle.dumps(function)) is function


def test_dropout_takes_train():
    assert fl.dropout(fl.ones(3), p=0.5, train=False).tolist() == [1, 1, 1]
    assert fl.dropout(fl.ones(3), 1.0, train=True).tolist() == [0, 0, 0]


@pytest.mark.parametrize("draw, like", [
    (lambda g: fl.rand(3, generator=g), fl.rand_like), (lambda g: fl.randn(3, generator=g), fl.randn_like),
    (lambda g: fl.randint(5, (3,), generator=g), lambda x, generator: fl.randint_like(x, 5, generator=generator, dtype=fl.int64)),
    (lambda g: fl.randint(2, 5, (3,), generator=g), lambda x, generator: fl.randint_like(x, 2, 5, generator=generator, dtype=fl.int64)),
])  # fmt: skip
def test_draws_like_another_tensor_take_a_generator(draw, like):
    assert fl.equal(draw(fl.Generator().manual_seed(3)), like(fl.ones(3), generator=fl.Generator().manual_seed(3)))


@pytest.mark.parametrize("to", ["uint8", "int16", "int64", "float64"])
@pytest.mark.parametrize("part", [np.s_[:, :4], np.s_[::2, 2:6], np.s_[1], np.s_[:, 0:0], np.s_[1:3]], ids=str)
def test_parts_seen_as_another_type(part, to):
    whole = np.arange(32, dtype=np.int32).reshape(4, 8)
    x = fl.from_numpy(whole.copy())
    got = x[part].view(getattr(fl, to))
    np.testing.assert_array_equal(got.numpy(), np.ascontiguousarray(whole[part]).view(to))
    if got.numel():
        got.fill_(0)
        assert not np.array_equal(x.numpy(), whole)  # it is the same memory


@pytest.mark.parametrize(
    "x",
    [
        lambda: fl.zeros(4, 8)[:, 1:4],
        lambda: fl.zeros(8, 4).t(),
        lambda: fl.zeros(4, 8)[:, ::2],
        lambda: fl.zeros(4, 3)[:, :2],
        lambda: fl.zeros(9)[1:],
        lambda: fl.zeros(()),
    ],
)
def test_what_can_not_be_seen_as_another_type(x):
    with pytest.raises(RuntimeError, match="can not be seen as float64"):
        x().view(fl.float64)


def test_what_is_made_is_dense():
    for make in (lambda **o: fl.zeros(2, 2, **o), lambda **o: fl.randn(2, **o), lambda **o: fl.ones_like(fl.ones(2), **o)):
        assert make(layout=fl.strided).layout is fl.strided and make(layout=None).layout is fl.strided
        with pytest.raises(ValueError, match="layout = sparse_coo; expected strided"):
            make(layout=fl.sparse_coo)


def test_the_sign_of_nan():
    assert math.copysign(1, fl.nan) == 1 and not fl.signbit(fl.tensor(fl.nan))
