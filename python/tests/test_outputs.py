"""Commands and functions that write files: inputs are never overwritten, and other files only on request."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import hyperchunk.h5py as emulated
import makers
import numpy as np
import pytest
from full_disk import short_files
from hyperchunk import _core
from hyperchunk.exceptions import InvalidError


def run(*arguments: str) -> int:
    return _core.run_command(["hyperchunk", *arguments])


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["keep/everything"] = np.arange(1000.0)
        file["a"] = np.arange(6.0)
    (tmp_path / "refs.json").write_text("{}")
    return tmp_path / "a.h5"


# Names of the same file: unchanged, absolute, through `.`, a soft link, a hard link.
def named(source: Path, way: str, suffix: str) -> str:
    other = source.with_name(f"other.{suffix}")
    if way == "symlink":
        other.symlink_to("a.h5")
        return str(other)
    if way == "hardlink":
        os.link(source, other)
        return str(other)
    return {"same": "a.h5", "absolute": str(source), "dot": "./a.h5"}[way]


WAYS = ["same", "absolute", "dot", "symlink", "hardlink"]
SUFFIXES = {"get": "npy", "index": "hcindex", "kerchunk": "json", "virtualizarr": "json", "file-url": "hcindex"}
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "get": lambda out: ["get", "a.h5", "/a", "-o", out],
    "index": lambda out: ["index", "a.h5", "-o", out],
    "kerchunk": lambda out: ["index", "a.h5", "--kerchunk", out],
    "virtualizarr": lambda out: ["index", "a.h5", "--virtualizarr", out],
    "file-url": lambda out: ["index", f"file://{Path('a.h5').absolute()}", "-o", out],
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_never_writes_over_its_input(
    source: Path, command: str, way: str, overwrite: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    before = source.read_bytes()
    arguments = COMMANDS[command](named(source, way, "h5"))
    assert run(*arguments, *["--overwrite"] * overwrite) == 1
    assert "is an input of this command" in capfd.readouterr().err
    assert source.read_bytes() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keyword", ["output", "kerchunk", "virtualizarr"])
def test_index_never_writes_over_its_input(source: Path, keyword: str, way: str) -> None:
    before = source.read_bytes()
    with pytest.raises(InvalidError, match="is an input"):
        hyperchunk.index("a.h5", overwrite=True, **{keyword: named(source, way, "json")})
    assert source.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_existing_output_needs_overwrite(source: Path, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = Path(f"out.{SUFFIXES[command]}")
    out.write_text("notes")
    arguments = COMMANDS[command](str(out))
    assert run(*arguments) == 1
    assert "--overwrite replaces it" in capfd.readouterr().err
    assert out.read_text() == "notes"
    assert run(*arguments, "--overwrite") == 0
    assert out.read_bytes() != b"notes"


def test_references_that_are_read_are_an_input(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("index", "a.h5", "--from-kerchunk", "refs.json", "-o", "refs.json", "--overwrite") == 1
    assert "is an input" in capfd.readouterr().err
    assert Path("refs.json").read_text() == "{}"


def test_two_outputs_of_one_name(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("index", "a.h5", "--kerchunk", "x.json", "--virtualizarr", "x.json") == 1
    assert "two outputs" in capfd.readouterr().err
    assert not Path("x.json").exists()


@pytest.mark.parametrize("name", ["results.txt", "results.csv", "results", "results.npz"])
def test_unknown_suffix_lists_the_known_ones(source: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("get", "a.h5", "/a", "-o", name) == 1
    assert ".npy" in capfd.readouterr().err
    assert not Path(name).exists()


def test_usual_index_is_made_anew(source: Path) -> None:
    hyperchunk.index("a.h5")
    hyperchunk.index("a.h5")
    assert Path("a.h5.hcindex").exists()


@pytest.mark.parametrize("content", [b"five years of work\n", b"", b"\x89HC"])
@pytest.mark.parametrize(("command", "suffix"), [("index", ".hcindex"), ("analyze", ".hczones")])
def test_what_is_no_companion_stays(
    source: Path, command: str, suffix: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    companion = Path(f"a.h5{suffix}")
    companion.write_bytes(content)
    assert run(command, "a.h5") == 1
    said = capfd.readouterr().err
    assert f"cannot write a.h5{suffix}: expected" in said
    assert companion.read_bytes() == content
    with pytest.raises(hyperchunk.HyperchunkError, match="expected"):
        getattr(hyperchunk, command)("a.h5")
    assert companion.read_bytes() == content
    if command == "index":
        assert run("index", "a.h5", "--overwrite") == 0
        assert companion.read_bytes() != content
    companion.unlink()
    assert run(command, "a.h5") == 0
    made = companion.read_bytes()
    # Of another version, or damaged, it is made anew.
    companion.write_bytes(made[: len(made) // 2])
    assert run(command, "a.h5") == 0
    assert companion.read_bytes() == made


# Every maker of files follows the rule: `makers.MAKERS` has all of them.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    before = Path.cwd()
    os.chdir(folder)
    try:
        makers.world()
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def world(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "w"
    shutil.copytree(made, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


def state(folder: Path) -> dict[str, str]:
    """Returns all files with their contents, and all links with their targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def fails(make: Callable[[], None]) -> str:
    """Checks that a call fails; returns the message of a function."""
    with pytest.raises((makers.RefusedError, hyperchunk.HyperchunkError, OSError, ValueError)) as raised:
        make()
    return str(raised.value)


def new_name(maker: makers.Maker, stem: str = "out") -> str:
    return f"{stem}.{maker.suffix}" if maker.suffix else stem


OVERWRITE = [False, True]
READING = [name for name, maker in makers.MAKERS.items() if maker.reads]
REPLACING = [name for name, maker in makers.MAKERS.items() if maker.replaces]
LARGE = [name for name, maker in makers.MAKERS.items() if not maker.tiny]


@pytest.mark.parametrize("name", makers.MAKERS)
def test_existing_output_is_refused_and_stays(world: Path, name: str) -> None:
    maker = makers.MAKERS[name]
    out = new_name(maker)
    Path(out).write_text("five years of work\n")
    before = state(world)
    fails(lambda: maker.make(out, False))
    assert state(world) == before
    Path(out).unlink()
    maker.make(out, False)
    assert Path(out).exists()
    fails(lambda: maker.make(out, False))
    if maker.replaces:
        maker.make(out, True)
    assert not [path for path in world.iterdir() if ".part" in path.name or ".new" in path.name]


@pytest.mark.parametrize("overwrite", OVERWRITE)
@pytest.mark.parametrize("name", READING)
def test_output_that_is_an_input_is_refused(world: Path, name: str, overwrite: bool) -> None:
    maker = makers.MAKERS[name]
    if overwrite and not maker.replaces:
        pytest.skip("replaces nothing")
    read = Path(maker.reads)
    hard, soft = Path(new_name(maker, "hard")), Path(new_name(maker, "soft"))
    os.link(read, hard)
    soft.symlink_to(read)
    before = state(world)
    for out in [str(read), str(read.absolute()), f"./{read}", str(soft), str(hard)]:
        fails(lambda out=out: maker.make(out, overwrite))  # type: ignore[misc]
        assert state(world) == before, out


@pytest.mark.parametrize("overwrite", OVERWRITE)
@pytest.mark.parametrize("name", makers.MAKERS)
def test_planted_links_are_not_followed(world: Path, name: str, overwrite: bool) -> None:
    """Links under names that earlier releases wrote to, and under the output's own, are not followed."""
    maker = makers.MAKERS[name]
    if overwrite and not maker.replaces:
        pytest.skip("replaces nothing")
    out = new_name(maker)
    victim = world.parent / "thesis.txt"
    victim.write_text("five years of work\n" * 1000)
    process = os.getpid()
    guessed = [f"{out}.partial", f"{out}.new", f"{out}.{process}.new", f".{out}.{process}.part", f"{out}.restructuring"]
    for other in [*guessed, f"{out}.journal"]:
        Path(other).symlink_to(victim)
    # A function that replaces files writes to the target of the user's own link.
    follows = name in ("open()", "DualFile()", "store.create()", "h5py core")
    if not follows:
        Path(out).symlink_to(victim)
    try:
        maker.make(out, overwrite)
    except (makers.RefusedError, hyperchunk.HyperchunkError, OSError, ValueError):
        pass
    else:
        assert overwrite or follows
        assert not Path(out).is_symlink()
    assert victim.read_text() == "five years of work\n" * 1000


@pytest.mark.parametrize("suffix", [".hczones", ".hcindex"])
def test_links_in_the_place_of_companions_are_replaced(world: Path, suffix: str) -> None:
    victim = world.parent / "thesis.txt"
    victim.write_text("five years of work\n")
    companion = Path(f"a.h5{suffix}")
    companion.symlink_to(victim)
    for process in range(os.getpid() - 3, os.getpid() + 4):
        Path(f"a.h5{suffix}.{process}.new").symlink_to(victim)
    command = "analyze" if suffix == ".hczones" else "index"
    makers.command(command, "a.h5")
    assert companion.is_file()
    assert not companion.is_symlink()
    assert victim.read_text() == "five years of work\n"


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_links_in_the_folder_of_a_layout_are_not_followed(world: Path, codec: str) -> None:
    victim = world.parent / "thesis.txt"
    victim.write_text("five years of work\n")
    arguments = ["restructure", "a.h5", "/a", "--order", "column", "--codec", codec]
    makers.command(*arguments, "--begin")
    (folder,) = Path("a.h5.d/layouts").iterdir()
    for name in ["layout.h5.partial", "marks", "encoded", "sizes", "between"]:
        if (folder / name).exists():
            (folder / name).unlink()
        (folder / name).symlink_to(victim)
    assert makers.run(*arguments) == 1
    assert victim.read_text() == "five years of work\n"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_error_midway_leaves_nothing(world: Path, name: str, there: bool) -> None:
    maker = makers.MAKERS[name]
    if there and not maker.replaces:
        pytest.skip("replaces nothing")
    out = new_name(maker)
    if there:
        maker.make(out, False)
    before = state(world)
    with short_files(300):
        fails(lambda: maker.make(out, there))
    after = state(world)
    # Partial results that can be continued or recovered are kept, under names that say so.
    kept = {known for known in after if known.startswith((f"{out}.restructuring/", f"{out}.partial", f"{out}.journal"))}
    assert not kept or name in ("open()", "restructure", "restructure()", "h5py core")
    assert {known: after[known] for known in after if known not in kept} == before


KILLED = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
import makers
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
makers.MAKERS[sys.argv[2]].make(sys.argv[3], False)
"""


@pytest.mark.parametrize("name", ["get npy", "pack", "restructure", "arrow export", "arrow export folder", "open()"])
def test_killed_midway_leaves_no_output(world: Path, name: str) -> None:
    maker = makers.MAKERS[name]
    out = new_name(maker)
    before = state(world)
    arguments = [sys.executable, "-c", KILLED, str(Path(makers.__file__).parent), name, out]
    done = subprocess.run(arguments, check=False, capture_output=True)
    assert done.returncode == -signal.SIGXFSZ, done
    left = {path.split("/")[0] for path in state(world) if path not in before}
    known = re.compile(rf"\.{re.escape(out)}\.[0-9a-f]{{32}}\.part|{re.escape(out)}\.(partial|journal|restructuring)")
    assert left
    assert all(known.fullmatch(path) for path in left), left
    # The next attempt succeeds.
    if name != "open()":
        maker.make(out, False)


@pytest.mark.parametrize("name", makers.MAKERS)
def test_suffix_of_another_format_is_refused(world: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    maker = makers.MAKERS[name]
    before = state(world)
    for wrong in maker.wrong:
        out = f"out.{wrong}" if wrong else "out"
        message = fails(lambda out=out: maker.make(out, False))  # type: ignore[misc]
        message += capfd.readouterr().err
        assert "expected a name that ends with ." in message or "or one that ends with ." in message, message
        assert state(world) == before


def test_own_link_is_written_through_by_open(world: Path) -> None:
    """As in h5py; temporary files are beside the real file."""
    Path("deep").mkdir()
    Path("link.h5").symlink_to("deep/real.h5")
    Path("deep/real.h5").write_text("old")
    Path("deep/real.h5").chmod(0o600)
    with hyperchunk.open("link.h5", "w") as file:
        file["a"] = 1
        assert Path("deep/real.h5.journal").exists()
    assert Path("link.h5").is_symlink()
    assert Path("deep/real.h5").stat().st_mode & 0o777 == 0o600
    with h5py.File("link.h5") as file:
        assert file["a"][()] == 1
    with pytest.raises(hyperchunk.HyperchunkError, match="exists"):
        hyperchunk.open("link.h5", "x")


@pytest.mark.parametrize("name", ["get npy", "get h5", "index", "kerchunk", "pack", "arrow export"])
def test_permissions_of_what_is_replaced_stay(world: Path, name: str) -> None:
    maker = makers.MAKERS[name]
    out = Path(new_name(maker))
    out.write_text("private")
    out.chmod(0o600)
    maker.make(str(out), True)
    assert out.stat().st_mode & 0o777 == 0o600


def test_devices_and_pipes_are_written_to(world: Path) -> None:
    makers.command("get", "a.h5", "/v", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()
    Path("out.npy").symlink_to("/dev/null")
    makers.command("get", "a.h5", "/v", "-o", "out.npy")
    assert Path("out.npy").is_symlink()
    for name in ("open()", "DualFile()", "pack"):
        fails(lambda name=name: makers.MAKERS[name].make("/dev/null", True))  # type: ignore[misc]
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_core_driver_stores_in_the_file_itself(world: Path, mode: str) -> None:
    victim = world.parent / "thesis.txt"
    victim.write_text("five years of work\n")
    with h5py.File("core.h5", "w") as file:
        file["x"] = np.arange(10.0)
    Path("core.h5").chmod(0o600)
    where = Path("core.h5").stat().st_ino
    for suffix in ("partial", "new"):
        Path(f"core.h5.{suffix}").symlink_to(victim)
    with emulated.File("core.h5", mode, driver="core", backing_store=True) as file:
        assert file.driver == "core"
        file["y"] = np.arange(1000)
    with h5py.File("core.h5") as file:
        assert file["y"].shape == (1000,)
    assert Path("core.h5").stat().st_ino == where
    assert Path("core.h5").stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "five years of work\n"
    before = Path("core.h5").read_bytes()
    with emulated.File("core.h5", mode, driver="core", backing_store=False) as file:
        file["z"] = 1
    assert Path("core.h5").read_bytes() == before
    # An edit that is interrupted is recovered by the file's name.
    os.link("core.h5", "other.h5")
    with pytest.raises(hyperchunk.HyperchunkError, match="expected one name, got 2"):
        emulated.File("core.h5", mode, driver="core", backing_store=True)
    assert Path("core.h5").read_bytes() == before


def test_references_replace_only_references(world: Path) -> None:
    joined = hyperchunk.open_collection(["a.h5"], concat=0)
    Path("folder.parquet").mkdir()
    Path("folder.parquet/thesis.txt").write_text("five years of work\n")
    Path("table.parquet").write_text("rows")
    before = state(world)
    for name in ("folder.parquet", "table.parquet"):
        with pytest.raises(hyperchunk.HyperchunkError, match="expected a folder of references"):
            joined.to_kerchunk(name, overwrite=True)
    assert state(world) == before


def test_manual_pages_replace_nothing(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    makers.command("man", "-o", "new/folder/man1")
    pages = state(world / "new/folder/man1")
    assert "hyperchunk-collect.1" in pages
    victim = world.parent / "thesis.txt"
    victim.write_text("five years of work\n")
    Path("new/folder/man1/hyperchunk.1").unlink()
    Path("new/folder/man1/hyperchunk.1").symlink_to(victim)
    assert run("man", "-o", "new/folder/man1") == 1
    assert "it exists" in capfd.readouterr().err
    assert run("man", "-o", "new/folder/man1", "--overwrite") == 0
    assert victim.read_text() == "five years of work\n"
    assert state(world / "new/folder/man1") == pages
    Path("file").write_text("")
    assert run("man", "-o", "file/man1") == 1
    assert "cannot make the folder file/man1: " in capfd.readouterr().err


# A file that is not named, but read: it would be gone, and with it all that is not copied.


@pytest.mark.parametrize("kind", ["external", "virtual", "virtual of virtual", "raw"])
@pytest.mark.parametrize("command", ["get h5", "get npy", "pack"])
def test_what_is_read_through_an_input_is_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("src.h5", "w") as file:
        file["d"], file["keep"] = np.arange(1000.0), np.arange(9)
    (tmp_path / "raw.bin").write_bytes(np.arange(1000.0).tobytes())
    with h5py.File("between.h5", "w") as between, h5py.File("a.h5", "w") as file:
        for owner, of in ((between, ("src.h5", "d")), (file, ("between.h5", "v"))):
            of = ("src.h5", "d") if owner is file and kind == "virtual" else of
            layout = h5py.VirtualLayout((1000,), "f8")
            layout[:] = h5py.VirtualSource(*of, (1000,))
            owner.create_virtual_dataset("v", layout)
        file["external"] = h5py.ExternalLink("src.h5", "/d")
        if kind == "raw":
            file.create_dataset("raw", (1000,), "f8", external=[("raw.bin", 0, 8000)])
    read = tmp_path / ("raw.bin" if kind == "raw" else "src.h5")
    before = read.read_bytes()
    dataset = {"external": "/external", "raw": "/raw"}.get(kind, "/v")
    out = f"{read.stem}.{'npy' if command == 'get npy' else 'h5'}"
    if out != read.name:
        Path(out).unlink(missing_ok=True)
        os.link(read, out)
    where = Path(out).stat().st_ino
    if command == "pack":
        if kind == "external":
            pytest.skip("pack keeps external links, and does not read what they lead to")
        arguments = ["pack", "--embed", "a.h5", out, "--overwrite"]
    else:
        arguments = ["get", "a.h5", dataset, "-o", out, "--overwrite"]
    assert run(*arguments) == 1
    assert "is an input of this command" in capfd.readouterr().err
    assert Path(out).stat().st_ino == where
    assert read.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("words", [["pack", "a.h5", "b.h5"], ["salvage", "a.h5", "-o", "b.h5"]])
@pytest.mark.parametrize("kind", ["virtual", "raw", "link"])
def test_a_file_that_an_input_names_is_not_replaced(
    source: Path, kind: str, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    other = source.with_name("b.h5")
    with h5py.File(other, "w") as file:
        file["x"] = np.arange(6.0)
    with h5py.File(source, "r+") as file:
        if kind == "virtual":
            layout = h5py.VirtualLayout((6,), "f8")
            layout[:] = h5py.VirtualSource("b.h5", "x", (6,))
            file.create_virtual_dataset("names", layout)
        elif kind == "raw":
            file.create_dataset("names", (6,), "u1", external=[("b.h5", 0, 6)])
        else:
            file["names"] = h5py.ExternalLink("b.h5", "x")
    before = other.read_bytes()
    assert run(*words, "--overwrite") != 0
    assert "it is an input of this command, /" in capfd.readouterr().err
    assert other.read_bytes() == before
    # Control: a file of another name.
    assert run(*[word.replace("b.h5", "c.h5") for word in words], "--overwrite") == 0
