"""Where this library keeps what PyTorch has under another module's name. What has the same name needs no line here."""

from __future__ import annotations

# Whose surface is followed. The local part says who answers; version checks compare what is before it.
FOLLOWS = "2.13.0+flambeau"

# Modules of PyTorch's, without `torch.`, and what they are here, without `flambeau.`. An overlay comes before either.
MOVED: dict[str, str] = {
    "_tensor_str": "_print",
    "autograd.grad_mode": "autograd.modes",
    "nn.modules.container": "nn.containers",
    "nn.modules.module": "nn.module",
    "nn.utils.convert_parameters": "nn.utils.convert",
}
# The same for modules whose content lies here in one that is known under another name, too, or in several.
PARTS: dict[str, str | tuple[str, ...]] = {
    "_VF": "",
    "_tensor": "",
    "functional": "",
    "cpu.amp.autocast_mode": "cpu.amp",
    "cpu.amp.grad_scaler": "cpu.amp",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.common": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "cuda.graphs": "cuda",
    "cuda.streams": "cuda",
    "distributed.distributed_c10d": "distributed",
    "profiler.profiler": "profiler",
    "signal.windows.windows": "signal.windows",
    "testing._comparison": "testing",
    "testing._creation": "testing",
    "xpu.random": "xpu",
    "distributed.fsdp._common_utils": "distributed._composable_state",
    "distributed.launcher.api": "distributed.launcher",
    "distributed.fsdp.api": "distributed.fsdp",
    "distributed.fsdp.fully_sharded_data_parallel": "distributed.fsdp",
    "distributed.fsdp.wrap": "distributed._fsdp_wrap",
    "masked._ops": "_masked_functions",
    "masked.maskedtensor": "masked",
    "masked.maskedtensor.core": "_masked_tensor",
    "masked.maskedtensor.creation": "_masked_tensor",
    "cuda.memory": "cuda",
    "cuda.random": "cuda",
    "multiprocessing.reductions": "multiprocessing._sharing",
    "multiprocessing.spawn": "multiprocessing._spawn",
    "nn.modules.batchnorm": ("nn.modules.norm", "nn.modules.lazy", "nn.modules.sync"),
    "nn.modules.channelshuffle": "nn.modules.unpooling",
    "nn.modules.activation": ("nn.modules.activation", "nn.modules.attention"),
    "nn.modules.conv": ("nn.modules.conv", "nn.modules.lazy"),
    "nn.modules.distance": "nn.modules.loss",
    "nn.modules.fold": "nn.modules.flatten",
    "nn.modules.instancenorm": ("nn.modules.norm", "nn.modules.lazy"),
    "nn.modules.linear": ("nn.modules.linear", "nn.modules.lazy"),
    "nn.modules.loss": ("nn.modules.loss", "nn.modules.class_losses"),
    "nn.modules.module": ("nn.module", "nn.modules.module"),
    "nn.modules.normalization": "nn.modules.norm",
    "nn.modules.padding": "nn.modules.flatten",
    "nn.modules.pixelshuffle": "nn.modules.flatten",
    "nn.modules.pooling": ("nn.modules.pooling", "nn.modules.unpooling"),
    "nn.modules.sparse": ("nn.modules.embedding", "nn.modules.bags"),
    "nn.modules.upsampling": "nn.modules.flatten",
    "nn.parallel.data_parallel": "nn.parallel",
    "nn.parallel.parallel_apply": "nn.parallel._replicas",
    "nn.parallel.replicate": "nn.parallel._replicas",
    "nn.utils.stateless": ("nn.utils.stateless", "func._modules"),
    "quantization": "ao.quantization",
    **{f"quantization.{part}": f"ao.quantization.{part}" for part in ("fake_quantize", "observer", "qconfig")},
    **{f"jit.{part}": "jit" for part in ("_async", "_freeze", "_fuser", "_script", "_serialization", "_state", "_trace")},
    "optim.adadelta": "optim.adaptive",
    "optim.adamax": "optim.adaptive",
    "optim.adamw": "optim.adam",
    "optim.asgd": "optim.averaged",
    "optim.nadam": "optim.adaptive",
    "optim.radam": "optim.adaptive",
    "optim.rprop": "optim.averaged",
    "optim._adafactor": "optim.matrices",
    "optim._muon": "optim.matrices",
    "utils.benchmark.utils": "utils.benchmark",
    **{f"utils.benchmark.utils.{part}": "utils.benchmark" for part in ("common", "compare", "fuzzer", "timer")},
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.worker": "utils.data._workers",
    "utils.data.datapipes._decorator": ("utils.data.datapipes._base", "utils.data.datapipes._decorators"),
    "utils.data.datapipes.datapipe": "utils.data.datapipes._base",
    **{
        f"utils.data.datapipes.iter.{part}": "utils.data.datapipes.iter"
        for part in (
            "callable", "combinatorics", "combining", "filelister", "fileopener", "grouping", "selecting", "sharding", "streamreader",
            "utils",
        )
    },
    **{
        f"utils.data.datapipes.map.{part}": "utils.data.datapipes.map"
        for part in ("callable", "combinatorics", "combining", "grouping", "utils")
    },
    "utils.dlpack": "",
    "utils.tensorboard.summary": "utils._summaries",
    "utils.tensorboard.writer": "utils.tensorboard",
}
SOURCES: dict[str, str | tuple[str, ...]] = {**MOVED, **PARTS}

# Classes of one module of ours that PyTorch keeps in several: (beginning of the name, module of PyTorch's, without `torch.` where it has
# a dot and without `torch.nn.modules.` else), the first that fits.
HOMES: dict[str, tuple[tuple[str, str], ...]] = {
    "nn.modules.norm": (("BatchNorm", "batchnorm"), ("_BatchNorm", "batchnorm"), ("_NormBase", "batchnorm"),
                        ("InstanceNorm", "instancenorm"), ("_InstanceNorm", "instancenorm"), ("", "normalization")),
    "nn.modules.flatten": (("Flatten", "flatten"), ("Unflatten", "flatten"), ("Fold", "fold"), ("Unfold", "fold"),
                           ("Upsampl", "upsampling"), ("Pixel", "pixelshuffle"), ("", "padding")),
    "nn.modules.unpooling": (("ChannelShuffle", "channelshuffle"), ("", "pooling")),
    "nn.modules.class_losses": (("", "loss"),),
    "nn.modules.sync": (("", "batchnorm"),),
    "nn.modules.attention": (("", "activation"),),
    "nn.modules.embedding": (("", "sparse"),),
    "nn.modules.bags": (("", "sparse"),),
    "nn.modules.loss": (("CosineSimilarity", "distance"), ("PairwiseDistance", "distance"), ("", "loss")),
    "nn.modules.lazy": (("LazyConv", "conv"), ("LazyLinear", "linear"), ("LazyBatchNorm", "batchnorm"),
                        ("LazyInstanceNorm", "instancenorm"), ("", "lazy")),
    "optim.adam": (("AdamW", "optim.adamw"),),
    "optim.adaptive": (("Adadelta", "optim.adadelta"), ("Adamax", "optim.adamax"), ("NAdam", "optim.nadam"), ("RAdam", "optim.radam")),
    "optim.averaged": (("ASGD", "optim.asgd"), ("Rprop", "optim.rprop")),
    "optim.matrices": (("Adafactor", "optim."), ("Muon", "optim.")),
    **{f"distributions._transforms_{part}": (("", "distributions.transforms"),) for part in ("base", "elementwise", "shaped", "vector")},
}  # fmt: skip

_OVERLAY = "flambeau.compat._torch.overlay"
_BACK = {ours: path for path, ours in MOVED.items()}


def torch_path(module: str) -> str | None:
    """PyTorch's name of a module of ours; None for what it has none of.

    >>> torch_path("flambeau.nn.module"), torch_path("flambeau.nn.functional"), torch_path("flambeau")
    ('torch.nn.modules.module', 'torch.nn.functional', 'torch')
    """
    for prefix in (_OVERLAY, "flambeau"):
        if module == prefix:
            return "torch"
        if module.startswith(prefix + "."):
            path = module[len(prefix) + 1 :]
            if prefix != "flambeau":
                return f"torch.{path}"
            if path.startswith("compat"):
                return None
            if path in _BACK:
                return f"torch.{_BACK[path]}"
            return "torch" if path.startswith("_") else f"torch.{path}"
    return None


def home_of(module: str, name: str) -> str | None:
    """The module in which PyTorch has a class or function that is defined in `module` of ours.

    >>> home_of("flambeau.nn.modules.norm", "BatchNorm2d"), home_of("flambeau._C", "dtype"), home_of("numpy", "ndarray")
    ('torch.nn.modules.batchnorm', 'torch', None)
    """
    for beginning, last in HOMES.get(module.partition(".")[2], ()):
        if name.startswith(beginning):
            return f"torch.{last.rstrip('.')}" if "." in last else f"torch.nn.modules.{last}"
    path = torch_path(module)
    if path is None or module.startswith(_OVERLAY) or module.partition(".")[2] in _BACK:
        return path
    while path.rpartition(".")[2].startswith("_"):  # private files of a package are the package's: nn.functional._activation
        path = path.rpartition(".")[0]
    return path
