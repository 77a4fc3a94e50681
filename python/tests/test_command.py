"""The ``hyperchunk`` command: its output, streams and exit statuses."""

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment, read
from programs import LANGUAGES, elementwise
from stored_records import record_of

A = np.arange(6, dtype="f4").reshape(2, 3)
PLUS_ONE = {language: elementwise(language, "a[i] + 1", inputs=["a"]) for language in LANGUAGES}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["udf", "--help"], 0),
        (["udf", "attach", "--help"], 0),
        (["key", "show"], 0),
        (["env"], 0),
        ([], 2),
        (["nonsense"], 2),
        (["udf", "attach"], 2),
        (["udf", "attach", "none.h5", "none.lua", "--nonsense"], 2),
        (["udf", "attach", "none.h5", "none.lua"], 1),
        (["udf", "ls", "none.h5"], 1),
        (["udf", "show", "none.h5"], 1),
        (["udf", "show", "none.h5:/out"], 1),
        (["udf", "verify", "none.h5"], 1),
        (["udf", "rm", "none.h5:/out"], 1),
    ],
)
def test_statuses_and_streams(words: list[str], status: int, command: Any) -> None:
    """Results go to standard output, errors to standard error."""
    done = command(*words)
    assert done.returncode == status
    if status == 0:
        assert (done.stdout != "", done.stderr) == (True, "")
    else:
        assert (done.stdout, done.stderr != "") == ("", True)
        assert "panicked" not in done.stderr
    if status == 1:
        assert done.stderr.startswith("hyperchunk: ")
        assert done.stderr.count("\n") == 1


def test_version(command: Any) -> None:
    assert command("--version").stdout == f"hyperchunk {hyperchunk.__version__}\n"


def test_as_a_module() -> None:
    words = [sys.executable, "-m", "hyperchunk", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"hyperchunk {hyperchunk.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["dump"], ["ls"], ["udf", "ls"], ["get", "a", "-o", "-"]])
def test_a_full_disk_is_an_error(words: list[str], scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, "lua", PLUS_ONE["lua"])
    at = 2 if words[0] == "udf" else 1
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [HYPERCHUNK, *words[:at], file, *words[at:]], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_without_a_reader(scene: Any, source: Any, command: Any) -> None:
    """With a closed output, a printing command ends; a checking command keeps its own status."""
    file = scene(a=A)
    command("udf", "attach", file, source("cpp", PLUS_ONE["cpp"]), "--unsigned")
    for words, status in [(["get", file, "a", "-o", "-"], 0), (["dump", file], 0), (["udf", "verify", file], 3)]:
        end, start = os.pipe()
        os.close(end)
        done = subprocess.run([HYPERCHUNK, *words], stdout=start, stderr=subprocess.PIPE, text=True)
        os.close(start)
        assert (done.returncode, "roken pipe" in done.stderr) == (status, False), done.stderr


def test_get_into_a_pipe_and_in_the_place_of_a_link(scene: Any, command: Any, tmp_path: Path) -> None:
    file, pipe, link, far = scene(a=A), tmp_path / "pipe", tmp_path / "link.npy", tmp_path / "far.npy"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert command("get", file, "a", "-o", pipe).returncode == 0
    out, _ = reader.communicate(timeout=30)
    link.symlink_to(far.name)
    assert command("get", file, "a", "-o", link).returncode == 1
    assert not far.exists()
    assert command("get", file, "a", "-o", link, "--overwrite").returncode == 0
    # The link is replaced: another user could have made it.
    assert (stat.S_ISFIFO(pipe.stat().st_mode), link.is_symlink(), far.exists()) == (True, False, False)
    assert link.read_bytes() == out
    np.testing.assert_array_equal(np.load(link), A)
    assert command("get", file, "a", "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_attach_ls_show_verify_rm(scene: Any, source: Any, command: Any) -> None:
    file = scene(a=A)
    program = source("lua", PLUS_ONE["lua"])
    done = command("udf", "attach", file, program, "--dry-run")
    assert (done.returncode, done.stdout.startswith("would attach out: lua float 2x3, inputs: a")) == (
        0,
        True,
    )
    assert command("udf", "ls", file).stdout == ""
    done = command("udf", "attach", file, program, "--chunks", "1x3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("attached out: lua float 2x3, inputs: a, 2 chunks of 1x3, signed SHA256:")
    signer = done.stdout.split()[-1]

    assert command("udf", "ls", file).stdout == f"/out\tlua\tfloat 2x3\t{signer}\tprofile self\n"
    [row] = json.loads(command("udf", "ls", file, "--json").stdout)
    assert (row["path"], row["backend"], row["dims"], row["chunk"]) == ("/out", "lua", [2, 3], [1, 3])
    assert (row["inputs"], row["signer"], row["profile"], row["blockwise"]) == (["a"], signer, "self", True)

    shown = command("udf", "show", f"{file}:/out").stdout
    for text in (
        "dataset   /out",
        "language  lua",
        "a (float 2x3)",
        signer,
        "profile   self",
        PLUS_ONE["lua"],
    ):
        assert text in shown
    assert PLUS_ONE["lua"] in command("udf", "show", f"{file}:/out", "--source").stdout
    record = json.loads(command("udf", "show", f"{file}:/out", "--json").stdout)
    assert (record["api_version"], record["source_code"]) == (3, PLUS_ONE["lua"])
    with h5py.File(file) as opened:
        assert json.loads(record_of(opened["out"])) == record

    for target in (file, f"{file}:/out"):
        done = command("udf", "verify", target)
        assert (done.returncode, done.stdout) == (0, f"/out\tsigned by {signer}\t2 chunks\tprofile self: runs here\n")

    done = command("udf", "attach", file, program, "out")
    assert (done.returncode, "--overwrite" in done.stderr) == (1, True)
    done = command("udf", "attach", file, program, "out", "--overwrite", "--json")
    [record] = json.loads(done.stdout)
    assert record["blockwise"] is False
    np.testing.assert_array_equal(read(file, "out"), A + 1)

    assert command("udf", "rm", f"{file}:/a").returncode == 1
    assert command("udf", "rm", f"{file}:/out").returncode == 0
    with h5py.File(file) as opened:
        assert list(opened) == ["a"]


def test_targets_with_colons_and_spaces(scene: Any, source: Any, command: Any) -> None:
    file = scene("a b:c.h5", a=A)
    program = source("lua", elementwise("lua", "a[i]", "x:y z", ["a"]))
    assert command("udf", "attach", file, program).returncode == 0
    done = command("udf", "show", f"{file}:/x:y z", "--source")
    assert done.returncode == 0
    assert done.stdout.startswith(elementwise("lua", "a[i]", "x:y z", ["a"]))


def test_show_source_prints_what_was_attached(scene: Any, source: Any, command: Any) -> None:
    file, program = scene(a=A), source("lua", PLUS_ONE["lua"])
    assert command("udf", "attach", file, program).returncode == 0
    assert command("udf", "show", f"{file}:/out", "--source").stdout == program.read_text()


def test_several_live_datasets_and_other_objects(scene: Any, source: Any, command: Any) -> None:
    """Groups, types, dangling links and plain datasets are skipped."""
    file = scene(**{"g/a": A})
    with h5py.File(file, "r+") as opened:
        opened["type"] = np.dtype("f4")
        opened["nowhere"] = h5py.SoftLink("/nothing")
        opened["outside"] = h5py.ExternalLink("nothing.h5", "/a")
        opened.create_dataset("zipped", data=A, compression="gzip")
    for language in ("py", "lua"):
        program = source(language, elementwise(language, "a[i]", f"g/{language}", ["g/a"]))
        assert command("udf", "attach", file, program).returncode == 0
    rows = command("udf", "ls", file).stdout.splitlines()
    assert [row.split("\t")[:2] for row in rows] == [["/g/lua", "lua"], ["/g/py", "python"]]


def test_env_is_understood_by_a_shell(config: Path) -> None:
    folder = hyperchunk.plugins.folder()
    for before, after in [
        ("", str(folder)),
        ("/else where:/x'y", f"{folder}:/else where:/x'y"),
        (str(folder), str(folder)),
        (f"/a:{folder}", f"/a:{folder}"),
    ]:
        script = f'eval "$({HYPERCHUNK} env)"; printf %s "$HDF5_PLUGIN_PATH"; {HYPERCHUNK} env --plain >&2'
        env = environment(config, HDF5_PLUGIN_PATH=before)
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == after
        assert done.stderr == f"HDF5_PLUGIN_PATH={after}\n"


def test_env_with_the_connector(config: Path) -> None:
    """The connector's folder is on the path only on request."""
    both = f"{hyperchunk.plugins.folder()}:{hyperchunk.plugins.connector_folder()}"
    for words, value in (("--vol", "hyperchunk"), ("--vol 'store;writers=4'", "hyperchunk store;writers=4")):
        script = f'eval "$({HYPERCHUNK} env {words})"; printf "%s\n" "$HDF5_PLUGIN_PATH" "$HDF5_VOL_CONNECTOR"'
        env = environment(config, HDF5_PLUGIN_PATH="/x")
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == f"{both}:/x\n{value}\n"


def run_with(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HYPERCHUNK, *words], env=environment(folder), capture_output=True, text=True, check=False)


def test_keys(tmp_path: Path) -> None:
    """HDF5-UDF wrote private keys with mode 0644."""
    folder = tmp_path / "fresh"
    shown = run_with(folder, "key", "show")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "hyperchunk key new" in shown.stderr
    assert not folder.exists()
    old = os.umask(0)
    try:
        made = run_with(folder, "key", "new", "--name", "Ada L.", "--email", "ada@example.org")
    finally:
        os.umask(old)
    assert (made.returncode, made.stderr) == (0, "")
    fingerprint = made.stdout.splitlines()[0]
    assert fingerprint.startswith("SHA256:")
    keys = folder / "hyperchunk" / "keys"
    assert stat.S_IMODE((keys / "self.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert stat.S_IMODE(keys.parent.stat().st_mode) == 0o700
    before = (keys / "self.key").read_bytes()
    again = run_with(folder, "key", "new")
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert (keys / "self.key").read_bytes() == before
    shown = run_with(folder, "key", "show")
    assert shown.returncode == 0
    assert f"fingerprint {fingerprint}" in shown.stdout
    assert "name Ada L." in shown.stdout
    seed = before.decode().splitlines()[1].split()[1]
    assert len(base64.b64decode(seed)) == 32
    assert seed not in shown.stdout + made.stdout


def test_trust_in_ones_own_key_takes_rights_away(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    fingerprint = run_with(folder, "key", "new").stdout.splitlines()[0]
    public = folder / "hyperchunk" / "keys" / "self.pub"
    added = run_with(folder, "trust", "add", "--profile", "default", str(public))
    assert (added.returncode, "no longer has the rights of profile self" in added.stdout) == (0, True)
    assert "\tdefault\t" in run_with(folder, "trust", "ls").stdout
    assert f"hyperchunk trust rm {fingerprint}" in added.stdout
    assert run_with(folder, "trust", "rm", fingerprint).returncode == 0
    assert "\tself\t" in run_with(folder, "trust", "ls").stdout


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660])
def test_a_private_key_that_others_can_read_is_not_used(
    mode: int, scene: Any, source: Any, command: Any, config: Path
) -> None:
    file, key = scene(a=A), config / "hyperchunk" / "keys" / "self.key"
    key.chmod(mode)
    done = command("udf", "attach", file, source("lua", PLUS_ONE["lua"]))
    assert (done.returncode, "chmod 600" in done.stderr) == (1, True)
    assert hyperchunk.udf.ls(file) == []


def test_without_a_key_only_unsigned_is_possible(scene: Any, source: Any, tmp_path: Path) -> None:
    file, program = scene(a=A), source("lua", PLUS_ONE["lua"])
    folder = tmp_path / "fresh"
    done = run_with(folder, "udf", "attach", str(file), str(program))
    assert (done.returncode, "key new" in done.stderr) == (1, True)
    done = run_with(folder, "udf", "attach", str(file), str(program), "--unsigned")
    assert (done.returncode, "not signed" in done.stdout) == (0, True)
    assert not folder.exists()
    np.testing.assert_array_equal(read(file, "out"), A + 1)


def test_unsigned_native_code_is_warned_about(scene: Any, source: Any, command: Any) -> None:
    file = scene(a=A)
    done = command("udf", "attach", file, source("cpp", PLUS_ONE["cpp"]), "--unsigned")
    assert done.returncode == 0
    assert "warning" in done.stderr
    assert "does not run here" in command("udf", "ls", file).stdout


def test_doctor(command: Any) -> None:
    done = command("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("plugins", "connector", "worker", "python", "key        SHA256:", "seccomp", "landlock"):
        assert word in done.stdout
    assert done.stdout.count("runs, contained by") == 7


def test_a_source_cannot_write_to_the_terminal(scene: Any, source: Any, command: Any) -> None:
    """Texts from a file are printed without their control characters."""
    file = scene(a=A)
    text = "-- \x1b]52;c;evil\x07\n" + PLUS_ONE["lua"]
    assert command("udf", "attach", file, source("lua", text)).returncode == 0
    [live] = hyperchunk.udf.ls(file)
    for words in (["ls", file], ["ls", file, "--json"], ["verify", file], ["show", f"{file}:{live.path}"]):
        done = command("udf", *words)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout


def test_a_file_that_is_open_for_writing(scene: Any, source: Any, command: Any) -> None:
    file = scene(a=A)
    with h5py.File(file, "r+", locking=True):
        done = command("udf", "attach", file, source("lua", PLUS_ONE["lua"]))
    assert done.returncode == 1
    assert "another program has it open" in done.stderr


def test_errors_show_names_without_what_terminals_obey(tmp_path: Path, command: Any) -> None:
    """Names from files, in errors of commands and of the reader, have their control characters escaped."""
    escape = "\x1b]0;title\x07\x1b[31m\u202e"
    file = tmp_path / "m.h5"
    with h5py.File(file, "w") as opened:
        opened["soft"] = h5py.SoftLink(f"/x{escape}")
        opened["loop"] = h5py.SoftLink(f"/loop{escape}")
        opened["outside"] = h5py.ExternalLink(f"f{escape}.h5", f"/p{escape}")
        opened[f"c{escape}"] = np.zeros(3, dtype=[(f"a{escape}", "f4")])
    obeyed = set("\x1b\x07\u202e")
    for name in ("soft", "loop", "outside", f"c{escape}", "table"):
        for words in (
            ("get", file, f"/{name}", "-o", tmp_path / "values.npy"),
            ("dump", f"{file}:/{name}"),
            ("store", "query", file, f"/{name}", "value > 1"),
        ):
            done = command(*words)
            assert not obeyed & set(done.stdout + done.stderr), (words, done.stderr)
    for name in ("soft", "loop", "outside"):
        with (
            hyperchunk.open(file) as opened,
            pytest.raises((hyperchunk.HyperchunkError, KeyError)) as raised,
        ):
            opened[name]
        assert not obeyed & set(str(raised.value))


def test_get_says_that_it_rounds(command: Any, tmp_path: Path) -> None:
    """NumPy's files have no portable floats of more than 64 bits."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["wide"] = np.array([(np.longdouble(1) / 3, 1)], [("x", np.longdouble), ("n", "i4")])
        file["plain"] = np.array([(0.5, 1)], [("x", "f8"), ("n", "i4")])
    wide = np.finfo(np.longdouble).nmant > 52
    for name, rounds in (("wide", wide), ("plain", False)):
        done = command("get", tmp_path / "a.h5", name, "-o", tmp_path / f"{name}.npy")
        assert done.returncode == 0, done.stderr
        assert ("rounded to 64" in done.stderr) is rounds, done.stderr
    assert np.load(tmp_path / "wide.npy")["x"].tolist() == [1 / 3]


def test_get_of_references_has_its_own_advice(command: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file.create_dataset("refs", data=[file["x"].ref], dtype=h5py.ref_dtype)
    done = command("get", tmp_path / "a.h5", "refs", "-o", tmp_path / "refs.npy")
    assert done.returncode == 1
    assert "`hyperchunk dump` prints their paths" in done.stderr
    assert "keeps them" not in done.stderr


def test_a_part_of_a_null_dataset_is_empty(command: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["null"] = h5py.Empty("f4")
    done = command("dump", "-s", "...", f"{tmp_path}/a.h5:/null")
    assert (done.returncode, done.stderr) == (0, "")
    done = command("dump", "--json", "-s", "...", f"{tmp_path}/a.h5:/null")
    assert json.loads(done.stdout)["objects"]["/null"]["value"] is None


def test_a_folder_may_end_with_a_colon(command: Any, tmp_path: Path) -> None:
    folder = tmp_path / "c:"
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as file:
        file["g/x"] = np.arange(3)
    assert "int64" in command("ls", f"{folder}/a.h5:/g/x").stdout
    assert command("cp", f"{folder}/a.h5:/g", f"{folder}/a.h5:/copy").returncode == 0
    with h5py.File(folder / "a.h5") as file:
        assert list(file["copy/x"]) == [0, 1, 2]


def test_a_collection_is_named_as_such(command: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    done = command("collect", tmp_path / "a.h5", "-o", tmp_path / "all.hcx")
    assert done.returncode == 1
    assert "--concat 0" in done.stderr
    assert command("collect", tmp_path / "a.h5", "-o", tmp_path / "all.hcx", "--concat", "0").returncode == 0
    done = command("ls", tmp_path / "all.hcx")
    assert (done.returncode, "got a collection" in done.stderr) == (1, True)
