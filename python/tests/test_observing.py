"""Records of the logger ``"hyperchunk"``, ``HYPERCHUNK_LOG``, and spans of OpenTelemetry."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
from hyperchunk import observing, store
from hyperchunk.exceptions import HyperchunkError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100, dtype="i4"), chunks=(10,))
        file["text"] = ["a", "b"]
        file["record"] = np.zeros(3, [("a", "i4")])
    return tmp_path / "a.h5"


def run(program: str, folder: Path, level: str | None) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "HYPERCHUNK_LOG"}
    if level is not None:
        variables["HYPERCHUNK_LOG"] = level
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=True)


PROGRAM = "import hyperchunk; file = hyperchunk.open('a.h5'); file['x'][3:7]; file.close()"


@pytest.mark.parametrize("level", [None, "", "error", "warning"])
def test_nothing_is_logged_unless_asked(path: Path, level: str | None) -> None:
    done = run(PROGRAM, path.parent, level)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_variable_sends_records_to_standard_error(path: Path) -> None:
    done = run(PROGRAM, path.parent, "info")
    (line,) = done.stderr.splitlines()
    assert f" INFO hyperchunk: open of a.h5: driver sec2, bytes {path.stat().st_size:,}, index none, " in line
    assert done.stdout == ""
    lines = run(PROGRAM, path.parent, "DEBUG").stderr.splitlines()
    assert [" DEBUG " in line for line in lines] == [False, True]
    assert "read of a.h5:/x: shape (4,), bytes 16, " in lines[1]


def test_an_unknown_level_is_a_warning(path: Path) -> None:
    done = run(PROGRAM, path.parent, "loud")
    assert "cannot log: expected HYPERCHUNK_LOG to be one of debug, info, warning, error, got 'loud'" in done.stderr


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "hyperchunk"]


def test_commits_and_failures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hyperchunk")
    path = tmp_path / "w.h5"
    with hyperchunk.open(path, "w") as file:
        file["x"] = [1]
        file.flush()
    with hyperchunk.open(path, "r+") as file:
        with file.transaction():
            file.attrs["a"] = 1
        with pytest.raises(ZeroDivisionError), file.transaction():
            file.attrs["b"] = 1 / 0
    with pytest.raises(FileNotFoundError):
        hyperchunk.open(tmp_path / "no\x1b[31m.h5")
    run = store.create(tmp_path / "run.h5", {"/e": store.Dataset((4,), "f4")})
    with run.writer() as writer:
        writer["/e"][:] = 1
    run.commit()
    hyperchunk.index(path)
    hyperchunk.analyze(path)
    found = "\n".join(messages(caplog))
    for part in (
        f"open of {path}: driver sec2",
        f"commit of {path}: closed, ",
        f"commit of {path}: transaction, ",
        f"commit of {path}: a transaction was undone",
        "no\\u{1b}[31m.h5 failed after",
        f"commit of {tmp_path / 'run.h5'}: epoch 1, writers 1, conflicts 0, ",
        f"index of {path}: ",
        f"analyze of {path}: datasets 1, scanned bytes ",
    ):
        assert part in found, part
    assert "\x1b" not in found


def test_a_journal_that_is_applied_is_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Path(f"{path}.redo")
    journal.write_bytes(b"Hyperchunk redo1" + bytes(48))  # incomplete: it is dropped
    with hyperchunk.open(path, "r+") as file:
        file.attrs["a"] = 1
    assert not messages(caplog)
    journal.write_bytes(b"Hyperchunk redo1" + bytes(48))
    caplog.set_level(logging.INFO, "hyperchunk")
    hyperchunk.open(path, "r+").close()
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "an interrupted commit was completed or undone by its journal" in warned[0].getMessage()


def test_secrets_of_urls_are_not_logged() -> None:
    assert observing.shown("https://user:word@host/a.h5?X-Amz-Signature=1&b#c") == "https://host/a.h5"
    assert observing.shown("s3://bucket/a@b.h5") == "s3://bucket/a@b.h5"
    assert observing.shown("/tmp/what?#now@.h5") == "/tmp/what?#now@.h5"


def failure_of(dataset: hyperchunk.Dataset, index: Any) -> str:
    try:
        dataset[index]
    except (HyperchunkError, TypeError, ValueError, IndexError) as error:
        return repr(error)
    raise AssertionError(f"{index!r} is no error")


def test_reads_are_the_same_while_they_are_watched(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    indices: list[Any] = [(), ..., 3, -1, np.s_[2:9:3], [5, 1], np.s_[::-1], np.arange(100) % 7 == 0, np.s_[5:5]]
    dataset = hyperchunk.open(path).dataset("x")
    plain = [dataset[index] for index in indices]
    errors = [100, "a", None, (1, 2)]
    failures = [failure_of(dataset, index) for index in errors]
    caplog.set_level(logging.DEBUG, "hyperchunk")
    for index, expected in zip(indices, plain, strict=True):
        found = dataset[index]
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    assert [failure_of(dataset, index) for index in errors] == failures
    file = dataset.file
    assert dataset.astype("f8")[3:5].tolist() == [3.0, 4.0]
    assert dataset.astype("f8")[3:5].dtype == np.float64
    assert file["text"].asstr()[:].tolist() == ["a", "b"]  # type: ignore[union-attr]
    assert file["record"].fields("a")[1:].tolist() == [0, 0]  # type: ignore[union-attr]
    assert dataset.oindex[[3, 1]].tolist() == [3, 1]
    assert file["record"]["a"].tolist() == [0, 0, 0]
    assert file["text"][1] == b"b"
    assert file.read_many(["x", "text"])[0].tolist() == list(range(100))
    with hyperchunk.open(path, "r+") as edited:
        assert edited["x"][1] == 1
    assert any("read_many of" in message and "datasets 2" in message for message in messages(caplog))


@pytest.fixture
def spans() -> Iterator[Any]:
    """The spans that the SDK of OpenTelemetry collects in memory."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observing.start_spans(provider)
    yield exporter
    observing.stop_spans()


def test_spans(path: Path, spans: Any) -> None:
    with hyperchunk.open(path) as file:
        file["x"][3:7]
        file.read_many(["x", "text"])
    with pytest.raises(FileNotFoundError):
        hyperchunk.open(path.parent / "missing.h5")
    with hyperchunk.open(path, "r+") as file:
        file.attrs["a"] = 1
    found = spans.get_finished_spans()
    names = [span.name.removeprefix("hyperchunk.") for span in found]
    parts = ["plan", "fetch", "convert"]
    assert names == ["open", *parts, "read", *parts, "read_many", "open", "open", "commit"]
    by_id = {span.context.span_id: span for span in found}
    for span in found[1:4]:
        assert by_id[span.parent.span_id].name == "hyperchunk.read"
    read = found[4]
    assert read.attributes["file.path"] == f"{path}:/x"
    assert read.attributes["hyperchunk.bytes"] == 16
    assert read.attributes["hyperchunk.shape"] == "(4,)"
    assert found[9].status.is_ok is False
    observing.stop_spans()
    hyperchunk.open(path)
    assert len(spans.get_finished_spans()) == len(found)


def test_spans_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match=r"cannot make spans: .* pip install 'hyperchunk\[otel\]'"):
        observing.start_spans()
    assert observing.tracer is None
