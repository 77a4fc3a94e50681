//! Cost of requests, estimated from the most recent ones.

use crate::io::RequestCost;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of recent measurements that are stored.
const MEASUREMENT_COUNT: usize = 15;
/// Minimum size in bytes of a body that counts as a measurement of the bandwidth.
const MIN_MEASURED_BYTES: usize = 256 << 10;

/// Recent measurements. Lock-free: a lock held during a fork stays locked in the child.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Microseconds to the first byte over existing connections.
    latency: Measurements,
    /// Microseconds to the first byte over new connections.
    cold: Measurements,
    /// KiB per second after the first byte.
    bandwidth: Measurements,
}

#[derive(Debug, Default)]
struct Measurements {
    count: AtomicUsize,
    values: [AtomicU32; MEASUREMENT_COUNT],
}

impl Measurements {
    fn add(&self, value: u128) {
        let place = self.count.fetch_add(1, Ordering::Relaxed) % MEASUREMENT_COUNT;
        // Zero marks an unused entry, so values are stored plus one.
        let value = u32::try_from(value).unwrap_or(u32::MAX).saturating_add(1);
        self.values[place].store(value, Ordering::Relaxed);
    }

    /// Returns the given percentile of the recent values.
    fn quantile(&self, hundredths: usize) -> Option<f64> {
        let mut values: Vec<u32> = self.values.iter().map(|value| value.load(Ordering::Relaxed)).collect();
        values.retain(|value| *value != 0);
        values.sort_unstable();
        values.get(values.len() * hundredths / 100).map(|value| f64::from(*value - 1))
    }
}

impl Meter {
    /// Adds a request: the time to its first byte, and the duration of its body.
    pub(super) fn add(&self, new_connection: bool, latency: Duration, body: Duration, bytes: usize) {
        let latencies = if new_connection { &self.cold } else { &self.latency };
        latencies.add(latency.as_micros());
        if bytes >= MIN_MEASURED_BYTES {
            self.bandwidth.add(bytes as u128 * 1_000_000 / 1024 / body.as_micros().max(1));
        }
    }

    /// Estimates the cost of the next request. The latency is a low percentile, since slower requests were
    /// probably waiting in a queue.
    pub(super) fn cost(&self) -> RequestCost {
        let assumed = RequestCost::default();
        // Connecting takes one round trip, and the request another.
        let micros = self.latency.quantile(25).or_else(|| self.cold.quantile(25).map(|micros| micros / 2.0));
        let latency = micros.map(|micros| Duration::from_secs_f64(micros / 1e6));
        let bandwidth = self.bandwidth.quantile(50).map(|kib| (kib * 1024.0).max(1024.0));
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
    fn what_the_last_requests_took() {
        let (meter, body) = (Meter::default(), Duration::from_millis(10));
        assert_eq!(meter.cost(), RequestCost::default());
        meter.add(true, Duration::from_millis(40), body, 100);
        assert_eq!(meter.cost().latency, Duration::from_millis(20));
        for millis in [10, 500, 12, 11, 13] {
            meter.add(false, Duration::from_millis(millis), body, 1 << 20);
        }
        meter.add(false, Duration::from_millis(12), body, 100);
        let cost = meter.cost();
        assert_eq!(cost.latency, Duration::from_millis(11));
        assert!((cost.bandwidth - 104_857_600.0).abs() < 2048.0, "{cost:?}");
    }
}
