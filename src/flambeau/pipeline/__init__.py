"""Pipeline parallelism: schedules as data, and what follows them."""

from __future__ import annotations

from flambeau.pipeline._actions import Action, ScheduleError
from flambeau.pipeline._cut import Split, split
from flambeau.pipeline._flags import is_checkpointing, is_recomputing
from flambeau.pipeline._mpi import MPITransport
from flambeau.pipeline._pipeline import Pipeline
from flambeau.pipeline._processes import DistributedPipeline
from flambeau.pipeline._trace import CutError
from flambeau.pipeline._transport import PipelineError
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.simulate import Costs, Timeline

__all__ = [
    "Action",
    "Costs",
    "CutError",
    "DistributedPipeline",
    "GPipe",
    "MPITransport",
    "Pipeline",
    "PipelineError",
    "Schedule",
    "ScheduleError",
    "Split",
    "Timeline",
    "is_checkpointing",
    "is_recomputing",
    "split",
]
