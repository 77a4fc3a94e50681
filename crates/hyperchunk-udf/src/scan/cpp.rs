//! Scanner for names in C++ sources.
//!
//! Preprocessor conditions are not evaluated: a call in any branch counts. Macros are not expanded: a name
//! from a macro is not a constant here.

mod lexer;
#[cfg(test)]
mod tests;

use super::token::{ARROW, Kind, SCOPE, Tokens};
use super::{Names, Scan, attribute_name, is_method, no_entry, not_constant, takes_attribute, used_as_value};
use crate::error::{Result, fail};

/// Maximum tokens in one list of template arguments. The bound prevents quadratic time for nested lists.
const MAX_TEMPLATE_TOKENS: usize = 4096;

/// Returns the names that `source` passes to `lib`.
pub(super) fn scan(source: &str) -> Result<Scan> {
    let tokens = lexer::lex(source)?;
    let mut names = Names::default();
    let mut has_entry = false;
    for at in 0..tokens.len() {
        if tokens.is_word(at, "lib") && !tokens.follows(at, &['.', ARROW]) {
            visit_lib(&tokens, at, &mut names)?;
        }
        has_entry = has_entry || (tokens.is_word(at, "dynamic_dataset") && tokens.is_op(at + 1, '('));
    }
    if has_entry {
        Ok(Scan::new(names.list, &tokens))
    } else {
        no_entry("extern \"C\" void dynamic_dataset() { … }")
    }
}

fn visit_lib(tokens: &Tokens<'_>, at: usize, names: &mut Names) -> Result<()> {
    let line = tokens.line(at);
    let accessed = tokens.is_any_op(at + 1, &['.', ARROW, SCOPE]);
    let name_at = if tokens.is_word(at + 2, "template") { at + 3 } else { at + 2 };
    let Some(method) = tokens.word(name_at).filter(|w| accessed && is_method(w)) else {
        let starts = tokens.follows(at, &['=', '(', '{']) || tokens.follows_word(at, "return");
        // `[a, lib]` is the capture of a lambda.
        let as_value = (starts && tokens.is_any_op(at + 1, &[')', ',', ';', '}']))
            || (tokens.follows(at, &[',']) && tokens.is_op(at + 1, ')'));
        if as_value {
            return used_as_value(line, "lib", "lib.getData<float>(\"NIR\")");
        }
        return Ok(());
    };
    let method = String::from_utf8_lossy(&method).into_owned();
    if !tokens.is_op(at + 1, '.') {
        fail!(
            Syntax,
            "line {line}: write lib.{method}(…) with a dot: lib is an object, not a pointer or a class"
        )
    }
    let advice = match method.as_str() {
        "getAttr" => "lib.getAttr<double>(\"NIR\", \"scale_factor\")".to_owned(),
        "getData" | "array" => format!("lib.{method}<float>(\"NIR\")"),
        _ => format!("lib.{method}(\"NIR\")"),
    };
    let open = skip_template(tokens, name_at + 1)?;
    if !tokens.is_op(open, '(') {
        return used_as_value(line, &format!("lib.{method}"), &advice);
    }
    let mut first = open + 1;
    while tokens.is_op(first, '(') {
        first += 1;
    }
    let (mut name, end) = strings(tokens, first);
    let depth = first - open;
    if takes_attribute(&method) {
        let (attribute, last) = strings(tokens, end + 1);
        let whole = depth == 1 && end > first && tokens.is_op(end, ',') && last > end + 1;
        if !whole || !tokens.is_op(last, ')') {
            return not_constant(tokens.line(first), &method, &advice);
        }
        name = attribute_name(&name, &attribute);
        return names.add(name, tokens.line(first));
    }
    let closed =
        (0..depth - 1).all(|n| tokens.is_op(end + n, ')')) && tokens.is_any_op(end + depth - 1, &[')', ',']);
    if end == first || !closed {
        return not_constant(tokens.line(first), &method, &advice);
    }
    names.add(name, tokens.line(first))
}

/// Concatenates the string literals from `at` on, and returns the index of the next token.
fn strings(tokens: &Tokens<'_>, at: usize) -> (Vec<u8>, usize) {
    let (mut text, mut end) = (Vec::new(), at);
    while tokens.is_string(end) {
        match tokens.kind(end) {
            Some(Kind::Text) => text.extend(lexer::unescape(tokens.bytes(end))),
            _ => text.extend_from_slice(tokens.bytes(end)),
        }
        end += 1;
    }
    (text, end)
}

/// Returns the token after the template arguments that start at `at`, or `at` without any.
fn skip_template(tokens: &Tokens<'_>, at: usize) -> Result<usize> {
    if !tokens.is_op(at, '<') {
        return Ok(at);
    }
    let (mut angles, mut rounds) = (0_usize, 0_usize);
    for now in at..at.saturating_add(MAX_TEMPLATE_TOKENS) {
        match tokens.kind(now) {
            Some(Kind::Op('(' | '[' | '{')) if angles > 0 => rounds += 1,
            Some(Kind::Op(')' | ']' | '}')) if rounds > 0 => rounds -= 1,
            // In brackets these are comparisons.
            Some(Kind::Op('<')) if rounds == 0 => angles += 1,
            Some(Kind::Op('>')) if rounds == 0 && angles > 0 => angles -= 1,
            None => break,
            Some(_) => (),
        }
        if angles == 0 {
            return Ok(now + 1);
        }
    }
    fail!(Syntax, "line {}: these template arguments are not closed", tokens.line(at))
}
