"""Tables and the memory curve as a TensorBoard event file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from flambeau.profiler import _trace

if TYPE_CHECKING:
    from flambeau.profiler._profile import profile


def write_tensorboard(prof: profile, dir_name: str | os.PathLike[str]) -> None:
    """Writes the op table, the module table and the memory curve of a profile for TensorBoard.

    Raises:
        ImportError: the package `tensorboard` is not installed.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise ImportError(
            "write_tensorboard: the package 'tensorboard' is not installed; pip install 'flambeau[tensorboard]'"
        ) from error
    writer = EventFileWriter(os.fspath(dir_name))
    now = time.time()

    def text(tag: str, value: str) -> None:
        tensor = tensor_util.make_tensor_proto(np.array([f"<pre>{value}</pre>".encode()], dtype=object))
        meta = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        summary = Summary(value=[Summary.Value(tag=tag, metadata=meta, tensor=tensor)])
        writer.add_event(Event(wall_time=now, step=prof.step_num, summary=summary))

    text("profiler/ops", prof.key_averages().table())
    if prof.with_modules:
        text("profiler/modules", prof.modules())
    if prof.profile_memory:
        points = _trace.memory_points(prof._recorded("write_tensorboard"))
        for time_ns, used in points:
            value = Summary(value=[Summary.Value(tag="profiler/allocated_bytes", simple_value=float(used))])
            step = (time_ns - points[0][0]) // 1000
            writer.add_event(Event(wall_time=now + step * 1e-6, step=step, summary=value))
    writer.flush()
    writer.close()
