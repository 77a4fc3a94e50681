//! Other files from which an input comes, by the names in the live dataset's file; part of the signed record.
//!
//! An external link, a source of a virtual dataset or a file of raw data counts by the names in the file of
//! the live dataset. Further links in those files are not followed.

use crate::error::{Result, fail};
use crate::escape::escape;
pub use crate::record::Source;
use crate::record::{Record, Slot};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Maximum number of sources listed by name in a record; more are replaced by one entry with their digest.
const MAX_LISTED_SOURCES: usize = 64;
/// Maximum number of soft links on one path.
const MAX_LINKS: usize = 64;

/// Target of a link of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Object of the file, or nothing.
    Here,
    /// Path in the file.
    Soft(Vec<u8>),
    /// Path in another file.
    External {
        /// File.
        file: Vec<u8>,
        /// Path in it.
        path: Vec<u8>,
    },
}

/// Sources of one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeSet<Source>);

impl Sources {
    /// Adds a source. Names that are not UTF-8 are escaped bytewise.
    pub fn add(&mut self, file: &[u8], object: &[u8]) {
        self.0.insert((text(file), text(object)));
    }

    /// Returns whether all of the input comes from the live dataset's own file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list for a record.
    #[must_use]
    pub fn listed(&self) -> Vec<Source> {
        if self.0.len() <= MAX_LISTED_SOURCES {
            return self.0.iter().cloned().collect();
        }
        let mut digest = Sha256::new();
        for part in self.0.iter().flat_map(|(file, object)| [file, object]) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let hexadecimal: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        vec![(String::new(), hexadecimal)]
    }

    /// Follows a path from the root of the file. `look` returns the target of the link at an absolute path.
    /// Returns the path without links, or `None` if it points to another file, which is added.
    ///
    /// # Errors
    /// `Limit` for a cycle of links, and the errors of `look`.
    pub fn follow(
        &mut self,
        path: &[u8],
        mut look: impl FnMut(&[u8]) -> Result<Target>,
    ) -> Result<Option<Vec<u8>>> {
        let mut left: Vec<Vec<u8>> = names(path).rev().collect();
        let mut here: Vec<Vec<u8>> = Vec::new();
        let mut links = 0;
        while let Some(name) = left.pop() {
            here.push(name);
            match look(&joined(&here))? {
                Target::Here => continue,
                Target::Soft(path) => {
                    here.pop();
                    if path.starts_with(b"/") {
                        here.clear();
                    }
                    left.extend(names(&path).rev());
                }
                Target::External { file, path } => {
                    let whole: Vec<Vec<u8>> = names(&path).chain(left.into_iter().rev()).collect();
                    self.add(&file, &joined(&whole));
                    return Ok(None);
                }
            }
            links += 1;
            if links > MAX_LINKS {
                fail!(Limit, "more than {MAX_LINKS} links in a row, or a cycle of links")
            }
        }
        Ok(Some(joined(&here)))
    }
}

/// Splits a path into its names.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec)
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("bytes:{}", bytes.escape_ascii()),
    }
}

/// Checks that an input comes from the files in its record. A signed record without a list, such as an older
/// one, permits only its own file. An unsigned record without a list permits all, since its list could be
/// changed as well.
///
/// # Errors
/// `Refused`.
pub fn check(record: &Record, input: &Slot, found: &Sources) -> Result<()> {
    let now = found.listed();
    if now.is_empty() || record.sources.get(&input.name) == Some(&now) {
        return Ok(());
    }
    match record.sources.get(&input.name) {
        Some(then) => fail!(
            Refused,
            "it comes from {} now, and came from {} when the function was attached: its file was changed; attach the function again if that is right",
            shown(&now),
            shown(then)
        ),
        None if record.signature.is_none() && record.sources.is_empty() => Ok(()),
        None => fail!(
            Refused,
            "it comes from {}, which its record does not list: its file was changed, or the record is of an older version; attach the function again if that is right",
            shown(&now)
        ),
    }
}

/// Lists sources for a message.
fn shown(sources: &[Source]) -> String {
    let one = |(file, object): &Source| match (file.is_empty(), object.is_empty()) {
        (true, _) => "many files".to_owned(),
        (_, true) => format!("`{}`", escape(file, 120)),
        _ => format!("`{}` ({})", escape(file, 120), escape(object, 120)),
    };
    let mut list: Vec<String> = sources.iter().take(3).map(one).collect();
    if sources.len() > 3 {
        list.push(format!("{} more", sources.len() - 3));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;
    use crate::signature::SigningKey;

    fn follow(path: &str) -> (Option<String>, Vec<Source>) {
        let mut sources = Sources::default();
        let end = sources
            .follow(path.as_bytes(), |at| {
                Ok(match at {
                    b"/soft" => Target::Soft(b"g/a".to_vec()),
                    b"/g/up" => Target::Soft(b"/out".to_vec()),
                    b"/g/near" => Target::Soft(b"a".to_vec()),
                    b"/round" => Target::Soft(b"round".to_vec()),
                    b"/out" => Target::External { file: b"b.h5".to_vec(), path: b"/x/".to_vec() },
                    b"/out8" => Target::External { file: b"\xff".to_vec(), path: b"x".to_vec() },
                    _ => Target::Here,
                })
            })
            .unwrap();
        (end.map(|end| String::from_utf8(end).unwrap()), sources.listed())
    }

    #[test]
    fn paths_are_followed() {
        let check = |path: &str, end: Option<&str>, sources: &[(&str, &str)]| {
            let wanted: Vec<Source> = sources.iter().map(|(f, o)| ((*f).into(), (*o).into())).collect();
            assert_eq!(follow(path), (end.map(str::to_owned), wanted), "{path}");
        };
        check("/g//a/.", Some("/g/a"), &[]);
        check("soft", Some("/g/a"), &[]);
        check("/g/near", Some("/g/a"), &[]);
        check("/out", None, &[("b.h5", "/x")]);
        check("/out/y/z", None, &[("b.h5", "/x/y/z")]);
        check("/g/up/y", None, &[("b.h5", "/x/y")]);
        check("/out8", None, &[("bytes:\\xff", "/x")]);
        let mut sources = Sources::default();
        let round = |at: &[u8]| Ok(Target::Soft(at.to_vec()));
        assert!(sources.follow(b"/round", round).unwrap_err().to_string().contains("cycle"));
    }

    #[test]
    fn many_sources_are_a_digest() {
        let mut sources = Sources::default();
        let mut listed = |n: usize| {
            sources.add(format!("{n}.h5").as_bytes(), b"/x");
            sources.listed()
        };
        let few: Vec<_> = (0..64).map(&mut listed).collect();
        assert_eq!(few.last().map(Vec::len), Some(64));
        let (many, more) = (listed(64), listed(65));
        assert_eq!((many.len(), more.len()), (1, 1));
        assert_ne!(many, more);
    }

    #[test]
    fn what_a_record_says_holds() {
        let mut record = sample();
        let input = record.inputs[0].clone();
        let of = |names: &[(&str, &str)]| {
            let mut sources = Sources::default();
            names.iter().for_each(|(f, o)| sources.add(f.as_bytes(), o.as_bytes()));
            sources
        };
        let (one, other) = (of(&[("b.h5", "/x")]), of(&[("c.h5", "/x")]));
        // Signed, and of an older version.
        assert!(check(&record, &input, &of(&[])).is_ok());
        assert!(check(&record, &input, &one).unwrap_err().to_string().contains("does not list"));
        record.signature = None;
        assert!(check(&record, &input, &one).is_ok());
        record.sources.insert(input.name.clone(), one.listed());
        for signed in [false, true] {
            if signed {
                SigningKey::from_seed(&[9; 32], "", "").sign(&mut record);
            }
            assert!(check(&record, &input, &one).is_ok());
            assert!(check(&record, &input, &of(&[])).is_ok());
            let message = check(&record, &input, &other).unwrap_err().to_string();
            assert!(message.contains("`c.h5` (/x) now") && message.contains("`b.h5` (/x) when"), "{message}");
            let another = record.inputs[1].clone();
            assert!(check(&record, &another, &one).is_err());
        }
    }
}
