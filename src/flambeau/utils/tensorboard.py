"""Logs of training for TensorBoard, written by tensorboardX (the extra `flambeau[tensorboard]`).

>>> import flambeau as fl, tempfile
>>> from flambeau.utils.tensorboard import SummaryWriter
>>> with SummaryWriter(tempfile.mkdtemp()) as writer:
...     writer.add_scalar("loss", fl.tensor(0.5), 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flambeau._C import Tensor

__all__ = ["SummaryWriter"]


def _plain(value: Any) -> Any:
    """Tensors, also inside of containers, as arrays of a type that NumPy has; all else as it is."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        if value.is_floating_point() and value.dtype.name not in ("float32", "float64"):
            value = value.float()
        return value.to_dense().numpy()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
        return [_plain(part) for part in value]
    return value


class SummaryWriter:
    """Writes events to a folder that TensorBoard shows; tensors are taken wherever arrays are.

    Args:
        log_dir: the folder; runs/DATE_HOST and the comment by default.
        comment: behind the default folder's name.
        purge_step: what a run that crashed wrote from this step on is hidden.
        max_queue, flush_secs: how many events wait, and for how many seconds at most, before they are written.
        filename_suffix: behind the names of the files.

    Raises:
        ImportError: tensorboardX is not installed.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10, flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        try:
            import tensorboardX
        except ImportError as error:
            raise ImportError(f"SummaryWriter needs tensorboardX ({error}); install it by pip install 'flambeau[tensorboard]'") from None
        self._writer = tensorboardX.SummaryWriter(
            None if log_dir is None else str(log_dir), comment, purge_step, max_queue, flush_secs, filename_suffix
        )
        self.log_dir: str = self._writer.logdir
        self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix = purge_step, max_queue, flush_secs, filename_suffix

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _get_file_writer(self) -> Any:
        """The file of events; loggers of packages ask under this name and add events of their own."""
        return self._writer._get_file_writer()

    def _add(self, kind: str, *args: Any, **options: Any) -> None:
        getattr(self._writer, f"add_{kind}")(*map(_plain, args), **{key: _plain(value) for key, value in options.items()})

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None, new_style: bool = False,
        double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number: a float, or a tensor of one element."""
        self._add("scalar", tag, float(scalar_value), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Several numbers in one diagram, by name."""
        self._add("scalars", main_tag, {key: float(value) for key, value in tag_scalar_dict.items()}, global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: str = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How the elements of a tensor are distributed."""
        self._add("histogram", tag, values, global_step, bins, walltime, max_bins)

    def add_histogram_raw(self, tag: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Sequence[Any],
                          bucket_counts: Sequence[Any], global_step: int | None = None, walltime: float | None = None) -> None:  # fmt: skip
        """A histogram that was counted already: the right end of each bucket and what is in it."""
        self._add("histogram_raw", tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """A picture: floats in 0..1 or bytes, its axes as `dataformats` names them."""
        self._add("image", tag, img_tensor, global_step, walltime, dataformats)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "NCHW"
    ) -> None:
        """Pictures side by side."""
        self._add("images", tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
                             walltime: float | None = None, rescale: int = 1, dataformats: str = "CHW",
                             labels: Sequence[str] | None = None) -> None:  # fmt: skip
        """A picture with boxes [n, 4] of (x0, y0, x1, y1) in pixels."""
        names = None if labels is None else list(labels)
        self._add("image_with_boxes", tag, img_tensor, box_tensor, global_step, walltime, dataformats, names, rescale=rescale)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None) -> None:
        """A figure of matplotlib's, or several; closed unless asked otherwise."""
        self._add("figure", tag, figure, global_step, close, walltime)

    def add_video(self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None) -> None:
        """A film [N, T, C, H, W]; needs moviepy."""
        self._add("video", tag, vid_tensor, global_step, fps, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """A sound [1, L] in -1..1; needs soundfile."""
        self._add("audio", tag, snd_tensor, global_step, sample_rate, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """A text, in Markdown."""
        self._add("text", tag, text_string, global_step, walltime)

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: int | None = None, tag: str = "default",
                      metadata_header: Any = None) -> None:  # fmt: skip
        """Points [n, d] with names and pictures, which TensorBoard projects."""
        names = _plain(metadata)
        self._add("embedding", mat, None if names is None else list(names), label_img, global_step, tag, metadata_header)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:  # fmt: skip
        """Precision over recall of predictions in 0..1 for labels that are 0 or 1."""
        self._add("pr_curve", tag, labels, predictions, global_step, num_thresholds, weights, walltime)

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
                 global_step: int | None = None, walltime: float | None = None) -> None:  # fmt: skip
        """Points [B, n, 3] with colours and triangles."""
        self._add("mesh", tag, vertices, colors, faces, config_dict, global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Any]]) -> None:
        """Which numbers stand in which diagrams, and in what groups."""
        self._writer.add_custom_scalars(layout)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: int | None = None,
    ) -> None:  # fmt: skip
        """What a run was made with and what came out, for the table of all runs."""
        plain = {key: value.item() if isinstance(value, Tensor) else value for key, value in hparam_dict.items()}
        self._writer.add_hparams(plain, {key: float(value) for key, value in metric_dict.items()}, run_name, global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> None:
        """Not here: `flambeau.graph` records graphs and draws them.

        Raises:
            NotImplementedError: always.
        """
        what = "graphs are not written for TensorBoard; Graph.draw of flambeau.graph draws one"
        raise NotImplementedError(f"SummaryWriter.add_graph: {what}")

    def flush(self) -> None:
        """Writes what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Writes what waits and ends the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
