"""`torch._inductor.config`: settings of PyTorch's generator of code. They are kept and have no effect, since it is not here."""

from __future__ import annotations

import types

from flambeau.compat._torch.overlay._compilers import patch_of

patch = patch_of(__name__)

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False
use_mixed_mm = True
triton = types.SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
