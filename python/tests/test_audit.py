"""The audit log: off by default, and never an obstacle to reading."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import pytest
from people import CPP, LUA, OUT, A, read, refused
from stored_records import put_record, record_of


def lines(path: Path) -> list[dict[str, Any]]:
    """Returns the entries of the log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_is_off_unless_it_is_switched_on(
    attach: Any, scene: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = scene(a=A)
    attach(file, "lua", LUA, OUT)
    before = sorted(config.rglob("*"))
    assert read(file)[0] == 7
    assert not (tmp_path / "state").exists()
    assert sorted(config.rglob("*")) == before


@pytest.mark.parametrize("how", ["variable", "path", "toml"])
def test_the_log_has_a_line_for_each_dataset_and_verdict(
    how: str, attach: Any, scene: Any, adas: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = tmp_path / "state" / "hyperchunk" / "audit.jsonl"
    if how == "variable":
        monkeypatch.setenv("HYPERCHUNK_AUDIT", "1")
    elif how == "path":
        log = tmp_path / "log.jsonl"
        monkeypatch.setenv("HYPERCHUNK_AUDIT", str(log))
    else:
        (config / "hyperchunk" / "audit.toml").write_text("version = 1\nenabled = true\n")
    file = scene(a=A)
    attach(file, "lua", LUA, OUT)
    attach(file, "lua", 'function dynamic_dataset() error("no") end', "bad:1:double")
    native = adas("cpp", CPP)
    for _ in range(3):
        assert read(file)[0] == 7
        with pytest.raises(OSError, match="no"):
            read(file, "bad")
        refused(native)
    rows = lines(log)
    told = [(row["dataset"], row["verdict"], row["profile"], row["language"]) for row in rows]
    assert told == [
        ("/out", "computed", "self", "lua"),
        ("/bad", "failed", "self", "lua"),
        ("/out", "refused", "untrusted", "c++"),
    ]
    assert rows[0]["file"] == str(file)
    assert rows[0]["key"].startswith("SHA256:")
    assert rows[0]["pid"] == os.getpid()
    assert rows[0]["time"].endswith("Z")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_changed_record_is_in_the_log(
    attach: Any, scene: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = scene(a=A)
    attach(file, "lua", LUA, OUT)
    with h5py.File(file, "r+") as opened:
        put_record(opened["out"], record_of(opened["out"]).replace(b"= 7", b"= 8"))
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv("HYPERCHUNK_AUDIT", str(log))
    refused(file, "it was changed")
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.HyperchunkError, match="it was changed"):
        opened["out"][0]
    # The plugin and the engine are two libraries, each with its own log handle on the same file.
    for row in lines(log):
        assert (row["verdict"], row["dataset"], row["key"]) == ("refused", "/out", None)
        assert "it was changed" in row["reason"]


def test_a_log_that_cannot_be_written_keeps_nobody_from_reading(
    attach: Any, scene: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Path
) -> None:
    file = scene(a=A)
    attach(file, "lua", LUA, OUT)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for where in ("/no/such/folder/log", "relative", "/dev/null", str(tmp_path), str(tmp_path / "link")):
        monkeypatch.setenv("HYPERCHUNK_AUDIT", where)
        copy = scene(f"{len(where)}.h5", a=A)
        attach(copy, "lua", LUA, OUT)
        assert read(copy)[0] == 7
    assert not (tmp_path / "elsewhere").exists()
    (config / "hyperchunk" / "audit.toml").write_text("nonsense")
    monkeypatch.delenv("HYPERCHUNK_AUDIT")
    assert read(file)[0] == 7


def test_one_file_does_not_push_out_what_others_left(
    attach: Any, scene: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file with many live datasets would rotate the log twice; for each file, only the first are logged."""
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv("HYPERCHUNK_AUDIT", str(log))
    file = scene(a=A)
    for n in range(80):
        hyperchunk.udf.attach(file, outputs=f"e{n}", expression=f"a * 0 + {n}")
    for n in range(80):
        read(file, f"e{n}")
    rows = lines(log)
    assert len(rows) == 64
    assert rows[-1]["verdict"] == "more"
