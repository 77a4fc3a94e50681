"""Two users of one machine: files that one of them puts beside a file of the other, in a folder writable for both.

Run by root of a jail, which creates the users, changes owners of files, and runs nothing else:
`test_hostile_users.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import hyperchunk

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hostile.user_programs import (
    FILE,
    OWNER,
    PREPARE,
    QUERY,
    READ,
    SCRATCH,
    SECONDS,
    STRANGER,
    NotKeptError,
    expect,
    lie,
    place,
    run,
)


def an_index_of_somebody_else() -> None:
    """An index owned by another user is not used; as a control, the same bytes are if the owner owns them."""
    index = SCRATCH / "data.h5.hcindex"
    lying = lie(".hcindex")
    place(index, lying, OWNER)
    expect(run(OWNER, READ), "-666.0", warned=False)
    place(index, lying, STRANGER)
    expect(run(OWNER, READ), "3.0", warned=True)
    # A third user trusts the owner of the file, and not the stranger.
    expect(run(54323, READ), "3.0", warned=True)
    place(index, lying, OWNER, 0o666)
    expect(run(OWNER, READ), "3.0", warned=True)
    place(index, lying, OWNER)
    expect(run(54323, READ), "-666.0", warned=False)


def statistics_of_somebody_else() -> None:
    """Forged statistics of another user do not hide rows."""
    zones = SCRATCH / "data.h5.hczones"
    lying = lie(".hczones")
    done = run(OWNER, "import hyperchunk; hyperchunk.analyze('/tmp/scratch/data.h5')")
    expect(done, "")
    expect(run(OWNER, QUERY), "1", warned=False)
    place(zones, lying, STRANGER)
    expect(run(OWNER, QUERY), "not analyzed", warned=True)


def a_cache_of_somebody_else() -> None:
    """The cache folder must be owned by the reader or root."""
    cache = SCRATCH / "cache"
    cache.mkdir()
    index = cache / (hashlib.sha256(str(FILE).encode()).hexdigest()[:32] + ".hcindex")
    lying = lie(".hcindex")
    set_ = {"HYPERCHUNK_INDEX_CACHE": str(cache)}
    place(index, lying, OWNER)
    os.chown(cache, OWNER, OWNER)
    expect(run(OWNER, READ, **set_), "-666.0", warned=False)
    os.chown(cache, STRANGER, STRANGER)
    expect(run(OWNER, READ, **set_), "3.0", warned=True)
    os.chown(cache, OWNER, OWNER)
    cache.chmod(0o1777)
    expect(run(OWNER, READ, **set_), "3.0", warned=True)
    cache.chmod(0o755)
    place(index, lying, STRANGER)
    expect(run(OWNER, READ, **set_), "3.0", warned=True)


def companions_that_wait_or_are_huge() -> None:
    """Pipes, links and sparse files as companions neither block nor cost memory."""
    for suffix in (".hcindex", ".hczones"):
        companion = Path(f"{FILE}{suffix}")
        os.mkfifo(companion)
        os.chown(companion, STRANGER, STRANGER)
        expect(run(OWNER, QUERY), "not analyzed", warned=True)
        os.chown(companion, OWNER, OWNER)
        expect(run(OWNER, READ), "3.0", warned=suffix == ".hcindex")
        companion.unlink()
        companion.symlink_to("/tmp/h54321/secret")
        expect(run(OWNER, QUERY), "not analyzed", warned=True)
        companion.unlink()
        for user in (STRANGER, OWNER):
            signature = b"\x89HCI\r\n\x1a\n" if suffix == ".hcindex" else b"\x89HCZ\r\n\x1a\n"
            header = signature + struct.pack("<HHIQ", 1, 0, 0xFFFFFF, 4 << 30) + bytes(32)
            place(companion, header, user)
            os.truncate(companion, 4 << 30)
            start = time.monotonic()
            expect(run(OWNER, READ), "3.0")
            if time.monotonic() - start > SECONDS / 2:
                raise NotKeptError(f"{suffix}: a sparse file costs {time.monotonic() - start:.1f} s")
            companion.unlink()


def layouts_of_somebody_else() -> None:
    """A folder of layouts is trusted by the same rules as the files in it."""
    make = "import hyperchunk; hyperchunk.restructure('/tmp/scratch/data.h5', '/small', order='column')"
    # The dataset is contiguous, so its layout is read only on request; the state shows whether it is trusted.
    state = """
from hyperchunk import layouts
print([one.state for one in layouts.of("/tmp/scratch/data.h5")])
"""
    expect(run(OWNER, f"{make}; print('made')"), "made")
    expect(run(OWNER, state), "['used']", warned=False)
    folder = Path(f"{FILE}.d")
    for path in (folder, folder / "layouts", next((folder / "layouts").iterdir())):
        os.chown(path, STRANGER, STRANGER)
        expect(run(OWNER, state), "[]", warned=True)
        os.chown(path, OWNER, OWNER)
        path.chmod(0o1777)
        expect(run(OWNER, state), "[]", warned=True)
        path.chmod(0o755)
    expect(run(OWNER, state), "['used']", warned=False)
    moved = SCRATCH / "elsewhere"
    folder.rename(moved)
    folder.symlink_to(moved)
    os.chown(folder, STRANGER, STRANGER, follow_symlinks=False)
    expect(run(OWNER, state), "[]", warned=True)


STORE = """
from hyperchunk import store
import numpy as np
run = store.create("/tmp/scratch/store.h5", {"/a": store.Dataset((400_000,), "f8")})
with run.writer() as writer:
    writer["a"][...] = np.arange(4e5)
run.commit()
"""
READ_STORE = """
import hyperchunk
try:
    print(float(hyperchunk.open("/tmp/scratch/store.h5")["a"][3]))
except hyperchunk.exceptions.HyperchunkError as error:
    print("refused" if "cannot use the companion of the file" in str(error) else error)
"""


def a_store_of_somebody_else() -> None:
    """Logs must belong to the file's owner, or the read fails; a store is not started in a stranger's folder."""
    folder = SCRATCH / "store.h5.d"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    done = run(OWNER, STORE)
    if done.returncode == 0 or "cannot use the companion of the file" not in done.stderr:
        raise NotKeptError(f"a store was begun in a folder of somebody else: {done}")
    folder.rmdir()
    expect(run(OWNER, STORE), "")
    expect(run(OWNER, READ_STORE), "3.0")
    expect(run(54323, READ_STORE), "3.0")
    os.chown(folder, STRANGER, STRANGER)
    expect(run(OWNER, READ_STORE), "refused")
    os.chown(folder, OWNER, OWNER)
    folder.chmod(0o777)
    expect(run(OWNER, READ_STORE), "refused")
    folder.chmod(0o755)
    for log in folder.glob("*.log"):
        os.chown(log, STRANGER, STRANGER)
    expect(run(OWNER, READ_STORE), "refused")


def a_socket_of_somebody_else() -> None:
    """A server's Unix socket is accessible to its own user only."""
    serve = ["hyperchunk", "serve", "--flight", "--no-token", "--listen=grpc+unix:///tmp/scratch/s.sock", str(FILE)]
    command = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "--no-new-privs", *serve]
    environment = {"HOME": "/tmp/h54321", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        server.stdout.readline()
        ask = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/scratch/s.sock'); print('in')"
        mine, theirs = run(OWNER, ask), run(STRANGER, ask)
        server.terminate()
    expect(mine, "in")
    if theirs.returncode == 0 or "PermissionError" not in theirs.stderr:
        raise NotKeptError(f"a stranger reaches the server: {theirs}")


OUTPUTS = """
import contextlib, os, sys
import hyperchunk
from hyperchunk import _core
folder, overwrite = sys.argv[1], sys.argv[2:]
os.chdir(folder)
file = "/tmp/scratch/data.h5"
commands = [
    ["get", file, "/temperature", "-o", "out.npy"], ["get", file, "/temperature", "-o", "out.h5"],
    ["index", file, "-o", "out.hcindex"], ["index", file, "--kerchunk", "out.json"], ["pack", file, "out.h5"],
    ["arrow", "export", file + ":/temperature", "out.arrow"], ["arrow", "export", file, "out", "--format", "folder"],
    ["link", "s3://bucket/a.h5", "out.h5"], ["salvage", file, "-o", "out.h5"],
    ["collect", file, "--concat", "0", "-o", "out.hcx"],
]
for command in commands:
    _core.run_command(["hyperchunk", *command, *overwrite])
_core.run_command(["hyperchunk", "restructure", file, "/temperature", "--output", "out.h5"])
_core.run_command(["hyperchunk", "store", "export", file, "--tree", "tree"])
# In a sticky folder, the links of others cannot be replaced.
with contextlib.suppress(hyperchunk.HyperchunkError):
    hyperchunk.analyze(file)
with contextlib.suppress(hyperchunk.HyperchunkError):
    hyperchunk.index(file)
with contextlib.suppress(hyperchunk.HyperchunkError):
    hyperchunk.restructure(file, "/temperature", order="column")
"""
PLANTED = [
    "out.npy",
    "out.h5",
    "out.hcindex",
    "out.json",
    "out.arrow",
    "out",
    "tree",
    "out.h5.partial",
    "out.arrow.partial",
    "out.partial",
    "out.h5.restructuring",
]


def outputs_through_links_of_somebody_else() -> None:
    """Links under the names of outputs, companions and temporary files point to a thesis, which must survive."""
    thesis = Path(f"/tmp/h{OWNER}/thesis.txt")
    text = b"five years of work\n" * 1000
    # The layout's name is derived from the request and the file, which the stranger can read.
    run(OWNER, "import hyperchunk; hyperchunk.restructure('/tmp/scratch/data.h5', '/temperature', order='column')")
    identifier = next(Path(f"{FILE}.d/layouts").iterdir()).name
    for mode in (0o1777, 0o777):
        SCRATCH.chmod(mode)
        for overwrite in ([], ["--overwrite"]):
            shutil.rmtree(f"{FILE}.d", ignore_errors=True)
            layout = Path(f"{FILE}.d/layouts/{identifier}")
            layout.mkdir(parents=True)
            beside = [Path(f"{FILE}{suffix}") for suffix in (".hczones", ".hcindex")]
            inside = [layout / name for name in ("layout.h5.partial", "marks", "request.json", "layout.h5")]
            for link in [*[SCRATCH / name for name in PLANTED], *beside, *inside]:
                if link.is_dir() and not link.is_symlink():
                    shutil.rmtree(link)
                link.unlink(missing_ok=True)
                link.symlink_to(thesis)
                os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
            for folder in (Path(f"{FILE}.d"), layout.parent, layout):
                os.chown(folder, STRANGER, STRANGER)
            place(thesis, text, OWNER)
            done = run(OWNER, OUTPUTS, str(SCRATCH), *overwrite)
            if thesis.read_bytes() != text:
                raise NotKeptError(f"the thesis was written over ({mode:o}, {overwrite}): {done}")
            if done.returncode != 0:
                raise NotKeptError(f"{mode:o}, {overwrite}: {done}")
            if overwrite and mode == 0o777 and (SCRATCH / "out.npy").is_symlink():
                raise NotKeptError(f"the link stays: {done}")
    # Control: another program follows the link.
    link = SCRATCH / "out.npy"
    link.unlink(missing_ok=True)
    link.symlink_to(thesis)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    expect(run(OWNER, "open('/tmp/scratch/out.npy', 'w').write('gone')"), "")
    if thesis.read_bytes() == text:
        raise NotKeptError("the control does not reach the thesis")


WRITE = """
import hyperchunk, sys
try:
    with hyperchunk.open(sys.argv[1], "w") as file:
        file["a"] = 1
    print("written")
except hyperchunk.HyperchunkError as error:
    print("refused" if "symbolic link" in str(error) else error)
"""


def a_link_of_somebody_else_is_not_written_through() -> None:
    """`open(path, "w")` follows links of yourself, of root, and those of a folder's owner."""
    SCRATCH.chmod(0o777)
    target = Path(f"/tmp/h{OWNER}/target.h5")
    link = SCRATCH / "link.h5"
    for user, printed in ((STRANGER, "refused"), (OWNER, "written"), (0, "written")):
        place(target, b"five years of work", OWNER)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        os.chown(link, user, user, follow_symlinks=False)
        expect(run(OWNER, WRITE, str(link)), printed)
        if (target.read_bytes() == b"five years of work") != (printed == "refused"):
            raise NotKeptError(f"{user}: {printed}, but the target is not so")
    shared = Path("/tmp/scratch/of_a_colleague")
    shared.mkdir()
    (shared / "link.h5").symlink_to(target)
    os.chown(shared / "link.h5", STRANGER, STRANGER, follow_symlinks=False)
    os.chown(shared, STRANGER, STRANGER)
    expect(run(OWNER, WRITE, str(shared / "link.h5")), "written")


STOPPED = """
import hyperchunk, os, sys
file = hyperchunk.open(sys.argv[1], "w")
file["a"] = 1
os._exit(0)
"""
RECOVER = """
from hyperchunk import _core
print(_core.run_command(["hyperchunk", "recover", "/tmp/scratch/new.h5", "--json"]))
"""


def a_journal_of_somebody_else() -> None:
    """A stranger's journal does not modify your file; your own does."""
    new = SCRATCH / "new.h5"
    expect(run(STRANGER, STOPPED, str(new)), "")
    done = run(OWNER, RECOVER)
    # The stranger's journal may even be unreadable for others.
    refused = "cannot use the companion of the file" in done.stderr or "Permission denied" in done.stderr
    if done.stdout.strip() != "1" or not refused or new.exists():
        raise NotKeptError(f"somebody else's journal is used: {done}")
    for left in SCRATCH.glob("new.h5.*"):
        left.chmod(0o666)
    done = run(OWNER, RECOVER)
    if done.stdout.strip() != "1" or "cannot use the companion of the file" not in done.stderr or new.exists():
        raise NotKeptError(f"somebody else's journal is used: {done}")
    for left in SCRATCH.glob("new.h5.*"):
        left.unlink()
    expect(run(OWNER, STOPPED, str(new)), "")
    done = run(OWNER, RECOVER)
    if not done.stdout.strip().endswith("0") or not new.exists():
        raise NotKeptError(f"one's own journal is not used: {done}")


def a_layout_folder_of_somebody_else_is_not_written_to() -> None:
    """`restructure` reports a stranger's layout folder, and does not start."""
    folder = Path(f"{FILE}.d")
    make = """
import hyperchunk
try:
    hyperchunk.restructure("/tmp/scratch/data.h5", "/temperature", order="column")
    print("made")
except hyperchunk.HyperchunkError as error:
    print("refused" if "cannot use the companion of the file" in str(error) else error)
"""
    for user, mode in ((STRANGER, 0o755), (OWNER, 0o777)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        folder.chmod(mode)
        os.chown(folder, user, user)
        expect(run(OWNER, make), "refused")
    shutil.rmtree(folder)
    expect(run(OWNER, make), "made")


CONNECTOR = """
import h5py, numpy as np, sys
try:
    with h5py.File(sys.argv[1], sys.argv[2]) as file:
        file.create_dataset("a" + str(len(file)), data=np.full(40, 7.0), chunks=(10,))
    print("written")
except (OSError, RuntimeError) as error:
    refused = "cannot use the companion of the file" in str(error) or "symbolic link" in str(error)
    print("refused" if refused else error)
"""


def with_connector(options: str, path: Path, mode: str, printed: str) -> None:
    """h5py through the connector, as the owner."""
    package = Path(hyperchunk.__file__).parent
    plugins = f"{package / 'connector'}:{package / 'plugins'}"
    done = run(OWNER, CONNECTOR, str(path), mode, HDF5_PLUGIN_PATH=plugins, HDF5_VOL_CONNECTOR=options)
    expect(done, printed)


def plant(link: Path, target: Path, user: int = STRANGER) -> None:
    """A link of a user."""
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.chown(link, user, user, follow_symlinks=False)


def the_connector_does_not_write_through_a_link_of_somebody_else() -> None:
    """Whatever the mode, the options and the folder; your own links and root's are followed."""
    target = Path(f"/tmp/h{OWNER}/target.h5")
    link = SCRATCH / "link.h5"
    for options in ("hyperchunk store;writers=1", "hyperchunk"):
        for permissions in (0o1777, 0o777):
            SCRATCH.chmod(permissions)
            for mode in ("w", "a", "r+"):
                shutil.copy(FILE, target)
                os.chown(target, OWNER, OWNER)
                before = target.read_bytes()
                plant(link, target)
                with_connector(options, link, mode, "refused")
                if target.read_bytes() != before or Path(f"{target}.d").exists():
                    raise NotKeptError(f"{options}, {mode}: the target was written")
        for user in (OWNER, 0):
            plant(link, target, user)
            with_connector(options, link, "w", "written")
            if target.read_bytes() == before:
                raise NotKeptError(f"{options}: the target of one's own link was not written")
            shutil.rmtree(f"{target}.d", ignore_errors=True)
            target.unlink()


def no_log_begins_in_a_folder_of_somebody_else() -> None:
    """Not a byte of data, neither through a link nor in a folder that is there, by h5py and by Python."""
    mine, theirs = Path(f"/tmp/h{OWNER}/folder"), Path(f"/tmp/h{STRANGER}/folder")
    for folder, user in ((mine, OWNER), (theirs, STRANGER)):
        folder.mkdir()
        os.chown(folder, user, user)
        folder.chmod(0o777)
    Path(f"/tmp/h{STRANGER}").chmod(0o755)
    store = SCRATCH / "store.h5"
    beside = Path(f"{store}.d")
    for options in ("hyperchunk store;writers=1", "hyperchunk store"):
        for target in (mine, theirs, None):
            if target is None:
                beside.mkdir()
                beside.chmod(0o777)
                os.chown(beside, STRANGER, STRANGER)
            else:
                plant(beside, target)
            with_connector(options, store, "w", "refused")
            left = list(beside.iterdir())
            if left or store.exists():
                raise NotKeptError(f"{options}: a log was begun: {left}, {store.exists()}")
            done = run(OWNER, STORE)
            used = "cannot use the companion of the file" not in done.stderr
            if done.returncode == 0 or used or list(beside.iterdir()):
                raise NotKeptError(f"a store was begun in a folder of somebody else: {done}")
            if target is None:
                beside.rmdir()
            else:
                beside.unlink()
    plant(beside, mine, OWNER)
    mine.chmod(0o755)
    with_connector("hyperchunk store;writers=1", store, "w", "written")
    if not list(mine.glob("*.log")):
        raise NotKeptError("one's own link to a folder was not followed")


IN_PLACE = """
import sys
from hyperchunk import _core
print(_core.run_command(["hyperchunk", *sys.argv[1:]]))
"""


APPEND = """
import sys
from hyperchunk import HyperchunkError, store
try:
    with store.open(sys.argv[1]).writer() as writer:
        writer["a"][:10] = range(10)
    print("written")
except HyperchunkError as error:
    print("refused" if "symbolic link" in str(error) else error)
"""


def no_edit_in_place_through_a_link_of_somebody_else() -> None:
    """Commands that change a file say whose the link is; your own is followed."""
    target, link = Path(f"/tmp/h{OWNER}/target.h5"), SCRATCH / "link.h5"
    store = Path(f"/tmp/h{OWNER}/store.h5")
    expect(run(OWNER, STORE.replace(str(SCRATCH / "store.h5"), str(store))), "")
    shutil.copy(FILE, target)
    os.chown(target, OWNER, OWNER)
    name = str(link)
    live = ["udf", "attach", name, "live:64x64:double", "--expression", "temperature * 2", "--unsigned"]
    edits = [live, ["udf", "rm", f"{name}:/live"], ["restructure", name, "/temperature", "--order", "column"]]
    actions = [["commit"], ["recover"], ["compact"], ["link"], ["vacuum", "--grace", "0"]]
    changes = [["store", *action[:1], name, *action[1:]] for action in actions]
    for of, commands in ((target, edits), (store, changes)):
        for command in commands:
            before = of.read_bytes(), sorted(Path(f"{of}.d").glob("**/*"))
            plant(link, of)
            done = run(OWNER, IN_PLACE, *command)
            if done.stdout.strip() != "1" or f"symbolic link {link} of user {STRANGER}" not in done.stderr:
                raise NotKeptError(f"{command}: {done}")
            if before != (of.read_bytes(), sorted(Path(f"{of}.d").glob("**/*"))):
                raise NotKeptError(f"{command}: the target was changed")
            plant(link, of, OWNER)
            done = run(OWNER, IN_PLACE, *command)
            if not done.stdout.strip().endswith("0"):
                raise NotKeptError(f"{command}, by one's own link: {done}")
    for user, printed in ((STRANGER, "refused"), (OWNER, "written")):
        plant(link, store, user)
        expect(run(OWNER, APPEND, name), printed)


OF_PYTHON = """
import hyperchunk, hyperchunk.h5py, sys, xarray
from hyperchunk import xarray_accessors
xarray_accessors.register(); out = sys.argv[1]
joined = hyperchunk.open_collection(["/tmp/scratch/data.h5"], concat=0)
data = xarray.Dataset({"v": ("x", [1, 2])})
for call in (
    lambda: joined.save(out + ".hcx", overwrite=True),
    lambda: hyperchunk.open_collection(["/tmp/scratch/data.h5"], concat=0, output=out + ".hcx", overwrite=True),
    lambda: joined.to_kerchunk(out + ".json", overwrite=True),
    lambda: joined.to_kerchunk(out + ".parquet", overwrite=True),
    lambda: joined.to_virtual(out + ".h5", overwrite=True),
    lambda: data.hyperchunk.to_netcdf(out + ".nc"),
    lambda: hyperchunk.h5py.File(out + ".h5", "a", driver="core", backing_store=True),
):
    try:
        call()
        print("made")
    except (hyperchunk.HyperchunkError, OSError) as error:
        print("refused" if "symbolic link" in str(error) else error)
"""


def a_part_of_a_collection_of_somebody_else() -> None:
    """A finished part that a stranger planted is not collected from; the user's own is."""
    make = "import hyperchunk; c = hyperchunk.open_collection(['/tmp/scratch/data.h5'], concat=0)"
    part, home = SCRATCH / "k.partial.hcx", Path(f"/tmp/h{STRANGER}/k.hcx")
    expect(run(STRANGER, f"{make}; c._core.save_part('{home}', False)"), "")
    forged = home.read_bytes()
    collect = ["collect", str(FILE), "--concat", "0", "-o", str(SCRATCH / "k.hcx")]
    for user, mode, printed in ((STRANGER, 0o644, "1"), (OWNER, 0o666, "1"), (OWNER, 0o644, "0")):
        place(part, forged, user, mode)
        done = run(OWNER, IN_PLACE, *collect)
        is_refused = f"delete {part}" in done.stderr and part.exists() and part.read_bytes() == forged
        if done.stdout.strip()[-1:] != printed or (printed == "1") != is_refused or part.exists() != is_refused:
            raise NotKeptError(f"{user}, {mode:o}: {done}")


def no_output_below_a_folder_link_of_somebody_else() -> None:
    """A link in the middle of an output's path, planted in a folder that everybody may write to."""
    folder, link = Path(f"/tmp/h{OWNER}/thesis"), SCRATCH / "results"
    thesis = folder / "keep"
    folder.mkdir()
    os.chown(folder, OWNER, OWNER)
    out = str(link / "keep")
    commands = [
        ["pack", str(FILE), out],
        ["get", str(FILE), "/temperature", "-o", out + ".npy"],
        ["get", str(FILE), "/temperature", "-o", out + ".h5"],
        ["arrow", "export", f"{FILE}:/temperature", out + ".arrow"],
        ["arrow", "export", str(FILE), out + "s", "--format", "folder"],
        ["index", str(FILE), "-o", out + ".hcindex"],
        ["restructure", str(FILE), "/temperature", "--output", out + "2.h5"],
        ["link", "s3://bucket/a.h5", out + "3.h5"],
        ["collect", str(FILE), "--concat", "0", "-o", out + ".hcx"],
        ["salvage", str(FILE), "-o", out + "4.h5"],
        ["man", "-o", str(link / "new/man1")],
    ]
    for permissions in (0o1777, 0o777):
        SCRATCH.chmod(permissions)
        plant(link, folder)
        place(thesis, b"five years of work", OWNER)
        for command in commands:
            overwrite = [] if command[0] in ("restructure", "link") else ["--overwrite"]
            done = run(OWNER, IN_PLACE, *command, *overwrite)
            if done.stdout.strip() != "1" or f"symbolic link {link} of user {STRANGER}" not in done.stderr:
                raise NotKeptError(f"{command}: {done}")
        expect(run(OWNER, WRITE, out), "refused")
        expect(run(OWNER, WRITE, str(link / "new.h5")), "refused")
        expect(run(OWNER, OF_PYTHON, out), "\n".join(["refused"] * 7))
        done = run(OWNER, IN_PLACE, "index", "--cache", str(FILE), HYPERCHUNK_INDEX_CACHE=str(link / "cache"))
        if done.stdout.strip() != "1" or f"symbolic link {link} of user {STRANGER}" not in done.stderr:
            raise NotKeptError(f"index --cache: {done}")
        with_connector("hyperchunk store;writers=1", link / "store.h5", "w", "refused")
        with_connector("hyperchunk", link / "plain.h5", "w", "refused")
        if thesis.read_bytes() != b"five years of work" or len(list(folder.iterdir())) != 1:
            raise NotKeptError(f"written through the link: {list(folder.iterdir())}")
    for user in (OWNER, 0):
        plant(link, folder, user)
        expect(run(OWNER, WRITE, out), "written")
    # In a colleague's own folder, a link is the colleague's business.
    shared = SCRATCH / "of_a_colleague"
    shared.mkdir()
    plant(shared / "results", folder)
    os.chown(shared, STRANGER, STRANGER)
    expect(run(OWNER, WRITE, str(shared / "results/keep")), "written")


PROJECT = """
import h5py, hyperchunk, os
os.chdir("/tmp/scratch/project")
os.mkdir("sub")
for name in ("in.bin", "sub/in.bin"):
    open(name, "wb").write(bytes(range(20)))
for name, raw in (("file", "in.bin"), ("folder", "sub/in.bin")):
    with h5py.File(name + ".h5", "w") as file:
        file.create_dataset("a", (20,), "u1", external=[(raw, 0, 20)])
    hyperchunk.udf.attach(name + ".h5", outputs="b", expression="a + 0", unsigned=True)
"""
EXCHANGE = """
import ctypes, os
os.chdir("/tmp/scratch/project")
os.symlink("/tmp/h54321/secret", "link.bin")
os.symlink("/tmp/h54321/folder", "link")
exchange = lambda one, other: ctypes.CDLL(None).renameat2(-100, one, -100, other, 2)
print("ready", flush=True)
while True:
    exchange(b"in.bin", b"link.bin")
    exchange(b"sub", b"link")
"""
READ_PROJECT = """
import hyperchunk, time
secret, right = list(b"of nobody's business"), list(range(20))
for name in ("file", "folder"):
    seen = {"a": [0, 0], "b": [0, 0]}
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for dataset, counts in seen.items():
            try:
                with hyperchunk.open(f"/tmp/scratch/project/{name}.h5") as file:
                    values = file[dataset][...].tolist()
            except hyperchunk.HyperchunkError:
                continue
            counts[values == right] += 1
            assert values in (secret, right), values
    print("of the reader:", *map(bool, seen["a"]), "as input:", *map(bool, seen["b"]), end=". ")
"""


def an_input_that_somebody_else_exchanges() -> None:
    """A function's input, or its folder, is exchanged for a link again and again; the reader's own reads follow it."""
    project = SCRATCH / "project"
    project.mkdir()
    os.chown(project, STRANGER, STRANGER)
    folder = Path(f"/tmp/h{OWNER}/folder")
    folder.mkdir()
    os.chown(folder, OWNER, OWNER)
    place(folder / "in.bin", b"of nobody's business" * 100, OWNER, 0o600)
    expect(run(STRANGER, PROJECT), "")
    command = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--no-new-privs"]
    with subprocess.Popen([*command, sys.executable, "-c", EXCHANGE], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            other.stdout.readline()
            done = run(OWNER, READ_PROJECT)
        finally:
            other.kill()
    one = "of the reader: True True as input: False True."
    expect(done, f"{one} {one}")


SPILL = """
import hyperchunk, os, sys
try:
    pool = hyperchunk.pool.create("hostile", quota=1 << 17, spill=sys.argv[1])
    print("planted" in pool, [entry.name for entry in pool.list()])
    for number in range(3):
        pool.put(f"o{number}", bytes(50_000))
    print(len(pool), os.listdir(sys.argv[1]) != [], end=" ")
    hyperchunk.pool.remove("hostile")
except hyperchunk.HyperchunkError as error:
    print("refused" if "cannot write to" in str(error) or "symbolic link" in str(error) else error)
"""


def spilled_objects_in_a_folder_of_somebody_else() -> None:
    """A pool spills to no folder that a stranger made, may write to or leads to; its files are its owner's alone."""
    for permissions, user in ((0o1777, 0), (0o777, OWNER), (0o755, STRANGER)):
        folder = SCRATCH / f"spill-{user}"
        folder.mkdir()
        os.mkfifo(folder / f"{b'planted'.hex()}.object")
        os.chown(folder, user, user)
        folder.chmod(permissions)
        expect(run(OWNER, SPILL, str(folder)), "refused")
    secret = Path(f"/tmp/h{OWNER}/folder")
    secret.mkdir()
    os.chown(secret, OWNER, OWNER)
    plant(SCRATCH / "link", secret)
    expect(run(OWNER, SPILL, str(SCRATCH / "link" / "spill")), "refused")
    if list(secret.iterdir()):
        raise NotKeptError("a folder was made through a link of somebody else")
    made = SCRATCH / "made"
    expect(run(OWNER, SPILL, str(made)), "False []\n3 True")
    modes = {path.stat().st_mode & 0o777 for path in made.iterdir()}
    if made.stat().st_mode & 0o777 != 0o700 or modes != {0o600}:
        raise NotKeptError(f"others may read spilled objects: {made.stat()}, {modes}")


SCENARIOS: list[Callable[[], None]] = [
    spilled_objects_in_a_folder_of_somebody_else,
    an_index_of_somebody_else,
    statistics_of_somebody_else,
    a_cache_of_somebody_else,
    companions_that_wait_or_are_huge,
    layouts_of_somebody_else,
    a_store_of_somebody_else,
    a_socket_of_somebody_else,
    outputs_through_links_of_somebody_else,
    a_link_of_somebody_else_is_not_written_through,
    a_journal_of_somebody_else,
    a_layout_folder_of_somebody_else_is_not_written_to,
    the_connector_does_not_write_through_a_link_of_somebody_else,
    no_log_begins_in_a_folder_of_somebody_else,
    no_edit_in_place_through_a_link_of_somebody_else,
    a_part_of_a_collection_of_somebody_else,
    no_output_below_a_folder_link_of_somebody_else,
    an_input_that_somebody_else_exchanges,
]


def main() -> None:
    """Runs all scenarios, each in its own folders, and prints the results."""
    results = {}
    for scenario in SCENARIOS:
        shutil.rmtree(SCRATCH, ignore_errors=True)
        SCRATCH.mkdir()
        SCRATCH.chmod(0o1777)
        for user in (OWNER, STRANGER, 54323):
            home = Path(f"/tmp/h{user}")
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            home.chmod(0o700)
            os.chown(home, user, user)
        place(Path("/tmp/h54321/secret"), b"of nobody's business" * 100, OWNER, 0o600)
        try:
            expect(run(OWNER, PREPARE), "")
            scenario()
            results[scenario.__name__] = ""
        except Exception:
            results[scenario.__name__] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
