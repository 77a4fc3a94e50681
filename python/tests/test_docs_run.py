"""Every snippet of the pages, alone in an empty folder with the inputs that its page names. A snippet that continues
or follows another one runs after it.

The comments above a snippet say how it runs: ``docs_pages.py`` has the list. ``python test_docs_run.py`` prints the
number of snippets of each page, and the reasons of those that do not run.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docs_pages
import pytest
from docs_inputs import INPUTS
from docs_pages import Snippet
from fresh import HYPERCHUNK, environment
from node_package import PACKAGE, lacking

FOUND = {page: docs_pages.snippets(page) for page in docs_pages.PAGES}
SNIPPETS = [snippet for found, _ in FOUND.values() for snippet in found]
FILES = {str(page.relative_to(docs_pages.ROOT)): files for page, (_, files) in FOUND.items()}
#: Seconds that a snippet may take.
TIMEOUT_SECONDS = 300


class BucketHandler(http.server.SimpleHTTPRequestHandler):
    """Reads of objects, as an S3 server answers them to anonymous users."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        data = path.read_bytes() if path.is_file() else None
        if data is None:
            self.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = 0, len(data) - 1
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
        self.send_header("Last-Modified", self.date_time_string(int(path.stat().st_mtime)))
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(data[first : last + 1])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder of buckets, and the URL of a server that reads them."""
    folder = tmp_path_factory.mktemp("buckets")
    handler = functools.partial(BucketHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache folder, except for Zig's libraries, which take a minute to compile."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "hyperchunk" / "zig"
    own.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.mktemp("cache")
    (folder / "hyperchunk").mkdir()
    (folder / "hyperchunk" / "zig").symlink_to(own)
    return folder


def prepare(snippet: Snippet, folder: Path, buckets: Path, running: contextlib.ExitStack) -> None:
    """Makes the inputs that a snippet needs."""
    for need in snippet.needs:
        if need in FILES[snippet.page]:
            (folder / need).write_text(FILES[snippet.page][need])
            continue
        assert need in INPUTS, f"{snippet}: nothing makes {need!r}: add it to docs_inputs.py"
        place = folder
        if need.startswith("s3://"):
            place = buckets / need.removeprefix("s3://").split("/")[0]
            place.mkdir(exist_ok=True)
        end = INPUTS[need](place)
        if end is not None:
            running.callback(end)


def execute(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Runs a program, and fails with its output unless its status is 0."""
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("snippet", docs_pages.ends(SNIPPETS), ids=str)
def test_a_snippet_runs_alone(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: tuple[Path, str], cache: Path
) -> None:
    folder, config = tmp_path / "folder", tmp_path / "empty-config"
    folder.mkdir()
    config.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    env = environment(config) | {
        "PATH": os.pathsep.join([str(HYPERCHUNK.parent), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(cache),
        "AWS_ENDPOINT_URL": buckets[1],
        "AWS_ACCESS_KEY_ID": "reader",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    del env["HDF5_PLUGIN_PATH"]  # a snippet that needs it sets it
    chain = snippet.chain()
    if (reason := lacking()) is not None and any(one.language == "js" for one in chain):
        pytest.skip(reason)
    with contextlib.ExitStack() as running:
        for one in chain:
            prepare(one, folder, buckets[0], running)
        programs = list[tuple[str, str]]()
        for one in chain:
            if one.file is not None:
                (folder / one.file).write_text(one.text)
            if one.file is None or not one.then:  # otherwise the source of a function, which the command runs
                earlier = programs.pop()[1] if one.continues else ""
                programs.append((one.language, earlier + one.text))
            programs += [("sh", then) for then in one.then]
        for language, text in programs:
            if language == "python":
                (folder / "program.py").write_text(text)
                execute([sys.executable, "program.py"], folder, env)
            elif language == "js":
                (folder / "program.mjs").write_text(text)
                (folder / "node_modules").mkdir(exist_ok=True)
                if not (folder / "node_modules" / "hyperchunk").exists():
                    (folder / "node_modules" / "hyperchunk").symlink_to(PACKAGE)
                execute(["node", "program.mjs"], folder, env)
            else:
                execute(["bash", "-euo", "pipefail", "-c", text], folder, env)


def test_a_snippet_that_does_not_run_has_a_reason() -> None:
    assert [str(one) for one in SNIPPETS if one.not_run is not None and len(one.not_run.split()) < 2] == []


def test_pages_have_no_other_names_for_shells() -> None:
    """Blocks of ``bash`` or ``javascript`` would escape the test."""
    others = re.compile(r"^```(bash|shell|zsh|py|python3|pycon|javascript|mjs|ts|typescript)\b", re.MULTILINE)
    assert [str(page) for page in docs_pages.PAGES if others.search(page.read_text(encoding="utf-8"))] == []


def test_messages_in_troubleshooting_are_in_the_code() -> None:
    page = (docs_pages.ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    assert len(messages) > 20
    kinds = ("*/*/src/**/*.rs", "python/src/**/*.rs", "python/hyperchunk/**/*.py")
    sources = [path for kind in kinds for path in docs_pages.ROOT.glob(kind)]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    code = re.sub(r"\\\n\s*", "", code)  # strings that go on in the next line
    code = re.sub(r'"\n\s*f?"', "", code)
    assert [message for message in messages if message not in code] == []


def table() -> Iterator[str]:
    """Yields the lines of a table of the pages."""
    yield f"{'page':<40} snippets  run  not run"
    for page, (found, _) in FOUND.items():
        if found:
            left = Counter(one.not_run for one in found if one.not_run is not None)
            reasons = ", ".join(f"{count} {reason}" for reason, count in left.items())
            name = str(page.relative_to(docs_pages.ROOT))
            yield f"{name:<40} {len(found):>8} {len(found) - left.total():>4}  {reasons}"


if __name__ == "__main__":
    print("\n".join(table()))
