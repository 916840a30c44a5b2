"""Schedules as data: the rules against published grids, the checks, the passes, the text form."""

from __future__ import annotations

import random

import pytest

from flambeau.pipeline import Action, Schedule, ScheduleError
from flambeau.pipeline._rules import NAMES

# Rows of the authors' pictures for 4 ranks and 8 micro-batches: a column is a forward's time, a whole backward takes two.
GRIDS = {
    "1f1b": {
        0: "F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 F4 B1 B1 F5 B2 B2 F6 B3 B3 F7 B4 B4 .  B5 B5 .  B6 B6 .  B7 B7",
        3: ".  .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5 B5 B5 F6 B6 B6 F7 B7 B7",
    },
    "zb-h1": {
        0: "F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
        1: ".  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7",
        2: ".  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7",
        3: ".  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7",
    },
    "zb-v": {
        0: "F0 F1 F2 F3 F4 F5 F6 f0 i0 w0 f1 i1 w1 f2 i2 w2 f3 i3 w3 F7 I0 W0 f4 i4 w4 I1 W1 f5 i5 w5 I2 W2 f6 i6 w6 I3 W3 f7 i7 w7 I4 W4 I5 W5 I6 W6 I7 W7",
        3: ".  .  .  F0 f0 F1 f1 F2 f2 F3 f3 i0 w0 F4 I0 W0 f4 i1 w1 F5 I1 W1 f5 i2 w2 F6 I2 W2 f6 i3 w3 F7 I3 W3 f7 i4 w4 I4 i5 I5 i6 I6 i7 I7 W4 w5 w6 w7 W5 W6 W7",
    },
    "interleaved": {
        0: "F0 F1 F2 F3 f0 f1 f2 f3 F4 F5 F6 .  .  .  b0 b0 F7 b1 b1 .  f4 b2 b2 f5 b3 b3 f6 B0 B0 f7 B1 B1 B2 B2 .  B3 B3 .  b4 b4 .  b5 b5 .  b6 b6 .  b7 b7 B4 B4 B5 B5 B6 B6 B7 B7",
    },
}  # fmt: skip


def grid(schedule, **costs):
    """The rows, without the ranks' names."""
    return [" ".join(row.split()[1:]) for row in schedule.simulate(**costs).grid().splitlines()]


@pytest.mark.parametrize("name, rank", [(name, rank) for name, rows in GRIDS.items() for rank in rows])
def test_published_grids(name, rank):
    assert grid(Schedule.make(name, 4, 8))[rank] == " ".join(GRIDS[name][rank].split())


def test_warm_up_goes_from_1f1b_to_eager():
    for p in (1, 2, 4, 5):
        assert Schedule.make("1f1b", p, 16, warm_up=p - 1) == Schedule.make("1f1b", p, 16)
        assert Schedule.make("1f1b", p, 16, warm_up=2 * (p - 1)) == Schedule.make("eager-1f1b", p, 16)
    spans = [Schedule.make("1f1b", 4, 16, warm_up=w).simulate(latency=0.3).makespan for w in range(3, 7)]
    assert spans == sorted(spans, reverse=True) and spans[0] > spans[-1]


def test_gpipe_with_recompute():
    rows = grid(Schedule.make("gpipe", 3, 4).with_recompute("except_last"))
    assert rows[0] == "F0 F1 F2 F3 . . . . . . B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0"
    assert rows[2] == ". . F0 F1 F2 F3 B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0"


CLOCKS = {
    (3, 3): [[(0, 0)], [(1, 0), (0, 1)], [(2, 0), (1, 1), (0, 2)], [(2, 1), (1, 2)], [(2, 2)]],
    (4, 2): [[(0, 0)], [(1, 0), (0, 1)], [(2, 0), (1, 1)], [(3, 0), (2, 1)], [(3, 1)]],
}


@pytest.mark.parametrize("m, n", CLOCKS)
def test_the_clock_of_gpipe(m, n):
    timeline = Schedule.make("gpipe", n, m).simulate()
    clock = [[] for _ in range(m + n - 1)]
    for rank, actions in enumerate(timeline.schedule.ranks):
        for a, begin in zip(actions, timeline.begin[rank]):
            if a.op == "F":
                clock[int(begin)].append((a.micro, a.stage))
    assert clock == CLOCKS[m, n]


def test_communication_of_an_interleaved_schedule():
    assert str(Schedule.make("interleaved", 2, 2).with_communication()) == (
        "rank 0: 0F0 0SENDF0 2RECVF0 0F1 0SENDF1 2RECVF1 2F0 2SENDF0 2F1 2SENDF1 2RECVB0 2B0 2SENDB0 2RECVB1 2B1 2SENDB1 2REDUCE "
        "0RECVB0 0B0 0RECVB1 0B1 0REDUCE\n"
        "rank 1: 1RECVF0 1F0 1SENDF0 1RECVF1 1F1 1SENDF1 3RECVF0 3F0 3RECVF1 3B0 3SENDB0 1RECVB0 3F1 3B1 3SENDB1 1RECVB1 3REDUCE "
        "1B0 1SENDB0 1B1 1SENDB1 1REDUCE"
    )


def counts(name, p):
    """Numbers of micro-batches that a schedule of p ranks takes."""
    return [m for m in (1, 2, p, 2 * p, 2 * p + 1, 2 * p + 4, 4 * p) if name != "dualpipe-v" or m >= 2 * p]


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_can_be_followed_in_every_form(name, p):
    for m in counts(name, p):
        options = [{"chunks": v} for v in (1, 2, 3)] if name in ("interleaved", "looped-bfs") else [{}]
        for chosen in options:
            schedule = Schedule.make(name, p, m, **chosen)  # complete, in order and without deadlock: the constructor looks
            assert (schedule.micro_batches, len(schedule.ranks)) == (m, p)
            assert Schedule.parse(str(schedule)) == schedule
            lowered = schedule.with_recompute("always").with_communication()
            assert Schedule.parse(str(lowered)) == lowered
            sent = [a for _, a in lowered if a.op in ("SENDF", "SENDB")]
            assert len(sent) == len([a for _, a in lowered if a.op in ("RECVF", "RECVB")])
            assert len([a for _, a in lowered if a.op == "REDUCE"]) == schedule.stages
            assert lowered.simulate(latency=0.25).makespan == pytest.approx(schedule.with_recompute("always").simulate(latency=0.25).makespan)


def test_sends_between_two_ranks_come_in_one_order():
    for name in NAMES:
        lowered = Schedule.make(name, 4, 8).with_communication()
        between = {}
        for rank, a in lowered:
            if a.op not in ("SENDF", "RECVF", "SENDB", "RECVB"):
                continue
            other = a.stage + {"SENDF": 1, "RECVF": -1, "SENDB": -1, "RECVB": 1}[a.op]
            sender, receiver = (a.stage, other) if a.op.startswith("SEND") else (other, a.stage)
            key = (lowered.rank_of[sender], lowered.rank_of[receiver])
            between.setdefault(key, ([], []))[a.op.startswith("RECV")].append((a.op[-1], sender, a.micro))
        for sends, receives in between.values():
            assert sends == receives, name


def test_overlaps_of_dual_pipe():
    schedule = Schedule.make("dualpipe-v", 2, 4)
    assert str(schedule).splitlines()[0] == (
        "rank 0: 0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3+3B1 3F2+0B0 3B2 3F3+0B1 3B3 0I2 0W2 0I3 0W3"
    )
    assert sum(a.overlaps for _, a in schedule) > 0
    assert Schedule.parse(str(schedule)).ranks == schedule.ranks


@pytest.mark.parametrize("text, message", [
    ("rank 0: 0B0 0F0", "0B0 comes before 0F0"),
    ("rank 0: 0F0 0W0 0I0", "0W0 comes before 0I0"),
    ("rank 0: 0F0 0I0", "there is 0F0 0I0; expected F and either B or I and W"),
    ("rank 0: 0F0 0I0 0W0 0F1 0B1 0F2 0I2", "micro-batch 2"),
    ("rank 0: 0F0 0B0 0B0", "0B0 comes twice"),
    ("rank 0: 0F0 0I0 0W0 0B0", "both whole"),
    ("rank 0: 0F0 0B0 0R0", "after the backward that needs it"),
    ("rank 0: 0R0 0F0 0B0", "0R0 comes before 0F0"),
    ("rank 0: 0F0 0B0\nrank 1: 0F1 0B1", "stage 0 is on rank 0 and, by 0F1, on rank 1"),
    ("rank 0: 0F0 0B0 2F0 2B0", "stage 1 is on no rank"),
    ("rank 0: 0F0 0B0\nrank 1:", "rank 1 of 2 has nothing to do"),
    ("rank 0: 0F0 0B0 0F1\nrank 1: 1F0 1B0 1F1 1B1", "stage 0, micro-batch 1"),
    ("rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F1 1B1 1F0 1B0", "wait for each other for ever: rank 0 is at 0B0, which waits for the gradient of micro-batch 0"),
    ("rank 0: 0F0+", "is no action"),
    ("rank 0: 0F0+0R0 0B0", "expected a forward beside a backward"),
    ("rank 0: 0X0", "'0X0' is no action"),
    ("rank 0: 0F", "'0F' is no action"),
    ("rank 0: 0REDUCE1", "is no action"),
    ("rank 1: 0F0", "line 1 begins with"),
    ("0F0 0B0", "line 1 begins with"),
    ("", "no line 'rank 0"),
    ("rank 0: 0REDUCE", "there is no micro-batch"),
    ("rank 0: 0F0 0SENDF0 0RECVB0 0B0\nrank 1: 1F0 1B0 1SENDB0", "1F0 comes before its data are received"),
    ("rank 0: 0SENDF0 0F0 0B0\nrank 1: 1RECVF0 1F0 1B0 1SENDB0", "0SENDF0 comes before what it sends"),
    ("rank 0: 0F0 0SENDF0 0B0\nrank 1: 1RECVF0 1F0 1B0 1SENDB0", "0B0 comes before its data are received"),
    ("rank 0: 0F0 0RECVB0 0B0\nrank 1: 1RECVF0 1F0 1B0 1SENDB0", "nobody sends 1RECVF0; expected 0SENDF0"),
    ("rank 0: 0F0 0SENDF0 0RECVB0 0B0 0SENDB0\nrank 1: 1RECVF0 1F0 1B0 1SENDB0", "nobody receives 0SENDB0"),
    ("rank 0: 0F0 0SENDF0 0SENDF0 0RECVB0 0B0\nrank 1: 1RECVF0 1F0 1B0 1SENDB0", "0SENDF0 comes twice"),
])  # fmt: skip
def test_faults_are_named(text, message):
    with pytest.raises(ScheduleError, match=message.replace("(", r"\(")):
        Schedule.parse(text)


def test_a_fault_is_shown_where_it_is():
    with pytest.raises(ScheduleError, match=r"rank 0, action 9.*\n  \.\.\. 0B1 0F2 0B2 0F3 0B3 0F4 >0B3< 0B4"):
        Schedule.parse("rank 0: " + " ".join(f"0F{i} 0B{i}" for i in range(4)) + " 0F4 0B3 0B4")


@pytest.mark.slow
def test_random_damage_is_noticed():
    rng = random.Random(0)
    for _ in range(300):
        schedule = Schedule.make(rng.choice(NAMES[:8]), rng.randint(2, 4), rng.randint(2, 8))
        ranks = [list(actions) for actions in schedule.ranks]
        actions = rng.choice(ranks)
        kind = rng.randrange(3)
        if kind == 0:
            del actions[rng.randrange(len(actions))]
        elif kind == 1:
            actions.insert(rng.randrange(len(actions) + 1), rng.choice(actions))
        else:
            k = rng.randrange(len(actions))
            actions[k] = actions[k]._replace(micro=actions[k].micro + schedule.micro_batches)
        with pytest.raises(ScheduleError):
            Schedule(ranks)


@pytest.mark.parametrize("arguments, options, message", [
    (("gpip", 2, 2), {}, "did you mean 'gpipe'"),
    (("gpipe", 0, 2), {}, "ranks = 0; expected an integer >= 1"),
    (("gpipe", 2, 0), {}, "micro_batches = 0"),
    (("gpipe", 2, 2.0), {}, "micro_batches = 2.0"),
    (("interleaved", 2, 2), {"chunks": 0}, "chunks = 0"),
    (("dualpipe-v", 2, 3), {}, "expected at least 4"),
])  # fmt: skip
def test_bad_requests(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Schedule.make(*arguments, **options)


def test_unknown_options():
    with pytest.raises(TypeError, match="gpipe has no option 'chunks'; it has none"):
        Schedule.make("gpipe", 2, 2, chunks=2)


def test_passes_refuse_what_was_lowered():
    schedule = Schedule.make("gpipe", 2, 2)
    with pytest.raises(ValueError, match="recomputes already"):
        schedule.with_recompute("always").with_recompute("always")
    with pytest.raises(ValueError, match="sends or receives already"):
        schedule.with_communication().with_communication()
    with pytest.raises(ValueError, match="'sometimes'"):
        schedule.with_recompute("sometimes")


def test_files(tmp_path):
    schedule = Schedule.make("zb-v", 4, 8)
    path = tmp_path / "mine.txt"
    schedule.save(path)
    read = Schedule.load(path)
    assert (read, read.name) == (schedule, "mine")
    path.write_text("# two stages\n\nrank 0: 0F0 0B0  # and back\nrank 1: 1F0 1B0\n")
    assert Schedule.load(path) == Schedule.make("1f1b", 2, 1)
    path.write_text("rank 0: 0F0 0B0\nrank 1: 1F0 1Q0\n")
    with pytest.raises(ScheduleError, match="line 2: '1Q0'"):
        Schedule.load(path)


def test_forward_only():
    schedule = Schedule([[Action("F", 0, 0), Action("F", 0, 1)], [Action("F", 1, 0), Action("F", 1, 1)]])
    assert schedule.simulate().makespan == 3
    assert schedule.simulate().peak == [1, 1]
