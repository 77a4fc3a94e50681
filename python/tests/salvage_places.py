"""Places of an object's bytes in an undamaged file, found without any HDF5 library: header blocks, chunk index of
version 1, committed datatype, and what its values and attributes have in global heaps. None of these has a checksum,
except headers of version 2. Source: HDF5 file format specification.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

Ranges = list[tuple[int, int]]

DATATYPE, LAYOUT, CONTINUATION, ATTRIBUTE_INFO = 3, 8, 16, 21
#: Number of bytes of a fractal heap's block in which references to global heaps are looked for.
DENSE_BYTES = 1 << 16
#: Bit of a message's flags: the message is elsewhere.
SHARED = 2


@dataclass
class Places:
    """Byte ranges of an object in its file, by the structure that they are of."""

    version: int = 1
    header: Ranges = field(default_factory=list)
    index: Ranges = field(default_factory=list)
    committed: Ranges = field(default_factory=list)
    heap: Ranges = field(default_factory=list)


class Bytes:
    """A file's bytes, with the widths of its addresses and lengths."""

    def __init__(self, content: bytes, base: int) -> None:
        self.content, self.base = content, base
        at = base + (13 if content[base + 8] < 2 else 9)
        self.offset_bytes, self.length_bytes = content[at], content[at + 1]
        starts = [match.start() for match in re.finditer(b"FHDB", content)]
        self.dense = [content[start : start + DENSE_BYTES] for start in starts]
        self.heaps = {match.start() - base: self.heap(match.start()) for match in re.finditer(b"GCOL\x01", content)}

    def number(self, at: int, width: int) -> int:
        return int.from_bytes(self.content[at : at + width], "little")

    def heap(self, at: int) -> dict[int, tuple[int, int, Ranges]]:
        """Returns the place of each object of a global heap, and of the bytes before it by which it is found."""
        end = min(at + self.number(at + 8, self.length_bytes), len(self.content))
        found: dict[int, tuple[int, int, Ranges]] = {}
        head = (8 + self.length_bytes + 7) // 8 * 8
        heads: Ranges = [(at, at + head)]
        at += head
        while at + head <= end:
            index, size = self.number(at, 2), self.number(at + 8, self.length_bytes)
            start = at + head
            if index == 0 or start + size > end:
                break
            heads = [*heads, (at, start)]
            found[index] = (start, start + size, heads)
            at = start + (size + 7) // 8 * 8
        return found

    def header(self, address: int) -> tuple[int, Ranges, list[tuple[int, int, int, int]]]:
        """Returns the version of an object header, its blocks, and type, flags, start and end of its messages."""
        at = self.base + address
        messages: list[tuple[int, int, int, int]] = []
        if self.content[at : at + 4] == b"OHDR":
            flags = self.content[at + 5]
            start = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
            width = 1 << (flags & 3)
            size = self.number(start, width)
            blocks = [(at, start + width + size + 4, start + width, start + width + size)]
            head = 6 if flags & 4 else 4
        else:
            flags, head = 0, 8
            size = self.number(at + 8, 4)
            blocks = [(at, at + 16 + size, at + 16, at + 16 + size)]
        version = 2 if head < 8 else 1
        for _, _, first, last in blocks:
            at = first
            while at + head <= last:
                kind, size, flag = struct.unpack_from("<BHB" if version == 2 else "<HHB", self.content, at)
                start = at + head
                messages.append((kind, flag, start, start + size))
                if kind == CONTINUATION:
                    block = self.base + self.number(start, self.offset_bytes)
                    end = block + self.number(start + self.offset_bytes, self.length_bytes)
                    blocks.append((block, end, block + 4, end - 4) if version == 2 else (block, end, block, end))
                at = start + size
        return version, [(start, end) for start, end, _, _ in blocks], messages

    def tree(self, address: int, rank: int) -> Iterator[tuple[int, int]]:
        """Yields the nodes of a chunk index of version 1."""
        at = self.base + address
        if self.content[at : at + 4] != b"TREE":
            return
        level, count = self.content[at + 5], self.number(at + 6, 2)
        first, key = at + 8 + 2 * self.offset_bytes, 8 + 8 * rank
        entry = key + self.offset_bytes
        yield at, first + count * entry + key
        for number in range(count if level else 0):
            yield from self.tree(self.number(first + number * entry + key, self.offset_bytes), rank)

    def places(self, address: int, raw: list[bytes]) -> Places:
        """Returns the places of the object at an address. `raw` has its elements, as they are stored and decoded."""
        version, header, messages = self.header(address)
        found = Places(version, header)
        for kind, flags, start, _ in messages:
            if kind == DATATYPE and flags & SHARED:
                at = start + (8 if self.content[start] == 1 else 2)
                found.committed += self.header(self.number(at, self.offset_bytes))[1]
            if kind == LAYOUT and self.content[start] == 3 and self.content[start + 1] == 2:
                root = self.number(start + 3, self.offset_bytes)
                found.index += list(self.tree(root, self.content[start + 2]))
            if kind == LAYOUT and self.content[start] < 3 and self.content[start + 2] == 2:
                root = self.number(start + 8, self.offset_bytes)
                found.index += list(self.tree(root, self.content[start + 1]))
        if any(kind == ATTRIBUTE_INFO for kind, *_ in messages):
            # Attributes in a fractal heap: in which one does not matter, as its blocks have checksums.
            raw = [*raw, *self.dense]
        waiting = [*raw, *(self.content[start:end] for start, end in header)]
        seen = set()
        while waiting:
            data = waiting.pop()
            for address, objects in self.heaps.items():
                handle = address.to_bytes(self.offset_bytes, "little")
                at = data.find(handle)
                while at >= 0:
                    index = int.from_bytes(data[at + len(handle) : at + len(handle) + 4], "little")
                    if index in objects and (address, index) not in seen:
                        seen.add((address, index))
                        start, end, heads = objects[index]
                        found.heap += [(start, end), *heads]
                        waiting.append(self.content[start:end])
                    at = data.find(handle, at + 1)
        found.heap = sorted(set(found.heap))
        return found

    def names(self) -> Ranges:
        """Returns the places of the names of old groups: local heaps."""
        found = []
        for match in re.finditer(b"HEAP\0", self.content):
            at = match.start() + 8
            size = self.number(at, self.length_bytes)
            start = self.base + self.number(at + 2 * self.length_bytes, self.offset_bytes)
            found += [(match.start(), at + 2 * self.length_bytes + self.offset_bytes), (start, start + size)]
        return found
