"""Spoofing name server on the loopback's port 53; runs in the jail.

`rebind.test` resolves to the public network at the first query, and to this machine at the next; `silent.test` is
never answered. Queries are written to standard output, one name per line.
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail

PUBLIC, HERE = "8.8.8.8", "127.0.0.1"
NAMES = {
    "loop.test": [HERE],
    "private.test": ["10.0.0.5"],
    "metadata.test": ["169.254.169.254"],
    "nowhere.test": ["0.0.0.0"],
    "both.test": [HERE, PUBLIC],
    "mapped.test": ["::ffff:127.0.0.1"],
    "loop6.test": ["::1"],
    "many.test": [f"127.0.0.{n}" for n in range(1, 20)],
}
A, AAAA = 1, 28


def main() -> None:
    """Answers until it is killed."""
    jail.require_confined()
    server = socket.socket(type=socket.SOCK_DGRAM)
    server.bind((HERE, 53))
    print("ready", flush=True)
    asked = 0
    while True:
        query, client = server.recvfrom(2048)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        name, (kind,) = ".".join(labels).lower(), struct.unpack_from(">H", query, at + 1)
        print(name, flush=True)
        if name == "silent.test":
            continue
        found = NAMES.get(name, [])
        if name == "rebind.test":
            found = [(PUBLIC, HERE)[asked % 2]]
            asked += kind == A
        family = {A: socket.AF_INET, AAAA: socket.AF_INET6}.get(kind)
        data = [socket.inet_pton(family, a) for a in found if family and (":" in a) == (kind == AAAA)]
        answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(d)) + d for d in data)
        header = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(data), 0, 0)
        server.sendto(header + query[12 : at + 5] + answers, client)


if __name__ == "__main__":
    main()
