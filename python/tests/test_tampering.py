"""Tampered records and stubs: ``verify`` reports them, and reading is an error, never values."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import failure, read
from programs import elementwise
from stored_records import first_chunk, fit_stubs, put_record, record_of

A = np.arange(6, dtype="f4").reshape(2, 3)
ATTRIBUTE = "hyperchunk_udf"


@pytest.fixture
def file(scene: Any, attach: Any) -> Path:
    """Two inputs, and two live datasets that read the first."""
    path: Path = scene(a=A, b=A + 100)
    attach(path, "lua", elementwise("lua", "a[i] + 1", "out", ["a"]), chunks="1x3")
    attach(path, "lua", elementwise("lua", "a[i] + 2", "two", ["a"]), chunks="1x3")
    return path


def edit(file: Path, change: Callable[[dict[str, Any]], object], dataset: str = "out") -> None:
    """Changes the record, and nothing else."""
    with h5py.File(file, "r+") as opened:
        record = json.loads(record_of(opened[dataset]))
        change(record)
        put_record(opened[dataset], json.dumps(record, separators=(",", ":")).encode())


def rewrite_stubs(file: Path, dataset: str = "out") -> None:
    """Adapts the stubs to the changed record, as an attacker can: only the signature then protects it."""
    with h5py.File(file, "r+") as opened:
        fit_stubs(opened[dataset])


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "source": lambda r: r.update(source_code=r["source_code"].replace("+ 1", "+ 666")),
    "input": lambda r: r.update(input_datasets=["b"]),
    "output name": lambda r: r.update(output_dataset="other"),
    "blockwise": lambda r: r.update(blockwise=False, chunk=[2, 3]),
    "chunk": lambda r: r.update(chunk=[2, 3]),
    "language": lambda r: r.update(backend="CPython"),
    "created": lambda r: r.update(created="2001-01-01T00:00:00Z"),
    "signature": lambda r: r["signature"].update(value="A" * 86 + "=="),
    "name in the signature": lambda r: r["signature"].update(name="root"),
    "key": lambda r: r["signature"].update(public_key="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    "id": lambda r: r.update(id="0" * 32),
    "an unknown key": lambda r: r.update(extra=1),
    "a missing key": lambda r: r.pop("created"),
    "a later version": lambda r: r.update(api_version=4),
    "an unknown language": lambda r: r.update(backend="Perl"),
    "a huge shape": lambda r: r.update(output_resolution=[2**62, 2**62]),
    "a type": lambda r: r.update(output_datatype="int32"),
}


@pytest.mark.parametrize("stubs", ["old stubs", "new stubs"])
@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_record(case: str, stubs: str, file: Path, command: Any) -> None:
    edit(file, CHANGES[case])
    if stubs == "new stubs":
        rewrite_stubs(file)
    reason = failure(file, "out")
    assert "s2.h5" in reason or "hyperchunk" in reason
    done = command("udf", "verify", file)
    assert (done.returncode, "/out\tINVALID" in done.stdout) == (1, True)
    assert "1 of 2 live datasets are invalid" in done.stderr
    out, two = hyperchunk.udf.ls(file)
    assert (out.error is not None, out.profile, two.error) == (True, None, None)
    np.testing.assert_array_equal(read(file, "two"), A + 2)


def test_an_unchanged_record_written_again_is_fine(file: Path, command: Any) -> None:
    """Control: the edits of the tests above are valid except for the change."""
    edit(file, lambda r: None)
    rewrite_stubs(file)
    assert command("udf", "verify", file).returncode == 0
    np.testing.assert_array_equal(read(file, "out"), A + 1)


def test_without_its_signature_it_is_a_strangers(file: Path, command: Any) -> None:
    """Removing the signature gains no rights: HDF5-UDF ran unsigned payloads without a sandbox."""
    edit(file, lambda r: r.update(signature=None))
    assert "changed" in failure(file, "out")
    rewrite_stubs(file)
    np.testing.assert_array_equal(read(file, "out"), A + 1)
    [row] = [r for r in json.loads(command("udf", "ls", file, "--json").stdout) if r["path"] == "/out"]
    assert (row["profile"], row["signer"]) == ("untrusted", None)


@pytest.mark.parametrize("value", [b"", b"{", b"null", b"\xff\xfe"])
def test_no_record_at_all(value: bytes, file: Path, command: Any) -> None:
    with h5py.File(file, "r+") as opened:
        record = record_of(opened["out"])
        put_record(opened["out"], value)
        # A record in an attribute, as in older files, is ignored beside such stubs.
        opened["out"].attrs[ATTRIBUTE] = np.bytes_(record)
    failure(file, "out")
    done = command("udf", "verify", file)
    assert (done.returncode, "/out\tINVALID" in done.stdout) == (1, True)
    assert "panicked" not in done.stderr


def stubs_of(live: h5py.Dataset) -> list[tuple[tuple[int, ...], bytes]]:
    offsets = [live.id.get_chunk_info(n).chunk_offset for n in range(live.id.get_num_chunks())]
    return [(where, live.id.read_direct_chunk(where)[1]) for where in offsets]


def exchange_stubs(file: Path) -> None:
    with h5py.File(file, "r+") as opened:
        out, two = stubs_of(opened["out"]), stubs_of(opened["two"])
        for (where, stub), (_, other) in zip(out, two, strict=True):
            opened["out"].id.write_direct_chunk(where, other)
            opened["two"].id.write_direct_chunk(where, stub)


def test_stubs_of_another_dataset(file: Path) -> None:
    """Stubs of another dataset name another id and another record."""
    exchange_stubs(file)
    failure(file, "out")
    failure(file, "two")


def test_stubs_of_another_dataset_that_is_open_too(file: Path) -> None:
    exchange_stubs(file)
    with h5py.File(file) as opened:
        both = opened["out"], opened["two"]
        for live in both:
            with pytest.raises(OSError):
                live[...]


def test_records_exchanged(file: Path) -> None:
    with h5py.File(file, "r+") as opened:
        out, two = record_of(opened["out"]), record_of(opened["two"])
        put_record(opened["out"], two)
        put_record(opened["two"], out)
    failure(file, "out")
    failure(file, "two")


def test_stubs_of_one_dataset_exchanged(file: Path, attach: Any, command: Any) -> None:
    """HDF5 does not tell a filter the chunk's position, so a read gives the other block's values; `verify` fails."""
    attach(file, "lua", elementwise("lua", "a[i] + 3", "six", ["a"]), chunks="1x1")
    assert command("udf", "verify", file).returncode == 0
    with h5py.File(file, "r+") as opened:
        (first, one), (second, two) = stubs_of(opened["six"])[1:3]
        opened["six"].id.write_direct_chunk(first, two)
        opened["six"].id.write_direct_chunk(second, one)
    done = command("udf", "verify", file)
    assert done.returncode == 1
    assert re.search(r"/six\tINVALID: chunk \[0.*holds the stub of chunk", done.stdout), done.stdout


def test_the_record_in_another_chunk(file: Path) -> None:
    """Exchanging the first chunk loses the record."""
    with h5py.File(file, "r+") as opened:
        (first, one), (second, two) = stubs_of(opened["out"])
        opened["out"].id.write_direct_chunk(first, two)
        opened["out"].id.write_direct_chunk(second, one)
    assert "it has no record" in failure(file, "out")


def damaged(stub: bytes) -> list[bytes]:
    flipped = [stub[:n] + bytes([stub[n] ^ 1]) + stub[n + 1 :] for n in range(len(stub))]
    return [*flipped, stub[:-1], stub[:4], stub + b"\0", b"\0" * len(stub), b"\xff" * 500]


def test_damaged_stubs(file: Path) -> None:
    """Every changed bit is detected."""
    with h5py.File(file, "r+") as opened:
        [(where, chunk), _] = stubs_of(opened["out"])
        stub, record = first_chunk(opened["out"])
    for bad in [bad + record for bad in damaged(stub)] + [*damaged(record), chunk[:-1], chunk + b" "]:
        with h5py.File(file, "r+") as opened:
            opened["out"].id.write_direct_chunk(where, bad)
        with h5py.File(file) as opened, pytest.raises(OSError):
            opened["out"][...]
    with h5py.File(file, "r+") as opened:
        opened["out"].id.write_direct_chunk(where, chunk)
    np.testing.assert_array_equal(read(file, "out"), A + 1)
