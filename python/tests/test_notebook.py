"""HTML for notebooks: what it shows, that it is bounded, and that no text of a file becomes markup."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hyperchunk.notebook import MAX_SHOWN
from hyperchunk.notebook_parts import MAX_BARS

BY = "\N{MULTIPLICATION SIGN}"


class Tree(HTMLParser):
    """Checks that elements are closed in order, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.text, self.seen = list[str](), "", set[str]()
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""


ALLOWED = {"style", "div", "details", "summary", "b", "span", "table", "tr", "td", "ul", "li", "svg", "rect"}


def test_files_and_datasets(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "g/x", data=np.zeros((100, 100)), chunks=(50, 100), maxshape=(None, 100), compression="gzip"
        )
        data.attrs["units"], data.attrs["range"] = "K", np.arange(9)
        file["g/soft"], file["g/out"] = h5py.SoftLink("/nowhere"), h5py.ExternalLink("b.h5", "/y")
        file["g/self"] = file["g"]
        file["null"] = h5py.Empty("f4")
        file["rows"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
    file = hyperchunk.open(path)
    found = Tree(file._repr_html_())
    assert found.seen <= ALLOWED
    for text in (
        "a.h5",
        "3 members",
        f"100 {BY} 100 · float64 · chunks 50 {BY} 100 · gzip",
        "soft link to /nowhere",
        "null",
        "compound (a, b)",
    ):
        assert text in found.text
    found = Tree(file["g/x"]._repr_html_())
    for text in (
        "/g/x",
        f"unlimited {BY} 100",
        f"chunked, chunks 50 {BY} 100",
        "78.1 KiB; stored: ",
        "in 2 chunks",
        "times smaller",
        "units",
        "K",
        "[0, 1, 2, 3, 4, 5, …]",
    ):
        assert text in found.text
    assert "members" in Tree(file["g"]._repr_html_()).text
    file.close()
    assert "Closed" in Tree(file._repr_html_()).text


def test_files_that_are_written(tmp_path: Path) -> None:
    with hyperchunk.open(tmp_path / "w.h5", "w") as file:
        file["g/x"] = np.arange(3)
        file.attrs["a"] = 1
        assert "g" in Tree(file._repr_html_()).text
        assert "extent" in Tree(file["g/x"]._repr_html_()).text


def test_texts_of_a_file_are_not_markup(tmp_path: Path) -> None:
    path, evil = tmp_path / "e.h5", "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202e"
    with h5py.File(path, "w") as file:
        group = file.create_group(evil.replace("/", "|"))
        group.attrs[evil] = evil
        group.create_dataset("d" + evil.replace("/", "|"), data=np.zeros(1, [("m<b>", "i4")])).attrs["x"] = evil
        file.attrs[evil] = [evil, evil]
        file["soft"] = h5py.SoftLink("/" + evil)
    file = hyperchunk.open(path)
    for found in (file, *(file[name] for name in file if name != "soft")):
        tree = Tree(found._repr_html_())
        assert tree.seen <= ALLOWED
        assert "\x1b" not in tree.text
        assert "\u202e" not in tree.text


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202e".replace("/", "|")


def checked(found: object) -> str:
    """Returns the text of an object's HTML, in which nothing of a file is markup or a control character."""
    tree = Tree(found._repr_html_())  # type: ignore[attr-defined]
    assert tree.seen <= ALLOWED
    assert "\x1b" not in tree.text
    assert "\u202e" not in tree.text
    return tree.text


def test_tables(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file[f"x{EVIL}"] = np.arange(1000.0)
        file.create_dataset("y", data=np.arange(1000), chunks=(100,), compression="gzip")
        file["names"] = np.array([EVIL.encode()] * 1000)
    file = hyperchunk.open(tmp_path / "t.h5")
    table = file.table()
    text = checked(table)
    for part in ("Table", "1,000 rows", "3 columns", "Float64", "Int64", "decoded on access", "x<script>"):
        assert part in text
    assert "1 column" in checked(table["y"][:10])
    pytest.importorskip("pyarrow")
    import pyarrow.compute as pc

    table.to_dataset().to_table(filter=pc.field("y") > 990)
    assert "last filter" in checked(table)
    file.close()
    assert "Table" in checked(table)


def test_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    frame = pandas.DataFrame({"a": [1, 2, 3], "<b>": [1.5, 2.5, 3.5]})
    frame.to_hdf(tmp_path / "p.h5", key="df", format="table")
    found = hyperchunk.open(tmp_path / "p.h5").group("df").table()
    text = checked(found)
    for part in ("Frame", "pandas", "3 rows", "index", "<b>", "a"):
        assert part in text
    assert "the rows of a condition" in checked(found.where("index > 1"))  # type: ignore[attr-defined]


def test_queries_and_statistics(tmp_path: Path) -> None:
    path = tmp_path / "q.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(EVIL, data=np.sin(np.arange(2_000_000) / 1e5), chunks=(10_000,))
        file["nan"] = np.full(10, np.nan)
        file["large"] = np.array([-1.7e308, 1.7e308])
        file["infinite"] = np.array([-np.inf, np.inf])
        file["same"] = np.full(10, 7)
    assert "minimum to maximum" not in checked(hyperchunk.open(path)[EVIL])
    hyperchunk.analyze(path)
    file = hyperchunk.open(path)
    dataset = file.dataset(EVIL)
    assert "minimum to maximum of each zone: -1 to 1, " in checked(dataset)
    assert 2 <= dataset._repr_html_().count("<rect") <= MAX_BARS
    assert "minimum to maximum" in checked(dataset.zones())
    assert "7 to 7, 1 zone" in checked(file["same"])
    assert "-1.7e+308 to 1.7e+308" in checked(file["large"])
    assert "no statistics" in checked(file.dataset("nan").zones())
    checked(file["infinite"])
    query = dataset.query("value > 0.9")
    text = checked(query)
    for part in ("Query", "value > 0.9", "may match", " of 15.3 MiB", "part", "scanned until now"):
        assert part in text
    assert "0 parts" in checked(dataset.query("value > 5"))


def test_stores(tmp_path: Path) -> None:
    name = f"/{EVIL}"
    path = tmp_path / "run<b>'.h5"
    run = store.create(path, {name: store.Dataset((8,), "f4", chunks=(4,)), "/b": store.Dataset((2, 2), "i8")})
    text = checked(run)
    for part in ("store", "none: nothing is committed yet", "2 datasets", f"2 {BY} 2 · int64", "float32 · chunks 4"):
        assert part in text
    with run.writer() as writer:
        writer[name][:] = 1
    epoch = run.commit()
    assert "newest epoch1" in checked(run)
    assert "writers1; their logs: " in checked(run)
    assert "Epoch 1" in checked(epoch)
    (manifest,) = Path(f"{path}.d").glob("*.manifest")
    manifest.write_bytes(b"damaged")
    assert "cannot be read" in checked(run)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("large")
    with h5py.File(folder / "flat.h5", "w") as file:
        for number in range(10_000):
            file[f"d{number}"] = number
    with h5py.File(folder / "deep.h5", "w", libver="latest") as file:
        for outer in range(100):
            for inner in range(99):
                file.create_dataset(f"g{outer}/d{inner}", (4, 4), "f8", chunks=(2, 4), compression="gzip")
    return [folder / "flat.h5", folder / "deep.h5"]


def test_ten_thousand_objects(large: list[Path]) -> None:
    """Little time, and a bounded size."""
    for path in large:
        taken = []
        for _ in range(5):
            file = hyperchunk.open(path)
            start = time.process_time()
            html = file._repr_html_()
            taken.append(time.process_time() - start)
            file.close()
        assert min(taken) < 0.3
        assert len(html) < 60_000
        assert html.count("<li") <= 2 * MAX_SHOWN
        assert "more</li>" in html
