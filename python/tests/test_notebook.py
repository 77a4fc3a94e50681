"""HTML for notebooks: what it shows, that it is bounded, and that no text of a file becomes markup."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.notebook import MAX_SHOWN

BY = "\N{MULTIPLICATION SIGN}"

VOID = {"br"}


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


ALLOWED = {"style", "div", "details", "summary", "b", "span", "table", "tr", "td", "ul", "li"}


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
    """At most 20 ms of the processor, and a bounded size."""
    for path in large:
        taken = []
        for _ in range(5):
            file = hyperchunk.open(path)
            start = time.process_time()
            html = file._repr_html_()
            taken.append(time.process_time() - start)
            file.close()
        assert min(taken) < 0.02
        assert len(html) < 60_000
        assert html.count("<li") <= 2 * MAX_SHOWN
        assert "more</li>" in html
