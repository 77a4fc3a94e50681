//! Policy for redirects of web servers.
//!
//! A server must not be able to reach the reader's network through the reader: a redirect could make the
//! reader send a request to a cloud machine's metadata service, or to a service on its own machine, which the
//! server cannot reach itself.

use super::hosts::{addresses, is_elsewhere, look_up};
use reqwest::dns::{Name, Resolve, Resolving};
use std::fmt;
use std::net::IpAddr;
use url::{Host, Url};

/// Maximum number of redirects of one request.
pub(super) const MAX_REDIRECTS: usize = 10;
/// The option's name.
pub(super) const OPTION: &str = "redirects";
/// Setting for a file that another file, such as a collection, names: the URL of that other file. A request
/// for the named file counts as a redirect from there, and gets no credentials.
pub(crate) const NAMED_BY: &str = "named_by";

/// Policy for redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// Follows none.
    Never,
    /// Follows redirects within the server: same scheme, host and port.
    SameOrigin,
    /// Follows redirects within the server or to a public address.
    Public,
    /// Follows all.
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
    pub(super) fn check(self, from: &Url, to: &Url) -> Result<(), RedirectRefusal> {
        if !matches!(to.scheme(), "http" | "https") {
            return Err(RedirectRefusal::invalid(&format!("one to a URL of the scheme `{}`", to.scheme())));
        }
        if from.scheme() == "https" && to.scheme() == "http" && self != Self::Any {
            return Err(RedirectRefusal::forbidden("from https to http".into()));
        }
        let same = from.origin() == to.origin();
        match self {
            Self::Any => Ok(()),
            Self::SameOrigin | Self::Public if same => Ok(()),
            Self::Public => match to.host() {
                Some(Host::Ipv4(address)) => public(address.into()),
                Some(Host::Ipv6(address)) => public(address.into()),
                Some(Host::Domain(_)) => Ok(()),
                None => Err(RedirectRefusal::forbidden("to a URL without a host".into())),
            },
            Self::Never | Self::SameOrigin => {
                Err(RedirectRefusal::forbidden(format!("to {}", to.origin().ascii_serialization())))
            }
        }
    }
}

fn public(address: IpAddr) -> Result<(), RedirectRefusal> {
    if is_elsewhere(address) {
        return Ok(());
    }
    let what = if hyperchunk_net::is_public(address) { "this machine" } else { "no public address" };
    Err(RedirectRefusal::forbidden(format!("to {address}, which is {what}")))
}

/// Reason why a redirect is not followed.
#[derive(Debug, Clone)]
pub(super) struct RedirectRefusal {
    expected: &'static str,
    got: String,
    /// True if another policy would follow it.
    optional: bool,
    /// True for a file that another file names.
    named: bool,
}

impl RedirectRefusal {
    /// Creates the refusal of a redirect that the policy forbids.
    fn forbidden(got: String) -> Self {
        Self {
            expected: "one to the same server or to a public address",
            got: format!("one {got}"),
            optional: true,
            named: false,
        }
    }

    /// Creates the refusal of a redirect that is invalid under any policy.
    pub(super) fn invalid(got: &str) -> Self {
        Self { expected: "one that leads to the file", got: got.to_owned(), optional: false, named: false }
    }

    /// Marks the refusal as one of a file that another file names.
    pub(super) fn by_name(self) -> Self {
        Self { named: true, ..self }
    }

    /// Creates the refusal of a redirect of an object store to another server.
    pub(super) fn by_store(to: &str) -> Self {
        let got = format!("one to {to}; give its endpoint or region as an option if that is right");
        Self { expected: "one to the same server, from an object store", got, optional: false, named: false }
    }
}

impl fmt::Display for RedirectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, got, optional, named } = self;
        let what =
            if *named { "open a file that a collection names" } else { "follow the server's redirect" };
        write!(f, "cannot {what}: expected {expected}, got {got}")?;
        if *optional {
            write!(f, "; if that is meant, set the option `{OPTION}` to `any`")?;
        }
        Ok(())
    }
}

impl std::error::Error for RedirectRefusal {}

/// DNS resolver that fails if a name has an address that is not public, or that is this machine's.
#[derive(Debug)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = look_up(name.as_str()).await?;
            for address in &found {
                public(*address)?;
            }
            Ok(addresses(found))
        })
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
