//! Loops of Lua sources that are computed as vectors.
//!
//! A numeric loop that does the same to each element, as `for i = 1, n do out[i] = a[i] * 2 end`, is rewritten so that it first
//! asks whether somebody else computes it, and runs if nobody does: LuaJIT's code takes one element at a time, an
//! [`Arithmetic`](crate::expression) four or eight. What is not fully understood stays as it is, byte for byte, and lines keep their
//! numbers.
//!
//! **Invariant:** whoever computes a loop gives the bits that Lua would, or does not compute it.

mod body;
mod syntax;
#[cfg(test)]
mod tests;

pub(crate) use body::{Id, Loop, Offset, Value};

use crate::scan::lua::lexer::lex;
use crate::scan::token::{Kind, Tokens};
use body::Arrays;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use syntax::{NumericLoop, Structure, Variable};

/// Loops with fewer rounds are not worth asking for.
pub(crate) const LEAST: u32 = 1024;
/// Loops of a source that are rewritten, at most.
const MAX_LOOPS: usize = 1000;

/// A source whose loops ask.
///
/// Its chunk takes one argument, the function to ask: `ask(number, first, last, arrays…, scalars…)` gives the first and last round that are
/// left, and the arrays.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) loops: Vec<Asking>,
}

/// A loop that asks.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) computes: Loop,
    /// For each array, the dataset whose elements it has as they lie in memory, since nothing but such loops sees them; none for
    /// those that anything may see.
    pub(crate) as_they_lie: Vec<Option<String>>,
}

/// A part of the source that is replaced.
struct Edit {
    at: Range<usize>,
    by: String,
}

/// Rewrites a source; nothing if no loop of it can be computed.
pub(crate) fn rewrite(source: &str) -> Option<Rewritten> {
    // LuaJIT skips such a line or mark at the very beginning only.
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
        .filter(|each| can_be_rewritten(&tokens, each))
        .filter_map(|each| body::understand(&tokens, &structure, each).map(|(all, arrays)| (each, all, arrays)))
        .take(MAX_LOOPS)
        .collect();
    if found.is_empty() {
        return None;
    }
    let hidden = (0..).map(|n| format!("ask{n}")).find(|name| !source.contains(name.as_str()))?;
    let sites = sites(&tokens, &structure, &found);
    let mut edits: Vec<Edit> = vec![Edit { at: 0..0, by: format!("local {hidden} = ... ") }];
    let mut loops = Vec::new();
    for (number, (place, computes, arrays)) in found.into_iter().enumerate() {
        edits.extend(loop_edits(&tokens, place, &computes, &hidden, number));
        let site = |(variable, _): &(Variable, Vec<usize>)| sites.get(variable).map(|site| site.dataset.clone());
        let as_they_lie = arrays.iter().map(site).collect();
        loops.push(Asking { computes, as_they_lie });
    }
    for site in sites.values() {
        edits.push(Edit { at: site.closes..site.closes, by: format!(", {hidden}") });
    }
    Some(Rewritten { text: apply(source, edits)?, loops })
}

fn can_be_rewritten(tokens: &Tokens<'_>, each: &NumericLoop) -> bool {
    // `for NAME =` is replaced, and must have no line end in it.
    if tokens.line(each.for_at) != tokens.line(each.for_at + 2) {
        return false;
    }
    let number = |range: &Range<usize>| {
        let text = std::str::from_utf8(tokens.bytes(range.start)).ok()?;
        let is_literal = range.len() == 1 && tokens.kind(range.start) == Some(Kind::Other);
        is_literal.then(|| text.parse::<f64>().ok()).flatten()
    };
    match (number(&each.first), number(&each.last)) {
        (Some(first), Some(last)) => last - first >= f64::from(LEAST - 1),
        _ => true,
    }
}

fn loop_edits(
    tokens: &Tokens<'_>,
    place: &NumericLoop,
    computes: &Loop,
    hidden: &str,
    number: usize,
) -> [Edit; 3] {
    let arrays = computes.arrays.join(", ");
    let given: Vec<&str> = computes.arrays.iter().chain(&computes.scalars).map(String::as_str).collect();
    let variable = String::from_utf8_lossy(tokens.bytes(place.for_at + 1)).into_owned();
    let head = tokens.range(place.for_at).start..tokens.range(place.for_at + 2).end;
    let (opens, end) = (tokens.range(place.last.end).start, tokens.range(place.body.end).end);
    [
        Edit {
            at: head,
            by: format!("do local {hidden}_a, {hidden}_b, {arrays} = {hidden}({number}, "),
        },
        Edit {
            at: opens..opens,
            by: format!(", {}) for {variable} = {hidden}_a, {hidden}_b ", given.join(", ")),
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

/// A `lib.getData("…")` whose elements nothing sees but loops that ask.
struct Site {
    dataset: String,
    /// The byte of its closing parenthesis.
    closes: usize,
}

/// The variables that have their value from such a site.
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
            // What the source itself keeps, or another function than that which asked for it, may be used in a later call.
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
