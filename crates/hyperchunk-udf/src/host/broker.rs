//! Host side of connections: checks a function's request against the grants and starts a connector process.

use super::process;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::network::MAX_CONNECTIONS;
use crate::protocol::{MAX_MESSAGE_BYTES, MAX_TEXT_BYTES};
use crate::socket;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Broker of the connections that one profile grants.
#[derive(Debug)]
pub(crate) struct Broker {
    connector: PathBuf,
    granted: Vec<Endpoint>,
    profile: String,
    asked: u32,
}

impl Broker {
    /// Creates a broker for the endpoints that `profile` grants. `connector` is the worker's program.
    pub(crate) fn new(connector: PathBuf, granted: &[Endpoint], profile: &str) -> Self {
        Broker { connector, granted: granted.to_vec(), profile: profile.into(), asked: 0 }
    }

    /// Resets the count of requests.
    pub(crate) fn next_evaluation(&mut self) {
        self.asked = 0;
    }

    /// Makes a connection as the function requests, within `limit`. The inner error is for the function.
    ///
    /// # Errors
    /// `Limit` when the function has made too many requests: it has to be stopped.
    pub(crate) fn connect(&mut self, asked: &str, limit: Duration) -> Result<Result<OwnedFd>> {
        self.asked = self.asked.saturating_add(1);
        if self.asked > MAX_CONNECTIONS {
            fail!(
                Limit,
                "stopped: it requested more than {MAX_CONNECTIONS} connections in one evaluation (profile {})",
                self.profile
            )
        }
        Ok(self.one(asked, limit))
    }

    fn one(&self, asked: &str, limit: Duration) -> Result<OwnedFd> {
        let endpoint = Endpoint::parse(asked)?;
        if !self.granted.contains(&endpoint) {
            fail!(Refused, "profile {} does not grant {endpoint} (`connect`)", self.profile)
        }
        // Granted addresses, to which a name may resolve although they are not public.
        let literal: Vec<String> = self
            .granted
            .iter()
            .filter(|e| e.port() == endpoint.port())
            .filter_map(|e| e.address().map(|a| a.to_string()))
            .collect();
        let (ours, theirs) = socket::pair()?;
        let null =
            std::fs::File::options().write(true).open("/dev/null").map_err(|e| Error::io("/dev/null", &e))?;
        let (target, milliseconds) = (endpoint.to_string(), limit.as_millis().max(1).to_string());
        let literal = literal.join(",");
        let arguments = ["connect", &target, &milliseconds, &literal].map(std::ffi::OsStr::new);
        let mut connector =
            process::spawn(&self.connector, &arguments, &[theirs.as_fd()], null.as_fd(), null.as_fd(), &[])?;
        drop(theirs);
        let answer = receive(&ours, limit, &endpoint);
        connector.kill();
        connector.wait(Duration::from_secs(1));
        answer
    }
}

fn receive(socket: &OwnedFd, limit: Duration, endpoint: &Endpoint) -> Result<OwnedFd> {
    if !socket::readable_within(socket.as_fd(), limit)? {
        fail!(Limit, "{endpoint}: no connection within the function's time")
    }
    let Some((text, mut fds)) = socket::receive_with_descriptors(socket.as_fd())? else {
        fail!(Worker, "{endpoint}: the connector ended")
    };
    match (fds.pop(), fds.is_empty()) {
        (Some(fd), true) => Ok(fd),
        _ => {
            let text =
                String::from_utf8_lossy(text.get(..text.len().min(MAX_TEXT_BYTES)).unwrap_or_default());
            Err(Error::new(ErrorKind::Io, format!("{endpoint}: {}", escape(&text, 400))))
        }
    }
}

const _: () = assert!(Endpoint::MAX_TEXT_BYTES < MAX_MESSAGE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_granted_is_refused_and_too_much_ends_it() {
        let granted = [Endpoint::parse("example.org:443").unwrap()];
        // There is no such program: refused requests start none.
        let mut broker = Broker::new("/nonexistent".into(), &granted, "lab");
        let second = Duration::from_secs(1);
        for asked in
            ["example.org:80", "example.com:443", "sub.example.org:443", "127.0.0.1:443", "junk\0", ""]
        {
            let error = broker.connect(asked, second).unwrap().unwrap_err();
            assert!(
                error.message().contains("does not grant") || error.message().contains("not an endpoint"),
                "{error}"
            );
        }
        for _ in 6..MAX_CONNECTIONS {
            assert!(broker.connect("example.com:443", second).unwrap().is_err());
        }
        assert!(broker.connect("example.com:443", second).is_err());
        broker.next_evaluation();
        assert!(
            broker.connect("EXAMPLE.org:443", second).unwrap().unwrap_err().message().contains("nonexistent")
        );
    }
}
