"""Why a public name of PyTorch's is answered by the overlay and not by a module of ours. A test holds that each is here.

What has a true meaning for who writes `import flambeau as torch` belongs into the library, where the facade finds it. Names that begin
with an underscore, and modules below one, are PyTorch's own inside; packages ask for them, and nobody else.
"""

from __future__ import annotations

_INSTEAD = "the library has it otherwise on purpose"
_EXTENSIONS = "compiled extensions of PyTorch's: flambeau.ops has the operators that flambeau.library registers"
_COMPILED = "nothing is compiled against PyTorch's C++ library; setup.py of packages asks"
_GRAPHS = "graphs of ATen's operators: flambeau.graph records, saves and runs what flambeau computes by"
_INSIDE = "PyTorch's own inside, though its name does not say so; packages ask for it"

# A module's path -> its public names -> why. "*" stands for what a module's own `__getattr__` answers.
REASONS: dict[str, dict[str, str]] = {
    "": {
        "AbsentDType": "names of element types that no tensor has here; `flambeau.qint8` would promise one",
        **dict.fromkeys(
            ("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric",
             "qscheme"),
            "names of ways to quantise, which options of packages are; no tensor has one",
        ),
        **dict.fromkeys(("has_lapack", "has_mkl", "has_openmp", "has_spectral"), "switches that PyTorch wants to be rid of"),
        "compiled_with_cxx11_abi": _COMPILED,
        "PyTorchFileReader": "the reader of PyTorch's archives is refused: flambeau.load reads them",
        "jagged": "a layout that no tensor has here",
        "dequantize": "nothing is quantised: what it gives is `x.float()`",
        "is_vulkan_available": "a backend that is not here",
        **dict.fromkeys(("native_norm", "set_vital"), _INSIDE),
        "save": f"{_INSTEAD}: flambeau.save writes safetensors where no format is given, torch.save an archive of PyTorch's",
        "*": "`_foreach_*`, the element types that no tensor has here, TorchScript's types and names that moved to torch.jit, StorageBase",
    },
    "classes": {"load_library": _EXTENSIONS, "*": _EXTENSIONS},
    "export": dict.fromkeys(
        (
            "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "default_decompositions", "dims", "export", "load",
            "register_dataclass", "save",
        ),
        _GRAPHS,
    ),
    "export.dynamic_shapes": dict.fromkeys(("Dim", "Varying", "dims", "generalise", "resized", "trial_sizes", "varying_dims"), _GRAPHS),
    "export.exported_program": dict.fromkeys(
        ("CallSpec", "ExportedProgram", "Guards", "ValueRange", "argument_of", "default_decompositions"), _GRAPHS
    ),
    "export.graph_signature": dict.fromkeys(
        (
            "ConstantArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
            "TensorArgument",
        ),
        _GRAPHS,
    ),
    "fx.experimental.proxy_tensor": dict.fromkeys(
        ("Given", "ProxyTorchDispatchMode", "get_proxy_mode", "make_fx", "refuse_values", "traced"), _GRAPHS
    ),
    "library": {
        "impl_abstract": "the name that register_fake had",
        "triton_op": "there are no Triton kernels here; packages write their fallbacks on a CPU with it, too",
    },
    "masked.maskedtensor.binary": dict.fromkeys(
        ("BINARY_NAMES", "INPLACE_BINARY_NAMES", "NATIVE_BINARY_FNS", "NATIVE_INPLACE_BINARY_FNS"), _INSIDE
    ),
    "masked.maskedtensor.reductions": dict.fromkeys(
        ("NATIVE_REDUCE_FNS", "REDUCE_NAMES", "TENSOR_REDUCE_FNS", "TORCH_REDUCE_FNS"), _INSIDE
    ),
    "masked.maskedtensor.unary": dict.fromkeys(
        ("INPLACE_UNARY_NAMES", "NATIVE_INPLACE_UNARY_FNS", "NATIVE_UNARY_FNS", "UNARY_NAMES"), _INSIDE
    ),
    "nn.functional": dict.fromkeys(("GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES"), _INSIDE),
    "nn.modules.rnn": {"apply_permutation": _INSIDE},
    "ops": dict.fromkeys(("Namespace", "OpOverload", "OpOverloadPacket", "exists", "load_library", "loaded_libraries", "*"), _EXTENSIONS),
    "optim.optimizer": dict.fromkeys(("ParamsT", "StateDict"), "names of annotations, which optimizers of packages import"),
    "serialization": {
        **dict.fromkeys(
            ("SourceChangeWarning", "default_restore_location", "location_tag", "normalize_storage_type", "validate_cuda_device"), _INSIDE
        ),
        "save": f"{_INSTEAD}: an archive of PyTorch's",
    },
    "torch_version": dict.fromkeys(
        ("TorchVersion", "__version__"), "the version of PyTorch whose surface is followed; flambeau has its own"
    ),
    "utils.backcompat": dict.fromkeys(("Warning", "broadcast_warning", "keepdim_warning"), "switches of PyTorch 0.2, which change nothing"),
    "utils.collect_env": dict.fromkeys(("get_pretty_env_info", "main"), "`flambeau doctor` looks at a machine; packages print this"),
    "utils.cpp_extension": dict.fromkeys(
        (
            "BuildExtension", "CUDAExtension", "CUDA_HOME", "CUDNN_HOME", "CppExtension", "IS_HIP_EXTENSION", "ROCM_HOME", "SYCL_HOME",
            "include_paths", "library_paths", "load", "load_inline",
        ),
        _COMPILED,
    ),
    "utils.serialization": {"config": "flambeau.serialization has functions for what can be set"},
    "utils.serialization.config": dict.fromkeys(("load", "patch", "save"), "flambeau.serialization has functions for what can be set"),
    "utils.weak": dict.fromkeys(("TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakRef", "WeakTensorKeyDictionary"), _INSIDE),
    "version": {"__version__": "the version of PyTorch whose surface is followed; flambeau has its own"},
}
