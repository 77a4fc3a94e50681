"""Band-wise evaluation of element-wise Python functions.

``out[:] = (nir - red) / (nir + red)`` on whole arrays makes temporary arrays of their size, and most of its time is
memory traffic. On bands that stay in the cache, the same statements give the same values. Only a narrow set of
functions is recognized, on purpose: every step computes each element from the elements at the same index, exactly and
independent of the array's alignment. Any other function runs unchanged.
"""

from __future__ import annotations

import ast
import math
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Elements per band: two inputs, two temporaries and an output of `float` are 640 KiB.
BAND_ELEMENTS = 32768

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
# NumPy functions with exact results, hence the same in every band, and their numbers of arrays.
FUNCTIONS = {
    "add": 2,
    "subtract": 2,
    "multiply": 2,
    "divide": 2,
    "true_divide": 2,
    "negative": 1,
    "sqrt": 1,
    "square": 1,
    "abs": 1,
    "absolute": 1,
    "isnan": 1,
    "isfinite": 1,
    "where": 3,
}
# The ones that take `out=`, too.
UFUNCS = FUNCTIONS.keys() - {"where"}
# No integers: a value that overflows converts differently in a processor's vector and scalar instructions.
TYPES = {"bool", "float32", "float64"}
# Maximum length of an examined source, in characters.
MAX_SOURCE_CHARACTERS = 65536
PREFIX = "_dataset_"


class NotVectorizable(Exception):  # noqa: N818
    """The function is not element-wise."""


class Reader:
    """Parses a module and turns its function into one for a single band."""

    def __init__(self) -> None:
        self.numpy = ""
        # Names bound to a number, of the module and then of the function.
        self.known: set[str] = set()
        # Names bound to the result of `lib.getData`, which supports less than an array.
        self.buffers: set[str] = set()
        # Datasets in the order of the arguments: the name, and whether the array has the dataset's shape.
        self.datasets: list[tuple[str, bool]] = []

    def module(self, tree: ast.Module) -> ast.FunctionDef:
        """Returns the function ``dynamic_dataset`` with arrays as its arguments.

        Raises:
            NotVectorizable: The module or the function is not of the supported form.
        """
        function = None
        for statement in tree.body:
            match statement:
                case ast.Import(names=names):
                    for alias in names:
                        self._import(alias)
                case ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_number(value):
                    self._bind(name)
                case ast.FunctionDef(name="dynamic_dataset") if function is None:
                    function = statement
                case _:
                    raise NotVectorizable
        if function is None or function.decorator_list or function.returns or any(ast.iter_child_nodes(function.args)):
            raise NotVectorizable
        if getattr(function, "type_params", None):
            raise NotVectorizable
        if any(isinstance(node, ast.Name) and node.id.startswith(PREFIX) for node in ast.walk(tree)):
            raise NotVectorizable
        # Names that the function assigns to are local throughout.
        body = [made for statement in function.body for made in self._statement(statement)]
        arguments = [ast.arg(f"{PREFIX}{n}") for n in range(len(self.datasets))]
        function.args = ast.arguments(posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[])
        function.body = body or [ast.Pass()]
        return function

    def _import(self, alias: ast.alias) -> None:
        name = alias.asname or alias.name.split(".")[0]
        if name in {self.numpy, "lib", "dynamic_dataset", *self.known}:
            raise NotVectorizable
        if alias.name == "numpy" and not self.numpy:
            self.numpy = name

    def _bind(self, name: str, buffer: bool = False) -> None:
        if name in {self.numpy, "lib", "dynamic_dataset"}:
            raise NotVectorizable
        self.known.add(name)
        self.buffers.discard(name)
        if buffer:
            self.buffers.add(name)

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                return []
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                value, buffer = self._dataset(value) or (self._value(value), self._is_buffer(value))
                self._bind(name, buffer)
                made: ast.stmt = ast.Assign(targets=[target], value=value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                found = [self._dataset(value) for value in values]
                datasets = [one for one in found if one is not None]
                if not len(names) == len(targets) == len(values) == len(datasets):
                    raise NotVectorizable
                for name, (_, buffer) in zip(names, datasets, strict=True):
                    self._bind(name, buffer)
                right = ast.Tuple(elts=[value for value, _ in datasets], ctx=ast.Load())
                made = ast.Assign(targets=statement.targets, value=ast.copy_location(right, statement.value))
            case ast.Assign(targets=[ast.Subscript(value=target, slice=where) as left], value=value) if is_all(where):
                # Visited first, since it is evaluated first.
                value = self._value(value)
                left = ast.copy_location(ast.Subscript(value=self._array(target), slice=where, ctx=ast.Store()), left)
                made = ast.Assign(targets=[left], value=value)
            case ast.Expr(value=ast.Call(keywords=[ast.keyword(arg="out", value=out)]) as call):
                if self._function(call) not in UFUNCS:
                    raise NotVectorizable
                arguments = [self._value(argument) for argument in call.args]
                keyword = ast.keyword("out", self._array(out, buffers=False))
                new = ast.Call(func=call.func, args=arguments, keywords=[keyword])
                made = ast.Expr(value=ast.copy_location(new, call))
            case _:
                raise NotVectorizable
        return [ast.copy_location(made, statement)]

    def _dataset(self, node: ast.expr) -> tuple[ast.expr, bool] | None:
        """Returns a dataset's array, and whether it is only a buffer."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="lib"), attr="getData" | "array" as attribute),
                args=[ast.Constant(value=str(name))],
                keywords=[],
            ) if "lib" not in self.known:
                dataset = (name, attribute == "array")
                if dataset not in self.datasets:
                    self.datasets.append(dataset)
                new = ast.Name(f"{PREFIX}{self.datasets.index(dataset)}", ctx=ast.Load())
                return ast.copy_location(new, node), attribute == "getData"
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=numpy), attr="asarray"), args=[argument], keywords=[]
            ) if numpy == self.numpy and numpy:
                found = self._dataset(argument)
                return None if found is None else (found[0], False)
        return None

    def _array(self, node: ast.expr, buffers: bool = True) -> ast.expr:
        """Returns the array for a dataset expression or a name bound to an array."""
        found = self._dataset(node)
        if found is None and isinstance(node, ast.Name) and node.id in self.known:
            found = node, node.id in self.buffers
        if found is None or (found[1] and not buffers):
            raise NotVectorizable
        return found[0]

    def _function(self, call: ast.Call) -> str:
        match call.func:
            case ast.Attribute(value=ast.Name(id=numpy), attr=name) if numpy == self.numpy and numpy:
                if FUNCTIONS.get(name) == len(call.args):
                    return name
        raise NotVectorizable

    def _is_buffer(self, node: ast.expr) -> bool:
        found = self._dataset(node)
        return found[1] if found else isinstance(node, ast.Name) and node.id in self.buffers

    def _value(self, node: ast.expr) -> ast.expr:
        found = self._dataset(node)
        if found is not None:
            return found[0]
        if is_number(node):
            return node
        match node:
            case ast.Name(id=name) if name in self.known:
                return node
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, OPERATORS):
                made: ast.expr = ast.BinOp(left=self._value(left), op=operator, right=self._value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                made = ast.UnaryOp(op=ast.USub(), operand=self._value(operand))
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if isinstance(operator, COMPARISONS):
                if self._is_buffer(left) or self._is_buffer(right):
                    raise NotVectorizable
                made = ast.Compare(left=self._value(left), ops=[operator], comparators=[self._value(right)])
            case ast.Call(func=ast.Attribute(attr="astype", value=inner), args=[kind], keywords=[]):
                if self._is_buffer(inner) or not self._is_type(kind):
                    raise NotVectorizable
                method = ast.copy_location(ast.Attribute(self._value(inner), "astype", ctx=ast.Load()), node.func)
                made = ast.Call(func=method, args=[kind], keywords=[])
            case ast.Call(args=arguments, keywords=[]):
                self._function(node)
                made = ast.Call(func=node.func, args=[self._value(one) for one in arguments], keywords=[])
            case _:
                raise NotVectorizable
        return ast.copy_location(made, node)

    def _is_type(self, node: ast.expr) -> bool:
        match node:
            case ast.Attribute(value=ast.Name(id=numpy), attr=name):
                return numpy == self.numpy and name in TYPES
            case ast.Constant(value=str(name)):
                return name in TYPES
        return False


def is_number(node: ast.expr) -> bool:
    """True for a numeric literal."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_all(node: ast.expr) -> bool:
    """True for ``[:]`` or ``[...]``."""
    match node:
        case ast.Slice(lower=None, upper=None, step=None) | ast.Constant(value=types.EllipsisType()):
            return True
    return False


class Bands:
    """Callable that replaces the function of whole arrays."""

    def __init__(self, lib: Any, whole: Callable[[], Any], part: Callable[..., Any], reader: Reader) -> None:
        self.lib = lib
        self.whole = whole
        self.part = part
        self.datasets = reader.datasets

    def __call__(self) -> None:
        """Computes band by band if all arrays have one shape, else all at once."""
        arrays = self.arrays()
        if arrays is None:
            self.whole()
            return
        for first in range(0, len(arrays[0]), BAND_ELEMENTS):
            self.part(*[array[first : first + BAND_ELEMENTS] for array in arrays])

    def arrays(self) -> list[Any] | None:
        """Returns the datasets as flat arrays, if that does not change the result and there is more than one band;
        else None.
        """
        import numpy as np

        slots = [self.lib.getData(name) for name, _ in self.datasets]
        # Numbers only; records are objects of another class.
        if not slots or any(type(slot).__name__ != "FlatBuffer" for slot in slots):
            return None
        (dims, count), *others = {(slot.dims, len(slot)) for slot in slots}
        shaped = {shaped for _, shaped in self.datasets}
        if others or count != math.prod(dims) or count < 2 * BAND_ELEMENTS or (len(shaped) > 1 and len(dims) > 1):
            return None
        arrays = [np.asarray(slot) for slot in slots]
        # The restriction on integers above holds for outputs, too.
        return None if any(array.flags.writeable and array.dtype.kind != "f" for array in arrays) else arrays


def banded(source: str, scope: dict[str, Any], entry: Any) -> Any:
    """Returns the callable for ``dynamic_dataset`` of a module that has run: ``entry``, or its band-wise form."""
    if "numpy" not in source or len(source) > MAX_SOURCE_CHARACTERS:
        return entry
    try:
        reader = Reader()
        function = reader.module(ast.parse(source))
        if not reader.numpy or not reader.datasets:
            return entry
        tree = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
        made: dict[str, Any] = {}
        exec(compile(tree, "udf.py", "exec", dont_inherit=True), made)
    except (NotVectorizable, RecursionError, MemoryError):
        return entry
    return Bands(scope["lib"], entry, types.FunctionType(made["dynamic_dataset"].__code__, scope), reader)
