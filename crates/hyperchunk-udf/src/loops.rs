//! Vectorisation of loops in Lua sources.
//!
//! A numeric loop over independent elements, such as `for i = 1, n do out[i] = a[i] * 2 end`, is rewritten so
//! that it first calls a function that may compute it, and runs only if the function does not: LuaJIT's code
//! computes one element at a time, vector instructions four or eight. Code that is not fully understood stays
//! unchanged, byte for byte, and line numbers are kept.
//!
//! **Invariant:** a loop is computed with the same bits as in Lua, or not at all.

mod body;
mod syntax;
#[cfg(test)]
mod tests;

pub use body::{Id, Loop, Offset, Operator, Store, Value};

use crate::scan::lua::lexer::lex;
use crate::scan::token::{Kind, Tokens};
use body::Arrays;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use syntax::{NumericLoop, Structure, Variable};

/// Minimum number of iterations for which a rewritten loop pays off where LuaJIT compiles.
pub const MIN_ITERATIONS: u32 = 3072;
/// Maximum number of rewritten loops in a source.
const MAX_LOOPS: usize = 1000;
/// Maximum number of names tried to find one that is unused in a source.
const MAX_ATTEMPTS: usize = 20;

/// Source with rewritten loops.
///
/// Its chunk takes four functions: `ask(number, first, last, arrays…, scalars…)`, which computes a loop or
/// returns false, `is_long(first, last)`, which must be true before `ask` is called, and, for arrays that Lua
/// will read, `is_odd()` and `readable(number, array)`.
#[derive(Debug)]
pub struct RewrittenSource {
    /// Text.
    pub text: String,
    /// Rewritten loops, by number.
    pub loops: Vec<RewrittenLoop>,
    /// Datasets of the arrays that have to be made readable for Lua, by number, counted from 1: only
    /// rewritten loops access their elements, in place in memory.
    pub lying: Vec<String>,
}

/// Rewritten loop.
#[derive(Debug)]
pub struct RewrittenLoop {
    /// Line of its start, counted from 1.
    pub line: u32,
    /// Computation.
    pub computes: Loop,
}

/// Replacement of a part of the source.
struct Edit {
    at: Range<usize>,
    by: String,
}

/// Rewrites a source, or returns `None` if it has no suitable loop. Loops with a known number of iterations
/// below `least` are not rewritten.
pub fn rewrite(source: &str, least: u32) -> Option<RewrittenSource> {
    // LuaJIT skips such a line or mark only at the very start.
    if !source.contains("for") || source.starts_with(['#', '\u{feff}']) {
        return None;
    }
    let tokens = lex(source).ok()?;
    let structure = syntax::read(&tokens)?;
    if structure.takes_arguments {
        return None;
    }
    let found: Vec<(&NumericLoop, Loop, Arrays)> = structure
        .loops
        .iter()
        .filter(|each| can_be_rewritten(&tokens, each, least))
        .filter_map(|each| {
            body::understand(&tokens, &structure, each).map(|(all, arrays)| (each, all, arrays))
        })
        .take(MAX_LOOPS)
        .collect();
    if found.is_empty() {
        return None;
    }
    let hidden = (0..MAX_ATTEMPTS).map(|n| format!("ask{n}")).find(|name| !source.contains(name.as_str()))?;
    let sites = sites(&tokens, &structure, &found);
    let mut edits: Vec<Edit> = vec![Edit {
        at: 0..0,
        by: format!("local {hidden}, {hidden}_long, {hidden}_odd, {hidden}_readable = ... "),
    }];
    let (mut loops, mut lying) = (Vec::new(), Vec::new());
    for (number, (place, computes, arrays)) in found.into_iter().enumerate() {
        let mut readable = Vec::new();
        for ((variable, _), name) in arrays.iter().zip(&computes.arrays) {
            if let Some(site) = sites.get(variable) {
                lying.push(site.dataset.clone());
                readable.push(format!("{name} = {hidden}_readable({}, {name})", lying.len()));
            }
        }
        edits.extend(loop_edits(&tokens, place, &computes, &hidden, number, &readable.join(" ")));
        loops.push(RewrittenLoop { line: tokens.line(place.for_at), computes });
    }
    for site in sites.values() {
        edits.push(Edit { at: site.closes..site.closes, by: format!(", {hidden}") });
    }
    Some(RewrittenSource { text: apply(source, edits)?, loops, lying })
}

/// Returns the lines of the loops of a source that can be vectorised.
pub fn lines(source: &str) -> Vec<u32> {
    rewrite(source, MIN_ITERATIONS)
        .map_or_else(Vec::new, |found| found.loops.iter().map(|each| each.line).collect())
}

fn can_be_rewritten(tokens: &Tokens<'_>, each: &NumericLoop, least: u32) -> bool {
    // `for NAME =` is replaced, and must not contain a line end.
    if tokens.line(each.for_at) != tokens.line(each.for_at + 2) {
        return false;
    }
    match (literal(tokens, &each.first), literal(tokens, &each.last)) {
        (Some(first), Some(last)) => last - first >= f64::from(least) - 1.0,
        _ => true,
    }
}

/// Returns the value of an expression that is a decimal literal.
fn literal(tokens: &Tokens<'_>, range: &Range<usize>) -> Option<f64> {
    let is_number = range.len() == 1 && tokens.kind(range.start) == Some(Kind::Other);
    std::str::from_utf8(tokens.bytes(range.start)).ok().filter(|_| is_number)?.parse().ok()
}

fn loop_edits(
    tokens: &Tokens<'_>,
    place: &NumericLoop,
    computes: &Loop,
    hidden: &str,
    number: usize,
    readable: &str,
) -> [Edit; 3] {
    let arrays = computes.arrays.join(", ");
    let given: Vec<&str> = computes.arrays.iter().chain(&computes.scalars).map(String::as_str).collect();
    let (given, first, last) = (given.join(", "), format!("{hidden}_a"), format!("{hidden}_b"));
    let variable = String::from_utf8_lossy(tokens.bytes(place.for_at + 1)).into_owned();
    let head = tokens.range(place.for_at).start..tokens.range(place.for_at + 2).end;
    // A literal stays one, so that LuaJIT knows that indexes are integers.
    let start = match literal(tokens, &place.first) {
        Some(_) => String::from_utf8_lossy(tokens.bytes(place.first.start)).into_owned(),
        None => first.clone(),
    };
    let (opens, end) = (tokens.range(place.last.end).start, tokens.range(place.body.end).end);
    [
        Edit { at: head, by: format!("do local {first}, {last}, {arrays} = ") },
        Edit {
            at: opens..opens,
            by: format!(
                ", {arrays} if {hidden}_long({first}, {last}) and {hidden}({number}, {first}, {last}, {given}) \
                 then {last} = {first} - 1 elseif {hidden}_odd() then {readable} end for {variable} = {start}, {last} "
            ),
        },
        Edit { at: end..end, by: " end".to_owned() },
    ]
}

fn apply(source: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut text = String::with_capacity(source.len() + 200 * edits.len());
    let mut done = 0;
    for edit in edits {
        text.push_str(source.get(done..edit.at.start)?);
        text.push_str(&edit.by);
        done = edit.at.end;
    }
    text.push_str(source.get(done..)?);
    Some(text)
}

/// Call of `lib.getData("…")` whose elements are accessed only by rewritten loops.
struct Site {
    dataset: String,
    /// Byte offset of its closing parenthesis.
    closes: usize,
}

/// Returns the variables that are initialised by such a call.
fn sites(
    tokens: &Tokens<'_>,
    structure: &Structure,
    found: &[(&NumericLoop, Loop, Arrays)],
) -> HashMap<Variable, Site> {
    let seen: HashSet<usize> =
        found.iter().flat_map(|(.., arrays)| arrays).flat_map(|(_, names)| names.iter().copied()).collect();
    let mut sites = HashMap::new();
    for local in &structure.locals {
        for (&variable, value) in local.variables.iter().zip(&local.values) {
            let Some((function, uses)) = structure.variables.get(variable) else { continue };
            // Variables of the source itself, or captured by another function, may be used in a later call.
            let lives_on = *function == 0 || structure.captured.contains(&variable);
            if lives_on || !uses.iter().all(|at| seen.contains(at)) {
                continue;
            }
            if let Some(site) = site(tokens, structure, value) {
                sites.insert(variable, site);
            }
        }
    }
    sites
}

fn site(tokens: &Tokens<'_>, structure: &Structure, value: &Range<usize>) -> Option<Site> {
    let at = value.start;
    let is_call = value.len() == 6
        && tokens.is_word(at, "lib")
        && !structure.names.contains_key(&at)
        && tokens.is_op(at + 1, '.')
        && tokens.is_word(at + 2, "getData")
        && tokens.is_op(at + 3, '(')
        && tokens.is_string(at + 4)
        && tokens.is_op(at + 5, ')');
    let dataset = std::str::from_utf8(tokens.bytes(at + 4)).ok()?;
    let is_plain = tokens.kind(at + 4) == Some(Kind::Raw) || !dataset.contains('\\');
    (is_call && is_plain).then(|| Site { dataset: dataset.to_owned(), closes: tokens.range(at + 5).start })
}
