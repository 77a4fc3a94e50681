//! Parsed URLs: a store and an object in it.

use crate::io::percent;
use crate::{Error, Result};
use url::Url;

/// Kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    S3,
    Google,
    Azure,
    Http,
}

/// An object in a store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) kind: Kind,
    /// The bucket or container; the scheme, host and port of a web server.
    pub(super) container: String,
    /// The account, if the URL of an object in Azure contains it.
    pub(super) account: Option<String>,
    /// The raw key in the bucket; the percent-encoded path on a web server.
    pub(super) key: String,
    /// The query in a web server's URL, such as a signature.
    query: Option<String>,
    /// User and password in a web server's URL.
    pub(super) user: Option<(String, String)>,
}

impl Location {
    /// Parses a URL.
    ///
    /// Keys in buckets are taken literally: `s3://bucket/50%.h5` is the object `50%.h5`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let location = Self::parse_folder(url)?;
        if location.kind != Kind::Http && (location.key.is_empty() || location.key.ends_with('/')) {
            let scheme = url.split("://").next().unwrap_or_default();
            return Err(Error::invalid(format!(
                "`{url}` contains no object: expected {scheme}://BUCKET/KEY"
            )));
        }
        Ok(location)
    }

    /// Parses a URL that may also be a bucket's, without a key, or end with `/`.
    pub(super) fn parse_folder(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| not_a_url(url))?;
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Kind::S3,
            "gs" | "gcs" => Kind::Google,
            "az" | "abfs" | "abfss" | "azure" | "adl" => Kind::Azure,
            "http" | "https" => return Self::parse_http(url),
            other => {
                let message = format!(
                    "unknown URL scheme `{other}://`: expected s3, gs, az, abfs, http, https or file"
                );
                return Err(Error::invalid(message));
            }
        };
        let (container, key) = rest.split_once('/').unwrap_or((rest, ""));
        // Hadoop's form: abfss://container@account.dfs.core.windows.net/path.
        let (container, account) = match container.split_once('@') {
            Some((container, host)) if kind == Kind::Azure => {
                (container, host.split('.').next().map(str::to_owned))
            }
            _ => (container, None),
        };
        if !container.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-$".contains(&byte)) {
            return Err(Error::invalid(format!(
                "invalid bucket name: expected {scheme}://BUCKET/KEY; give credentials as options"
            )));
        }
        if container.is_empty() {
            return Err(Error::invalid(format!(
                "`{url}` contains no bucket: expected {scheme}://BUCKET/KEY"
            )));
        }
        let (container, key) = (container.to_owned(), key.to_owned());
        Ok(Self { kind, container, account, key, query: None, user: None })
    }

    fn parse_http(url: &str) -> Result<Self> {
        let parsed = Url::parse(url).ok().filter(Url::has_host);
        let parsed = parsed.ok_or_else(|| not_a_url(url))?;
        let user = (!parsed.username().is_empty()).then(|| {
            let decode = |text: &str| percent::decode(text).unwrap_or_else(|| text.to_owned());
            (decode(parsed.username()), decode(parsed.password().unwrap_or("")))
        });
        let path = parsed.path();
        Ok(Self {
            kind: Kind::Http,
            container: parsed.origin().ascii_serialization(),
            account: None,
            // Only the slash after the host: on web servers, `//x` and `/x` may be two files.
            key: path.strip_prefix('/').unwrap_or(path).to_owned(),
            query: parsed.query().map(str::to_owned),
            user,
        })
    }

    /// Returns the URL to request from a web server.
    pub(super) fn http_url(&self) -> String {
        match &self.query {
            Some(query) => format!("{}/{}?{query}", self.container, self.key),
            None => format!("{}/{}", self.container, self.key),
        }
    }

    /// Returns the URL for messages, without secrets.
    pub(super) fn shown(&self) -> String {
        let query = if self.query.is_some() { "?…" } else { "" };
        match (self.kind, &self.account) {
            (Kind::S3, _) => format!("s3://{}/{}", self.container, self.key),
            (Kind::Google, _) => format!("gs://{}/{}", self.container, self.key),
            (Kind::Azure, None) => format!("az://{}/{}", self.container, self.key),
            (Kind::Azure, Some(account)) => {
                format!("abfss://{}@{account}.dfs.core.windows.net/{}", self.container, self.key)
            }
            (Kind::Http, _) => format!("{}/{}{query}", self.container, self.key),
        }
    }

    /// Resolves a name relative to this object; never into another bucket or server.
    pub(super) fn sibling(&self, name: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::invalid(format!("cannot open the file `{name}`, which the file names: it is {why}"))
                .file(self.shown()))
        };
        let drive = name.as_bytes().get(1) == Some(&b':');
        if name.starts_with(['/', '\\']) || drive {
            return refuse("an absolute path, and this file is in an object store");
        }
        if name.contains("://") {
            return refuse("a URL, and only paths relative to this file are allowed");
        }
        let mut parts: Vec<String> = self.key.split('/').map(str::to_owned).collect();
        parts.pop();
        for part in name.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_none() => return refuse("outside the bucket"),
                ".." => {}
                part if self.kind == Kind::Http => parts.push(percent::encode(part)),
                part => parts.push(part.to_owned()),
            }
        }
        if parts.is_empty() {
            return refuse("not an object");
        }
        Ok(Self { key: parts.join("/"), ..self.clone() })
    }
}

/// Returns the error for an invalid URL, without the URL if it may hold a password.
fn not_a_url(url: &str) -> Error {
    match url.contains(['@', '?']) {
        false => Error::invalid(format!("`{url}` is not a URL")),
        true => Error::invalid("this is not a URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &[(&str, &str)]) {
        let parsed = Location::parse(url);
        let shown = match &parsed {
            Ok(location) => location.shown(),
            Err(error) => format!("error: {error}"),
        };
        for (name, leads_to) in expected {
            let found = match (&parsed, *name) {
                (_, "") => shown.clone(),
                (Ok(location), name) => {
                    location.sibling(name).map_or_else(|e| format!("error: {e}"), |s| s.shown())
                }
                _ => shown.clone(),
            };
            if leads_to.starts_with("error") {
                assert!(found.starts_with(leads_to), "{url} + {name}: {found}");
            } else {
                assert_eq!(found, *leads_to, "{url} + {name}");
            }
        }
    }

    #[test]
    fn urls() {
        check("s3://b/a/50% #1.h5", &[("", "s3://b/a/50% #1.h5")]);
        check("gs://b/k", &[("", "gs://b/k")]);
        check("az://c/k", &[("", "az://c/k")]);
        check("abfss://c@acc.dfs.core.windows.net/d/k", &[("", "abfss://c@acc.dfs.core.windows.net/d/k")]);
        check("https://u:p@h.org:8443/a%20b?sig=1#x", &[("", "https://h.org:8443/a%20b?…")]);
        for wrong in [
            "ftp://h/x",
            "s3://bucket",
            "s3://bucket/",
            "s3:///k",
            "s3://b/folder/",
            "x.h5",
            "http://",
            "s3://k:s@b/k",
        ] {
            check(wrong, &[("", "error: ")]);
        }
        for folder in ["s3://bucket", "s3://bucket/"] {
            assert_eq!(Location::parse_folder(folder).unwrap().shown(), "s3://bucket/");
        }
        assert!(Location::parse_folder("s3:///k").is_err());
        assert!(!Location::parse("https://user:secret@").err().unwrap().to_string().contains("secret"));
    }

    #[test]
    fn siblings() {
        check(
            "s3://b/d/f.h5",
            &[
                ("g.h5", "s3://b/d/g.h5"),
                ("./e/g.h5", "s3://b/d/e/g.h5"),
                ("../g.h5", "s3://b/g.h5"),
                (
                    "../../g.h5",
                    "error: cannot open the file `../../g.h5`, which the file names: it is outside the bucket",
                ),
                ("/etc/passwd", "error"),
                ("C:\\x.h5", "error"),
                ("s3://other/x", "error"),
                ("..", "error"),
            ],
        );
        check(
            "https://h//f.h5",
            &[("", "https://h//f.h5"), ("g.h5", "https://h//g.h5"), ("../g.h5", "https://h/g.h5")],
        );
        check("https://h/d/f.h5?sig=1", &[("a b.h5", "https://h/d/a%20b.h5?…"), ("../../x", "error")]);
    }
}
