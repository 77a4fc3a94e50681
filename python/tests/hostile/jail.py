"""Jail for hostile tests: private namespaces, an ordinary user, bounded time and memory.

`run` starts a Python program in it. The program's file system is read-only except for a private tmpfs on `WORK`,
`/tmp` and the other world-writable places; its network is a private loopback; it sees only its own processes.
Programs that run an attack call `require_confined` first, which raises if any of this is missing.

This file is both sides: imported, the outside; run as a program, the inside while it may still mount.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

WORK = Path("/tmp/jail")
NOBODY = 65534
NAMESPACES = ("mnt", "pid", "net", "ipc", "uts")
OUTSIDE = "HOSTILE_OUTSIDE"
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parents[1]
TOOLS = ("unshare", "setpriv", "prlimit", "timeout", "mount", "umount")
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
# An address of the jail that looks like another machine's in the public network.
OWN_PUBLIC = "93.184.216.34"
ADDRESS_SPACE = 6 << 30
LARGEST_FILE = 256 << 20
LARGEST_SPARSE_FILE = 5 << 30


class JailError(RuntimeError):
    """The jail is incomplete, or the program in it failed."""


def namespaces() -> dict[str, str]:
    """Returns the namespaces of this process."""
    return {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in NAMESPACES}


def require_confined() -> None:
    """Raises unless this process is in the jail: no root, no capability, no namespace of the outside."""
    if 0 in os.getresuid() or 0 in os.getresgid() or 0 in os.getgroups():
        raise JailError("hostile code must not run as root")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    # The bounding set does not matter to a process that cannot gain privileges, and a user namespace leaves it full.
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        if int(status[name], 16):
            raise JailError(f"hostile code must not have capabilities ({name} is {status[name].strip()})")
    if status["NoNewPrivs"].strip() != "1":
        raise JailError("hostile code must not be able to gain privileges")
    outside = os.environ.get(OUTSIDE)
    if not outside:
        raise JailError("hostile code must run in the jail, and this is none")
    for name, there in json.loads(outside).items():
        if namespaces()[name] == there:
            raise JailError(f"hostile code must not run in the {name} namespace of everybody else")
    if not Path.cwd().is_relative_to(WORK) or WORK.stat().st_dev == Path("/").stat().st_dev:
        raise JailError("hostile code must run in a folder of its own")


def missing() -> str | None:
    """Returns the reason why a jail is impossible here, or None."""
    if sys.platform != "linux":
        return "the jail needs Linux"
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"the jail needs {', '.join(lacking)} (util-linux, coreutils)"
    try:
        done = subprocess.run([*_enter(), "true"], capture_output=True, text=True, timeout=30, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        return "unshare does not come back"
    if done.returncode != 0:
        return f"no private namespaces here: {done.stderr.strip()}"
    return None


def no_users() -> str | None:
    """Returns the reason why programs of several users cannot run here, or None."""
    if os.name == "posix" and os.geteuid() != 0:
        return "several users need root, who makes them in private namespaces"
    return missing()


def run(program: Path, *arguments: str, seconds: float, users: bool = False) -> Any:
    """Runs a Python program in the jail for at most `seconds`, and returns its JSON output.

    Args:
        program: A file below the tests' folder.
        arguments: Its arguments.
        seconds: After that, everything in the jail is killed and `JailError` raised.
        users: Runs it as root of the jail, only to start programs of several users.
    """
    outside = json.dumps(namespaces())
    who = "root" if users else "nobody"
    command = [*_enter(), sys.executable, "-I", __file__, outside, str(seconds), who, str(program), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds + 15,
            check=False,
            cwd="/",
            env=_environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise JailError(f"{program.name} did not end: {error.stderr!r}") from None
    if done.returncode != 0:
        raise JailError(f"{program.name} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _enter() -> list[str]:
    flags = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *flags, "--propagation", "private", "--"]


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


# The rest runs inside the jail, while it may still mount.


def _main(outside: str, seconds: str, who: str, program: str, *arguments: str) -> None:
    for name, there in json.loads(outside).items():
        if namespaces()[name] == there:
            raise JailError(f"not in a {name} namespace of its own")
    nested = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
    _close_the_file_system()
    _loopback()
    home = WORK / "home"
    home.mkdir(parents=True)
    _resolver()
    for path in (WORK, home):
        path.chmod(0o700)
        if not nested:
            os.chown(path, NOBODY, NOBODY)
    os.chdir(WORK)
    environment = _environment() | {"HOME": str(home), OUTSIDE: outside, "PYTHONDONTWRITEBYTECODE": "1"}
    # Outside the home, in which nothing may change.
    environment["HYPERCHUNK_CODE_CACHE"] = str(WORK / "code")
    if who == "root":
        if nested:
            raise JailError("several users need root, and this is a user namespace")
        drop = ["setpriv"]
    elif nested:
        drop = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "setpriv"]
    else:
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    drop += ["--no-new-privs"] if who == "root" else ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    limits = [
        "prlimit",
        f"--as={ADDRESS_SPACE}",
        "--core=0",
        "--nproc=1000",
        f"--fsize={LARGEST_SPARSE_FILE if who == 'root' else LARGEST_FILE}",
        "--nofile=1024",
    ]
    limits += ["timeout", "--kill-after=2", seconds]
    command = [*drop, *limits, sys.executable, "-I", program, *arguments]
    # No exec: this process is the init of the pid namespace, and must not be one that hostile code can confuse.
    done = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL)
    sys.stdout.flush()
    os._exit(done.returncode & 0xFF)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", "--no-mtab", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def _close_the_file_system() -> None:
    """Makes everything read-only and disables set-uid programs; nothing outside changes.

    World-writable places are replaced by private, empty folders. A folder that only root may enter is covered by an
    empty one. Both get back only the necessary parts: the interpreter, the package and the tests.
    """
    keep = ("/proc", "/dev")
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for row in rows:
        point = row[4].encode().decode("unicode_escape")
        if not any(point == k or point.startswith(k + "/") for k in keep):
            # Flags that are set must be kept: a user namespace cannot remove them.
            kept = [o for o in row[5].split(",") if o in {"nodev", "noexec", "noatime", "nodiratime", "relatime"}]
            _mount("-o", ",".join(["remount", "bind", "ro", "nosuid", *kept]), point)
    shared = [Path(folder) for folder in filter(os.path.isdir, SHARED_FOLDERS)]
    covers: dict[Path, list[Path]] = {folder: [] for folder in shared}
    needed = {Path(p).resolve() for p in (sys.base_prefix, sys.prefix, ROOT, Path(sys.executable).resolve().parent)}
    needed |= {Path(p).resolve() for p in sys.path if Path(p).is_dir()}
    placed: list[Path] = []
    for path in sorted(needed):
        closed = [p for p in reversed(path.parents) if p in covers or not p.stat().st_mode & 0o001]
        if closed and not any(path.is_relative_to(p) for p in placed):
            covers.setdefault(closed[0], []).append(path)
            placed.append(path)
    for folder, paths in covers.items():
        _cover(folder, paths, "mode=1777,size=512m" if folder in shared else "mode=0755")


def _cover(folder: Path, paths: list[Path], options: str) -> None:
    """Mounts an empty folder over one, with the contents of `paths` below it."""
    stage = Path("/mnt")
    _mount("-t", "tmpfs", "stage", stage)
    for number, path in enumerate(paths):
        (stage / str(number)).mkdir()
        _mount("--bind", path, stage / str(number))
    _mount("-t", "tmpfs", "-o", f"nosuid,nodev,{options}", "cover", folder)
    for number, path in enumerate(paths):
        path.mkdir(parents=True, exist_ok=True)
        _mount("--move", stage / str(number), path)
    subprocess.run(["umount", "--no-mtab", str(stage)], check=True)


def _loopback() -> None:
    """Enables the loopback, so that a control can show that a connection would succeed, with a public address, too."""
    up = 1
    get_flags, set_flags, set_address, set_mask = 0x8913, 0x8914, 0x8916, 0x891C
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        row = struct.pack("16sH14s", b"lo", 0, b"")
        (flags,) = struct.unpack_from("16xH", fcntl.ioctl(anything, get_flags, row))
        fcntl.ioctl(anything, set_flags, struct.pack("16sH14s", b"lo", flags | up, b""))
        for what, value in ((set_address, OWN_PUBLIC), (set_mask, "255.255.255.255")):
            row = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(anything, what, row)


def _resolver() -> None:
    """Redirects name lookup to the jail's loopback, where a test may answer: port 53 needs no root here."""
    conf = WORK / "resolv.conf"
    conf.write_text("nameserver 127.0.0.1\noptions timeout:5 attempts:2\n")
    there = Path("/etc/resolv.conf")
    if there.exists():
        _mount("--bind", conf, there.resolve())
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("53")


def die_with_parent() -> None:
    """For `preexec_fn`: kills the processes of a control when its parent dies."""
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
