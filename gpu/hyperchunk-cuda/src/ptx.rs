//! The declarations in a PTX text: its kernels and their parameters. Source: *Parallel Thread Execution ISA*,
//! §5 and §7.

use crate::Result;
use crate::error::fail;

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size in bytes.
    pub bytes: usize,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, mangled if the language does so.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// Maximum total size of parameters on any GPU, in bytes.
const MAX_PARAMETER_BYTES: usize = 32764;

/// Parses the kernels that a PTX text declares.
///
/// # Errors
/// Invalid for a damaged declaration.
pub fn entries(text: &str) -> Result<Vec<Entry>> {
    let mut words = Tokens { rest: text };
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(word) = words.next() {
        if word == ".entry" {
            let entry = words.entry()?;
            // A declaration may come before the definition.
            if !entries.iter().any(|other| other.name == entry.name) {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

/// A tokenizer that skips comments.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// Returns the next token; `None` at the end.
    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(after) = self.rest.strip_prefix("//") {
                self.rest = after.find('\n').map_or("", |end| &after[end..]);
            } else if let Some(after) = self.rest.strip_prefix("/*") {
                self.rest = after.find("*/").map_or("", |end| &after[end + 2..]);
            } else {
                break;
            }
        }
        let first = self.rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '%');
        let end = match first {
            '"' => self.rest[1..].find('"').map_or(self.rest.len(), |end| end + 2),
            c if is_word(c) => self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()),
            c => c.len_utf8(),
        };
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }

    /// Parses a kernel's name and parameters, after `.entry`.
    fn entry(&mut self) -> Result<Entry> {
        let name = self.next().unwrap_or_default().to_owned();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%')) {
            fail!(Invalid, "PTX: a kernel without a name")
        }
        let mut parameters = Vec::new();
        let mut total = 0_usize;
        match self.next() {
            Some("(") => {}
            // Without a list there are no parameters.
            Some("{" | ";") => return Ok(Entry { name, parameters }),
            Some(word) if word.starts_with('.') => return Ok(Entry { name, parameters }),
            _ => fail!(Invalid, "PTX: the parameters of {name} are damaged"),
        }
        loop {
            match self.next() {
                Some(")") => return Ok(Entry { name, parameters }),
                Some(",") => {}
                Some(".param") => {
                    let parameter = self.parameter(&name)?;
                    total = total.saturating_add(parameter.bytes);
                    if total > MAX_PARAMETER_BYTES {
                        fail!(Limit, "PTX: {name} takes more than {MAX_PARAMETER_BYTES} bytes of parameters")
                    }
                    parameters.push(parameter);
                }
                _ => fail!(Invalid, "PTX: the parameters of {name} are damaged"),
            }
        }
    }

    /// Parses a parameter's type and array length, after `.param`.
    fn parameter(&mut self, of: &str) -> Result<Parameter> {
        let mut bytes = None;
        // Type, alignment and a pointer's state space; then the name.
        loop {
            match self.next() {
                Some(".align") => {
                    self.next();
                }
                Some(word) if word.starts_with('.') => {
                    bytes = bytes.or(width(word));
                }
                Some(_) => break,
                None => fail!(Invalid, "PTX: the parameters of {of} are damaged"),
            }
        }
        let Some(mut bytes) = bytes else { fail!(Invalid, "PTX: a parameter of {of} has no type") };
        let mut ahead = Tokens { rest: self.rest };
        if ahead.next() == Some("[") {
            let count = ahead.next().and_then(|count| count.parse::<usize>().ok());
            let total = count
                .and_then(|count| count.checked_mul(bytes))
                .filter(|total| *total <= MAX_PARAMETER_BYTES);
            match (total, ahead.next()) {
                (Some(total), Some("]")) => bytes = total,
                _ => fail!(Invalid, "PTX: a parameter of {of} has no size"),
            }
            self.rest = ahead.rest;
        }
        Ok(Parameter { bytes })
    }
}

/// Returns the size of a type in bytes.
fn width(word: &str) -> Option<usize> {
    Some(match word {
        ".b8" | ".s8" | ".u8" => 1,
        ".b16" | ".s16" | ".u16" | ".f16" => 2,
        ".b32" | ".s32" | ".u32" | ".f32" | ".f16x2" => 4,
        ".b64" | ".s64" | ".u64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Vec<(String, Vec<usize>)>, String> {
        let entries = entries(text).map_err(|error| error.to_string())?;
        let sizes = |entry: &Entry| entry.parameters.iter().map(|parameter| parameter.bytes).collect();
        Ok(entries.iter().map(|entry| (entry.name.clone(), sizes(entry))).collect())
    }

    #[test]
    fn kernels_and_their_parameters() {
        let text = "
            .version 8.8 // .entry no( \n .target sm_70
            /* .entry neither(.param .u64 x) */
            .func (.param .b64 r) helper(.param .b64 p) { ret; }
            .visible .entry one(.param .u64 a, .param .align 8 .b8 b[72],
                .param .u64 .ptr .global .align 4 c, .param .f32 d)
            .maxntid 256, 1, 1 { .pragma \"nounroll .entry\"; ret; }
            .entry two { ret; } .visible .entry three() { ret; }";
        let expected = [("one", vec![8, 72, 8, 4]), ("two", vec![]), ("three", vec![])];
        let expected = expected.map(|(name, sizes)| (name.to_owned(), sizes));
        assert_eq!(check(text).unwrap(), expected);
        assert_eq!(check("").unwrap(), []);
    }

    #[test]
    fn no_damage_stops_the_reader() {
        let text = include_str!("../kernels/ingest.ptx");
        let whole = entries(text).unwrap().len();
        let mut state = 7_u64;
        for _ in 0..300 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = b" .,;[]()\"/*{}9azA_\n"[(state >> 20) as usize % 19];
            }
            bytes.truncate(bytes.len() - (state >> 40) as usize % 2000);
            if let Ok(found) = entries(std::str::from_utf8(&bytes).unwrap()) {
                assert!(found.len() <= whole + 4);
            }
        }
    }

    #[test]
    fn damage_is_an_error() {
        for text in [
            ".entry",
            ".entry (",
            ".entry k(.param)",
            ".entry k(.param x)",
            ".entry k(.param .u64",
            ".entry k(.u64 a)",
            ".entry k(.param .b8 x[])",
            ".entry k(.param .b8 x[9",
            ".entry k(.param .b8 x[99999999999999999999])",
            ".entry k(.param .b8 x[32764], .param .b8 y)",
            ".entry k(.param .align 8",
        ] {
            check(text).unwrap_err();
        }
    }
}
