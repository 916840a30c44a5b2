"""How published programs feed models: datasets, samplers, workers, streams, memory that is shared or mapped, packed bits, profiles. Both libraries run each."""

from __future__ import annotations

import bisect
import collections
import io
import itertools
import logging
import math
import random
import warnings
from typing import NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, array, data, filled, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


class Sample(NamedTuple):
    x: object
    label: int
    name: str


class Squares:
    """Samples of several lengths, made from their numbers."""

    lib = None

    def __init__(self, n, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        x = self.lib.arange(float(i % 4 + 1)) * i
        return self.transform(x, i) if self.transform else (x, i)


def dataset_of(lib, base=Squares):
    loading = part(lib, "utils.data")
    return type("Made", (base, loading.Dataset), {"lib": lib})


def padded(lib):
    rnn = part(lib, "nn.utils.rnn")

    def collate(batch):
        batch.sort(key=lambda s: len(s[0]), reverse=True)
        xs, ys = zip(*batch)
        return rnn.pad_sequence(list(xs), batch_first=True), lib.tensor([len(x) for x in xs]), lib.LongTensor(ys)

    return collate


def loaders_of_maps(lib):
    loading = part(lib, "utils.data")
    Data = dataset_of(lib)
    collate = padded(lib)
    loader = loading.DataLoader(Data(7), batch_size=3, shuffle=False, collate_fn=collate, drop_last=True)
    named = loading.DataLoader(Data(4, lambda x, i: Sample(x.sum(), i, f"n{i}")), batch_size=2)
    dicts = loading.DataLoader(Data(3, lambda x, i: {"x": np.float32(i), "y": [i, (i * 2.0, str(i))], "z": np.ones((2,), np.int16) * i, "b": i > 1}), batch_size=2)
    plain = loading.DataLoader(Data(3), batch_size=None)
    raw = loading.DataLoader([{"a": 1}, {"a": 2}], batch_size=2, collate_fn=lambda b: b)
    first = next(iter(named))
    wrong = [refusal(lambda: loading.DataLoader(Data(3), batch_size=2, sampler=[0], shuffle=True)), refusal(lambda: loading.DataLoader(Data(3), batch_sampler=[[0]], batch_size=4)),
             refusal(lambda: next(iter(loading.DataLoader(Data(4), batch_size=4)))), refusal(lambda: list(loading.DataLoader(Data(2), batch_size=0))),
             refusal(lambda: next(iter(loading.DataLoader([object()], batch_size=1)))), refusal(lambda: loading.DataLoader(Data(2), num_workers=-1)), refusal(lambda: loading.DataLoader(Data(2), timeout=-1))]  # fmt: skip
    both = loading.ConcatDataset([Data(2), Data(3)])
    sub = loading.Subset(both, [4, 0])
    tensors = loading.TensorDataset(lib.arange(4), lib.arange(8).view(4, 2))
    parts = loading.random_split(range(10), [0.5, 0.3, 0.2], generator=lib.Generator().manual_seed(1))
    stacked = loading.StackDataset(a=tensors, b=[5, 6, 7, 8])
    return [list(loader), list(named), type(first).__name__, first._fields, list(dicts), list(plain), list(raw), len(loader), len(both), both.cumulative_sizes, [s[1] for s in sub], tensors[1:3], [len(p) for p in parts],
            sorted(itertools.chain(*parts)), stacked[1], stacked.__getitems__([0, 2]) if hasattr(stacked, "__getitems__") else 0, loader.batch_size, loader.drop_last, type(loader.sampler).__name__, type(loader.batch_sampler).__name__, *map(Refused, wrong)]  # fmt: skip


def samplers_of_ones_own(lib):
    loading = part(lib, "utils.data")
    Data = dataset_of(lib)

    class Buckets(loading.Sampler):
        """Batches of samples of like lengths."""

        def __init__(self, lengths, batch, bounds):
            self.lengths, self.batch, self.bounds, self.epoch = lengths, batch, bounds, 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            buckets = collections.defaultdict(list)
            order = list(range(len(self.lengths)))
            random.Random(self.epoch).shuffle(order)
            for i in order:
                k = bisect.bisect_left(self.bounds, self.lengths[i])
                buckets[k].append(i)
                if len(buckets[k]) == self.batch:
                    yield buckets.pop(k)
            yield from (b for b in buckets.values() if b)

        def __len__(self):
            return math.ceil(len(self.lengths) / self.batch)

    class Balanced(loading.sampler.Sampler):
        def __init__(self, labels, per_class):
            self.index = [np.flatnonzero(np.asarray(labels) == c) for c in np.unique(labels)]
            self.per_class = per_class

        def __iter__(self):
            return iter(np.concatenate([i[: self.per_class] for i in self.index]).tolist())

        def __len__(self):
            return len(self.index) * self.per_class

    ds = Data(11)
    buckets = Buckets([i % 4 + 1 for i in range(11)], 3, [2])
    loader = loading.DataLoader(ds, batch_sampler=buckets, collate_fn=padded(lib))
    found = []
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)
        found.append([(tuple(x.shape), n.tolist(), y) for x, n, y in loader])
    balanced = loading.DataLoader(ds, batch_size=2, sampler=Balanced([0, 1] * 5 + [0], 2), collate_fn=lambda b: [i for _, i in b])
    distributed = [list(loading.distributed.DistributedSampler(ds, num_replicas=3, rank=r, shuffle=False, drop_last=d)) for r in range(3) for d in (False, True)]
    shuffled = loading.distributed.DistributedSampler(ds, num_replicas=2, rank=1, shuffle=True, seed=3)
    shuffled.set_epoch(2)
    weights = lib.tensor([0.0, 0.0, 1.0, 3.0], dtype=lib.double)
    drawn = list(loading.WeightedRandomSampler(weights, 20, replacement=True, generator=lib.Generator().manual_seed(0)))
    without = sorted(loading.WeightedRandomSampler([0.1, 0.9, 0.4], 3, replacement=False))
    permuted = sorted(loading.RandomSampler(ds, generator=lib.Generator().manual_seed(4)))
    subset = sorted(loading.SubsetRandomSampler([5, 3, 8]))
    nested = list(loading.BatchSampler(loading.SequentialSampler(range(7)), batch_size=3, drop_last=False))
    seeded = [[int(i) for i in loading.DataLoader(range(6), shuffle=True, batch_size=None, generator=lib.Generator().manual_seed(9))] for _ in range(2)]
    return [found, len(loader), list(balanced), len(balanced), distributed, len(set(shuffled)), len(shuffled), set(drawn) <= {2, 3}, len(drawn), without, permuted, subset, nested, seeded[0] == seeded[1], sorted(seeded[0])]


def workers_and_streams(lib):
    loading = part(lib, "utils.data")
    Data = dataset_of(lib)

    class Shards(loading.IterableDataset):
        """Each worker reads every n-th of the numbers, and mixes two streams."""

        def __init__(self, n):
            super().__init__()
            self.n = n

        def __iter__(self):
            info = loading.get_worker_info()
            worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
            stream = itertools.islice(range(self.n), worker, None, workers)
            for a in stream:
                yield {"a": lib.tensor([a, worker]), "ratio": a / 2}

    class Buffered(loading.IterableDataset):
        def __init__(self, inner, size, seed):
            self.inner, self.size, self.seed = inner, size, seed

        def __iter__(self):
            rng, buffer = random.Random(self.seed), []
            for item in self.inner:
                buffer.append(item)
                if len(buffer) == self.size:
                    yield buffer.pop(rng.randrange(len(buffer)))
            rng.shuffle(buffer)
            yield from buffer

        def __len__(self):
            return 6

    def seed_worker(worker_id):
        worker_seed = lib.initial_seed() % 2**32
        np.random.seed(worker_seed)
        random.seed(worker_seed)

    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    streamed = list(loading.DataLoader(Shards(7), batch_size=2, **options))
    mixed = [int(x) for x in loading.DataLoader(Buffered(range(6), 3, 1), batch_size=None)]
    chained = [int(x) for x in loading.ChainDataset([Buffered(range(2), 1, 0), Buffered(range(5, 7), 1, 0)])]
    generator = lib.Generator()
    generator.manual_seed(0)
    loader = loading.DataLoader(Data(6, lambda x, i: lib.randint(0, 10**6, (1,))), batch_size=2, worker_init_fn=seed_worker, generator=generator, persistent_workers=True, prefetch_factor=3, **options)
    first, second = [b.tolist() for b in loader], [b.tolist() for b in loader]
    generator.manual_seed(0)
    again = [b.tolist() for b in loading.DataLoader(Data(6, lambda x, i: lib.randint(0, 10**6, (1,))), batch_size=2, worker_init_fn=seed_worker, generator=generator, **options)]

    def broken(x, i):
        if i == 3:
            raise ValueError("sample 3 is bad")
        return i

    bad = refusal(lambda: list(loading.DataLoader(Data(5, broken), batch_size=2, **options)))
    try:
        list(loading.DataLoader(Data(5, broken), batch_size=2, **options))
    except ValueError as error:
        text = "sample 3 is bad" in str(error)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        list(loading.DataLoader(Buffered(range(9), 1, 0), batch_size=1))
    return [streamed, mixed, chained, first == again, first != second, Refused(bad), text, len(seen) > 0, len(loading.DataLoader(Buffered(range(6), 3, 1), batch_size=4)), loading.get_worker_info()]


def tensors_between_processes(lib):
    mp = part(lib, "multiprocessing")
    context = mp.get_context("fork")
    queue, answers = context.Queue(), context.Queue()

    def work(inbox, outbox, shared, event):
        while (item := inbox.get()) is not None:
            name, tensor = item
            tensor.mul_(2)
            shared[0] += 1
            outbox.put((name, tensor.sum().item(), tensor.is_shared(), tensor.dtype))
        event.set()

    counter, event = lib.zeros(2, dtype=lib.int64).share_memory_(), context.Event()
    process = context.Process(target=work, args=(queue, answers, counter, event))
    process.start()
    sent = [lib.ones(3).share_memory_(), lib.arange(4).share_memory_(), lib.ones(2, 2).t().share_memory_()]
    found = []
    for i, tensor in enumerate(sent):
        queue.put((f"t{i}", tensor))
        found.append(answers.get(timeout=60))
    queue.put(None)
    process.join(60)
    model = lib.nn.Linear(2, 1).share_memory()
    left, right = context.Pipe()
    right.send({"w": lib.full((2,), 3.0)})
    return [found, sent, counter, event.is_set(), process.exitcode, all(p.is_shared() for p in model.parameters()), left.recv(), mp.get_sharing_strategy() in mp.get_all_sharing_strategies(), lib.ones(1).is_shared()]


def bits_and_bytes(lib):
    """Weights of four bits packed into integers, scales of blocks, masks, hashes and Bloom filters."""
    w = data(lib, 8, 16)
    groups = w.view(8, -1, 8)
    lo, hi = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (hi - lo).clamp(min=1e-5) / 15
    q = lib.clamp(lib.round((groups - lo) / scale), 0, 15).to(lib.int32).view(8, 16)
    packed = lib.zeros(8, 2, dtype=lib.int32)
    for i in range(8):
        packed |= q[:, i::8] << (4 * i)
    shifts = lib.arange(0, 32, 4)
    unpacked = lib.bitwise_and(lib.bitwise_right_shift(packed.unsqueeze(-1), shifts), 0xF)
    restored = unpacked.to(lib.uint8)
    nibbles = (q[:, ::2] << 4 | q[:, 1::2]).to(lib.uint8)
    high, low = nibbles >> 4, nibbles & 0x0F
    together = lib.stack([high, low], dim=-1).view(8, 16)
    lookup = lib.linspace(-1, 1, 16)
    dequant = lookup[together.long()] * w.abs().view(8, 2, 8).amax(-1).repeat_interleave(8, 1)
    absmax = w.abs().amax(dim=1, keepdim=True) / 127
    int8 = (w / absmax).round().clamp(-128, 127).to(lib.int8)
    act = (data(lib, 4, 16) * 20).round().to(lib.int8)
    product = lib.matmul(act.to(lib.int32), int8.t().to(lib.int32))
    sparse = lib.zeros_like(w, dtype=lib.bool).scatter_(1, w.abs().topk(4, dim=1).indices, True)
    bits = (w > 0).to(lib.uint8).view(8, 2, 8)
    weights = 2 ** lib.arange(7, -1, -1, dtype=lib.uint8)
    bytes_ = (bits * weights).sum(-1, dtype=lib.uint8)
    back = (bytes_.unsqueeze(-1) & weights) != 0
    numpy_same = bool((bytes_.numpy() == np.packbits(bits.numpy(), axis=-1).squeeze(-1)).all())
    xor = bytes_[:, None] ^ bytes_[None]
    hamming = ((xor.unsqueeze(-1) >> lib.arange(8, dtype=lib.uint8)) & 1).sum((-1, -2))
    h = lib.arange(5, dtype=lib.int64) * 2654435761 % 2**32
    h ^= h >> 16
    as_int = lib.tensor([1.0, -2.5]).view(lib.int32)
    bf = lib.tensor([1.0, 3.14159, -1e-3]).to(lib.bfloat16)
    halves = bf.view(lib.int16), lib.tensor([1.5, 2.5]).half().view(lib.uint8), lib.frombuffer(bytearray(b"\x00\x00\x80\x3f"), dtype=lib.float32), lib.ldexp(lib.tensor([0.5]), lib.tensor([3])), lib.frexp(lib.tensor([10.0, 0.1]))
    gray = q ^ (q >> 1)
    logic = lib.logical_xor(w > 0, w < 1), ~(w > 0), (w > 0) & (w < 1) | (w == 0), lib.bitwise_not(nibbles), -nibbles, lib.bitwise_left_shift(nibbles, 1)
    fake = lib.fake_quantize_per_tensor_affine(w, 0.1, 0, -8, 7), lib.fake_quantize_per_channel_affine(w, lib.full((8,), 0.1), lib.zeros(8, dtype=lib.int32), 0, -8, 7)
    return [scale, packed, restored, nibbles, lib.equal(together, q.to(lib.uint8)), dequant, int8, product, sparse, bytes_, lib.equal(back, bits.bool()), numpy_same, hamming, h, as_int, bf, halves, gray, logic, fake, (q.sum(0, dtype=lib.int64) % 7), packed.element_size(), nibbles.nbytes]


def arrays_in_and_out(lib):
    """NumPy's arrays, buffers, indices as programs write them, and what shares memory."""
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    t = lib.from_numpy(a)
    t[0, 0] = 100
    a[1, 1] = -1
    shared = [a[0, 0], t[1, 1].item(), lib.as_tensor(a).data_ptr() == t.data_ptr(), lib.tensor(a).data_ptr() == t.data_ptr(), t.numpy() is not a, np.shares_memory(t.numpy(), a)]
    idx = np.array([2, 0])
    picked = [t[idx], t[:, idx], t[np.int64(1)], t[t > 5], t[[0, 1], [1, 2]], t[..., None].shape, t[lib.tensor([True, False, True])], t[1:, ::2], t[-1], t[None].shape, t[:, [0, 2]][lib.tensor([2, 1])], t[lib.arange(3), lib.arange(3)], t[(slice(None), 1)]]
    u = t.clone()
    u[u > 8] = 0
    u[[0, 2], 1:3] = lib.tensor([7.0, 8.0])
    u[:, -1] += 1
    u[lib.tensor([0, 0, 1]), 0] += 1
    u.index_put_((lib.tensor([1, 1]), lib.tensor([2, 2])), lib.tensor([1.0, 2.0]), accumulate=True)
    u.masked_scatter_(u == 0, lib.arange(10.0))
    mixed = [np.sin(t.numpy()), np.float64(2) * t, t * np.float32(2), t + np.ones(4, np.float32), np.asarray(t).shape, np.concatenate([t, t]).shape, t.__array__().dtype, float(t.sum()), [*t[0]], t.tolist()[2], np.mean(t.numpy()), (t == lib.from_numpy(a)).all().item()]
    types = [lib.tensor(x).dtype for x in (1, 1.0, True, [1, 2.0], np.float64(1), np.arange(2), 1j, [True, 2])] + [lib.arange(3).float().type(), lib.arange(3).type(lib.DoubleTensor).dtype, lib.get_default_dtype(), lib.result_type(lib.tensor(1), 1.5), lib.promote_types(lib.int32, lib.float16)]
    loops = [i.item() for i in lib.arange(3)], list(enumerate(lib.arange(2)))[1][0], dict(zip("ab", lib.arange(2).tolist())), len(t), min(t[0].tolist()), sum(t[1]), max(lib.tensor([1, 3])), sorted(lib.tensor([3, 1]).tolist()), 3 in lib.arange(4), f"{lib.tensor(1.5):.2f}", f"{lib.tensor(3):d}", str(lib.tensor([1.0, 2]))
    pieces = lib.split(t, [1, 2]), lib.chunk(t, 3, dim=1)[1], lib.tensor_split(t, (1, 3), dim=1), lib.unbind(t, 1)[3], lib.meshgrid(lib.arange(2), lib.arange(3), indexing="ij"), t.unflatten(1, (2, -1)).shape, lib.flatten(t), lib.stack(list(t), dim=1), lib.hstack([t, t]).shape, lib.vstack((t[0], t[1])), lib.dstack([t, t]).shape, lib.column_stack([t[0], t[1]])
    return [shared, picked, u, mixed, types, loops, pieces, lib.from_numpy(a[::2, ::-1].copy()), Refused(refusal(lambda: lib.from_numpy(a[::-1]))), Refused(refusal(lambda: t.requires_grad_().numpy())), lib.where(t.detach() > 3)[0].contiguous(), t.detach().nonzero(as_tuple=False)[:2].contiguous(), t.detach().argwhere().shape]


def profiles_and_logs(lib):
    """Timers, a profile, flops, memory of activations, seeds, and what a summary of a model prints."""
    profiler = part(lib, "profiler")
    model = filled(lib, lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.ReLU(), lib.nn.Flatten(), lib.nn.Linear(32, 2)))
    x = data(lib, 3, 1, 6, 6)
    traces = []
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=lambda p: traces.append(p.step_num), record_shapes=True, with_stack=False) as prof:
        for _ in range(5):
            with profiler.record_function("model_inference"):
                model(x)
            prof.step()
    keys = {e.key: e.count for e in prof.key_averages()}
    lines = prof.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    with lib.autograd.profiler.profile() as old:
        model(x)
    flops = part(lib, "utils.flop_counter")
    with flops.FlopCounterMode(display=False) as counter:
        model(x)
    summary, hooks = [], []
    for name, layer in model.named_modules():
        if not list(layer.children()):
            hooks.append(layer.register_forward_hook(lambda m, i, o, name=name: summary.append((name, m.__class__.__name__, list(o.size()), sum(p.numel() for p in m.parameters())))))
    model(x)
    for hook in hooks:
        hook.remove()
    bench = part(lib, "utils.benchmark")
    timing = bench.Timer(stmt="x + 1", globals={"x": x}, label="add", num_threads=1).timeit(3)
    log = logging.getLogger("parity")
    log.warning("%s %.3f", x.shape, x.sum())
    lib.manual_seed(7)
    a = lib.rand(3)
    state = lib.get_rng_state()
    b = lib.rand(3)
    lib.set_rng_state(state)
    with lib.random.fork_rng(devices=[]):
        lib.manual_seed(7)
        c = lib.rand(3)
    d = lib.rand(3)
    buffer = io.StringIO()
    print(model, file=buffer)
    deterministic = lib.are_deterministic_algorithms_enabled()
    lib.use_deterministic_algorithms(True, warn_only=True)
    on = lib.are_deterministic_algorithms_enabled(), lib.is_deterministic_algorithms_warn_only_enabled()
    lib.use_deterministic_algorithms(False)
    size = sum(p.nelement() * p.element_size() for p in model.parameters()) + sum(b.nelement() * b.element_size() for b in model.buffers())
    return [traces, keys["model_inference"], "model_inference" in lines, len(lines.splitlines()) > 3, len(old.function_events) > 0, counter.get_total_flops(), summary, timing.number_per_run, timing.mean > 0, lib.equal(a, c), lib.equal(b, d), buffer.getvalue(), deterministic, on, size, repr(model[0])]


PROGRAMS = [f for f in programs_in(globals()) if f is not padded]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_both_feed_the_same(program):
    same(program(fl), program(torch), program.__name__)


@pytest.mark.filterwarnings("ignore")
def test_both_map_the_same(tmp_path):
    """Arrays on disk, read in pieces and written in place; checkpoints that are mapped and that go on elsewhere."""

    def mapped(lib):
        folder = tmp_path / lib.__name__
        folder.mkdir()
        path = folder / "tokens.bin"
        array(4, 5).tofile(path)
        m = np.memmap(path, dtype=np.float32, mode="r+", shape=(4, 5))
        t = lib.from_numpy(m)
        t[1] = 2.0
        m.flush()
        again = lib.from_file(str(path), shared=True, size=20, dtype=lib.float32).view(4, 5)
        again[2, 0] = 9
        crops = lib.stack([lib.from_numpy(m.reshape(-1)[i : i + 3].copy()) for i in (0, 7)])
        half = lib.from_file(str(path), size=8)
        model = filled(lib, lib.nn.Linear(3, 2))
        optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
        model(lib.ones(2, 3)).sum().backward()
        optimizer.step()
        scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 1)
        lib.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 2, "rng": lib.get_rng_state(), "best": float("inf")}, folder / "last.pth")
        state = lib.load(str(folder / "last.pth"), map_location="cpu", mmap=True if lib is torch else None, weights_only=True)
        fresh = lib.nn.Linear(3, 2)
        fresh.load_state_dict(state["model"], assign=True)
        other = lib.optim.Adam(fresh.parameters())
        other.load_state_dict(state["optimizer"])
        fresh(lib.ones(2, 3)).sum().backward()
        other.step()
        with lib.device("meta"):
            empty = lib.nn.Linear(3, 2)
        was = empty.weight.is_meta
        empty = empty.to_empty(device="cpu")
        empty.load_state_dict(state["model"])
        np.save(folder / "x.npy", t.numpy())
        return [t, again, crops, half, state["epoch"], state["best"], *fresh.parameters(), other.param_groups[0]["lr"], other.state_dict()["state"][0]["step"], was, empty.weight, lib.from_numpy(np.load(folder / "x.npy", mmap_mode="c")), state["scheduler"]["last_epoch"], t.untyped_storage().nbytes()]

    same(mapped(fl), mapped(torch), "mapped")
