"""The operators of torchvision's compiled extension, over ours: boxes (`_boxes`), pooling of regions (`_regions`) and deformable
convolution (`_deform`).

They are registered as custom ops. Gradients, shapes on meta and casts inside of autocast regions are torchvision's own Python files,
which register them for the operators that they find; so backward is an operator here, too, as it is there. Quantised operators have a
name and no kernel: there are no quantised tensors.
"""

from __future__ import annotations

from flambeau.compat._torch.extensions.torchvision import _boxes, _deform, _regions
from flambeau.library import Library

_POOLED = "float spatial_scale, int pooled_height, int pooled_width"
_SIZES = "int batch_size, int channels, int height, int width"
_CONV = "int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask"
_OPS = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _boxes.nms,
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor": _boxes.box_iou_rotated,
    f"roi_align(Tensor input, Tensor rois, {_POOLED}, int sampling_ratio, bool aligned) -> Tensor": _regions.roi_align,
    f"_roi_align_backward(Tensor grad, Tensor rois, {_POOLED}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor": (
        _regions.roi_align_backward
    ),
    f"roi_pool(Tensor input, Tensor rois, {_POOLED}) -> (Tensor, Tensor)": _regions.roi_pool,
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_POOLED}, {_SIZES}) -> Tensor": _regions.roi_pool_backward,
    f"ps_roi_align(Tensor input, Tensor rois, {_POOLED}, int sampling_ratio) -> (Tensor, Tensor)": _regions.ps_roi_align,
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_POOLED}, int sampling_ratio, {_SIZES}) -> Tensor": (
        _regions.ps_roi_align_backward
    ),
    f"ps_roi_pool(Tensor input, Tensor rois, {_POOLED}) -> (Tensor, Tensor)": _regions.ps_roi_pool,
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_POOLED}, {_SIZES}) -> Tensor": (
        _regions.ps_roi_pool_backward
    ),
    f"deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) -> Tensor": _deform.deform_conv2d,
    f"_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)": _deform.deform_conv2d_backward,
    "_cuda_version() -> int": lambda: -1,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
    f"qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, {_POOLED}, "
    "int sampling_ratio, bool aligned) -> Tensor": None,
}

library = Library("torchvision", "DEF")
for schema, function in _OPS.items():
    name = library.define(schema)
    if function is not None:
        library.impl(name, function, "CPU")
