"""Redo journals, made from their documented format: what an editor leaves that is interrupted while it applies one."""

import struct
from pathlib import Path

SECTOR = 512


def lookup3(data: bytes) -> int:
    """Bob Jenkins' hash, the checksum of HDF5 metadata and of journals."""

    def turned(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    a = b = c = 0xDEADBEEF + len(data) & 0xFFFFFFFF
    blocks = [data[at : at + 12] for at in range(0, len(data), 12)]
    for number, block in enumerate(blocks, 1):
        parts = struct.unpack("<3I", block.ljust(12, b"\0"))
        a, b, c = ((value + part) & 0xFFFFFFFF for value, part in zip((a, b, c), parts, strict=True))
        if number < len(blocks):
            for by in (4, 6, 8, 16, 19, 4):
                a, c = (a - c) & 0xFFFFFFFF ^ turned(c, by), (c + b) & 0xFFFFFFFF
                a, b, c = b, c, a
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - turned(b, by)) & 0xFFFFFFFF
        a, b, c = b, c, a
    return b


def sums(data: bytes, start: int) -> bytes:
    """Returns the checksums of the sectors of a piece."""
    end, at, found = start + len(data), start, b""
    while at < end:
        after = min((at // SECTOR + 1) * SECTOR, end)
        found += struct.pack("<I", lookup3(data[at - start : after - start]))
        at = after
    return found


def interrupt(path: Path, before: bytes, after: bytes, applied: int = 0) -> None:
    """Makes a file, and its journal, as they are after an interruption of the commit that turns `before` into `after`.

    New data at the end are in the file, and so are the first `applied` of the pieces.
    """
    sectors = range(0, len(before), SECTOR)
    changed = [at for at in sectors if before[at : at + SECTOR] != after[at : at + SECTOR]]
    assert len(changed) > applied
    content = bytearray(before + after[len(before) :])
    journal, index = bytearray(b"Hyperchunk redo1".ljust(64, b"\0")), b""
    for number, at in enumerate(changed):
        old, new = before[at : at + SECTOR], after[at : min(at + SECTOR, len(before))]
        if number < applied:
            content[at : at + len(new)] = new
        chained = lookup3(struct.pack("<II", 0, lookup3(new)))
        index += struct.pack("<QQQI", at, len(new), len(journal), chained) + sums(old, at)
        journal += new
    footer = b"Hyperchunk rend1" + struct.pack("<QQQQ", len(journal), len(index), len(changed), len(after))
    footer = (footer + struct.pack("<I", lookup3(index))).ljust(60, b"\0")
    path.write_bytes(content)
    path.with_name(f"{path.name}.redo").write_bytes(journal + index + footer + struct.pack("<I", lookup3(footer)))
