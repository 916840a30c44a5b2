"""What notebooks show: well-formed, escaped, and small for large objects."""

import html.parser

import pytest
from tqdm import tqdm

import flambeau as fl
from flambeau import nn
from flambeau.profiler import profile
from flambeau.utils.data import DataLoader, TensorDataset


class Checked(html.parser.HTMLParser):
    """Text of a piece of HTML; raises where a tag is closed that is not open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags = [], "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


SUBJECTS = {
    "number": lambda: fl.tensor(2.5),
    "vector": lambda: fl.arange(5),
    "empty": lambda: fl.empty(0, 3),
    "meta": lambda: fl.empty(3, 4, device="meta"),
    "complex": lambda: fl.tensor([1 + 2j]),
    "parameter": lambda: nn.Parameter(fl.ones(2)),
    "result": lambda: fl.ones(2, requires_grad=True) * 2,
    "sparse": lambda: fl.eye(3).to_sparse(),
    "large": lambda: fl.zeros(2000, 2000),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_tensors(name):
    x = SUBJECTS[name]()
    shown = Checked(x._repr_html_())
    assert f"shape {list(x.shape)}" in shown.text and str(x.dtype) in shown.text and str(x.device) in shown.text
    assert len(x._repr_html_()) < 3000


def test_what_a_tensor_says_of_gradients():
    assert "requires grad" in nn.Parameter(fl.ones(2))._repr_html_()
    assert "made by MulBackward0" in SUBJECTS["result"]()._repr_html_()
    assert "requires grad" not in fl.ones(2)._repr_html_()


@pytest.mark.eager("memory")
def test_a_large_tensor_is_not_copied():
    x = fl.ones(4096, 2048).t()
    x._repr_html_()
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    x._repr_html_()
    assert fl.memory_stats()["peak_allocated_bytes"] - before < x.nbytes // 100


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def extra_repr(self):
        return "<script>alert(1)</script> & more"


def test_modules():
    shown = Checked(nn.Sequential(Odd(), nn.ReLU(), nn.Linear(3, 1).requires_grad_(False))._repr_html_())
    assert "<script>alert(1)</script> & more" in shown.text and "script" not in shown.tags
    assert "13 parameters, 52 B" in shown.text and "4 parameters, 16 B, frozen" in shown.text
    assert "in_features=2, out_features=3, bias=True" in shown.text
    assert shown.tags.count("details") == 2


def test_modules_whose_parameters_have_no_shape_yet():
    assert "some without a shape yet" in Checked(nn.LazyLinear(3)._repr_html_()).text


@pytest.mark.slow
def test_a_large_module_stays_small():
    text = nn.ModuleList(nn.Sequential(nn.ReLU(), nn.ReLU()) for _ in range(2000))._repr_html_()
    assert len(text) < 200_000
    shown = Checked(text)
    assert shown.text.endswith("more modules")
    assert int(shown.text.split("... and ")[1].split()[0]) == 1 + 3 * 2000 - 400


@pytest.mark.slow
def test_profiles():
    running = profile()
    assert running._repr_html_() is None
    with running as p:
        (fl.ones(8, 8) @ fl.ones(8, 8)).relu()
    shown = Checked(p._repr_html_())
    assert "matmul" in shown.text and "relu" in shown.text and "Self CPU time total" in shown.text
    assert shown.tags.count("table") == 1
    assert Checked(p.key_averages()._repr_html_()).tags.count("tr") == 1 + len(p.key_averages())


def test_progress_bars_know_the_number_of_batches(capsys):
    loader = DataLoader(TensorDataset(fl.arange(10)), batch_size=4)
    seen = [batch for (batch,) in tqdm(loader)]
    assert len(seen) == 3
    assert "3/3" in capsys.readouterr().err
