"""Arguments that mean nothing, in the hands of functions in Python and of rules for tensors of other kinds: the error names the argument."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau import distributions as D
from flambeau.func import jvp, rearrange, replace_all_batch_norm_modules_, stack_module_state, vmap
from flambeau.signal import windows

X = fl.ones(3, 4)
FUNCTIONS = {
    "cartesian_prod, a text": (lambda: fl.cartesian_prod("a", X), r"cartesian_prod: tensors\[0\] is a str; expected a Tensor"),
    "cartesian_prod, a number": (lambda: fl.cartesian_prod(fl.ones(2), 3), r"cartesian_prod: tensors\[1\] is a int"),
    "cross_entropy, ignore_index": (lambda: fl.nn.functional.cross_entropy(X, X, ignore_index=[1]), r"cross_entropy: ignore_index = \[1\]"),
    "embedding": (lambda: fl.embedding(X, X, "x"), "embedding: padding_idx = 'x' is a str; expected an int"),
    "factory_kwargs": (lambda: fl.nn.factory_kwargs(3), r"factory_kwargs: kwargs = 3 "),
    "finfo": (lambda: fl.finfo(3), "finfo: dtype = 3 is a int"),
    "format": (lambda: fl.tensor(1.0).__format__([1]), r"format: spec = \[1\] is a list; expected a str"),
    "deepcopy": (lambda: fl.ones(1).__deepcopy__(None), "deepcopy: memo = None is a NoneType|deepcopy: memo is a NoneType"),
    "functional_call": (lambda: fl.func.functional_call(X, {}), "functional_call: module is a Tensor; expected a Module"),
    "GradScaler": (lambda: fl.amp.GradScaler("cpu", growth_factor="x"), "GradScaler: growth_factor = 'x' is a str; expected a number"),
    "gradcheck": (lambda: fl.autograd.gradcheck(3, (fl.ones(1, requires_grad=True),)), "gradcheck: func = 3 is a int; expected a function"),
    "gradgradcheck": (lambda: fl.autograd.gradgradcheck(3, (fl.ones(1, requires_grad=True),)), "gradgradcheck: func = 3 is a int"),
    "graph_owners": (lambda: fl.graph_owners("x"), "graph_owners: limit = 'x' is a str; expected an int"),
    "iinfo": (lambda: fl.iinfo(3), "iinfo: dtype = 3 is a int"),
    "is_complex": (lambda: fl.is_complex(fl.float32), "is_complex: input is a dtype; expected a Tensor"),
    "is_floating_point": (lambda: fl.is_floating_point(fl.float32), "is_floating_point: input is a dtype; expected a Tensor"),
    "lobpcg, A": (lambda: fl.lobpcg(3), "lobpcg: A is a int; expected a Tensor"),
    "lobpcg, iK": (lambda: fl.lobpcg(fl.eye(9), iK=fl.float32), "lobpcg: iK is a dtype; expected a Tensor"),
    "make_tensor": (lambda: fl.testing.make_tensor(2, dtype=fl.float32, low="x", device="cpu"), "make_tensor: low = 'x' is a str"),
    "memory_owners": (lambda: fl.memory_owners("x"), "memory_owners: limit = 'x' is a str; expected an int"),
    "meshgrid, a number": (lambda: fl.meshgrid(3, indexing="ij"), r"meshgrid: tensors\[0\] is a int; expected a Tensor"),
    "meshgrid, numbers": (lambda: fl.meshgrid((4, 3), indexing="ij"), r"meshgrid: tensors\[0\]\[0\] is a int; expected a Tensor"),
    "meshgrid, lists": (lambda: fl.meshgrid([], [X], indexing="ij"), r"meshgrid: tensors\[0\] is a list; expected a Tensor"),
    "module_load": (lambda: X.module_load((1, 2), True), "module_load: other is a tuple; expected a Tensor"),
    "rearrange": (lambda: rearrange(X, -1), "rearrange: pattern = -1 is a int; expected a str"),
    "replace_all_batch_norm_modules_": (lambda: replace_all_batch_norm_modules_(3), "replace_all_batch_norm_modules_: root = 3 is a int; expected a Module"),
    "segment_reduce, reduce": (lambda: fl.segment_reduce(X, [1]), r"segment_reduce: reduce = \[1\] is a list; expected a str"),
    "segment_reduce, lengths": (lambda: fl.segment_reduce(X, "sum", lengths=3), "segment_reduce: lengths is a int; expected a Tensor"),
    "sparse_compressed_tensor": (lambda: fl.sparse_compressed_tensor(1, 1, 1, layout=[7]), r"sparse_compressed_tensor: layout = \[7\]"),
    "sparse_csr_tensor": (lambda: fl.sparse_csr_tensor([0, 1], [0], [1.0], 0.5), "sparse_csr_tensor: size = 0.5 is a float"),
    "stack_module_state": (lambda: stack_module_state(3), "stack_module_state: got models = 3"),
    "sum_to_size": (lambda: X.sum_to_size(object()), "sum_to_size: got sizes = "),
    "svd": (lambda: fl.svd(3, compute_uv=False), "svd: input is a int; expected a Tensor"),
    "to_sparse": (lambda: X.to_sparse("x"), "to_sparse: sparse_dim = 'x' is a str; expected an int"),
    "to_sparse, sparse": (lambda: X.to_sparse().to_sparse_coo("x"), "to_sparse: sparse_dim = 'x' is a str; expected an int"),
    "to_sparse_csr": (lambda: X.to_sparse_csr("x"), "to_sparse_csr: dense_dim = 'x' is a str; expected an int"),
    "to_sparse_csc": (lambda: X.to_sparse_csc("x"), "to_sparse_csc: dense_dim = 'x' is a str; expected an int"),
    "unique": (lambda: fl.unique(fl.tensor(1.0), dim=0), r"unique: got input = a tensor of shape \[\], dim = 0"),
    "unique_consecutive": (lambda: fl.unique_consecutive(1, dim=-1), "unique_consecutive: input is a int; expected a Tensor"),
    "vander": (lambda: fl.vander(fl.ones(2), fl.float32), "vander: N = flambeau.float32 is a dtype; expected an int"),
}  # fmt: skip
# Functions that have a mechanism for all of them: name -> arguments that work.
WINDOWS = {name: {"window_length": 7} for name in ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")}
NUMBERS = [
    *((fl, name, "dtype", [1]) for name in WINDOWS),
    *((fl, name, key, "x") for name, key in (("hamming_window", "alpha"), ("hamming_window", "beta"), ("kaiser_window", "beta"))),
    *((windows, name, key, "x") for name, key in (
        ("exponential", "tau"), ("gaussian", "std"), ("general_hamming", "alpha"), ("kaiser", "beta"), ("general_cosine", "a"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_name_the_argument(name):
    call, text = FUNCTIONS[name]
    with warnings.catch_warnings(), pytest.raises((TypeError, ValueError, IndexError, AttributeError), match=text):
        warnings.simplefilter("ignore")
        call()


@pytest.mark.parametrize(("space", "name", "key", "value"), NUMBERS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_windows_name_the_argument(space, name, key, value):
    arguments = {"window_length" if space is fl else "M": 7, key: value}
    with pytest.raises((TypeError, ValueError), match=rf"{name}: .*{key} = "):
        getattr(space, name)(**arguments)


MASKED = ["amax", "amin", "argmax", "argmin", "logsumexp", "mean", "median", "norm", "prod", "std", "sum", "var"]


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize(("key", "value"), [("input", 3), ("mask", 3), ("dim", "x")])
def test_reductions_of_masked_tensors_name_the_argument(name, key, value):
    arguments = {"input": X, key: value}
    with pytest.raises((TypeError, ValueError, AttributeError), match=rf"^\w+: .*\b{key} (is a|= )"):
        getattr(fl.masked, name)(**arguments)


@pytest.mark.parametrize("make", [
    lambda: D.RelaxedBernoulli("x", probs=fl.ones(2) / 2),
    lambda: D.RelaxedOneHotCategorical("x", probs=fl.ones(2) / 2),
    lambda: D.relaxed_bernoulli.LogitRelaxedBernoulli(None, probs=fl.ones(2) / 2),
])  # fmt: skip
def test_a_temperature_is_a_number(make):
    with pytest.raises(TypeError, match=r"\w+: temperature = ('x'|None) is a \w+; expected a number or a Tensor"):
        make()


def test_limits_of_a_continuous_bernoulli_are_numbers():
    with pytest.raises(TypeError, match=r"ContinuousBernoulli: lims\[0\] = 'x' is a str"):
        D.ContinuousBernoulli(fl.ones(2) / 2, lims=("x", 0.6))


# ---------------------------------------------------------------- rules: what the op itself says of such arguments

CALLS = {
    "stack": (lambda x: fl.stack([x, [2, 1]]), r"stack: tensors\[1\] is a list; expected a Tensor"),
    "size": (lambda x: x.size("mean"), "size: dim is a str; expected an int"),
    "pow": (lambda x: x.pow([2]), "pow: .* is a list; expected a Tensor or a number"),
    "view": (lambda x: x.view([[1, 2], [3]]), "view: no form of it takes"),
    "narrow": (lambda x: x.narrow(0, [7], 1), "narrow: start is a list; expected"),
    "unsqueeze": (lambda x: x.unsqueeze("x"), "unsqueeze: dim is a str; expected an int"),
    "permute": (lambda x: x.permute(object()), "permute: "),
}
KINDS = {
    "vmap": lambda f, x: vmap(f)(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "vmap of jvp": lambda f, x: vmap(lambda x: jvp(f, (x,), (x,)))(x),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:vmap")
def test_rules_say_what_the_op_says(kind, name):
    call, text = CALLS[name]
    with pytest.raises((TypeError, ValueError, IndexError), match=text):
        KINDS[kind](call, X)


SPARSE = {
    "bmm": (lambda x: x.bmm([7]), "bmm: b is a list; expected a Tensor"),
    "div": (lambda x: x.div(None), "div: no form of it takes"),
    "norm": (lambda x: x.norm([[1, 2], [3]]), "norm: no form of it takes"),
    "sub": (lambda x: x.sub(0.0, alpha=None), "sub: alpha is a NoneType; expected a number"),
    "select": (lambda x: x.select(0, "x"), "select: index is a str; expected an int"),
    "new_zeros": (lambda x: x.new_zeros(fl.float32), "new_zeros: "),
    "narrow": CALLS["narrow"],
    "unsqueeze_": (lambda x: x.unsqueeze_("x"), "unsqueeze: dim is a str; expected an int"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_say_what_the_op_says(name):
    call, text = SPARSE[name]
    with pytest.raises(TypeError, match=text):
        call(X.to_sparse())


def test_masked_tensors_say_what_the_op_says():
    x = fl.masked.masked_tensor(X, X > 0)
    with pytest.raises(TypeError, match="^div: no form of it takes"):
        x.div(None)
    with pytest.raises(TypeError, match="^sum: dim = 'x' is a str; expected an int, a list of ints or None"):
        x.sum("x")


def test_errors_of_the_function_itself_stay_as_they_are():
    def function(x):
        return x + {}["missing"]

    with pytest.raises(KeyError, match="^'missing'$"):
        vmap(function)(X)


def test_nothing_is_drawn_for_an_error():
    fl.manual_seed(0)
    before = fl.get_rng_state()
    with pytest.raises(TypeError, match="uniform_: from_ is a str"):
        vmap(lambda x: x.uniform_("a"), randomness="different")(fl.ones(2, 2))
    assert fl.equal(fl.get_rng_state(), before)


@pytest.mark.parametrize("how", ["different", "same"])
def test_draws_in_place_take_their_tensor_by_name(how):
    vmap(lambda x: fl._C.ops.exponential_(input=x), randomness=how)(x := fl.zeros(3, 4))
    assert (x > 0).all() and fl.equal(x[0], x[1]) == (how == "same")
    with pytest.raises(TypeError, match="exponential_: lambd is a str; expected a number"):
        vmap(lambda x: fl._C.ops.exponential_(input=x, lambd="a"), randomness=how)(x)


# ---------------------------------------------------------------- methods in Python are called by their names


@pytest.mark.parametrize("kind", ["vmap", "jvp"])
@pytest.mark.parametrize("call", [lambda x: x.module_load(x * 2), lambda x: copy.copy(x) * 2, lambda x: x.new_tensor([1.0, 2.0]) + x.sum()])
@pytest.mark.filterwarnings("ignore:vmap")
def test_methods_in_python_of_wrapped_tensors(kind, call):
    found = KINDS[kind](call, X.clone())
    found = found[0] if kind == "jvp" else found
    expected = call(X.clone()) if kind == "jvp" else fl.stack([call(x) for x in X.clone()])
    assert fl.equal(found, expected)


def test_methods_have_their_names():
    assert [getattr(fl.Tensor, name).__name__ for name in ("module_load", "new_tensor", "backward")] == ["module_load", "new_tensor", "backward"]


@pytest.mark.parametrize("dtype", [fl.float8_e4m3fn, fl.float8_e8m0fnu, fl.complex64, fl.complex32])
def test_random_whole_numbers_of_types_that_hold_none(dtype):
    with pytest.raises(fl.DTypeError, match=r"random_: the tensor is .*; expected whole numbers"):
        fl.zeros(3, dtype=dtype).random_()
    with pytest.raises(TypeError, match="random_: got 3 bounds"):
        fl.zeros(3).random_(1, 2, 3)


@pytest.mark.parametrize("name", ["avg_pool1d", "max_pool2d", "lp_pool1d", "adaptive_avg_pool2d"])
def test_pools_of_arrays_without_a_batch(name):
    with pytest.raises(TypeError, match=f"{name}: input is a ndarray; expected a Tensor"):
        getattr(fl.nn.functional, name)(np.zeros((2, 3) if name[-2:] == "1d" else (2, 3, 3)), *((2, 2) if name[:2] == "lp" else (2,)))


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose1d"])
def test_convolutions_of_arrays_without_a_batch(name):
    axes = 2 if "2d" in name else 1
    with pytest.raises(TypeError, match=f"{name}: input is a ndarray; expected a Tensor"):
        getattr(fl.nn.functional, name)(np.zeros((2,) + (3,) * axes), fl.ones(2, 2, *(1,) * axes))


def test_a_reduction_is_no_float():
    with pytest.raises(ValueError, match=r"hinge_embedding_loss: reduction = 2\.0; expected 0"):
        fl.hinge_embedding_loss(fl.ones(2), fl.ones(2), 1.0, 2.0)


def test_a_copy_of_a_sample():
    assert vmap(lambda x: copy.copy(x) * 2)(fl.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(RuntimeError, match="vmap: a tensor's gradient or memory is changed in place"):
        vmap(copy.copy)(fl.ones(3, 2).requires_grad_())
