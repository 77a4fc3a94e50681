"""Files with damaged, forged, replayed and absurd records and stubs: their construction, and the expected results."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from hostile import ed25519, places, records
from hostile.records import Header, Key, Slot, changed, encode, make, sign, store, stub

DOUBLED = """
function dynamic_dataset()
  local out, a = lib.getData("out"), lib.getData("a")
  for i = 1, 4 do out[i] = 2 * a[i] end
end
"""
DAMAGED = r"the record is damaged"
UNREADABLE = r"damaged|newer|version|does not hold|HDF5-UDF|cut short|too many|checksum"
FORGED = r"signature does not match"
OTHER_RECORD = r"its record is not the one"
IMPOSSIBLE = r"impossible shape|does not fit|damaged|4 GiB|is .* in chunks of"
Build = Callable[[h5py.File, Key], None]


@dataclass(frozen=True)
class Damage:
    """A file, with the expected error of reading `dataset`, or the values that it returns nevertheless."""

    name: str
    build: Build
    cause: str | None = None
    value: tuple[float, ...] | None = None
    dataset: str = "out"
    pieces: int | None = None
    mode: str = "r"
    workers: int = 1
    """Live datasets that it takes, whose workers may stay."""


def doubled(**more: Any) -> Header:
    """Returns an honest unsigned record: twice its input `a`."""
    return make(DOUBLED, "lua", Slot("out"), [Slot("a")], [Slot("rest", "int32", (2,))], **more)


def inputs(file: h5py.File) -> None:
    """Writes its inputs."""
    file["a"] = np.arange(1.0, 5.0)


VALUES = (2.0, 4.0, 6.0, 8.0)


def stored(change: Callable[[Header], Header | bytes], *, signed: bool = False, **more: Any) -> Build:
    """Builds a dataset with a changed record and matching stubs, as an attacker can make them."""

    def build(file: h5py.File, own: Key) -> None:
        inputs(file)
        honest = sign(doubled(), own) if signed else doubled()
        store(file, change(honest), like=honest, **more)

    return build


def edited(change: Callable[[Header], Header]) -> Build:
    """Builds a signed dataset whose attribute was edited afterwards."""

    def build(file: h5py.File, own: Key) -> None:
        inputs(file)
        # A record that was never read before: verified ones are cached by digest.
        honest = sign(doubled(created=f"edited {file.filename}"), own)
        store(file, honest)
        records.store_record(file["out"], encode(change(honest)))

    return build


FIELDS: list[tuple[str, tuple[str | int, ...], Any, str]] = [
    ("api_version", ("api_version",), 9, r"record version 9"),
    ("api_version of another", ("api_version",), 4, r"says version 4, but its content has version 3"),
    ("api_version of an analysis", ("api_version",), 5, r"says version 5, but its content has version 3"),
    ("backend", ("backend",), "CPython", FORGED),
    ("unknown backend", ("backend",), "Fortran", r"back end .*Fortran"),
    ("blockwise", ("blockwise",), True, FORGED),
    ("chunk", ("chunk",), [2], r"one chunk|does not match"),
    ("created", ("created",), "2030-01-01T00:00:00Z", FORGED),
    ("id", ("id",), "00" * 16, FORGED),
    ("input name", ("input_datasets", 0), "b", FORGED),
    ("input type", ("inputs", 0, "datatype"), "float", FORGED),
    ("input shape", ("inputs", 0, "resolution"), [5], FORGED),
    ("output name", ("output_dataset",), "other", FORGED),
    ("output type", ("output_datatype",), "float", FORGED),
    ("output shape", ("output_resolution",), [2, 2], r"does not fit|does not match"),
    ("scratch name", ("scratch_datasets", 0), "more", FORGED),
    ("scratch shape", ("scratch", 0, "resolution"), [3], FORGED),
    ("source", ("source_code",), DOUBLED.replace("2 *", "3 *"), FORGED),
    ("label name", ("signature", "name"), "Ada", FORGED),
    ("label email", ("signature", "email"), "../allow/evil", FORGED),
]


def _tampered() -> Iterator[Damage]:
    for what, path, value, cause in FIELDS:

        def change(h: Header, path: Any = path, value: Any = value) -> Header:
            return changed(h, path, value)

        yield Damage(f"forged {what}", stored(change, signed=True), cause)
        yield Damage(f"edited {what}", edited(change), OTHER_RECORD)

    def signature(change: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> Build:
        def apply(h: Header) -> Header:
            s = h["signature"]
            key, value = (base64.b64decode(s[k]) for k in ("public_key", "value"))
            return h | {"signature": records.signature(*change(key, value), s["name"], s["email"])}

        return stored(apply, signed=True)

    identity = (1).to_bytes(32, "little")
    weak = {
        "identity": identity,
        "order 2": (ed25519.P - 1).to_bytes(32, "little"),
        "order 4": bytes(32),
        "order 8": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
        "not canonical": (ed25519.P + 1).to_bytes(32, "little"),
    }
    for name, key in weak.items():
        replace = signature(lambda _k, _v, key=key: (key, identity + bytes(32)))
        yield Damage(f"weak key, {name}", replace, r"weak key|does not match")
    yield Damage("signature flipped", signature(lambda k, v: (k, v[:63] + bytes([v[63] ^ 16]))), FORGED)
    yield Damage("signature malleated", signature(lambda k, v: (k, ed25519.malleate(v))), FORGED)
    yield Damage("signature of zeros", signature(lambda k, _: (k, bytes(64))), FORGED)
    yield Damage("signature short", signature(lambda k, v: (k, v[:63])), r"signature is damaged")
    yield Damage("key of another", signature(lambda _, v: (places.TRUSTED.public, v)), FORGED)
    yield Damage("key short", signature(lambda k, v: (k[:31], v)), r"signature is damaged")
    yield Damage(
        "key not base64", stored(lambda h: changed(h, ("signature", "public_key"), "*"), signed=True), "damaged"
    )
    yield Damage("signature empty", stored(lambda h: h | {"signature": {}}), DAMAGED)
    # Without a signature it counts as a stranger's: it runs with minimal rights, and C++ not at all.
    yield Damage("signature stripped", stored(lambda h: h | {"signature": None}, signed=True), value=VALUES)
    more = stored(lambda h: h | {"bytecode_size": 9}, signed=True)
    yield Damage("forged bytecode_size", more, r"bytecode_size|signature|damaged")


LABELS = {
    "parent": "../allow/evil",
    "own key": "../self",
    "absolute": "/tmp/jail/marks/label",
    "nul": "a\0b",
    "newline": "a\nb\nkey AAAA",
    "10 kB": "x" * 10_000,
    "escapes": "\x1b]52;c;aGk=\x07\u202e",
    "empty": "",
}


def _labels() -> Iterator[Damage]:
    for what, label in LABELS.items():

        def build(file: h5py.File, own: Key, label: str = label) -> None:
            inputs(file)
            store(file, sign(doubled(), Key(places.STRANGER.seed, label, label)))

        yield Damage(f"label {what}", build, value=VALUES)


def _later() -> Iterator[Damage]:
    """Yields damaged records of version 4: blocks with a halo, and growing datasets."""

    def of_4(change: Header, **more: Any) -> Build:
        def build(file: h5py.File, own: Key) -> None:
            inputs(file)
            honest = sign(doubled(api_version=4, blockwise=True, chunk=[2], **more), own)
            store(file, honest | change, like=honest)

        return build

    halo, grows = {"halo": [0]}, {"maximum_resolution": [None]}
    yield Damage("version 4 with a halo", of_4({}, **halo), value=VALUES)
    yield Damage("version 4 that grows", of_4({}, **grows), value=VALUES)
    yield Damage("version 4 with both", of_4({}, **halo, **grows), value=VALUES)
    yield Damage("forged halo", of_4({"halo": [1]}, **halo), FORGED)
    yield Damage("forged growth", of_4({"maximum_resolution": [9]}, **grows), FORGED)
    yield Damage("added growth", of_4(grows, **halo), FORGED)
    yield Damage("halo of another rank", of_4({"halo": [1, 1]}, **halo), "halo .* does not fit")
    yield Damage(
        "halo of a whole array", of_4({"blockwise": False, "chunk": [4]}, **halo), "does not fit|does not match"
    )
    yield Damage("absurd halo", of_4({"halo": [2**64]}, **halo), "damaged")
    yield Damage("growth that is smaller", of_4({"maximum_resolution": [3]}, **grows), "maximum shape .* does not fit")


def _replayed() -> Iterator[Damage]:
    def elsewhere(like: Header, cause: str | None, *, name: str = "out", a: Any = None) -> Build:
        def build(file: h5py.File, own: Key) -> None:
            file["a"] = np.arange(1.0, 5.0) if a is None else a
            file.create_group("deep")
            store(file, sign(doubled(), own), like=like, name=name)

        return build

    def other(**changes: Any) -> Header:
        return doubled() | {"id": "ab" * 16} | changes

    differs = r"the dataset is .* and its record says"
    yield Damage("replayed under a name", elsewhere(other(), None, name="deep/n"), value=VALUES, dataset="deep/n")
    yield Damage("replayed shape", elsewhere(other(output_resolution=[8], chunk=[8]), differs), differs)
    yield Damage(
        "replayed rank", elsewhere(other(output_resolution=[2, 2], chunk=[2, 2]), differs), "rank|the dataset is"
    )
    yield Damage("replayed type", elsewhere(other(output_datatype="float"), differs), differs)
    yield Damage("replayed chunks", elsewhere(other(chunk=[2]), differs), differs)
    changed_input = r"when the function was attached"
    yield Damage("replayed input shape", elsewhere(other(), None, a=np.arange(5.0)), changed_input)
    yield Damage("replayed input type", elsewhere(other(), None, a=np.arange(4)), changed_input)


def _malformed() -> Iterator[Damage]:
    texts: dict[str, bytes] = {
        "open brace": b"{",
        "null": b"null",
        "number": b"0",
        "array": b"[]",
        "string": b'"x"',
        "not JSON": b"hello",
        "byte order mark": b"\xef\xbb\xbf" + encode(doubled()),
        "UTF-16": encode(doubled()).decode().encode("utf-16-be"),
        "trailing": encode(doubled()) + b"x",
        "two": encode(doubled()) * 2,
        "bad UTF-8": encode(doubled()).replace(b"getData", b"getD\xff\xfeta"),
        "surrogate": encode(doubled()).replace(b"getData", rb"getD\ud800ta"),
        "duplicate key": encode(doubled()).replace(b'{"api', b'{"backend": "CPython", "api', 1),
        "duplicate version": encode(doubled()).replace(b'{"api', b'{"api_version": 3, "api', 1),
        "deep arrays": b"[" * 100_000 + b"]" * 100_000,
        "deep value": encode(doubled()).replace(b'"chunk": [4]', b'"chunk": ' + b"[" * 100_000 + b"]" * 100_000),
        "deep unknown": b'{"api_version": 3, "x": ' + b'{"a":' * 100_000 + b"0" + b"}" * 100_001,
        "huge number": encode(doubled()).replace(b'"api_version": 3', b'"api_version": 3e999'),
        "long digits": encode(doubled()).replace(b'"bytecode_size": 0', b'"bytecode_size": ' + b"9" * 100_000),
    }
    for what, text in texts.items():
        yield Damage(f"JSON {what}", stored(lambda _, text=text: text), DAMAGED)
    yield Damage("JSON cut", stored(lambda h: encode(h)[:-100]), DAMAGED)
    yield Damage("JSON 80 MB", stored(lambda h: encode(h | {"source_code": "-" * 80_000_000})), r"80\d+ bytes")
    # No information is lost where there was none: these two may be null.
    for key in ("compiled", "signature"):
        lacking = stored(lambda h, key=key: {k: v for k, v in h.items() if k != key})
        yield Damage(f"without {key}", lacking, value=VALUES)
    for key in sorted(doubled().keys() - {"compiled", "signature"}):
        yield Damage(f"without {key}", stored(lambda h, key=key: {k: v for k, v in h.items() if k != key}), DAMAGED)
    for key in doubled():
        wrong: Any = 7 if isinstance(doubled()[key], str) else "\x1b[31m"
        yield Damage(f"wrong type of {key}", stored(lambda h, key=key, wrong=wrong: h | {key: wrong}), DAMAGED)
    yield Damage("unknown key", stored(lambda h: h | {"more": 1}), DAMAGED)
    escapes = stored(lambda h: h | {"\x1b]52;c;aGk=\x07\u202e\r\n": 1})
    yield Damage("unknown key, escapes", escapes, DAMAGED)
    yield Damage("unknown key, long", stored(lambda h: h | {"x" * 1_000_000: 1}), DAMAGED)
    kind = r"unknown type|the type has more than"
    for what, start in {"unknown": "x", "string": "string("}.items():
        long = stored(lambda h, start=start: h | {"output_datatype": start + "1" * 1_000_000})
        yield Damage(f"{what} type, long", long, kind)
    yield Damage("unknown type, escapes", stored(lambda h: h | {"output_datatype": "\x1b[31m\u202e"}), kind)
    types = {
        "deep": ("{a:" * 40_000, "more than 8 levels"),
        "wide": ("{" + ",".join(f"m{n}:int8" for n in range(5000)) + "}", "more than 1024 members"),
        "large string": ("string(4294967296)", "a string of 4294967296 bytes"),
        "large array": ("int8[4294967296x4294967296]", "has more than 16777216 bytes"),
        "escapes in a member": ('{"\x1b[31m\u202e":int8}', "its record says"),
        "an address": ("string(*)", "computes strings of variable length"),
        "an address in a member": ("{a:string(*)}", "computes strings of variable length"),
        "written otherwise": ("string", r"does not write the type string\(32\)"),
        "another compound": ("{a:int8,b:double}", "its record says"),
    }
    for what, (text, cause) in types.items():
        yield Damage(f"type, {what}", stored(lambda h, text=text: h | {"output_datatype": text}), cause)


def _absurd() -> Iterator[Damage]:
    shapes: dict[str, Any] = {
        "0": [0],
        "-1": [-1],
        "2^63": [2**63],
        "2^64": [2**64],
        "overflow": [2**32, 2**32],
        "rank 0": [],
        "rank 33": [1] * 33,
        "fraction": [4.5],
        "text": ["4"],
    }
    for what, dims in shapes.items():
        change = {"output_resolution": dims, "chunk": dims}
        yield Damage(f"output_resolution {what}", stored(lambda h, c=change: h | c), IMPOSSIBLE)
        rows = [{"datatype": "double", "resolution": dims}]
        # A point is a valid shape for an input, but not the shape of this one.
        cause = IMPOSSIBLE + "|when the function was attached"
        yield Damage(f"input resolution {what}", stored(lambda h, r=rows: h | {"inputs": r}), cause)
        if what != "rank 0":
            yield Damage(f"chunk {what}", stored(lambda h, d=dims: h | {"chunk": d, "blockwise": True}), IMPOSSIBLE)

    def scratch(names: list[str], dims: list[int]) -> Build:
        rows = [{"datatype": "double", "resolution": dims} for _ in names]
        return stored(lambda h: h | {"scratch": rows, "scratch_datasets": names})

    yield Damage("scratch of 1 GiB", scratch(["s"], [2**27]), r"over the limit of 512 MiB")
    yield Damage("scratch of 2^62 bytes", scratch(["s"], [2**59]), r"over the limit|too large")
    many = [f"\x1b]52;c;aGk=\x07\u202e\r\n{n}" for n in range(5)]
    over = scratch(many, [2**59])
    yield Damage("scratch past 2^64, escapes", over, r"over the limit|too large")
    yield Damage("scratch 200", scratch([f"s{n}" for n in range(200)], [1]), r"more than 128")
    yield Damage("scratch without a shape", stored(lambda h: h | {"scratch": []}), r"lists 1 datasets, but describes 0")
    names = {
        "empty": "",
        "nul": "a\0b",
        "long": "a" * 5000,
        "twice": "out",
        "missing": "nowhere",
        "parent": "../../a",
        "escapes": "\x1b[31m\u202e\r\n",
        "group": "group",
        "text": "text",
        "compound": "compound",
        "slash": "/",
    }
    for what, name in names.items():

        def build(file: h5py.File, own: Key, name: str = name) -> None:
            inputs(file)
            file.create_group("group")
            file["text"] = ["x"] * 4
            file["compound"] = np.zeros(4, "i4,f8")
            store(file, changed(doubled(), ("input_datasets", 0), name))

        yield Damage(f"input {what}", build, r"input|does not allow|twice|name")


def _attributes() -> Iterator[Damage]:
    kinds: dict[str, Any] = {
        "missing": False,
        "number": 7,
        "array": np.arange(10),
        "strings": ["{}", "{}"],
        "opaque": np.void(b"\x00" * 64),
        "null space": h5py.Empty(h5py.string_dtype()),
        "null space, fixed": h5py.Empty(np.dtype("S10")),
        "empty": "",
    }
    for what, value in kinds.items():
        unread = stored(lambda h, what=what: h | {"created": what}, attribute=value)
        yield Damage(f"attribute {what}", unread, r"record")


def _stubs() -> Iterator[Damage]:
    wrong: dict[str, dict[str, Any]] = {
        "magic": {"magic": b"HCLX"},
        "version": {"version": 2},
        "rank 2": {"rank": 2},
        "rank 255": {"rank": 255},
        "reserved": {"reserved": b"\1\0"},
        "check": {"check": b"abcd"},
        "no number": {"numbers": b""},
        "two numbers": {"numbers": b"\0\0"},
        "endless number": {"numbers": b"\xff" * 12},
        "number past 2^64": {"numbers": b"\xff" * 9 + b"\x7f"},
    }
    for what, parts in wrong.items():

        def build(file: h5py.File, own: Key, parts: Any = parts) -> None:
            inputs(file)
            h = doubled()
            store(file, h, stubs={(0,): stub(bytes.fromhex(h["id"]), encode(h), (0,), **parts)})

        yield Damage(f"stub {what}", build, UNREADABLE)
    numbers = {"1": (1,), "2^32": (2**32,), "2^63": (2**63,), "2^64-1": (2**64 - 1,), "rank 2": (0, 0), "rank 0": ()}
    for what, chunk in numbers.items():

        def out_of_range(file: h5py.File, own: Key, chunk: Any = chunk) -> None:
            inputs(file)
            h = doubled()
            store(file, h, stubs={(0,): stub(bytes.fromhex(h["id"]), encode(h), chunk)})

        yield Damage(f"stub of chunk {what}", out_of_range, r"outside the dataset|the stub has rank|more than|damaged")

    def foreign(file: h5py.File, own: Key) -> None:
        inputs(file)
        one, two = doubled(), doubled() | {"id": "cd" * 16, "output_dataset": "two"}
        store(file, two, name="two")
        store(file, one, stubs={(0,): stub(bytes.fromhex(two["id"]), encode(two), (0,))})

    def other_record(file: h5py.File, own: Key) -> None:
        inputs(file)
        h = doubled()
        store(file, h, stubs={(0,): stub(bytes.fromhex(h["id"]), b"another", (0,))})

    yield Damage("stub of another dataset", foreign, r"stub of another live dataset|is not open by itself")
    yield Damage("stub of another record", other_record, OTHER_RECORD)

    def lengths(make_stub: Callable[[bytes, int], bytes]) -> Build:
        def build(file: h5py.File, own: Key) -> None:
            h = make(DOUBLED, "lua", Slot("out", "double", (200,)), [Slot("a")], blockwise=True, chunk=[1])
            inputs(file)
            good = stub(bytes.fromhex(h["id"]), encode(h), (0,))
            store(file, h, stubs={(n,): make_stub(good, n + 1) for n in range(200)})

        return build

    rng = random.Random(31300)
    # The one complete stub among the truncated ones is replaced, too.
    short = lengths(lambda good, n: good[:n] if n < len(good) else good + bytes(n - len(good) + 1))
    yield Damage("stubs cut and padded", short, r"cut short|damaged|too many", pieces=200)
    yield Damage("stubs of noise", lengths(lambda _, n: rng.randbytes(n)), r"does not hold", pieces=200)
    noise = lengths(lambda good, n: b"HCLD" + rng.randbytes(n))
    yield Damage("stubs of noise with magic", noise, r"damaged|newer|cut short", pieces=200)

    def flipped(good: bytes, n: int) -> bytes:
        at = n % len(good)
        return good[:at] + bytes([good[at] ^ 1 << n % 8]) + good[at + 1 :]

    yield Damage("stubs with a bit flipped", lengths(flipped), UNREADABLE, pieces=200)
    reference = encode({"api_version": 2, "backend": "LuaJIT", "bytecode_size": 2**63, "output_resolution": [-1]})
    yield Damage("payload of HDF5-UDF", lengths(lambda *_: reference + b"\0" + bytes(99)), r"HDF5-UDF", pieces=3)
    clients = {"none": (), "one": (1,), "version 2": (2, 0, 0, 0, 0), "zeros": (1, 0, 0, 0, 0), "many": (1,) * 200}
    for what, client in clients.items():
        yield Damage(f"client data {what}", stored(lambda h: h, client=client), r"not open by itself|client data|live")


def _chains() -> Iterator[Damage]:
    def link(name: str, *sources: str) -> Header:
        names = ", ".join(f'lib.getData("{s}")[1]' for s in sources)
        sum_of = " + ".join(f"v[{n + 1}]" for n in range(len(sources)))
        source = f'function dynamic_dataset() local v = {{{names}}} lib.getData("{name}")[1] = {sum_of} end'
        return make(source, "lua", Slot(name, "double", (1,)), [Slot(s, "double", (1,)) for s in sources])

    def build(*links: Header) -> Build:
        def write(file: h5py.File, own: Key) -> None:
            file["base"] = np.ones(1)
            for header in links:
                store(file, header)

        return write

    circle = r"circle|cycle"
    yield Damage("circle of one", build(link("out", "out2"), link("out2", "out2")), circle)
    yield Damage("circle of two", build(link("out", "b"), link("b", "out")), circle)
    yield Damage("circle of three", build(link("out", "b"), link("b", "c"), link("c", "out")), circle)
    chain = [link(f"n{n}", f"n{n - 1}" if n else "base") for n in range(40)]
    yield Damage("chain of 41", build(*chain, link("out", "n39")), r"more than 8 live datasets")
    short = [link(f"n{n}", f"n{n - 1}" if n else "base") for n in range(4)]
    yield Damage("chain of 5", build(*short, link("out", "n3")), value=(1.0,), workers=5)

    def fan(distinct: bool) -> Build:
        def write(file: h5py.File, own: Key) -> None:
            width, below = 20, ["base"] * 20
            file["base"] = np.ones(1)
            for level in range(6):
                names = [f"i{level}_{n}" for n in range(width)]
                for name, target in zip(names, below, strict=True):
                    file[name] = h5py.SoftLink(f"/{target}")
                below = [f"f{level}_{n if distinct else 0}" for n in range(width)]
                for name in dict.fromkeys(below):
                    store(file, link(name, *names))
            store(file, link("out", below[0]))

        return write

    yield Damage("fan of 20 to the 6th", fan(True), r"limit|budget", workers=16)
    yield Damage("fan, open for writing", fan(False), r"limit|budget", mode="r+", workers=16)

    def mixed(file: h5py.File, own: Key) -> None:
        file["base"] = np.ones(1)
        source = 'import os\ndef dynamic_dataset():\n    open("/tmp/jail/home/secret.txt")\n'
        store(file, make(source, "py", Slot("n", "double", (1,))))
        store(file, sign(link("out", "n"), own))

    yield Damage("own function of a stranger's", mixed, r"PermissionError")


def _names() -> Iterator[Damage]:
    for what, name in {
        "escapes": "\x1b]52;c;aGk=\x07\x1b[31mout",
        "bidi": "out\u202etuo\u2066",
        "lines": "out\r\nok",
    }.items():

        def build(file: h5py.File, own: Key, name: str = name) -> None:
            inputs(file)
            store(file, make("function dynamic_dataset() error('no') end", "lua", Slot(name)))

        yield Damage(f"dataset name {what}", build, r"out.*no", dataset=name)


def _sources() -> Iterator[Damage]:
    """Yields invalid sources: bytecode, which no language accepts, and noise."""
    bytecode = "\x1bLJ\x02\x0a\x00\x01\x02\x00\x00\x00\x02K\x00\x01\x00\x00"
    rows = {
        "LuaJIT bytecode": ("lua", bytecode, r"mode|bytecode|unexpected symbol|near"),
        "Lua noise": ("lua", "\x00\x01\x02", r"near|unexpected"),
        "Lua without an entry": ("lua", "local x = 1", r"no function dynamic_dataset"),
        "Python marshal": ("py", "\xcb\r\r\n\x00\x00\x00\xe3", r"SyntaxError|ValueError"),
        "Python NUL": ("py", "def dynamic_dataset():\n    pass\n\x00", r"SyntaxError|ValueError|null"),
        "Python without an entry": ("py", "x = 1", r"no function dynamic_dataset"),
        "Python encoding": ("py", "# coding: rot13\nqrs qlanzvp_qngnfrg(): cnff\n", r"SyntaxError|no function"),
        "Python deep": ("py", "(" * 5000 + ")" * 5000, r"SyntaxError|MemoryError|RecursionError|SIGSEGV"),
        "Lua deep": ("lua", "return " + "(" * 50_000, r"overflow|levels|near|limit"),
        "empty": ("lua", "", r"no function dynamic_dataset"),
    }
    for what, (language, source, cause) in rows.items():

        def build(file: h5py.File, own: Key, language: str = language, source: str = source) -> None:
            store(file, make(source, language, Slot("out")))

        yield Damage(f"source {what}", build, cause)


def _objects() -> Iterator[Damage]:
    """Yields invalid compiled forms, signed by the user."""

    def compiled(data: bytes, *, cause: str, trust: bool = True, **more: Any) -> tuple[Build, str]:
        def build(file: h5py.File, own: Key) -> None:
            header = make("extern", "cpp", Slot("out"), compiled=data)
            for key, value in more.items():
                header = changed(header, key.split("__"), value)
            store(file, sign(header, own) if trust else header)

        return build, cause

    elf = b"\x7fELF\x02\x01\x01" + bytes(57)
    loading = r"cannot load native code|crashed|SIG|ended without"
    rows = {
        "text": compiled(b"hello", cause=loading),
        "empty": compiled(b"", cause=loading),
        "script": compiled(b"#!/bin/sh\ntouch /tmp/jail/marks/script\n", cause=loading),
        "ELF header": compiled(elf, cause=loading),
        "ELF and noise": compiled(elf[:16] + random.Random(1).randbytes(8000), cause=loading),
        "unsigned": compiled(elf, cause=r"does not run c\+\+", trust=False),
        "bytecode_size 0": compiled(elf, cause="damaged|bytecode_size", bytecode_size=0),
        "bytecode_size 63": compiled(elf, cause="damaged|bytecode_size", bytecode_size=63),
        "bytecode_size 65": compiled(elf, cause="bytecode_size", bytecode_size=65),
        "bytecode_size 2^63": compiled(elf, cause="bytecode_size|damaged", bytecode_size=2**63),
        "bytecode_size -1": compiled(elf, cause="damaged", bytecode_size=-1),
        "bomb": compiled(bytes(200_000_000), cause="damaged"),
        "source that reads": compiled(
            elf,
            cause=r"does not compile",
            compiled=None,
            bytecode_size=0,
            source_code="#include</tmp/jail/home/secret.txt>",
        ),
    }
    for what, (build, cause) in rows.items():
        yield Damage(f"object {what}", build, cause)


ALL = [
    d
    for group in (
        _tampered,
        _labels,
        _replayed,
        _later,
        _malformed,
        _absurd,
        _attributes,
        _stubs,
        _chains,
        _names,
        _sources,
        _objects,
    )
    for d in group()
]


def file_name(damage: Damage) -> str:
    """Returns the file name of a case."""
    return "".join(c if c.isalnum() else "-" for c in damage.name) + ".h5"
