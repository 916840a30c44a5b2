"""What is not here, and what differs from PyTorch on purpose, by entry and property (those of compare.py), each with its reason.

A key `div` stands for all variants that have none of their own, `values uint8 bool` for these element types alone. An item
that is here, or does not differ, fails its test, so that these lists stay true.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """Differences of a property (or of all, "") whose text matches, of whatever entry; `example` is one that has them."""

    prop: str
    pattern: str
    example: str
    reason: str


EVERYWHERE = [
    Rule("out", r"^out (of \w+|empty): refused there", "mm", "out= of any type that holds the result is filled; half of PyTorch's functions want the very type"),
    Rule("errors", r"accepted here, RuntimeError there: (Expected out tensor to have dtype|Expected object of scalar type|multinomial expects)", "gather",
         "out= of any type that holds the result is filled"),
    Rule("errors", r"accepted here, RuntimeError there: (unsupported operation|the written-to tensor)", "cat", "out= may share memory with an argument: the result is computed first"),
    Rule("", r"not defined for complex(64|128)|is flambeau.complex(64|128); expected a floating point type", "logcumsumexp", "complex numbers: not there yet"),
    Rule("alias", r"memory_format=torch.channels_last", "float", "memory formats change no strides, so that there is nothing to copy"),
    Rule("errors", r"accepted here, Exception there:", "eq", "a number may stand in either place"),
    Rule("", r"cast to a floating point type first|x is int64; expected a float", "nn.functional.avg_pool2d", "defined for floats alone"),
    Rule("", r"losses do not broadcast", "nn.functional.gaussian_nll_loss", "losses do not broadcast"),
]  # fmt: skip

RANDOM = dict.fromkeys(
    "bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial new_empty new_empty_strided "
    "nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout "
    "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.multi_head_attention_forward nn.functional.rrelu normal "
    "pca_lowrank rand_like randint randint_like randn randn_like resize_ resize_as_ svd_lowrank uniform "
    "nn.AlphaDropout nn.Dropout nn.Dropout1d nn.Dropout2d nn.Dropout3d nn.FeatureAlphaDropout nn.FractionalMaxPool2d nn.FractionalMaxPool3d nn.RReLU".split(),
    True,
)

# Factors of the tolerance, where PyTorch's own error is larger than it, or a function magnifies that of its argument.
SCALE = {
    "cov": 1e4,  # weights of float32 are used in float32 there
    "nn.functional.hardsigmoid": 100.0,  # 1/6 of float32 there
    "special.airy_ai": 1e4,
    "special.bessel_j0": 1e4,
    "special.bessel_j1": 1e4,
    "special.bessel_y0": 1e4,
    "special.bessel_y1": 1e4,
}

NOT_HERE = {
    "sparse tensors: not there yet": "sparse.mm sparse.sampled_addmm _segment_reduce",
    "its samples are sparse tensors, which are not said in both libraries here; test_sparse_gradients.py compares it": "SparseAdam",
    "a prototype of PyTorch's": "hash_tensor",
    "an inner function of PyTorch's, which no documentation names": "_batch_norm_with_update _chunk_cat _native_batch_norm_legit _softmax_backward_data "
    "_unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa max_pool2d_with_indices_backward "
    "native_dropout_backward slice torch._scaled_mm torch._scaled_mm_v2 torch.ops.aten._efficient_attention_forward "
    "torch.ops.aten._flash_attention_forward torch.ops.aten._safe_softmax.default",
    "compiles CUDA's C++": "jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary jiterator_binary_return_by_ref jiterator_unary",
}

NUMBERS = "beta and alpha make the result a float, or an integer, as elsewhere; PyTorch rounds them to the type of the tensors"
CONJUGATES = "a conjugate is computed when it is asked for"
EQUALS = "which of equal elements is found, and in which order they stand, is not said"
SIGNS = "vectors are right with either sign"
COPIES = "a new tensor, for real numbers too"
CASTS = "the result is not cast from floats to integers, or from complex to real numbers"
BF16 = "intermediate values are not rounded to bfloat16"
VIEWS = "there is nothing to compute, and nothing is copied"
LISTS = "out= is returned; PyTorch returns None"
NUCLEAR = "linalg.matrix_norm has the nuclear norm of complex matrices"

# Keys: properties, joined by commas, then element types.
DIFFERENT = {
    "H": {"alias complex128 complex64": CONJUGATES},
    "addbmm": {"inplace,method,out,strided,values int32 int64 uint8": NUMBERS},
    "addr": {"inplace,method,out,strided,values bool": NUMBERS},
    "argsort": {"method,strided,values bfloat16 bool float16 uint8": EQUALS},
    "as_strided_scatter": {"gradient complex128 float64": "PyTorch keeps the gradient of a replaced element where size is ()"},
    "bernoulli": {"out bfloat16 float16 float32 float64": CASTS},
    "conj": {"alias complex128 complex64": CONJUGATES},
    "conj_physical": {"alias bfloat16 bool float16 float32 float64 int32 int64 uint8": COPIES},
    "cov": {"method,strided,values bfloat16 float16": "the weights' type does not widen the result's"},
    "cumprod": {"out bfloat16 complex128 complex64 float16 float32 float64": CASTS},
    "cumsum": {"out bfloat16 complex128 complex64 float16 float32 float64": CASTS},
    "fft.ihfftn": {"out bool float32 float64 int32 int64 uint8": "PyTorch leaves out= as it was"},
    "histc": {"values bfloat16 float16": BF16},
    "kthvalue": {"method,out,strided,values int32 int64 uint8": EQUALS},
    "linalg.eig": {"out float32 float64": SIGNS},
    "linalg.eigh": {"out complex128 complex64 float32 float64": SIGNS},
    "linalg.householder_product": {"gradient float64 complex128": "what depends on nothing has no history"},
    "linalg.lstsq": {"out complex128 complex64 float32 float64": "no out= of results that depend on the driver"},
    "linalg.lstsq/grad_oriented": {},
    "linalg.matrix_power": {"gradient complex128 float64": "what depends on nothing has no history"},
    "linalg.norm/subgradients_at_zero": {"second complex128 float64": "the second derivative of a norm at zero is 0 here and NaN there"},
    "linalg.svd": {"out float32 float64": SIGNS},
    "logsumexp": {"out complex128 complex64": CASTS},
    "lu": {"out complex128 complex64 float32 float64": CASTS, "strided,values complex128 complex64 float32 float64": "a plain tuple"},
    "mH": {"alias complex128 complex64": CONJUGATES},
    "masked_fill": {"errors": "a value with axes broadcasts"},
    "matrix_exp": {"method,strided,values bfloat16 float16": "matrices of 16 bits are cast by the caller"},
    "mean": {"errors": "the mean of integers is a float", "out complex128 complex64": CASTS},
    "mode": {"values bfloat16 bool float16 int32 int64 uint8": EQUALS},
    "module nn.FractionalMaxPool3d": {"values float32 float64": "samples of a batch do not go with an input without one"},
    "module nn.NLLLoss": {"errors": "an empty weight of another type is looked at last"},
    "module nn.TransformerEncoder": {"values float32 float64": "the database passes a layer of PyTorch's; test_nn.py compares the class"},
    "narrow": {"errors": "a bool counts as 0 or 1"},
    "native_group_norm": {"strided bfloat16 float16 float32 float64": "strided arguments are taken, too"},
    "nn.functional.batch_norm": {
        "gradient float64": "an input without channels is refused",
        "values bfloat16 float16 float32 float64": "an input without channels is refused",
    },
    "nn.functional.batch_norm/without_cudnn": {},
    "grid_sampler_2d": {"strided,values bfloat16 float16": BF16},
    "grid_sampler_3d": {"strided,values bfloat16 float16": BF16},
    "nn.functional.grid_sample": {"values bfloat16 float16": BF16},
    "nn.functional.hinge_embedding_loss": {"strided,values bfloat16": BF16},
    "nn.functional.interpolate/bicubic": {"strided,values uint8": "bytes are rounded once, at the end; PyTorch computes in fixed point"},
    "nn.functional.interpolate/bilinear": {"strided,values uint8": "bytes are rounded once, at the end; PyTorch computes in fixed point"},
    "nn.functional.margin_ranking_loss": {"strided,values uint8": "PyTorch wraps the bytes of -target round"},
    "nn.functional.max_pool1d": {"errors": "no batch gives no batch"},
    "nn.functional.max_pool3d": {"errors": "no batch gives no batch"},
    "nn.functional.multi_margin_loss": {"errors": "the type is looked at first"},
    "nn.functional.multilabel_margin_loss": {"errors": "the type is looked at first"},
    "nn.functional.pixel_shuffle": {"alias bfloat16 bool complex128 complex64 float16 float32 float64 int32 int64 uint8": VIEWS},
    "nn.functional.pixel_unshuffle": {"alias bfloat16 bool complex128 complex64 float16 float32 float64 int32 int64 uint8": VIEWS},
    "nn.functional.upsample_bilinear": {"strided,values uint8": "bytes are rounded once, at the end; PyTorch computes in fixed point"},
    "nn.functional.soft_margin_loss": {"strided,values float16": "e^x of a large x is no number of 16 bits there"},
    "norm/nuc": {"gradient complex128": NUCLEAR, "method,out,strided,values complex128 complex64": NUCLEAR},
    "optimizer Adafactor": {"errors": "complex parameters are refused when a step is made"},
    "optimizer Adam": {"errors": "numbers and tensors may be mixed; foreach is a matter of speed"},
    "optimizer AdamW": {"errors": "numbers and tensors may be mixed; foreach is a matter of speed"},
    "ormqr": {"errors": "an IndexError"},
    "roll": {"errors": "a 0-d tensor counts as one axis"},
    "sort": {"method,out,strided,values bfloat16 bool float16 uint8": EQUALS},
    "split_with_sizes_copy": {"out bfloat16 bool complex128 complex64 float16 float32 float64 int32 int64 uint8": LISTS},
    "sum_to_size": {"alias bfloat16 complex128 complex64 float16 float32 float64 int64": VIEWS, "method,strided,values bool int32 uint8": "the type stays"},
    "svd": {"out float32 float64": SIGNS},
    "topk": {"method,out,strided,values bfloat16 int32 int64 uint8": EQUALS},
    "unbind": {"errors": "a ShapeError"},
    "unbind_copy": {"errors": "a ShapeError", "out bfloat16 bool complex128 complex64 float16 float32 float64 int32 int64 uint8": LISTS},
}
