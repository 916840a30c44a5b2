"""The planner against what is known of six networks, and against a small one that is worked out by hand.

The tables' MiB are those of an independent simulation of the planner of December 2015, for float32 and a batch of 32,
with all that lies between arguments and gradients counted, the loss's output included.
"""

import pathlib

import pytest
from support.graphs import Maker
from support.nets import NETS, net, rule_of

from flambeau.graph import Ref, plan

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "graph.md"
MIB = 2**20
PLANNED = ("intermediate", "output")
MODES = ("none", "inplace", "coshare", "both")

# (profile, train): net -> none, inplace, coshare, both; the arena; what is in use at once
TABLE = {
    ("native", True): {
        "AlexNet": (393.3, 216.9, 209.1, 158.7, 129.3, 127.6),
        "GoogLeNet": (2678.6, 1705.0, 965.0, 814.8, 727.8, 726.2),
        "VGG-11": (4013.1, 2189.9, 2052.1, 1491.6, 1127.1, 1127.1),
        "VGG-16": (7002.1, 3684.4, 2799.3, 2238.9, 1862.1, 1862.1),
        "Inception-BN": (3937.0, 2861.9, 1544.8, 1378.3, 1233.2, 1231.9),
        "ResNet-50": (10193.6, 5942.2, 3369.9, 2778.6, 2468.7, 2468.7),
    },
    ("cudnn", True): {
        "AlexNet": (379.5, 296.0, 257.5, 224.0, 193.5, 191.5),
        "GoogLeNet": (2678.6, 2170.8, 1282.2, 1232.7, 1122.1, 1119.3),
        "VGG-11": (4013.1, 3097.4, 2788.1, 2399.1, 2015.2, 2015.2),
        "VGG-16": (7002.1, 5339.1, 4282.6, 3893.6, 3509.7, 3509.7),
        "Inception-BN": (3937.0, 3324.1, 1902.1, 1834.4, 1690.6, 1687.3),
        "ResNet-50": (10193.6, 7050.8, 3973.3, 3737.2, 3565.6, 3565.6),
    },
    ("native", False): {
        "AlexNet": (204.1, 122.8, 79.0, 67.1, 42.7, 42.7),
        "GoogLeNet": (1112.0, 717.9, 257.8, 253.4, 122.5, 122.5),
        "VGG-11": (2007.1, 1095.4, 810.0, 503.2, 490.0, 490.0),
        "VGG-16": (3501.6, 1842.7, 810.0, 809.5, 784.0, 784.0),
        "Inception-BN": (1678.4, 1222.1, 239.2, 243.6, 196.0, 196.0),
        "ResNet-50": (4410.9, 2628.2, 300.4, 300.3, 294.0, 294.0),
    },
}
CASES = [pytest.param(name, *key, id=f"{name}-{key[0]}-{'train' if key[1] else 'predict'}") for key in TABLE for name in NETS]


@pytest.mark.parametrize("name, profile, train", CASES)
def test_known_networks(name, profile, train):
    """All cells, as the table prints them."""
    graph, rule = net(name, profile, train), rule_of(profile)
    *blocks, arena, bound = TABLE[profile, train][name]
    for mode, expected in zip(MODES, blocks):
        planned = plan(graph, mode, rule=rule, kinds=PLANNED)
        planned.check()
        assert round(planned.total / MIB, 1) == pytest.approx(expected, abs=0.051), mode
    planned = plan(graph, "arena", rule=rule, kinds=PLANNED)
    planned.check()
    assert round(planned.lower_bound / MIB, 1) == bound
    assert planned.lower_bound <= planned.total <= (arena + 0.05) * MIB

    row = [f"{plan(graph, mode, rule=rule, kinds=PLANNED).total / MIB:.1f}" for mode in MODES]
    row += [f"{planned.total / MIB:.1f}", f"{planned.lower_bound / MIB:.1f}", f"{float(row[0]) / (planned.total / MIB):.2f}"]
    title = {("native", True): "native", ("cudnn", True): "cuDNN", ("native", False): "prediction"}[profile, train]
    assert f"| {name}, {title} | {' | '.join(row)} |" in DOCS.read_text()


@pytest.mark.parametrize("name", ["AlexNet", "ResNet-50"])
@pytest.mark.parametrize("mode", [*MODES, "arena"])
def test_twice_the_batch_is_twice_the_memory(name, mode):
    """Not of the parameters' gradients, which are the caller's, nor of the mean and variance of batch norm."""
    small, large = (plan(net(name, batch=batch), mode, rule=rule_of("native"), kinds=PLANNED).total for batch in (32, 64))
    assert large == pytest.approx(2 * small, rel=2e-3)


@pytest.mark.parametrize("profile, train, both, arena", [("native", True, 46.6, 35.2), ("cudnn", True, 75.0, 63.0), ("native", False, 15.7, 15.3)])
def test_vgg_11_of_one_picture(profile, train, both, arena):
    """Training takes more than 16 MiB at any batch; prediction does not."""
    graph, rule = net("VGG-11", profile, train, batch=1), rule_of(profile)
    assert plan(graph, "both", rule=rule, kinds=PLANNED).total / MIB == pytest.approx(both, abs=0.051)
    assert plan(graph, "arena", rule=rule, kinds=PLANNED).total / MIB == pytest.approx(arena, abs=0.051)


@pytest.mark.parametrize("name, parallel, more", [
    ("GoogLeNet", 2, 6.6), ("GoogLeNet", 4, 13), ("Inception-BN", 2, 4.2), ("Inception-BN", 4, 8.4), ("ResNet-50", 2, 3.5), ("VGG-16", 4, 0),
])  # fmt: skip
def test_independent_paths_cost_memory(name, parallel, more):
    """Sharing only along a colour takes a few per cent more; a chain has one path, and takes none."""
    graph = net(name)
    one, several = (plan(graph, "both", rule=rule_of("native"), kinds=PLANNED, parallel=n).total for n in (1, parallel))
    assert 100 * (several / one - 1) == pytest.approx(more, abs=0.15)


@pytest.mark.slow
def test_several_match_ranges_keep_the_best():
    graph, rule = net("ResNet-50"), rule_of("native")
    sizes = {r: plan(graph, "both", rule=rule, kinds=PLANNED, match_range=r).total for r in (1, 2, 4, 8, 16)}
    assert sizes[2] / MIB == pytest.approx(2643.9, abs=0.1)
    assert plan(graph, "both", rule=rule, kinds=PLANNED, match_range=tuple(sizes)).total == min(sizes.values()) == sizes[2]


# --------------------------------------------------------------------------------------- worked by hand

H, K = 1000, 10
PAIRS = {"act": [(0, 0)], "softmax": [(0, 0)], "softmax_backward": [(1, 0)], "fc_backward": [(1, 0)], "act_backward": [(0, 0)]}


def two_layers(train):
    """data -> fc1 -> act1 -> fc2 -> softmax, and back: fc1 and act1 have H elements, fc2 and softmax K."""
    m = Maker()
    data, w1, w2, label = (m.buffer("argument", (8,), name=name) for name in ("data", "w1", "w2", "label"))
    fc1, act1, fc2 = (m.buffer("intermediate", (n,)) for n in (H, H, K))
    out = m.buffer("output", (K,))
    m.node("fc", Ref(data), Ref(w1), outs=[fc1])
    m.node("act", Ref(fc1), outs=[act1])
    m.node("fc", Ref(act1), Ref(w2), outs=[fc2])
    m.node("softmax", Ref(fc2), Ref(label), outs=[out])
    if train:
        d_fc2, d_act1, d_fc1 = (m.buffer("intermediate", (n,)) for n in (K, H, H))
        d_w1, d_w2, d_data = (m.buffer("argument", (8,), name=name) for name in ("d_w1", "d_w2", "d_data"))
        m.node("softmax_backward", Ref(label), Ref(out), outs=[d_fc2])
        m.node("fc_backward", Ref(d_fc2), Ref(act1), Ref(w2), outs=[d_act1, d_w2])
        m.node("act_backward", Ref(d_act1), Ref(act1), outs=[d_fc1])
        m.node("fc_backward", Ref(d_fc1), Ref(data), Ref(w1), outs=[d_data, d_w1])
    return m.graph([out]).validate()


WORKED = {
    True: {"none": 4 * H + 3 * K, "inplace": 2 * H + 2 * K, "coshare": 3 * H + 2 * K, "both": 2 * H + 2 * K},
    False: {"none": 2 * H + 2 * K, "inplace": H + K, "coshare": 2 * H + 2 * K, "both": H + K},
}


@pytest.mark.parametrize("train", [True, False], ids=["train", "predict"])
@pytest.mark.parametrize("mode", MODES)
def test_two_layers_by_hand(mode, train):
    planned = plan(two_layers(train), mode, rule=PAIRS, kinds=PLANNED)
    assert planned.total == 4 * WORKED[train][mode]


def test_who_takes_whose_place():
    """act1 that of fc1, softmax that of fc2, d_fc1 that of d_act1; not d_act1 that of act1, which is read again."""
    graph = two_layers(train=True)
    planned = plan(graph, "both", rule=PAIRS, kinds=PLANNED)
    (fc1,), (act1,), (fc2,), (out,), (d_fc2,), (d_act1, _), (d_fc1,), _ = [node.outs for node in graph.nodes]
    assert planned.took == {act1: fc1, out: fc2, d_fc1: d_act1}
    blocks = [planned.places[value].block for value in (fc1, act1, fc2, out, d_fc2, d_act1, d_fc1)]
    assert blocks == [0, 0, 1, 1, 2, 3, 3]

