"""Files of all formats, byte by byte: what other programs write, and what nobody should.

Pickles are assembled from opcodes, so that each may be wrong in any way:

    pickle(text("a"), number(1), b"\\x86")              a tuple of two
    archive(pickle(...), {"0": bytes(8)})               in PyTorch's zip format, with a storage
"""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np

# ------------------------------------------------------------------------------------------- pickles


def name(module: str, what: str) -> bytes:
    return f"c{module}\n{what}\n".encode()


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(n: int) -> bytes:
    if 0 <= n < 256:
        return b"K" + bytes([n])
    raw = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def tup(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def numbers(*values: int) -> bytes:
    return tup(*map(number, values))


def put(n: int) -> bytes:
    return b"q" + bytes([n])


def get(n: int) -> bytes:
    return b"h" + bytes([n])


def call(function: bytes, *args: bytes) -> bytes:
    return function + tup(*args) + b"R"


def pickle(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


HOOKS = name("collections", "OrderedDict") + b")R"
FALSE, TRUE, NONE = b"\x89", b"\x88", b"N"


def storage(key: str = "0", count: int = 4, kind: str = "FloatStorage", location: str = "cpu", module: str = "torch") -> bytes:
    return tup(text("storage"), name(module, kind), text(key), text(location), number(count)) + b"Q"


def tensor(held: bytes | None = None, offset: bytes = b"K\0", sizes: bytes | None = None, strides: bytes | None = None, grad: bytes = FALSE, hooks: bytes = HOOKS) -> bytes:
    sizes, strides = sizes or numbers(2, 2), strides or numbers(2, 1)
    return call(name("torch._utils", "_rebuild_tensor_v2"), held or storage(), offset, sizes, strides, grad, hooks)


def dictionary(**items: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


FOUR = np.arange(4, dtype="<f4").tobytes()


def archive(pickled: bytes, storages: dict[str, bytes] | None = None, compress: bool = False, folder: str = "archive", **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as z:
        z.writestr(f"{folder}/data.pkl", pickled)
        z.writestr(f"{folder}/byteorder", more.pop("byteorder", b"little"))
        for key, raw in ({"0": FOUR} if storages is None else storages).items():
            z.writestr(f"{folder}/data/{key}", raw)
        z.writestr(f"{folder}/version", b"3\n")
        for key, raw in more.items():
            z.writestr(f"{folder}/{key}", raw)
    return out.getvalue()


def zip_of(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for key, raw in entries.items():
            z.writestr(key, raw)
    return out.getvalue()


MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def stream_storage(key: str = "7", count: int = 4, view: bytes = NONE, kind: str = "FloatStorage") -> bytes:
    return tup(text("storage"), name("torch", kind), text(key), text("cpu"), number(count), view) + b"Q"


def stream(pickled: bytes, storages: dict[str, tuple[int, bytes]] | None = None, magic: bytes = MAGIC, protocol: int = 1001, info: bytes | None = None, keys: bytes | None = None, order: str = "<") -> bytes:
    storages = {"7": (4, FOUR)} if storages is None else storages
    out = magic + pickle(number(protocol)) + pickle(info or dictionary(little_endian=TRUE if order == "<" else FALSE)) + pickled
    out += keys or pickle(b"](" + b"".join(map(text, storages)) + b"e")
    for count, raw in storages.values():
        out += struct.pack(order + "q", count) + raw
    return out


def state_of_a_net() -> bytes:
    """What a small checkpoint holds: a state dict with metadata, views, Parameters, an optimizer's dicts and numbers."""
    rows = tensor(sizes=numbers(2, 2))
    ordered = name("collections", "OrderedDict") + b")R" + put(1)
    return pickle(
        b"}(", text("net"), ordered, b"(", text("w"), rows, put(2), text("view"), tensor(offset=number(1), sizes=numbers(3), strides=numbers(1)),
        text("p"), call(name("torch._utils", "_rebuild_parameter"), tensor(), TRUE, HOOKS), text("tied"), get(2), b"u",
        b"}", text("_metadata"), dictionary(version=number(1)), b"sb",
        text("lr"), b"G" + struct.pack(">d", 0.1), text("plain"), b"](", number(-5), number(2**70), NONE, TRUE, text("x"), call(name("__builtin__", "set"), b"](K\1K\2e"),
        call(name("__builtin__", "complex"), b"G" + bytes(8), b"G" + bytes(8)), call(name("_codecs", "encode"), text("ab"), text("latin1")),
        name("torch", "float32"), call(name("torch", "Size"), numbers(2, 3)), call(name("torch", "device"), text("cpu")), b"e",
        text("b"), tensor(storage("1", 2, "BoolStorage"), sizes=numbers(2), strides=numbers(1)), b"u",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- safetensors


def container(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def index(**weight_map: str) -> bytes:
    return json.dumps({"metadata": {"total_size": 16}, "weight_map": weight_map}).encode()


# ------------------------------------------------------------------------------------------- NumPy


def npy(array: np.ndarray, header: str | None = None, version: int = 1) -> bytes:
    if header is None:
        out = io.BytesIO()
        np.lib.format.write_array(out, array, (version, 0))
        return out.getvalue()
    raw = header.encode("latin1")
    return b"\x93NUMPY" + bytes([version, 0]) + len(raw).to_bytes(2 if version == 1 else 4, "little") + raw + array.tobytes()


def npz(compress: bool = False, **arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(out, **arrays)
    return out.getvalue()


# ------------------------------------------------------------------------------------------- GGUF

_TYPES = {bool: 7, str: 8, int: 11, float: 12}
F32, F16, Q4_0, Q8_0, BF16 = 0, 1, 2, 8, 30


def _word(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: object) -> bytes:
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, str):
        return _word(value)
    return struct.pack("<q" if isinstance(value, int) else "<d", value)


def gguf(tensors: dict[str, tuple[tuple[int, ...], int, bytes]], version: int = 3, alignment: int = 32, **metadata: object) -> bytes:
    """`tensors`: (shape, type, bytes) by name."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += _word(key.replace("_", ".", 1))
        if isinstance(value, list):
            out += struct.pack("<IIQ", 9, _TYPES[type(value[0])], len(value)) + b"".join(map(_value, value))
        elif isinstance(value, tuple):  # (type, bytes)
            out += struct.pack("<I", value[0]) + value[1]
        else:
            out += struct.pack("<I", _TYPES[type(value)]) + _value(value)
    at, data = 0, b""
    for key, (shape, kind, raw) in tensors.items():
        out += _word(key) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape)) + struct.pack("<IQ", kind, at)
        data += raw + bytes(-len(raw) % alignment)
        at = len(data)
    return out + bytes(-len(out) % alignment) + data


def q8_0(x: np.ndarray) -> bytes:
    """Blocks of 32: the scale that makes the largest element 127, and rounded elements."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    d = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    codes = np.round(blocks / np.where(d == 0, 1, d).astype(np.float32)).astype(np.int8)
    return b"".join(a.tobytes() + b.tobytes() for a, b in zip(d, codes))


def q4_0(x: np.ndarray) -> bytes:
    """Blocks of 32: the element of the largest size becomes -8."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    d = (largest / -8).astype(np.float16)
    codes = np.clip(np.round(blocks / np.where(d == 0, 1, d).astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    return b"".join(a.tobytes() + (b[:16] | b[16:] << 4).tobytes() for a, b in zip(d, codes))
