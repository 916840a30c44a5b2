"""utils.benchmark: what is measured, and how tables look."""

import pytest

import flambeau as fl
from flambeau.utils import benchmark


class Clock:
    """One that ticks a second at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_a_statement_runs_with_its_names_and_threads():
    seen = []
    before = fl.get_num_threads()
    timer = benchmark.Timer("seen.append(flambeau.get_num_threads())", setup="seen.append('setup')", global_setup="k = 3",
                            globals={"seen": seen}, timer=Clock(), num_threads=2)  # fmt: skip
    measured = timer.timeit(4)
    assert seen == ["setup", 2, 2, "setup", 2, 2, 2, 2] and fl.get_num_threads() == before
    assert measured.times == [0.25] and measured.median == measured.mean == 0.25 and measured.iqr == 0.0
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0").timeit(1)
    assert fl.get_num_threads() == before


def test_ranges_end_and_tell():
    told = []
    measured = benchmark.Timer("x + 1", globals={"x": fl.ones(3)}).blocked_autorange(lambda n, t: told.append((n, t)), min_run_time=0.02)
    assert sum(measured.raw_times) >= 0.02 and [t for _, t in told] == measured.raw_times and measured.number_per_run == told[0][0]
    assert benchmark.Timer("pass").adaptive_autorange(min_run_time=0.001, max_run_time=0.05).median > 0


def measured(times, **spec):
    return benchmark.Measurement(1, times, benchmark.TaskSpec("f()", **spec))


def test_tables():
    results = [
        measured([t * 1e-6] * 4, label="add", sub_label=size, description=name, num_threads=n)
        for (t, size, name, n) in [(1.0, "small", "ours", 1), (2.0, "small", "theirs", 1), (30.0, "large", "ours", 1), (4.0, "small", "ours", 2)]
    ]
    table = benchmark.Compare(results)
    table.colorize()
    assert str(table) == """\
[--------- add ---------]
       |  ours  |  theirs
1 threads: --------------
 small |  1.0*  |     2.0
 large |  30.0  |
2 threads: --------------
 small |   4.0  |

Times are in microseconds (us)."""
    with pytest.raises(ValueError, match="got a int"):
        table.extend_results([3])


def test_runs_of_one_task_are_merged_and_spread_is_told():
    one, other = measured([1.0], label="a"), measured([3.0], label="a")
    (merged,) = benchmark.Measurement.merge([one, other])
    assert merged.times == [1.0, 3.0] and merged.median == 2.0 and merged.has_warnings and merged.label == "a"
    assert "quartiles are 50.0% of the median apart" in repr(merged) and "\n  2 measurements, 1 runs per measurement, 1 thread\n" in repr(merged)
    assert benchmark.select_unit(3e-9) == ("ns", 1e-9) and benchmark.trim_sigfig(1234.0, 2) == 1200.0


@pytest.mark.parametrize(("names", "row"), [({}, "x + 1"), ({"sub_label": "small"}, "small")])
def test_the_name_of_a_row(names, row):
    assert benchmark.Measurement(1, [1.0], benchmark.TaskSpec("x + 1", **names)).as_row_name == row


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: benchmark.Timer(3), TypeError, "stmt is a int"), (lambda: benchmark.Timer("pass", num_threads=0), ValueError, "num_threads = 0"),
    (lambda: benchmark.Timer("pass").repeat(), NotImplementedError, "blocked_autorange"), (lambda: benchmark.Timer("1 +"), SyntaxError, "invalid syntax"),
], ids=range(4))  # fmt: skip
def test_refusals(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("language", ["python", "py", benchmark.Language.PYTHON])
def test_statements_are_python(language):
    assert benchmark.Timer("pass", language=language).timeit(1).number_per_run == 1


def test_statements_are_not_compiled():
    with pytest.raises(ValueError, match="language = 'c\\+\\+'; expected 'python'"):
        benchmark.Timer("pass", language="c++")


SEVERAL = """\
stmt:
  for i in x:
    i

setup:
  a = 1
  b = 2

  Median: 2.50 us
  IQR:    2.75 us (1.75 to 4.50)
  4 measurements, 1 runs per measurement, 2 threads
  WARNING: the quartiles are 110.0% of the median apart; the machine may be busy"""


@pytest.mark.parametrize(
    ("times", "spec", "text"),
    [
        ([2e-6], {"stmt": "x + 1", "setup": "from m import f"}, "x + 1\nsetup: from m import f\n  2.00 us\n  1 measurement, 1 runs , 1 thread"),
        ([2e-6], {"stmt": "x", "label": "add", "sub_label": "small", "description": "ours"}, "add: small\nours\n  2.00 us\n  1 measurement, 1 runs , 1 thread"),
        ([2e-6, 9e-6, 1e-6, 3e-6], {"stmt": "for i in x:\n  i", "setup": "a = 1\nb = 2", "num_threads": 2}, SEVERAL),
    ],
    ids=["one", "named", "several"],
)
def test_what_a_measurement_says(times, spec, text):
    first, _, rest = repr(benchmark.Measurement(1, times, benchmark.TaskSpec(**spec))).partition("\n")
    assert first.startswith("<flambeau.utils.benchmark.Measurement object at 0x") and rest == text


def test_figures_that_can_be_trusted():
    spec = benchmark.TaskSpec("x")
    assert benchmark.Measurement(1, [1.0], spec).significant_figures == 4
    assert benchmark.Measurement(1, [1.0, 1.001, 1.002, 1.003] * 25, spec).significant_figures == 3
    assert benchmark.Measurement(1, [1.0, 1.1, 1.2, 1.3] * 25, spec).significant_figures == 1
    assert benchmark.Measurement(1, [1.0, 9.0], spec).significant_figures == 1


# ---------------------------------------------------------------- random arguments


def test_a_fuzzer_makes_what_fits():
    sizes = [benchmark.FuzzedParameter(f"k{i}", minval=1, maxval=10000, distribution="loguniform") for i in range(2)]
    tensor = benchmark.FuzzedTensor("x", size=("k0", "k1"), min_elements=128, max_elements=10000, probability_contiguous=0.5)
    fuzzer = benchmark.Fuzzer(parameters=[sizes], tensors=[tensor], constraints=[lambda k0, k1: k0 != k1], seed=1)
    seen = set()
    for tensors, told, params in fuzzer.take(30):
        x = tensors["x"]
        assert x.shape == (params["k0"], params["k1"]) and 128 <= x.numel() == told["x"]["numel"] <= 10000
        assert told["x"]["is_contiguous"] == x.is_contiguous() and told["x"]["dtype"] == str(x.dtype)
        assert 0 <= x.min() and x.max() < 1
        seen.add(x.is_contiguous())
    assert seen == {False, True} and 0 < fuzzer.rejection_rate < 1

    def drawn(seed):
        fuzzer = benchmark.Fuzzer(sizes, [tensor], seed=seed)
        return [(params, tensors["x"].sum().item()) for tensors, _, params in fuzzer.take(3)]

    assert drawn(3) == drawn(3) != drawn(4)


def test_a_fuzzer_follows_aliases_steps_and_numbers_of_axes():
    parameters = [
        benchmark.FuzzedParameter("dim", distribution={1: 0.5, 2: 0.5}, strict=True),
        benchmark.FuzzedParameter("n", 3, 6, "uniform"),
        benchmark.FuzzedParameter("m", distribution={benchmark.ParameterAlias("n"): 1.0}),
        benchmark.FuzzedParameter("p", 0.5, 1.5, "uniform"),
    ]
    tensors = [
        benchmark.FuzzedTensor("x", size=("n", "m"), steps=(2, 1), dim_parameter="dim", probability_contiguous=1.0, dtype=fl.int64),
        benchmark.FuzzedTensor("y", size=(2, "n"), tensor_constructor=lambda size, dtype, p, **_: fl.full(size, p, dtype=dtype)),
    ]
    axes = set()
    for made, told, params in benchmark.Fuzzer(parameters, tensors, seed=0).take(20):
        assert made["x"].shape == (params["n"],) * params["dim"] and params["m"] == params["n"]
        assert made["x"].stride(0) == 2 * params["n"] ** (params["dim"] - 1) and told["x"]["steps"] == (2, 1)[: params["dim"]]
        assert made["x"].dtype is fl.int64 and fl.equal(made["y"], fl.full((2, params["n"]), params["p"]))
        axes.add(params["dim"])
    assert axes == {1, 2}


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: benchmark.FuzzedParameter("a", 1, 2), ValueError, "distribution = None; expected 'uniform', 'loguniform' or a dict"),
    (lambda: benchmark.FuzzedParameter("a", 0, 2, "loguniform"), ValueError, "minval = 0, maxval = 2; expected two numbers, above 0,"),
    (lambda: benchmark.FuzzedParameter("a", distribution={1: 0.5}), ValueError, "expected probabilities alone, with the sum 1"),
    (lambda: benchmark.FuzzedTensor("x", (1,), cuda=True), NotImplementedError, "cuda = True"),
    (lambda: benchmark.FuzzedTensor("x", (1, 2), steps=(1,)), ValueError, "expected one for each of the 2 axes"),
    (lambda: benchmark.Fuzzer([], [benchmark.FuzzedTensor("x", (1,))] * 2), ValueError, "'x' is the name of several"),
    (lambda: next(benchmark.Fuzzer([], [benchmark.FuzzedTensor("x", (3,), max_elements=2)]).take(1)), ValueError, "none fits"),
    (lambda: benchmark.Timer("1").collect_callgrind(), NotImplementedError, "instructions are not counted here"),
])  # fmt: skip
def test_fuzzers_refuse(make, error, text):
    with pytest.raises(error, match=text):
        make()
