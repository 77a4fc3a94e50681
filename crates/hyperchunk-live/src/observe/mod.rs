//! Analyses of stores: functions that see written data, in the sandbox and under the trust of live datasets.
//!
//! **Invariant:** the data are written, whatever a function does, and its results are trusted no more than a
//! file.

mod backfill;
mod call;
mod make;
mod pending_results;
mod split;
pub mod summary;

pub use backfill::Backfill;
pub use make::{AnalysisOptions, backend, make};

use crate::to_engine_error;
use call::Worker;
use hyperchunk_store::format::analysis_values::{Pairs, Rule};
use hyperchunk_store::observe::observer::{AnalysisId, Observer, WriteEvent};
use hyperchunk_store::{Definition, LogWriter};
use hyperchunk_udf::audit;
use hyperchunk_udf::datatype::ElementType;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{Declaration, Failure, Record};
use hyperchunk_udf::signature::{self, Fingerprint};
use hyperchunk_udf::stub::RecordDigest;
use pending_results::PendingResults;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of consecutive failures after which a writer stops calling a function.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;

/// Analysis: its verified record and the signer.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Identity.
    pub id: AnalysisId,
    /// Record as stored.
    pub bytes: Arc<[u8]>,
    /// Parsed record.
    pub record: Record,
    /// Declaration in the record.
    pub declaration: Declaration,
    /// Signer, if the record is signed.
    pub signer: Option<Fingerprint>,
}

impl Analysis {
    /// Parses and verifies the record of an analysis.
    ///
    /// # Errors
    /// `Invalid` if the record or its signature is invalid; errors of [`Record::parse_analysis`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        // The identity precedes the record in a page.
        if bytes.len() as u64 + 16 > hyperchunk_store::MAX_PAGE_BYTES {
            let message = format!("the record of the analysis has {} bytes: more than a page", bytes.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let (record, declaration) = Record::parse_analysis(bytes)?;
        let signer = signature::verify(&record)?;
        Ok(Self { id: Self::compute_id(bytes), bytes: bytes.into(), record, declaration, signer })
    }

    /// Returns the identity of the analysis with this record.
    #[must_use]
    pub fn compute_id(bytes: &[u8]) -> AnalysisId {
        AnalysisId(RecordDigest::compute(bytes).0)
    }

    /// Returns the profile in which it runs here, with limits no higher than the declared ones.
    ///
    /// # Errors
    /// `Refused` if it may not run; errors of [`Profile::for_signer`].
    pub fn profile(&self) -> Result<Profile> {
        let mut profile = Profile::for_signer(self.signer)?;
        profile.allow(self.record.backend, self.signer)?;
        let (limits, declared) = (&mut profile.limits, &self.declaration);
        limits.memory = limits.memory.min(declared.memory);
        limits.cpu_s = limits.cpu_s.min(declared.time_ms.div_ceil(1000) + 1);
        Ok(profile)
    }

    /// Returns the rules for merging its results without the function; empty if it declares none.
    #[must_use]
    pub fn rules(&self) -> BTreeMap<String, Rule> {
        let rules = self.declaration.merge.iter();
        rules.filter_map(|(key, rule)| Some((key.clone(), Rule::from_name(rule).ok()?))).collect()
    }

    fn explain(&self, error: &Error) -> Error {
        let key = self.signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("key {signer}"));
        let language = self.record.backend.short_name();
        let name = escape(&self.declaration.name, 100);
        Error::new(error.kind(), format!("analysis {name} ({language}, {key}): {error}"))
    }
}

/// Statistics of an analysis in a writer.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Identity.
    pub id: AnalysisId,
    /// Name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of failures, including calls skipped because the analysis is refused or was given up.
    pub failures: u64,
    /// Total time of the calls.
    pub time: Duration,
    /// Reason of the last failure.
    pub reason: Option<String>,
}

/// Analyses of one writer.
#[derive(Debug)]
pub struct Analyses(Vec<RunningAnalysis>);

/// Attaches analyses to a writer, as selected by [`Analyses::collect`]. `None` without analyses.
///
/// # Errors
/// As [`Analyses::collect`]; `Invalid` if the writer already has an observer.
pub fn attach(writer: &LogWriter, given: &[Vec<u8>], include_store: bool) -> Result<Option<Arc<Analyses>>> {
    let analyses = Arc::new(Analyses::collect(writer, given, include_store)?);
    if analyses.is_empty() {
        return Ok(None);
    }
    let observer: Arc<Analyses> = Arc::clone(&analyses);
    writer.observe(observer).map_err(|error| crate::to_udf_error(&error))?;
    Ok(Some(analyses))
}

#[derive(Debug)]
struct RunningAnalysis {
    analysis: Analysis,
    rules: BTreeMap<String, Rule>,
    /// Datasets for which the store already announces the analysis.
    announced: Vec<Vec<u8>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Profile, once it was determined.
    profile: Option<Result<Profile>>,
    workers: HashMap<ElementType, Worker>,
    pending: HashMap<u32, PendingResults>,
    calls: u64,
    failures: u64,
    /// Number of consecutive failures.
    consecutive_failures: u32,
    time: Duration,
    reason: Option<String>,
    /// True if the function cannot merge results.
    cannot_merge: bool,
    /// True if an entry was written to the audit log.
    audited: bool,
}

impl Analyses {
    /// Collects the analyses that a writer runs: `given` and, if requested, the ones of the epoch to which it
    /// adds. Invalid records of the store are skipped, since their datasets are unknown.
    ///
    /// # Errors
    /// `Invalid` if a given record is invalid; `Io`.
    pub fn collect(writer: &LogWriter, given: &[Vec<u8>], include_store: bool) -> Result<Self> {
        let mut all: Vec<RunningAnalysis> = Vec::new();
        let known = match writer.base() {
            Some(base) => hyperchunk_store::observe::results::analyses(writer.site(), base)
                .map_err(|error| crate::to_udf_error(&error))?,
            None => Vec::new(),
        };
        for known in &known {
            let given = given.iter().any(|bytes| Analysis::compute_id(bytes) == known.analysis);
            match Analysis::parse(&known.record) {
                Ok(analysis) if (known.runs && include_store) || given => {
                    all.push(RunningAnalysis::new(analysis, known.datasets.clone()))
                }
                Ok(_) => {}
                Err(error) => {
                    let path = writer.path().display().to_string();
                    let digest = RecordDigest(known.analysis.0);
                    audit::note(&audit::Event::invalid(&path, "analysis", digest, &error));
                }
            }
        }
        for bytes in given {
            let analysis = Analysis::parse(bytes)?;
            if !all.iter().any(|known| known.analysis.id == analysis.id) {
                all.push(RunningAnalysis::new(analysis, Vec::new()));
            }
        }
        Ok(Self(all))
    }

    /// Returns whether there are no analyses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the statistics of each analysis.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let report = |running: &RunningAnalysis| {
            let state = running.state();
            Report {
                id: running.analysis.id,
                name: running.analysis.declaration.name.clone(),
                calls: state.calls,
                failures: state.failures,
                time: state.time,
                reason: state.reason.clone(),
            }
        };
        self.0.iter().map(report).collect()
    }
}

impl Observer for Analyses {
    fn wrote(&self, writer: &LogWriter, seen: &WriteEvent<'_>) -> hyperchunk::Result<()> {
        let definition = writer.dataset(seen.dataset)?.definition;
        let mut first = Ok(());
        for running in self.0.iter().filter(|known| known.analysis.declaration.sees(&definition.path)) {
            let done = running.wrote(writer, &definition, seen);
            first = first.and(done);
        }
        first
    }

    fn flush(&self, writer: &LogWriter, closing: bool) -> hyperchunk::Result<()> {
        for running in &self.0 {
            let mut state = running.state();
            let mut datasets: Vec<u32> = state.pending.keys().copied().collect();
            datasets.sort_unstable();
            for dataset in datasets {
                running.put(&mut state, writer, dataset, true)?;
            }
            if closing {
                state.workers.clear();
            }
        }
        Ok(())
    }
}

impl RunningAnalysis {
    fn new(analysis: Analysis, announced: Vec<Vec<u8>>) -> Self {
        Self { rules: analysis.rules(), analysis, announced, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrote(
        &self,
        writer: &LogWriter,
        definition: &Definition,
        seen: &WriteEvent<'_>,
    ) -> hyperchunk::Result<()> {
        let failure = self.analysis.declaration.failure;
        let mut state = self.state();
        if let Entry::Vacant(pending) = state.pending.entry(seen.dataset) {
            // The announced record identifies the results, and allows running the function again.
            if !self.announced.contains(&definition.path) {
                writer.announce(seen.dataset, self.analysis.id, &self.analysis.bytes)?;
            }
            pending.insert(PendingResults::default());
        }
        let mut raised = Ok(());
        let size = definition.element_size();
        let mut from = 0_usize;
        for slab in seen.boxes {
            for part in split::split(slab, size) {
                let length = usize::try_from(part.elements()?.saturating_mul(size)).unwrap_or(usize::MAX);
                let bytes = seen.bytes.and_then(|bytes| bytes.get(from..from.checked_add(length)?));
                from = from.saturating_add(length);
                let found = match self.call_function(&mut state, definition, &part, bytes) {
                    Ok(Some(pairs)) => Ok(pairs),
                    Ok(None) => continue,
                    Err(error) => {
                        state.failures += 1;
                        let reason = escape(&error.to_string(), 500);
                        state.reason = Some(reason.clone());
                        self.note(&mut state, writer, definition, Some(&error));
                        match failure {
                            Failure::Skip => continue,
                            Failure::Mark => {}
                            Failure::Raise => {
                                raised = raised.and(Err(to_engine_error(&self.analysis.explain(&error))))
                            }
                        }
                        Err(reason)
                    }
                };
                self.note(&mut state, writer, definition, None);
                if let Some(pending) = state.pending.get_mut(&seen.dataset) {
                    pending.push(part, seen.appended, found);
                    if pending.is_full() {
                        self.put(&mut state, writer, seen.dataset, false)?;
                    }
                }
            }
        }
        raised
    }

    /// Calls the function for a box; returns its results.
    fn call_function(
        &self,
        state: &mut State,
        definition: &Definition,
        slab: &hyperchunk_store::Hyperslab,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Pairs>> {
        let Some(bytes) = bytes else {
            let message = "a chunk was written in stored form, but functions need elements";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let profile = state.profile.get_or_insert_with(|| self.analysis.profile()).clone()?;
        if state.consecutive_failures >= MAX_CONSECUTIVE_FAILURES {
            let message = format!("given up: it failed {MAX_CONSECUTIVE_FAILURES} times in a row");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        state.calls += 1;
        let start = Instant::now();
        let elements = slab.elements().map_err(|error| crate::to_udf_error(&error))?;
        let found = self.with_worker(state, &profile, (definition, elements), |worker| {
            worker.on_write(definition, slab, bytes)
        });
        state.time += start.elapsed();
        state.consecutive_failures = if found.is_ok() { 0 } else { state.consecutive_failures + 1 };
        found
    }

    /// Calls the function in an existing worker or a new one. A worker that failed is ended.
    fn with_worker(
        &self,
        state: &mut State,
        profile: &Profile,
        (definition, elements): (&Definition, u64),
        call: impl Fn(&mut Worker) -> Result<Option<Pairs>>,
    ) -> Result<Option<Pairs>> {
        let element = call::element(definition)?;
        let known = state.workers.remove(&element).filter(|worker| worker.has_room(element, elements));
        if let Some(mut worker) = known {
            match call(&mut worker) {
                Err(_) if worker.ended_idle() || worker.lacked_modules() => {}
                found => {
                    if found.is_ok() {
                        state.workers.insert(element, worker);
                    }
                    return found;
                }
            }
        }
        let mut worker = Worker::start(&self.analysis, profile, definition, elements)?;
        let mut found = call(&mut worker);
        if found.is_err() && worker.lacked_modules() {
            worker = Worker::start(&self.analysis, profile, definition, elements)?;
            found = call(&mut worker);
        }
        let found = found?;
        state.workers.insert(element, worker);
        Ok(found)
    }

    /// Writes the results as a page, and merges them where possible.
    fn put(&self, state: &mut State, writer: &LogWriter, dataset: u32, ends: bool) -> hyperchunk::Result<()> {
        let Some(mut pending) = state.pending.remove(&dataset) else { return Ok(()) };
        let definition = writer.dataset(dataset)?.definition;
        for pairs in pending.unmerged() {
            let merged = match pending.merged.take() {
                None => Some(pairs),
                Some(before) => self.merge(state, &definition, &before, &pairs),
            };
            match merged {
                Some(merged) => pending.merged = Some(merged),
                None => {
                    pending.stop_merging();
                    break;
                }
            }
        }
        let done = pending.put(&self.analysis, writer, dataset, ends);
        state.pending.insert(dataset, pending);
        done
    }

    fn merge(&self, state: &mut State, definition: &Definition, one: &Pairs, other: &Pairs) -> Option<Pairs> {
        if !self.rules.is_empty() {
            return one.merge(other, &self.rules).ok();
        }
        if state.cannot_merge || state.consecutive_failures >= MAX_CONSECUTIVE_FAILURES {
            return None;
        }
        let profile = state.profile.clone()?.ok()?;
        let merged = self.with_worker(state, &profile, (definition, 0), |worker| worker.merge(one, other));
        if let Err(error) = &merged {
            state.reason = Some(escape(&error.to_string(), 500));
        }
        let merged = merged.ok().flatten();
        // A missing or failing merge function is not called again.
        state.cannot_merge = merged.is_none();
        merged
    }

    fn note(&self, state: &mut State, writer: &LogWriter, definition: &Definition, error: Option<&Error>) {
        if state.audited && error.is_none() {
            return;
        }
        state.audited = true;
        let profile = state.profile.as_ref().and_then(|profile| profile.as_ref().ok());
        audit::note(&audit::Event {
            file: &writer.path().display().to_string(),
            dataset: &String::from_utf8_lossy(&definition.path),
            record: RecordDigest(self.analysis.id.0),
            signer: self.analysis.signer,
            profile: profile.map(|profile| profile.name.as_str()),
            language: self.analysis.record.backend.short_name(),
            error,
        });
    }
}

/// Merges results by the function of an analysis that the caller trusts, which runs the function.
///
/// # Errors
/// `Refused` if it may not run here; errors of the function; `Invalid` if it cannot merge.
pub fn merge(analysis: &Analysis, definition: &Definition, all: &[Pairs]) -> Result<Option<Pairs>> {
    let Some((first, rest)) = all.split_first() else { return Ok(None) };
    let profile = analysis.profile()?;
    let mut worker =
        Worker::start(analysis, &profile, definition, 0).map_err(|error| analysis.explain(&error))?;
    let mut merged = first.clone();
    for other in rest {
        let one = worker.merge(&merged, other).map_err(|error| analysis.explain(&error))?;
        merged = one.ok_or_else(|| {
            let message = "the source defines no function merge, or merge returned nothing";
            analysis.explain(&Error::new(ErrorKind::Invalid, message))
        })?;
    }
    Ok(Some(merged))
}
