"""Simulated schedules against formulas and published figures."""

from __future__ import annotations

import pytest

from flambeau.pipeline import Costs, Schedule
from flambeau.pipeline.simulate import in_turn

EXACT = 1e-9


def idle(name, p, m, v=1, **options):
    """Per rank and step, in units of a forward of 1/p of the model; with the peak of activations in units of that part."""
    costs = Costs(F=1 / v, I=1 / v, W=1 / v, activation=1 / v)
    timeline = Schedule.make(name, p, m, **options).simulate(costs)
    assert max(timeline.idle) == pytest.approx(min(timeline.idle), abs=EXACT)
    return timeline


@pytest.mark.parametrize("p, m", [(4, 8), (8, 32)])
@pytest.mark.parametrize("name, v, options, lost", [
    ("gpipe", 1, {}, lambda p: 3 * (p - 1)),
    ("1f1b", 1, {}, lambda p: 3 * (p - 1)),
    ("eager-1f1b", 1, {}, lambda p: 3 * (p - 1)),
    ("interleaved", 2, {"chunks": 2}, lambda p: 3 * (p - 1) / 2),
    ("interleaved", 4, {"chunks": 4}, lambda p: 3 * (p - 1) / 4),
    ("looped-bfs", 2, {"chunks": 2}, lambda p: 3 * (p - 1) / 2),
    ("zb-h1", 1, {}, lambda p: p - 1),
    ("zb-h2", 1, {}, lambda p: p - 1),  # nothing within the ranks' own spans, but all wait for the last
    ("zb-v", 2, {}, lambda p: (p - 1) / 2),
    ("dualpipe-v", 2, {}, lambda p: (p - 1) / 2),
])  # fmt: skip
def test_bubbles(name, v, options, lost, p, m):
    timeline = idle(name, p, m, v, **options)
    assert timeline.idle[0] == pytest.approx(lost(p), abs=EXACT)
    assert timeline.bubble == pytest.approx(lost(p) / (lost(p) + 3 * m), abs=EXACT)


@pytest.mark.parametrize("name, p, m, v, options, peaks", [
    ("gpipe", 4, 8, 1, {}, [8, 8, 8, 8]),
    ("1f1b", 4, 8, 1, {}, [4, 3, 2, 1]),
    ("interleaved", 4, 8, 2, {"chunks": 2}, [5.5, 4.5, 3.5, 2.5]),
    ("interleaved", 4, 8, 4, {"chunks": 4}, [4.75, 4.25, 3.75, 3.25]),
    ("looped-bfs", 4, 8, 2, {"chunks": 2}, [8, 8, 8, 8]),
    ("zb-h1", 4, 8, 1, {}, [4, 4, 4, 4]),
    ("zb-h2", 4, 8, 1, {}, [7, 7, 7, 7]),
    ("zb-v", 4, 8, 2, {}, [4, 4, 4, 4]),
    ("dualpipe-v", 4, 8, 2, {}, [4.5, 4.5, 4.5, 4.5]),
])  # fmt: skip
def test_peaks_of_activations(name, p, m, v, options, peaks):
    assert idle(name, p, m, v, **options).peak == pytest.approx(peaks, abs=EXACT)


@pytest.mark.parametrize("p, m, early, late", [(4, 8, 40, 49), (8, 32, 148, 169)])
def test_recompute_early_and_late(p, m, early, late):
    schedule = Schedule.make("gpipe", p, m).with_recompute("except_last")
    assert schedule.simulate().makespan == pytest.approx(early, abs=EXACT)
    assert schedule.simulate(late_recompute=True).makespan <= late + EXACT
    always = Schedule.make("gpipe", 4, 8).with_recompute("always")
    assert (always.simulate().makespan, always.simulate(late_recompute=True).makespan) == (41, 44)


def test_recompute_holds_one_set_and_the_boundaries():
    schedule = Schedule.make("gpipe", 4, 8).with_recompute("always")
    assert schedule.simulate(boundary=0.01).peak == pytest.approx([1.08] * 4, abs=EXACT)


@pytest.mark.parametrize("costs, spans", [((1, 1.4, 0.9), (9.9, 4.5, 1.8)), ((1, 2, 1), (12, 6, 3))])
def test_unequal_costs(costs, spans):
    """Idle time within a rank's own span, of the rank that has most."""
    forward, inputs, weights = costs
    for name, expected in zip(("1f1b", "zb-h1", "zb-h2"), spans):
        timeline = Schedule.make(name, 4, 16).simulate(F=forward, I=inputs, W=weights)
        worked = 16 * (forward + inputs + weights)
        assert max(e[-1] - b[0] - worked for b, e in zip(timeline.begin, timeline.end)) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("latency, makespans", [
    (0.1, {"gpipe": 57.6, "1f1b": 59.8, "eager-1f1b": 57.6, "interleaved 2": 53.9, "interleaved 4": 53.3, "zb-h1": 52.2, "zb-h2": 51.3}),
    (0.5, {"gpipe": 60.0, "1f1b": 71.0, "eager-1f1b": 60.0, "interleaved 2": 59.5, "interleaved 4": 75.8, "zb-h1": 57.0, "zb-h2": 52.5}),
])  # fmt: skip
def test_latency(latency, makespans):
    for title, expected in makespans.items():
        name, _, chunks = title.partition(" ")
        v = int(chunks or 1)
        timeline = Schedule.make(name, 4, 16, **({"chunks": v} if chunks else {})).simulate(F=1 / v, I=1 / v, W=1 / v, latency=latency)
        assert timeline.makespan == pytest.approx(expected, abs=0.05), title


# Ideal speed over n = 2, m = 1 (AmoebaNet-D) or over one device without pipeline, as in torchgpipe's tables: batch sizes do not matter.
@pytest.mark.parametrize("n, m, ideal", [(2, 1, 1), (2, 4, 1.556), (2, 32, 1.723), (4, 1, 1.077), (4, 4, 2.333), (4, 32, 3.294), (8, 1, 1.120), (8, 4, 3.111), (8, 32, 6.054)])
def test_published_ideals_of_amoebanet(n, m, ideal):
    def speed(n, m):
        mode = "always" if m == 1 else "except_last"
        part = 1 / (n * m)
        return 1 / Schedule.make("gpipe", n, m).with_recompute(mode).simulate(F=part, I=part, W=part).makespan

    assert speed(n, m) / speed(2, 1) == pytest.approx(ideal, abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("n, m, ideal", [(1, 2, 0.857), (2, 1667, 1.500), (4, 256, 2.977), (8, 150, 5.806), (2, 32, 1.477), (4, 16, 2.667), (8, 40, 5.333)])
def test_published_ideals_of_resnet_and_unet(n, m, ideal):
    part = 1 / (n * m)
    timeline = Schedule.make("gpipe", n, m).with_recompute("except_last").simulate(F=part, I=part, W=part)
    assert 3 / timeline.makespan == pytest.approx(ideal, abs=6e-4)


def test_costs_by_stage():
    timeline = Schedule.make("gpipe", 2, 2).simulate(F=[1, 3], B=[2, 6])
    assert timeline.makespan == 1 + 2 * 9 + 2
    assert timeline.idle == [timeline.makespan - 6, timeline.makespan - 18]


@pytest.mark.parametrize("costs, message", [({"F": -1}, "F of stage 0 is -1"), ({"F": [1]}, "expected one for stage 1"), ({"W": float("nan")}, "W of stage")])
def test_bad_costs(costs, message):
    with pytest.raises(ValueError, match=message):
        Schedule.make("gpipe", 2, 2).simulate(**costs)


def test_costs_and_numbers():
    with pytest.raises(TypeError, match="expected one of both"):
        Schedule.make("gpipe", 2, 2).simulate(Costs(), F=2)


def test_pictures(tmp_path):
    path = tmp_path / "timeline.svg"
    timeline = Schedule.make("zb-v", 2, 4).simulate()
    timeline.draw(path)
    text = path.read_text()
    assert text.startswith("<svg") and text.count("<title>") == len(timeline.schedule)
    assert "bubble" in text
    with pytest.raises(ValueError, match="unit = 0"):
        timeline.grid(0)


def test_what_is_held_between_both_parts_of_a_backward():
    schedule = Schedule.parse("rank 0: 0F0 0F1 0I0 0I1 0W0 0W1")
    assert schedule.simulate(activation=3).peak == [6]
    assert schedule.simulate(activation=3, waiting=5).peak == [10]
    assert schedule.simulate(activation=3, waiting=1).peak == [6]
    assert Schedule.make("zb-h1", 4, 8).simulate(waiting=2).peak[3] > 4


def test_messages_wait_for_the_backward():
    """From stage 0 straight to the last, which the first three stages of 1F1B are ahead of."""
    plain, skip = Schedule.make("1f1b", 4, 8), {(0, 3): 10, (3, 0): 100}
    assert plain.simulate(messages=skip).peak == [4 + 3 * 100, 3, 2, 1 + 4 * 10]
    assert Schedule.make("gpipe", 4, 8).simulate(messages={(0, 3): 10}).peak == [8, 8, 8, 8 + 8 * 10]
    # The value of the stage before is there once more than the stage works on, and a gradient comes back while it works on another.
    chain = {(s, s + 1): 10 for s in range(3)} | {(s + 1, s): 100 for s in range(3)}
    assert plain.simulate(messages=chain).peak == [104, 3 + 40 + 100, 2 + 30 + 100, 1 + 20]


def test_messages_arrive_after_a_latency():
    schedule = Schedule.parse("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1")
    assert schedule.simulate(activation=0, messages={(0, 1): 1}).peak == [0, 2]
    assert schedule.simulate(activation=0, messages={(0, 1): 1}, W=0, I=0, latency=5).peak == [0, 2]
    assert schedule.simulate(F=[9, 1], activation=0, messages={(0, 1): 1}, latency=5).peak == [0, 1]


def test_messages_within_a_rank():
    """A value is one tensor with the output that its sender keeps; a forward that is computed again keeps none."""
    schedule = Schedule.parse("rank 0: 0F0 0F1 1F0 1F1 1B1 0B1 1B0 0B0")
    assert schedule.simulate(messages={(0, 1): 10}).peak == [4]
    assert schedule.simulate(messages={(0, 1): 10, (1, 0): 100}).peak == [3 + 100]
    assert schedule.with_recompute("always").simulate(messages={(0, 1): 10}).peak == [2 * 10 + 1]


def test_what_waits_for_w_includes_messages():
    schedule = Schedule.parse("rank 0: 0F0 0I0 0W0\nrank 1: 1F0 1I0 1W0")
    assert schedule.simulate(messages={(0, 1): 10, (1, 0): 100}, waiting=5).peak == [101, 11]
    assert schedule.simulate(messages={(0, 1): 10, (1, 0): 100}, waiting=500).peak == [500, 500]


def test_forwards_alone_hold_one_micro_batch():
    schedule = Schedule.parse("rank 0: 0F0 0F1\nrank 1: 1F0 1F1")
    assert schedule.simulate(F=[1, 9], messages={(0, 1): 10}).peak == [1, 21]


@pytest.mark.parametrize("messages, message", [({(0, 5): 1}, r"messages from stage 0 to 5; expected two of the stages 0 to 1"),
    ({(1, 1): 1}, "from stage 1 to 1; expected two"), ({(0, 1): -1}, "messages from stage 0 to 1 take -1; expected a number >= 0")])  # fmt: skip
def test_bad_messages(messages, message):
    with pytest.raises(ValueError, match=message):
        Schedule.make("gpipe", 2, 2).simulate(messages=messages)


def test_all_actions_in_turn():
    schedule = Schedule.make("zb-v", 3, 6).with_recompute("always")
    flat = in_turn(schedule.simulate())
    assert sorted(map(str, flat)) == sorted(str(a) for _, a in schedule)
    assert Schedule([flat]).simulate(I=0, W=0).makespan == 2 * 6 * 6  # an order that can be followed
