//! What requests cost: the medians of the last ones.

use crate::io::RequestCost;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How many requests are remembered.
const LAST: usize = 15;
/// Bodies from this size on tell how fast the network is.
const LARGE: usize = 256 << 10;

/// The last requests. Without locks: one that is held while the process forks stays so in the child.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Microseconds to the first byte.
    latency: Last,
    /// KiB per second after that.
    bandwidth: Last,
}

#[derive(Debug, Default)]
struct Last {
    count: AtomicUsize,
    values: [AtomicU32; LAST],
}

impl Last {
    fn add(&self, value: u128) {
        let place = self.count.fetch_add(1, Ordering::Relaxed) % LAST;
        // One is added: zero is a place without a value.
        let value = u32::try_from(value).unwrap_or(u32::MAX).saturating_add(1);
        self.values[place].store(value, Ordering::Relaxed);
    }

    fn median(&self) -> Option<f64> {
        let mut values: Vec<u32> = self.values.iter().map(|value| value.load(Ordering::Relaxed)).collect();
        values.retain(|value| *value != 0);
        values.sort_unstable();
        values.get(values.len() / 2).map(|value| f64::from(*value - 1))
    }
}

impl Meter {
    /// Adds a request: the time to its first byte, then the time that its body took.
    pub(super) fn add(&self, latency: Duration, body: Duration, bytes: usize) {
        self.latency.add(latency.as_micros());
        if bytes >= LARGE {
            self.bandwidth.add(bytes as u128 * 1_000_000 / 1024 / body.as_micros().max(1));
        }
    }

    pub(super) fn cost(&self) -> RequestCost {
        let assumed = RequestCost::default();
        let latency = self.latency.median().map(|micros| Duration::from_secs_f64(micros / 1e6));
        let bandwidth = self.bandwidth.median().map(|kib| (kib * 1024.0).max(1024.0));
        RequestCost {
            latency: latency.unwrap_or(assumed.latency),
            bandwidth: bandwidth.unwrap_or(assumed.bandwidth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let meter = Meter::default();
        assert_eq!(meter.cost(), RequestCost::default());
        for millis in [10, 500, 12, 11, 13] {
            meter.add(Duration::from_millis(millis), Duration::from_millis(10), 1 << 20);
        }
        meter.add(Duration::from_millis(12), Duration::from_millis(10), 100);
        let cost = meter.cost();
        assert_eq!(cost.latency, Duration::from_millis(12));
        assert!((cost.bandwidth - 104_857_600.0).abs() < 2048.0, "{cost:?}");
    }
}
