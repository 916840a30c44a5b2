"""`functorch`, which PyTorch installs beside `torch`: transformations that moved to `torch.func`, and modules as functions."""

from flambeau.compat._torch.overlay._functorch.deprecated import (
    combine_state_for_ensemble,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    make_functional,
    make_functional_with_buffers,
    vjp,
    vmap,
)
from flambeau.compat._torch.overlay._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
)
from flambeau.compat._torch.overlay.torch_version import __version__ as __version__

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip
