"""`hyperchunk.trust`, and the functions of `hyperchunk.udf` that examine live datasets and sign them again."""

import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import pytest
from hdf5_udf_files import compiled, key_file, write
from hyperchunk import trust, udf
from hyperchunk.exceptions import (
    ExistsError,
    InvalidRecordError,
    KeyFileError,
    NotFoundError,
    RefusedError,
    UdfSyntaxError,
    UnsupportedError,
)
from people import CPP, Person, read
from stored_records import put_record, record_of


def test_keys(ada: Person, adas: Any, config: Path, tmp_path: Path) -> None:
    [own] = trust.ls()
    assert (own.profile, own.revoked, own.shared) == ("self", None, False)
    assert trust.profiles() == ["untrusted", "default", "self"]
    native = adas("cpp", CPP)
    for key in (f"{native}:/out", ada.fingerprint):
        added = trust.add(key, "default", name="Ada L.")
        assert (added.fingerprint, added.profile, added.name) == (ada.fingerprint, "default", "Ada L.")
    assert trust.ls() == [own, added]
    assert read(native)[0] == 7
    assert trust.move(ada.fingerprint, "untrusted").profile == "untrusted"
    trust.rm(ada.fingerprint)
    with pytest.raises(NotFoundError, match="is in no profile"):
        trust.rm(ada.fingerprint)
    with pytest.raises(NotFoundError, match="is in no profile"):
        trust.move(ada.fingerprint, "default")
    with pytest.raises(NotFoundError, match="no profile"):
        trust.add(ada.fingerprint, "lab")
    with pytest.raises(RefusedError, match="your own key alone"):
        trust.add(ada.fingerprint, "self")
    with pytest.raises(UdfSyntaxError, match="neither a key file"):
        trust.add("nonsense", "default")
    trust.revoke(ada.fingerprint)
    [_, revoked] = trust.ls()
    assert revoked.profile is None
    assert str(revoked.revoked).startswith("2")
    with pytest.raises(RefusedError, match="revoked"):
        trust.add(ada.fingerprint, "default")
    trust.add(ada.fingerprint, "default", even_if_revoked=True)
    listed = config / "hyperchunk" / "profiles" / "default" / "keys"
    next(listed.iterdir()).write_text("damaged")
    with pytest.raises(KeyFileError):
        trust.ls()
    assert trust.add(key_file(tmp_path), "default").email == "ada@example.org"


def test_a_profile_of_hdf5_udf(tmp_path: Path) -> None:
    rules = tmp_path / "lab.json"
    rules.write_text(json.dumps({"sandbox": True, "syscalls": [{"read": False}], "filesystem": []}))
    tried = trust.import_profile(rules, dry_run=True)
    assert (tried.name, tried.path) == (None, None)
    assert tried.warnings
    made = trust.import_profile(rules)
    assert (made.name, made.toml) == ("lab", tried.toml)
    assert made.path is not None
    assert Path(made.path).read_text() == made.toml
    assert trust.profiles()[-1] == "lab"
    with pytest.raises(ExistsError):
        trust.import_profile(rules)
    with pytest.raises(ExistsError, match="is a built-in profile"):
        trust.import_profile(rules, "default")
    with pytest.raises(hyperchunk.HyperchunkError, match=r"none\.json"):
        trust.import_profile(tmp_path / "none.json")


def test_verify_explain_rebuild(ada: Person, adas: Any, scene: Any, attach: Any) -> None:
    native = adas("cpp", CPP)
    [verdict] = udf.verify(native)
    assert (verdict.path, verdict.signer, verdict.chunks) == ("/out", ada.fingerprint, 1)
    assert (verdict.valid, verdict.runs, verdict.sandbox, verdict.profile) == (True, False, None, None)
    assert "trust add" in str(verdict.reason)
    assert "who calls themselves Ada" in udf.explain(native, "out")
    with pytest.raises(RefusedError, match="--take-over"):
        udf.rebuild(native, "out")
    assert udf.rebuild(native, "out", take_over=True)["backend"] == "C++"
    [verdict] = udf.verify(native, "/out")
    assert (verdict.runs, verdict.profile, verdict.reason) == (True, "self", None)
    assert "seccomp" in str(verdict.sandbox)
    assert "It runs here" in udf.explain(native, "/out")
    for function in (udf.verify, udf.explain, udf.rebuild, udf.convert):
        with pytest.raises(NotFoundError):
            function(native, "none")
    with h5py.File(native, "r+") as file:
        put_record(file["out"], record_of(file["out"]).replace(b"C++", b"C--"))
    [verdict] = udf.verify(native)
    assert (verdict.valid, verdict.runs, verdict.chunks) == (False, False, None)
    with pytest.raises((InvalidRecordError, UnsupportedError)):
        udf.explain(native, "out")


def test_what_hdf5_udf_wrote(scene: Any, tmp_path: Path) -> None:
    text = 'def dynamic_dataset():\n    lib.getData("a")[0] = lib.getData("x")[0] + 1\n'
    file = scene(x=[1, 2])
    code = compiled("py", text, tmp_path)
    write(file, code, "a", [0, 0], inputs=("x",), keep_source=True)
    write(file, code, "b", [0, 0], inputs=("x",))
    first, second = udf.ls(file)
    assert (first.path, first.error, first.profile) == ("/a", None, None)
    assert (first.record["api_version"], first.signer) == (2, second.signer)
    verdicts = udf.verify(file)
    assert [(v.valid, v.runs) for v in verdicts] == [(True, False)] * 2
    trust.add(f"{file}:/a", "default")
    assert [(v.runs, v.profile) for v in udf.verify(file)] == [(True, "default")] * 2
    assert "none of its grants" in udf.explain(file, "a")
    assert udf.convert(file, "a", dry_run=True)[0]["source_code"] == text
    assert udf.show(file, "a").record["api_version"] == 2
    assert udf.convert(file, "a")[0]["api_version"] == 3
    assert udf.show(file, "a").profile == "self"
    assert read(file, "a")[0] == 2
    with pytest.raises(NotFoundError, match="is not stored"):
        udf.convert(file, "b")
    with pytest.raises(UnsupportedError, match="not written by HDF5-UDF"):
        udf.convert(file, "a")
