"""Records, stubs and signatures written from docs/formats/live-dataset.md alone, as an attacker would write them."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import platform
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import h5py
import numpy as np

from hostile import ed25519

FILTER = 31300
ATTRIBUTE = "hyperchunk_udf"
TARGET = f"{platform.machine()}-linux-gnu"
BACKENDS = {"py": "CPython", "lua": "LuaJIT", "cpp": "C++"}
DTYPES = {"uint8": "u1", "int32": "i4", "uint64": "u8", "float": "f4", "double": "f8"}
Header = dict[str, Any]


@dataclass
class Slot:
    """A dataset of a record."""

    name: str
    datatype: str = "double"
    dims: Sequence[int] = (4,)


@dataclass
class Key:
    """A signing key with its labels."""

    seed: bytes
    name: str = "Somebody"
    email: str = "somebody@example.org"
    public: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.public = ed25519.public_key(self.seed)

    @property
    def stem(self) -> str:
        """Name of the key's file in a profile."""
        digest = hashlib.sha256(self.public).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def text(self) -> str:
        """Contents of its public file."""
        key = base64.b64encode(self.public).decode()
        return f"hyperchunk-public-key-v1\nkey {key}\nname {self.name}\nemail {self.email}\n"


def make(
    source: str,
    language: str,
    output: Slot,
    inputs: Sequence[Slot] = (),
    scratch: Sequence[Slot] = (),
    *,
    compiled: bytes | None = None,
    identity: bytes | None = None,
    **more: Any,
) -> Header:
    """Returns a complete and honest record; `more` replaces or adds keys."""

    def described(slots: Sequence[Slot]) -> list[Header]:
        return [{"datatype": s.datatype, "resolution": list(s.dims)} for s in slots]

    packed = None
    if compiled is not None:
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        data = deflate.compress(compiled) + deflate.flush()
        packed = {"deflate": base64.b64encode(data).decode(), "target": TARGET}
    seed = f"{source}{output}{inputs}".encode()
    header = {
        "api_version": 3,
        "backend": BACKENDS[language],
        "blockwise": False,
        "bytecode_size": len(compiled or b""),
        "chunk": list(output.dims),
        "compiled": packed,
        "created": "2024-01-01T00:00:00Z",
        "id": (identity or hashlib.sha256(seed).digest()[:16]).hex(),
        "input_datasets": [s.name for s in inputs],
        "inputs": described(inputs),
        "output_dataset": output.name,
        "output_datatype": output.datatype,
        "output_resolution": list(output.dims),
        "scratch": described(scratch),
        "scratch_datasets": [s.name for s in scratch],
        "signature": None,
        "source_code": source,
    }
    return header | more


def _number(n: int) -> bytes:
    return struct.pack("<Q", n)


def _field(data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return _number(len(data)) + data


def _numbers(values: Sequence[int]) -> bytes:
    return _number(len(values)) + b"".join(map(_number, values))


def _slots(names: Sequence[str], rows: Sequence[Header]) -> bytes:
    one = (_field(n) + _field(r["datatype"]) + _numbers(r["resolution"]) for n, r in zip(names, rows, strict=True))
    return _number(len(names)) + b"".join(one)


def signed_bytes(h: Header, key: bytes, name: str, email: str) -> bytes:
    """Returns the bytes that a signature covers."""
    text = (
        b"hyperchunk-udf-sig-v1\0" + _number(h["api_version"]) + _field(bytes.fromhex(h["id"])) + _field(h["backend"])
    )
    text += _field(hashlib.sha256(h["source_code"].encode()).digest())
    if h["compiled"] is None:
        text += _number(0)
    else:
        unpacked = zlib.decompress(base64.b64decode(h["compiled"]["deflate"]), -15)
        text += _number(1) + _field(h["compiled"]["target"]) + _field(hashlib.sha256(unpacked).digest())
    output = {"datatype": h["output_datatype"], "resolution": h["output_resolution"]}
    text += _slots([h["output_dataset"]], [output])
    text += _slots(h["input_datasets"], h["inputs"]) + _slots(h["scratch_datasets"], h["scratch"])
    text += _numbers(h["chunk"]) + _number(int(h["blockwise"]))
    if h["api_version"] > 3:
        text += _numbers(h.get("halo", []))
        text += _numbers([2**64 - 1 if n is None else n for n in h.get("maximum_resolution", [])])
    if "analysis" in h:
        said = h["analysis"]
        text += _field(said["name"]) + _field(said["version"]) + _number(len(said["datasets"]))
        text += b"".join(map(_field, said["datasets"]))
        text += _numbers([said["time_ms"], said["memory"], said["bytes"]]) + _field(said["failure"])
        text += _number(len(said["merge"])) + b"".join(_field(k) + _field(v) for k, v in said["merge"].items())
    text += _field(h["created"])
    return text + _field(name) + _field(email) + _field(key)


def sign(header: Header, key: Key) -> Header:
    """Returns the same record, signed."""
    value = ed25519.sign(key.seed, signed_bytes(header, key.public, key.name, key.email))
    return header | {"signature": signature(key.public, value, key.name, key.email)}


def signature(public: bytes, value: bytes, name: str, email: str) -> Header:
    """Returns the signature in a record's form."""
    encoded = (base64.b64encode(b).decode() for b in (public, value))
    return {"email": email, "name": name, "public_key": next(encoded), "value": next(encoded)}


def encode(header: Header) -> bytes:
    """Encodes a record."""
    return json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")


def leb128(n: int) -> bytes:
    """Encodes an unsigned number in groups of seven bits."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def stub(identity: bytes, record: bytes, chunk: Sequence[int], **wrong: Any) -> bytes:
    """Returns a chunk's stub. `wrong` replaces its parts: magic, version, rank, reserved, digest, numbers, check."""
    digest = wrong.get("digest", hashlib.sha256(record).digest()[:16])
    head = wrong.get("magic", b"HCLD") + bytes([wrong.get("version", 1), wrong.get("rank", len(chunk))])
    body = head + wrong.get("reserved", b"\0\0") + identity + digest
    body += wrong.get("numbers", b"".join(map(leb128, chunk)))
    return body + wrong.get("check", hashlib.sha256(body).digest()[:4])


def words(identity: bytes, version: int = 1) -> tuple[int, ...]:
    """Returns the client data of the filter."""
    return (version, *struct.unpack(">4I", identity))


def store(
    file: h5py.File,
    header: Header | bytes,
    *,
    name: str | None = None,
    like: Header | None = None,
    stubs: dict[tuple[int, ...], bytes] | None = None,
    client: Sequence[int] | None = None,
    attribute: Any = None,
    extra_filter: bool = False,
) -> None:
    """Writes a live dataset.

    Args:
        file: The file.
        header: The record, or the bytes to store as one.
        name: The dataset's name, if not the record's.
        like: The record that gives the dataset's own shape, type, chunks and id, if not `header`.
        stubs: Stubs instead of the correct ones, by chunk.
        client: The filter's client data instead of the correct ones.
        attribute: The attribute's value instead of the record; `False` for none.
        extra_filter: Put deflate into the pipeline, too.
    """
    record = header if isinstance(header, bytes) else encode(header)
    shape_of = like if like is not None else header
    assert isinstance(shape_of, dict)
    identity = bytes.fromhex(shape_of["id"])
    dims, chunk = tuple(shape_of["output_resolution"]), tuple(shape_of["chunk"])
    dtype = np.dtype(DTYPES[shape_of["output_datatype"]])
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(chunk)
    plist.set_filter(FILTER, 0, tuple(client if client is not None else words(identity)))
    if extra_filter:
        plist.set_deflate(1)
    space = h5py.h5s.create_simple(dims)
    path = (name if name is not None else shape_of["output_dataset"]).encode()
    dataset = h5py.h5d.create(file.id, path, h5py.h5t.py_create(dtype), space, plist)
    for number in product(*(range(-(-d // c)) for d, c in zip(dims, chunk, strict=True))):
        data = stub(identity, record, number)
        if stubs is not None:
            data = stubs.get(number, data)
        offset = tuple(n * c for n, c in zip(number, chunk, strict=True))
        dataset.write_direct_chunk(offset, data, 0)
    target = h5py.Dataset(dataset)
    if attribute is not None:
        if attribute is not False:
            target.attrs[ATTRIBUTE] = attribute
    else:
        store_record(target, record)


def store_record(target: h5py.Dataset, record: bytes) -> None:
    """Writes the attribute: a short one as a fixed-length string, otherwise as a variable-length one."""
    if ATTRIBUTE in target.attrs:
        del target.attrs[ATTRIBUTE]
    if len(record) < 60_000 and record:
        target.attrs.create(ATTRIBUTE, np.bytes_(record), dtype=h5py.string_dtype("utf-8", len(record)))
    else:
        target.attrs.create(ATTRIBUTE, record, dtype=h5py.string_dtype("utf-8"))


def changed(header: Header, path: Sequence[str | int], value: Any) -> Header:
    """Returns a copy of a record with one value replaced."""
    new = copy.deepcopy(header)
    at = new
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return new
