//! Kernels of a source: their names and parameters.

use super::cursor::{Cursor, split_at_commas};
use super::lex::{Kind, Token};
use super::types::Number;
use crate::error::{Result, fail};
use crate::escape::escape;

/// Maximum number of parameters of a kernel.
const MAX_PARAMETERS: usize = 256;
/// Maximum number of kernels in a source.
const MAX_KERNELS: usize = 256;
/// Ignored words before or after a type.
const QUALIFIERS: [&str; 4] = ["__restrict__", "__restrict", "restrict", "register"];

/// Type of a parameter's value or elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Number(Number),
    /// The prelude's structure with shape and offset.
    Region,
    /// Another name: a dataset's structure, or a type parameter of a template.
    Named(String),
}

impl Base {
    /// Returns its C++ spelling.
    pub(super) fn spelling(&self) -> String {
        match self {
            Base::Number(number) => number.spelling().to_owned(),
            Base::Region => "Region".to_owned(),
            Base::Named(name) => name.clone(),
        }
    }
}

/// Type of a parameter or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) base: Base,
    /// Set for a pointer to such elements.
    pub(super) pointer: bool,
    /// Set if the elements may not be written.
    pub(super) constant: bool,
}

impl Type {
    pub(super) fn spelling(&self) -> String {
        let constant = if self.pointer && self.constant { "const " } else { "" };
        format!("{constant}{}{}", self.base.spelling(), if self.pointer { " *" } else { "" })
    }
}

/// Parameter of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Dataset named by `DATASET`.
    pub(super) dataset: Option<String>,
    pub(super) name: Option<String>,
    pub(super) datatype: Type,
    pub(super) line: u32,
}

/// Template parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplateParameter {
    Type(String),
    Value(String, Number),
}

/// Kernel.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// Name, with its namespaces.
    pub(super) name: String,
    pub(super) template: Vec<TemplateParameter>,
    pub(super) parameters: Vec<Parameter>,
    /// Numbers of `THREADS`; empty if absent.
    pub(super) threads: Vec<u32>,
    pub(super) line: u32,
}

/// Declarations found in a source.
#[derive(Debug, Default)]
pub(super) struct Declarations<'t, 'a> {
    pub(super) kernels: Vec<Kernel>,
    /// Body of `dynamic_dataset`, with its braces.
    pub(super) host: Option<&'t [Token<'a>]>,
}

/// Finds kernels and `dynamic_dataset`.
///
/// # Errors
/// `Syntax`, with the line; `Limit`.
pub(super) fn find<'t, 'a>(tokens: &'t [Token<'a>]) -> Result<Declarations<'t, 'a>> {
    let mut found = Declarations::default();
    let mut cursor = Cursor::new(tokens);
    // The namespaces of each open block; empty for `extern "C" {`.
    let mut open: Vec<Vec<&str>> = Vec::new();
    // Start of the current declaration.
    let mut first = 0;
    while let Some(token) = cursor.peek(0) {
        match (token.kind, token.text) {
            (Kind::Word, "__global__") => {
                let prefix: String = open.iter().flatten().map(|name| format!("{name}::")).collect();
                cursor.next();
                let before = tokens.get(first..cursor.at() - 1).unwrap_or_default();
                if let Some(kernel) = declaration(before, &mut cursor, &prefix)? {
                    let known = found.kernels.iter().any(|k| k.name == kernel.name);
                    if known {
                        fail!(
                            Syntax,
                            "line {}: there are two kernels called {}; give them different names",
                            kernel.line,
                            escape(&kernel.name, 80)
                        )
                    }
                    if found.kernels.len() >= MAX_KERNELS {
                        fail!(Limit, "the source has more than {MAX_KERNELS} kernels")
                    }
                    found.kernels.push(kernel);
                }
                first = cursor.at();
            }
            (Kind::Word, "dynamic_dataset") => {
                cursor.next();
                host(&mut cursor, tokens, token, &mut found)?;
                first = cursor.at();
            }
            (Kind::Op, "{") => {
                let before = tokens.get(first..cursor.at()).unwrap_or_default();
                let named = before.iter().position(|t| t.text == "namespace" && t.kind == Kind::Word);
                match (named, before) {
                    (Some(at), _) => {
                        let words = before.iter().skip(at + 1).filter(|t| t.kind == Kind::Word);
                        open.push(words.map(|t| t.text).collect());
                        cursor.next();
                    }
                    (None, [.., Token { text: "extern", .. }, Token { kind: Kind::Text, .. }]) => {
                        open.push(Vec::new());
                        cursor.next();
                    }
                    _ => drop(cursor.brackets()?),
                }
                first = cursor.at();
            }
            (Kind::Op, "}") => {
                if open.pop().is_none() {
                    fail!(Syntax, "line {}: unmatched }}", token.line)
                }
                cursor.next();
                first = cursor.at();
            }
            (Kind::Op, ";") => {
                cursor.next();
                first = cursor.at();
            }
            (Kind::Op, "(" | "[") => drop(cursor.brackets()?),
            _ => drop(cursor.next()),
        }
    }
    if !open.is_empty() {
        fail!(Syntax, "the source ends in a block that is not closed")
    }
    Ok(found)
}

fn host<'t, 'a>(
    cursor: &mut Cursor<'t, 'a>,
    tokens: &'t [Token<'a>],
    name: Token<'a>,
    found: &mut Declarations<'t, 'a>,
) -> Result<()> {
    let parameters = if cursor.is("(") { cursor.brackets()? } else { &[] };
    if !matches!(parameters, [] | [Token { text: "void", .. }]) {
        fail!(Syntax, "line {}: dynamic_dataset has no parameters", name.line)
    }
    if cursor.take(";") {
        return Ok(());
    }
    if !cursor.is("{") || found.host.is_some() {
        fail!(Syntax, "line {}: write one `extern \"C\" void dynamic_dataset() {{ … }}`", name.line)
    }
    let first = cursor.at();
    cursor.brackets()?;
    let body = tokens.get(first..cursor.at()).unwrap_or_default();
    if body.first().is_some_and(|t| t.replaced) || body.last().is_some_and(|t| t.replaced) {
        fail!(Syntax, "line {}: the brackets of dynamic_dataset come from a macro", name.line)
    }
    found.host = Some(body);
    Ok(())
}

/// Parses a kernel's declaration after `__global__`; `None` without a body, and for a template's
/// specialisation.
fn declaration(before: &[Token<'_>], cursor: &mut Cursor<'_, '_>, prefix: &str) -> Result<Option<Kernel>> {
    let line = cursor.line();
    let mut kernel = Kernel {
        name: String::new(),
        template: Vec::new(),
        parameters: Vec::new(),
        threads: Vec::new(),
        line,
    };
    let mut special = false;
    let mut front = Cursor::new(before);
    while !front.ends() {
        if front.take_word("template") {
            match template(&mut front)? {
                list if list.is_empty() => special = true,
                list => kernel.template = list,
            }
        } else if front.take_word("THREADS") {
            kernel.threads = threads(&mut front)?;
        } else if front.is("(") || front.is("[") {
            front.brackets()?;
        } else {
            front.next();
        }
    }
    loop {
        if cursor.take_word("THREADS") {
            kernel.threads = threads(cursor)?;
            continue;
        }
        let Some(token) = cursor.next() else { fail!(Syntax, "line {line}: this kernel has no name") };
        match (token.kind, cursor.is("(")) {
            (Kind::Word, true)
                if ["__launch_bounds__", "__attribute__", "__align__"].contains(&token.text) =>
            {
                cursor.brackets()?;
            }
            (Kind::Word, true) => {
                kernel.name = format!("{prefix}{}", token.text);
                break;
            }
            (Kind::Word, false) | (Kind::Op, _) if !matches!(token.text, ";" | "{" | "}") => {}
            _ => fail!(Syntax, "line {}: this kernel has no name, or one from a macro", token.line),
        }
    }
    let list = split_at_commas(cursor.brackets()?);
    if list.len() > MAX_PARAMETERS {
        fail!(Limit, "line {line}: the kernel has more than {MAX_PARAMETERS} parameters")
    }
    let is_void = matches!(list.as_slice(), [[Token { text: "void", .. }]]);
    for part in list.into_iter().filter(|_| !is_void) {
        kernel.parameters.push(parameter(part, line)?);
    }
    if cursor.take(";") {
        return Ok(None);
    }
    if !cursor.is("{") {
        fail!(Syntax, "line {}: the body of {} is missing", cursor.line(), escape(&kernel.name, 80))
    }
    cursor.brackets()?;
    Ok(Some(kernel).filter(|_| !special))
}

/// Parses the numbers of `THREADS(…)`.
fn threads(cursor: &mut Cursor<'_, '_>) -> Result<Vec<u32>> {
    let line = cursor.line();
    let wrong = || {
        crate::error::Error::new(
            crate::error::ErrorKind::Syntax,
            format!(
                "line {line}: write THREADS(256), or two or three numbers: along the last dimension, the one before, …"
            ),
        )
    };
    if !cursor.is("(") {
        return Err(wrong());
    }
    let parts = split_at_commas(cursor.brackets()?);
    let one = |part: &&[Token<'_>]| match part {
        [Token { kind: Kind::Number, text, .. }] => {
            text.parse::<u32>().ok().filter(|&n| (1..=1024).contains(&n))
        }
        _ => None,
    };
    let numbers: Vec<u32> = parts.iter().filter_map(one).collect();
    let product: u64 = numbers.iter().map(|&n| u64::from(n)).product();
    if numbers.len() != parts.len() || !(1..=3).contains(&numbers.len()) {
        return Err(wrong());
    }
    if product > 1024 || numbers.get(2).is_some_and(|&z| z > 64) {
        fail!(
            Syntax,
            "line {line}: a block has at most 1024 threads, and at most 64 along the third dimension"
        )
    }
    Ok(numbers)
}

fn template(cursor: &mut Cursor<'_, '_>) -> Result<Vec<TemplateParameter>> {
    let line = cursor.line();
    cursor.need("<")?;
    let mut list = Vec::new();
    while !cursor.take(">") {
        let kind = cursor.word();
        let parameter = match kind {
            Some("typename" | "class") => cursor.word().map(|name| TemplateParameter::Type(name.to_owned())),
            Some(first) => {
                let mut words = vec![first];
                let mut name = None;
                while let Some(word) = cursor.word() {
                    if Number::is_word(word) {
                        words.push(word);
                    } else {
                        name = Some(word);
                    }
                }
                words.retain(|w| *w != "const");
                Number::from_words(&words)
                    .filter(|n| !n.is_float())
                    .zip(name)
                    .map(|(number, name)| TemplateParameter::Value(name.to_owned(), number))
            }
            None => None,
        };
        match parameter {
            Some(parameter) if list.len() < MAX_PARAMETERS => list.push(parameter),
            _ => fail!(
                Syntax,
                "line {line}: a kernel's template has parameters such as `typename T` or `int N`, without defaults"
            ),
        }
        if !cursor.is(">") {
            cursor.need(",")?;
        }
    }
    Ok(list)
}

fn parameter(tokens: &[Token<'_>], kernel: u32) -> Result<Parameter> {
    let mut cursor = Cursor::new(tokens);
    let line = tokens.first().map_or(kernel, |t| t.line);
    let mut dataset = None;
    if cursor.take_word("DATASET") {
        cursor.need("(")?;
        dataset = Some(cursor.dataset()?);
        cursor.need(")")?;
    }
    let datatype = parse_type(&mut cursor)?;
    let name = cursor.word().map(str::to_owned);
    if !cursor.ends() {
        fail!(
            Syntax,
            "line {line}: a parameter of a kernel is a number, a pointer to elements or a Region, then its name: unexpected {}",
            cursor.describe_next()
        )
    }
    Ok(Parameter { dataset, name, datatype, line })
}

/// Parses a type that kernels' parameters and variables of `dynamic_dataset` may have.
pub(super) fn parse_type(cursor: &mut Cursor<'_, '_>) -> Result<Type> {
    let line = cursor.line();
    let (mut words, mut constant, mut other) = (Vec::new(), false, None::<String>);
    while let Some(token) = cursor.peek(0) {
        if token.kind == Kind::Unknown {
            fail!(
                Syntax,
                "line {line}: {} is a macro that is defined under a condition, twice or with arguments; write what it stands for",
                escape(token.text, 80)
            )
        }
        if token.kind != Kind::Word {
            break;
        }
        match token.text {
            "const" => constant = true,
            "std" | "struct" => {}
            word if QUALIFIERS.contains(&word) => {}
            word if Number::is_word(word) => words.push(word),
            "volatile" => fail!(Syntax, "line {line}: volatile is not supported here"),
            word if words.is_empty() && other.is_none() => other = Some(word.to_owned()),
            _ => break,
        }
        cursor.next();
        cursor.take("::");
    }
    let base = match (Number::from_words(&words), other) {
        (Some(number), None) => Base::Number(number),
        (None, Some(name)) if words.is_empty() && name == "Region" => Base::Region,
        (None, Some(name)) if words.is_empty() => Base::Named(name),
        _ => fail!(Syntax, "line {line}: a type is missing before {}", cursor.describe_next()),
    };
    let pointer = cursor.take("*");
    while pointer && cursor.peek(0).is_some_and(|t| t.text == "const" || QUALIFIERS.contains(&t.text)) {
        cursor.next();
    }
    if cursor.is("*") || cursor.is("&") {
        fail!(Syntax, "line {line}: a pointer to a pointer, or a reference, cannot be passed to a kernel")
    }
    Ok(Type { base, pointer, constant })
}
