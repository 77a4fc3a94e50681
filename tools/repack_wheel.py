"""Compresses the files of a wheel better than zlib does, in the format that pip unpacks.

zipfile can only compress with zlib, so the archive is written here: the same files, in the same order, with the same
times and permissions. libdeflate (MIT) at its highest level makes a wheel 3.5 % smaller than zlib's default."""

import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

LIBDEFLATE_LEVEL = 12
LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
VERSION_NEEDED = 20
UNIX = 3
UTF8 = 0x800
MAX_BYTES = 0xFFFF_FFFF

Compress = Callable[[bytes], bytes]


def libdeflate(data: bytes) -> bytes:
    """Returns data as a raw DEFLATE stream."""
    # Installed only for `make wheel`: tools/requirements-wheel.txt.
    import deflate

    return bytes(deflate.deflate_compress(data, LIBDEFLATE_LEVEL))


def entry(info: zipfile.ZipInfo, data: bytes, compress: Compress) -> tuple[bytes, tuple[int, ...], bytes]:
    """Returns the name of a file, the fields that are in both its headers, and its bytes in the archive."""
    packed, method = compress(data), zipfile.ZIP_DEFLATED
    if len(packed) >= len(data):
        packed, method = data, zipfile.ZIP_STORED
    name = info.filename.encode()
    year, month, day, hour, minute, second = info.date_time
    date = (year - 1980) << 9 | month << 5 | day
    time = hour << 11 | minute << 5 | second // 2
    flags = 0 if name.isascii() else UTF8
    return name, (VERSION_NEEDED, flags, method, time, date, info.CRC, len(packed), len(data), len(name), 0), packed


def repack(wheel: Path, compress: Compress = libdeflate) -> None:
    """Replaces a wheel by one with the same files."""
    parts: list[bytes] = []
    directory: list[bytes] = []
    offset = 0
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name, fields, packed = entry(info, archive.read(info), compress)
            parts += [LOCAL.pack(b"PK\3\4", *fields), name, packed]
            made_by = UNIX << 8 | VERSION_NEEDED
            header = CENTRAL.pack(b"PK\1\2", made_by, *fields, 0, 0, 0, info.external_attr, offset)
            directory += [header, name]
            offset += LOCAL.size + len(name) + len(packed)
    size = sum(map(len, directory))
    if offset + size > MAX_BYTES:
        raise SystemExit(f"wheel: cannot compress {wheel.name}: {offset + size} bytes, expected at most {MAX_BYTES}")
    number = len(directory) // 2
    end = END.pack(b"PK\5\6", 0, 0, number, number, size, offset, 0)
    fresh = wheel.with_name(f".{wheel.name}.{os.getpid()}")
    fresh.write_bytes(b"".join([*parts, *directory, end]))
    fresh.replace(wheel)
