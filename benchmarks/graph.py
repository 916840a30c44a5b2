"""What checks, passes and memory plans of training graphs take, and what the plans come to.

    python benchmarks/graph.py

The least of several rounds, in milliseconds of this thread's processor time; what a graph keeps of earlier questions is
thrown away before each. The networks are those of tests/support/nets.py, batch 32, with MXNet's rules of what may be done in
place.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))

from support.nets import NETS, Net, build, resnet, rule_of  # noqa: E402

from flambeau.graph import MODES, Graph, passes, plan  # noqa: E402

ROUNDS = 15


def least(graph: Graph, run: Callable[[Graph], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        fresh = replace(graph)
        begin = time.thread_time()
        run(fresh)
        best = min(best, time.thread_time() - begin)
    return best * 1e3


def main() -> None:
    rule = rule_of("native")
    cases: dict[str, Callable[[Graph], object]] = {
        "validate": Graph.validate,
        "passes": passes.run,
        **{mode: (lambda graph, mode=mode: plan(graph, mode, rule=rule)) for mode in MODES},
        "edges": lambda graph: plan(graph, "both", rule=rule).edges,
    }
    print(f"{'':14}{'nodes':>7}{'buffers':>9}" + "".join(f"{name:>10}" for name in cases) + f"{'arena / least':>16}")
    for name, net in {**NETS, "ResNet-152": resnet(3, 8, 36, 3)}.items():
        graph = build(net(Net()))
        times = "".join(f"{least(graph, run):10.1f}" for run in cases.values())
        arena = plan(graph, "arena", rule=rule)
        print(f"{name:14}{len(graph.nodes):7}{len(graph.buffers):9}{times}{arena.total / arena.lower_bound:16.4f}")


if __name__ == "__main__":
    main()
