"""Loaders of packages whose workers are processes, as torchdata's, made of PyTorch's private parts of a DataLoader."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")


def test_a_loader_sets_what_a_data_loader_would():
    """torchdata's derives from DataLoader, and writes all of its attributes itself."""
    lines = says("""
        import torch, warnings
        from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind
        class Pass(_BaseDataLoaderIter):
            def _next_data(self):
                return self._next_index()
        class Loader(torch.utils.data.DataLoader):
            def __init__(self, dataset, kind):
                self.dataset, self.num_workers, self.timeout, self.drop_last, self.generator = dataset, 0, 0, False, torch.Generator().manual_seed(3)
                self.collate_fn, self.sampler, self.batch_sampler, self.persistent_workers = None, range(3), None, False
                self._dataset_kind, self._IterableDataset_len_called = kind, None
                self.check_worker_number_rationality()
        loader = Loader(["a", "b", "c"], _DatasetKind.Map)
        one = Pass(loader)
        seed = torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(3)).item()
        print(list(one), one._num_yielded, one._base_seed == seed, one._shared_seed, one._pin_memory, one._pin_memory_device, one._world_size, one._rank)
        one._reset(loader)
        print(list(one), one._num_yielded, torch.utils.data._DatasetKind is _DatasetKind)
        loader.num_workers = 5000
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader.check_worker_number_rationality()
            print(torch.set_vital("Dataloader", "enabled", "True"))
        print([str(w.message)[:41] for w in caught])
        shuffled = torch.utils.data.datapipes.iter.IterableWrapper(range(6)).shuffle()
        one = Pass(Loader(shuffled, _DatasetKind.Iterable))
        print(one._shared_seed == seed, sorted(one._dataset))
    """)
    assert lines == [
        "[0, 1, 2] 3 True None False None 1 0", "[0, 1, 2] 3 True", "False",
        "['This DataLoader will create 5000 workers ', \"'set_vital' is deprecated, please do not \"]", "True [0, 1, 2, 3, 4, 5]",
    ]  # fmt: skip


def test_pipes_in_envelopes():
    lines = says("""
        import pickle, torch
        from torch.utils.data.datapipes.datapipe import _IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper
        from torch.utils.data.datapipes.iter import IterableWrapper
        from torch.utils.data.datapipes.map import SequenceWrapper
        pipe = pickle.loads(pickle.dumps(_IterDataPipeSerializationWrapper(IterableWrapper(range(3)))))
        print(list(pipe), len(pipe), isinstance(pipe, torch.utils.data.IterDataPipe))
        pipe = pickle.loads(pickle.dumps(_MapDataPipeSerializationWrapper(SequenceWrapper("abc"))))
        print(pipe[1], len(pipe), isinstance(pipe, torch.utils.data.MapDataPipe))
        for wrapper in (_IterDataPipeSerializationWrapper(iter("")), _IterDataPipeSerializationWrapper(range(2))):
            try:
                print(len(wrapper), next(wrapper))
            except (AssertionError, TypeError) as error:
                print(error)
    """)
    assert lines == [
        "[0, 1, 2] 3 True", "b 3 True", "_IterDataPipeSerializationWrapper instance doesn't have valid length",
        "Iterator has not been initialized; call __iter__() before __next__()",
    ]  # fmt: skip


PROCESSES = """
import torch
from torch.utils.data import IterDataPipe, _DatasetKind, _utils, get_worker_info
from torch.utils.data.dataloader import _sharding_worker_init_fn
from torch.utils.data._utils import HAS_NUMPY, MP_STATUS_CHECK_INTERVAL, signal_handling
from torch.utils.data._utils.worker import ManagerWatchdog, WorkerInfo, _IterableDatasetStopIteration, _ResumeIteration
from torch.utils.data.datapipes.iter import IterableWrapper

def work(number, dataset, answers):
    signal_handling._set_worker_signal_handlers()
    watchdog = ManagerWatchdog()
    torch.utils.data._utils.worker._worker_info = WorkerInfo(id=number, num_workers=2, seed=7 + number, dataset=dataset)
    _sharding_worker_init_fn(lambda worker: None, 1, 0, number)
    info = get_worker_info()
    fetcher = _DatasetKind.create_fetcher(_DatasetKind.Iterable, dataset, True, torch.tensor, False)
    while watchdog.is_alive():
        try:
            answers.put((info.id, info.seed, fetcher.fetch([0, 1])))
        except StopIteration:
            answers.put((info.id, info.seed, _IterableDatasetStopIteration(number)))
            break

if __name__ == "__main__":
    print(get_worker_info(), HAS_NUMPY, MP_STATUS_CHECK_INTERVAL, _utils.python_exit_status, _ResumeIteration(3).seed)
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=work, args=(n, IterableWrapper(range(5)).sharding_filter(), answers)) for n in range(2)]
    for w in workers:
        w.start()
    signal_handling._set_worker_pids(0, tuple(w.pid for w in workers))
    signal_handling._set_SIGCHLD_handler()
    found, ended = [], 0
    while ended < 2:
        number, seed, data = answers.get(timeout=100)
        ended += isinstance(data, _IterableDatasetStopIteration)
        found.append((number, seed, data.worker_id if isinstance(data, _IterableDatasetStopIteration) else data.tolist()))
    for w in workers:
        w.join()
    signal_handling._remove_worker_pids(0)
    print(sorted(found, key=str))
"""


@pytest.mark.slow
def test_workers_that_are_processes(tmp_path):
    """Each says what it is a worker of by writing PyTorch's private variable, gets its share of the pipe and sends tensors."""
    program = tmp_path / "workers.py"
    program.write_text(PROCESSES)
    run = subprocess.run([sys.executable, "-m", "flambeau", "run", str(program)], capture_output=True, text=True, timeout=300)
    assert run.stdout.splitlines() == [
        "None True 5.0 False 3", "[(0, 7, 0), (0, 7, [0, 2]), (0, 7, [4]), (1, 8, 1), (1, 8, [1, 3])]",
    ], run.stderr[-2000:]  # fmt: skip


def test_ports_and_waits_of_launchers():
    """As torchtnt asks; no process group is there to wait in."""
    lines = says("""
        from torch.distributed.constants import default_pg_nccl_timeout, default_pg_timeout
        from torch.distributed.elastic.utils.distributed import get_free_port, get_socket_with_port
        with get_socket_with_port() as found:
            print(0 < found.getsockname()[1] < 65536, 0 < get_free_port() < 65536, default_pg_timeout, default_pg_nccl_timeout)
    """)
    assert lines == ["True True 0:30:00 None"]
