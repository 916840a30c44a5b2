"""What is set in all data pipes that a data pipe is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.utils.data.datapipes._base import Shuffled, draw_seed
from flambeau.utils.data.graph import Graph, traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "apply_shuffle_seed", "get_all_graph_pipes"]


def _all(graph: Graph) -> Iterator[Any]:
    for pipe, below in graph.values():
        yield pipe
        yield from _all(below)


def get_all_graph_pipes(graph: Graph) -> list[Any]:
    """The pipes of what `traverse_dps` returned, each once."""
    return list({id(pipe): pipe for pipe in _all(graph)}.values())


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Calls `apply_sharding` of the pipes that have it; returns the pipe."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if "apply_sharding" in dir(type(pipe)):
            pipe.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Whether pipes shuffle, None for no change; returns the pipe, with a shuffler at the end where it has none and one is asked for."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if isinstance(pipe, Shuffled)]
    if shuffle and not shufflers:
        from flambeau._warn import warn

        warn("DataLoader: shuffle = True, and the data pipe has no shuffle(), so that one is put at its end: samples are shuffled after it")
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any = None) -> Any:
    """Gives each shuffler a seed, which all workers of a loader use; returns the pipe."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if isinstance(pipe, Shuffled):
            pipe.set_seed(draw_seed(rng))
    return datapipe


apply_shuffle_seed = apply_random_seed


def shuffle_seeds(datapipe: Any) -> list[int | None]:
    """The seeds of its shufflers, for a copy of it in another process."""
    return [pipe._seed for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if isinstance(pipe, Shuffled)]


def set_shuffle_seeds(datapipe: Any, seeds: list[int | None]) -> None:
    """Gives each shuffler its seed of those that `shuffle_seeds` returned."""
    shufflers = [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if isinstance(pipe, Shuffled)]
    for pipe, seed in zip(shufflers, seeds):
        pipe._seed = seed
