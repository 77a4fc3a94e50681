"""Pickles read as data: no global is imported and nothing is called.

PyTables and pandas store attributes and columns of Python objects as pickles, and ``pickle.loads`` runs whatever a file
names. Here an interpreter of the pickle format makes numbers, texts, lists, tuples, sets and dictionaries, and passes
every global to :mod:`hyperchunk.frames.pickled_types`, a fixed list of NumPy's, pandas' and Python's types. Any other
global is an error.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from hyperchunk._printable import printable
from hyperchunk.exceptions import InvalidError, LimitError, UnsupportedError
from hyperchunk.frames.pickled_types import Global, Unfinished, build, construct

T = TypeVar("T")

#: Maximum number of nested and shared values, for each byte of a pickle and in addition.
_VALUES_PER_BYTE, _MORE_VALUES = 16, 1_000_000
#: Maximum number of values in the key of a dictionary or the element of a set.
_MAX_KEY_VALUES = 64
#: Maximum number of digits of an integer in text.
_MAX_DIGITS = 4000


def loads(data: bytes | bytearray | memoryview, where: str) -> Any:
    """Returns the value of a pickle.

    Args:
        data: The pickle.
        where: Object and file, for messages.

    Raises:
        UnsupportedError: The pickle names a global that is not on the list.
        InvalidError: The bytes are not a pickle.
        LimitError: The value, with everything that is shared in it repeated, is much larger than the pickle.
    """
    try:
        found = _Machine(bytes(data)).run()
    except UnsupportedError as error:
        raise UnsupportedError(f"cannot read pickled objects: {error} ({where})") from None
    except (InvalidError, LimitError) as error:
        raise type(error)(f"cannot read pickled objects: {error} ({where})") from None
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as error:
        reason = printable(str(error) or type(error).__name__)
        raise InvalidError(f"cannot read pickled objects: the pickle is damaged: {reason} ({where})") from None
    except RecursionError:
        raise LimitError(f"cannot read pickled objects: they are nested too deeply ({where})") from None
    _check_size(found, _VALUES_PER_BYTE * len(data) + _MORE_VALUES, where)
    return found


class _Machine:
    """The stack machine of the pickle format, protocols 0 to 5."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}
        # Indices in the memo of objects whose state follows, by their identities.
        self.unfinished: dict[int, list[int]] = {}

    def run(self) -> object:
        data = self.data
        while True:
            if self.at >= len(data):
                raise InvalidError("the pickle ends before its last instruction")
            code = data[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                if len(self.stack) != 1:
                    raise InvalidError(f"expected one value at the end, got {len(self.stack)}")
                return self.stack[0]
            step = _STEPS.get(code)
            if step is None:
                raise UnsupportedError(f"the instruction {code:#04x} is not supported")
            step(self)

    # --- Input ---

    def take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self.data):
            raise InvalidError(f"a value of {count} bytes reaches past the end of the pickle")
        return self.data[start : self.at]

    def sized(self, width: int) -> bytes:
        """Takes bytes that follow their count, an integer of `width` bytes."""
        return self.take(int.from_bytes(self.take(width), "little"))

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise InvalidError("a line has no end")
        start, self.at = self.at, end + 1
        return self.data[start:end]

    # --- Stack ---

    def push(self, value: object) -> None:
        self.stack.append(value)

    def remember(self, index: int) -> None:
        value = self.stack[-1]
        self.memo[index] = value
        if isinstance(value, Unfinished):
            self.unfinished.setdefault(id(value), []).append(index)

    def pop(self) -> object:
        if self.marks and self.marks[-1] >= len(self.stack):
            raise InvalidError("expected a value, got a mark")
        return self.stack.pop()

    def pop_to_mark(self) -> list[object]:
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found


def _protocol(machine: _Machine) -> None:
    if machine.take(1)[0] > 5:
        raise UnsupportedError("unsupported protocol: expected at most 5")


def _frame(machine: _Machine) -> None:
    # The length of the frame is not needed: all bytes are in memory.
    machine.take(8)


def _push_constant(value: object) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


def _push_made(make: Callable[[], object]) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(make())


def _integer_line(machine: _Machine) -> None:
    line = machine.line()
    if line in (b"00", b"01"):
        machine.push(line == b"01")
        return
    if len(line) > _MAX_DIGITS:
        raise LimitError(f"an integer has {len(line)} digits, expected at most {_MAX_DIGITS}")
    machine.push(int(line.rstrip(b"L")))


def _integer(width: int, signed: bool) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(int.from_bytes(machine.take(width), "little", signed=signed))


def _long(width: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(int.from_bytes(machine.sized(width), "little", signed=True))


def _quoted(machine: _Machine) -> None:
    """Pushes a text of Python 2, which is stored as its `repr`."""
    line = machine.line()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise InvalidError("expected a text in quotation marks")
    machine.push(_old_text(codecs.escape_decode(line[1:-1])[0]))


def _old_text(value: bytes) -> str | bytes:
    """Returns a `str` of Python 2 as text if it is ASCII."""
    return value.decode("ascii") if value.isascii() else value


def _text(width: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.sized(width).decode("utf-8", "surrogatepass"))


def _get(index: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.memo[index(machine)])


def _put(index: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    return lambda machine: machine.remember(index(machine))


def _index(width: int) -> Callable[[_Machine], int]:
    return lambda machine: int.from_bytes(machine.take(width), "little")


def _index_line(machine: _Machine) -> int:
    return int(machine.line()[:20])


def _memoize(machine: _Machine) -> None:
    machine.remember(len(machine.memo))


def _mark(machine: _Machine) -> None:
    machine.marks.append(len(machine.stack))


def _pop(machine: _Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.stack.pop()


def _tuple(count: int) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        found = [machine.pop() for _ in range(count)]
        machine.push(tuple(reversed(found)))

    return step


def _target(machine: _Machine, kind: type[T]) -> T:
    found = machine.stack[-1]
    if not isinstance(found, kind):
        raise InvalidError(f"cannot add items to a {type(found).__name__}")
    return found


def _append(machine: _Machine) -> None:
    value = machine.pop()
    _target(machine, list).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.pop_to_mark()
    _target(machine, list).extend(values)


def check_key(key: object) -> object:
    """Returns a key that can be hashed in bounded time."""
    left, waiting = _MAX_KEY_VALUES, [key]
    while waiting:
        value = waiting.pop()
        left -= 1
        if left < 0:
            raise LimitError(f"a key has more than {_MAX_KEY_VALUES} values")
        if isinstance(value, tuple):
            waiting.extend(value[: _MAX_KEY_VALUES + 1])
        else:
            hash(value)
    return key


def _set_items(target: object, pairs: list[object]) -> None:
    if not isinstance(target, dict) or len(pairs) % 2:
        raise InvalidError("expected a dictionary, and a value for each key")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        target[check_key(key)] = value


def _dict(machine: _Machine) -> None:
    made: dict[object, object] = {}
    _set_items(made, machine.pop_to_mark())
    machine.push(made)


def _set_item(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine.stack[-1], [key, value])


def _add_items(machine: _Machine) -> None:
    values = machine.pop_to_mark()
    _target(machine, set).update(check_key(value) for value in values)


def _global_lines(machine: _Machine) -> None:
    module, name = machine.line(), machine.line()
    machine.push(Global.of(module.decode("utf-8", "replace"), name.decode("utf-8", "replace")))


def _stack_global(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(module, str) or not isinstance(name, str):
        raise InvalidError("the name of a global is not text")
    machine.push(Global.of(module, name))


def _callee(value: object) -> Global:
    if not isinstance(value, Global):
        raise InvalidError(f"cannot call a {type(value).__name__}")
    return value


def _reduce(machine: _Machine) -> None:
    arguments, function = machine.pop(), machine.pop()
    if not isinstance(arguments, tuple):
        raise InvalidError("expected a tuple of arguments")
    machine.push(construct(_callee(function), arguments, {}))


def _new_object(with_keywords: bool) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        keywords = machine.pop() if with_keywords else {}
        arguments, function = machine.pop(), machine.pop()
        if not isinstance(arguments, tuple) or not isinstance(keywords, dict):
            raise InvalidError("expected a tuple of arguments, and a dictionary of keywords")
        machine.push(construct(_callee(function), arguments, keywords))

    return step


def _object(machine: _Machine) -> None:
    values = machine.pop_to_mark()
    machine.push(construct(_callee(values[0]), tuple(values[1:]), {}))


def _instance(machine: _Machine) -> None:
    _global_lines(machine)
    function = machine.pop()
    machine.push(construct(_callee(function), tuple(machine.pop_to_mark()), {}))


def _build(machine: _Machine) -> None:
    state, value = machine.pop(), machine.pop()
    made = build(value, state)
    for index in machine.unfinished.pop(id(value), ()):
        machine.memo[index] = made
    machine.push(made)


def _check_size(found: object, budget: int, where: str) -> None:
    """Checks that a value has no cycles, and is not much larger than its pickle where shared parts are repeated."""
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    waiting: list[tuple[object, bool]] = [(found, False)]
    while waiting:
        value, done = waiting.pop()
        if isinstance(value, Unfinished):
            raise InvalidError(f"cannot read pickled objects: an object has no state ({where})")
        if isinstance(value, Global):
            raise UnsupportedError(f"cannot read pickled objects: {value.module}.{value.name} is a value ({where})")
        parts = children(value)
        if parts is None:
            continue
        key = id(value)
        if done:
            opened.discard(key)
            sizes[key] = 1 + len(parts) + sum(sizes.get(id(part), 0) for part in parts)
            if sizes[key] > budget:
                raise LimitError(f"cannot read pickled objects: more than {budget} values ({where})")
        elif key in opened:
            raise UnsupportedError(f"cannot read pickled objects: a value contains itself ({where})")
        elif key not in sizes:
            opened.add(key)
            waiting.append((value, True))
            waiting.extend((part, False) for part in parts if type(part) not in _LEAVES)


_LEAVES = frozenset((str, bytes, int, float, bool, type(None), complex))


def children(value: object) -> list[object] | None:
    """Returns the values inside a container; None for other values."""
    import numpy as np

    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return list(value.flat)
    return None


_STEPS: dict[int, Callable[[_Machine], None]] = {
    ord(code): step
    for code, step in {
        "\x80": _protocol,
        "\x95": _frame,
        "N": _push_constant(None),
        "\x88": _push_constant(True),
        "\x89": _push_constant(False),
        "I": _integer_line,
        "L": _integer_line,
        "J": _integer(4, True),
        "K": _integer(1, False),
        "M": _integer(2, False),
        "\x8a": _long(1),
        "\x8b": _long(4),
        "F": lambda machine: machine.push(float(machine.line()[:_MAX_DIGITS])),
        "G": lambda machine: machine.push(struct.unpack(">d", machine.take(8))[0]),
        "S": _quoted,
        "T": lambda machine: machine.push(_old_text(machine.sized(4))),
        "U": lambda machine: machine.push(_old_text(machine.sized(1))),
        "V": lambda machine: machine.push(machine.line().decode("raw-unicode-escape")),
        "X": _text(4),
        "\x8c": _text(1),
        "\x8d": _text(8),
        "B": lambda machine: machine.push(machine.sized(4)),
        "C": lambda machine: machine.push(machine.sized(1)),
        "\x8e": lambda machine: machine.push(machine.sized(8)),
        "\x96": lambda machine: machine.push(bytearray(machine.sized(8))),
        "g": _get(_index_line),
        "h": _get(_index(1)),
        "j": _get(_index(4)),
        "p": _put(_index_line),
        "q": _put(_index(1)),
        "r": _put(_index(4)),
        "\x94": _memoize,
        "(": _mark,
        "0": _pop,
        "1": lambda machine: machine.pop_to_mark() and None,
        "2": lambda machine: machine.push(machine.stack[-1]),
        ")": _push_constant(()),
        "t": lambda machine: machine.push(tuple(machine.pop_to_mark())),
        "\x85": _tuple(1),
        "\x86": _tuple(2),
        "\x87": _tuple(3),
        "]": _push_made(list),
        "l": lambda machine: machine.push(machine.pop_to_mark()),
        "a": _append,
        "e": _appends,
        "}": _push_made(dict),
        "d": _dict,
        "s": _set_item,
        "u": lambda machine: _set_items_of_mark(machine),
        "\x8f": _push_made(set),
        "\x90": _add_items,
        "\x91": lambda machine: machine.push(frozenset(map(check_key, machine.pop_to_mark()))),
        "c": _global_lines,
        "\x93": _stack_global,
        "R": _reduce,
        "\x81": _new_object(False),
        "\x92": _new_object(True),
        "o": _object,
        "i": _instance,
        "b": _build,
    }.items()
}


def _set_items_of_mark(machine: _Machine) -> None:
    pairs = machine.pop_to_mark()
    _set_items(machine.stack[-1], pairs)
