//! Policy for redirects of web servers.
//!
//! A server that serves a file must not probe the reader's network: through a redirect, the reader would
//! send a request to a cloud machine's metadata service, or to a service of its own machine, which only it
//! can reach.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use url::{Host, Url};

/// Maximum number of redirects of one request.
pub(super) const MAX_REDIRECTS: usize = 10;
/// The option's name.
pub(super) const OPTION: &str = "redirects";

/// Redirects that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// None.
    Never,
    /// Redirects within the server: same scheme, host and port.
    SameOrigin,
    /// Redirects within the server or to a public address.
    Public,
    /// All.
    Any,
}

impl Redirects {
    pub(super) fn parse(text: Option<&str>) -> Result<Self, String> {
        match text {
            None | Some("public") => Ok(Self::Public),
            Some("never") => Ok(Self::Never),
            Some("same-origin") => Ok(Self::SameOrigin),
            Some("any") => Ok(Self::Any),
            Some(other) => Err(format!(
                "cannot use the option `{OPTION}`: expected never, same-origin, public or any, got `{other}`"
            )),
        }
    }

    /// Checks a redirect by its URLs alone; [`PublicOnly`] checks the addresses of host names.
    pub(super) fn check(self, from: &Url, to: &Url) -> Result<(), Refused> {
        if !matches!(to.scheme(), "http" | "https") {
            return Err(Refused::round(&format!("one to a URL of the scheme `{}`", to.scheme())));
        }
        if from.scheme() == "https" && to.scheme() == "http" && self != Self::Any {
            return Err(Refused::elsewhere("from https to http".into()));
        }
        let same = from.origin() == to.origin();
        match self {
            Self::Any => Ok(()),
            Self::SameOrigin | Self::Public if same => Ok(()),
            Self::Public => match to.host() {
                Some(Host::Ipv4(address)) => public(address.into()),
                Some(Host::Ipv6(address)) => public(address.into()),
                Some(Host::Domain(_)) => Ok(()),
                None => Err(Refused::elsewhere("to a URL without a host".into())),
            },
            Self::Never | Self::SameOrigin => {
                Err(Refused::elsewhere(format!("to {}", to.origin().ascii_serialization())))
            }
        }
    }
}

fn public(address: IpAddr) -> Result<(), Refused> {
    if is_public(address) {
        Ok(())
    } else {
        Err(Refused::elsewhere(format!("to {address}, which is no public address")))
    }
}

/// Reason why a redirect is not followed.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    expected: &'static str,
    got: String,
    /// True if another policy would follow it.
    optional: bool,
}

impl Refused {
    /// A redirect to a place that the policy forbids.
    fn elsewhere(got: String) -> Self {
        Self {
            expected: "one to the same server or to a public address",
            got: format!("one {got}"),
            optional: true,
        }
    }

    /// A redirect that is invalid under any policy.
    pub(super) fn round(got: &str) -> Self {
        Self { expected: "one that leads to the file", got: got.to_owned(), optional: false }
    }

    /// A redirect of an object store to another server.
    pub(super) fn by_store(to: &str) -> Self {
        let got = format!("one to {to}; give its endpoint or region as an option if that is right");
        Self { expected: "one to the same server, from an object store", got, optional: false }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, got, optional } = self;
        write!(f, "cannot follow the server's redirect: expected {expected}, got {got}")?;
        if *optional {
            write!(f, "; if that is meant, set the option `{OPTION}` to `any`")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// DNS resolver that fails if a name has an address that is not public.
#[derive(Debug)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            for address in &found {
                public(address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

pub(super) fn resolver() -> Arc<PublicOnly> {
    Arc::new(PublicOnly)
}

/// Returns whether an address is public: not loopback, private, multicast or otherwise reserved (IANA's
/// registries of special-purpose addresses).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a == 10
        || a == 127
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && (b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99)))
        || (a == 198 && (b == 18 || b == 19 || (b == 51 && c == 100)))
        || (a == 203 && b == 0 && c == 113);
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let carried = |high: u16, low: u16| is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // IPv4 addresses mapped or embedded in IPv6.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        [0x2002, high, low, ..] => carried(high, low),
        // Protocol assignments (Teredo) and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str, followed: [bool; 4]) {
        let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
        for (text, followed) in ["never", "same-origin", "public", "any"].into_iter().zip(followed) {
            let policy = Redirects::parse(Some(text)).unwrap();
            assert_eq!(policy.check(&from, &to).is_ok(), followed, "{text}: {from} to {to}");
        }
    }

    #[test]
    fn where_a_server_may_send_a_reader() {
        let archive = "https://archive.org/x.h5";
        check(archive, "https://archive.org/y", [false, true, true, true]);
        check(archive, "https://store.org/y", [false, false, true, true]);
        check(archive, "http://archive.org/y", [false, false, false, true]);
        check(archive, "https://8.8.8.8/y", [false, false, true, true]);
        for private in [
            "169.254.169.254",
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[fe80::1]",
            "[fd00::1]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:7f00:1::]",
            "2130706433",
            "0x7f.1",
        ] {
            check(archive, &format!("https://{private}/y"), [false, false, false, true]);
        }
        check("http://127.0.0.1:1/x", "http://127.0.0.1:1/y", [false, true, true, true]);
        check("http://127.0.0.1:1/x", "http://127.0.0.1:2/y", [false, false, false, true]);
        check(archive, "ftp://archive.org/y", [false; 4]);
        check(archive, "file:///etc/passwd", [false; 4]);
        assert_eq!(Redirects::parse(None), Ok(Redirects::Public));
        assert!(Redirects::parse(Some("sometimes")).is_err());
    }

    #[test]
    fn names_are_looked_up_before_they_are_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let looked_up = runtime.block_on(PublicOnly.resolve("localhost".parse().unwrap()));
        let error = looked_up.err().unwrap().to_string();
        assert!(error.contains("no public address"), "{error}");
    }
}
