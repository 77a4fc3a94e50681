"""Prints, as JSON, the datasets that the Python source on standard input passes to `lib`.

{"names": [...], "needs": [...]} or {"error": "...", "line": N}. The source is parsed, never run.
"""

import ast
import json
import sys
import warnings

METHODS = {"getData", "getDims", "getType", "getSize", "array", "getAttr"}
#: Method whose second argument names an attribute.
ATTRIBUTE = "getAttr"
#: Functions whose use is declared in the record.
NEEDS = {"seed", "clock"}
MAX_NAMES = 10_000
MAX_LENGTH = 65_536
MEMORY = 2 << 30


class ProblemError(Exception):
    """Error in the source, with its line."""

    def __init__(self, node, message):
        super().__init__(message)
        self.line = node.lineno


class Scope:
    """Names bound in a module, class, function or comprehension.

    A binding is the list of possible values of the name, as expressions, where `*x` means the elements of x, or None.
    """

    def __init__(self, parent, kind):
        self.parent, self.kind, self.bound = parent, kind, {}

    def bind(self, name, values):
        self.bound.setdefault(name, []).append(values)

    def find(self, name):
        """Returns the only binding of `name` visible from here, and its scope; or (None, None)."""
        scope = self
        while scope is not None:
            if name in scope.bound and (scope is self or scope.kind != "class"):
                bindings = scope.bound[name]
                return (bindings[0], scope) if len(bindings) == 1 else (None, None)
            scope = scope.parent
        return None, None


class Reader(ast.NodeVisitor):
    """Records the bindings of each scope, and the uses of names."""

    def __init__(self):
        self.module = self.scope = Scope(None, "module")
        self.parents = []
        self.uses = []  # (the name's node, its parent, its grandparent, its scope)
        self.aliases = {}  # by the id of an expression, the (scope, name) pairs that it is bound to

    def visit(self, node):
        self.parents.append(node)
        getattr(self, "visit_" + type(node).__name__, self.generic_visit)(node)
        self.parents.pop()

    def is_followed(self, node):
        """Returns whether an expression is bound to names, and these have no other values."""
        bound = self.aliases.get(id(node), [])
        return bound != [] and all(len(scope.bound[name]) == 1 for scope, name in bound)

    def visit_all(self, *parts):
        for part in parts:
            for node in part if isinstance(part, list) else [part]:
                if node is not None:
                    self.visit(node)

    # Bindings

    def bind(self, target, values):
        if isinstance(target, ast.Name):
            scope = self.scope
            # An assignment expression binds outside the enclosing comprehensions.
            while isinstance(self.parents[-1], ast.NamedExpr) and scope.kind == "comprehension":
                scope = scope.parent
            scope.bind(target.id, values)
            # A class's names are also read as attributes, which are not tracked.
            if values is not None and len(values) == 1 and scope.kind != "class":
                self.aliases.setdefault(id(values[0]), []).append((scope, target.id))
        elif isinstance(target, (ast.Tuple, ast.List)):
            columns = unpack(target.elts, values)
            for element, column in zip(target.elts, columns, strict=True):
                self.bind(element, column)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, None)
        else:
            self.visit(target)

    def visit_Assign(self, node):
        for target in node.targets:
            self.bind(target, [node.value])
        self.visit(node.value)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.bind(node.target, [node.value])
        self.visit_all(node.annotation, node.value)

    def visit_NamedExpr(self, node):
        self.bind(node.target, [node.value])
        self.visit(node.value)

    def visit_For(self, node):
        literal = isinstance(node.iter, (ast.Tuple, ast.List))
        self.bind(node.target, node.iter.elts if literal else [ast.Starred(node.iter, ast.Load())])
        self.visit(node.iter)
        for field in ("ifs", "body", "orelse"):
            self.visit_all(getattr(node, field, []))

    visit_AsyncFor = visit_comprehension = visit_For

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.uses.append((node, self.parents[-2], self.parents[-3], self.scope))
        else:
            self.scope.bind(node.id, None)

    def visit_Global(self, node):
        # Such a name has bindings in several scopes, so its value is unknown in all of them.
        scope = self.scope
        while scope is not None:
            for name in node.names:
                scope.bind(name, None)
            scope = scope.parent

    visit_Nonlocal = visit_Global

    def visit_alias(self, node):
        self.scope.bind((node.asname or node.name).partition(".")[0], None)

    def visit_arg(self, node):
        self.scope.bind(node.arg, None)
        self.visit_all(node.annotation)

    def visit_MatchAs(self, node):
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self.scope.bind(name, None)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchMapping = visit_ExceptHandler = visit_MatchAs

    # Scopes

    def enter(self, kind, *parts):
        self.scope = Scope(self.scope, kind)
        self.visit_all(*parts)
        self.scope = self.scope.parent

    def visit_FunctionDef(self, node):
        if not isinstance(node, ast.Lambda):
            self.scope.bind(node.name, None)
            self.visit_all(node.decorator_list, node.returns)
        args = node.args
        self.visit_all(args.defaults, args.kw_defaults)
        plain = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self.enter("function", plain, args.vararg, args.kwarg, node.body)

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.scope.bind(node.name, None)
        self.visit_all(node.decorator_list, node.bases, node.keywords)
        self.enter("class", node.body)

    def visit_ListComp(self, node):
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.enter("comprehension", node.generators, parts)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def unpack(targets, values):
    """Returns, for each of `targets`, which are assigned together, its possible values as expressions."""
    rows = [v.elts for v in values or [] if isinstance(v, (ast.Tuple, ast.List))]
    starred = any(isinstance(e, ast.Starred) for row in [targets, *rows] for e in row)
    if starred or not rows or len(rows) != len(values) or any(len(row) != len(targets) for row in rows):
        return [None] * len(targets)
    return [list(column) for column in zip(*rows, strict=True)]


def method_of(node, scope):
    """Returns the name of the function of `lib` that an expression refers to, or None."""
    if isinstance(node, ast.Attribute):
        found = isinstance(node.value, ast.Name) and node.value.id == "lib" and node.attr in METHODS
        return node.attr if found else None
    values, _ = scope.find(node.id)
    if values and len(values) == 1 and isinstance(values[0], ast.Attribute):
        return method_of(values[0], scope)
    return None


def elements(node, scope):
    """Returns the expressions in a tuple or list, and their scope. A name must refer to a tuple, which is constant."""
    if isinstance(node, ast.Name):
        values, scope = scope.find(node.id)
        node = values[0] if values and len(values) == 1 and isinstance(values[0], ast.Tuple) else None
    return (node.elts, scope) if isinstance(node, (ast.Tuple, ast.List)) else (None, None)


def strings(node, scope, seen=()):
    """Returns all possible string values of an expression, or None if they are not known."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        plain = all(isinstance(v, ast.Constant) for v in node.values)
        return ["".join(v.value for v in node.values)] if plain else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = strings(node.left, scope, seen), strings(node.right, scope, seen)
        if not left or not right or len(left) * len(right) > MAX_NAMES:
            return None
        sums = [a + b for a in left for b in right]
        return None if max(map(len, sums)) > MAX_LENGTH else sums
    if not isinstance(node, ast.Name):
        return None
    values, scope = scope.find(node.id)
    if values is None or (scope, node.id) in seen:
        return None
    seen = (*seen, (scope, node.id))
    found = []
    for value in values:
        inner = scope
        parts = [value]
        if isinstance(value, ast.Starred):
            parts, inner = elements(value.value, scope)
        for part in parts or [None]:
            some = strings(part, inner, seen)
            if some is None:
                return None
            found += some
    return found or None


def names_of(call, scope, method):
    """Returns the names that a call passes."""
    usage = (
        f'lib.{method} needs the dataset\'s name as a string constant, as in lib.{method}("NIR"); '
        "names must be constants because they are recorded when the function is attached"
    )
    if not call.args:
        raise ProblemError(call, usage)
    name = call.args[0]
    found = strings(name, scope)
    if method == ATTRIBUTE:
        usage = usage.replace('("NIR")', '("NIR", "scale_factor")').replace(
            "name as a", "and the attribute's name as a"
        )
        if len(call.args) != 2 or call.keywords:
            raise ProblemError(call, usage)
        attributes = strings(call.args[1], scope)
        both = found is not None and attributes is not None and len(found) * len(attributes) <= MAX_NAMES
        found = [f"{a}@{b}" for a in found for b in attributes] if both else None
        name = call.args[1] if attributes is None else name
    if found is None:
        if isinstance(name, ast.JoinedStr):
            usage += "; an f-string with placeholders is not one"
        elif isinstance(name, ast.Name):
            usage += f"; {name.id} is not assigned just once, to a constant or in a loop over constants"
        raise ProblemError(call, usage)
    for text in found:
        try:
            text.encode()
        except UnicodeEncodeError:
            text = ""
        if not text or "\0" in text:
            raise ProblemError(call, "this text cannot be the name of a dataset")
    return found


def refuse_generators(tree):
    """Fails if a call of `dynamic_dataset` would run nothing of it."""
    advice = ", so that a call computes nothing; write a plain function, which writes to its outputs"
    for node in tree.body:
        # A decorator may make something else of the function.
        if getattr(node, "name", None) != "dynamic_dataset" or getattr(node, "decorator_list", None):
            continue
        if isinstance(node, ast.AsyncFunctionDef):
            raise ProblemError(node, "dynamic_dataset is `async`" + advice)
        waiting = list(node.body) if isinstance(node, ast.FunctionDef) else []
        while waiting:
            part = waiting.pop()
            if isinstance(part, (ast.Yield, ast.YieldFrom)):
                raise ProblemError(part, "dynamic_dataset contains `yield`" + advice)
            if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                waiting.extend(ast.iter_child_nodes(part))


def scan(source):
    tree = ast.parse(source)
    refuse_generators(tree)
    # Long `elif` chains are deep trees. Parsing itself is safer with the lower default.
    sys.setrecursionlimit(20_000)
    reader = Reader()
    reader.visit(tree)
    names = {}
    for node, parent, outer, scope in sorted(reader.uses, key=lambda u: (u[0].lineno, u[0].col_offset)):
        function, user = node, parent
        if node.id == "lib" and isinstance(parent, ast.Attribute):
            function, user = parent, outer
        method = method_of(function, scope)
        if method is None and (function is not node or node.id != "lib"):
            continue
        if method is not None and isinstance(user, ast.Call) and user.func is function:
            names.update(dict.fromkeys(names_of(user, scope, method)))
            if len(names) > MAX_NAMES:
                raise ProblemError(node, f"the source names more than {MAX_NAMES} datasets")
        elif function is node or not reader.is_followed(function):
            message = f"{ast.unparse(function)} is passed on here, so the names that it gets cannot be seen"
            raise ProblemError(node, message + '; call it as lib.getData("NIR") instead')
    if "dynamic_dataset" not in reader.module.bound:
        advice = "write its computation in `def dynamic_dataset():`"
        return {"error": "the source does not define dynamic_dataset; " + advice}
    uses = [p.attr for n, p, _, _ in reader.uses if n.id == "lib" and isinstance(p, ast.Attribute)]
    return {"names": list(names), "needs": sorted(NEEDS.intersection(uses))}


def main():
    warnings.simplefilter("ignore")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, OSError, ValueError):
        pass  # A lower limit is already set, or this system has none.
    try:
        found = scan(sys.stdin.buffer.read().decode())
    except ProblemError as problem:
        found = {"error": str(problem), "line": problem.line}
    except SyntaxError as problem:
        found = {"error": f"Python cannot parse this: {problem.msg}", "line": problem.lineno}
    except (MemoryError, RecursionError, ValueError):
        found = {"error": "the source is too large or too deeply nested to parse"}
    print(json.dumps(found))


main()
