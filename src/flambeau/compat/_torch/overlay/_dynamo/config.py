"""`torch._dynamo.config`: settings of PyTorch's compiler of bytecode. They are kept and have no effect, since it is not here."""

from __future__ import annotations

from flambeau.compat._torch.overlay._compilers import patch_of

patch = patch_of(__name__)

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
inline_inbuilt_nn_modules = True
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False
