"""`Tag`: what an op can be said to be when it is registered."""

from __future__ import annotations

import enum


class Tag(enum.IntEnum):
    """PyTorch's names for kinds of ops, which `custom_op` and `define` take as `tags`. Compilers look at them there, nobody does here."""

    core = 0
    cudagraph_unsafe = enum.auto()
    data_dependent_output = enum.auto()
    dynamic_output_shape = enum.auto()
    flexible_layout = enum.auto()
    generated = enum.auto()
    inplace = enum.auto()
    inplace_view = enum.auto()
    maybe_aliasing_or_mutating = enum.auto()
    needs_contiguous_strides = enum.auto()
    needs_exact_strides = enum.auto()
    needs_fixed_stride_order = enum.auto()
    nondeterministic_bitwise = enum.auto()
    nondeterministic_seeded = enum.auto()
    out = enum.auto()
    out_variant = enum.auto()
    pointwise = enum.auto()
    pt2_compliant_tag = enum.auto()
    reduction = enum.auto()
    view_copy = enum.auto()

    __str__ = enum.Enum.__str__
