//! Proxies of HTTP clients: the caller's, or those of the environment.

use reqwest::{Certificate, ClientBuilder, NoProxy, Proxy};

/// Sets the caller's proxy. `excluded` is a list of hosts that are reached without it, as in `NO_PROXY`.
///
/// Without a proxy of the caller, reqwest uses `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of the environment.
pub(super) fn with_proxy(
    builder: ClientBuilder,
    url: Option<&str>,
    excluded: Option<&str>,
    certificate: Option<&str>,
) -> reqwest::Result<ClientBuilder> {
    let by_environment = match url {
        Some(_) => None,
        None => ["NO_PROXY", "no_proxy"].iter().find_map(|name| std::env::var(name).ok()),
    };
    if excluded.into_iter().chain(by_environment.as_deref()).any(excludes_all) {
        return Ok(builder.no_proxy());
    }
    let Some(url) = url else { return Ok(builder) };
    let mut proxy = Proxy::all(url)?;
    if let Some(excluded) = excluded {
        proxy = proxy.no_proxy(NoProxy::from_string(excluded));
    }
    let builder = match certificate {
        Some(certificate) => builder.tls_certs_merge([Certificate::from_pem(certificate.as_bytes())?]),
        None => builder,
    };
    Ok(builder.proxy(proxy))
}

/// Returns whether a list of hosts without a proxy names all of them. reqwest takes `*` for all names, but not
/// for addresses.
fn excludes_all(list: &str) -> bool {
    list.split(',').any(|part| part.trim() == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, expected) in [
            ("*", true),
            (" * ", true),
            ("a.org, *", true),
            ("", false),
            ("*.org", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(excludes_all(list), expected, "{list:?}");
        }
    }

    #[test]
    fn wrong_proxies() {
        assert!(with_proxy(ClientBuilder::new(), Some("http://["), None, None).is_err());
        assert!(with_proxy(ClientBuilder::new(), Some("http://["), Some("*"), None).is_ok());
    }
}
