//! Translation of `dynamic_dataset` into a list of kernel launches; the function itself never runs.

mod launch;

use super::cursor::Cursor;
use super::expression::{ADVICE, Expression, LibResult, Scope, Variable, VariableKind, number_type};
use super::kernel::{Base, Kernel, Type, parse_type};
use super::lex::{Kind, Token};
use super::types::Number;
use crate::error::{Result, fail};
use crate::escape::escape;

/// Maximum number of statements, and of launches among them.
const MAX_STATEMENTS: usize = 4096;
const MAX_LAUNCHES: usize = 64;

/// Statement of `dynamic_dataset`.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// Assignment to a number.
    Number(usize, Expression),
    /// Assignment to a `dim3`.
    Dim3(usize, Shape),
    /// Assignment to a component of a `dim3`.
    Part(usize, usize, Expression),
    Launch(Box<Launch>),
}

/// Value of a `dim3`.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Variable(usize),
    Parts(Vec<Expression>),
}

/// Launch of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) instance: usize,
    pub(super) grid: Shape,
    pub(super) block: Shape,
    pub(super) shared: Option<Expression>,
    pub(super) arguments: Vec<Argument>,
    pub(super) line: u32,
}

/// Argument of a kernel.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    /// Elements of a dataset.
    Data(String),
    /// Number, in the parameter's type.
    Number(Expression),
}

/// Kernel with all types known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    /// Name in the source, with template arguments.
    pub(super) expression: String,
    pub(super) parameters: Vec<Type>,
    pub(super) line: u32,
}

/// Statements of `dynamic_dataset`.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) statements: Vec<Statement>,
    pub(super) instances: Vec<Instance>,
    /// Each dataset whose elements are used, with their type in the source and the line.
    pub(super) data: Vec<(String, Base, u32)>,
    pub(super) names: Vec<String>,
    pub(super) variables: usize,
}

/// Translates `body`, given with its braces.
///
/// # Errors
/// `Syntax` or `Unsupported`, with the line and what to write instead; `Limit`.
pub(super) fn translate(body: &[Token<'_>], kernels: &[Kernel]) -> Result<Host> {
    let inner = body.get(1..body.len().saturating_sub(1)).unwrap_or_default();
    let mut parser = Parser { kernels, scope: Scope::default(), host: Host::default() };
    let mut cursor = Cursor::new(inner);
    let mut count = 0;
    while !cursor.ends() {
        count += 1;
        if count > MAX_STATEMENTS {
            fail!(Limit, "dynamic_dataset has more than {MAX_STATEMENTS} statements")
        }
        parser.statement(&mut cursor)?;
    }
    let Parser { scope, mut host, .. } = parser;
    if !host.statements.iter().any(|s| matches!(s, Statement::Launch(_))) {
        let line = body.first().map_or(1, |t| t.line);
        fail!(
            Syntax,
            "line {line}: dynamic_dataset launches no kernel: kernel<<<grid, block>>>(…) is missing"
        )
    }
    host.names = scope.names;
    host.variables = scope.variables.len();
    Ok(host)
}

struct Parser<'k> {
    kernels: &'k [Kernel],
    scope: Scope,
    host: Host,
}

impl Parser<'_> {
    fn statement(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        let line = cursor.line();
        if cursor.take(";") {
            return Ok(());
        }
        let Some(first) = cursor.peek(0) else { return Ok(()) };
        let following = cursor.peek(1).map_or("", |t| t.text);
        match first.text {
            "return" if following == ";" && cursor.peek(2).is_none() => {
                cursor.next();
                cursor.need(";")
            }
            // Kernels and copies run in order, and all are complete before the results are used.
            "cudaDeviceSynchronize" => {
                cursor.next();
                cursor.need("(")?;
                cursor.need(")")?;
                cursor.need(";")
            }
            word if self.scope.find(word).is_some() && first.kind == Kind::Word => {
                self.assignment(cursor, word)
            }
            _ if self.is_launch(cursor) => self.launch(cursor),
            "if" | "for" | "while" | "do" | "switch" | "{" | "goto" => fail!(
                Unsupported,
                "line {line}: `{}` is not translated: dynamic_dataset does not run, it is read as a list of launches; {ADVICE}",
                first.text
            ),
            word if word.starts_with("cuda") => fail!(
                Unsupported,
                "line {line}: {} is not translated: Hyperchunk itself manages memory, copies and streams; {ADVICE}",
                escape(word, 80)
            ),
            _ if first.kind == Kind::Word && following == "(" => {
                fail!(Unsupported, "line {line}: {} is not translated; {ADVICE}", escape(first.text, 80))
            }
            _ if first.kind == Kind::Word || first.kind == Kind::Unknown => self.declaration(cursor),
            _ => fail!(Syntax, "line {line}: unexpected {}; {ADVICE}", cursor.describe_next()),
        }
    }

    /// Returns whether a launch is next: a name, perhaps with template arguments, and `<<<`.
    fn is_launch(&self, cursor: &Cursor<'_, '_>) -> bool {
        let mut ahead = *cursor;
        while let Some(token) = ahead.peek(0) {
            if ahead.is("<<<") {
                return true;
            }
            let inner = token.kind != Kind::Op || matches!(token.text, "<" | ">" | "," | ":");
            if !inner {
                return false;
            }
            ahead.next();
        }
        false
    }

    fn declare(&mut self, name: &str, kind: VariableKind, constant: bool, line: u32) -> Result<usize> {
        if self.scope.find(name).is_some() || Number::is_word(name) || name == "lib" {
            fail!(Syntax, "line {line}: {} is already declared", escape(name, 80))
        }
        self.scope.variables.push(Variable { name: name.to_owned(), kind, constant });
        Ok(self.scope.variables.len() - 1)
    }

    fn declaration(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        let line = cursor.line();
        let mut constant = false;
        while ["const", "constexpr", "static"].iter().any(|w| cursor.take_word(w)) {
            constant = true;
        }
        if cursor.take_word("auto") {
            constant |= cursor.take_word("const");
            while cursor.take("&") || cursor.take("*") {}
            return self.declare_auto(cursor, constant);
        }
        if cursor.take_word("dim3") {
            return self.declare_dim3(cursor, constant);
        }
        if cursor.is_word("std") && cursor.peek(3).is_some_and(|t| t.text == "vector")
            || cursor.is_word("vector")
        {
            let _ = cursor.take_word("std") && cursor.take("::");
            cursor.next();
            cursor.need("<")?;
            number_type(cursor)?;
            cursor.need(">")?;
            cursor.take("&");
            return self.declare_auto(cursor, constant);
        }
        let datatype = parse_type(cursor)?;
        if datatype.pointer {
            let Some(name) = cursor.word() else { fail!(Syntax, "line {line}: a name is missing") };
            cursor.need("=")?;
            let (dataset, base) = self.data(cursor)?;
            if base != datatype.base {
                fail!(
                    Syntax,
                    "line {line}: {} has type {}, but lib.getData returns {} *",
                    escape(name, 80),
                    datatype.spelling(),
                    base.spelling()
                )
            }
            self.declare(name, VariableKind::Data(dataset, base), true, line)?;
            return cursor.need(";");
        }
        let Base::Number(number) = datatype.base else {
            fail!(
                Unsupported,
                "line {line}: a variable of type {} is not translated; {ADVICE}",
                escape(&datatype.spelling(), 80)
            )
        };
        constant |= datatype.constant;
        loop {
            let Some(name) = cursor.word() else { fail!(Syntax, "line {line}: a name is missing") };
            let value = if cursor.take("=") {
                self.scope.expression(cursor)?
            } else if cursor.is("(") || cursor.is("{") {
                let end = if cursor.is("(") { ")" } else { "}" };
                cursor.next();
                let value = self.scope.expression(cursor)?;
                cursor.need(end)?;
                value
            } else {
                fail!(
                    Syntax,
                    "line {line}: {} has no initial value; give it one here, {ADVICE}",
                    escape(name, 80)
                )
            };
            let index = self.declare(name, VariableKind::Number(number), constant, line)?;
            self.host.statements.push(Statement::Number(index, value.into_number(number)?));
            if !cursor.take(",") {
                return cursor.need(";");
            }
        }
    }

    /// Parses a call of `lib.getData`.
    fn data(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<(String, Base)> {
        let line = cursor.line();
        if !cursor.is_word("lib") {
            fail!(
                Syntax,
                "line {line}: expected a call of lib.getData, got {}; {ADVICE}",
                cursor.describe_next()
            )
        }
        match self.scope.lib(cursor)? {
            LibResult::Data(name, base) => {
                self.host.data.push((name.clone(), base.clone(), line));
                Ok((name, base))
            }
            LibResult::List(_) => {
                fail!(
                    Syntax,
                    "line {line}: expected a call of lib.getData, which returns a pointer; {ADVICE}"
                )
            }
        }
    }

    fn declare_auto(&mut self, cursor: &mut Cursor<'_, '_>, constant: bool) -> Result<()> {
        loop {
            let line = cursor.line();
            let Some(name) = cursor.word() else { fail!(Syntax, "line {line}: a name is missing") };
            cursor.need("=")?;
            let before = cursor.at();
            let mut is_number = !cursor.is_word("lib");
            if !is_number {
                match self.scope.lib(cursor)? {
                    // An element of the list.
                    LibResult::List(_) if cursor.is("[") || cursor.is(".") => {
                        cursor.set(before);
                        is_number = true;
                    }
                    LibResult::List(list) => {
                        self.declare(name, VariableKind::List(list), true, line)?;
                    }
                    LibResult::Data(dataset, base) => {
                        self.host.data.push((dataset.clone(), base.clone(), line));
                        self.declare(name, VariableKind::Data(dataset, base), true, line)?;
                    }
                }
            } else if cursor.is_word("dim3") {
                cursor.next();
                let shape = Shape::Parts(self.parts(cursor)?);
                let index = self.declare(name, VariableKind::Dim3, constant, line)?;
                self.host.statements.push(Statement::Dim3(index, shape));
                is_number = false;
            }
            if is_number {
                let value = self.scope.expression(cursor)?;
                let index = self.declare(name, VariableKind::Number(value.number), constant, line)?;
                self.host.statements.push(Statement::Number(index, value));
            }
            if !cursor.take(",") {
                return cursor.need(";");
            }
        }
    }

    fn declare_dim3(&mut self, cursor: &mut Cursor<'_, '_>, constant: bool) -> Result<()> {
        loop {
            let line = cursor.line();
            let Some(name) = cursor.word() else { fail!(Syntax, "line {line}: a name is missing") };
            let shape = if cursor.take("=") {
                self.shape(cursor)?
            } else if cursor.is("(") || cursor.is("{") {
                Shape::Parts(self.parts(cursor)?)
            } else {
                Shape::Parts(Vec::new())
            };
            let index = self.declare(name, VariableKind::Dim3, constant, line)?;
            self.host.statements.push(Statement::Dim3(index, shape));
            if !cursor.take(",") {
                return cursor.need(";");
            }
        }
    }

    /// Parses the numbers in brackets after `dim3`.
    fn parts(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Vec<Expression>> {
        let line = cursor.line();
        let end = if cursor.is("{") { "}" } else { ")" };
        if !cursor.take("{") {
            cursor.need("(")?;
        }
        let mut parts = Vec::new();
        while !cursor.take(end) {
            if parts.len() == 3 {
                fail!(Syntax, "line {line}: a dim3 has three numbers at most")
            }
            parts.push(self.scope.expression(cursor)?);
            if !cursor.is(end) {
                cursor.need(",")?;
            }
        }
        Ok(parts)
    }

    /// Parses a `dim3`, or a number that stands for one.
    fn shape(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Shape> {
        if cursor.take_word("dim3") || cursor.is("{") {
            return Ok(Shape::Parts(self.parts(cursor)?));
        }
        if let Some(token) = cursor.peek(0).filter(|t| t.kind == Kind::Word)
            && let Some((index, Variable { kind: VariableKind::Dim3, .. })) = self.scope.find(token.text)
            && cursor.peek(1).is_none_or(|t| t.text != ".")
        {
            cursor.next();
            return Ok(Shape::Variable(index));
        }
        Ok(Shape::Parts(vec![self.scope.expression(cursor)?]))
    }

    fn assignment(&mut self, cursor: &mut Cursor<'_, '_>, word: &str) -> Result<()> {
        let line = cursor.line();
        let Some((index, variable)) = self.scope.find(word) else { return Ok(()) };
        let (kind, constant) = (variable.kind.clone(), variable.constant);
        cursor.next();
        let part = match kind {
            VariableKind::Dim3 if cursor.take(".") => {
                let part = cursor.word().and_then(|w| ["x", "y", "z"].iter().position(|p| *p == w));
                let Some(part) = part else { fail!(Syntax, "line {line}: a dim3 has x, y and z") };
                Some(part)
            }
            _ => None,
        };
        if constant || !cursor.take("=") {
            fail!(
                Unsupported,
                "line {line}: {}: only `{0} = …` is translated, and only for a number or dim3 that is not constant; {ADVICE}",
                escape(word, 80)
            )
        }
        let statement = match (kind, part) {
            (VariableKind::Number(number), _) => {
                Statement::Number(index, self.scope.expression(cursor)?.into_number(number)?)
            }
            (VariableKind::Dim3, Some(part)) => Statement::Part(index, part, self.scope.expression(cursor)?),
            (VariableKind::Dim3, None) => Statement::Dim3(index, self.shape(cursor)?),
            _ => fail!(Unsupported, "line {line}: {} cannot change; {ADVICE}", escape(word, 80)),
        };
        self.host.statements.push(statement);
        cursor.need(";")
    }
}
