//! Scanner for names in Lua sources.
//!
//! Besides `lib.getData("x")` and its forms without parentheses or with brackets, two things are tracked: a
//! name that is bound only once, to exactly `lib.getData`, and then only called, and a `local n = "x"` that
//! no other code can change.

mod lexer;
#[cfg(test)]
mod tests;

use super::token::{CONCAT, Kind, SCOPE, Tokens};
use super::{Names, Scan, attribute_name, is_method, no_entry, not_constant, takes_attribute, used_as_value};
use crate::error::{Result, fail};
use std::collections::HashMap;

/// Returns the names that `source` passes to `lib`.
pub(super) fn scan(source: &str) -> Result<Scan> {
    let tokens = lexer::lex(source)?;
    let mut walk = Walk { bindings: bindings(&tokens), tokens, calls: Vec::new(), arguments: [None; 2] };
    for at in 0..walk.tokens.len() {
        walk.visit(at)?;
    }
    let names = walk.names()?;
    let has_entry = (0..walk.tokens.len()).any(|at| walk.is_entry(at));
    if has_entry {
        Ok(Scan::new(names, &walk.tokens))
    } else {
        no_entry("function dynamic_dataset() … end")
    }
}

/// Example of a call that names an attribute.
const ATTRIBUTE_ADVICE: &str = "lib.getAttr(\"NIR\", \"scale_factor\")";

/// Value of a name at every use.
#[derive(Debug)]
enum Value {
    /// String at this token; `false` once some code might change or shadow it.
    Constant(usize, bool),
    /// Function of `lib`.
    Method,
}

/// Only binding of a name, and its token.
#[derive(Debug)]
struct Binding {
    at: usize,
    value: Value,
}

/// Call: the tokens of its arguments, and the function.
#[derive(Debug)]
struct Call {
    argument: usize,
    /// Token of the second argument, for calls that name an attribute.
    attribute: Option<usize>,
    method: String,
}

struct Walk<'a> {
    tokens: Tokens<'a>,
    bindings: HashMap<&'a [u8], Binding>,
    calls: Vec<Call>,
    /// Identifiers among the arguments of the last call.
    arguments: [Option<usize>; 2],
}

/// Returns whether an expression that ended before `at` is complete there.
fn ends_statement(tokens: &Tokens<'_>, at: usize) -> bool {
    match tokens.kind(at) {
        None | Some(Kind::Op(';' | SCOPE)) => true,
        Some(Kind::Word) => !tokens.is_word(at, "and") && !tokens.is_word(at, "or"),
        _ => false,
    }
}

/// Returns the token after the name of a function of `lib`, where `lib` is at `at`, if one follows.
fn after_method(tokens: &Tokens<'_>, at: usize) -> Option<usize> {
    if tokens.is_op(at + 1, '.') && tokens.word(at + 2).is_some_and(|w| is_method(&w)) {
        return Some(at + 3);
    }
    let bracketed = tokens.is_op(at + 1, '[') && tokens.is_string(at + 2) && tokens.is_op(at + 3, ']');
    (bracketed && is_method(&string(tokens, at + 2))).then_some(at + 4)
}

fn string(tokens: &Tokens<'_>, at: usize) -> Vec<u8> {
    match tokens.kind(at) {
        Some(Kind::Text) => lexer::unescape(tokens.bytes(at)),
        _ => tokens.bytes(at).to_vec(),
    }
}

/// Returns the first `n = lib.method` or `local n = "x"` of every name.
fn bindings<'a>(tokens: &Tokens<'a>) -> HashMap<&'a [u8], Binding> {
    let mut found = HashMap::new();
    for at in 0..tokens.len() {
        if tokens.kind(at) != Some(Kind::Word)
            || !tokens.is_op(at + 1, '=')
            || tokens.follows(at, &['.', ':', ',', '{'])
        {
            continue;
        }
        let value = if tokens.is_word(at + 2, "lib") {
            after_method(tokens, at + 2).filter(|end| ends_statement(tokens, *end)).map(|_| Value::Method)
        } else {
            let constant = tokens.follows_word(at, "local") && tokens.is_string(at + 2);
            (constant && ends_statement(tokens, at + 3)).then_some(Value::Constant(at + 2, true))
        };
        if let Some(value) = value {
            found.entry(tokens.bytes(at)).or_insert(Binding { at, value });
        }
    }
    found
}

impl Walk<'_> {
    fn visit(&mut self, at: usize) -> Result<()> {
        let tokens = &self.tokens;
        // `a.lib` and `a:lib` are fields of other tables.
        if tokens.kind(at) != Some(Kind::Word) || tokens.follows(at, &['.', ':']) {
            return Ok(());
        }
        if tokens.is_word(at, "lib") {
            return self.visit_lib(at);
        }
        let word = tokens.bytes(at);
        let after_concat = tokens.follows(at, &[CONCAT]);
        let Some(binding) = self.bindings.get_mut(word) else { return Ok(()) };
        match &mut binding.value {
            _ if binding.at == at => Ok(()),
            Value::Constant(_, sound) => {
                // Any other use might be a second binding: a parameter, a loop, an assignment.
                *sound &= after_concat || self.arguments.contains(&Some(at));
                Ok(())
            }
            Value::Method => {
                let name = String::from_utf8_lossy(word).into_owned();
                if self.is_call(at + 1) {
                    return self.call(at + 1, &name);
                }
                let line = self.tokens.line(at);
                used_as_value(
                    line,
                    &format!("{name}, a name for a function of lib,"),
                    &format!("{name}(\"NIR\")"),
                )
            }
        }
    }

    fn visit_lib(&mut self, at: usize) -> Result<()> {
        let tokens = &self.tokens;
        let line = tokens.line(at);
        if tokens.is_op(at + 1, ':') && tokens.word(at + 2).is_some_and(|w| is_method(&w)) {
            let method = String::from_utf8_lossy(tokens.bytes(at + 2)).into_owned();
            fail!(
                Syntax,
                "line {line}: write lib.{method}(…) with a dot: lib:{method} passes lib itself as the name"
            )
        }
        let Some(end) = after_method(tokens, at) else {
            if tokens.is_op(at + 1, '[') && !(tokens.is_string(at + 2) && tokens.is_op(at + 3, ']')) {
                return used_as_value(line, "a computed field of lib", "lib.getData(\"NIR\")");
            }
            let accessed = tokens.is_any_op(at + 1, &['.', ':', '[']);
            let as_value = tokens.follows(at, &['=', '(', ',', '{']) || tokens.follows_word(at, "return");
            if as_value && !accessed {
                return used_as_value(line, "lib", "lib.getData(\"NIR\")");
            }
            return Ok(());
        };
        let method = string(tokens, at + 2);
        let method = String::from_utf8_lossy(&method).into_owned();
        if self.is_call(end) {
            return self.call(end, &method);
        }
        let bound = at >= 2 && self.bindings.get(self.tokens.bytes(at - 2)).is_some_and(|b| b.at == at - 2);
        if bound && self.tokens.follows(at, &['=']) {
            return Ok(());
        }
        used_as_value(line, &format!("lib.{method}"), &format!("lib.{method}(\"NIR\")"))
    }

    fn is_call(&self, at: usize) -> bool {
        self.tokens.is_any_op(at, &['(', '{']) || self.tokens.is_string(at)
    }

    /// Records the call of `method` whose arguments start at `open`.
    fn call(&mut self, open: usize, method: &str) -> Result<()> {
        let tokens = &self.tokens;
        let mut argument = open;
        while tokens.is_op(argument, '(') {
            argument += 1;
        }
        let depth = argument - open;
        let closed = (1..depth).all(|n| tokens.is_op(argument + n, ')'))
            && (depth == 0 || tokens.is_any_op(argument + depth, &[')', ',']));
        let is_word = tokens.kind(argument) == Some(Kind::Word);
        if takes_attribute(method) {
            let second = argument + 2;
            let is_name = |at| tokens.is_string(at) || tokens.kind(at) == Some(Kind::Word);
            let whole = depth == 1
                && is_name(argument)
                && tokens.is_op(argument + 1, ',')
                && is_name(second)
                && tokens.is_op(second + 1, ')');
            if !whole {
                return not_constant(tokens.line(argument), method, ATTRIBUTE_ADVICE);
            }
            let word = |at: usize| Some(at).filter(|&at| tokens.kind(at) == Some(Kind::Word));
            self.arguments = [word(argument), word(second)];
            let attribute = Some(second);
            self.calls.push(Call { argument, attribute, method: method.to_owned() });
            return Ok(());
        }
        if !closed || !(tokens.is_string(argument) || is_word) {
            return not_constant(tokens.line(argument), method, &format!("lib.{method}(\"NIR\")"));
        }
        self.arguments = [is_word.then_some(argument), None];
        self.calls.push(Call { argument, attribute: None, method: method.to_owned() });
        Ok(())
    }

    /// Returns the names of all calls, once it is known which constants are sound.
    fn names(&self) -> Result<Vec<String>> {
        let mut names = Names::default();
        for call in &self.calls {
            let mut name = self.constant(call, call.argument)?;
            if let Some(attribute) = call.attribute {
                name = attribute_name(&name, &self.constant(call, attribute)?);
            }
            names.add(name, self.tokens.line(call.argument))?;
        }
        Ok(names.list)
    }

    /// Returns the text of a call's argument.
    fn constant(&self, call: &Call, at: usize) -> Result<Vec<u8>> {
        if self.tokens.is_string(at) {
            return Ok(string(&self.tokens, at));
        }
        match self.bindings.get(self.tokens.bytes(at)) {
            Some(Binding { value: Value::Constant(text, true), .. }) => Ok(string(&self.tokens, *text)),
            _ => {
                let advice = match call.attribute {
                    Some(_) => ATTRIBUTE_ADVICE.to_owned(),
                    None => format!("lib.{}(\"NIR\")", call.method),
                };
                not_constant(self.tokens.line(at), &call.method, &advice)
            }
        }
    }

    /// Returns whether `dynamic_dataset` is defined at `at`. A local one is not visible from outside the
    /// source.
    fn is_entry(&self, at: usize) -> bool {
        let tokens = &self.tokens;
        if !tokens.is_word(at, "dynamic_dataset") {
            return false;
        }
        let function = tokens.follows_word(at, "function") && !(at >= 2 && tokens.is_word(at - 2, "local"));
        function || (tokens.is_op(at + 1, '=') && !tokens.follows_word(at, "local"))
    }
}
