//! Static distribution of the tasks over a number of processes that do not communicate.

use super::{CommitReport, Job, WorkReport};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Interval between checks of the other processes' progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the first task of process `part` of `of`.
#[must_use]
pub fn cut(tasks: u64, part: u64, of: u64) -> u64 {
    let task = u128::from(tasks) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(task).unwrap_or(u64::MAX)
}

impl Job {
    /// Executes the tasks of process `part` of `of`, counted from 0, in all passes. Before the
    /// second pass it waits for the other processes, as long as they make progress within
    /// `patience`. `each` as for [`Job::work`].
    ///
    /// # Errors
    /// Invalid if there is no such part, or the others make no progress: completed tasks stay
    /// completed; as [`Job::work`].
    pub fn share(
        &self,
        part: u64,
        of: u64,
        threads: usize,
        patience: Duration,
        each: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<WorkReport> {
        if part >= of {
            return Err(Error::invalid(format!("there is no process {part} of {of}, counted from 0")));
        }
        let mut all = WorkReport::default();
        for (pass, about) in self.plan.passes.iter().enumerate() {
            if pass > 0 {
                self.wait(pass - 1, patience)?;
            }
            let tasks = about.tiles.len();
            let worked = self.work(pass, cut(tasks, part, of)..cut(tasks, part + 1, of), threads, each)?;
            all = WorkReport { done: all.done + worked.done, skipped: all.skipped + worked.skipped };
        }
        Ok(all)
    }

    /// Waits until all tasks of a pass are done.
    fn wait(&self, pass: usize, patience: Duration) -> Result<()> {
        let mut least = u64::MAX;
        let mut since = Instant::now();
        loop {
            let missing = match self.files()? {
                Some(files) => self.missing(&files, pass)?,
                None => 0,
            };
            if missing == 0 {
                return Ok(());
            }
            if missing < least {
                (least, since) = (missing, Instant::now());
            }
            if since.elapsed() >= patience {
                let message = format!(
                    "{missing} tasks of the first pass are not done, and no process completes any: run this again when they are done"
                );
                return Err(Error::new(ErrorKind::Invalid, message).file(self.folder.display()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// As [`Job::commit`], if all tasks are done; `None` if some are not.
    ///
    /// # Errors
    /// As [`Job::commit`].
    pub fn commit_if_done(&self, sync: Sync) -> Result<Option<CommitReport>> {
        if let Some(files) = if self.is_committed() { None } else { self.files()? } {
            for pass in 0..self.plan.passes.len() {
                if self.missing(&files, pass)? > 0 {
                    return Ok(None);
                }
            }
        }
        self.commit(sync).map(Some)
    }
}
