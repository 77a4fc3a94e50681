//! Loops of Lua sources that are computed as vectors.
//!
//! A numeric loop that does the same to each element, as `for i = 1, n do out[i] = a[i] * 2 end`, is rewritten so that it first
//! asks whether somebody else computes it, and runs if nobody does: LuaJIT's code takes one element at a time,
//! vector instructions four or eight. What is not fully understood stays as it is, byte for byte, and lines keep their
//! numbers.
//!
//! **Invariant:** whoever computes a loop gives the bits that Lua would, or does not compute it.

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

/// The rounds of a loop that is worth asking for where LuaJIT compiles.
pub const LEAST: u32 = 3072;
/// Loops of a source that are rewritten, at most.
const MAX_LOOPS: usize = 1000;
/// Names that are looked for in a source, at most, until there is one that it does not have.
const MAX_TRIES: usize = 20;

/// A source whose loops ask.
///
/// Its chunk takes four functions: `ask(number, first, last, arrays…, scalars…)`, which computes a loop or returns false,
/// `is_long(first, last)`, without which it is not asked, and, for what Lua is to read, `is_odd()` and `readable(number, array)`.
#[derive(Debug)]
pub struct Rewritten {
    /// Its text.
    pub text: String,
    /// Its loops that ask, by their numbers.
    pub loops: Vec<Asking>,
    /// The datasets of the arrays that have to be made readable, by their numbers, which count from 1: nothing but loops that ask
    /// sees their elements, and those have them as they lie in memory.
    pub lying: Vec<String>,
}

/// A loop that asks.
#[derive(Debug)]
pub struct Asking {
    /// The line that it begins in, counted from 1.
    pub line: u32,
    /// What it computes.
    pub computes: Loop,
}

/// A part of the source that is replaced.
struct Edit {
    at: Range<usize>,
    by: String,
}

/// Rewrites a source; nothing if no loop of it can be computed. Loops that have fewer rounds than `least` need not ask.
pub fn rewrite(source: &str, least: u32) -> Option<Rewritten> {
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
        .filter(|each| can_be_rewritten(&tokens, each, least))
        .filter_map(|each| {
            body::understand(&tokens, &structure, each).map(|(all, arrays)| (each, all, arrays))
        })
        .take(MAX_LOOPS)
        .collect();
    if found.is_empty() {
        return None;
    }
    let hidden = (0..MAX_TRIES).map(|n| format!("ask{n}")).find(|name| !source.contains(name.as_str()))?;
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
        loops.push(Asking { line: tokens.line(place.for_at), computes });
    }
    for site in sites.values() {
        edits.push(Edit { at: site.closes..site.closes, by: format!(", {hidden}") });
    }
    Some(Rewritten { text: apply(source, edits)?, loops, lying })
}

/// The lines where the loops of a source begin that can be computed as vectors.
pub fn lines(source: &str) -> Vec<u32> {
    rewrite(source, LEAST).map_or_else(Vec::new, |found| found.loops.iter().map(|each| each.line).collect())
}

fn can_be_rewritten(tokens: &Tokens<'_>, each: &NumericLoop, least: u32) -> bool {
    // `for NAME =` is replaced, and must have no line end in it.
    if tokens.line(each.for_at) != tokens.line(each.for_at + 2) {
        return false;
    }
    match (literal(tokens, &each.first), literal(tokens, &each.last)) {
        (Some(first), Some(last)) => last - first >= f64::from(least) - 1.0,
        _ => true,
    }
}

/// The value of an expression that is a number as it is written, if it is decimal.
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
    // A constant is told as one, by which LuaJIT knows that indexes are whole numbers.
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
