//! Faults, and their occurrence: by a rate for each kind, or by a script for the next requests.

use std::collections::VecDeque;
use std::time::Duration;

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 500.
    Internal,
    /// 503 `SlowDown`.
    SlowDown,
    /// 429 with `Retry-After`.
    TooMany,
    /// 400 `ExpiredToken`, S3's error for expired credentials.
    Expired,
    /// 403 `AccessDenied`.
    Denied,
    /// The connection is reset before a response.
    ResetHead,
    /// The connection is reset in the middle of the body.
    ResetBody,
    /// The connection is closed regularly in the middle of the body.
    CloseBody,
    /// Nothing is sent for the duration of a stall; then the connection is closed.
    StallHead,
    /// The same, in the middle of the body.
    StallBody,
    /// The body arrives a few bytes at a time.
    Trickle,
    /// A body shorter than requested, with a matching `Content-Length`.
    Short,
    /// Other bytes of the object, with their `Content-Range`.
    Shifted,
    /// 206 without a `Content-Range`, and other bytes.
    NoRange,
    /// `Range` is ignored: 200 and the whole object.
    Whole,
    /// As if the object had been replaced: another ETag and other bytes, or 412 if the request has
    /// `If-Match`.
    Changed,
    /// As if the object had been deleted: 404.
    Gone,
    /// The response is not HTTP.
    Garbage,
}

/// Every kind, by its name in a query.
pub(crate) const KINDS: [(&str, Fault); 18] = [
    ("500", Fault::Internal),
    ("503", Fault::SlowDown),
    ("429", Fault::TooMany),
    ("expired", Fault::Expired),
    ("denied", Fault::Denied),
    ("reset-head", Fault::ResetHead),
    ("reset-body", Fault::ResetBody),
    ("close-body", Fault::CloseBody),
    ("stall-head", Fault::StallHead),
    ("stall-body", Fault::StallBody),
    ("trickle", Fault::Trickle),
    ("short", Fault::Short),
    ("shifted", Fault::Shifted),
    ("no-range", Fault::NoRange),
    ("whole", Fault::Whole),
    ("changed", Fault::Changed),
    ("gone", Fault::Gone),
    ("garbage", Fault::Garbage),
];

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn parse(name: &str) -> Result<Self, String> {
        let known = || KINDS.map(|(name, _)| name).join(", ");
        KINDS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, kind)| *kind)
            .ok_or_else(|| format!("no fault {name}: {}", known()))
    }

    /// True for a fault that changes a body, so that it needs a response with one.
    pub(crate) fn needs_body(self) -> bool {
        use Fault::{CloseBody, NoRange, ResetBody, Shifted, Short, StallBody, Trickle, Whole};
        matches!(self, ResetBody | CloseBody | StallBody | Trickle | Short | Shifted | NoRange | Whole)
    }
}

/// Selection of the failing requests and their faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    rates: Vec<(Fault, f64)>,
    script: VecDeque<Option<Fault>>,
    state: u64,
}

impl Faults {
    /// Parses `503:0.1,reset-head:0.05`: kinds with their rates; empty for none.
    pub(crate) fn set_rates(&mut self, text: &str) -> Result<(), String> {
        let mut rates = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, rate) = part.split_once(':').unwrap_or((part, "1"));
            let rate = rate.parse().map_err(|_| format!("not a rate: {rate}"))?;
            rates.push((Fault::parse(name)?, rate));
        }
        if rates.iter().map(|(_, rate)| rate).sum::<f64>() > 1.0 + 1e-9 {
            return Err("rates of more than 1 together".to_owned());
        }
        self.rates = rates;
        Ok(())
    }

    /// Parses `ok,503,ok,whole`: faults of the next requests, which take precedence over rates.
    pub(crate) fn set_script(&mut self, text: &str) -> Result<(), String> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let parse = |name| if name == "ok" { Ok(None) } else { Fault::parse(name).map(Some) };
        self.script = parts.map(parse).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Sets the seed of the pseudo-random numbers.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.state = seed;
    }

    /// Returns the fault of the next request; `body` tells whether its response has a body.
    pub(crate) fn next(&mut self, body: bool) -> Option<Fault> {
        let fault = match self.script.pop_front() {
            Some(scripted) => scripted,
            None => self.drawn(),
        };
        fault.filter(|fault| body || !fault.needs_body())
    }

    fn drawn(&mut self) -> Option<Fault> {
        if self.rates.is_empty() {
            return None;
        }
        let mut number = self.random();
        for (fault, rate) in &self.rates {
            if number < *rate {
                return Some(*fault);
            }
            number -= rate;
        }
        None
    }

    /// Returns a number from 0 to 1, by splitmix64.
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Parses `25ms`, `1.5s` or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1e-3),
        (None, Some(digits)) => (digits, 1.0),
        (None, None) => (text, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| format!("not a duration: {text}"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("not a duration: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_before_rates() {
        let mut faults = Faults::default();
        faults.set_rates("503").unwrap();
        faults.set_script("ok,429,short").unwrap();
        assert_eq!(faults.next(true), None);
        assert_eq!(faults.next(true), Some(Fault::TooMany));
        assert_eq!(faults.next(false), None); // nothing to shorten
        assert_eq!(faults.next(true), Some(Fault::SlowDown));
        faults.set_rates("").unwrap();
        assert_eq!(faults.next(true), None);
    }

    #[test]
    fn rates_are_kept_and_repeatable() {
        let draw = |seed| {
            let mut faults = Faults::default();
            faults.set_rates("503:0.25,changed:0.25").unwrap();
            faults.set_seed(seed);
            (0..10_000).map(|_| faults.next(true)).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        for wanted in [Fault::SlowDown, Fault::Changed] {
            let count = drawn.iter().filter(|fault| **fault == Some(wanted)).count();
            assert!((2300..2700).contains(&count), "{count}");
        }
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
    }

    #[test]
    fn mistakes_are_named() {
        let mut faults = Faults::default();
        assert!(faults.set_rates("504:0.1").unwrap_err().contains("no fault 504: 500, 503"));
        assert!(faults.set_rates("503:0.6,429:0.6").unwrap_err().contains("more than 1"));
        assert!(faults.set_script("ok,nothing").is_err());
        assert_eq!(duration("25ms"), Ok(Duration::from_millis(25)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err() && duration("x").is_err());
    }
}
