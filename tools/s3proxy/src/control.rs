//! State shared by all connections, and the control paths that show and change it.

use crate::fault::{Fault, Faults, duration};
use crate::http::query;
use crate::stats::Stats;
use std::io::BufReader;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Simulated network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// Delay before a request is passed on.
    pub(crate) latency: Duration,
    /// Bytes per second of each body; 0 for no limit.
    pub(crate) bandwidth: f64,
    /// Duration of a stall.
    pub(crate) stall: Duration,
    /// `Retry-After` of a 429 response, in seconds.
    pub(crate) retry_after: u32,
}

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct ProxyState {
    /// Address of the upstream server, if there is one.
    pub(crate) upstream: Option<String>,
    /// Folder of the objects as files.
    pub(crate) folder: Option<PathBuf>,
    network: Mutex<Network>,
    faults: Mutex<Faults>,
    stats: Mutex<Stats>,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProxyState {
    pub(crate) fn new(upstream: Option<String>, folder: Option<PathBuf>) -> Self {
        let stall = Duration::from_secs(30);
        let network = Network { latency: Duration::ZERO, bandwidth: 0.0, stall, retry_after: 0 };
        let (network, faults, stats) = (network.into(), Mutex::default(), Mutex::new(Stats::new()));
        Self { upstream, folder, network, faults, stats, idle: Mutex::default() }
    }

    pub(crate) fn network(&self) -> Network {
        *locked(&self.network)
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        locked(&self.stats)
    }

    /// Idle connections to the upstream server.
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<BufReader<TcpStream>>> {
        locked(&self.idle)
    }

    pub(crate) fn next_fault(&self, body: bool) -> Option<Fault> {
        locked(&self.faults).next(body)
    }

    /// Changes settings: all of them or, if one is invalid, none.
    pub(crate) fn set(&self, pairs: &[(String, String)]) -> Result<(), String> {
        let mut network = self.network();
        let mut faults = locked(&self.faults).clone();
        for (name, value) in pairs {
            let number = || value.parse::<u32>().map_err(|_| format!("{name}: not a number: {value}"));
            match name.as_str() {
                "latency" => network.latency = duration(value)?,
                "stall" => network.stall = duration(value)?,
                "retry-after" => network.retry_after = number()?,
                "bandwidth" => {
                    network.bandwidth = value.parse::<f64>().map_err(|e| format!("bandwidth: {e}"))? * 1e6
                }
                "faults" => faults.set_rates(value)?,
                "script" => faults.set_script(value)?,
                "seed" => faults.set_seed(number()?.into()),
                _ => return Err(format!("no setting {name}")),
            }
        }
        *locked(&self.network) = network;
        *locked(&self.faults) = faults;
        Ok(())
    }

    /// Returns the status and the body for a control path; `None` for every other path.
    pub(crate) fn control(&self, target: &str) -> Option<(u16, String)> {
        let path = target.split('?').next().unwrap_or_default();
        let text = match path {
            "/__stats" => self.stats().json(),
            "/__log" => self.stats().log(),
            "/__reset" => {
                self.stats().reset();
                "{}".to_owned()
            }
            "/__set" => match self.set(&query(target)) {
                Ok(()) => "{}".to_owned(),
                Err(message) => return Some((400, message)),
            },
            _ => return None,
        };
        Some((200, text))
    }
}
