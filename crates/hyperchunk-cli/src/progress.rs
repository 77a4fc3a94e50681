//! Progress of long reads, on standard error if that is a terminal.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time between updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Time before the first update: shorter reads show none.
const FIRST_UPDATE_DELAY: Duration = Duration::from_millis(400);
const BAR_COLUMNS: u64 = 24;

/// Progress bar with bytes, rate and remaining time.
pub(crate) struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { total, done: 0, started: Instant::now(), shown: None, terminal }
    }

    /// Adds bytes to the finished part.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes);
        let now = Instant::now();
        let due = self
            .shown
            .map_or(now - self.started >= FIRST_UPDATE_DELAY, |shown| now - shown >= UPDATE_INTERVAL);
        if self.terminal && due {
            self.shown = Some(now);
            let line = line(self.done, self.total, now - self.started);
            let width = terminal_size::terminal_size_of(std::io::stderr())
                .map_or(79, |(width, _)| usize::from(width.0).saturating_sub(1));
            let line: String = line.chars().take(width).collect();
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Progress line for work of unknown length.
pub(crate) struct Counter {
    started: Instant,
    shown: Cell<Option<Instant>>,
    terminal: bool,
}

impl Counter {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { started: Instant::now(), shown: Cell::new(None), terminal }
    }

    /// Shows a text, if an update is due.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        if !self.terminal {
            return;
        }
        let now = Instant::now();
        if self
            .shown
            .get()
            .map_or(now - self.started >= FIRST_UPDATE_DELAY, |shown| now - shown >= UPDATE_INTERVAL)
        {
            self.shown.set(Some(now));
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", text());
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if self.shown.get().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns a number with its noun, in the singular or plural.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns one line: bar, bytes, rate, remaining time.
fn line(done: u64, total: u64, elapsed: Duration) -> String {
    let part = |of: u64| u128::from(of) * u128::from(done.min(total)) / u128::from(total.max(1));
    let full = usize::try_from(part(BAR_COLUMNS)).unwrap_or(0);
    let rest = usize::try_from(BAR_COLUMNS).unwrap_or(0).saturating_sub(full);
    let millis = elapsed.as_millis().max(1);
    let rate = u64::try_from(u128::from(done) * 1000 / millis).unwrap_or(u64::MAX);
    let left = total.saturating_sub(done) / rate.max(1);
    format!(
        "[{}{}] {:3} %  {} of {}  {}/s  {} left",
        "#".repeat(full),
        " ".repeat(rest),
        part(100),
        bytes(done),
        bytes(total),
        bytes(rate),
        time(left)
    )
}

/// Returns a number of bytes with three digits and a unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Returns a time in seconds, minutes or hours.
fn time(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        let check = |count, text| assert_eq!(bytes(count), text);
        check(0, "0 B");
        check(999, "999 B");
        check(1000, "1.00 kB");
        check(12_345, "12.3 kB");
        check(999_499, "999 kB");
        check(999_500, "1.00 MB");
        check(u64::MAX, "18.4 EB");
        assert_eq!(time(0), "0 s");
        assert_eq!(time(100), "1:40 min");
        assert_eq!(time(7260), "2:01 h");
        let shown = line(25_000_000, 100_000_000, Duration::from_secs(5));
        assert_eq!(shown, "[######                  ]  25 %  25.0 MB of 100 MB  5.00 MB/s  15 s left");
        assert!(line(0, 0, Duration::ZERO).contains("0 %"));
    }
}
