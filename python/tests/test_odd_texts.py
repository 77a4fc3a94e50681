"""Odd texts and sizes in files or arguments: errors that are safe to print, and never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import hyperchunk
import hyperchunk.arrow
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import layouts, store

SURROGATE = "\ud800"
STRANGE = "\x1b]0;title\x07\x1b[31mred\u202e\u200b\x1b[0m"


@pytest.mark.parametrize(
    "call",
    [
        lambda _: hyperchunk.open(SURROGATE),
        lambda _: hyperchunk.open(SURROGATE, "w"),
        lambda _: hyperchunk.index(SURROGATE),
        lambda _: hyperchunk.check(SURROGATE),
        lambda _: hyperchunk.analyze(SURROGATE),
        lambda _: hyperchunk.restructure(SURROGATE, "/x", order="column"),
        lambda _: layouts.of(SURROGATE),
        lambda _: store.create(SURROGATE, {"/a": store.Dataset((3,), "f8")}),
        lambda _: store.open(SURROGATE),
        lambda _: hyperchunk.udf.attach(SURROGATE, outputs="o", expression="x"),
        lambda _: hyperchunk.udf.ls(SURROGATE),
        lambda _: hyperchunk.udf.verify(SURROGATE),
        lambda _: hyperchunk.query(SURROGATE, "/x", "value > 1"),
        lambda path: hyperchunk.index(path, SURROGATE),
        lambda path: hyperchunk.open(path)[SURROGATE],
        lambda _: hyperchunk.arrow.table(SURROGATE),
    ],
)
def test_a_path_with_a_lone_surrogate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: object) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(10.0)
    # PyO3's exception for a panic is none of these.
    with pytest.raises((UnicodeEncodeError, TypeError, ValueError, hyperchunk.exceptions.HyperchunkError)):
        call(path)  # type: ignore[operator]


def test_texts_of_a_file_do_not_reach_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file["soft"] = h5py.SoftLink("/x" + STRANGE)
        file["external"] = h5py.ExternalLink(f"f{STRANGE}.h5", "/p" + STRANGE)
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_external(("raw" + STRANGE).encode(), 0, 8)
        h5py.h5d.create(file.id, b"raw", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((8,)), create)
        file["t" + STRANGE] = np.zeros(3, dtype=[("a" + STRANGE, "f4")])
    for name in ("soft", "external", "raw", "none" + STRANGE):
        with pytest.raises(Exception) as caught:
            hyperchunk.open(path)[name][...]
        assert not set(str(caught.value)) & set(STRANGE) - set(map(chr, range(32, 127))), repr(str(caught.value))
    for words in (
        ["get", path, "/soft"],
        ["dump", f"{path}:/external"],
        ["get", path, "/raw"],
        ["analyze", path, "/t" + STRANGE],
        ["ls", "-rl", path],
        ["restructure", path, "/t" + STRANGE, "--order", "column"],
    ):
        done = subprocess.run([HYPERCHUNK, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert not set(done.stdout + done.stderr) & set("\x1b\x07\u202e\u200b"), done


def test_names_are_written_out_in_python_too(tmp_path: Path) -> None:
    """In the text of each object, of a table, and of errors that Python makes; a line break forges no line."""
    path = tmp_path / "m.h5"
    name = STRANGE + "\nfake"
    with h5py.File(path, "w") as file:
        file["d" + name] = np.zeros(3, dtype=[("a" + name, "f4")])
        file.create_group("g" + name)
        file["t" + name] = np.dtype("f4")
        file["x"] = np.zeros((2, 2))
        file["x"].dims[0].label = name
        file["soft"] = h5py.SoftLink("/x" + name)
    texts = []
    with hyperchunk.open(path) as file:
        for letter in "dgt":
            found = file[letter + name]
            texts.append(repr(found))
            with pytest.raises(KeyError) as caught:
                found.attrs["none"]
            texts.append(str(caught.value))
        texts.append(repr(file["x"].dims[0]))
        texts.append(repr(file["d" + name].arrow()))
        with pytest.raises(KeyError) as caught:
            file["soft"]
        texts.append(str(caught.value))
        with pytest.raises(KeyError) as caught:
            hyperchunk.udf.show(path, "d" + name)
        texts.append(str(caught.value))
    for text in texts:
        assert not set(text) & set("\x1b\x07\u202e\u200b\n"), repr(text)
        assert "\\u{1b}" in text or "\\x1b" in text
    assert not set(str(hyperchunk.exceptions.UdfError("\x1b[2Ja\nb"))) & {"\x1b"}


def test_json_for_people_and_programs(tmp_path: Path) -> None:
    path, source = tmp_path / "m.h5", tmp_path / "s.lua"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4.0)
    source.write_text(f"-- {STRANGE}\nfunction dynamic_dataset() lib.getData('out')[1] = 1 end\n", encoding="utf-8")
    hyperchunk.udf.attach(path, source, outputs="out:4:double", unsigned=True)
    done = subprocess.run([HYPERCHUNK, "udf", "show", "--json", f"{path}:/out"], capture_output=True, check=True)
    text = done.stdout.decode()
    assert not set(text) & set("\x1b\x07\u202e\u200b")
    assert json.loads(text)["source_code"].startswith(f"-- {STRANGE}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_sizes_beyond_memory_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        text = h5py.h5t.C_S1.copy()
        text.set_size(2**31 - 8)
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        create.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        h5py.h5d.create(file.id, b"s", text, h5py.h5s.create_simple((3,)), create)
    program = """
import resource, sys, hyperchunk
resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, 4_000_000_000))
dataset = hyperchunk.open(sys.argv[1])["s"]
for read in (lambda: dataset[0], lambda: dataset[:1], lambda: dataset[...], lambda: dataset.fillvalue):
    try:
        read()
    except Exception as error:
        print(type(error).__name__)
print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.stdout.splitlines()[-1:] == ["alive"], done


def large(file: h5py.File, name: str, datatype: h5py.h5t.TypeID, dims: tuple[int, ...], *, chunked: bool) -> None:
    """Makes a dataset without any data. If chunked, it is one chunk."""
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    if chunked:
        create.set_chunk(dims)
        create.set_deflate(1)
    create.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR if chunked else h5py.h5d.ALLOC_TIME_LATE)
    made = h5py.h5d.create(file.id, name.encode(), datatype, h5py.h5s.create_simple(dims), create)
    if chunked:
        made.write_direct_chunk((0,) * len(dims), zlib.compress(bytes(1000)))


LARGE_USES = {
    "analyze": "hyperchunk.analyze(path)",
    "query": "hyperchunk.query(path, 'chunk', 'value > 1').read()",
    "edit": """with hyperchunk.open(path, 'r+') as file:
    file['text'][0] = b'x'""",
    "edit a part of a chunk": """with hyperchunk.open(path, 'r+') as file:
    file['chunk'][0] = 1""",
    "digest": "hyperchunk._core.run_command(['hyperchunk', 'dump', '--digest', path])",
    "restructure": "hyperchunk.restructure(path, '/chunk', order='column', output=path + '.new')",
    "export": "hyperchunk._core.run_command(['hyperchunk', 'store', 'export', path, '--tree', path + '.tree'])",
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
@pytest.mark.parametrize("use", LARGE_USES)
def test_uses_of_sizes_beyond_memory_are_errors(tmp_path: Path, use: str) -> None:
    """A chunk, or an element, that memory has no room for, in a file of a few kilobytes."""
    path = tmp_path / "s.h5"
    with h5py.File(path, "w", libver="latest") as file:
        text = h5py.h5t.C_S1.copy()
        text.set_size(2**31 - 8)
        large(file, "text", text, (3,), chunked=False)
        large(file, "chunk", h5py.h5t.IEEE_F64LE, (2**29 - 1,), chunked=True)
    program = f"""
import resource, sys, hyperchunk
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
path = sys.argv[1]
try:
    exec({LARGE_USES[use]!r})
except Exception as error:
    print(type(error).__name__, error)
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["alive"], done


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
def test_values_beyond_memory_in_a_tree_are_errors(tmp_path: Path) -> None:
    path, tree, size = tmp_path / "a.h5", tmp_path / "tree", 2**30
    with h5py.File(path, "w") as file:
        file["scalar"] = np.bytes_(b"x" * 1000)
        file["rows"] = np.ones((2, 1000), "u1")
    subprocess.run([HYPERCHUNK, "store", "export", path, "--tree", tree], check=True, capture_output=True)
    about = {name: (tree / f"{name}~.json").read_text() for name in ("scalar", "rows")}
    scalar = about["scalar"].replace("13010000e8030000", "13010000" + size.to_bytes(4, "little").hex())
    scalar = scalar.replace("|S1000", f"|S{size}").replace('"size": 1000', f'"size": {size}')
    rows = about["rows"].replace("      1000\n", f"      {size // 2}\n")
    for name, text in (("scalar", scalar), ("rows", rows)):
        assert text != about[name]
        (tree / f"{name}~.json").write_text(text)
        os.truncate(tree / name, size)
        command = [HYPERCHUNK, "store", "import", tree, tmp_path / "b.h5"]
        limit = ["prlimit", "--as=700000000"] if name == "scalar" else ["prlimit", "--as=400000000"]
        done = subprocess.run([*limit, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done
        assert "no memory for" in done.stderr, done
        (tree / f"{name}~.json").write_text(about[name])
        os.truncate(tree / name, 1000 if name == "scalar" else 2000)


@pytest.mark.skipif(os.name != "posix", reason="pipes in the file system are POSIX's")
def test_imports_follow_no_links_and_wait_for_no_pipe(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.h5", tmp_path / "exported"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(4)

    def command(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([HYPERCHUNK, *map(str, words)], capture_output=True, text=True, check=False, timeout=20)

    assert command("arrow", "export", path, folder).returncode == 0
    values = next(one for one in folder.rglob("*") if one.suffix == ".arrow")
    values.rename(kept := tmp_path / "kept.arrow")
    values.symlink_to(kept)
    done = command("arrow", "import", folder, tmp_path / "b.h5")
    assert done.returncode == 1
    assert "symbolic link" in done.stderr
    values.unlink()
    os.mkfifo(values)
    for source in (folder, values):
        done = command("arrow", "import", source, tmp_path / "c.h5")
        assert done.returncode == 1
        assert "a pipe" in done.stderr
