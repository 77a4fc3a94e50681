"""The check of layers inside the crates (`tools/layers.py`) finds what goes up, and nothing else."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "tools" / "layers.py").exists(), reason="not in a checkout")


@pytest.fixture
def tools(monkeypatch):
    """Makes the modules in tools/ importable, and returns `module_graph` and `layers`."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield importlib.import_module("module_graph"), importlib.import_module("layers")
    for name in ("module_graph", "layers"):
        sys.modules.pop(name, None)


@pytest.fixture
def uses(tools, tmp_path):
    """Returns a function of the files of a crate: the uses between its modules, `user -> used: file:line`."""

    def found(**files: str) -> list[str]:
        for name, text in ({"lib": ""} | files).items():
            path = tmp_path / f"{name.replace('__', '/')}.rs"
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
        arrows = sorted(set(tools[0].Crate(tmp_path).arrows()))
        return [f"{a.user} -> {a.used}: {a.path.relative_to(tmp_path)}:{a.line}" for a in arrows]

    return found


def test_paths_and_trees_of_uses(uses):
    """Paths in code and the branches of `use` count, each at its line."""
    text = "use crate::{\n    b::{X, y::Z},\n    c,\n};\nfn f() { crate::d::g::<u8>(); }\n"
    assert uses(a=text, b="", c="", d="") == ["a -> b: a.rs:2", "a -> c: a.rs:3", "a -> d: a.rs:5"]


def test_super_at_the_top_level(uses):
    """`super` counts where it leads to the root of the crate, from files and from modules inside them."""
    inner = "use super::c::X;\nuse super::super::b::Y;\nmod inner { use super::super::super::c; use super::d; }\n"
    assert uses(a__mod="use super::b;", a__inner=inner, b="", c="", d="") == [
        "a -> b: a/inner.rs:2",
        "a -> b: a/mod.rs:1",
        "a -> c: a/inner.rs:3",
    ]


def test_names_of_the_root(uses):
    """A name that `lib.rs` re-exports belongs to its module; one that it defines to none."""
    lib = "mod b;\npub use b::{inner::X, Old as New};\npub use other::Y;\npub struct Own;\n"
    text = "use crate::X;\nuse crate::Own;\nuse crate::Y;\nuse crate::New;\nuse crate::Old;\n"
    assert uses(lib=lib, a=text, b="") == ["a -> b: a.rs:1", "a -> b: a.rs:4"]


def test_tests_comments_and_strings(uses):
    """Tests, comments and strings are no uses; code after them counts."""
    text = """//! See [`crate::b`].
/* crate::b */ const S: &str = "crate::b \\" {"; const R: &str = r#"use crate::b; " "#; const C: char = '"';
pub(in crate::b) fn f<'a>(x: &'a str) -> char { '\\'' }
#[cfg(test)]
use crate::b;
#[cfg(all(test, unix))]
mod inside { use crate::b; }
#[cfg(test)]
mod far;
use crate::c;
"""
    files = {"a": text, "a__far": "use crate::b;", "a__far__deep": "use crate::b;", "b": "", "c": ""}
    assert uses(**files) == ["a -> c: a.rs:10"]


def test_layers_against_uses(tools, uses, tmp_path):
    """Uses of lower layers and of a group pass; others, and entries of the tables that nothing needs, do not."""
    graph, layers = tools
    uses(low="use crate::high;", one="use crate::two; use crate::low;", two="use crate::one;", side="", high="")
    uses(side="use crate::two;", high="use crate::low;", new="")
    crate = graph.Crate(tmp_path)
    table = ("low gone", "one=two side", "high")
    found = layers.findings(table, {}, crate.modules, crate.arrows())
    advice = "move the shared item to a lower module (tools/layers.py)"
    assert [line.replace(f"{tmp_path}/", "") for line in found] == [
        "the module new has no layer; add it to LAYERS of tools/layers.py",
        f"low.rs:1: low -> high: `high` is not in a layer below `low`; {advice}",
        f"side.rs:1: side -> two: `two` is not in a layer below `side`; {advice}",
    ]
    exceptions = {"low -> high": "…", "side -> two": "…", "one -> high": "…", "gone -> high": "…"}
    assert layers.findings((*table, "new"), exceptions, crate.modules, crate.arrows()) == [
        "one -> high: nothing needs this exception; remove it from tools/layers.py"
    ]


def test_tables_of_the_checkout(tools):
    """A module has one place, and an exception names two modules of its table and a reason."""
    _, layers = tools
    for crate, table in layers.LAYERS.items():
        modules = [module for layer in table for group in layer.split() for module in group.split("=")]
        assert len(modules) == len(set(modules)), crate
        for name, reason in layers.EXCEPTIONS.get(crate, {}).items():
            assert set(name.split(" -> ")) <= set(modules), name
            assert len(reason) > 20, name
    assert set(layers.EXCEPTIONS) <= set(layers.LAYERS)
    assert layers.module_layers(ROOT) == []
