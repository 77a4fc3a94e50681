//! Round trips shared by many jobs. Each job runs until it lacks bytes; then the bytes that all jobs lack are
//! fetched together, and these jobs run again from their start. A level of a tree thus costs one round trip,
//! regardless of its number of nodes.

use super::blocks::RemoteBlocks;
use super::reach::Reach;
use crate::{Error, Result};
use hyperchunk_format::thread_state::with_state;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

/// A file's digest and a block's number.
type Key = ([u8; 16], u64);

/// Missing blocks of several files, by file.
#[derive(Default)]
struct MissingBlocks(Vec<(Arc<RemoteBlocks>, BTreeSet<u64>)>);

/// The jobs that this thread runs together.
#[derive(Default)]
struct Round {
    /// Blocks that waiting jobs use or that were fetched for them. They are held here because the process's
    /// cache may evict them before the jobs are done.
    held: HashMap<Key, Arc<[u8]>>,
    /// Blocks that the running job has used.
    used: HashMap<Key, Arc<[u8]>>,
    missing: MissingBlocks,
    reach: Reach,
}

thread_local! {
    static ROUND: RefCell<Option<Round>> = const { RefCell::new(None) };
    /// Blocks that a parser announced as needed soon.
    static HINTS: RefCell<MissingBlocks> = RefCell::default();
    /// Blocks that the next parser will probably read.
    static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// Blocks of a file that the next parser will probably read.
struct Look {
    file: Weak<RemoteBlocks>,
    numbers: BTreeSet<u64>,
    /// True if that parser is running now.
    is_now: bool,
}

/// Maximum number of jobs that wait for one round trip. A bound is needed because the blocks they use are
/// held in memory.
const MAX_WAITING_JOBS: usize = 2048;
/// Maximum number of round trips in succession after which no job has finished.
const MAX_ROUNDS: u32 = 10_000;

impl MissingBlocks {
    fn add(&mut self, file: &Arc<RemoteBlocks>, numbers: &BTreeSet<u64>) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, file)) {
            Some((_, wanted)) => wanted.extend(numbers),
            None => self.0.push((Arc::clone(file), numbers.clone())),
        }
    }

    fn join(&mut self, other: Self) {
        for (file, numbers) in other.0 {
            self.add(&file, &numbers);
        }
    }
}

/// Runs jobs that may each need bytes that are not available yet. A job may run several times, so it must
/// have no effect besides its result. The results are in the order of the jobs.
///
/// # Errors
/// If something cannot be fetched. An error of a job is in its result.
pub(crate) fn together<J, T>(
    jobs: impl IntoIterator<Item = J>,
    mut work: impl FnMut(&J) -> Result<T>,
) -> Result<Vec<Result<T>>> {
    growing(jobs, Reach::Path, |job| work(job).map(|result| (result, Vec::new())))
}

/// Does the same as [`together`], but a finished job may add further jobs, which join the same round. `reach`
/// determines how many bytes around the needed structure are fetched with it.
///
/// # Errors
/// As [`together`].
pub(crate) fn growing<J, T>(
    jobs: impl IntoIterator<Item = J>,
    reach: Reach,
    mut work: impl FnMut(&J) -> Result<(T, Vec<J>)>,
) -> Result<Vec<Result<T>>> {
    let nested = is_active();
    let mut left: VecDeque<(usize, J)> = jobs.into_iter().enumerate().collect();
    let mut results: Vec<Option<Result<T>>> = left.iter().map(|_| None).collect();
    let _end = (!nested).then(|| {
        begin(Round { reach, ..Round::default() });
        End
    });
    let mut rounds = 0;
    loop {
        let mut missing = MissingBlocks::default();
        let mut waiting = Vec::new();
        let mut held = HashMap::new();
        while waiting.len() < MAX_WAITING_JOBS || nested {
            let Some((place, job)) = left.pop_front() else { break };
            let before = with(|round| std::mem::take(&mut round.missing)).unwrap_or_default();
            let used = with(|round| std::mem::take(&mut round.used)).unwrap_or_default();
            let found = work(&job);
            let (lacks, using) = with(|round| {
                let using = std::mem::replace(&mut round.used, used);
                if nested {
                    round.used.extend(using.iter().map(|(key, bytes)| (*key, Arc::clone(bytes))));
                }
                (std::mem::replace(&mut round.missing, before), using)
            })
            .unwrap_or_default();
            if !lacks.0.is_empty() {
                missing.join(lacks);
                held.extend(using);
                waiting.push((place, job));
                continue;
            }
            rounds = 0;
            let found = found.map(|(result, more)| {
                for job in more {
                    left.push_back((results.len(), job));
                    results.push(None);
                }
                result
            });
            if let Some(result) = results.get_mut(place) {
                *result = Some(found);
            }
        }
        if missing.0.is_empty() {
            return Ok(results.into_iter().flatten().collect());
        }
        if nested {
            // Within another round, the outer one fetches the blocks that these jobs lack.
            with(|round| round.missing.join(missing));
            return Err(Error::need(Vec::new()));
        }
        rounds += 1;
        if rounds > MAX_ROUNDS {
            break;
        }
        with(|round| round.held = held);
        for (file, numbers) in missing.0 {
            file.fetch_held(&numbers)?;
        }
        waiting.into_iter().rev().for_each(|job| left.push_front(job));
    }
    Err(Error::limit(format!("more than {MAX_ROUNDS} round trips for one operation")))
}

/// Runs `work` outside this thread's round, so that it fetches its own bytes at once.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Round>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let round = self.0.take();
            drop(ROUND.try_with(|current| current.replace(round)));
        }
    }
    let _restore = Restore(ROUND.try_with(RefCell::take).unwrap_or_default());
    work()
}

/// Discards the blocks that a parser announced, when the parser is done.
pub(crate) fn forget_hints() {
    with_state(&HINTS, |hints| hints.0.clear());
    with_state(&LOOK, |look| {
        *look = look.take().filter(|look| !look.is_now).map(|look| Look { is_now: true, ..look });
    });
}

/// Begins this thread's round. At the end of a process, when thread-local values no longer exist, there is no
/// round, and jobs fetch their bytes one by one.
fn begin(round: Round) {
    drop(ROUND.try_with(|current| current.replace(Some(round))));
}

/// Ends this thread's round when dropped.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(ROUND.try_with(RefCell::take));
    }
}

fn with<T>(work: impl FnOnce(&mut Round) -> T) -> Option<T> {
    ROUND.try_with(|round| round.borrow_mut().as_mut().map(work)).ok().flatten()
}

/// Returns the reach of this thread's round.
pub(super) fn reach() -> Reach {
    with(|round| round.reach).unwrap_or_default()
}

/// Returns whether this thread is in a round.
pub(super) fn is_active() -> bool {
    ROUND.try_with(|round| round.borrow().is_some()).unwrap_or(false)
}

/// Adds blocks to the ones that this thread's round lacks; false if there is no round.
pub(super) fn ask(file: &Arc<RemoteBlocks>, numbers: &BTreeSet<u64>) -> bool {
    with(|round| round.missing.add(file, numbers)).is_some()
}

/// Returns a block that the round holds, or the one that `kept` returns, and marks it as used.
pub(super) fn held(key: Key, kept: impl FnOnce() -> Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
    let Some(found) = with(|round| round.held.get(&key).map(Arc::clone)) else { return kept() };
    let found = found.or_else(kept)?;
    with(|round| round.used.insert(key, Arc::clone(&found)));
    Some(found)
}

/// Holds a block until this thread's jobs are done.
pub(super) fn hold(key: Key, bytes: Arc<[u8]>) {
    with(|round| round.held.insert(key, bytes));
}

/// Remembers blocks that a parser will need soon.
pub(super) fn hint(file: &Arc<RemoteBlocks>, numbers: BTreeSet<u64>) {
    with_state(&HINTS, |hints| hints.add(file, &numbers));
}

/// Remembers blocks that the next parser will probably read.
pub(super) fn look(file: &Arc<RemoteBlocks>, numbers: BTreeSet<u64>) {
    let next = Look { file: Arc::downgrade(file), numbers, is_now: false };
    with_state(&LOOK, |look| *look = Some(next));
}

/// Takes the blocks of a file that were announced as needed soon.
pub(super) fn hinted(file: &Arc<RemoteBlocks>) -> BTreeSet<u64> {
    let all = with_state(&HINTS, std::mem::take);
    let hinted = all.0.into_iter().find(|(known, _)| Arc::ptr_eq(known, file)).map(|(_, numbers)| numbers);
    let mut hinted = hinted.unwrap_or_default();
    hinted.extend(looked(file));
    hinted
}

/// Takes the blocks of a file that the previous parser announced as probably needed by this one.
pub(super) fn looked(file: &Arc<RemoteBlocks>) -> BTreeSet<u64> {
    let look =
        with_state(&LOOK, Option::take).filter(|look| std::ptr::eq(look.file.as_ptr(), Arc::as_ptr(file)));
    look.map(|look| look.numbers).unwrap_or_default()
}
