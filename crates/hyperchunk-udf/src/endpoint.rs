//! Endpoint `host:port`, as in a profile's grants and in functions' requests.

use crate::error::{Error, Result, fail};
use crate::escape::escape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Host, by name or by address, and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    Address(IpAddr),
    /// In lower case.
    Name(String),
}

impl Endpoint {
    /// Maximum length of an endpoint's text: a name of 253 characters and a port.
    pub const MAX_TEXT_BYTES: usize = 260;

    /// Parses `example.org:443`, `192.0.2.1:80` or `[2001:db8::1]:80`.
    ///
    /// # Errors
    /// `Syntax` for anything else: patterns, lists, ports by name, addresses in any other notation.
    pub fn parse(text: &str) -> Result<Self> {
        match Endpoint::read(text) {
            Some(endpoint) => Ok(endpoint),
            None => fail!(
                Syntax,
                "\"{}\" is not an endpoint; write host:port, as in \"api.example.org:443\", \"127.0.0.1:8080\" or \"[::1]:8080\"",
                escape(text, 80)
            ),
        }
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > Endpoint::MAX_TEXT_BYTES {
            return None;
        }
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = Some(port).filter(|p| p.bytes().all(|c| c.is_ascii_digit()))?.parse().ok()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => Host::Address(rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into()),
            None => match host.parse::<Ipv4Addr>() {
                Ok(address) => Host::Address(address.into()),
                Err(_) => Host::Name(Some(host).filter(|h| is_name(h))?.to_ascii_lowercase()),
            },
        };
        (port != 0).then_some(Endpoint { host, port })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host's name, if it has to be resolved.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }

    /// Returns the host's address, if it is given as one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Address(address) => Some(address),
            Host::Name(_) => None,
        }
    }
}

/// Returns whether a text is a name to resolve, and not one that the C library would parse as an address:
/// `127.1`, `0x7f000001`.
fn is_name(text: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
            && !l.starts_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(label) && !last.starts_with(|c: char| c.is_ascii_digit())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Endpoint::parse(&text)
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> String {
        endpoint.to_string()
    }
}
