//! Settings of a connection: the caller's, then the environment's, then the store's defaults.

use super::location::{Kind, Location};
use super::profile;
use super::redirects;
use crate::{Error, Result};
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::client::ClientConfigKey;
use object_store::gcp::GoogleConfigKey;
use std::collections::BTreeMap;
use std::str::FromStr;
use url::{Host, Url};

/// Settings of a store, by `object_store`'s own full names. Not `Debug`: they include secrets.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Settings(BTreeMap<String, String>);

/// `object_store`'s name for `anonymous`, in every kind of store.
pub(super) const ANONYMOUS: &str = "skip_signature";
/// Settings of clients for web servers.
const WEB: [&str; 5] =
    ["allow_http", "allow_invalid_certificates", "proxy_url", "proxy_excludes", "proxy_ca_certificate"];
/// The caller's choice of a profile in AWS's files.
const PROFILE: &str = "aws_profile";
/// Token sent to web servers as `Authorization: Bearer …`.
pub(super) const BEARER: &str = "bearer_token";

impl Settings {
    /// Collects the settings for a location: the caller's override the environment's, which override AWS's
    /// files.
    pub(super) fn new(
        location: &Location,
        given: &[(String, String)],
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self> {
        let environment: BTreeMap<String, String> =
            environment.filter(|(_, value)| !value.is_empty()).collect();
        let set_there = environment
            .iter()
            .filter_map(|(name, value)| Some((from_environment(location.kind, name)?, value.clone())));
        let set_there: BTreeMap<String, String> = set_there.collect();
        let mut own = BTreeMap::new();
        for (name, value) in given {
            let known = full_name(location.kind, name).ok_or_else(|| {
                Error::invalid(format!("there is no setting `{name}` for this kind of store"))
            })?;
            own.insert(known, value.clone());
        }
        let named = own.remove(PROFILE);
        let mut settings = Self::default();
        let mut layers = vec![set_there, own];
        if location.kind == Kind::S3 {
            let profile = profile::load(named.as_deref(), &environment)?.unwrap_or_default();
            // A profile that the caller names overrides the environment.
            layers.insert(usize::from(named.is_some()), profile);
        }
        layers.into_iter().for_each(|layer| settings.lay(layer));
        if let Some(account) = &location.account {
            settings.set("azure_storage_account_name", account);
        }
        settings.check_endpoints(location)?;
        Ok(settings)
    }

    /// Overrides settings with a layer. If the layer sets a part of a group, the whole old group is removed,
    /// since half of one key pair and half of another do not work.
    fn lay(&mut self, layer: BTreeMap<String, String>) {
        const KEYS: [&str; 4] =
            ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_skip_signature"];
        const ENDPOINTS: [&str; 2] = ["aws_endpoint", "aws_endpoint_url_s3"];
        const REGIONS: [&str; 2] = ["aws_region", "aws_default_region"];
        for group in [KEYS.as_slice(), &ENDPOINTS, &REGIONS] {
            if group.iter().any(|name| layer.contains_key(*name)) {
                group.iter().for_each(|name| drop(self.0.remove(*name)));
            }
        }
        self.0.extend(layer);
    }

    /// Checks that endpoints are URLs of servers. An endpoint with `http://` turns on `allow_http`.
    fn check_endpoints(&mut self, location: &Location) -> Result<()> {
        const ENDPOINTS: [&str; 4] =
            ["aws_endpoint", "aws_endpoint_url_s3", "azure_storage_endpoint", "google_base_url"];
        let mut plain = location.container.starts_with("http://");
        for endpoint in ENDPOINTS.iter().filter_map(|name| self.get(name)) {
            let parsed = Url::parse(endpoint).ok().filter(Url::has_host);
            let scheme =
                parsed.as_ref().map(Url::scheme).filter(|scheme| matches!(*scheme, "http" | "https"));
            plain |= scheme == Some("http");
            let by_name = matches!(parsed.as_ref().and_then(Url::host), Some(Host::Domain(_)));
            if scheme.is_none() {
                return Err(Error::invalid(
                    "the store's endpoint is not a URL such as http://localhost:9000",
                ));
            }
            if !by_name && self.is_on("aws_virtual_hosted_style_request") {
                let message = "the bucket's name cannot be a part of an endpoint that is an address: leave out `virtual_hosted`";
                return Err(Error::invalid(message));
            }
        }
        if plain {
            self.0.entry("allow_http".into()).or_insert_with(|| "true".into());
        }
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.into(), value.into());
    }

    /// Returns whether a setting is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| {
            matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y")
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Returns the setting that an environment variable stands for.
fn from_environment(kind: Kind, name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    match (kind, lower.as_str()) {
        // Names that AWS's command line and GDAL use.
        (Kind::S3, PROFILE) => None,
        (Kind::S3, "aws_no_sign_request") => Some("aws_skip_signature".into()),
        (Kind::S3, _) if name.starts_with("AWS_") => full_name(kind, &lower),
        (Kind::Azure, _) if name.starts_with("AZURE_") => full_name(kind, &lower),
        (Kind::Google, "service_account") => full_name(kind, "service_account"),
        (Kind::Google, _) if name.starts_with("GOOGLE_") => full_name(kind, &lower),
        _ => None,
    }
}

/// Returns `object_store`'s full name of a setting, from its short or common names.
fn full_name(kind: Kind, name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let known = |name: &str| match kind {
        Kind::S3 => canonical::<AmazonS3ConfigKey>(name),
        Kind::Google => canonical::<GoogleConfigKey>(name),
        Kind::Azure => canonical::<AzureConfigKey>(name),
        Kind::Http => canonical::<ClientConfigKey>(name).filter(|name| WEB.contains(&name.as_str())),
    };
    let usual = match (kind, lower.as_str()) {
        (Kind::Http, "anonymous" | "anon" | ANONYMOUS) => return Some(ANONYMOUS.into()),
        (Kind::Http, "token" | BEARER) => return Some(BEARER.into()),
        (Kind::Http, redirects::OPTION) => return Some(redirects::OPTION.into()),
        (Kind::Http, redirects::NAMED_BY) => return Some(redirects::NAMED_BY.into()),
        (Kind::S3, "profile" | PROFILE) => return Some(PROFILE.into()),
        (_, "anonymous" | "anon") => ANONYMOUS,
        (_, "proxy") => "proxy_url",
        (Kind::S3, "key" | "access_key") => "access_key_id",
        (Kind::S3, "secret" | "secret_key") => "secret_access_key",
        (Kind::S3, "virtual_hosted" | "virtual_hosted_style") => "virtual_hosted_style_request",
        (Kind::S3, "region_name") => "region",
        (Kind::S3, "requester_pays") => "request_payer",
        (Kind::Google, "token") => BEARER,
        (Kind::Google, "endpoint" | "endpoint_url") => "base_url",
        (Kind::Azure, "account") => "account_name",
        (Kind::Azure, "key") => "account_key",
        (Kind::Azure, "endpoint_url") => "endpoint",
        (_, other) => other,
    };
    known(usual)
}

fn canonical<K: FromStr + AsRef<str>>(name: &str) -> Option<String> {
    K::from_str(name).ok().map(|key| key.as_ref().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        text.split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(a, b)| (a.into(), b.into()))
            .collect()
    }

    #[track_caller]
    fn check(url: &str, given: &str, environment: &str, expected: &str) {
        let location = Location::parse(url).unwrap();
        let settings = Settings::new(&location, &pairs(given), pairs(environment).into_iter());
        let found = match settings {
            Ok(settings) => settings.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(" "),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(found, expected, "{url} {given} {environment}");
    }

    #[test]
    fn names() {
        check("s3://b/k", "anonymous=True region=eu", "", "aws_region=eu aws_skip_signature=True");
        check("s3://b/k", "key=k secret=s", "", "aws_access_key_id=k aws_secret_access_key=s");
        check("gs://b/k", "anon=1", "AWS_REGION=x", "google_skip_signature=1");
        check("az://b/k", "account=a key=k", "", "azure_storage_account_key=k azure_storage_account_name=a");
        check("http://h/k", "token=t", "", "allow_http=true bearer_token=t");
        check("s3://b/k", "regoin=eu", "", "error: there is no setting `regoin` for this kind of store");
    }

    #[test]
    fn endpoints() {
        check(
            "s3://b/k",
            "endpoint=localhost:9000",
            "",
            "error: the store's endpoint is not a URL such as http://localhost:9000",
        );
        check(
            "s3://b/k",
            "endpoint=host",
            "",
            "error: the store's endpoint is not a URL such as http://localhost:9000",
        );
        let error = "error: the bucket's name cannot be a part of an endpoint that is an address: leave out `virtual_hosted`";
        check("s3://b/k", "endpoint=http://127.0.0.1:9 virtual_hosted=true", "", error);
    }

    #[test]
    fn the_environment_yields() {
        let environment = "AWS_ACCESS_KEY_ID=e AWS_SECRET_ACCESS_KEY=f AWS_SESSION_TOKEN=g HOME=/not/there";
        check("s3://b/k", "", environment, "aws_access_key_id=e aws_secret_access_key=f aws_session_token=g");
        check("s3://b/k", "key=k secret=s", environment, "aws_access_key_id=k aws_secret_access_key=s");
        check(
            "s3://b/k",
            "endpoint=https://a",
            "AWS_ENDPOINT_URL_S3=http://b AWS_NO_SIGN_REQUEST=YES",
            "aws_endpoint=https://a aws_skip_signature=YES",
        );
        check("s3://b/k", "", "AWS_ENDPOINT_URL=http://b", "allow_http=true aws_endpoint=http://b");
    }
}
