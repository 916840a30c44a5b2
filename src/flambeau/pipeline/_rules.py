"""The known schedules, each as the rule by which its authors give it.

GPipe: Huang et al. 2019 (backward in reverse order: Kim et al. 2020, torchgpipe). 1F1B: Narayanan et al. 2019 (PipeDream), with a flush.
Interleaved: Narayanan et al. 2021 (Megatron-LM). Looped BFS: Lamy-Poirier 2023. ZB-H1, ZB-H2: Qi et al. 2023. ZB-V: Qi et al. 2024.
DualPipeV: DeepSeek-AI 2025 (DualPipe), cut in half by its authors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches

from flambeau.pipeline._actions import Action


def _gpipe(rank: int, ranks: int, m: int) -> Iterator[Action]:
    for i in range(m):
        yield Action("F", rank, i)
    for i in reversed(range(m)):
        yield Action("B", rank, i)


def _one_f_one_b(rank: int, m: int, warm_up: int) -> Iterator[Action]:
    warm_up = min(m, warm_up)
    for i in range(m + warm_up):
        if i < m:
            yield Action("F", rank, i)
        if i >= warm_up:
            yield Action("B", rank, i - warm_up)


def _share(part: int, total: int, whole: int) -> int:
    """part / whole of `total`, rounded up."""
    return -(-part * total // whole) if whole else 0


def _interleaved(rank: int, ranks: int, m: int, chunks: int) -> Iterator[Action]:
    """Micro-batches go in groups, each through one of the rank's stages and then the next. A group has at least `ranks`, so that
    its first is back from the other ranks when the next stage begins; groups are as even as they can be."""
    groups = max(1, m // ranks)
    cuts = [m * g // groups for g in range(groups + 1)]

    def visits(order: range) -> list[tuple[int, int]]:
        return [(c * ranks + rank, i) for a, b in zip(cuts, cuts[1:]) for c in order for i in range(a, b)]

    forward, backward = visits(range(chunks)), visits(range(chunks)[::-1])
    width = max(b - a for a, b in zip(cuts, cuts[1:]))
    warm_up = min(m * chunks, (chunks - 1) * width + 2 * (ranks - 1 - rank))
    for k in range(m * chunks + warm_up):
        if k < m * chunks:
            yield Action("F", *forward[k])
        if k >= warm_up:
            yield Action("B", *backward[k - warm_up])


def _looped_bfs(rank: int, ranks: int, m: int, chunks: int) -> Iterator[Action]:
    stages = [c * ranks + rank for c in range(chunks)]
    for s in stages:
        for i in range(m):
            yield Action("F", s, i)
    for s in reversed(stages):
        for i in reversed(range(m)):
            yield Action("B", s, i)


def _zero_bubble_h(rank: int, m: int, warm_up: int, lag: int) -> Iterator[Action]:
    """Gradients of parameters come `lag` micro-batches behind those of inputs, where the rank would wait."""
    warm_up = min(m, warm_up)
    for i in range(warm_up):
        yield Action("F", rank, i)
    for i in range(m):
        if i + warm_up < m:
            yield Action("F", rank, i + warm_up)
        yield Action("I", rank, i)
        if i >= lag:
            yield Action("W", rank, i - lag)
    for i in range(max(0, m - lag), m):
        yield Action("W", rank, i)


class _V:
    """A rank of a V: stage `rank` on the way down, half 0, and the mirrored one on the way up, half 1."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.stages = (rank, 2 * ranks - 1 - rank)
        self.actions: list[Action] = []
        self.forwards, self.backwards = [0, 0], [0, 0]  # how many of each half
        self.later: deque[Action] = deque()  # gradients of parameters that are to come

    def do(self, text: str) -> None:
        """Words of an op and a half: each takes the next micro-batch of its half. `I0` leaves its W for later, `I0W0` does not; `W0` is the
        oldest W of that half, `W` of both; a `+` lets an action overlap with the next."""
        for word in text.split():
            overlaps, word = word.endswith("+"), word.rstrip("+")
            if word[0] == "W":
                found = next(w for w in self.later if word == "W" or w.stage == self.stages[int(word[1])])
                self.later.remove(found)
                self.actions.append(found)
                continue
            half = int(word[1])
            count = self.forwards if word[0] == "F" else self.backwards
            self.actions.append(Action(word[0], self.stages[half], count[half], overlaps))
            if word[0] == "I":
                (self.actions if word[2:] else self.later).append(Action("W", self.stages[half], count[half]))
            count[half] += 1


def _zero_bubble_v(rank: int, ranks: int, m: int) -> list[Action]:
    v, full = _V(rank, ranks), max(m, 2 * ranks - 1)
    v.do("F0 " * (2 * (ranks - rank) - 1))
    v.do("F1 F0 " * rank)
    v.do("F1 I1W1 " * (ranks - rank))
    for _ in range(full - ranks):
        v.do("F0 I0W0 F1 I1W1" if v.forwards[0] < full else "I0W0 F1 I1W1")
    v.do("I0 I1 " * rank)
    v.do("I0 W0 " * (ranks - rank))
    for half in (1, 0):
        v.do(f"W{half} " * sum(w.stage == v.stages[half] for w in v.later))
    return [a for a in v.actions if a.micro < m]


def _dual_pipe_v(rank: int, ranks: int, m: int) -> list[Action]:
    if m < 2 * ranks:
        raise ValueError(f"dualpipe-v: micro_batches = {m} with {ranks} ranks; expected at least {2 * ranks}")
    v, rest = _V(rank, ranks), ranks - rank - 1
    v.do("F0 " * (2 * rest))
    v.do("F0 F1 " * (rank + 1))
    v.do("I1W1 F1 " * rest)
    for k in range(m - 2 * ranks + rank + 1):
        v.do("F0+ B1 F1+ B0" if k > 0 or rest > 0 else "F0 B1 F1+ B0")
    v.do("B1 F1+ B0 " * rest)
    half = (rank + 1) // 2  # from here on gradients of parameters wait, so that those of inputs go on
    for k in range(rank + 1):
        v.do("I1" if k > half or (k == half and rank % 2) else "B1")
        v.do("I0" if k >= half else "B0")
    v.do("W I0 " * rest)
    v.do("W " * len(v.later))
    return v.actions


# Of a rank: its number, that of ranks, that of micro-batches, and options with what they are by default.
_RULES: dict[str, tuple[Callable[[int, int, int, Mapping[str, int]], Iterable[Action]], dict[str, int]]] = {
    "gpipe": (lambda r, p, m, o: _gpipe(r, p, m), {}),
    "1f1b": (lambda r, p, m, o: _one_f_one_b(r, m, _share(p - 1 - r, max(p - 1, o["warm_up"]), p - 1)), {"warm_up": 0}),
    "eager-1f1b": (lambda r, p, m, o: _one_f_one_b(r, m, 2 * (p - 1 - r)), {}),
    "interleaved": (lambda r, p, m, o: _interleaved(r, p, m, o["chunks"]), {"chunks": 2}),
    "looped-bfs": (lambda r, p, m, o: _looped_bfs(r, p, m, o["chunks"]), {"chunks": 2}),
    "zb-h1": (lambda r, p, m, o: _zero_bubble_h(r, m, p - 1 - r, r), {}),
    "zb-h2": (lambda r, p, m, o: _zero_bubble_h(r, m, 2 * (p - 1 - r), 2 * r), {}),
    "zb-v": (lambda r, p, m, o: _zero_bubble_v(r, p, m), {}),
    "dualpipe-v": (lambda r, p, m, o: _dual_pipe_v(r, p, m), {}),
}
NAMES = tuple(_RULES)


def make(name: str, ranks: int, micro_batches: int, options: Mapping[str, int]) -> list[list[Action]]:
    """See `Schedule.make`."""
    if name not in _RULES:
        near = get_close_matches(str(name), NAMES, 1)
        raise ValueError(f"there is no schedule {name!r}; {f'did you mean {near[0]!r}? ' if near else ''}There are {', '.join(NAMES)}")
    rule, known = _RULES[name]
    if wrong := options.keys() - known.keys():
        raise TypeError(f"{name} has no option {min(wrong)!r}; it has {', '.join(known) or 'none'}")
    chosen = {**known, **options}
    numbers = [("ranks", ranks, 1), ("micro_batches", micro_batches, 1), *((k, v, min(1, known[k])) for k, v in chosen.items())]
    for what, value, least in numbers:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}: {what} = {value!r}; expected an integer >= {least}")
    return [list(rule(r, ranks, micro_batches, chosen)) for r in range(ranks)]
