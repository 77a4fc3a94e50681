//! Declaration of an analysis of a store: the datasets that it reads, and its limits.

use super::Record;
use crate::backend::Backend;
use crate::datatype::{Datatype, ElementType};
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::stub::{LiveId, RecordDigest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Name of an analysis's output: the bytes of the worker's results.
pub const RESULTS: &str = "results";
/// Maximum length of a name or version in bytes.
const MAX_NAME_BYTES: usize = 100;
/// Maximum number of datasets of an analysis.
const MAX_DATASETS: usize = 1024;
/// Maximum number of keys with rules.
const MAX_RULES: usize = 256;
/// Maximum duration of a call in milliseconds.
const MAX_CALL_MS: u64 = 3_600_000;
/// Maximum size of one call's results in bytes.
const MAX_RESULT_BYTES: u64 = 64 << 10;
/// Rules to merge the values of one key, independent of the function: see `store::pairs` of the engine.
const RULES: [&str; 5] = ["max", "min", "sum", "first", "last"];

/// Policy for a write whose analysis fails. The data are written in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// Ignore the failure: there are no results.
    #[default]
    Skip,
    /// Record it with the reason.
    Mark,
    /// Record it, and fail the write after the data are written.
    Raise,
}

impl Failure {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Skip => "skip",
            Failure::Mark => "mark",
            Failure::Raise => "raise",
        }
    }

    /// Returns the policy of this name.
    ///
    /// # Errors
    /// `Syntax`.
    pub fn from_name(name: &str) -> Result<Self> {
        match [Failure::Skip, Failure::Mark, Failure::Raise].into_iter().find(|f| f.name() == name) {
            Some(failure) => Ok(failure),
            None => fail!(Syntax, "failure must be skip, mark or raise, got {:?}", escape(name, 40)),
        }
    }
}

/// Declaration of an analysis. All of it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Name.
    pub name: String,
    /// Version, chosen by its author.
    pub version: String,
    /// Absolute paths of the datasets that it reads.
    pub datasets: Vec<String>,
    /// Time limit of one call in milliseconds.
    pub time_ms: u64,
    /// Memory limit in bytes, excluding the data.
    pub memory: u64,
    /// Maximum size of one call's results in bytes.
    pub bytes: u64,
    /// Policy for a write whose analysis fails.
    pub failure: Failure,
    /// Rules to merge the values of a key without the function.
    pub merge: BTreeMap<String, String>,
}

impl Declaration {
    /// Returns whether the analysis reads the dataset with this absolute path.
    pub fn sees(&self, dataset: &[u8]) -> bool {
        self.datasets.iter().any(|known| known.as_bytes() == dataset)
    }

    /// Returns the identity of an analysis with this declaration and source: equal for equal ones,
    /// independent of their author.
    pub fn identity(&self, backend: Backend, source: &str) -> LiveId {
        let declaration = serde_json::to_vec(self).unwrap_or_default();
        let language = backend.short_name().as_bytes();
        LiveId(RecordDigest::compute(&[language, &[0], &declaration, &[0], source.as_bytes()].concat()).0)
    }

    /// Checks the declaration and its record.
    ///
    /// # Errors
    /// `Invalid`, `Limit` or `Unsupported`.
    pub(super) fn check(&self, record: &Record) -> Result<()> {
        let plain =
            |text: &str| (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
        if !plain(&self.name) || !plain(&self.version) {
            fail!(Invalid, "an analysis has a name and a version of 1 to {MAX_NAME_BYTES} bytes")
        }
        if self.datasets.is_empty() || self.datasets.len() > MAX_DATASETS {
            fail!(Invalid, "an analysis looks at 1 to {MAX_DATASETS} datasets")
        }
        let is_path = |path: &String| path.starts_with('/') && path.len() <= 4096 && !path.contains('\0');
        if let Some(path) = self.datasets.iter().find(|path| !is_path(path)) {
            fail!(Invalid, "{:?} is not the absolute path of a dataset", escape(path, 200))
        }
        if self.datasets.iter().collect::<HashSet<_>>().len() != self.datasets.len() {
            fail!(Invalid, "the analysis names a dataset twice")
        }
        if !(1..=MAX_CALL_MS).contains(&self.time_ms) {
            fail!(Limit, "a call of an analysis takes 1 ms to {} s", MAX_CALL_MS / 1000)
        }
        if !(1 << 20..=1 << 40).contains(&self.memory) || !(16..=MAX_RESULT_BYTES).contains(&self.bytes) {
            let most = MAX_RESULT_BYTES >> 10;
            fail!(
                Limit,
                "an analysis has 1 MiB to 1 TiB of memory, and 16 bytes to {most} KiB for its results"
            )
        }
        if self.merge.len() > MAX_RULES {
            fail!(Limit, "rules for more than {MAX_RULES} keys")
        }
        for (key, rule) in &self.merge {
            let of = rule.strip_prefix("with ");
            let known = RULES.contains(&rule.as_str()) || of.is_some_and(|of| self.decides(of));
            if !known {
                fail!(
                    Invalid,
                    "the rule of {:?} is {:?}; expected max, min, sum, first, last, or `with KEY` of a key with max or min",
                    escape(key, 80),
                    escape(rule, 80)
                )
            }
        }
        if !record.backend.has_worker() {
            fail!(
                Unsupported,
                "analyses are written in Lua, Python or C++, not as {}",
                record.backend.short_name()
            )
        }
        let output = &record.output;
        let alone = record.inputs.is_empty() && record.scratch.is_empty();
        let fits = output.name == RESULTS
            && output.datatype == Datatype::from(ElementType::UInt8)
            && output.dims == [self.bytes]
            && record.chunk == output.dims;
        if !alone || !fits || record.blockwise || !record.halo.is_empty() || !record.maximum.is_empty() {
            fail!(Invalid, "the record of an analysis has {} bytes of results, and nothing else", self.bytes)
        }
        Ok(())
    }

    /// Returns whether the rule of this key chooses one of two values.
    fn decides(&self, key: &str) -> bool {
        self.merge.get(key).is_some_and(|rule| rule == "max" || rule == "min")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Slot, tests::sample};

    pub(crate) fn analysis() -> Record {
        let merge = [("max", "max"), ("at", "with max"), ("n", "sum")];
        let declaration = Declaration {
            name: "waves".into(),
            version: "1".into(),
            datasets: vec!["/ocean/h".into(), "/ocean/v".into()],
            time_ms: 50,
            memory: 64 << 20,
            bytes: 4096,
            failure: Failure::Mark,
            merge: merge.map(|(key, rule)| (key.into(), rule.into())).into(),
        };
        let output = Slot { name: RESULTS.into(), datatype: ElementType::UInt8.into(), dims: vec![4096] };
        Record {
            output,
            inputs: Vec::new(),
            scratch: Vec::new(),
            chunk: vec![4096],
            blockwise: false,
            analysis: Some(declaration),
            compiled: None,
            source: "function on_write() end".into(),
            ..sample()
        }
    }

    #[test]
    fn analyses_come_back_and_are_no_live_datasets() {
        let record = analysis();
        let bytes = record.encode().unwrap();
        let (back, declaration) = Record::parse_analysis(&bytes).unwrap();
        assert_eq!((&back, Some(&declaration)), (&record, record.analysis.as_ref()));
        assert_eq!(back.version(), 5);
        assert!(declaration.sees(b"/ocean/h") && !declaration.sees(b"/ocean"));
        assert!(Record::parse(&bytes).unwrap_err().to_string().contains("of an analysis"));
        let live = sample().encode().unwrap();
        assert!(Record::parse_analysis(&live).unwrap_err().to_string().contains("of a live dataset"));
    }

    /// Checks that the record with a change is rejected with `expected` in the message.
    #[track_caller]
    fn check(change: fn(&mut Record, &mut Declaration), expected: &str) {
        let mut record = analysis();
        let mut declaration = record.analysis.clone().unwrap();
        change(&mut record, &mut declaration);
        record.analysis = Some(declaration);
        let error = Record::parse_analysis(&record.encode().unwrap()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_an_analysis_cannot_be_is_refused() {
        check(|_, d| d.name.clear(), "a name and a version");
        check(|_, d| d.name = "a\nb".into(), "a name and a version");
        check(|_, d| d.version = "x".repeat(101), "a name and a version");
        check(|_, d| d.datasets.clear(), "looks at 1 to");
        check(|_, d| d.datasets.push("ocean".into()), "absolute path");
        check(|_, d| d.datasets.push("/ocean/h".into()), "twice");
        check(|_, d| d.time_ms = 0, "1 ms");
        check(|_, d| d.time_ms = u64::MAX, "1 ms");
        check(|_, d| d.memory = 0, "of memory");
        check(|_, d| d.bytes = u64::MAX, "for its results");
        check(|_, d| d.bytes = 100, "100 bytes of results");
        check(|_, d| drop(d.merge.insert("x".into(), "mean".into())), "the rule of");
        check(|_, d| drop(d.merge.insert("x".into(), "with n".into())), "the rule of");
        check(|r, _| r.inputs = sample().inputs, "nothing else");
        check(|r, _| r.output.name = "other".into(), "nothing else");
        check(|r, _| r.backend = Backend::Expression, "not as expression");
    }
}
