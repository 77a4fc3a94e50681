"""Stored records of live datasets, which follow the stub of the first chunk."""

import hashlib

import h5py


def stub_length(chunk: bytes) -> int:
    """Returns the size of the stub in a stored chunk."""
    at = 40
    for _ in range(chunk[5]):
        while chunk[at] & 0x80:
            at += 1
        at += 1
    return at + 4


def first_chunk(dataset: h5py.Dataset) -> tuple[bytes, bytes]:
    """Returns the stub of the first chunk, and the record after it."""
    chunk = dataset.id.read_direct_chunk((0,) * dataset.ndim)[1]
    length = stub_length(chunk)
    return chunk[:length], chunk[length:]


def record_of(dataset: h5py.Dataset) -> bytes:
    """Returns the bytes of the record."""
    return first_chunk(dataset)[1]


def put_record(dataset: h5py.Dataset, record: bytes) -> None:
    """Replaces the record, and leaves the stub unchanged."""
    dataset.id.write_direct_chunk((0,) * dataset.ndim, first_chunk(dataset)[0] + record)


def fit_stubs(dataset: h5py.Dataset) -> None:
    """Adapts the stubs to a changed record, as an attacker can: only the signature then protects it."""
    digest = hashlib.sha256(record_of(dataset)).digest()[:16]
    for n in range(dataset.id.get_num_chunks()):
        where = dataset.id.get_chunk_info(n).chunk_offset
        mask, chunk = dataset.id.read_direct_chunk(where)
        length = stub_length(chunk)
        body = chunk[:24] + digest + chunk[40 : length - 4]
        dataset.id.write_direct_chunk(where, body + hashlib.sha256(body).digest()[:4] + chunk[length:], mask)
