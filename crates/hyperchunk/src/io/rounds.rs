//! Round trips shared by many jobs: each runs as far as the bytes at hand go, what all of them lack is fetched together,
//! and those that lacked something run again. So a level of a structure costs one round trip, however wide it is.

use super::blocks::RemoteBlocks;
use super::reach::Reach;
use crate::{Error, Result};
use hyperchunk_format::thread_state::with_state;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

/// Which file's block.
type Key = ([u8; 16], u64);

/// Blocks of several files, by the files.
#[derive(Default)]
struct Wanted(Vec<(Arc<RemoteBlocks>, BTreeSet<u64>)>);

/// The jobs that this thread runs together.
#[derive(Default)]
struct Round {
    /// What was fetched for those that wait, or used by them: the process may have to let go of it before they are done.
    held: HashMap<Key, Arc<[u8]>>,
    /// What the job that runs has used.
    used: HashMap<Key, Arc<[u8]>>,
    missing: Wanted,
    reach: Reach,
}

thread_local! {
    static ROUND: RefCell<Option<Round>> = const { RefCell::new(None) };
    /// What a parser said that it will need soon.
    static HINTS: RefCell<Wanted> = RefCell::default();
    /// What a parser said that the next one will probably look at.
    static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// Blocks of a file that the next parser will probably look at.
struct Look {
    file: Weak<RemoteBlocks>,
    numbers: BTreeSet<u64>,
    /// Whether the next parser is at work.
    is_now: bool,
}

/// How many jobs wait for one round trip: what they use is held in memory.
const WAITING: usize = 2048;
/// How many round trips one job may take.
const MOST: u32 = 10_000;

impl Wanted {
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

/// Does jobs of which each may need bytes that are not at hand. A job may run several times; it must have no effect but its
/// result. Results come in the order of the jobs.
///
/// # Errors
/// If something cannot be fetched. What goes wrong in a job is in its result.
pub(crate) fn together<J, T>(
    jobs: impl IntoIterator<Item = J>,
    mut work: impl FnMut(&J) -> Result<T>,
) -> Result<Vec<Result<T>>> {
    growing(jobs, Reach::Path, |job| work(job).map(|result| (result, Vec::new())))
}

/// As [`together`], where a job that is done may name more jobs: they join at once. What lies beside the structure that they
/// need is fetched with it, as far as they reach.
///
/// # Errors
/// As [`together`].
pub(crate) fn growing<J, T>(
    jobs: impl IntoIterator<Item = J>,
    reach: Reach,
    mut work: impl FnMut(&J) -> Result<(T, Vec<J>)>,
) -> Result<Vec<Result<T>>> {
    let nested = run();
    let mut left: VecDeque<(usize, J)> = jobs.into_iter().enumerate().collect();
    let mut results: Vec<Option<Result<T>>> = left.iter().map(|_| None).collect();
    let _end = (!nested).then(|| {
        begin(Round { reach, ..Round::default() });
        End
    });
    let mut rounds = 0;
    loop {
        let mut missing = Wanted::default();
        let mut waiting = Vec::new();
        let mut held = HashMap::new();
        while waiting.len() < WAITING || nested {
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
            // Inside of another: what is missing is asked for there, of all these jobs at once.
            with(|round| round.missing.join(missing));
            return Err(Error::need(Vec::new()));
        }
        rounds += 1;
        if rounds > MOST {
            break;
        }
        with(|round| round.held = held);
        for (file, numbers) in missing.0 {
            file.fetch_held(&numbers)?;
        }
        waiting.into_iter().rev().for_each(|job| left.push_front(job));
    }
    Err(Error::limit(format!("more than {MOST} round trips for one step")))
}

/// Does something that fetches what it needs by itself, within the jobs of this thread.
pub(crate) fn alone<T>(work: impl FnOnce() -> T) -> T {
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

/// A parser is done: forgets what it said to be needed soon.
pub(crate) fn forget_hints() {
    with_state(&HINTS, |hints| hints.0.clear());
    with_state(&LOOK, |look| {
        *look = look.take().filter(|look| !look.is_now).map(|look| Look { is_now: true, ..look });
    });
}

/// Begins a round of this thread. Jobs at the end of a process, whose thread-local values are gone, run one by one.
fn begin(round: Round) {
    drop(ROUND.try_with(|current| current.replace(Some(round))));
}

/// Ends the round of this thread, however that comes.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(ROUND.try_with(RefCell::take));
    }
}

fn with<T>(work: impl FnOnce(&mut Round) -> T) -> Option<T> {
    ROUND.try_with(|round| round.borrow_mut().as_mut().map(work)).ok().flatten()
}

/// How far the jobs of this thread reach.
pub(super) fn reach() -> Reach {
    with(|round| round.reach).unwrap_or_default()
}

/// Whether jobs run together here.
pub(super) fn run() -> bool {
    ROUND.try_with(|round| round.borrow().is_some()).unwrap_or(false)
}

/// Whether jobs run together here; then these blocks are asked for.
pub(super) fn ask(file: &Arc<RemoteBlocks>, numbers: &BTreeSet<u64>) -> bool {
    with(|round| round.missing.add(file, numbers)).is_some()
}

/// A block that was fetched for the jobs of this thread, or that `kept` has.
pub(super) fn held(key: Key, kept: impl FnOnce() -> Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
    let Some(found) = with(|round| round.held.get(&key).map(Arc::clone)) else { return kept() };
    let found = found.or_else(kept)?;
    with(|round| round.used.insert(key, Arc::clone(&found)));
    Some(found)
}

/// Keeps a block until the jobs of this thread are done.
pub(super) fn hold(key: Key, bytes: Arc<[u8]>) {
    with(|round| round.held.insert(key, bytes));
}

/// Remembers what will be needed soon.
pub(super) fn hint(file: &Arc<RemoteBlocks>, numbers: BTreeSet<u64>) {
    with_state(&HINTS, |hints| hints.add(file, &numbers));
}

/// Remembers what the next parser will probably look at.
pub(super) fn look(file: &Arc<RemoteBlocks>, numbers: BTreeSet<u64>) {
    let next = Look { file: Arc::downgrade(file), numbers, is_now: false };
    with_state(&LOOK, |look| *look = Some(next));
}

/// What was said to be needed soon of a file.
pub(super) fn hinted(file: &Arc<RemoteBlocks>) -> BTreeSet<u64> {
    let all = with_state(&HINTS, std::mem::take);
    let hinted = all.0.into_iter().find(|(known, _)| Arc::ptr_eq(known, file)).map(|(_, numbers)| numbers);
    let mut hinted = hinted.unwrap_or_default();
    hinted.extend(looked(file));
    hinted
}

/// What the parser before said that this one will probably look at, of a file.
pub(super) fn looked(file: &Arc<RemoteBlocks>) -> BTreeSet<u64> {
    let look =
        with_state(&LOOK, Option::take).filter(|look| std::ptr::eq(look.file.as_ptr(), Arc::as_ptr(file)));
    look.map(|look| look.numbers).unwrap_or_default()
}
