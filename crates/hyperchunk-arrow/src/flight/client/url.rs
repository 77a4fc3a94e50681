//! URLs of Flight servers.

use hyperchunk::{Error, Result};

/// A server, and a file on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) server: Server,
    /// The file's name on the server; empty if the URL has none.
    pub(super) file: String,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Server {
    Tcp { host: String, tls: bool },
    Unix(String),
}

impl Server {
    /// Returns the endpoint for tonic.
    pub(super) fn endpoint(&self) -> String {
        match self {
            Self::Tcp { host, tls: false } => format!("http://{host}"),
            Self::Tcp { host, tls: true } => format!("https://{host}"),
            Self::Unix(path) => format!("unix://{path}"),
        }
    }

    /// Returns the address as a URL.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Tcp { host, tls: false } => format!("grpc://{host}"),
            Self::Tcp { host, tls: true } => format!("grpc+tls://{host}"),
            Self::Unix(path) => format!("grpc+unix://{path}"),
        }
    }
}

impl Location {
    /// Parses `grpc://HOST:PORT/FILE`, `grpc+tls://HOST:PORT/FILE` or `grpc+unix:///SOCKET?file=FILE`. Names
    /// of files are percent-encoded.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong = || {
            let message =
                "expected grpc://HOST:PORT/FILE, grpc+tls://HOST:PORT/FILE or grpc+unix:///SOCKET?file=FILE";
            Error::invalid(message).file(url)
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "grpc+unix" {
            let (socket, query) = rest.split_once('?').unwrap_or((rest, ""));
            let file = if query.is_empty() { "" } else { query.strip_prefix("file=").ok_or_else(wrong)? };
            if !socket.starts_with('/') || socket.len() < 2 {
                return Err(wrong());
            }
            let server = Server::Unix(decode(socket).ok_or_else(wrong)?);
            return Ok(Self { server, file: decode(file).ok_or_else(wrong)? });
        }
        let tls = match scheme.as_str() {
            "grpc" | "grpc+tcp" => false,
            "grpc+tls" => true,
            _ => return Err(wrong()),
        };
        let (host, file) = rest.split_once('/').unwrap_or((rest, ""));
        let has_port =
            host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        if !has_port || host.contains(['@', ' ', '?', '#']) {
            return Err(wrong());
        }
        Ok(Self { server: Server::Tcp { host: host.to_owned(), tls }, file: decode(file).ok_or_else(wrong)? })
    }

    /// Returns the URL, for messages.
    pub(super) fn shown(&self) -> String {
        match &self.server {
            Server::Unix(_) => format!("{}?file={}", self.server.url(), self.file),
            Server::Tcp { .. } => format!("{}/{}", self.server.url(), self.file),
        }
    }

    /// Resolves a relative name against this file; never to another server.
    pub(super) fn sibling(&self, name: &str) -> Result<Self> {
        let last = name.rsplit('/').next().unwrap_or_default();
        let bad = name.contains(['\0', '\\'])
            || name.starts_with('/')
            || name.contains("://")
            || matches!(last, "" | "." | "..");
        let folder = self.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in name.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_none() => {
                    return Err(Error::invalid(format!(
                        "it leads to the file `{name}`, outside of the served files"
                    )));
                }
                ".." => {}
                part => parts.push(part),
            }
        }
        if bad || parts.is_empty() {
            let message =
                format!("it leads to the file `{name}`: on a Flight server, the name must be relative");
            return Err(Error::invalid(message).file(self.shown()));
        }
        Ok(Self { server: self.server.clone(), file: parts.join("/") })
    }
}

/// Decodes percent-encoded text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, endpoint: &str, file: &str| {
            let location = Location::parse(url).unwrap();
            assert_eq!(
                (location.server.endpoint().as_str(), location.file.as_str()),
                (endpoint, file),
                "{url}"
            );
        };
        check("grpc://host:5000/a/b.h5", "http://host:5000", "a/b.h5");
        check("grpc+tcp://[::1]:1/a%20b.h5", "http://[::1]:1", "a b.h5");
        check("GRPC+TLS://h:1/", "https://h:1", "");
        check("grpc+unix:///tmp/x.sock?file=a/b.h5", "unix:///tmp/x.sock", "a/b.h5");
        for url in [
            "grpc://host/a.h5",
            "grpc:///a.h5",
            "grpc+unix://x?file=a",
            "grpc+unix:///x?a.h5",
            "http://h:1/a",
            "grpc://u@h:1/a",
            "grpc://h:1/%zz",
            "grpc://h:x/a",
            "",
        ] {
            assert!(Location::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn siblings() {
        let location = Location::parse("grpc://h:1/a/b.h5").unwrap();
        let check = |name: &str, file: Option<&str>| {
            assert_eq!(location.sibling(name).ok().map(|sibling| sibling.file).as_deref(), file, "{name}");
        };
        check("c.h5", Some("a/c.h5"));
        check("./b.h5.d/log", Some("a/b.h5.d/log"));
        check("../c.h5", Some("c.h5"));
        for name in ["../../c.h5", "/etc/passwd", "s3://b/k", "", ".", "a\\b"] {
            check(name, None);
        }
    }
}
