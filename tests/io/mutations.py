"""Loads files that are almost right, at random, in child processes, and prints each that crashes, hangs, takes memory or raises something odd.

    python tests/io/mutations.py --count 100000 --seed 3
    python tests/io/mutations.py --seed 3 --replay 4711         one again, in this process

A mutation depends on the seed and its number alone: a file of one of the formats, some changes of its bytes, and, where the format has checksums
or lengths that would catch these, the same put right again, so that the changes get through to what is behind. What loads is looked at: every
element that a tensor shows is read.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import io
import json
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import makers as m  # noqa: E402
import numpy as np  # noqa: E402

import flambeau as fl  # noqa: E402
import flambeau.graph  # noqa: E402
import flambeau.nn  # noqa: E402
import flambeau.sparse  # noqa: E402
from flambeau.serialization import FileFormatError  # noqa: E402

SECONDS = 20  # a load that takes longer hangs
BATCH = 2000
MEMORY = 8 << 30
# Lists and dicts of nothing cost some 60 bytes each and are one byte in a file, sets cost 216.
PER_BYTE, AT_LEAST = 400, 1 << 20
# Besides the error of files: a storage's location is another device, and an index names a file that is not there.
EXPECTED = (FileFormatError, fl._C.DeviceError, FileNotFoundError)


def ours(obj: object, **how: object) -> bytes:
    out = io.BytesIO()
    fl.save(obj, out, **how)
    return out.getvalue()


def structured() -> object:
    x = fl.arange(6.0)
    return collections.OrderedDict(a=[x, x[2:], x.reshape(2, 3).t(), 1, "text", None, (2.5, {3: fl.nn.Parameter(fl.ones(2))})],
                                   b=fl.tensor([True, False]), c={1, (2, "x")}, d=fl.tensor([1 + 2j]), e=fl.float32, f=fl.Size([1, 2]))  # fmt: skip


def containers() -> object:
    return [collections.Counter("ab"), collections.defaultdict(list, {"a": [fl.ones(2)], b"k": 1j}), collections.deque([1, fl.arange(2), bytearray(b"x")], 5),
            frozenset([1, (2, b"y")]), slice(1, None, 2), range(1, 9, 3), 1 - 2j, {fl.int8: b"\0\xff", frozenset([3]): fl.Size([4])}]  # fmt: skip


def sparse() -> bytes:
    layout = m.call(m.name("torch.serialization", "_get_layout"), m.text("torch.sparse_coo"))
    indices = m.tensor(m.storage("0", 4, "LongStorage"), sizes=m.numbers(2, 2), strides=m.numbers(2, 1))
    values = m.tensor(m.storage("1", 2), sizes=m.numbers(2), strides=m.numbers(1))
    size = m.call(m.name("torch", "Size"), m.numbers(3, 3))
    return m.archive(m.pickle(m.call(m.name("torch._utils", "_rebuild_sparse_tensor"), layout, m.tup(indices, values, size, m.TRUE))),
                     {"0": struct.pack("<4q", 0, 1, 1, 2), "1": m.FOUR[:8]})  # fmt: skip


def arrays() -> bytes:
    dtype = m.call(m.name("numpy", "dtype"), m.text("f4"), m.FALSE, m.TRUE) + m.tup(m.number(3), m.text("<"), m.NONE, m.NONE, m.NONE, m.number(-1), m.number(-1), m.number(0)) + b"b"
    array = m.call(m.name("numpy.core.multiarray", "_reconstruct"), m.name("numpy", "ndarray"), m.numbers(0), m.text("b"))
    raw = m.call(m.name("_codecs", "encode"), m.text("\0" * 8), m.text("latin1"))
    return m.archive(m.pickle(m.tup(array + m.tup(m.number(1), m.numbers(2), dtype, m.FALSE, raw) + b"b", m.call(m.name("numpy.core.multiarray", "scalar"), dtype, m.text("\0" * 4)))))


def script() -> bytes:
    module = m.name("__torch__", "Net") + b")\x81" + b"}(" + m.text("weight") + m.tensor(hooks=m.HOOKS) + m.text("inner") + m.name("__torch__.sub", "Inner") + b")\x81"
    module += m.dictionary(bias=m.tensor()) + b"b" + m.text("training") + m.TRUE + b"ub"
    return m.archive(m.pickle(module), **{"constants.pkl": m.pickle(b")")})


def seeds() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 32))
    return {
        "ours": ours(structured()),
        "ours, pt": ours(structured(), format="pt"),
        "containers": ours(containers()),
        "containers, pt": ours(containers(), format="pt"),
        "safetensors": ours({"a": fl.ones(2, 3), "b": fl.zeros(0), "c": fl.tensor([True]), "d": fl.tensor([1j], dtype=fl.complex128)}),
        "archive": m.archive(m.state_of_a_net(), {"0": m.FOUR, "1": b"\0\1"}),
        "archive, deflated": m.archive(m.state_of_a_net(), {"0": m.FOUR, "1": b"\0\1"}, compress=True),
        "archive, big": m.archive(m.state_of_a_net(), {"0": m.FOUR, "1": b"\0\1"}, byteorder=b"big"),
        "sparse": sparse(),
        "arrays": arrays(),
        "script": script(),
        "stream": m.stream(m.pickle(m.tup(m.tensor(m.stream_storage()), m.tensor(m.stream_storage(view=m.tup(m.text("v"), m.number(1), m.number(2))), sizes=m.numbers(2), strides=m.numbers(1)), m.number(3)))),
        "stream, big": m.stream(m.pickle(m.tensor(m.stream_storage())), order=">"),
        "npy": m.npy(np.asfortranarray(np.ones((2, 3), ">f4"))),
        "npz": m.npz(a=np.ones((2, 3)), b=np.array([True, False]), c=np.zeros((0, 2), "f2")),
        "npz, deflated": m.npz(True, a=np.ones((20, 3)), b=np.arange(3)),
        "gguf": m.gguf({"a": ((2, 3), m.F32, bytes(24)), "q": ((2, 32), m.Q8_0, m.q8_0(x)), "r": ((64,), m.Q4_0, m.q4_0(x)), "h": ((2,), m.BF16, bytes(4))},
                       general_name="x", a_b=[1, 2, 3], a_c=["x", "yz"], a_d=True, a_e=2.5),
        "index": m.index(x="a.safetensors", y="b.safetensors"),
        "graph": graph(),
    }  # fmt: skip


def graph() -> bytes:
    recorded = fl.graph.record(lambda x: (x * 2 + fl.ones(3)).exp().sum(), fl.ones(3))
    with tempfile.TemporaryDirectory() as folder:
        recorded.save(f"{folder}/x")
        return pathlib.Path(f"{folder}/x").read_bytes()


ODD = [0, 1, 2, 3, 7, 0x28, 0x2E, 0x30, 0x51, 0x52, 0x62, 0x65, 0x71, 0x7F, 0x80, 0x81, 0x85, 0x93, 0x95, 0xFE, 0xFF, *b"}])tuahjNKMJXQRbeost(0123456789"]
WIDE = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def change(rng: random.Random, raw: bytes, other: bytes) -> bytes:
    """One change of some bytes."""
    data = bytearray(raw)
    if not data:
        return other[: rng.randrange(len(other) + 1)]
    at = rng.randrange(len(data))
    kind = rng.random()
    if kind < 0.3:
        data[at] ^= 1 << rng.randrange(8)
    elif kind < 0.5:
        data[at] = rng.choice(ODD)
    elif kind < 0.62:
        n = rng.choice([2, 4, 8])
        data[at : at + n] = (rng.choice(WIDE) & (1 << 8 * n) - 1).to_bytes(n, rng.choice(["little", "little", "big"]))
    elif kind < 0.7:
        del data[at : at + rng.choice([1, 1, 2, 4, 8, 30])]
    elif kind < 0.78:
        n = rng.choice([1, 2, 4, 8, 30])
        data[at:at] = data[at : at + n] * rng.choice([1, 1, 2, 50])
    elif kind < 0.88:  # a piece from elsewhere
        n = rng.choice([1, 4, 12, 40])
        source = data if rng.random() < 0.6 else other
        begin = rng.randrange(max(1, len(source)))
        piece = source[begin : begin + n]
        data[at : at + (len(piece) if rng.random() < 0.5 else 0)] = piece
    elif kind < 0.95:
        data[at] = (data[at] + rng.choice([-1, 1])) % 256
    else:
        del data[at:]
    return bytes(data)


def changed(rng: random.Random, raw: bytes, other: bytes) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        raw = change(rng, raw, other)
    return raw


def through_zip(rng: random.Random, raw: bytes, other: bytes) -> bytes:
    """Changes of an entry, with sizes and checksums that are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as z, zipfile.ZipFile(out, "w") as to:
        names = z.namelist()
        hit = rng.choice(names) if rng.random() < 0.3 else max(names, key=lambda name: (name.endswith(".pkl"), len(z.read(name))))
        for name in names:
            content = z.read(name)
            to.writestr(name, changed(rng, content, other) if name == hit else content, z.getinfo(name).compress_type)
    return out.getvalue()


def through_header(rng: random.Random, raw: bytes, other: bytes) -> bytes:
    """Changes of a safetensors header or of the structure in its metadata, with a length that is right."""
    n = int.from_bytes(raw[:8], "little")
    header, data = raw[8 : 8 + n], raw[8 + n :]
    parsed = json.loads(header)
    structure = parsed.get("__metadata__", {}).get("flambeau.structure")
    if structure is not None and rng.random() < 0.7:
        parsed["__metadata__"]["flambeau.structure"] = changed(rng, structure.encode(), other).decode("latin1")
        header = json.dumps(parsed).encode()
    else:
        header = changed(rng, header, other)
    return len(header).to_bytes(8, "little") + header + data


def mutation(seed: int, number: int, made: dict[str, bytes]) -> tuple[str, bytes]:
    """(the seed file's name, the bytes)"""
    rng = random.Random(f"{seed} {number}")
    name = rng.choice(list(made))
    raw, other = made[name], made[rng.choice(list(made))]
    if rng.random() < 0.7:
        if raw[:2] == b"PK":
            return name, through_zip(rng, raw, other)
        if name in ("ours", "containers", "safetensors", "graph"):
            return name, through_header(rng, raw, other)
    return name, changed(rng, raw, other)


# ------------------------------------------------------------------------------------------- looking


def look_at(value: object) -> None:
    """Reads what a result shows; nothing here calls itself, and an object is looked at once."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        x = waiting.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, fl.Tensor):
            if x.layout is not fl.strided:
                waiting += [x._values(), *([x._indices()] if x.layout is fl.sparse_coo else [])]
                if x.numel() < 10_000:
                    x.to_dense()
            elif x.numel() and not x.is_meta:
                held = x.detach()
                for dim in range(held.ndim):  # what is expanded is there once
                    if held.stride(dim) == 0:
                        held = held.narrow(dim, 0, 1)
                held.view(-1).sum() if held.is_contiguous() else held.sum()
                repr(held.reshape(-1)[-1:])
        elif isinstance(x, dict):
            waiting += [*x.keys(), *x.values()]
            waiting += list(getattr(x, "__dict__", {}).values())
        elif isinstance(x, (list, tuple, set, frozenset)):
            waiting += x
        elif isinstance(x, np.ndarray):
            x.sum()


def load_one(path: pathlib.Path, mmap: bool) -> None:
    """Asks all readers that there are for such a file, and looks at what they give."""
    fl.serialization.get_unsafe_globals_in_checkpoint(path)
    if path.suffix == ".graph":
        fl.graph.Graph.load(path)
        return
    look_at(fl.load(path, mmap=mmap))
    with fl.serialization.safe_open(path, mmap=mmap) as f:
        look_at([f.get_tensor(name) for name in f.keys()])


def try_one(content: bytes, path: pathlib.Path, mmap: bool) -> str:
    """What is wrong with how these bytes are loaded, or nothing."""
    path.unlink(missing_ok=True)  # a mapping of the one before may be alive
    path.write_bytes(content)
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    tracemalloc.reset_peak()
    start = tracemalloc.get_traced_memory()[0]
    fault = ""
    try:
        load_one(path, mmap)
    except EXPECTED as error:
        if len(str(error)) > 2000:
            fault = f"an error of {len(str(error))} characters"
    except BaseException as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    bound = AT_LEAST + PER_BYTE * len(content)
    peak, tensors = tracemalloc.get_traced_memory()[1] - start, fl.memory_stats()["peak_allocated_bytes"] - before
    if max(peak, tensors) > bound:
        fault = f"{peak} bytes of Python and {tensors} of tensors for a file of {len(content)}"
    return fault


def run(seed: int, first: int, count: int, progress: object = None) -> list[str]:
    """Mutations in this process; faults as text. `progress` gets the number of each before it is tried."""
    made, faults = seeds(), []
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        x = fl.ones(2)
        fl.save({"x": x}, f"{folder}/a.safetensors")
        fl.save({"y": x}, f"{folder}/b.safetensors")
        for number in range(first, first + count):
            if progress is not None:
                progress(number)
            name, content = mutation(seed, number, made)
            path = pathlib.Path(folder) / {"index": "x.index.json", "graph": "x.graph"}.get(name, "x.pt")
            fault = try_one(content, path, mmap=number % 2 == 0)
            if fault:
                faults.append(f"mutation {number} of {name!r}: {fault}")
    tracemalloc.stop()
    return faults


def child(seed: int, first: int, count: int) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def progress(number: int) -> None:
        signal.alarm(SECONDS)
        print(number, flush=True)

    for fault in run(seed, first, count, progress):
        print("fault " + fault, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--child", type=int, nargs=2)
    args = parser.parse_args()
    if args.child:
        child(args.seed, *args.child)
        return 0
    if args.replay is not None:
        name, content = mutation(args.seed, args.replay, seeds())
        print(name, content)
        faults = run(args.seed, args.replay, 1)
        print("\n".join(faults) or "nothing is wrong")
        return bool(faults)
    begin, done, found = time.monotonic(), 0, 0
    while done < args.count:
        n = min(BATCH, args.count - done)
        command = [sys.executable, __file__, "--seed", str(args.seed), "--child", str(done), str(n)]
        process = subprocess.run(command, capture_output=True, text=True)
        lines = process.stdout.splitlines()
        numbers = [int(line) for line in lines if line.isdigit()]
        for line in lines:
            if line.startswith("fault "):
                found += 1
                print(line[6:], flush=True)
        if process.returncode:
            found += 1
            at = numbers[-1] if numbers else done
            what = "hangs" if process.returncode == -signal.SIGALRM else f"ends with {process.returncode}"
            print(f"mutation {at}: {what}: {process.stderr[-1500:]}", flush=True)
            done = at + 1
        else:
            done += n
    print(f"{args.count} mutations of {len(seeds())} files, seed {args.seed}: {found} faults, {time.monotonic() - begin:.0f} s")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
