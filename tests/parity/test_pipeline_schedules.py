"""Schedules beside PyTorch's: the actions of every rank, in their order, as `torch.distributed.pipelining` makes them.

Not compared: gpipe, whose backward goes in reverse order here (torchgpipe); micro-batches of 1f1b on the last rank, which
PyTorch's table numbers from 1.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
from torch.distributed.pipelining import schedules as theirs
from torch.nn import Identity

from flambeau.pipeline import Schedule


class _Stage(theirs._PipelineStageBase):
    """As much of a stage as a schedule asks for: which one it is."""

    def __init__(self, index: int, stages: int, ranks: int) -> None:
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, stages, 0, ranks
        self.has_backward, self.submod, self.group = True, Identity(), None
        self.stage_index_to_group_rank: dict[int, int] = {}

    def _create_grad_recv_info(self, *args): ...
    def _prepare_forward_infra(self, *args): ...
    def _prepare_backward_infra(self, *args): ...


def actions_of_torch(kind: str, ranks: int, micro_batches: int, chunks: int) -> list[list[str]]:
    stages = [_Stage(i, ranks * chunks, ranks) for i in range(chunks)]
    made = getattr(theirs, kind)(stages if chunks > 1 else stages[0], micro_batches, loss_fn=lambda a, b: a)
    out = []
    for rank in range(ranks):
        words = " ".join(str(a) for a in made.pipeline_order[rank] if a is not None and "REDUCE" not in str(a))
        # Two that overlap are one action there: (0F3;3B1)OVERLAP_F_B.
        out.append(re.sub(r"\((\w+);(\w+)\)OVERLAP_F_B", r"\1+ \2", words).split())
    return out


def actions_of_ours(name: str, ranks: int, micro_batches: int, **options: int) -> list[list[str]]:
    made = Schedule.make(name, ranks, micro_batches, **options)
    return [[f"{a}+" if a.overlaps else str(a) for a in rank] for rank in made.ranks]


RANKS = (2, 3, 4, 5, 8)


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name, kind", [("interleaved", "ScheduleInterleaved1F1B"), ("looped-bfs", "ScheduleLoopedBFS")])
def test_schedules_with_any_number_of_stages(name, kind, ranks, chunks):
    for micro_batches in (1, ranks - 1, ranks, ranks + 1, 2 * ranks, 3 * ranks, 5 * ranks + 5):
        if name == "interleaved" and micro_batches % max(1, micro_batches // ranks):
            continue  # PyTorch refuses groups that are not equal
        assert actions_of_ours(name, ranks, micro_batches, chunks=chunks) == actions_of_torch(kind, ranks, micro_batches, chunks)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name, kind", [("zb-v", "ScheduleZBVZeroBubble"), ("dualpipe-v", "ScheduleDualPipeV")])
def test_schedules_of_a_v(name, kind, ranks):
    for micro_batches in range(2 * ranks if name == "dualpipe-v" else 1, 5 * ranks + 2):
        assert actions_of_ours(name, ranks, micro_batches) == actions_of_torch(kind, ranks, micro_batches, 2)


@pytest.mark.parametrize("ranks", RANKS)
def test_one_forward_one_backward(ranks):
    for micro_batches in range(ranks, 4 * ranks):  # PyTorch refuses fewer
        ours, torchs = actions_of_ours("1f1b", ranks, micro_batches), actions_of_torch("Schedule1F1B", ranks, micro_batches, 1)
        assert ours[:-1] == torchs[:-1]
        assert [re.sub(r"F\d+", "F", a) for a in ours[-1]] == [re.sub(r"F\d+", "F", a) for a in torchs[-1]]
