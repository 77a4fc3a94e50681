"""Every attack of `network_cases`, with listeners and a spoofing name server; runs in the jail. Prints JSON.

Arguments: substrings of the names to run; by default all.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail, lanes, places, records
from hostile import network_cases as cases

SOURCE = f'def dynamic_dataset():\n    lib.connect("127.0.0.1:{cases.GRANTED}")\n'


def listen(port: int, backlog: int = 128) -> socket.socket:
    """Opens a listener on the jail's loopback."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(backlog)
    return listener


def heard(listener: socket.socket) -> int:
    """Returns the number of connections since the last call."""
    count = 0
    while select.select([listener], [], [], 0.1)[0]:
        listener.accept()[0].close()
        count += 1
    return count


def attach(name: str, language: str, text: str) -> Path:
    """Makes a file with a function signed by the user."""
    source, path = places.WORK / f"{name}.{language}", places.FILES / f"net-{name}.h5"
    source.write_text(text)
    with h5py.File(path, "w"):
        pass
    words = [*places.COMMAND, "udf", "attach", path, source, "out:4:double"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def of_others(name: str) -> Path:
    """Makes a file with the same function, signed by another key or unsigned."""
    path = places.FILES / f"net-{name}.h5"
    source = cases.START + f"    {cases.FORGED}\n" if name == "forged" else SOURCE
    header = records.make(source, "py", records.Slot("out"))
    with h5py.File(path, "w") as file:
        records.store(file, places.signed(header, "unsigned" if name == "forged" else name, places.own_key()))
    return path


def controls(listener: socket.socket, packets: socket.socket) -> dict[str, bool]:
    """Shows that each attack would work without its barrier, for the same user in the same jail."""

    def connects(host: str) -> bool:
        try:
            with socket.create_connection((host, cases.FORBIDDEN), timeout=2):
                return heard(listener) > 0
        except OSError:
            return False

    results = {name: connects(f"{name}.test") for name in ("loop", "both", "many", "nowhere")}
    results["rebind"] = [connects("rebind.test") for _ in range(2)] in ([True, False], [False, True])
    results |= {host: connects(host) for host in ("127.1", "2130706433", "0x7f000001")}
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", cases.FORBIDDEN))
    results["udp"] = bool(select.select([packets], [], [], 1)[0])
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as one:
        results["netlink"] = one.fileno() >= 0
    # An unbound, reconnected socket goes to any address.
    with socket.create_connection(("127.0.0.1", cases.GRANTED)) as one:
        unspecified = b"\0" * 16
        libc = __import__("ctypes").CDLL(None)
        results["connect-again"] = libc.connect(one.fileno(), unspecified, 16) == 0
    return results


def main(*only: str) -> None:
    """Makes the files, reads them, runs the controls, and reports."""
    jail.require_confined()
    hyperchunk.plugins.enable()
    places.make()
    listed = ", ".join(f'"{g}"' for g in cases.GRANTS)
    own = places.CONFIG / "profiles" / "self" / "profile.toml"
    own.write_text(places.PROFILE + f"[grant]\nconnect = [{listed}]\n")
    forbidden, granted, full = listen(cases.FORBIDDEN), listen(cases.GRANTED), listen(cases.FULL, 0)
    packets = socket.socket(type=socket.SOCK_DGRAM)
    packets.bind(("127.0.0.1", cases.FORBIDDEN))
    crowd = [socket.socket() for _ in range(4)]
    for one in crowd:
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", cases.FULL))
    resolver = subprocess.Popen(
        [sys.executable, "-I", Path(__file__).with_name("resolver.py")],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=jail.die_with_parent,
    )
    assert resolver.stdout is not None
    assert resolver.stdout.readline() == "ready\n", "no name server: may port 53 not be used here?"
    chosen = {n: c for n, c in cases.sources().items() if not only or any(part in n for part in only)}
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda n: attach(n, *chosen[n][:2]), chosen))
    rows: list[Any] = [{"name": n, "file": str(p), "dataset": "out"} for n, p in zip(chosen, paths, strict=True)]
    rows += [{"name": n, "file": str(of_others(n)), "dataset": "out"} for n in cases.OTHERS]
    results = lanes.run(rows, lanes=4)
    report = {
        "cases": results,
        "forbidden": heard(forbidden),
        "granted": heard(granted),
        "packets": len(select.select([packets], [], [], 0)[0]),
        "controls": controls(forbidden, packets),
    }
    resolver.kill()
    report["asked"] = sorted(set(resolver.stdout.read().split()))
    full.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
