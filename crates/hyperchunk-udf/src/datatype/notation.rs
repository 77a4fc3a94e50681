//! Text notation of types: `float`, `string(20)`, `{id:uint32,"Temperature (F)":double}`, `int16[3x3]`,
//! `uint8{clear=0,cloud=1}`.
//!
//! It is used in dataset descriptions and in records. `string(20)` is ASCII in a file, `string(20,utf8)` is
//! UTF-8, and `string(*)` is a variable-length string. A name that is not an identifier is quoted; `\"` and
//! `\\` are the two escapes.

use super::{DEFAULT_STRING_BYTES, Datatype, ElementType, MAX_DEPTH, MAX_MEMBERS, MAX_TEXT_BYTES};
use crate::error::{Result, fail};
use crate::escape::escape;
use std::collections::HashSet;
use std::fmt::Write as _;

impl Datatype {
    /// Parses a type. `string` alone has [`DEFAULT_STRING_BYTES`] bytes.
    ///
    /// # Errors
    /// `Syntax`, or `Unsupported` for a type that is too large.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            fail!(Syntax, "the type has more than {MAX_TEXT_BYTES} bytes")
        }
        let mut parser = Parser { rest: text, members: 0 };
        let datatype = parser.datatype(0)?;
        if !parser.rest.is_empty() {
            fail!(
                Syntax,
                "unexpected {:?} after the type {}",
                escape(parser.rest, 40),
                escape(&datatype.name(), 80)
            )
        }
        Ok(datatype)
    }

    /// Returns the type as text, which [`parse`](Datatype::parse) reads back as the same type.
    pub fn name(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Datatype::Number(number) => write!(out, "{}", number.name()),
            Datatype::Half => write!(out, "float16"),
            Datatype::Bool => write!(out, "bool"),
            Datatype::Enum(names) => {
                out.push_str(names.base().name());
                for (n, (name, value)) in names.names().iter().enumerate() {
                    out.push(if n == 0 { '{' } else { ',' });
                    write_name(name, out);
                    let _ = write!(out, "={value}");
                }
                write!(out, "}}")
            }
            Datatype::Text(size) => write!(out, "string({size})"),
            Datatype::Utf8(size) => write!(out, "string({size},utf8)"),
            Datatype::Pointer => write!(out, "string(*)"),
            Datatype::Compound(compound) => {
                for (n, member) in compound.members().iter().enumerate() {
                    out.push(if n == 0 { '{' } else { ',' });
                    write_name(&member.name, out);
                    out.push(':');
                    member.datatype.write(out);
                }
                write!(out, "}}")
            }
            Datatype::Array(base, dims) => {
                base.write(out);
                write!(out, "[{}]", crate::shape::resolution(dims))
            }
        };
    }
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn write_name(name: &str, out: &mut String) {
    if is_plain(name) {
        out.push_str(name);
        return;
    }
    out.push('"');
    for c in name.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

struct Parser<'a> {
    rest: &'a str,
    members: usize,
}

impl Parser<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, prefix: &str, place: &str) -> Result<()> {
        if self.take(prefix) {
            return Ok(());
        }
        fail!(Syntax, "{prefix:?} is missing {place}, before {:?}", escape(self.rest, 40))
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &str {
        let at = self.rest.find(end).unwrap_or(self.rest.len());
        let (head, rest) = self.rest.split_at(at);
        self.rest = rest;
        head
    }

    fn datatype(&mut self, depth: usize) -> Result<Datatype> {
        if depth > MAX_DEPTH {
            fail!(Syntax, "the type has more than {MAX_DEPTH} levels")
        }
        let mut datatype = if self.take("{") { self.compound(depth)? } else { self.simple()? };
        let mut arrays = Vec::new();
        while self.take("[") {
            let dims = crate::shape::dimensions(self.until(|c| c == ']'))?;
            self.expect("]", "after an array's dimensions")?;
            arrays.push(dims);
            if arrays.len() > MAX_DEPTH {
                fail!(Syntax, "the type has more than {MAX_DEPTH} levels")
            }
        }
        for dims in arrays {
            datatype = Datatype::array(datatype, dims)?;
        }
        Ok(datatype)
    }

    fn simple(&mut self) -> Result<Datatype> {
        let word = self.until(|c| !c.is_ascii_alphanumeric()).to_owned();
        if word != "string" {
            return match (word.as_str(), ElementType::from_name(&word)) {
                (_, Some(number)) if self.take("{") => self.enumeration(number),
                (_, Some(number)) => Ok(Datatype::Number(number)),
                ("float16", _) => Ok(Datatype::Half),
                ("bool", _) => Ok(Datatype::Bool),
                _ => fail!(
                    Syntax,
                    "unknown type {:?}; the types are {}, float16, bool, string(SIZE), INTEGER{{NAME=VALUE,…}} and {{NAME:TYPE,…}}",
                    escape(if word.is_empty() { self.rest } else { &word }, 40),
                    ElementType::all().map(ElementType::name).collect::<Vec<_>>().join(", ")
                ),
            };
        }
        if !self.take("(") {
            return Datatype::text(DEFAULT_STRING_BYTES);
        }
        let size = self.until(|c| c == ')').to_owned();
        self.expect(")", "after a string's size")?;
        if size == "*" {
            return Ok(Datatype::Pointer);
        }
        let (size, is_utf8) = match size.strip_suffix(",utf8") {
            Some(size) => (size.to_owned(), true),
            None => (size, false),
        };
        match size.parse() {
            Ok(bytes) if size.bytes().all(|b| b.is_ascii_digit()) => {
                if is_utf8 {
                    Datatype::utf8(bytes)
                } else {
                    Datatype::text(bytes)
                }
            }
            _ => fail!(
                Syntax,
                "{:?} is not the size of a string, as in string(20) or string(20,utf8)",
                escape(&size, 40)
            ),
        }
    }

    /// Parses the names of an integer's values.
    fn enumeration(&mut self, base: ElementType) -> Result<Datatype> {
        let mut names = Vec::new();
        loop {
            let name = self.name('=')?;
            self.expect("=", "after the name of a value")?;
            let value = self.until(|c| matches!(c, ',' | '}')).to_owned();
            let Ok(number) = value.parse::<i128>() else {
                fail!(Syntax, "{:?} is not an integer, as in uint8{{clear=0,cloud=1}}", escape(&value, 40))
            };
            names.push((name, number));
            if !self.take(",") {
                break;
            }
        }
        self.expect("}", "after the names")?;
        Datatype::enumeration(base, names)
    }

    fn compound(&mut self, depth: usize) -> Result<Datatype> {
        let mut members = Vec::new();
        loop {
            self.members += 1;
            if self.members > MAX_MEMBERS {
                fail!(Syntax, "the type has more than {MAX_MEMBERS} members")
            }
            let name = self.name(':')?;
            self.expect(":", "after a member's name")?;
            members.push((name, self.datatype(depth + 1)?));
            if !self.take(",") {
                break;
            }
        }
        self.expect("}", "after the members")?;
        Datatype::compound(members)
    }

    /// Parses a name, quoted or up to `end`.
    fn name(&mut self, end: char) -> Result<String> {
        if !self.take("\"") {
            let name = self.until(|c| c == end || matches!(c, ',' | '}' | '{' | '"')).to_owned();
            if name.is_empty() {
                fail!(
                    Syntax,
                    "a member without a name; write members as in {{id:int32,height:float}} or uint8{{clear=0,cloud=1}}"
                )
            }
            return Ok(name);
        }
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(name);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => name.push(escaped),
                    _ => break,
                },
                c => name.push(c),
            }
        }
        fail!(
            Syntax,
            r#"cannot read a quoted name: expected a closing quote, and only the escapes \" and \\"#
        )
    }
}

/// Returns the identifiers of each member in functions: HDF5-UDF's, then the original name if it is usable.
///
/// HDF5-UDF cuts a name at the first bracket, replaces `-`, blanks and `.` by underscores, drops underscores
/// at the end, and converts to lower case. If the result is not an identifier it is changed to one, and a
/// duplicate gets a number.
pub fn identifiers<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Vec<String>> {
    let names: Vec<_> = names.into_iter().collect();
    let mut taken = HashSet::new();
    let mut all: Vec<Vec<String>> = names
        .iter()
        .map(|name| {
            let first = sanitised(name);
            let mut unique = first.clone();
            let mut n = 2;
            while !taken.insert(unique.clone()) {
                unique = format!("{first}_{n}");
                n += 1;
            }
            vec![unique]
        })
        .collect();
    for (name, identifiers) in names.iter().zip(&mut all) {
        if is_plain(name) && !is_keyword(name) && taken.insert((*name).to_owned()) {
            identifiers.push((*name).to_owned());
        }
    }
    all
}

fn sanitised(name: &str) -> String {
    let name = name.trim_start_matches('/');
    let cut = name.find(['(', '[', '{']).and_then(|at| name.get(..at)).filter(|n| !n.trim().is_empty());
    let mut text: String = cut
        .unwrap_or(name)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    text.truncate(text.trim_end_matches('_').len());
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        text.insert(0, '_');
    }
    if is_keyword(&text) {
        text.push('_');
    }
    text
}

/// Returns whether `word` is a reserved word in C, C++ or Lua, or is defined by the prelude of a back end.
fn is_keyword(word: &str) -> bool {
    const WORDS: &str = " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept \
        const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do \
        double dynamic_cast else elseif end enum explicit export extern false float for friend function goto if in inline \
        int int8_t int16_t int32_t int64_t local long mutable namespace new nil noexcept not not_eq nullptr operator or \
        or_eq private protected public register reinterpret_cast repeat requires restrict return short signed sizeof \
        static static_assert static_cast struct switch template then this thread_local throw true try typedef typeid \
        typename uint8_t uint16_t uint32_t uint64_t union unsigned until using virtual void volatile wchar_t while xor \
        xor_eq errno stdin stdout stderr NULL EOF NAN INFINITY BUFSIZ RAND_MAX ";
    WORDS.contains(&format!(" {word} "))
}
