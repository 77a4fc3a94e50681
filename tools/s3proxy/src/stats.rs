//! Counts of the requests.

use std::fmt::Write as _;
use std::time::Instant;

/// A finished request.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) range: String,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) fault: &'static str,
    /// Time of arrival, and time of the last byte sent, in microseconds.
    pub(crate) start: u128,
    pub(crate) end: u128,
}

/// Every request since the last reset.
#[derive(Debug)]
pub(crate) struct Stats {
    epoch: Instant,
    entries: Vec<Entry>,
    in_flight: usize,
    max_in_flight: usize,
    connections: usize,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), entries: Vec::new(), in_flight: 0, max_in_flight: 0, connections: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.entries.clear();
        self.max_in_flight = self.in_flight;
        self.connections = 0;
    }

    pub(crate) fn now(&self) -> u128 {
        self.epoch.elapsed().as_micros()
    }

    pub(crate) fn connected(&mut self) {
        self.connections += 1;
    }

    pub(crate) fn started(&mut self) -> u128 {
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        self.now()
    }

    pub(crate) fn ended(&mut self, mut entry: Entry) {
        self.in_flight -= 1;
        entry.end = self.now();
        self.entries.push(entry);
    }

    /// Returns the counts as JSON.
    pub(crate) fn json(&self) -> String {
        let count = |method: &str| self.entries.iter().filter(|entry| entry.method == method).count();
        let (gets, heads) = (count("GET"), count("HEAD"));
        let bytes: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        let faulty = self.entries.iter().filter(|entry| !entry.fault.is_empty()).count();
        let Self { max_in_flight, connections, .. } = self;
        let (requests, chain) = (self.entries.len(), self.chain());
        format!(
            r#"{{"requests":{requests},"gets":{gets},"heads":{heads},"bytes":{bytes},"max_in_flight":{max_in_flight},"connections":{connections},"chain":{chain},"faulty":{faulty}}}"#
        )
    }

    /// Returns every request as JSON.
    pub(crate) fn log(&self) -> String {
        let mut text = String::from("[");
        for (number, entry) in self.entries.iter().enumerate() {
            let Entry { method, target, range, status, bytes, fault, start, end } = entry;
            let comma = if number > 0 { "," } else { "" };
            let target = target.replace(['"', '\\'], "_");
            let _ = write!(
                text,
                r#"{comma}{{"method":"{method}","target":"{target}","range":"{range}","status":{status},"bytes":{bytes},"fault":"{fault}","start_us":{start},"end_us":{end}}}"#
            );
        }
        text + "]"
    }

    /// Returns the sequential round trips: the longest chain of requests, each started after the
    /// end of the previous one.
    fn chain(&self) -> usize {
        let mut spans: Vec<_> = self.entries.iter().map(|entry| (entry.end, entry.start)).collect();
        spans.sort_unstable();
        let mut last = None;
        let mut length = 0;
        for (end, start) in spans {
            if last.is_none_or(|last| start >= last) {
                last = Some(end);
                length += 1;
            }
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: u128, end: u128) -> Entry {
        let (method, target, range) = ("GET".to_owned(), "/a\"b".to_owned(), "bytes=0-9".to_owned());
        Entry { method, target, range, status: 206, bytes: 10, fault: "", start, end }
    }

    fn chain(spans: &[(u128, u128)]) -> usize {
        let mut stats = Stats::new();
        stats.entries = spans.iter().map(|(start, end)| entry(*start, *end)).collect();
        stats.chain()
    }

    #[test]
    fn round_trips_in_sequence() {
        assert_eq!(chain(&[]), 0);
        assert_eq!(chain(&[(0, 5)]), 1);
        assert_eq!(chain(&[(0, 5), (0, 6), (1, 7)]), 1); // together
        assert_eq!(chain(&[(0, 5), (5, 9), (9, 12)]), 3); // one after another
        assert_eq!(chain(&[(0, 30), (0, 5), (6, 9), (10, 12), (6, 31)]), 3); // a long one in parallel to three
    }

    #[test]
    fn counts_and_log() {
        let mut stats = Stats::new();
        stats.connected();
        let (first, second) = (stats.started(), stats.started());
        // A request that ends in the microsecond in which another started may have ended before it.
        while stats.now() == second {}
        stats.ended(entry(first, 0));
        stats.ended(entry(second, 0));
        let json = stats.json();
        assert!(
            json.contains(
                r#""requests":2,"gets":2,"heads":0,"bytes":20,"max_in_flight":2,"connections":1,"chain":1"#
            ),
            "{json}"
        );
        assert!(
            stats.log().starts_with(r#"[{"method":"GET","target":"/a_b","range":"bytes=0-9","status":206,"#)
        );
        stats.reset();
        assert_eq!(stats.log(), "[]");
    }
}
