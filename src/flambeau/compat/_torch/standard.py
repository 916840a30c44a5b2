"""What PyTorch's modules import of the standard library; programs ask there: `torch.os`, `from torch.serialization import pickle`."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

# Modules of PyTorch's, without `torch.`, and the names in each.
IMPORTED: dict[str, str] = {
    "": "builtins ctypes functools glob importlib inspect math os platform sys textwrap threading warnings",
    "amp.autocast_mode": "collections functools warnings",
    "amp.grad_scaler": "inspect warnings",
    "ao.quantization": "sys",
    "autograd": "warnings",
    "autograd.anomaly_mode": "warnings",
    "autograd.forward_ad": "os",
    "autograd.function": "functools inspect itertools warnings",
    "autograd.gradcheck": "collections functools warnings",
    "autograd.graph": "abc contextlib contextvars functools logging threading",
    "autograd.profiler": "copy logging uuid",
    "backends.cuda": "contextlib",
    "compiler": "contextlib io",
    "cuda": "importlib os platform threading traceback warnings",
    "cuda.graphs": "gc typing",
    "cuda.memory": "collections contextlib ctypes pickle sys warnings",
    "cuda.profiler": "contextlib",
    "cuda.streams": "ctypes",
    "distributed.device_mesh": "logging os threading warnings",
    "distributed.distributed_c10d": "collections contextlib copy ctypes hashlib io itertools logging os pickle sys time warnings",
    "distributed.nn": "warnings",
    "distributed.optim": "warnings",
    "distributions.cauchy": "math",
    "distributions.continuous_bernoulli": "math",
    "distributions.distribution": "warnings",
    "distributions.generalized_pareto": "math",
    "distributions.gumbel": "math",
    "distributions.half_cauchy": "math",
    "distributions.half_normal": "math",
    "distributions.kl": "math warnings",
    "distributions.lkj_cholesky": "math",
    "distributions.lowrank_multivariate_normal": "math",
    "distributions.multivariate_normal": "math",
    "distributions.normal": "math",
    "distributions.studentT": "math",
    "distributions.transforms": "functools math operator",
    "distributions.von_mises": "math",
    "distributions.wishart": "math warnings",
    "export": "logging os warnings zipfile",
    "functional": "itertools operator",
    "fx.graph": "builtins contextlib copy enum functools inspect keyword logging math os pprint re types typing warnings",
    "fx.graph_module": "base64 contextlib contextvars copy hashlib itertools linecache sys traceback warnings",
    "fx.interpreter": "inspect logging",
    "fx.node": "builtins inspect logging operator types typing",
    "fx.operator_schemas": "enum inspect numbers types typing warnings",
    "fx.proxy": "collections copy dis enum inspect logging operator sys traceback types",
    "fx.subgraph_rewriter": "copy",
    "fx.traceback": "copy logging threading traceback",
    "hub": "contextlib errno hashlib json os re shutil sys tempfile uuid warnings zipfile",
    "jit": "warnings",
    "jit.annotations": "ast builtins dis enum inspect re typing warnings",
    "library": "contextlib functools inspect re sys weakref",
    "mtia": "threading traceback",
    "multiprocessing": "multiprocessing sys",
    "multiprocessing.reductions": "multiprocessing os threading",
    "multiprocessing.spawn": "logging multiprocessing os pickle signal sys tempfile time warnings",
    "nn.attention": "contextlib",
    "nn.functional": "dataclasses importlib math warnings",
    "nn.init": "math warnings",
    "nn.modules.activation": "warnings",
    "nn.modules.adaptive": "itertools",
    "nn.modules.conv": "math",
    "nn.modules.instancenorm": "warnings",
    "nn.modules.lazy": "itertools",
    "nn.modules.linear": "math",
    "nn.modules.module": "functools inspect itertools warnings weakref",
    "nn.modules.normalization": "numbers",
    "nn.modules.rnn": "math numbers warnings",
    "nn.modules.transformer": "copy warnings",
    "nn.modules.utils": "collections",
    "nn.parallel.data_parallel": "operator warnings",
    "nn.utils.clip_grad": "functools typing warnings",
    "nn.utils.parametrize": "collections copyreg",
    "nn.utils.rnn": "warnings",
    "optim.lr_scheduler": "math types warnings",
    "optim.optimizer": "functools warnings",
    "optim.swa_utils": "itertools math warnings",
    "overrides": "collections contextlib functools sys types warnings",
    "profiler": "os",
    "profiler.profiler": "gzip json os shutil tempfile",
    "random": "contextlib warnings",
    "return_types": "inspect",
    "serialization": "copyreg difflib functools io os pickle re shutil struct sys tarfile tempfile threading warnings",
    "storage": "collections copy functools io threading warnings",
    "types": "os",
    "utils": "copyreg weakref",
    "utils.benchmark": "math",
    "utils.checkpoint": "contextlib enum itertools platform uuid warnings weakref",
    "utils.collect_env": "datetime json locale os re subprocess sys",
    "utils.cpp_extension": "collections copy errno glob importlib logging os re shlex shutil subprocess sys sysconfig threading types",
    "utils.data.dataloader": "contextlib functools itertools logging os queue threading warnings weakref",
    "utils.data.dataset": "bisect itertools math warnings",
    "utils.data.distributed": "math",
    "utils.data.sampler": "itertools",
    "utils.dlpack": "enum",
    "utils.flop_counter": "logging warnings",
    "utils.hooks": "warnings weakref",
    "utils.weak": "weakref",
    "xpu": "dataclasses os threading traceback warnings",
}

# Packages of the standard library, and modules of theirs that `import torch` has imported: programs that did not import these find them.
BELOW: dict[str, str] = {
    "concurrent": "futures",
    "ctypes": "util",
    "http": "client",
    "multiprocessing": "connection resource_sharer resource_tracker spawn util",
    "urllib": "error parse request response",
}


def show_below() -> None:
    """Lets each of these packages import such a module when it is asked for: all of them at once would take as long as all else."""
    for name, below in BELOW.items():
        package = importlib.import_module(name)
        setattr(package, "__getattr__", _importing(package, below.split()))  # noqa: B010


def _importing(package: types.ModuleType, below: list[str]) -> Callable[[str], Any]:
    own = vars(package).get("__getattr__")

    def answer(name: str) -> Any:
        if name in below:
            return importlib.import_module(f"{package.__name__}.{name}")
        if own is not None:
            return own(name)
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}", name=name, obj=package)

    return answer


def has_imported(path: str, name: str) -> bool:
    """Whether PyTorch's module of this full name has this module of the standard library.

    >>> has_imported("torch", "math"), has_imported("torch.nn", "math")
    (True, False)
    """
    return name in IMPORTED.get(path.partition(".")[2], "").split()
