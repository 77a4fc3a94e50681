"""Hand-assembled WebAssembly modules, so that their tests need no compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

I32, I64, F32, F64 = 0x7F, 0x7E, 0x7D, 0x7C
TYPES = {"i32": I32, "i64": I64, "f32": F32, "f64": F64}

# name -> parameters and results, in the order of import.
LIB: dict[str, tuple[str, str]] = {
    "find": ("i32 i32", "i32"),
    "data": ("i32", "i32"),
    "rank": ("i32", "i32"),
    "dim": ("i32 i32", "i64"),
    "type": ("i32 i32 i32", "i32"),
    "file_path": ("i32 i32", "i32"),
    "print": ("i32 i32", ""),
    "fail": ("i32 i32", ""),
    "start": ("i32 i32", "i64"),
}

# name -> opcode and number of immediates. Loads and stores: their offset.
PLAIN = {
    "unreachable": (b"\x00", 0),
    "block": (b"\x02\x40", 0),
    "loop": (b"\x03\x40", 0),
    "if": (b"\x04\x40", 0),
    "else": (b"\x05", 0),
    "end": (b"\x0b", 0),
    "br": (b"\x0c", 1),
    "br_if": (b"\x0d", 1),
    "return": (b"\x0f", 0),
    "drop": (b"\x1a", 0),
    "local.get": (b"\x20", 1),
    "local.set": (b"\x21", 1),
    "local.tee": (b"\x22", 1),
    "table.grow": (b"\xfc\x0f", 1),
    "ref.null": (b"\xd0\x70", 0),
    "memory.size": (b"\x3f\x00", 0),
    "memory.grow": (b"\x40\x00", 0),
    "memory.fill": (b"\xfc\x0b\x00", 0),
    "i32.eqz": (b"\x45", 0),
    "i32.eq": (b"\x46", 0),
    "i32.ne": (b"\x47", 0),
    "i32.lt_u": (b"\x49", 0),
    "i32.add": (b"\x6a", 0),
    "i32.sub": (b"\x6b", 0),
    "i32.mul": (b"\x6c", 0),
    "i32.div_u": (b"\x6e", 0),
    "f32.add": (b"\x92", 0),
    "f32.sub": (b"\x93", 0),
    "f32.div": (b"\x95", 0),
    "i32.wrap_i64": (b"\xa7", 0),
    "f32x4.add": (b"\xfd\xe4\x01", 0),
    "f32x4.sub": (b"\xfd\xe5\x01", 0),
    "f32x4.div": (b"\xfd\xe7\x01", 0),
}
MEMORY = {
    "i32.load": b"\x28",
    "i64.load": b"\x29",
    "f32.load": b"\x2a",
    "i32.load8_u": b"\x2d",
    "i32.store": b"\x36",
    "i64.store": b"\x37",
    "f32.store": b"\x38",
    "i32.store8": b"\x3a",
    "v128.load": b"\xfd\x00",
    "v128.store": b"\xfd\x0b",
}


def unsigned(number: int) -> bytes:
    """Encodes an unsigned number in LEB128."""
    out = bytearray()
    while True:
        byte = number & 0x7F
        number >>= 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def signed(number: int) -> bytes:
    """Encodes a signed number in LEB128."""
    out = bytearray()
    while True:
        byte = number & 0x7F
        number >>= 7
        done = number == (-1 if byte & 0x40 else 0)
        out.append(byte | (0 if done else 0x80))
        if done:
            return bytes(out)


def vector(items: Sequence[bytes]) -> bytes:
    """Encodes a count and items."""
    return unsigned(len(items)) + b"".join(items)


def text(name: str) -> bytes:
    """Encodes a name."""
    return unsigned(len(name.encode())) + name.encode()


def section(number: int, content: bytes) -> bytes:
    """Encodes a section."""
    return bytes([number]) + unsigned(len(content)) + content


def signature(parameters: str, results: str) -> bytes:
    """Encodes a function's type."""
    return (
        b"\x60"
        + vector([bytes([TYPES[t]]) for t in parameters.split()])
        + vector([bytes([TYPES[t]]) for t in results.split()])
    )


def code(words: str, functions: Mapping[str, int]) -> bytes:
    """Assembles instructions: names, numbers, and names of functions to call."""
    out = bytearray()
    rest = iter(words.split())
    for word in rest:
        if word == "call":
            name = next(rest)
            out += b"\x10" + unsigned(functions[name] if name in functions else int(name))
        elif word in ("i32.const", "i64.const"):
            out += (b"\x41" if word == "i32.const" else b"\x42") + signed(int(next(rest), 0))
        elif word in MEMORY:
            out += MEMORY[word] + b"\x00" + unsigned(int(next(rest), 0))
        else:
            opcode, numbers = PLAIN[word]
            out += opcode + b"".join(unsigned(int(next(rest), 0)) for _ in range(numbers))
    return bytes(out)


def module(
    body: str,
    *,
    locals: str = "",
    datasets: str | None = None,
    data: Mapping[int, bytes] | None = None,
    pages: int = 1,
    maximum: int | None = None,
    table: int | None = None,
    more: Mapping[str, tuple[str, str]] | None = None,
    start: str | None = None,
    imports: Mapping[tuple[str, str], tuple[str, str]] | None = None,
    exports: Sequence[str] = ("memory", "dynamic_dataset"),
) -> bytes:
    """Assembles a module whose ``dynamic_dataset`` is ``body``; ``more`` has other functions, each with locals and
    body.
    """
    wanted = {("hyperchunk", name): kind for name, kind in LIB.items()} | dict(imports or {})
    own = {"dynamic_dataset": (locals, body)} | dict(more or {})
    if start is not None:
        own["start"] = ("", start)
    types = [signature(*kind) for kind in wanted.values()] + [signature("", "")]
    numbers = {name: n for n, (_, name) in enumerate(wanted)}
    numbers |= {name: n for n, name in enumerate(own, len(wanted))}
    bodies = []
    for variables, words in own.values():
        kinds = vector([b"\x01" + bytes([TYPES[t]]) for t in variables.split()])
        content = kinds + code(words, numbers) + b"\x0b"
        bodies.append(unsigned(len(content)) + content)
    limits = b"\x00" + unsigned(pages) if maximum is None else b"\x01" + unsigned(pages) + unsigned(maximum)
    exported = []
    for name in exports:
        kind = b"\x02\x00" if name == "memory" else b"\x00" + unsigned(numbers[name])
        exported.append(text(name) + kind)
    parts = [b"\0asm\x01\0\0\0"]
    if datasets is not None:
        parts.append(section(0, text("hyperchunk.datasets") + datasets.encode()))
    parts += [
        section(1, vector(types)),
        section(2, vector([text(m) + text(n) + b"\x00" + unsigned(i) for i, (m, n) in enumerate(wanted)])),
        section(3, vector([unsigned(len(wanted))] * len(own))),
    ]
    if table is not None:
        parts.append(section(4, b"\x01\x70\x00" + unsigned(table)))
    parts += [section(5, b"\x01" + limits), section(7, vector(exported))]
    if start is not None:
        parts.append(section(8, unsigned(numbers["start"])))
    parts.append(section(10, vector(bodies)))
    if data:
        pieces = [b"\x00\x41" + signed(at) + b"\x0b" + unsigned(len(b)) + b for at, b in data.items()]
        parts.append(section(11, vector(pieces)))
    return b"".join(parts)


# Puts the number of elements of the dataset in local 0 into local 1; uses local 2.
COUNT = """
i32.const 1 local.set 1  i32.const 0 local.set 2
block loop
    local.get 2  local.get 0 call rank  i32.eq  br_if 1
    local.get 1  local.get 0 local.get 2 call dim i32.wrap_i64  i32.mul  local.set 1
    local.get 2 i32.const 1 i32.add local.set 2
    br 0
end end
"""


def ndvi(*, wide: bool = False) -> bytes:
    """Assembles the normalised difference of NIR and Red, one element at a time, or four."""
    step, load, store = (16, "v128.load", "v128.store") if wide else (4, "f32.load", "f32.store")
    kind = "f32x4" if wide else "f32"
    body = f"""
    i32.const 16 i32.const 4 call find local.tee 0 call data local.set 3
    i32.const 20 i32.const 3 call find call data local.set 4
    i32.const 23 i32.const 3 call find call data local.set 5
    {COUNT}
    local.get 3  local.get 1 i32.const 4 i32.mul  i32.add  local.set 6
    block loop
        local.get 3 local.get 6 i32.lt_u i32.eqz br_if 1
        local.get 3
        local.get 5 {load} 0  local.get 4 {load} 0  {kind}.sub
        local.get 5 {load} 0  local.get 4 {load} 0  {kind}.add
        {kind}.div
        {store} 0
        local.get 3 i32.const {step} i32.add local.set 3
        local.get 4 i32.const {step} i32.add local.set 4
        local.get 5 i32.const {step} i32.add local.set 5
        br 0
    end end
    """
    return module(body, locals="i32 " * 7, datasets="NDVI\nRed\nNIR\n", data={16: b"NDVIRedNIR"})
