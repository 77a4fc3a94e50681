"""System-wide configuration by an administrator: shared profiles and keys, keys revoked for all, a policy."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperchunk
import pytest
from fresh import HYPERCHUNK, environment
from people import CPP, Person, read, refused

VARIABLE = "HYPERCHUNK_SYSTEM_CONFIG"
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the administrator."""
    folder = tmp_path / "etc" / "hyperchunk"
    (folder / "profiles").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.fixture
def at_site(config: Path, site: Path) -> Command:
    """The ``hyperchunk`` command with this configuration."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(HYPERCHUNK), *map(str, arguments)]
        variables = environment(config, **{VARIABLE: str(site)})
        return subprocess.run(words, env=variables, capture_output=True, text=True, check=False)

    return run


def share(site: Path, person: Person, profile: str) -> Path:
    """Puts a key into a shared profile."""
    folder = site / "profiles" / profile / "keys"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (person.fingerprint.removeprefix("SHA256:") + ".pub")
    assert person("key", "export", path).returncode == 0
    return path


def policy(site: Path, text: str) -> None:
    """Writes the policy."""
    (site / "policy.toml").write_text(f"version = 1\n{text}\n")


def test_a_key_that_is_trusted_for_everybody(
    site: Path, ada: Person, adas: Any, at_site: Command, config: Path
) -> None:
    native = adas("cpp", CPP)
    refused(native, "no profile but `untrusted` knows")
    key = share(site, ada, "lab")
    refused(native, "profile lab")
    (site / "profiles" / "lab" / "profile.toml").write_text("version = 1\n[limits]\nwall_s = 7\n")
    assert read(native)[0] == 7
    with hyperchunk.open(native) as file:
        assert file["out"][0] == 7
    assert f"{ada.fingerprint}\tlab (for everybody)\tAda" in at_site("trust", "ls").stdout
    [row] = [r for r in json.loads(at_site("trust", "ls", "--json").stdout) if r["shared"]]
    assert (row["fingerprint"], row["profile"]) == (ada.fingerprint, "lab")
    assert "7 s" in at_site("udf", "explain", f"{native}:/out").stdout

    # The user's own settings take precedence: less trust, more, or none.
    done = at_site("trust", "rm", ada.fingerprint)
    assert (done.returncode, "this machine's administrator" in done.stderr) == (1, True)
    assert at_site("trust", "move", ada.fingerprint, "untrusted").returncode == 0
    refused(native, "profile untrusted")
    assert at_site("trust", "move", ada.fingerprint, "default").returncode == 0
    assert "60 s" in at_site("udf", "explain", f"{native}:/out").stdout
    assert at_site("trust", "rm", ada.fingerprint).returncode == 0
    assert read(native)[0] == 7
    assert at_site("trust", "revoke", ada.fingerprint).returncode == 0
    refused(native, "was revoked")
    assert key.exists()


def test_a_user_adds_to_a_shared_profile(site: Path, config: Path, ada: Person, adas: Any, at_site: Command) -> None:
    native = adas("cpp", CPP)
    share(site, ada, "lab")
    (site / "profiles" / "lab" / "profile.toml").write_text('version = 1\n[limits]\nwall_s = 7\nmemory = "1GiB"\n')
    own = config / "hyperchunk" / "profiles" / "lab"
    own.mkdir(parents=True)
    (own / "profile.toml").write_text("version = 1\n[limits]\nwall_s = 5\n")
    said = at_site("udf", "explain", f"{native}:/out").stdout
    assert "5 s" in said
    assert "1024 MiB" in said
    policy(site, "[limits]\nwall_s = 3")
    assert "3 s" in at_site("udf", "explain", f"{native}:/out").stdout
    policy(site, "user_profiles = false")
    assert "7 s" in at_site("udf", "explain", f"{native}:/out").stdout


def test_a_key_that_is_revoked_for_everybody(site: Path, ada: Person, adas: Any, at_site: Command) -> None:
    native = adas("cpp", CPP)
    assert at_site("trust", "add", f"{native}:/out", "--profile", "default").returncode == 0
    assert read(native)[0] == 7
    (site / "revoked").mkdir()
    mark = site / "revoked" / ada.fingerprint.removeprefix("SHA256:")
    mark.write_text(f"hyperchunk-revoked-key-v1\nfingerprint {ada.fingerprint}\nname Ada\nsince 2026-01-02\n")
    refused(native, "(Ada) was revoked on 2026-01-02", "administrator removes", str(mark))
    mark.write_text("")
    refused(native, "was revoked")
    assert any(r["revoked"] is not None and r["shared"] for r in json.loads(at_site("trust", "ls", "--json").stdout))


def test_a_policy(site: Path, ada: Person, adas: Any, at_site: Command, attach: Any, scene: Any) -> None:
    native, lua = adas("cpp", CPP), adas(name="lua.h5")
    assert read(lua)[0] == 7
    policy(site, 'strangers = "refuse"')
    refused(lua, "runs nothing", "administrator", "policy.toml", ada.fingerprint)
    # Expressions are always allowed; the user's own functions run.
    file = scene(A=[1.0, 2.0])
    hyperchunk.udf.attach(file, None, ["out"], expression="A * 2", unsigned=True)
    attach(file, "lua", "function dynamic_dataset() lib.getData('own')[1] = 3 end", "own:1:int32")
    assert read(file)[1] == 4
    assert read(file, "own")[0] == 3

    policy(site, "user_profiles = false")
    done = at_site("trust", "add", f"{native}:/out", "--profile", "default")
    assert (done.returncode, "administrator keeps the lists" in done.stderr) == (1, True)
    refused(native, "profile untrusted")
    share(site, ada, "default")
    assert read(native)[0] == 7
    assert at_site("trust", "add", f"{native}:/out", "--profile", "untrusted").returncode == 0
    refused(native, "profile untrusted")
    assert at_site("trust", "rm", ada.fingerprint).returncode == 0

    policy(site, 'languages = ["lua"]')
    refused(native, "lets no profile run c++")
    policy(site, "wall = 3")
    for path in (native, lua):
        refused(path, "policy.toml", "wall")
    done = at_site("doctor")
    assert (done.returncode, "not usable, so nothing runs" in done.stdout) == (1, True)
    policy(site, 'languages = ["lua"]')
    assert f"system     {site}: languages: lua" in at_site("doctor").stdout


@pytest.mark.parametrize("where", ["policy.toml", "profiles/default/profile.toml", "."])
def test_what_others_can_write_decides_nothing(site: Path, ada: Person, adas: Any, where: str) -> None:
    native = adas("cpp", CPP)
    share(site, ada, "default")
    assert read(native)[0] == 7
    path = site / where
    if path.name.endswith(".toml"):
        path.write_text("version = 1\n")
        path.chmod(0o666)
    else:
        path.chmod(0o777)
    refused(native, "others can")
    path.chmod(0o755)


def test_an_audit_log_for_everybody(
    site: Path, config: Path, adas: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (site / "audit.toml").write_text("version = 1\nenabled = true\n")
    assert read(adas(name="logged.h5"))[0] == 7
    log = tmp_path / "state" / "hyperchunk" / "audit.jsonl"
    [line] = [json.loads(t) for t in log.read_text().splitlines() if "logged.h5" in t]
    assert line["verdict"] == "computed"
    (config / "hyperchunk" / "audit.toml").write_text("version = 1\nenabled = false\n")
    assert read(adas(name="unlogged.h5"))[0] == 7
    assert "unlogged.h5" not in log.read_text()
