"""Names that begin with an underscore, in classes that programs derive from: those of PyTorch, and `_fl_...`.

A program's class has helpers of its own, `_forward`, `_update`, `_mask`, `_n`, and gives its objects attributes like these. Its author has looked for PyTorch's
names at most, so a method or attribute of ours by another name would be replaced in silence.
"""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch")

# Other names, each with who asks for it.
ELSEWHERE = {
    "_repr_html_": "IPython shows it",
    "_cached_x_y": "an attribute of PyTorch's transforms that remember",
    "_param": "an attribute of PyTorch's distributions of probabilities",
    "_new": "a method of PyTorch's distributions of probabilities",
    "_run_backward": "the core calls it",
    "_storage_bytes": "the core's",
    "_storage_ptr": "the core's",
    "_dataset_kind": "an attribute of PyTorch's loaders",
    "_params": "an attribute of PyTorch's LBFGS",
    "_module_getattr": "tracers of packages still have this method of PyTorch's older ones",
}
NOT_DERIVED_FROM = {"Graph", "Node", "LinearCrossEntropyOptions", "UninitializedBuffer", "UninitializedParameter", "detect_anomaly", "set_detect_anomaly",
                    "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation_disabled"}
MODULES = """nn optim optim.lr_scheduler optim.swa_utils autograd autograd.function autograd.forward_ad distributions distributions.constraints
distributions.transforms utils.data fx nn.utils.parametrize nn.utils.prune overrides""".split()


def classes():
    for path in MODULES:
        there, here = (importlib.import_module(f"{library}.{path}") for library in ("torch", "flambeau"))
        for name, theirs in vars(there).items():
            ours = getattr(here, name, None)
            if name not in NOT_DERIVED_FROM and not name.startswith("_") and isinstance(theirs, type) and isinstance(ours, type) and ours.__module__.startswith("flambeau"):
                yield pytest.param(theirs, ours, id=f"{path}.{name}")


def private(cls):
    return {name for c in cls.__mro__ if c.__module__.split(".")[0] in ("torch", "flambeau") for name in vars(c) if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize(("theirs", "ours"), list(classes()))
def test_of_classes(theirs, ours):
    mine = private(ours) - private(theirs) - ELSEWHERE.keys()
    mangled = tuple(f"_{c.__name__.lstrip('_')}__" for c in ours.__mro__)
    assert not {name for name in mine if not name.startswith(("_fl_", *mangled))}


def instances(lib):
    nn, optim, data, d = (importlib.import_module(f"{lib.__name__}.{path}") for path in ("nn", "optim", "utils.data", "distributions"))
    schedulers = importlib.import_module(f"{lib.__name__}.optim.lr_scheduler")

    class Mine(optim.Optimizer):
        def step(self, closure=None):
            return None

    w = nn.Parameter(lib.ones(2, 2))
    yield from (nn.Module(), nn.Linear(2, 2), nn.Conv2d(1, 1, 1), nn.LSTM(1, 1), nn.BatchNorm2d(1), nn.MultiheadAttention(2, 1), nn.TransformerEncoderLayer(2, 1))
    yield from (nn.Sequential(nn.ReLU()), nn.ParameterDict(), nn.ParameterList([w]), nn.LazyLinear(2), nn.CrossEntropyLoss())
    yield from (Mine([w], {}), *(getattr(optim, name)([w], lr=0.1) for name in ("SGD", "Adam", "AdamW", "RMSprop", "LBFGS", "NAdam", "Rprop", "Adagrad")))
    moved = optim.SGD([w], lr=0.1, momentum=0.9)
    yield from (schedulers.StepLR(moved, 1), schedulers.CosineAnnealingLR(moved, 3), schedulers.OneCycleLR(moved, 1, total_steps=3), schedulers.ReduceLROnPlateau(moved))
    normal = d.Normal(lib.zeros(2), lib.ones(2))
    yield from (normal, d.Bernoulli(0.5), d.Categorical(lib.ones(3)), d.MultivariateNormal(lib.zeros(2), lib.eye(2)), d.Independent(normal, 1), d.Gumbel(0.0, 1.0), d.Beta(1.0, 1.0))
    yield from (d.AffineTransform(0, 1), d.ComposeTransform([]), d.TransformedDistribution(normal, [d.ExpTransform()]), data.DataLoader(data.TensorDataset(lib.ones(3))))


def test_of_instances():
    import torch

    import flambeau

    for theirs, ours in zip(instances(torch), instances(flambeau), strict=True):
        mine = {name for name in vars(ours).keys() - vars(theirs).keys() if name.startswith("_") and not name.startswith("_fl_")}
        assert not mine - ELSEWHERE.keys(), type(ours).__name__


def overridden(lib):
    """Private methods that packages' classes replace, call, or call in the one that they replace."""
    nn, data, d = (importlib.import_module(f"{lib.__name__}.{path}") for path in ("nn", "utils.data", "distributions"))

    class Halved(data.DataLoader):
        def _get_iterator(self):
            return (batch / 2 for batch in super()._get_iterator())

    yield [batch.tolist() for batch in Halved(range(4), batch_size=2)]
    for kind in (nn.Embedding, nn.EmbeddingBag):

        class Ones(kind):
            def reset_parameters(self):
                nn.init.ones_(self.weight)
                self._fill_padding_idx_with_zero()

        class Kept(kind):
            def _fill_padding_idx_with_zero(self):
                """The padding row is one like others."""

        yield Ones(3, 2, padding_idx=1).weight.tolist()
        yield bool((Kept(3, 2, padding_idx=1).weight[1] != 0).all())
    yield d.OneHotCategorical(lib.ones(3))._param.tolist()
    draws = d.Wishart(lib.tensor(5.0), lib.eye(2))._bartlett_sampling(lib.Size([3]))
    yield tuple(draws.shape), bool((lib.linalg.eigvalsh(draws) > 0).all())


def test_methods_that_are_replaced_and_called():
    import torch

    import flambeau

    assert list(overridden(flambeau)) == list(overridden(torch))
