//! Identifiers of writers, stores and sessions, made without a registry.

pub(crate) use hyperchunk::storage::{DatasetId, hash};

use hyperchunk::storage::{parse_id, random_id, write_id};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_id(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl $name {
            /// Parses 32 hexadecimal digits in lower case.
            #[must_use]
            pub fn from_hex(text: &str) -> Option<Self> {
                parse_id(text).map(Self)
            }
        }
    };
}

id! {
    /// Identifier of a writer (a process that writes to a store) and of its log. Needs no rank,
    /// counter or lock.
    WriterId
}
id! {
    /// Identifier of a store, to recognize a log that belongs to another one.
    StoreId
}
id! {
    /// Identifier of a group of cooperating processes: the hash of a job's name. Zeros if unknown.
    Session
}

impl WriterId {
    /// Makes a random id.
    #[must_use]
    pub fn new() -> Self {
        Self(random_id())
    }

    /// Makes a random id for a session. If the session is known, the id begins with its first
    /// bytes, so that names alone tell the logs of one session from all others.
    #[must_use]
    pub fn with_session(session: Session) -> Self {
        let mut id = Self::new();
        if let (Some(first), Some(name)) = (id.0.first_chunk_mut::<4>(), session.0.first_chunk())
            && !session.is_unknown()
        {
            *first = *name;
        }
        id
    }

    /// Returns whether the writer may belong to a session, judged by its id.
    #[must_use]
    pub fn may_belong_to(&self, session: Session) -> bool {
        session.is_unknown() || self.0.first_chunk::<4>() == session.0.first_chunk()
    }
}

impl StoreId {
    /// Makes a random id.
    #[must_use]
    pub fn new() -> Self {
        Self(random_id())
    }
}

impl Session {
    /// Returns the session of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(hash(name.as_bytes()))
    }

    /// Returns the session of compacted logs, which hold other writers' data. Only the compaction
    /// commits them.
    pub(crate) fn compaction() -> Self {
        Self::named("hyperchunk compaction")
    }

    /// Returns the session given by this process's launcher: `HYPERCHUNK_SESSION`, else the job and
    /// step of an MPI or SLURM launcher.
    #[must_use]
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(name) = variable("HYPERCHUNK_SESSION") {
            return Self::named(&name);
        }
        // Only `srun` makes steps: a program that a batch script starts itself runs alone.
        if let (Some(job), Some(step)) = (variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID")) {
            // A job that is queued again keeps its number.
            let restart = variable("SLURM_RESTART_COUNT").unwrap_or_default();
            return Self::named(&format!("slurm {job} {step} {restart}"));
        }
        for name in ["PMIX_NAMESPACE", "PMI_JOBID", "OMPI_MCA_ess_base_jobid"] {
            if let Some(job) = variable(name) {
                return Self::named(&format!("{name} {job}"));
            }
        }
        if variable("PMI_RANK").is_some() {
            // The launcher's proxy is the parent of each rank.
            return Self::named(&format!("hydra {} {:?}", parent(), started(parent())));
        }
        Self::default()
    }

    /// Returns whether the session is unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the number of processes that the launcher of this one started, if there is a launcher.
#[must_use]
pub fn launched() -> Option<u32> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    number("PMI_SIZE")
        .or_else(|| number("OMPI_COMM_WORLD_SIZE"))
        .or_else(|| number("SLURM_STEP_NUM_TASKS"))
        .or_else(|| std::env::var_os("SLURM_STEP_ID").and_then(|_| number("SLURM_NTASKS")))
        .filter(|size| *size > 0)
}

#[cfg(unix)]
fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(not(unix))]
fn parent() -> u32 {
    0
}

/// Returns the start time of a process in clock ticks since boot, which distinguishes it from an
/// earlier process of the same id.
fn started(process: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may have spaces; the start is the 20th field after it.
    line.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_their_digits() {
        let id = WriterId::new();
        assert_eq!(WriterId::from_hex(&id.to_string()), Some(id));
        assert_ne!(id, WriterId::new());
        let session = Session::named("job");
        let one = WriterId::with_session(session);
        assert!(one.may_belong_to(session) && one.may_belong_to(Session::default()));
        assert_ne!(one, WriterId::with_session(session));
        assert!(!one.may_belong_to(Session::named("other")));
        for text in ["", "00", "zz000000000000000000000000000000", "AB000000000000000000000000000000"] {
            assert_eq!(WriterId::from_hex(text), None, "{text}");
        }
    }
}
