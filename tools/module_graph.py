"""Reads which top-level modules of a Rust crate use which. Tests are left out: they may use anything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Comments, strings and characters. A lifetime (`'a`) is not a character.
OPAQUE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\\n]|\\')'""",
    re.DOTALL,
)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]")
DECLARED_MODULE = re.compile(r"\bmod\s+(\w+)\s*;")
INLINE_MODULE = re.compile(r"\bmod\s+\w+\s*\{")
BRACKET = re.compile(r"[{}\[\]();]")
#: Start of a path. `pub(in crate::x)` and the `$crate` of a macro do not count.
START = re.compile(r"(?<![\w:$])(?<!\bin )(?=(?:crate|self|super)::)")
USE = re.compile(r"\buse\s+")
NAME = re.compile(r"\s*(\w+|\*)(?:\s+as\s+(\w+))?")
#: Colons that continue a path: not those before generic arguments.
COLONS = re.compile(r"\s*::(?!\s*<)")
OPEN = re.compile(r"\s*\{")


@dataclass(frozen=True, order=True)
class Arrow:
    """A use of a module by another one, and where it is."""

    user: str
    used: str
    path: Path
    line: int


def blanked(text: str) -> str:
    """Returns a text with all characters but line breaks replaced by spaces."""
    return re.sub(r"[^\n]", " ", text)


def end_of_item(text: str, start: int) -> int:
    """Returns the position after an item: after its `;`, or after the brace that closes its body."""
    depth = 0
    for found in BRACKET.finditer(text, start):
        sign = found.group()
        depth += (sign in "{[(") - (sign in "}])")
        if depth < 0:
            return found.start()
        if depth == 0 and sign in "};":
            return found.end()
    return len(text)


def without_tests(text: str) -> tuple[str, set[str]]:
    """Returns code without comments, strings and tests, and the names of the modules that are tests."""
    text = OPAQUE.sub(lambda found: blanked(found.group()), text)
    tests: set[str] = set()
    while found := TEST.search(text):
        end = end_of_item(text, found.end())
        item = text[found.start() : end]
        tests.update(DECLARED_MODULE.findall(item))
        text = text[: found.start()] + blanked(item) + text[end:]
    return text, tests


def branches(text: str, start: int, above: tuple[str, ...] = (), at: int = -1) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yields the paths of a tree like `a::{b, c::d}`, and the position of the first name below the crate's root.

    A name after `as` is the last of its path."""
    if brace := OPEN.match(text, start):
        end = end_of_item(text, brace.start())
        position = brace.end()
        while position < end - 1:
            yield from branches(text, position, above, at)
            comma = position
            while comma < end - 1 and text[comma] != ",":
                inner = OPEN.match(text, comma)
                comma = end_of_item(text, inner.start()) if inner else comma + 1
            position = comma + 1
    elif name := NAME.match(text, start):
        path = (*above, name[1])
        at = name.start(1) if all(each in {"crate", "self", "super"} for each in above) else at
        if colons := COLONS.match(text, name.end()):
            yield from branches(text, colons.end(), path, at)
        else:
            yield (*path, name[2]) if name[2] else path, at


def module_path(path: Path) -> tuple[str, ...]:
    """Returns the names of the module in a file, whose path is relative to the crate's `src`."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def name_below_root(path: tuple[str, ...], depth: int) -> str | None:
    """Returns the first name of a path below the crate's root; None if it does not reach the root from that depth."""
    if path[0] == "crate":
        return path[1] if len(path) > 1 else None
    rest = list(path)
    while rest and rest[0] in {"self", "super"}:
        depth -= rest.pop(0) == "super"
    return rest[0] if rest and depth == 0 else None


def root_names(text: str, modules: set[str]) -> dict[str, str]:
    """Returns the names that `lib.rs` re-exports from its modules, with the module of each."""
    found = {}
    for use in USE.finditer(text):
        for path, _ in branches(text, use.end()):
            names = path[1:] if path[0] in {"crate", "self"} else path
            if names and names[0] in modules:
                found[path[-1]] = names[0]
    return found


class Crate:
    """Sources of a crate: the code of its files, and its top-level modules."""

    def __init__(self, source: Path) -> None:
        """Reads the files in the crate's `src`."""
        files = {path: without_tests(path.read_text("utf-8")) for path in sorted(source.rglob("*.rs"))}
        within = {path: module_path(path.relative_to(source)) for path in files}
        tests = {(*within[path], name) for path, (_, names) in files.items() for name in names}
        self.files = {
            path: (within[path], text)
            for path, (text, _) in files.items()
            if within[path] and within[path][0] != "bin"
            if not any(within[path][: n + 1] in tests for n in range(len(within[path])))
        }
        self.modules = {module[0] for module, _ in self.files.values()}
        self._names = root_names(files[source / "lib.rs"][0], self.modules)

    def arrows(self) -> Iterator[Arrow]:
        """Yields the uses between top-level modules. Items of `lib.rs` itself belong to no module."""
        for path, (module, text) in self.files.items():
            inline = [(found.start(), end_of_item(text, found.start())) for found in INLINE_MODULE.finditer(text)]
            for start in START.finditer(text):
                depth = len(module) + sum(first < start.start() < end for first, end in inline)
                for names, at in branches(text, start.start()):
                    name = name_below_root(names, depth)
                    used = name if name in self.modules else self._names.get(name or "")
                    if used and used != module[0]:
                        yield Arrow(module[0], used, path, text.count("\n", 0, at) + 1)
