//! Detection of misspelt names: without descriptions, a name that is not in the file is an output, and so is
//! a typo.

use super::{FunctionDatasets, normal_name, resolution};
use crate::error::{Result, fail};
use crate::escape::escape;

/// Maximum length of names that are compared.
const MAX_COMPARED_BYTES: usize = 100;

/// Rejects undescribed outputs with almost the same name as a dataset of the file: with several outputs, one
/// of them may be a misspelt input. `names` are the names in the file.
///
/// # Errors
/// `Syntax`.
pub fn check_undescribed(resolved: &FunctionDatasets, names: &[String]) -> Result<()> {
    if resolved.outputs.len() < 2 {
        return Ok(());
    }
    for output in &resolved.outputs {
        if let Some(close) = similar_name(&output.name, names) {
            let (name, close) = (escape(&output.name, 100), escape(close, 100));
            fail!(
                Syntax,
                "{name} is not in the file; did you mean {close}? If it is an output, describe it and the others: \
                 {name}:{}:{}",
                resolution(&output.dims),
                output.datatype.name()
            )
        }
    }
    Ok(())
}

/// Returns the name in the file of which another one may be a misspelling.
#[must_use]
pub fn similar_name<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let own = normal_name(name);
    names.iter().find(|other| is_close(&own, &normal_name(other))).map(String::as_str)
}

/// Returns whether one may be the other misspelt: `Redd`, `red` and `Rde` for `Red`. Numbers distinguish
/// names: `B04` is not `B08`.
fn is_close(a: &str, b: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    if a == b || digits(a) != digits(b) {
        return false;
    }
    if a.to_lowercase() == b.to_lowercase() {
        return true;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let shorter = a.len().min(b.len());
    if shorter < 3 || a.len().max(b.len()) > MAX_COMPARED_BYTES {
        return false;
    }
    distance(&a, &b) <= if shorter < 6 { 1 } else { 2 }
}

/// Returns the edit distance: insertions, deletions, substitutions and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j + 1] + 1).min(row[j] + 1).min(last[j] + usize::from(x != y));
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::ElementType;
    use crate::spec::OutputInfo;

    #[test]
    fn typos() {
        let close = [
            ("Redd", "Red"),
            ("red", "Red"),
            ("Rde", "Red"),
            ("bands/Redd", "bands/Red"),
            ("elevatoin", "elevation"),
        ];
        for (a, b) in close {
            assert!(is_close(a, b) && is_close(b, a), "{a} {b}");
        }
        for (a, b) in [
            ("Red", "Red"),
            ("B04", "B08"),
            ("a", "b"),
            ("ab", "a"),
            ("NDVI", "Red"),
            ("out", "out2"),
            ("sum", "mean"),
        ] {
            assert!(!is_close(a, b) && !is_close(b, a), "{a} {b}");
        }
    }

    #[test]
    fn only_among_several() {
        let output = |name: &str| OutputInfo {
            name: name.into(),
            dims: vec![4, 5],
            datatype: ElementType::Float32.into(),
        };
        let names = ["/Red".to_owned(), "/NIR".to_owned()];
        let check = |outputs: &[&str]| {
            let outputs = outputs.iter().map(|name| output(name)).collect();
            check_undescribed(&FunctionDatasets { inputs: Vec::new(), outputs }, &names)
        };
        assert!(check(&["Redd"]).is_ok() && check(&["NDVI", "Mean"]).is_ok());
        let error = check(&["NDVI", "Redd"]).unwrap_err().to_string();
        assert!(error.contains("did you mean /Red?") && error.ends_with("Redd:4x5:float"), "{error}");
    }
}
