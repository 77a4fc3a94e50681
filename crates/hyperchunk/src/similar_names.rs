//! Advice for misspelt names in error messages.

use hyperchunk_format::model::Name;
use hyperchunk_format::printable;

/// Maximum number of names that are compared.
const MAX_COMPARED_NAMES: usize = 2000;
/// Maximum length in bytes of names that are compared.
const MAX_COMPARED_BYTES: usize = 100;

/// Returns the end of an error message about a missing name: the most similar one of `all`, if there is one.
/// `holder` names the object that has them.
#[must_use]
pub fn similar(name: &[u8], all: &[Name], holder: &str) -> String {
    if all.is_empty() {
        return format!("; {holder} has none");
    }
    match most_similar(name, all) {
        Some(close) => format!("; did you mean `{}`?", printable::escape(&close, 200)),
        None => String::new(),
    }
}

/// Returns the most similar name, if one is so similar that the other may be a misspelling.
#[must_use]
pub fn most_similar(name: &[u8], all: &[Name]) -> Option<String> {
    if all.len() > MAX_COMPARED_NAMES {
        return None;
    }
    let wanted = String::from_utf8_lossy(name).to_lowercase();
    let close = all.iter().filter_map(|other| {
        let other_text = other.to_string();
        let distance = distance(&wanted, &other_text.to_lowercase())?;
        let length = wanted.chars().count();
        // Any two names of one letter would be similar.
        let most = if length < 2 { 0 } else { 1 + usize::from(length >= 6) };
        (distance <= most).then_some((distance, other_text))
    });
    close.min().map(|(_, name)| name)
}

/// Returns the edit distance of two texts (insertions, deletions and replacements); `None` for long texts.
fn distance(one: &str, other: &str) -> Option<usize> {
    if one.len().max(other.len()) > MAX_COMPARED_BYTES {
        return None;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, with) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *with);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, expected) in [("abc", "abc", 0), ("abc", "abd", 1), ("", "ab", 2), ("red", "rde", 2)]
        {
            assert_eq!(distance(one, other), Some(expected), "{one} {other}");
        }
    }
}
