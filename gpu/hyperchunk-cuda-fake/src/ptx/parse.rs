//! The parser of PTX: variables and functions, whose statements go to `decode`.

use super::instruction::{Action, Function, Instruction, Operand, Program, Slot, Space, Type, Variable};
use super::lexer::{Token, tokens};
use std::collections::HashMap;

/// An error, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) text: String,
}

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// Placeholder address of the dynamic shared memory of a launch.
pub(super) const DYNAMIC: u64 = u64::MAX;

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Program> {
    let mut parser =
        Parser { tokens: tokens(text), at: 0, program: Program::default(), names: HashMap::new(), shared: 0 };
    parser.module()?;
    parser.program.shared_bytes = usize::try_from(parser.shared).unwrap_or(usize::MAX);
    Ok(parser.program)
}

/// An operand before resolving names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RawOperand<'a> {
    Word(&'a str),
    Negative(&'a str),
    Not(&'a str),
    Pair(&'a str, &'a str),
    Memory(&'a str, i64),
    Vector(Vec<RawOperand<'a>>),
    List(Vec<RawOperand<'a>>),
}

pub(super) struct Parser<'a> {
    tokens: Vec<(Token<'a>, usize)>,
    at: usize,
    program: Program,
    /// Names of the module's variables.
    names: HashMap<&'a str, Operand>,
    /// The next free offset in shared memory.
    shared: u64,
}

/// The parser's state in a function's body.
pub(super) struct Body<'a> {
    pub(super) function: Function,
    /// Names by scope, inner scopes last.
    scopes: Vec<HashMap<&'a str, Operand>>,
    /// Numbered registers: prefix, index of the first, count.
    families: Vec<(&'a str, usize, usize)>,
    labels: HashMap<&'a str, usize>,
    tables: HashMap<&'a str, Vec<&'a str>>,
    /// Branches with unresolved targets: the instruction, the names and the line.
    branches: Vec<(usize, Vec<&'a str>, usize)>,
    indexed: Vec<(usize, &'a str, usize)>,
    pub(super) line: usize,
}

impl<'a> Body<'a> {
    /// Looks up a register, variable or parameter.
    pub(super) fn look_up(&self, name: &str, globals: &HashMap<&'a str, Operand>) -> Option<Operand> {
        if let Some(found) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Some(*found);
        }
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, number) = name.split_at(name.len() - digits);
        if let Ok(number) = number.parse::<usize>()
            && let Some((_, first, _)) =
                self.families.iter().rev().find(|(of, _, count)| *of == prefix && number < *count)
        {
            return Some(Operand::Register(first + number));
        }
        globals.get(name).copied()
    }

    pub(super) fn wrong<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(ParseError { line: self.line, text: text.into() })
    }

    pub(super) fn branch(&mut self, to: &'a str) {
        self.branches.push((self.function.code.len(), vec![to], self.line));
    }

    pub(super) fn indexed(&mut self, table: &'a str) {
        self.indexed.push((self.function.code.len(), table, self.line));
    }

    /// Allocates room in one of the memories, after `used`.
    fn room(used: &mut usize, bytes: usize, align: usize) -> u64 {
        let offset = used.next_multiple_of(align.max(1));
        *used = offset + bytes;
        offset as u64
    }
}

impl<'a> Parser<'a> {
    pub(super) fn globals(&self) -> &HashMap<&'a str, Operand> {
        &self.names
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(_, line)| *line)
    }

    fn wrong<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(ParseError { line: self.line(), text: text.into() })
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|(token, _)| *token)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            other => {
                self.at -= 1;
                self.wrong(format!("expected a word, got {other:?}"))
            }
        }
    }

    fn sign(&mut self, sign: char) -> Result<()> {
        if self.take(sign) { Ok(()) } else { self.wrong(format!("expected `{sign}`, got {:?}", self.peek())) }
    }

    fn take(&mut self, sign: char) -> bool {
        let there = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(there);
        there
    }

    fn number(&mut self) -> Result<usize> {
        let word = self.word()?;
        match integer(word).and_then(|value| usize::try_from(value).ok()) {
            Some(value) => Ok(value),
            None => self.wrong(format!("{word} is not a number")),
        }
    }

    fn module(&mut self) -> Result<()> {
        while let Some(token) = self.peek() {
            let Token::Word(word) = token else {
                return self.wrong(format!("{token:?} outside of functions"));
            };
            match word {
                ".version" | ".address_size" => {
                    self.at += 1;
                    let value = self.word()?;
                    if word == ".address_size" && value != "64" {
                        return self.wrong(format!("addresses of {value} bits"));
                    }
                }
                ".target" => {
                    self.at += 1;
                    self.word()?;
                    while self.take(',') {
                        self.word()?;
                    }
                }
                ".file" => {
                    self.at += 2;
                    while matches!(self.peek(), Some(Token::Text | Token::Sign(','))) || self.follows_number()
                    {
                        self.at += 1;
                    }
                }
                ".visible" | ".extern" | ".weak" | ".common" => self.at += 1,
                ".entry" => self.function(true)?,
                ".func" => self.function(false)?,
                ".global" | ".const" | ".shared" => self.variable(None)?,
                _ => return self.wrong(format!("unsupported directive {word}")),
            }
        }
        Ok(())
    }

    fn follows_number(&self) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Parses a variable of the module or of a function.
    fn variable(&mut self, body: Option<&mut Body<'a>>) -> Result<()> {
        let space = self.word()?;
        let mut align = 1;
        let mut ty = None;
        let mut each = 1;
        let name = loop {
            let word = self.word()?;
            match word {
                ".align" => align = self.number()?,
                ".v2" => each = 2,
                ".v4" => each = 4,
                _ if word.starts_with('.') => match Type::parse(&word[1..]) {
                    Some(found) => ty = Some(found),
                    None => return self.wrong(format!("a variable of type {word} is not known")),
                },
                _ => break word,
            }
        };
        let Some(ty) = ty else { return self.wrong(format!("{name} has no type")) };
        align = align.max(ty.bytes() * each);
        let mut count = each;
        while self.take('[') {
            let of = if self.peek() == Some(Token::Sign(']')) { 0 } else { self.number()? };
            self.sign(']')?;
            count = count.checked_mul(of).filter(|count| *count <= 1 << 30).unwrap_or(usize::MAX);
        }
        let Some(bytes) = count.checked_mul(ty.bytes()).filter(|bytes| *bytes <= 1 << 30) else {
            return self.wrong(format!("{name} is too large"));
        };
        let mut initial = Vec::new();
        if self.take('=') {
            self.initial(ty, &mut initial)?;
        }
        if initial.len() > bytes {
            return self.wrong(format!("{name} has more values than elements"));
        }
        self.sign(';')?;
        let operand = match (space, body) {
            (".shared", _) if bytes == 0 => Operand::Place(Space::Shared, DYNAMIC),
            (".shared", _) => {
                self.shared = self.shared.next_multiple_of(align as u64);
                let operand = Operand::Place(Space::Shared, self.shared);
                self.shared += bytes as u64;
                operand
            }
            (".local", Some(body)) => {
                let operand =
                    Operand::Place(Space::Local, Body::room(&mut body.function.local_bytes, bytes, align));
                return body.define(name, operand);
            }
            (".param", Some(body)) => {
                let offset = Body::room(&mut body.function.param_bytes, bytes, align);
                body.define(name, Operand::Place(Space::Param, offset))?;
                return Ok(());
            }
            (".global" | ".const", _) => {
                self.program.variables.push(Variable { bytes, initial });
                Operand::Global(self.program.variables.len() - 1)
            }
            _ => return self.wrong(format!("a variable in {space} is not known here")),
        };
        self.names.insert(name, operand);
        Ok(())
    }

    /// Parses the values of a variable.
    fn initial(&mut self, ty: Type, to: &mut Vec<u8>) -> Result<()> {
        if self.take('{') {
            loop {
                if self.take('}') {
                    return Ok(());
                }
                self.initial(ty, to)?;
                self.take(',');
            }
        }
        let negative = self.take('-');
        let word = self.word()?;
        let Some(value) = immediate(word, ty) else {
            return self.wrong(format!("the value {word} of a variable is not known"));
        };
        let value = if negative { value.wrapping_neg() } else { value };
        to.extend_from_slice(&value.to_le_bytes()[..ty.bytes()]);
        Ok(())
    }

    /// Parses a kernel or a function, from its directive on.
    fn function(&mut self, is_kernel: bool) -> Result<()> {
        self.at += 1;
        let mut body = Body {
            function: Function { is_kernel, ..Function::default() },
            scopes: vec![HashMap::new()],
            families: Vec::new(),
            labels: HashMap::new(),
            tables: HashMap::new(),
            branches: Vec::new(),
            indexed: Vec::new(),
            line: self.line(),
        };
        if self.peek() == Some(Token::Word(".noreturn")) {
            self.at += 1;
        }
        if self.peek() == Some(Token::Sign('(')) {
            body.function.results = self.parameters(&mut body)?;
        }
        body.function.name = self.word()?.to_owned();
        if self.peek() == Some(Token::Sign('(')) {
            body.function.parameters = self.parameters(&mut body)?;
        }
        loop {
            match self.next() {
                Some(Token::Sign(';')) => return Ok(()),
                Some(Token::Sign('{')) => break,
                Some(Token::Word(".noreturn")) => {}
                Some(Token::Word(
                    directive @ (".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnctapersm" | ".maxnreg"),
                )) => {
                    let mut product = self.number()?;
                    while self.take(',') {
                        product = product.saturating_mul(self.number()?);
                    }
                    if matches!(directive, ".maxntid" | ".reqntid") {
                        body.function.max_threads = u32::try_from(product).ok();
                    }
                }
                other => {
                    self.at -= 1;
                    return self.wrong(format!("{other:?} before a function's body is not known"));
                }
            }
        }
        self.statements(&mut body)?;
        body.finish()?;
        self.program.functions.insert(body.function.name.clone(), body.function);
        Ok(())
    }

    /// Parses parameters between parentheses.
    fn parameters(&mut self, body: &mut Body<'a>) -> Result<Vec<Slot>> {
        self.sign('(')?;
        let mut slots = Vec::new();
        while !self.take(')') {
            self.take(',');
            let first = self.word()?;
            if first != ".param" {
                return self.wrong(format!("a parameter in {first} is not known"));
            }
            let mut align = 1;
            let mut ty = None;
            let name = loop {
                let word = self.word()?;
                match word {
                    ".align" => align = self.number()?,
                    ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
                    _ if word.starts_with('.') => match Type::parse(&word[1..]) {
                        Some(found) => ty = Some(found),
                        None => return self.wrong(format!("a parameter of type {word} is not known")),
                    },
                    _ => break word,
                }
            };
            let Some(ty) = ty else { return self.wrong(format!("{name} has no type")) };
            let mut bytes = ty.bytes();
            if self.take('[') {
                bytes = bytes.saturating_mul(self.number()?).min(1 << 20);
                self.sign(']')?;
            }
            let offset = Body::room(&mut body.function.param_bytes, bytes, align.max(ty.bytes()));
            body.define(name, Operand::Place(Space::Param, offset))?;
            slots.push(Slot { offset, bytes });
        }
        Ok(slots)
    }

    /// Parses the statements of a scope, to its end.
    fn statements(&mut self, body: &mut Body<'a>) -> Result<()> {
        loop {
            body.line = self.line();
            match self.peek() {
                None => return self.wrong("a function without an end"),
                Some(Token::Sign('}')) => {
                    self.at += 1;
                    return Ok(());
                }
                Some(Token::Sign('{')) => {
                    self.at += 1;
                    body.scopes.push(HashMap::new());
                    self.statements(body)?;
                    body.scopes.pop();
                }
                Some(Token::Sign(';')) => self.at += 1,
                Some(Token::Sign('@')) => self.instruction(body)?,
                Some(Token::Word(".reg")) => self.registers(body)?,
                Some(Token::Word(".local" | ".param" | ".shared" | ".global" | ".const")) => {
                    self.variable(Some(body))?
                }
                Some(Token::Word(".loc")) => {
                    self.at += 1;
                    while self.follows_number() {
                        self.at += 1;
                    }
                }
                Some(Token::Word(".pragma")) => {
                    self.at += 2;
                    self.sign(';')?;
                }
                Some(Token::Word(word)) if word.starts_with('.') => {
                    return self.wrong(format!("unsupported directive {word}"));
                }
                Some(Token::Word(word)) => {
                    if self.tokens.get(self.at + 1).map(|(token, _)| *token) == Some(Token::Sign(':')) {
                        self.at += 2;
                        self.label(word, body)?;
                    } else {
                        self.instruction(body)?;
                    }
                }
                Some(token) => return self.wrong(format!("{token:?} does not begin a statement")),
            }
        }
    }

    fn label(&mut self, name: &'a str, body: &mut Body<'a>) -> Result<()> {
        if self.peek() == Some(Token::Word(".branchtargets")) {
            self.at += 1;
            let mut targets = vec![self.word()?];
            while self.take(',') {
                targets.push(self.word()?);
            }
            body.tables.insert(name, targets);
            return self.sign(';');
        }
        if body.labels.insert(name, body.function.code.len()).is_some() {
            return self.wrong(format!("the label {name} is defined twice"));
        }
        Ok(())
    }

    fn registers(&mut self, body: &mut Body<'a>) -> Result<()> {
        self.at += 1;
        let ty = self.word()?;
        if Type::parse(ty.trim_start_matches('.')).is_none() {
            return self.wrong(format!("registers of type {ty} are not known"));
        }
        loop {
            let name = self.word()?;
            let first = body.function.registers;
            if self.take('<') {
                let count = self.number()?.min(1 << 20);
                self.sign('>')?;
                body.families.push((name, first, count));
                body.function.registers += count;
            } else {
                body.function.registers += 1;
                body.define(name, Operand::Register(first))?;
            }
            if !self.take(',') {
                return self.sign(';');
            }
        }
    }

    fn instruction(&mut self, body: &mut Body<'a>) -> Result<()> {
        let mut guard = None;
        if self.take('@') {
            let negated = self.take('!');
            let name = self.word()?;
            match body.look_up(name, &self.names) {
                Some(Operand::Register(register)) => guard = Some((register, negated)),
                _ => return self.wrong(format!("{name} is not a predicate")),
            }
        }
        let opcode = self.word()?;
        let mut operands = Vec::new();
        while !self.take(';') {
            operands.push(self.operand()?);
            self.take(',');
        }
        let action = self.decode(body, opcode, operands)?;
        body.function.code.push(Instruction { guard, action, line: body.line });
        Ok(())
    }

    fn operand(&mut self) -> Result<RawOperand<'a>> {
        match self.next() {
            Some(Token::Sign('-')) => Ok(RawOperand::Negative(self.word()?)),
            Some(Token::Sign('!')) => Ok(RawOperand::Not(self.word()?)),
            Some(Token::Sign('{')) => Ok(RawOperand::Vector(self.list('}')?)),
            Some(Token::Sign('(')) => Ok(RawOperand::List(self.list(')')?)),
            Some(Token::Sign('[')) => {
                let base = self.word()?;
                let mut offset = 0;
                if self.take('+') || self.peek() == Some(Token::Sign('-')) {
                    let negative = self.take('-');
                    let word = self.word()?;
                    let Some(value) = integer(word).and_then(|value| i64::try_from(value).ok()) else {
                        return self.wrong(format!("{word} is not an offset"));
                    };
                    offset = if negative { -value } else { value };
                }
                self.sign(']')?;
                Ok(RawOperand::Memory(base, offset))
            }
            Some(Token::Word(word)) if self.take('|') => Ok(RawOperand::Pair(word, self.word()?)),
            Some(Token::Word(word)) => Ok(RawOperand::Word(word)),
            other => {
                self.at -= 1;
                self.wrong(format!("{other:?} is not an operand"))
            }
        }
    }

    fn list(&mut self, end: char) -> Result<Vec<RawOperand<'a>>> {
        let mut list = Vec::new();
        while !self.take(end) {
            list.push(self.operand()?);
            self.take(',');
        }
        Ok(list)
    }
}

impl<'a> Body<'a> {
    fn define(&mut self, name: &'a str, operand: Operand) -> Result<()> {
        match self.scopes.last_mut() {
            Some(scope) => {
                scope.insert(name, operand);
                Ok(())
            }
            None => self.wrong("a name outside of every scope"),
        }
    }

    /// Resolves the targets of branches.
    fn finish(&mut self) -> Result<()> {
        let target = |name: &str, line: usize| match self.labels.get(name) {
            Some(target) => Ok(*target),
            None => Err(ParseError { line, text: format!("there is no label {name}") }),
        };
        for (at, names, line) in &self.branches {
            self.function.code[*at].action = Action::Branch(target(names[0], *line)?);
        }
        for (at, table, line) in &self.indexed {
            let Some(names) = self.tables.get(table) else {
                return Err(ParseError { line: *line, text: format!("there is no table {table}") });
            };
            let found = names.iter().map(|name| target(name, *line)).collect::<Result<Vec<_>>>()?;
            if let Action::BranchIndexed { targets, .. } = &mut self.function.code[*at].action {
                *targets = found;
            }
        }
        Ok(())
    }
}

/// Parses an integer of PTX.
pub(super) fn integer(word: &str) -> Option<u64> {
    let word = word.strip_suffix('U').unwrap_or(word);
    if let Some(hex) = word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()
    } else if let Some(bits) = word.strip_prefix("0b").or(word.strip_prefix("0B")) {
        u64::from_str_radix(bits, 2).ok()
    } else if word.len() > 1 && word.starts_with('0') {
        u64::from_str_radix(word, 8).ok()
    } else {
        word.parse().ok()
    }
}

/// Parses a number of a type, as its bits.
pub(super) fn immediate(word: &str, ty: Type) -> Option<u64> {
    let prefix = word.get(..2).unwrap_or_default();
    match prefix {
        "0f" | "0F" => {
            let bits = u32::from_str_radix(&word[2..], 16).ok()?;
            Some(if ty.bits == 64 { f64::from(f32::from_bits(bits)).to_bits() } else { u64::from(bits) })
        }
        "0d" | "0D" => {
            let bits = u64::from_str_radix(&word[2..], 16).ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "the value of a float of fewer bits")]
            let narrow = || u64::from((f64::from_bits(bits) as f32).to_bits());
            Some(if ty.bits == 32 { narrow() } else { bits })
        }
        _ if word.starts_with(|c: char| c.is_ascii_digit()) => integer(word),
        _ => None,
    }
}
