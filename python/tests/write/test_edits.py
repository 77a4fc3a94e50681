"""Edits of existing files, against h5py: the same random operations on two copies of a file."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import hyperchunk.h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

VALUES = [1, 2.5, "text", "größer", np.arange(6, dtype="<i4").reshape(2, 3), np.array([b"ab", b"c"])]


def start(path: Path, libver: str, track_order: bool) -> None:
    """Makes a file of h5py's with one object of each kind."""
    with h5py.File(path, "w", libver=libver, track_order=track_order) as file:
        file.attrs["title"] = "old"
        group = file.create_group("g", track_order=track_order)
        group.attrs["n"] = 1
        inner = group.create_group("inner")
        inner["scalar"] = 3
        file["contiguous"] = np.arange(20, dtype="<f8")
        file.create_dataset("compact", data=np.arange(4, dtype="i2"))
        file.create_dataset("fixed", data=np.arange(60, dtype="i4").reshape(6, 10), chunks=(4, 4), compression="gzip")
        file.create_dataset(
            "growing", data=np.arange(30.0), chunks=(7,), maxshape=(None,), shuffle=True, compression="gzip"
        )
        file.create_dataset(
            "two", data=np.arange(12, dtype="u1").reshape(3, 4), chunks=(2, 2), maxshape=(None, None), fillvalue=9
        )
        file.create_dataset("strings", data=["a", "bb", ""], dtype=h5py.string_dtype(), chunks=(2,), maxshape=(None,))
        file["type"] = np.dtype([("a", "i4"), ("b", "f8")])
        file["hard"] = file["contiguous"]
        file["soft"] = h5py.SoftLink("/g/inner")
        file["external"] = h5py.ExternalLink("other.h5", "/x")
        file["reference"] = np.array([file["g"].ref, file["contiguous"].ref], dtype=h5py.ref_dtype)
        for number in range(12):
            group.attrs[f"many{number:02}"] = number
            file[f"g/links/l{number:02}"] = number


def contents(path: Path, opened: Any = h5py.File) -> dict[str, Any]:
    """Returns everything in a file that an edit may change or must keep."""
    found: dict[str, Any] = {}

    def visit(group: Any, name: str) -> None:
        found[name] = ("group", attributes(group))
        for key in sorted(group):
            path = f"{name.rstrip('/')}/{key}"
            link = group.get(key, getlink=True)
            kind = type(link).__name__
            if kind == "SoftLink":
                found[path] = (kind, link.path)
            elif kind == "ExternalLink":
                found[path] = (kind, link.filename, link.path)
            elif path in seen:
                continue
            else:
                item = group[key]
                seen.add(path)
                if hasattr(item, "keys"):
                    visit(item, path)
                elif hasattr(item, "shape"):
                    values = item[...]
                    if values.dtype.kind == "O":
                        values = [bool(one) if isinstance(one, REFERENCES) else one for one in values.ravel()]
                    else:
                        values = values.tobytes()
                    found[path] = (item.shape, item.maxshape, item.dtype.str, values, attributes(item))
                else:
                    found[path] = (item.dtype, attributes(item))

    seen: set[str] = set()
    with opened(path, "r") as file:
        visit(file, "/")
    return found


REFERENCES = (h5py.Reference, hyperchunk.Reference)


def attributes(item: Any) -> list[Any]:
    """Returns the attributes of an object in a comparable form, in their order."""
    return [(name, np.asarray(value).dtype.kind, np.asarray(value).tolist()) for name, value in item.attrs.items()]


OPERATIONS = [
    *("attr", "attr", "big attr", "same attr", "rename attr"),
    *("delattr", "group", "dataset", "dataset", "write", "write", "resize", "delete"),
    *("move", "hard", "soft", "strings", "append", "copy type"),
]


@st.composite
def operation(draw: st.DrawFn) -> tuple[Any, ...]:
    """Returns an operation; whether it makes sense is seen when it runs."""
    numbers = st.integers(0, 40)
    return (draw(st.sampled_from(OPERATIONS)), *(draw(numbers) for _ in range(4)))


def run(file: Any, op: tuple[Any, ...], module: Any) -> bool:
    """Performs an operation; returns whether it changed anything."""
    verb, a, b, c, d = op
    groups, datasets, objects = ["/"], [], ["/"]

    def visit(name: str, item: Any) -> None:
        objects.append(name)
        (groups if hasattr(item, "keys") else datasets).append(name)

    file.visititems(visit)
    objects.sort()
    groups.sort()
    datasets = sorted(name for name in datasets if hasattr(file[name], "shape"))
    new = f"{groups[a % len(groups)].rstrip('/')}/new{b % 5}"
    if verb in ("attr", "big attr"):
        value = np.arange(20_000.0) if verb == "big attr" and c % 3 == 0 else VALUES[b % len(VALUES)]
        if np.asarray(value).nbytes > 60_000:
            value = value[:5000]
        file[objects[a % len(objects)]].attrs[f"a{c % 12}"] = value
    elif verb in ("same attr", "rename attr"):
        target = file[objects[a % len(objects)]]
        names = sorted(target.attrs)
        if not names or (verb == "rename attr" and f"b{c}" in names):
            return False
        name = names[b % len(names)]
        if verb == "same attr":
            target.attrs[name] = VALUES[c % len(VALUES)]
        elif module is h5py:
            h5py.h5a.rename(target.id, name.encode(), f"b{c}".encode())
        else:
            target.attrs._node.rename_attribute(name.encode(), f"b{c}".encode())
    elif verb == "delattr":
        target = file[objects[a % len(objects)]]
        names = sorted(target.attrs)
        if not names:
            return False
        del target.attrs[names[b % len(names)]]
    elif verb in ("group", "dataset", "hard", "soft", "strings", "copy type"):
        if new in file or file.get(new, getlink=True) is not None:
            return False
        if verb == "group":
            file.create_group(new)
        elif verb == "soft":
            file[new] = module.SoftLink(f"/nowhere{c}")
        elif verb == "hard":
            # Not of groups: circles have no end.
            if not datasets:
                return False
            file[new] = file[datasets[c % len(datasets)]]
        elif verb == "strings":
            file.create_dataset(new, data=[f"s{n}" for n in range(c % 7)] or [""], dtype=module.string_dtype())
        elif verb == "copy type":
            # Elements of the named type are never written in part.
            named = file.get("type")
            file.create_dataset(new, (3,), dtype=named or "i4", fillvalue=None if named else 0)
        else:
            shape = (c % 9 + 1, d % 7 + 4)
            chunks = (min(1 + c % 5, shape[0]), 1 + d % 4) if c % 2 else None
            maxshape = (None, 40) if chunks and d % 2 else None
            options = {"chunks": chunks, "maxshape": maxshape, "compression": "gzip" if chunks else None}
            # Without a fill value, libhdf5 leaves elements that are not written as the disk has them.
            file.create_dataset(new, shape, "<i4", fillvalue=0, **options)
            file[new][: c % 5] = d
    elif verb in ("write", "resize", "append"):
        names = [name for name in datasets if file[name].dtype.kind in "iuf" and file[name].shape]
        if verb != "write":
            names = [name for name in names if file[name].chunks and file[name].maxshape[0] is None]
        if not names:
            return False
        target = file[names[a % len(names)]]
        if verb == "write":
            rows = target.shape[0]
            first = b % max(rows, 1)
            target[first : first + c] = d
        elif verb == "resize":
            target.resize(b % 35, axis=0)
        else:
            rows = target.shape[0]
            target.resize(rows + 1 + b % 4, axis=0)
            target[rows:] = c
    elif verb == "delete":
        if len(objects) < 4:
            return False
        del file[objects[1 + a % (len(objects) - 1)]]
    elif verb == "move":
        source = objects[1 + a % max(len(objects) - 1, 1)] if len(objects) > 1 else None
        if source is None or file.get(new, getlink=True) is not None:
            return False
        # Not into itself, by any name of the group: that is an error, where libhdf5 loses the group.
        names = new.strip("/").split("/")
        if any(file.get("/".join(names[:end])) == file[source] for end in range(1, len(names))):
            return False
        file.move(source, new)
    return True


HISTORIES = int(os.environ.get("HYPERCHUNK_EDIT_HISTORIES", "80"))


@pytest.mark.slow
@pytest.mark.timeout(0 if HISTORIES > 80 else 600)
@settings(max_examples=HISTORIES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    libver=st.sampled_from(["earliest", "v108", "latest"]),
    track_order=st.booleans(),
    sessions=st.lists(
        st.tuples(st.sampled_from(["hyperchunk", "hyperchunk", "h5py"]), st.lists(operation(), min_size=1, max_size=6)),
        min_size=1,
        max_size=5,
    ),
    flush=st.booleans(),
)
def test_random_edits_end_as_h5pys(
    libver: str, track_order: bool, sessions: list[tuple[str, list[tuple[Any, ...]]]], flush: bool, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    start(theirs, libver, track_order)
    shutil.copy(theirs, ours)
    for editor, session in sessions:
        note(editor)
        module = hyperchunk if editor == "hyperchunk" else h5py
        edited = hyperchunk.open(ours, "r+", sync="never") if module is hyperchunk else h5py.File(ours, "r+")
        with edited, h5py.File(theirs, "r+") as same:
            for op in session:
                done = run(edited, op, module)
                note(f"{op}: {done}")
                assert done == run(same, op, h5py)
                if flush:
                    edited.flush()
        expected = contents(theirs)
        assert contents(ours) == expected
        assert contents(ours, hyperchunk.open) == expected
        assert not ours.with_name("ours.h5.redo").exists()
    # An old program reads it if it reads h5py's.
    readable = [subprocess.run(["h5dump", one], capture_output=True, check=False).returncode for one in (theirs, ours)]
    assert readable[1] <= readable[0]
    # libhdf5 edits it further.
    with h5py.File(ours, "r+") as file:
        file.attrs["after"] = 1
        file.create_group("after")
    with h5py.File(ours) as file:
        assert file.attrs["after"] == 1


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("mode", ["r+", "w"])
def test_attributes_that_are_set_again_are_the_last(
    libver: str, count: int, reopened: bool, mode: str, tmp_path: Path
) -> None:
    orders = []
    for module in (h5py, hyperchunk, hyperchunk.h5py):
        path = tmp_path / f"{module.__name__}.h5"
        with h5py.File(path, "w", libver=libver, track_order=True) as file:
            file.attrs["title"] = "old"
        options = {"track_order": True} if mode == "w" else {}
        file = (hyperchunk.open if module is hyperchunk else module.File)(path, mode, **options)
        for number in range(count):
            file.attrs[f"a{number}"] = f"{number}"
        if reopened:
            file.close()
            file = (hyperchunk.open if module is hyperchunk else module.File)(path, "r+")
        file.attrs["a1"] = 5
        file.attrs.modify("a2", "2")
        file.attrs["a0"] = np.arange(3)
        if module is not hyperchunk:
            module.h5a.rename(file.id, b"a2", b"renamed")
        else:
            file.attrs._node.rename_attribute(b"a2", b"renamed")
        file.flush()
        now = list(file.attrs)
        file.close()
        with h5py.File(path) as file:
            assert list(file.attrs) == now
            assert file.attrs["renamed"] == "2"
            orders.append(attributes(file))
    assert orders[1:] == [orders[0]] * 2


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_nothing_is_written_without_a_change(libver: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    start(path, libver, track_order=False)
    before = path.read_bytes()
    with hyperchunk.open(path, "r+") as file:
        assert file["fixed"][0, 0] == 0
        assert file.attrs["title"] == "old"
    assert path.read_bytes() == before


KILLED = """
import sys, hyperchunk
with hyperchunk.open(sys.argv[1], "r+", sync="never") as file:
    file["contiguous"][:] = file.attrs["round"]
    for round in range(file.attrs["round"] + 1, 10**9):
        file["contiguous"][:] = round
        file["fixed"][...] = round
        file["growing"].resize((round % 40,))
        file["growing"][:] = round
        file.attrs["round"] = round
        file["g"].attrs["many00"] = round
        file.flush()
        print(round, flush=True)
"""


def state(path: Path, opened: Any) -> int:
    """Returns the round that everything in a file is of."""
    with opened(path, "r") as file:
        found = {int(file.attrs["round"]), int(file["g"].attrs["many00"])}
        for name in ("contiguous", "fixed", "growing"):
            found.update(np.unique(file[name][...]).astype(int).tolist())
        assert len(found) == 1
        assert file["growing"].shape[0] == min(found) % 40
        return found.pop()


def test_a_killed_editor_leaves_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    start(path, "latest", track_order=False)
    with hyperchunk.open(path, "r+") as file:
        for name in ("contiguous", "fixed", "growing"):
            file[name][...] = 0
        file.attrs["round"] = 0
        file["g"].attrs["many00"] = 0
    committed = 0
    for number in range(int(os.environ.get("HYPERCHUNK_KILLS", "12"))):
        with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            first = program.stdout.readline()
            time.sleep(0.002 * (number % 17))
            program.kill()
            rounds = [int(line) for line in [first, *program.stdout.read().split("\n")] if line.strip()]
        committed = max([committed, *rounds])
        found = state(path, hyperchunk.open)
        assert committed <= found <= committed + 1
        assert state(path, h5py.File) == found
        committed = found


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_references_stay_valid(libver: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    start(path, libver, track_order=False)
    with hyperchunk.open(path, "r+") as file:
        file.move("g", "moved")
        file["moved"].attrs["big"] = np.arange(3000.0)
        file["contiguous"].attrs["new"] = "text"
        file["made"] = np.array([file["moved/inner"].ref], dtype=h5py.ref_dtype)
    for opened in (h5py.File, hyperchunk.open):
        with opened(path, "r") as file:
            group, dataset = (file[one] for one in file["reference"][...])
            assert len(group.attrs["big"]) == 3000
            assert dataset.attrs["new"] == "text"
            assert file[file["made"][0]]["scalar"][()] == 3


def test_the_file_of_a_store_is_not_edited(tmp_path: Path) -> None:
    """Neither beside its store's folder, nor a copy whose hidden blocks an edit of the root group would lose."""
    path = tmp_path / "a.h5"
    run = hyperchunk.store.create(path, {"/x": hyperchunk.store.Dataset((1000, 1000), "f8")})
    with run.writer() as writer:
        for row in range(0, 1000, 130):
            for column in range(0, 1000, 270):
                shape = (min(130, 1000 - row), min(270, 1000 - column))
                writer.write("/x", (row, column), np.full(shape, row + column, "f8"))
    run.commit()
    copy = tmp_path / "copy.h5"
    shutil.copy(path, copy)
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="sharded store"):
        hyperchunk.open(path, "r+")
    before = copy.read_bytes()
    with h5py.File(copy) as file:
        has_blocks = ".hyperchunk-store" in file
    assert has_blocks
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="sharded store"):
        hyperchunk.open(copy, "r+")
    assert copy.read_bytes() == before


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("kind", ["u1", "i8", "S3", [("a", "u1")]])
def test_small_headers_are_changed_whole_or_refused(libver: str, kind: Any, tmp_path: Path) -> None:
    """A header without room for a continuation message would overwrite what follows it."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        for name in "abc":
            file[name] = np.dtype(kind)
    with hyperchunk.open(path, "r+") as file:
        try:
            file["b"].attrs["x"] = 1
        except hyperchunk.exceptions.UnsupportedError as error:
            assert "cannot change the object" in str(error)  # noqa: PT017
    with h5py.File(path) as file:
        assert [file[name].dtype == np.dtype(kind) for name in "abc"] == [True] * 3
        assert [len(file[name].attrs) for name in "ac"] == [0, 0]


def append_row(file: Any, number: int) -> None:
    data = file["x"]
    data.resize(number + 1, axis=0)
    data[number] = number


def set_attribute_of_two_sizes(file: Any, number: int) -> None:
    file["x"].attrs["a"] = np.arange(4000 if number % 2 else 3)


def set_attribute_beside_a_huge_one(file: Any, number: int) -> None:
    attributes = file["x"].attrs
    if number == 0:
        attributes.update({f"b{each}": each for each in range(10)})
        attributes["huge"] = np.arange(12_000.0)
    attributes["small"] = number


GROWTH = {
    "B-tree of version 1": ("earliest", (None, 40), append_row),
    "extensible array": ("latest", (None, 40), append_row),
    "B-tree of version 2": ("latest", (None, None), append_row),
    "dense attributes": ("latest", (None, 40), lambda file, number: file["x"].attrs.__setitem__(f"a{number}", number)),
    "one attribute": ("earliest", (None, 40), lambda file, number: file["x"].attrs.__setitem__("a", number)),
    "attribute of two sizes": ("latest", (None, 40), set_attribute_of_two_sizes),
    "huge attribute": ("latest", (None, 40), set_attribute_beside_a_huge_one),
    "dense links": ("latest", (None, 40), lambda file, number: file.__setitem__(f"l{number}", h5py.SoftLink("/x"))),
}


@pytest.mark.parametrize("kind", GROWTH)
def test_many_sessions_do_not_grow_a_file(kind: str, tmp_path: Path) -> None:
    """Sessions reuse the space of what they replace, though no list of free space is kept."""
    libver, maxshape, change = GROWTH[kind]
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    with h5py.File(theirs, "w", libver=libver) as file:
        file.create_dataset("x", (0, 40), "f8", maxshape=maxshape, chunks=(1, 20))
    shutil.copy(theirs, ours)
    for number in range(300):
        with hyperchunk.open(ours, "r+", sync="never") as edited, h5py.File(theirs, "r+") as same:
            change(edited, number)
            change(same, number)
    assert contents(ours) == contents(theirs)
    # Places that became too small stay behind: fewer bytes each time.
    assert ours.stat().st_size < 1.25 * theirs.stat().st_size + 4096


def add_string_attribute(file: Any, number: int) -> None:
    file["g"].attrs[f"s{number % 40}"] = f"text {number}"


def add_root_attribute(file: Any, number: int) -> None:
    file.attrs["note"] = f"text {number}"


def append_string(file: Any, number: int) -> None:
    rows = len(file["strings"])
    file["strings"].resize(rows + 1, axis=0)
    file["strings"][rows] = f"text {number}"


def replace_string(file: Any, number: int) -> None:
    file["fixed"][number % 5] = f"text {number}"


def append_sequence(file: Any, number: int) -> None:
    rows = len(file["sequences"])
    file["sequences"].resize(rows + 1, axis=0)
    file["sequences"][rows] = np.arange(1 + number % 9)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    "change", [add_string_attribute, add_root_attribute, append_string, replace_string, append_sequence]
)
def test_many_sessions_of_strings_do_not_grow_a_file(change: Any, libver: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    with h5py.File(theirs, "w", libver=libver) as file:
        file.create_group("g")
        text, numbers = h5py.string_dtype(), h5py.vlen_dtype("i8")
        file.create_dataset("strings", (0,), text, maxshape=(None,), chunks=(64,), compression="gzip")
        file.create_dataset("fixed", (5,), text)
        file.create_dataset("sequences", (0,), numbers, maxshape=(None,), chunks=(64,))
    shutil.copy(theirs, ours)
    sessions = 300
    sizes = []
    for number in range(sessions):
        with hyperchunk.open(ours, "r+", sync="never") as edited, h5py.File(theirs, "r+") as same:
            change(edited, number)
            change(same, number)
        sizes.append(ours.stat().st_size)
        if number % 50 == 7:
            # h5py adds to the same collections, and removes from them.
            for path in (ours, theirs):
                with h5py.File(path, "r+") as file:
                    file["g"].attrs["h5py"] = f"by h5py {number}"
                    change(file, number)
    for opened in (h5py.File, hyperchunk.open):
        with opened(ours, "r") as edited, h5py.File(theirs) as same:
            sequences = zip(edited["sequences"][()], same["sequences"][()], strict=True)
            assert all(np.array_equal(one, other) for one, other in sequences)
    for path in (ours, theirs):
        with h5py.File(path, "r+") as file:
            del file["sequences"]
    assert contents(ours) == contents(theirs)
    # A collection of 4 KiB has more than 50 of these. Chunks that are not compressed take a new place in each session.
    assert ours.read_bytes().count(b"GCOL") <= 10
    assert change is append_sequence or sizes[-1] - sizes[0] < 60_000


def test_strings_that_were_committed_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("s", data=["one", "two"], dtype=h5py.string_dtype())
    before = path.read_bytes()
    heap = before.index(b"GCOL")
    with hyperchunk.open(path, "r+") as file:
        with contextlib.suppress(RuntimeError), file.transaction():
            file.attrs["undone"] = "text"
            raise RuntimeError
        assert path.read_bytes()[: len(before)] == before
        file["s"][0] = "three"
        assert file["s"].asstr()[...].tolist() == ["three", "two"]
        file.flush()
        file.attrs["long"] = "x" * 5000
        file.attrs["short"] = "y"
    after = path.read_bytes()
    assert after[heap : heap + 16 + 2 * 24] == before[heap : heap + 16 + 2 * 24]
    assert b"three" in after[heap : heap + 4096]
    with h5py.File(path) as file:
        assert file["s"].asstr()[...].tolist() == ["three", "two"]
        assert dict(file.attrs) == {"long": "x" * 5000, "short": "y"}


def test_a_file_that_is_always_read_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros(1 << 16), chunks=(1 << 12,))
    with hyperchunk.open(path, "r+", sync="never") as file:
        data, stop, reads = file["x"], threading.Event(), [0, 0]

        def read(reader: int) -> None:
            while not stop.is_set():
                assert len(np.unique(data[: 1 << 12])) == 1
                reads[reader] += 1

        readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
        for reader in readers:
            reader.start()
        for number in range(300):
            data[: 1 << 12] = number
            file.flush()
            # A reader that waits for a processor keeps space; on a busy machine, it would be that of many commits.
            before = list(reads)
            while any(now == then for now, then in zip(reads, before, strict=True)):
                time.sleep(0.0002)
        stop.set()
        for reader in readers:
            reader.join()
    # 300 chunks have 9.8 MB.
    assert path.stat().st_size < 2_500_000


def test_other_files_are_found_from_the_folder_of_the_edited_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources of virtual datasets and external links, from another current folder."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    with h5py.File(folder / "other.h5", "w") as made:
        made["x"] = [1.5, 2.5, 3.5]
    with h5py.File(folder / "a.h5", "w") as made:
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
        made.create_virtual_dataset("virtual", layout, fillvalue=-1)
        made["link"] = h5py.ExternalLink("other.h5", "/x")
    monkeypatch.chdir(elsewhere)
    with hyperchunk.open(folder / "a.h5", "r+") as file:
        assert list(file["virtual"]) == [1.5, 2.5, 3.5]
        assert list(file["link"]) == [1.5, 2.5, 3.5]
        file.attrs["changed"] = 1
        assert list(file["virtual"]) == [1.5, 2.5, 3.5]
