//! Structure of a Lua source: the variable of each name, and the numeric loops.
//!
//! The grammar is Lua 5.1's with LuaJIT's `goto`. Any deviation gives no result at all, so that nothing is
//! rewritten in a source that is not completely understood.

use crate::scan::token::{COMPARE, CONCAT, Kind, SCOPE, Tokens};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Maximum nesting of blocks, functions and parentheses.
const MAX_DEPTH: usize = 120;

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Number of a local variable.
pub(super) type Variable = usize;

/// Loop `for NAME = FIRST, LAST do BODY end`; the numbers are token indices.
#[derive(Debug)]
pub(super) struct NumericLoop {
    pub(super) for_at: usize,
    pub(super) variable: Variable,
    pub(super) first: Range<usize>,
    pub(super) last: Range<usize>,
    pub(super) body: Range<usize>,
}

/// Declaration `local NAME, … = EXPRESSION, …`
#[derive(Debug)]
pub(super) struct Local {
    pub(super) variables: Vec<Variable>,
    pub(super) values: Vec<Range<usize>>,
}

/// Result of the analysis.
#[derive(Debug, Default)]
pub(super) struct Structure {
    /// Variable of the name at each token, except globals.
    pub(super) names: HashMap<usize, Variable>,
    /// For each variable, the function that declares it (0 is the source itself), and the tokens where it is
    /// used.
    pub(super) variables: Vec<(usize, Vec<usize>)>,
    /// Variables used in another function than the declaring one.
    pub(super) captured: HashSet<Variable>,
    pub(super) loops: Vec<NumericLoop>,
    pub(super) locals: Vec<Local>,
    /// Set if `...` is used outside all functions.
    pub(super) takes_arguments: bool,
}

/// Parses a whole source.
pub(super) fn read(tokens: &Tokens<'_>) -> Option<Structure> {
    let mut reader = Reader {
        tokens,
        at: 0,
        depth: 0,
        scope: Vec::new(),
        known: HashMap::new(),
        functions: vec![0],
        made: 0,
        found: Structure::default(),
    };
    reader.block()?;
    (reader.at == tokens.len()).then_some(reader.found)
}

struct Reader<'a, 'b> {
    tokens: &'b Tokens<'a>,
    at: usize,
    depth: usize,
    /// Names in scope, in order of declaration, and the variables of each, innermost last.
    scope: Vec<&'a [u8]>,
    known: HashMap<&'a [u8], Vec<Variable>>,
    /// Enclosing functions, innermost last.
    functions: Vec<usize>,
    made: usize,
    found: Structure,
}

impl<'a> Reader<'a, '_> {
    fn is_op(&self, op: char) -> bool {
        self.tokens.is_op(self.at, op)
    }

    fn is(&self, word: &str) -> bool {
        self.tokens.kind(self.at) == Some(Kind::Word) && self.tokens.bytes(self.at) == word.as_bytes()
    }

    fn take_op(&mut self, op: char) -> bool {
        let there = self.is_op(op);
        self.at += usize::from(there);
        there
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.is(word);
        self.at += usize::from(there);
        there
    }

    fn need_op(&mut self, op: char) -> Option<()> {
        self.take_op(op).then_some(())
    }

    fn need(&mut self, word: &str) -> Option<()> {
        self.take(word).then_some(())
    }

    fn is_name(&self, at: usize) -> bool {
        is_name(self.tokens, at)
    }

    /// Parses a name that is not a variable, or is declared later.
    fn name(&mut self) -> Option<usize> {
        let at = self.at;
        self.at += 1;
        self.is_name(at).then_some(at)
    }

    fn declare(&mut self, name: &'a [u8]) -> Variable {
        let variable = self.found.variables.len();
        let function = self.functions.last().copied().unwrap_or(0);
        self.found.variables.push((function, Vec::new()));
        self.scope.push(name);
        self.known.entry(name).or_default().push(variable);
        variable
    }

    fn declare_at(&mut self, at: usize) -> Variable {
        let variable = self.declare(self.tokens.bytes(at));
        self.found.names.insert(at, variable);
        variable
    }

    fn used(&mut self, at: usize) {
        let name = self.tokens.bytes(at);
        let Some(&variable) = self.known.get(name).and_then(|all| all.last()) else { return };
        self.found.names.insert(at, variable);
        if let Some((function, uses)) = self.found.variables.get_mut(variable) {
            uses.push(at);
            if self.functions.last() != Some(function) {
                self.found.captured.insert(variable);
            }
        }
    }

    /// Leaves a scope: forgets all names except the first `open`.
    fn leave(&mut self, open: usize) {
        for name in self.scope.drain(open..) {
            if let Some(variables) = self.known.get_mut(name) {
                variables.pop();
            }
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let done = read(self);
        self.depth -= 1;
        done
    }

    /// Parses statements with their own scope.
    fn block(&mut self) -> Option<()> {
        let open = self.scope.len();
        self.statements()?;
        self.leave(open);
        Some(())
    }

    fn block_ends(&self) -> bool {
        self.at >= self.tokens.len() || ["end", "else", "elseif", "until"].iter().any(|word| self.is(word))
    }

    fn statements(&mut self) -> Option<()> {
        while !self.block_ends() {
            if self.take("return") {
                if !self.block_ends() && !self.is_op(';') {
                    self.expressions()?;
                }
                self.take_op(';');
                return self.block_ends().then_some(());
            }
            self.deeper(Self::statement)?;
            self.take_op(';');
        }
        Some(())
    }

    fn statement(&mut self) -> Option<()> {
        let start = self.at;
        if self.take("if") {
            self.expression()?;
            self.need("then")?;
            self.block()?;
            while self.take("elseif") {
                self.expression()?;
                self.need("then")?;
                self.block()?;
            }
            if self.take("else") {
                self.block()?;
            }
            return self.need("end");
        }
        if self.take("while") {
            self.expression()?;
            self.need("do")?;
            self.block()?;
            return self.need("end");
        }
        if self.take("do") {
            self.block()?;
            return self.need("end");
        }
        if self.take("repeat") {
            let open = self.scope.len();
            self.statements()?;
            self.need("until")?;
            self.expression()?;
            self.leave(open);
            return Some(());
        }
        if self.take("for") {
            return self.for_loop(start);
        }
        if self.take("function") {
            let name = self.name()?;
            self.used(name);
            while self.take_op('.') {
                self.name()?;
            }
            let is_method = self.take_op(':');
            if is_method {
                self.name()?;
            }
            return self.function(is_method);
        }
        if self.take("local") {
            return self.local();
        }
        if self.take("break") {
            return Some(());
        }
        if self.take_op(SCOPE) {
            self.name()?;
            return self.need_op(SCOPE);
        }
        if self.is("goto") && self.is_name(self.at + 1) {
            self.at += 2;
            return Some(());
        }
        self.call_or_assignment()
    }

    fn for_loop(&mut self, for_at: usize) -> Option<()> {
        let name = self.name()?;
        if !self.take_op('=') {
            let mut names = vec![name];
            while self.take_op(',') {
                names.push(self.name()?);
            }
            self.need("in")?;
            self.expressions()?;
            self.need("do")?;
            let open = self.scope.len();
            for name in names {
                self.declare_at(name);
            }
            self.block()?;
            self.leave(open);
            return self.need("end");
        }
        let first = self.expression()?;
        self.need_op(',')?;
        let last = self.expression()?;
        let has_step = self.take_op(',');
        if has_step {
            self.expression()?;
        }
        self.need("do")?;
        let open = self.scope.len();
        let variable = self.declare_at(name);
        let start = self.at;
        self.block()?;
        self.leave(open);
        let body = start..self.at;
        self.need("end")?;
        if !has_step {
            self.found.loops.push(NumericLoop { for_at, variable, first, last, body });
        }
        Some(())
    }

    fn local(&mut self) -> Option<()> {
        if self.take("function") {
            let name = self.name()?;
            self.declare_at(name);
            return self.function(false);
        }
        let mut names = vec![self.name()?];
        while self.take_op(',') {
            names.push(self.name()?);
        }
        let values = if self.take_op('=') { self.expressions()? } else { Vec::new() };
        let variables = names.into_iter().map(|name| self.declare_at(name)).collect();
        self.found.locals.push(Local { variables, values });
        Some(())
    }

    /// Parses parameters and body.
    fn function(&mut self, is_method: bool) -> Option<()> {
        let open = self.scope.len();
        self.made += 1;
        self.functions.push(self.made);
        if is_method {
            self.declare(b"self");
        }
        self.need_op('(')?;
        if !self.take_op(')') {
            loop {
                if self.is_varargs() {
                    self.at += 1;
                    break;
                }
                let name = self.name()?;
                self.declare_at(name);
                if !self.take_op(',') {
                    break;
                }
            }
            self.need_op(')')?;
        }
        self.deeper(Self::block)?;
        self.functions.pop();
        self.leave(open);
        self.need("end")
    }

    fn call_or_assignment(&mut self) -> Option<()> {
        if self.suffixed()? {
            return Some(());
        }
        while self.take_op(',') {
            if self.suffixed()? {
                return None;
            }
        }
        self.need_op('=')?;
        self.expressions().map(|_| ())
    }

    fn expressions(&mut self) -> Option<Vec<Range<usize>>> {
        let mut all = vec![self.expression()?];
        while self.take_op(',') {
            all.push(self.expression()?);
        }
        Some(all)
    }

    /// Parses alternating operands and operators: precedence is irrelevant for names.
    fn expression(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        loop {
            while self.take("not") || self.take_op('-') || self.take_op('#') {}
            self.deeper(Self::operand)?;
            let operator = match self.tokens.kind(self.at) {
                Some(Kind::Op(op)) => ['+', '-', '*', '/', '%', '^', '<', '>', COMPARE, CONCAT].contains(&op),
                _ => self.is("and") || self.is("or"),
            };
            if !operator {
                return Some(start..self.at);
            }
            self.at += 1;
        }
    }

    fn is_varargs(&self) -> bool {
        self.tokens.kind(self.at) == Some(Kind::Other) && self.tokens.bytes(self.at) == b"..."
    }

    fn operand(&mut self) -> Option<()> {
        if self.is_varargs() {
            self.found.takes_arguments |= self.functions.len() == 1;
        }
        let is_literal = matches!(self.tokens.kind(self.at)?, Kind::Other | Kind::Text | Kind::Raw);
        if is_literal || self.is("nil") || self.is("true") || self.is("false") {
            self.at += 1;
            return Some(());
        }
        if self.is_op('{') {
            return self.table();
        }
        if self.take("function") {
            return self.function(false);
        }
        self.suffixed().map(|_| ())
    }

    /// Parses a variable, or a call if the result is `true`.
    fn suffixed(&mut self) -> Option<bool> {
        if self.take_op('(') {
            self.deeper(Self::expression)?;
            self.need_op(')')?;
        } else {
            let name = self.name()?;
            self.used(name);
        }
        let mut is_call = false;
        loop {
            match self.tokens.kind(self.at) {
                Some(Kind::Op('.')) => {
                    self.at += 1;
                    self.name()?;
                    is_call = false;
                }
                Some(Kind::Op('[')) => {
                    self.at += 1;
                    self.deeper(Self::expression)?;
                    self.need_op(']')?;
                    is_call = false;
                }
                Some(Kind::Op(':')) => {
                    self.at += 1;
                    self.name()?;
                    self.arguments()?;
                    is_call = true;
                }
                Some(Kind::Op('(' | '{') | Kind::Text | Kind::Raw) => {
                    self.arguments()?;
                    is_call = true;
                }
                _ => return Some(is_call),
            }
        }
    }

    fn arguments(&mut self) -> Option<()> {
        if self.tokens.is_string(self.at) {
            self.at += 1;
            return Some(());
        }
        if self.is_op('{') {
            return self.deeper(Self::table);
        }
        self.need_op('(')?;
        if !self.is_op(')') {
            self.deeper(Self::expressions)?;
        }
        self.need_op(')')
    }

    fn table(&mut self) -> Option<()> {
        self.need_op('{')?;
        while !self.is_op('}') {
            if self.take_op('[') {
                self.expression()?;
                self.need_op(']')?;
                self.need_op('=')?;
            } else if self.is_name(self.at) && self.tokens.is_op(self.at + 1, '=') {
                self.at += 2;
            }
            self.expression()?;
            if !self.take_op(',') && !self.take_op(';') {
                break;
            }
        }
        self.need_op('}')
    }
}

/// Returns whether the token is a name and not a keyword.
pub(super) fn is_name(tokens: &Tokens<'_>, at: usize) -> bool {
    tokens.kind(at) == Some(Kind::Word)
        && !KEYWORDS.iter().any(|keyword| keyword.as_bytes() == tokens.bytes(at))
}
