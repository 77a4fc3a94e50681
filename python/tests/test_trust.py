"""Unknown, trusted and revoked keys, in commands and for live datasets."""

import json
import stat
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import pytest
from people import CPP, LUA, OUT, A, Person, read, refused
from stored_records import put_record, record_of


def test_a_key_goes_from_stranger_to_trusted_to_revoked(
    ada: Person, adas: Any, command: Any, config: Path, tmp_path: Path
) -> None:
    native = adas("cpp", CPP)
    refused(
        native, ada.fingerprint, "no profile but `untrusted` knows", f"trust add {ada.fingerprint} --profile default"
    )
    assert not (config / "hyperchunk" / "profiles").exists()

    assert ada("key", "export", tmp_path / "ada.pub").returncode == 0
    done = command("trust", "add", tmp_path / "ada.pub", "--profile", "default")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{ada.fingerprint} Ada is in profile default\n")
    assert read(native)[0] == 7
    assert f"{ada.fingerprint}\tdefault\tAda" in command("trust", "ls").stdout
    [listed] = (config / "hyperchunk" / "profiles" / "default" / "keys").iterdir()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (listed, listed.parent)] == [0o600, 0o700]

    # Distrust is a profile, too.
    assert command("trust", "move", ada.fingerprint, "untrusted").returncode == 0
    refused(native, "profile untrusted")
    assert read(adas(name="lua.h5"))[0] == 7
    assert command("trust", "move", ada.fingerprint, "default").returncode == 0
    assert read(native)[0] == 7

    # Revoked is less than unknown: not even a stranger's rights remain.
    with hyperchunk.open(native) as file:
        assert file["out"][0] == 7
    assert command("trust", "revoke", ada.fingerprint).returncode == 0
    with (
        hyperchunk.open(native) as file,
        pytest.raises(hyperchunk.HyperchunkError, match=rf"{ada.fingerprint} \(Ada\) was revoked"),
    ):
        file["out"][0]
    for path in (native, tmp_path / "lua.h5"):
        refused(path, ada.fingerprint, "(Ada) was revoked on 2", "--even-if-revoked")
    [own, row] = json.loads(command("trust", "ls", "--json").stdout)
    assert own["profile"] == "self"
    assert (row["fingerprint"], row["profile"], row["name"]) == (ada.fingerprint, None, "Ada")
    assert row["revoked"].startswith("2")
    done = command("trust", "add", tmp_path / "ada.pub", "--profile", "default")
    assert (done.returncode, "revoked" in done.stderr) == (1, True)
    done = command("trust", "add", tmp_path / "ada.pub", "--profile", "default", "--even-if-revoked")
    assert done.returncode == 0
    assert read(native)[0] == 7

    assert command("trust", "rm", ada.fingerprint).returncode == 0
    assert command("trust", "rm", ada.fingerprint).returncode == 1
    refused(native, "no profile but `untrusted` knows")


def test_a_key_by_fingerprint_and_by_what_it_signed(ada: Person, adas: Any, command: Any) -> None:
    native = adas("cpp", CPP)
    for key in (ada.fingerprint, ada.fingerprint.removeprefix("SHA256:"), f"{native}:/out"):
        done = command("trust", "add", key, "--profile", "default", "--name", "Ada L.")
        assert done.returncode == 0, done.stderr
        assert read(native)[0] == 7
        assert f"{ada.fingerprint}\tdefault\tAda L." in command("trust", "ls").stdout
        assert command("trust", "rm", ada.fingerprint).returncode == 0
    for wrong in (["nonsense", "--profile", "default"], [ada.fingerprint, "--profile", "none"]):
        assert command("trust", "add", *wrong).returncode == 1
    for place in ("self", "../default", "a b"):
        assert command("trust", "add", ada.fingerprint, "--profile", place).returncode == 1
    assert command("trust", "move", ada.fingerprint, "default").returncode == 1
    assert command("trust", "revoke", "nonsense").returncode == 1


def test_a_fingerprint_is_no_option_whatever_it_begins_with(command: Any) -> None:
    fingerprint = "-" + 42 * "A"
    done = command("trust", "add", fingerprint, "--profile", "default", "--name", "Eve")
    assert done.returncode == 0, done.stderr
    assert f"SHA256:{fingerprint}\tdefault\tEve" in command("trust", "ls").stdout
    for words in (["move", fingerprint, "untrusted"], ["rm", fingerprint], ["revoke", fingerprint]):
        done = command("trust", *words)
        assert done.returncode == 0, done.stderr
    assert command("trust", "add", "--help").returncode == 0
    assert command("trust", "rm", "--nonsense").returncode == 1


def test_a_key_in_two_profiles_runs_nothing(ada: Person, adas: Any, command: Any, profile: Any, config: Path) -> None:
    path = adas()
    profile("lab", "")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    assert read(path)[0] == 7
    keys = config / "hyperchunk" / "profiles" / "default" / "keys"
    keys.mkdir(parents=True, mode=0o700)
    (keys / f"{ada.fingerprint[7:]}.pub").write_text(ada("key", "show").stdout)
    refused(path, ada.fingerprint, "default and lab", "trust move")
    assert command("trust", "move", ada.fingerprint, "lab").returncode == 0
    assert read(path)[0] == 7


def test_an_own_key_can_be_revoked(attach: Any, scene: Any, command: Any, source: Any) -> None:
    file = scene(a=A)
    attach(file, "lua", LUA, OUT)
    own = command("key", "show").stdout.split()[-1]
    done = command("trust", "revoke", own)
    assert (done.returncode, "your own key" in done.stdout) == (0, True)
    refused(file, "was revoked")
    done = command("udf", "attach", file, source("lua", LUA), "more:1:double")
    assert (done.returncode, "revoked" in done.stderr) == (1, True)


def test_a_broken_profile_runs_nothing_and_says_so(ada: Person, adas: Any, command: Any, profile: Any) -> None:
    path = adas()
    file = profile("lab", "")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    for text, reason in (
        ("sandbox = false", "sandbox"),
        ("[grant]\nread = ['/']", "never granted"),
        ("[grant]\nconnect = ['example.org']", "example.org"),
        ("languages = ['perl']", "perl"),
        ("require = ['landlock>=99']", "requires Landlock 99"),
        ("[grant]\nread = ['/no/such/folder']", "does not exist"),
        ("languages = ['python']", "does not run lua"),
    ):
        profile("lab", text)
        assert "lab" in refused(path, reason)
    file.unlink()
    refused(path, "there is no profile lab")
    file.parent.joinpath("profile.toml").write_text("version = 1\n")
    assert read(path)[0] == 7


def test_verify_says_whether_it_runs_here_and_explain_why(
    ada: Person, adas: Any, command: Any, profile: Any, data: Path
) -> None:
    native = adas("cpp", CPP)
    done = command("udf", "verify", native)
    assert done.returncode == 3
    assert f"/out\tsigned by {ada.fingerprint}\t1 chunk\tdoes not run here: refused to run" in done.stdout
    text = command("udf", "explain", f"{native}:/out").stdout
    assert ada.fingerprint in text
    assert "It does not run here: refused to run" in text

    profile("lab", f"[grant]\nread = ['{data}']\n[limits]\nwall_s = 5")
    assert command("trust", "add", f"{native}:/out", "--profile", "lab").returncode == 0
    done = command("udf", "verify", f"{native}:/out")
    assert (done.returncode, done.stdout.rstrip().endswith("1 chunk\tprofile lab: runs here")) == (0, True)
    text = command("udf", "explain", f"{native}:/out").stdout
    for words in (
        "calls themselves Ada",
        "profile lab, since you put that key",
        "5 s,",
        f"read {data}",
        "It runs here",
    ):
        assert words in text, text

    lua = adas("lua", 'function dynamic_dataset() lib.getData("out")[1] = lib.getData("a")[1] end', name="lua.h5")
    with h5py.File(lua, "r+") as file:
        del file["a"]
        file["a"] = A.astype("f8")
    done = command("udf", "verify", lua)
    assert (done.returncode, "attach it again" in done.stdout) == (3, True)
    with h5py.File(lua, "r+") as file:
        put_record(file["out"], record_of(file["out"]).replace(b"lib", b"bil"))
    done = command("udf", "verify", lua)
    assert (done.returncode, "INVALID" in done.stdout) == (1, True)


def test_rebuild_signs_and_compiles_anew(ada: Person, adas: Any, command: Any, tmp_path: Path) -> None:
    native = adas("cpp", CPP)
    with h5py.File(native, "r+") as file:
        file["out"].attrs["note"] = "mine"
        file["again"] = file["out"]
    done = command("udf", "rebuild", native)
    assert (done.returncode, "--take-over" in done.stderr, ada.fingerprint in done.stderr) == (1, True, True)
    refused(native, "does not run c++")
    copy = tmp_path / "copy.h5"
    copy.write_bytes(native.read_bytes())

    done = command("udf", "rebuild", f"{native}:/out", "--take-over")
    assert done.returncode == 0, done.stderr
    own = command("key", "show").stdout.split()[-1]
    assert done.stdout.startswith("rebuilt /out: c++ for ")
    assert own in done.stdout
    assert read(native)[0] == 7
    assert read(native, "again")[0] == 7
    with h5py.File(native) as file:
        assert file["out"].attrs["note"] == "mine"
    assert command("udf", "verify", native).returncode == 0
    assert command("udf", "rebuild", native).returncode == 0
    # The copy that was not rebuilt has the same id and another record.
    assert command("trust", "add", ada.fingerprint, "--profile", "default").returncode == 0
    with h5py.File(native) as one, h5py.File(copy) as other:
        first, second = one["out"], other["out"]
        for dataset in (first, second):
            with pytest.raises(OSError, match="different records"):
                dataset[0]
    assert read(copy)[0] == 7
    # A record without a compiled form for this machine gets one.
    done = ada("udf", "rebuild", copy)
    assert done.returncode == 0, done.stderr


def test_profiles_of_the_reference_are_imported(command: Any, config: Path, tmp_path: Path, data: Path) -> None:
    rules = {
        "# comment": "",
        "sandbox": True,
        "syscalls": [{"brk": True}, {"socket": True}, {"openat": {"arg": 2, "op": "equals", "value": 0}}],
        "filesystem": [{f"{data}/**": "ro"}, {"/**": "rw"}],
    }
    file = tmp_path / "lab.json"
    file.write_text(json.dumps(rules))
    done = command("trust", "import-profile", file, "--dry-run")
    assert (done.returncode, str(data) in done.stdout) == (0, True)
    assert "connect = " in done.stderr
    assert "/**" in done.stderr
    made = config / "hyperchunk" / "profiles" / "lab" / "profile.toml"
    assert not made.exists()
    assert command("trust", "import-profile", file).returncode == 0
    assert str(data) in made.read_text()
    assert command("trust", "import-profile", file).returncode == 1
    rules["syscalls"] = [{"read": False}]
    file.write_text(json.dumps(rules))
    assert command("trust", "import-profile", file, "--name", "none").returncode == 0
    assert str(data) not in (made.parents[1] / "none" / "profile.toml").read_text()
    for name in ("default", "../x"):
        assert command("trust", "import-profile", file, "--name", name).returncode == 1
    file.write_text('{"sandbox": 3}')
    assert command("trust", "import-profile", file, "--name", "other").returncode == 1


def test_doctor_tells_profiles_keys_and_the_log(
    ada: Person, command: Any, profile: Any, data: Path, config: Path
) -> None:
    profile("lab", f"languages = ['lua']\n[grant]\nread = ['{data}']")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    (config / "hyperchunk" / "audit.toml").write_text("version = 1\nenabled = true\nfile = '/var/log/h.jsonl'\n")
    done = command("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "keys: 1 in lab",
        "audit log  /var/log/h.jsonl",
        f"lab        may read {data}",
        "lab        lua     runs",
    ):
        assert words in done.stdout, done.stdout
    profile("lab", "sandbox = false")
    done = command("doctor")
    assert (done.returncode, "lab        not usable" in done.stdout) == (1, True)


def test_key_export(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "me.pub"
    assert command("key", "export", path).returncode == 0
    assert path.read_text() == command("key", "show").stdout
    assert "seed" not in path.read_text()
    assert command("key", "export", path).returncode == 1
