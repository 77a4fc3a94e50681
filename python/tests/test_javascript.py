"""The npm package in Node and in Chromium: values equal h5py's and the corpus's, requests are few, errors are errors.

Skipped without Node 20 or newer, and until `make npm` has built the WebAssembly module.
"""

from __future__ import annotations

import collections
import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from node_package import PACKAGE, lacking
from range_server import RangeServer, serve

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

#: Objects of the corpus that the package reads otherwise than the oracle, by file and reason.
KNOWN = {
    r"": "Untested: numbers of 16 bytes",  # returned as Float64Array, and so rounded
    r"attr-u16\.h5": "Unsupported: integers of 128 bits",
    # libhdf5 leaves the rest as it was in memory.
    r"cve-2025-44904\.h5": "Filter: the chunk has 38 bytes after its filters",
    r"cve-2020-18494\.h5": "different",  # a reference that leads nowhere, of which the oracle has no address
    r"times-nested-be\.h5": "different",  # times, which the oracle has only as stored
}


pytestmark = pytest.mark.skipif(lacking() is not None, reason=str(lacking()))

Answers = Callable[..., list[dict[str, Any]]]


def node(script: str, lines: list[str], seconds: int = 60) -> list[dict[str, Any]]:
    """Runs a script of the package with lines as its input; returns the JSON that it prints."""
    done = subprocess.run(
        ["node", str(PACKAGE / "test" / script)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    return node("values.mjs", [json.dumps(request) for request in requests])


def expected(values: Any) -> Any:
    """Returns an array of h5py's as the script prints the package's values."""
    array = np.asarray(values)
    if array.dtype.names:
        return {name: expected(array[name]) for name in array.dtype.names}
    if array.dtype == object or h5py.check_string_dtype(array.dtype):
        flat = array.ravel().tolist()
        if all(isinstance(item, bytes | str) for item in flat):
            return [item.decode() if isinstance(item, bytes) else item for item in flat]
        return [expected(item) for item in flat]
    if array.dtype.kind == "S":
        return [item.decode() for item in array.ravel().tolist()]
    if array.dtype.kind == "V":
        return [{"array": "Uint8Array", "items": list(item.tobytes())} for item in array.ravel()]
    if array.dtype.kind == "c":  # stored as a compound
        return {"r": expected(array.real), "i": expected(array.imag)}
    if array.dtype.kind == "b":
        array = array.astype("i1")
    kind, size = array.dtype.kind, array.dtype.itemsize
    names = {"f": "Float", "i": "Int", "u": "Uint"}
    bits = 32 if (kind, size) == ("f", 2) else 8 * size
    name = f"{'Big' if bits == 64 and kind != 'f' else ''}{names[kind]}{bits}Array"

    def item(value: Any) -> Any:
        if isinstance(value, float) and not np.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        return str(value) if name.startswith("Big") else value

    return {"array": name, "items": [item(value) for value in array.ravel().tolist()]}


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a dataset of each type."""
    path = tmp_path_factory.mktemp("types") / "types.h5"
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for order in "<>":
            for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
                limits = np.iinfo(name)
                file[f"{name}{order}"] = rng.integers(limits.min, limits.max, (3, 4), name).astype(f"{order}{name}")
            for name in ("f2", "f4", "f8"):
                numbers = rng.normal(size=(3, 4)).astype(f"{order}{name}")
                numbers[0] = [np.nan, np.inf, -np.inf, 0]
                file[f"{name}{order}"] = numbers
        file["bool"] = np.array([True, False, True])
        file["complex"] = rng.normal(size=5) + 1j * rng.normal(size=5)
        file["fixed"] = np.array([b"a", b"", b"longer"], "S6")
        file["variable"] = ["Z\u00fcrich", "", "\u6771\u4eac"]
        file["opaque"] = np.frombuffer(b"abcdef", "V3")
        file["compound"] = np.array([(1, 2.5, b"x", [1, 2]), (3, np.nan, b"", [3, 4])], "u1,>f8,S2,2i2")
        file.create_dataset("sequences", (3,), h5py.vlen_dtype("i4"))
        file["sequences"][:] = [np.array([1, 2], "i4"), np.array([], "i4"), np.array([3], "i4")]
        nested = np.dtype([("id", "i8"), ("name", h5py.string_dtype())])
        file["nested"] = np.array([(1, "one"), (2**60, "two")], nested)
        file["scalar"] = 7
        file["empty"] = h5py.Empty("f4")
        file["none"] = np.zeros((0, 5))
        file.attrs["title"] = "Messung"
        file.attrs["range"] = np.array([1, 2], "i2")
        file.attrs["names"] = ["a", "b"]
    return path


def test_values_of_each_type_equal_h5pys(types: Path) -> None:
    with h5py.File(types) as file:
        names = [name for name in file if name != "empty"]
        answers = ask(*({"open": str(types), "path": name} for name in names))
        for name, answer in zip(names, answers, strict=True):
            dataset = file[name]
            values = dataset.asstr()[()] if h5py.check_string_dtype(dataset.dtype) else dataset[()]
            assert answer["value"]["data"] == expected(values), name
            assert answer["value"]["shape"] == list(dataset.shape), name


def test_null_dataspaces_attributes_and_lists(types: Path) -> None:
    empty, attributes, keys, links = ask(
        {"open": str(types), "path": "empty"},
        {"open": str(types), "call": "attributes"},
        {"open": str(types), "call": "keys"},
        {"open": str(types), "call": "members"},
    )
    assert empty["value"]["data"] is None
    assert attributes["value"] == {
        "title": "Messung",
        "range": {"array": "Int16Array", "items": [1, 2]},
        "names": ["a", "b"],
    }
    with h5py.File(types) as file:
        assert keys["value"] == list(file)
    assert {link["name"]: link["kind"] for link in links["value"]} == dict.fromkeys(keys["value"], "dataset")


FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "lzf": {"compression": "lzf"},
    "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "scaled": {"scaleoffset": 0},
}


@pytest.fixture(scope="module")
def chunked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chunked") / "chunked.h5"
    with h5py.File(path, "w") as file:
        for name, options in FILTERS.items():
            numbers = np.arange(70 * 50, dtype="i4").reshape(70, 50)
            file.create_dataset(name, data=numbers, chunks=(16, 12), **options)
        file.create_dataset("part", (70, 50), "f4", chunks=(16, 12), fillvalue=-1)[20:30, 5:40] = 2
    return path


def test_boxes_and_steps(chunked: Path) -> None:
    boxes: list[dict[str, list[int]]] = [
        {},
        {"start": [3, 7], "count": [20, 30]},
        {"start": [1, 2], "step": [3, 5]},
        {"start": [69, 49], "count": [1, 1]},
        {"start": [5, 5], "count": [0, 3]},
        {"start": [2, 3], "count": [4, 5], "step": [16, 7]},
    ]
    names = [*FILTERS, "part"]
    requests = [{"open": str(chunked), "path": name, "read": box} for name in names for box in boxes]
    answers = iter(ask(*requests))
    with h5py.File(chunked) as file:
        for name in names:
            for box in boxes:
                start, step = box.get("start", [0, 0]), box.get("step", [1, 1])
                index = tuple(slice(s, None, by) for s, by in zip(start, step, strict=True))
                values = file[name][index]
                if "count" in box:
                    values = values[tuple(slice(0, n) for n in box["count"])]
                answer = next(answers)
                assert answer["value"]["data"] == expected(values), (name, box)
                assert answer["value"]["shape"] == list(values.shape)


def test_registered_filters(tmp_path: Path) -> None:
    """Filters that h5py lacks, written by Hyperchunk."""
    filters: dict[str, Any] = {
        "zstd": [(32015, [3])],
        "lz4": [(32004, [])],
        "blosc": [(32001, [2, 2, 4, 0, 5, 1, 5])],
        "bitshuffle": [(32008, [0, 2])],
        "bzip2": [(307, [9])],
        "snappy": "snappy",
        "small": "small",
    }
    numbers = np.random.default_rng(9).integers(0, 50, (90, 110), "i4")
    with hyperchunk.open(tmp_path / "filters.h5", "w") as file:
        for name, chosen in filters.items():
            file.create_dataset(name, data=numbers, chunks=(32, 40), filters=chosen)
    answers = ask(*({"open": str(tmp_path / "filters.h5"), "path": name} for name in filters))
    for name, answer in zip(filters, answers, strict=True):
        assert answer.get("value", answer).get("data") == expected(numbers), (name, answer.get("error"))


def test_mistakes_are_errors_of_a_kind(chunked: Path, tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no HDF5 here" * 100)
    whole = chunked.read_bytes()
    (tmp_path / "short.h5").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray(whole)
    with h5py.File(chunked) as file:
        place = file["all"].id.get_chunk_info(0).byte_offset
    damaged[place + 20] ^= 0xFF
    (tmp_path / "damaged.h5").write_bytes(damaged)
    name = str(chunked)
    cases = [
        ({"open": name, "path": "nothing/here"}, "NotFound"),
        ({"open": name, "path": "plain", "read": {"start": [70, 0], "count": [1, 1]}}, "Invalid"),
        ({"open": name, "path": "plain", "read": {"start": [1]}}, "Invalid"),
        ({"open": name, "path": "plain", "read": {"step": [0, 1]}}, "Invalid"),
        ({"open": name, "path": "plain", "read": {"start": [-1, 0]}}, "Invalid"),
        ({"open": str(tmp_path / "text.h5")}, "NotHdf5"),
        ({"open": str(tmp_path / "short.h5")}, "Truncated"),
        ({"open": str(tmp_path / "damaged.h5"), "path": "all"}, "Filter"),
        ({"open": "no such thing"}, "Invalid"),
        ({"open": "http://127.0.0.1:9/x.h5"}, "Io"),
    ]
    answers = ask(*(case for case, _ in cases))
    assert [answer["error"]["kind"] for answer in answers] == [kind for _, kind in cases]
    assert all(answer["error"]["name"] == "HyperchunkError" for answer in answers)
    assert answers[7]["error"]["object"] == "/all"
    assert answers[7]["error"]["offset"] == place


def test_a_live_dataset_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "live.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(6.0)
    hyperchunk.udf.attach(path, outputs="b", expression="a * 2", unsigned=True)
    (answer,) = ask({"open": str(path), "path": "b"})
    assert answer["error"]["kind"] == "Unsupported"
    assert "live dataset" in answer["error"]["message"]


def test_files_over_http_and_files_that_they_lead_to(chunked: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with h5py.File(tmp_path / "sub" / "source.h5", "w") as file:
        file["x"] = np.arange(100)
    with h5py.File(tmp_path / "main.h5", "w") as file:
        file["link"] = h5py.ExternalLink("sub/source.h5", "/x")
        file["gone"] = h5py.ExternalLink("nothing.h5", "/x")
        file["out"] = h5py.ExternalLink("../elsewhere.h5", "/x")
        layout = h5py.VirtualLayout((2, 100), "i8")
        layout[0] = layout[1] = h5py.VirtualSource("sub/source.h5", "x", (100,))
        file.create_virtual_dataset("virtual", layout)
    shutil.copy(chunked, tmp_path / "chunked.h5")
    with serve(data=tmp_path) as server:
        url = f"{server.url}/data/main.h5"
        link, virtual, gone, out = ask(*({"open": url, "path": name} for name in ("link", "virtual", "gone", "out")))
        assert link["value"]["data"] == expected(np.arange(100))
        assert virtual["value"]["data"] == expected(np.tile(np.arange(100), 2))
        assert gone["error"]["kind"] == "NotFound"
        assert "error" in out
        assert server.requests("/elsewhere.h5") == []
        server.no_ranges = True
        (whole,) = ask({"open": f"{server.url}/data/chunked.h5", "path": "gzip"})
        assert whole["value"]["data"]["items"] == list(range(3500))


def test_reads_side_by_side(chunked: Path, tmp_path: Path) -> None:
    shutil.copy(chunked, tmp_path / "chunked.h5")
    with h5py.File(tmp_path / "main.h5", "w") as file:
        for name in FILTERS:
            file[name] = h5py.ExternalLink("chunked.h5", name)
    with serve(data=tmp_path) as server:
        script = f"""
            import {{ open }} from '{PACKAGE / "src" / "index.js"}';
            const files = await Promise.all([1, 2].map(() => open('{server.url}/data/main.h5')));
            const names = {json.dumps(list(FILTERS))};
            const read = async (file, name, row) => {{
                const {{ data }} = await (await file.get(name)).read({{ start: [row, 0], count: [10, 50] }});
                return data.every((value, at) => value === row * 50 + at);
            }};
            const rows = (file, name) => [0, 7, 60].map((row) => read(file, name, row));
            const reads = files.flatMap((file) => names.flatMap((name) => rows(file, name)));
            console.log((await Promise.all(reads)).every(Boolean), reads.length);
        """
        done = subprocess.run(
            ["node", "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.stdout.strip() == f"true {2 * 3 * len(FILTERS)}", done.stderr


def test_the_package_has_the_version_of_the_crates() -> None:
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    package = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == crates["workspace"]["package"]["version"]


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["x"] = np.zeros(1_000_000)
    with serve(data=tmp_path) as server:
        url = f"{server.url}/data/big.h5"
        script = f"""
            import {{ open }} from '{PACKAGE / "src" / "index.js"}';
            const file = await open('{url}');
            await fetch('{server.url}/next', {{ method: 'POST', body: 'opened' }});
            const go = await fetch('{server.url}/go');
            try {{
                await (await file.get('x')).read();
                console.log('read');
            }} catch (error) {{
                console.log(error.kind);
            }}
        """
        server.pages["/go"] = ""
        server.versions["/data/big.h5"] = '"one"'
        with subprocess.Popen(
            ["node", "--input-type=module", "-e", script], stdout=subprocess.PIPE, text=True
        ) as process:
            assert server.results.get(timeout=30) == "opened"
            server.versions["/data/big.h5"] = '"two"'
            output, _ = process.communicate(timeout=30)
        assert output.strip() == "Changed"


def gigabyte(path: Path) -> np.ndarray:
    """Makes a sparse file of 1 GiB in 4096 chunks; returns the values of a box in it."""
    with h5py.File(path, "w", libver="latest") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((256, 256))
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((16384, 16384))
        h5py.h5d.create(file.id, b"image", h5py.h5t.IEEE_F32LE, space, creation)
        box = np.random.default_rng(5).random((300, 400), "f4")
        file["image"][1000:1300, 2000:2400] = box
        file["image"].attrs["units"] = "K"
        for number in range(20):
            file.create_group(f"group{number}")["values"] = np.arange(number)
    assert path.stat().st_size > 1 << 30
    return box


def test_few_requests_for_a_large_file(tmp_path: Path) -> None:
    box = gigabyte(tmp_path / "large.h5")
    with serve(data=tmp_path) as server:
        url = f"{server.url}/data/large.h5"
        read = {"start": [1000, 2000], "count": [300, 400]}
        (answer,) = ask({"open": url, "path": "image", "read": read})
        assert answer["value"]["data"] == expected(box)
        asked = server.requests("/data/large.h5")
        assert answer["all"]["requests"] == len(asked)
        assert len(asked) <= 12
        assert answer["all"]["rounds"] <= 5
        assert answer["all"]["bytes"] < 4 << 20


PAGE = """<!DOCTYPE html><script type="module">
import { open } from '/package/src/index.js';
const answer = {};
try {
  const file = await open('/data/large.h5');
  answer.opened = { ...file.statistics };
  answer.tree = (await file.root.members()).map((member) => [member.name, member.kind, member.shape ?? null]);
  answer.listed = { ...file.statistics };
  const image = await file.get('image');
  answer.attributes = { ...(await image.attributes()) };
  const { data, shape } = await image.read({ start: [1000, 2000], count: [300, 400] });
  answer.shape = shape;
  answer.array = data.constructor.name;
  answer.items = Array.from(data);
  answer.read = { ...file.statistics };
  const blob = new File([await (await fetch('/data/small.h5')).arrayBuffer()], 'small.h5');
  answer.small = Array.from((await (await (await open(blob)).get('x')).read()).data, Number);
} catch (error) {
  answer.error = `${error.kind}: ${error.message}`;
}
await fetch('/result', { method: 'POST', body: JSON.stringify(answer) });
</script>"""


def in_chromium(server: RangeServer, page: str, profile: Path, *options: str) -> None:
    """Opens a page until it has sent its result."""
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --disable-dev-shm-usage"
    command = [str(CHROMIUM), *flags.split(), f"--user-data-dir={profile}", *options, f"{server.url}{page}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            text = server.results.get(timeout=90)
            server.results.put(text)
        finally:
            browser.terminate()
            browser.wait(30)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")
def test_a_page_in_chromium_reads_a_tree_and_a_slice(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    box = gigabyte(data / "large.h5")
    with h5py.File(data / "small.h5", "w") as file:
        file.create_dataset("x", data=np.arange(10), compression="gzip", chunks=(4,))
    with serve(data=data, package=PACKAGE) as server:
        server.pages["/"] = PAGE
        in_chromium(server, "/", tmp_path / "profile")
        answer = json.loads(server.results.get_nowait())
        asked = server.requests("/data/large.h5")
    assert "error" not in answer, answer["error"]
    tree = {name: (kind, shape) for name, kind, shape in answer["tree"]}
    assert tree == {"image": ("dataset", [16384, 16384])} | {f"group{n}": ("group", None) for n in range(20)}
    assert answer["attributes"] == {"units": "K"}
    assert (answer["array"], answer["shape"]) == ("Float32Array", [300, 400])
    assert np.array_equal(np.array(answer["items"], "f4"), box.ravel())
    assert answer["small"] == list(range(10))
    print(f"chromium: {answer['opened']}, {answer['listed']}, {answer['read']}")
    assert answer["read"]["requests"] == len(asked) <= 14
    assert answer["read"]["bytes"] < 4 << 20


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")
def test_the_viewer_shows_a_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with h5py.File(data / "scene.h5", "w") as file:
        image = np.hypot(*np.mgrid[-1:1:300j, -1:1:300j])
        file.create_dataset("image", data=image.astype("f4"), chunks=(100, 100), compression="gzip")
        file["image"].attrs["units"] = "metres per fortnight"
        file["group/names"] = ["east", "west"]
    with serve(data=data, package=PACKAGE) as server:
        page = (PACKAGE / "viewer.html").read_text(encoding="utf-8")
        report = "await fetch('/result', { method: 'POST', body: document.body.innerText });"
        server.pages["/package/viewer.html"] = page.replace("    document.body.dataset.ready = 'true';", report)
        url = f"/package/viewer.html?url={server.url}/data/scene.h5&path=/image"
        in_chromium(server, url, tmp_path / "profile")
        text = server.results.get_nowait()
    for part in (
        "image 300 \u00d7 300",
        "▸ group",
        "float32",
        "chunks of 100 \u00d7 100",
        "deflate",
        "metres per fortnight",
    ):
        assert part in text, text
    assert re.search(r"\d+ requests, [\d,]+ bytes", text)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_the_corpus_reads_as_the_oracle_says() -> None:
    spec = importlib.util.spec_from_file_location("corpus_check", CORPUS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    with gzip.open(CORPUS / "oracle.jsonl.gz", "rt") as lines:
        oracle = [json.loads(line) for line in lines]
    oracle = [one for one in oracle if (CORPUS / "files" / one["path"]).exists()]
    paths = [str(CORPUS / "files" / one["path"]) for one in oracle]
    found = {answer["path"]: answer for answer in node("digest.mjs", paths, seconds=280)}
    score, wrong = collections.Counter[bool](), list[str]()
    for one, path in zip(oracle, paths, strict=True):
        got = found[path]
        for what, right in check.judge(one, "error" if "error" in got else "ok", utf8_or_latin1(got, one)):
            score[right] += 1
            reason = "" if right else reason_of(got, what)
            known = any(re.search(name, path) and reason.startswith(why) for name, why in KNOWN.items())
            if not right and not known:
                wrong.append(f"{one['path']}: {what}: {reason}")
    assert wrong == []
    rate = score[True] / score.total()
    print(f"corpus: {score[True]} of {score.total()} right, {100 * rate:.2f} %")
    assert score.total() > 10_000
    assert rate > 0.998


def utf8_or_latin1(got: dict[str, Any], oracle: dict[str, Any]) -> dict[str, Any]:
    """Chooses the digest of texts as Latin-1 where that is the oracle's: both texts are the same in JavaScript."""
    for path, one in got["objects"].items():
        wanted = oracle.get("objects", {}).get(path, {})
        pairs = [(one, wanted)]
        pairs += [(attr, (wanted.get("attrs") or {}).get(name, {})) for name, attr in one.get("attrs", {}).items()]
        for mine, other in pairs:
            if mine.get("latin1") in (other.get("sha"), other.get("rawsha")):
                mine["digest"] = mine.get("latin1")
    return got


def reason_of(got: dict[str, Any], what: str) -> str:
    """Returns the error in place of an object or attribute that is not as the oracle says."""
    kind, _, path = what.partition(" ")
    path, _, name = path.partition("@") if kind == "attribute" else (path, "", "")
    one = got["objects"].get(path, {})
    if kind == "attribute":
        one = one.get("attrs", {}).get(name, one)
    return str(one.get("error", "different"))
