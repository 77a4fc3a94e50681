"""Random histories of one store, with a tree in memory as the model."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hyperchunk
import pytest
from hyperchunk import store
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from vol import helpers

from store import model_ops, model_read, model_views
from store.model_checks import compare, dumped, of_netcdf, read_by_netcdf
from store.model_past import Past
from store.model_session import Local, Making
from store.model_tree import Entry, Tree, apply, dtype, empty, plain, shown
from store.model_worker import Remote, RemoteError, Zygote, keywords

VERBS = [
    *("group", "dataset", "dataset", "write", "write", "write", "write", "resize", "resize", "append", "small", "soft"),
    *("member", "member", "external", "type", "hard", "attr", "attr", "attr", "delattr", "delete", "move", "copy"),
]
#: What histories are without until its fault is mended (test_model.py has a test of each): hard links, and stores that
#: are opened before their first epoch.
OPEN_FAULTS: tuple[str, ...] = ()
#: What else they are without, to find other faults: names of rules and operations.
OFF = {*OPEN_FAULTS, *os.environ.get("HYPERCHUNK_MODEL_OFF", "").split()}


class Stores(RuleBasedStateMachine):
    """One store, its writers and its readers."""

    connector: Zygote
    native: Zygote
    reader: Remote
    #: Number of histories of this process, which pytest -s shows.
    histories = 0

    @classmethod
    def start(cls) -> None:
        """Starts the programs that fork."""
        options = {"commit": "manual", "fsync": "never"}
        cls.connector = Zygote(helpers.clean() | hyperchunk.plugins.environment(store=True, **options))
        cls.native = Zygote(helpers.clean())
        cls.reader = cls.native.session()

    @classmethod
    def stop(cls) -> None:
        """Ends them."""
        cls.reader.end()
        cls.connector.stop()
        cls.native.stop()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="model"))
        self.path = self.folder / "run.h5"
        self.tree: Tree = empty()
        self.epoch = 0
        self.handles: list[store.Store] = []
        self.sessions: list[Making] = []
        self.held: list[tuple[Any, dict[str, Any]]] = []
        self.held_files: list[int] = []
        self.unlinked: dict[str, str] = {}
        #: Nothing was found yet: the end of the history is worth a look.
        self.sound = True

    def teardown(self) -> None:
        Stores.histories += 1
        if Stores.histories % 500 == 0:
            print(f"{Stores.histories} histories", file=sys.stderr, flush=True)
        try:
            if self.handles and self.sound:
                self.end()
        finally:
            for file, _ in self.held:
                file.close()
            for session in self.sessions:
                session.remote.end()
            shutil.rmtree(self.folder, ignore_errors=True)

    # What histories are made of.

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        paths = data.draw(st.lists(st.sampled_from(["/d0", "/g/d0", "/g/h/d1"]), unique=True))
        given = {path: data.draw(model_ops.specs()) for path in paths}
        attrs = data.draw(
            st.dictionaries(st.sampled_from(["a", "title"]), st.sampled_from(model_ops.ATTRS), max_size=2)
        )
        groups: Any = data.draw(st.sampled_from([{}, {"/g": {"a": 1}}, {"/k": {}}]))
        self.tree["/"].attrs = {name: plain(value) for name, value in attrs.items()}
        for path, named in groups.items():
            apply(self.tree, ("group", path))
            self.tree[path].attrs = {name: plain(value) for name, value in named.items()}
        made = {}
        for path, spec in given.items():
            apply(self.tree, ("dataset", path, spec))
            made[path] = store.Dataset(spec["shape"], dtype(spec["dtype"]), **keywords(spec))
        note(f"create {given} {attrs} {groups}")
        self.past = Past(self.tree)
        self.handles = [store.create(self.path, made, attrs=attrs, groups=groups, sync="never")]

    def exclusive(self) -> bool:
        """Returns whether a session must be the only one."""
        return any(session.edits or session.anew for session in self.sessions)

    def handle(self, how: str) -> store.Store:
        """The store, for a new writer: opened now, as it was created, or as another writer got it."""
        if "early" in OFF and self.epoch == 0:
            return self.handles[0]
        if ("stale" in OFF and self.epoch) or (how == "open" and "reopen" not in OFF):
            self.handles.append(store.open(self.path, sync="never"))
        elif how == "pickle":
            self.handles.append(pickle.loads(pickle.dumps(self.handles[-1])))
        elif how == "first" and "stale" not in OFF:
            return self.handles[0]
        return self.handles[-1]

    def begin(self, data: st.DataObject) -> Making | None:
        """A new writer, of the API or h5py's; None if there can be none now."""
        how = data.draw(st.sampled_from(["open", "open", "first", "last", "pickle", "r+", "a", "edit", "edit", "w"]))
        if how in OFF or self.exclusive() or len(self.sessions) > 2:
            return None
        if how not in ("r+", "a", "edit", "w"):
            handle, elsewhere = self.handle(how), data.draw(st.booleans())
            priority = data.draw(st.sampled_from([0, 0, 0, 1]))
            session = Making("api", self.native.session() if elsewhere else Local(), self.tree, priority=priority)
            session.base = session.seen = self.epoch
            session.id = session.remote("begin", handle, priority=priority)
            note(f"begin {session.id[:8]}: {how}, {elsewhere=}, {priority=}")
            self.joined(session)
            # A dataset of several names has one of them for writers.
            session.names = set(session.remote("known", sorted(session.names)))
            for path, entry in session.view.items():
                if entry.kind == "dataset":
                    names = {other for other, one in session.view.items() if one is entry}
                    assert names & session.names, f"a new writer knows {sorted(session.names)}, and not {path}"
            if "shape" not in OFF:
                for path in session.names:
                    assert session.remote("shape", path) == session.extents[path], f"the extent of {path} at the start"
            return session
        if self.epoch == 0 or "h5" in OFF or (how in ("edit", "w") and self.sessions):
            return None
        # HDF5 shows what others flushed, and commits what all have finished.
        if any(one.state != "open" or one.has_flushed for one in self.sessions):
            return None
        before = set(self.logs())
        remote = self.connector.session()
        if how == "w" and self.is_held():
            # HDF5 truncates no file that a reader has open.
            with pytest.raises(RemoteError, match="already open"):
                remote("open", str(self.path), how)
            remote.end()
            return None
        session = Making("h5", remote, self.tree, anew=how == "w")
        remote("open", str(self.path), "r+" if how == "edit" else how)
        session.edits, session.base, session.seen = how == "edit", self.epoch, self.epoch
        self.joined(session)
        new = set(self.logs()) - before
        assert len(new) <= 1
        session.id = new.pop() if new else ""
        note(f"begin {session.id[:8]}: h5py {how}")
        self.check_view(session)
        return session

    @rule(data=st.data())
    def start_writer(self, data: st.DataObject) -> None:
        self.begin(data)

    @rule(data=st.data(), count=st.integers(1, 6))
    def write_and_commit(self, data: st.DataObject, count: int) -> None:
        session = self.begin(data)
        if session is not None:
            self.work(data, session, count)
            self.end_session(session, "close")
            self.commit_some(data, "all")

    def logs(self) -> list[str]:
        """The writers of the store."""
        return [log.stem for log in Path(f"{self.path}.d").glob("*.log")]

    def joined(self, session: Making) -> None:
        """Another is at work."""
        for other in self.sessions:
            session.others.append(other)
            other.others.append(session)
        self.sessions.append(session)

    def check_view(self, session: Making) -> None:
        """A program sees what it did itself, and what others have written."""
        if session.kind == "h5" and "view" not in OFF:
            try:
                model_views.check(session, session.remote("contents"))
            except AssertionError:
                self.sound = False
                raise

    @precondition(lambda self: any(session.state == "open" for session in self.sessions))
    @rule(data=st.data(), count=st.integers(1, 5))
    def act(self, data: st.DataObject, count: int) -> None:
        self.work(data, data.draw(st.sampled_from([one for one in self.sessions if one.state == "open"])), count)

    def work(self, data: st.DataObject, session: Making, count: int) -> None:
        """Some operations."""
        others: dict[str, Entry] = dict(self.tree) if not session.anew else {}
        for other in self.sessions:
            others |= {path: entry for path, entry in other.view.items() if other is not session}
        note(f"act {session.kind} {session.id[:8]}")
        verbs = [verb for verb in VERBS if verb not in OFF]
        for _ in range(count):
            op = model_ops.following(data.draw, session, others, verbs, edits=session.edits or session.anew)
            if op is not None:
                session.do(op)
        self.check_view(session)

    @precondition(lambda self: any(session.state == "open" for session in self.sessions))
    @rule(data=st.data(), how=st.sampled_from(["close", "close", "flush", "kill", "leave"]))
    def stop_or_flush(self, data: st.DataObject, how: str) -> None:
        self.end_session(data.draw(st.sampled_from([one for one in self.sessions if one.state == "open"])), how)

    def end_session(self, session: Making, how: str) -> None:
        """Flushes or ends a session."""
        if how in OFF:
            return
        if how in ("kill", "leave") and isinstance(session.remote, Local):
            return
        note(f"{how} {session.kind} {session.id[:8]}")
        before = set(self.logs())
        session.ticket = session.remote("flush" if how in ("flush", "kill") else "close")
        session.id = session.id or next(iter(set(self.logs()) - before), "")
        session.flushed, session.has_flushed = len(session.ops), True
        if how == "kill":
            session.remote.kill()
            session.state = "killed"
        elif how != "flush":
            session.state = "done"
            session.remote.end()

    @rule(data=st.data(), how=st.sampled_from(["all", "all", "tickets", "flushed", "salvage", "command"]))
    def commit(self, data: st.DataObject, how: str) -> None:
        self.commit_some(data, how)

    def commit_some(self, data: st.DataObject, how: str) -> None:
        """Makes an epoch of those that are done, or of others."""
        if how in OFF or not self.handles:
            return
        if how == "tickets":
            able = [one for one in self.sessions if one.kind == "api" and one.ticket is not None]
            taken = data.draw(st.lists(st.sampled_from(able), unique_by=id, min_size=1)) if able else []
        elif how == "flushed":
            taken = [one for one in self.sessions if one.has_flushed or one.state == "done"]
        elif how == "salvage":
            if any(one.state == "open" for one in self.sessions):
                return
            taken = list(self.sessions)
        else:
            taken = [one for one in self.sessions if one.state == "done"]
        if how == "tickets" and not taken:
            return
        if any(one.anew for one in taken) and not all(one.anew and one.state == "done" for one in taken):
            return
        note(f"commit {how} {[one.id[:8] for one in taken]}")
        self.committed(how, taken)

    def committed(self, how: str, taken: list[Making]) -> None:
        """Makes an epoch, and checks it."""
        assert all(one.id or not one.ops for one in taken)
        taken.sort(key=lambda one: (one.priority, one.id))
        anew = any(one.anew for one in taken)
        parts = [one.take(one.flushed) for one in taken]
        something = any(ops for ops, *_ in parts)
        past = copy.copy(self.past)
        past.epochs = list(past.epochs)
        # What is salvaged lies below the epochs that were made since its writer began, or was committed last.
        stopped = how == "salvage"
        outdated = [stopped and one.state != "done" and one.seen < self.epoch for one in taken]
        current = [part for part, old in zip(parts, outdated, strict=True) if not old]
        conflicts = past.add(self.epoch + 1, current, anew=anew)
        for seen in sorted({one.seen for one, old in zip(taken, outdated, strict=True) if old}):
            both = zip(taken, parts, outdated, strict=True)
            past.add_below(seen, [part for one, part, old in both if old and one.seen == seen])
        tree = past.tree
        expected = {path for path, kinds in conflicts.items() if "conflict" in kinds}
        # What a writer sets that an epoch after its begin has set, too, may be named.
        late = {op[1] for one, (ops, *_) in zip(taken, parts, strict=True) if one.base < self.epoch for op in ops}
        handle = self.handles[-1]
        options: Any = {"on_conflict": "warn"}
        if how == "command":
            words = [helpers.command(), "store", "commit", self.path, "--no-sync", "--json"]
            words += ["--on-conflict", "warn"]
            done = subprocess.run(words, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr + done.stdout
            note(done.stdout)
            told = json.loads(done.stdout)
            number, named = told["epoch"], None
            if number is not None:
                named = {one["path"] for one in told["conflicts"]}
                self.unlinked = {one["path"]: one["reason"] for one in told["links"] if one["segments"] is None}
        else:
            if how == "tickets":
                options["tickets"] = [one.ticket for one in taken]
            elif how in ("flushed", "salvage"):
                options[how] = True
            if expected and not late and "conflicts" not in OFF:
                note(f"conflicts are expected about {expected}")
                with pytest.raises(hyperchunk.HyperchunkError):
                    handle.commit(**options | {"on_conflict": "error"})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = handle.commit(**options)
            note(f"{made}")
            named = None if made is None else {conflict.path for conflict in made.conflicts}
            number = None if made is None else made.number
            self.unlinked = self.unlinked if made is None else made.unlinked
        self.sessions = [one for one in self.sessions if one.state == "open" or one not in taken]
        if something:
            assert number is not None, "nothing was committed"
        if number is None:
            return
        self.past = past
        for one in taken:
            one.seen = number
        if anew:
            self.handles = [store.open(self.path, sync="never")]
        self.tree, self.epoch = tree, number
        if named is not None and "conflicts" not in OFF:
            may = {path for path, kinds in conflicts.items()} | late
            # A conflict may be named by any path of its object.
            aliases = may | {path for path, one in tree.items() if any(one is tree.get(other) for other in may)}
            assert named <= aliases, f"conflicts about {named}, not {expected}"
            assert all(any(tree[path] is tree[other] for other in named if other in tree) for path in expected), (
                f"conflicts about {named}, not {expected}"
            )
        self.check()

    def same(self, expected: dict[str, Any], found: dict[str, Any], who: str, *, bare: bool = False) -> None:
        """Checks the contents that a reader sees against the model."""
        refusable = set(self.unlinked)
        try:
            compare(expected, found, who, refusable if bare else None)
        except AssertionError:
            self.sound = False
            raise

    def check(self) -> None:
        """Checks the committed contents through every reader."""
        expected = shown(self.tree)
        self.same(expected, model_read.tree(hyperchunk, str(self.path)), "hyperchunk.open")
        self.same(expected, self.reader("read", str(self.path)), "plain h5py", bare=True)

    @precondition(lambda self: self.held)
    @rule()
    def look(self) -> None:
        for file, expected in self.held:
            self.same(expected, model_read.contents(hyperchunk, file), "a reader that is still open")

    def command(self, *words: Any) -> str:
        """Runs a command on the store."""
        done = subprocess.run([helpers.command(), "store", *words], capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return done.stdout

    @precondition(lambda self: self.epoch > 0)
    @rule(what=st.sampled_from(["hold", "compact", "vacuum", "pack"]))
    def maintain(self, what: str) -> None:
        # Who begins a file anew takes away what there was, as HDF5 does.
        if what not in OFF and not any(one.anew for one in self.sessions):
            getattr(self, what)()

    def hold(self) -> None:
        """A reader that stays at this epoch."""
        self.held.append((hyperchunk.open(self.path), shown(self.tree)))
        self.held_files.append(self.path.stat().st_ino)

    def is_held(self) -> bool:
        """Whether a reader has the file open that is at the path now."""
        return self.path.stat().st_ino in self.held_files

    def compact(self) -> None:
        """One log instead of many."""
        note("compact")
        self.command("compact", self.path)
        self.check()

    def vacuum(self) -> None:
        """Removes old epochs."""
        if self.sessions:
            return
        note("vacuum")
        for file, _ in self.held:
            file.close()
        self.held, self.held_files = [], []
        self.command("vacuum", self.path, "--grace", "0")
        self.check()

    def pack(self) -> Path:
        """One file, without the store."""
        packed = self.folder / "packed.h5"
        self.command("pack", self.path, packed, "--overwrite")
        expected = shown(self.tree)
        self.same(expected, model_read.tree(hyperchunk, str(packed)), "packed, hyperchunk.open")
        self.same(expected, self.reader("read", str(packed)), "packed, plain h5py")
        return packed

    def end(self) -> None:
        """Ends a history: commits everything, and reads it once more."""
        for session in list(self.sessions):
            if session.state == "open":
                self.end_session(session, "close")
        if all(one.anew for one in self.sessions) or not self.exclusive():
            self.committed("salvage", list(self.sessions))
        # Packing and dumping are processes: a third of the histories, always the same ones.
        some = sum(len(entry.attrs) for entry in self.tree.values()) % 3 == 0
        if self.epoch > 0 and some and "pack" not in OFF and not any(one.anew for one in self.sessions):
            packed = self.pack()
            dumped(packed)
            if of_netcdf(self.tree):
                read_by_netcdf(packed, self.tree)
