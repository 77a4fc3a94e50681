//! Compiled form: PTX, preceded by a line for each kernel with the kernel's name in the PTX.
//!
//! It is read as text, to check that it contains the kernels of the source with the parameters of the launch
//! plan. Their code is left to the driver.

use super::Program;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;

/// Prefix of a line that names a kernel.
const MARK: &str = "// hyperchunk kernel ";
/// Minimum compute capability.
const MIN_COMPUTE_CAPABILITY: u32 = 70;
/// Maximum size of PTX.
const MAX_PTX_BYTES: usize = 16 << 20;

/// Returns whether a compiled form's target is PTX.
pub fn is_target(target: &str) -> bool {
    architecture(target).is_some()
}

fn architecture(target: &str) -> Option<u32> {
    let digits = target.strip_prefix("ptx/compute_")?;
    let plain = (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&n| plain && n >= MIN_COMPUTE_CAPABILITY && !digits.starts_with('0'))
}

/// Returns the compiled form to store: the names of its kernels in the program's order, and the PTX, with a
/// lower version for older drivers where its text permits.
pub fn stored<'a>(ptx: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::with_capacity(ptx.len() + 256);
    for name in names {
        text.push_str(MARK);
        text.push_str(name);
        text.push('\n');
    }
    text.push_str(&super::version::with_lowest_version(ptx.trim_end_matches('\0')));
    text
}

/// Returns the target declared in a compiled form.
///
/// # Errors
/// `Failed` if it is not PTX, or for architectures that are too old.
pub fn target(object: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(object);
    let machine = text.lines().find_map(|line| line.trim().strip_prefix(".target sm_"));
    let digits: String = machine.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    let target = format!("ptx/compute_{digits}");
    if !is_target(&target) {
        fail!(Failed, "the compiler produced no PTX for compute_{MIN_COMPUTE_CAPABILITY} or newer")
    }
    Ok(target)
}

/// Compiled form that matches its source.
#[derive(Clone, Debug)]
pub struct Ptx {
    /// Complete text.
    pub text: String,
    /// Names of the program's kernels in it.
    pub names: Vec<String>,
}

impl Program {
    /// Returns the compiled form after checking that it has this program's kernels with their parameters.
    ///
    /// # Errors
    /// `Invalid` if it does not match or is not PTX, `Limit` if it is too large.
    pub fn ptx(&self, object: &[u8]) -> Result<Ptx> {
        let wrong = |what: String| {
            Error::new(ErrorKind::Invalid, format!("the compiled form {what}; attach the function again"))
        };
        if object.len() > MAX_PTX_BYTES {
            fail!(Limit, "the PTX has more than {} MiB", MAX_PTX_BYTES >> 20)
        }
        let text = std::str::from_utf8(object).ok().filter(|text| !text.contains('\0'));
        let Some(text) = text else { return Err(wrong("is not PTX".into())) };
        let names: Vec<_> = text
            .lines()
            .map_while(|line| line.strip_prefix(MARK))
            .map(|name| name.trim().to_owned())
            .collect();
        if names.len() != self.instances.len() {
            return Err(wrong(format!(
                "has {} kernels, and the source launches {}",
                names.len(),
                self.instances.len()
            )));
        }
        for (name, instance) in names.iter().zip(&self.instances) {
            let expected: Vec<usize> = instance.parameters.iter().map(super::parameter_bytes).collect();
            match entry(text, name) {
                Some(found) if found == expected => {}
                found => {
                    return Err(wrong(format!(
                        "has {} where the source has the kernel {}, with parameters of {expected:?} bytes",
                        found.map_or("no kernel".to_owned(), |f| format!("parameters of {f:?} bytes")),
                        escape(&instance.expression, 80)
                    )));
                }
            }
        }
        Ok(Ptx { text: text.to_owned(), names })
    }
}

/// Returns the sizes of the parameters of a kernel in bytes.
fn entry(text: &str, name: &str) -> Option<Vec<usize>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    for (at, found) in text.match_indices(".entry") {
        let after = text.get(at + found.len()..)?.trim_start();
        let Some(rest) = after.strip_prefix(name).filter(|rest| !rest.starts_with(is_name)) else {
            continue;
        };
        let rest = rest.trim_start();
        let Some(list) = rest.strip_prefix('(') else { return Some(Vec::new()) };
        let (list, _) = list.split_once(')')?;
        let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
        return parts.map(parameter).collect();
    }
    None
}

/// Returns the size of a parameter such as `.param .align 8 .b8 name[520]` in bytes.
fn parameter(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace();
    if words.next() != Some(".param") {
        return None;
    }
    let mut bytes = None;
    let mut last = "";
    while let Some(word) = words.next() {
        match word {
            ".align" => drop(words.next()?),
            ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
            word if word.starts_with('.') => {
                let digits = word.get(2..)?;
                bytes = Some(digits.parse::<usize>().ok()? / 8);
            }
            word => last = word,
        }
    }
    let count = match last.split_once('[') {
        Some((_, count)) => count.strip_suffix(']')?.parse::<usize>().ok()?,
        None => 1,
    };
    bytes?.checked_mul(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_volta_and_newer() {
        for (target, expected) in [
            ("ptx/compute_70", true),
            ("ptx/compute_120", true),
            ("ptx/compute_60", false),
            ("ptx/compute_0070", false),
            ("ptx/compute_9x", false),
            ("wasm32", false),
        ] {
            assert_eq!(is_target(target), expected, "{target}");
        }
    }

    #[test]
    fn parameters_have_their_sizes() {
        let text = ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 .ptr .global .align 4 a,\n .param .align 8 .b8 k_2[520],\n.param .f32 x\n)\n{ }\n.entry kk()\n.entry none\n{}";
        assert_eq!(entry(text, "k"), Some(vec![8, 8, 520, 4]));
        assert_eq!(entry(text, "kk"), Some(vec![]));
        assert_eq!(entry(text, "none"), Some(vec![]));
        assert_eq!(entry(text, "other"), None);
        assert_eq!(entry(".entry k(.param .u64", "k"), None);
    }
}
