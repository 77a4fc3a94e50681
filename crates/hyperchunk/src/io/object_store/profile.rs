//! Credential files of AWS's own tools: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Keys, region and endpoint are read, the endpoint also from the `services` section that a profile names.
//! Settings that need another program or a login (`credential_process`, SSO, roles) are not: `aws configure
//! export-credentials --format env` puts such credentials into the environment.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A profile's settings, by `object_store`'s names; `None` if no file has the profile.
type Profile = Option<BTreeMap<String, String>>;

/// Reads the named profile; without a name the one in the environment variable `AWS_PROFILE`, or `default`.
///
/// # Errors
/// Invalid if a requested profile does not exist.
pub(super) fn load(name: Option<&str>, environment: &BTreeMap<String, String>) -> Result<Profile> {
    let home = ["HOME", "USERPROFILE"].iter().find_map(|name| environment.get(*name)).map(PathBuf::from);
    let read = |variable: &str, file: &str| {
        let path = match environment.get(variable) {
            Some(path) => PathBuf::from(path),
            None => home.as_ref()?.join(".aws").join(file),
        };
        std::fs::read_to_string(path).ok()
    };
    let credentials = read("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
    let config = read("AWS_CONFIG_FILE", "config").unwrap_or_default();
    let wanted = name.or(environment.get("AWS_PROFILE").map(String::as_str));
    let found = parse(&credentials, &config, wanted.unwrap_or("default"));
    match (wanted, found) {
        (Some(wanted), None) => {
            Err(Error::invalid(format!("there is no profile `{wanted}` in AWS's configuration files")))
        }
        (_, found) => Ok(found),
    }
}

/// Settings that are read, by their names in AWS's files and in `object_store`.
const NAMES: [(&str, &str); 4] = [
    ("aws_access_key_id", "aws_access_key_id"),
    ("aws_secret_access_key", "aws_secret_access_key"),
    ("aws_session_token", "aws_session_token"),
    ("region", "aws_region"),
];

/// Settings of a section by their names. An indented setting `inner` below `outer` has the name `outer.inner`.
type Section = BTreeMap<String, String>;

fn parse(credentials: &str, config: &str, name: &str) -> Profile {
    let (config, credentials) = (sections(config), sections(credentials));
    let default = config.get(name).filter(|_| name == "default");
    let found = [default, config.get(&format!("profile {name}")), credentials.get(name)];
    let found: Vec<&Section> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return None;
    }
    let merged = found.into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
    let merged: BTreeMap<&str, &str> = merged.filter(|(_, value)| !value.is_empty()).collect();
    let get = |name: &str| merged.get(name).copied();
    // An endpoint for S3 alone takes precedence over the one for all services.
    let services = get("services").and_then(|services| config.get(&format!("services {services}")));
    let of_s3 = services.and_then(|section| section.get("s3.endpoint_url")).map(String::as_str);
    let endpoint = of_s3.filter(|endpoint| !endpoint.is_empty()).or(get("endpoint_url"));
    let settings = NAMES.iter().filter_map(|&(name, full)| Some((full, get(name)?)));
    let settings = settings.chain(endpoint.map(|endpoint| ("aws_endpoint", endpoint)));
    Some(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Parses a file into sections by their names.
fn sections(text: &str) -> BTreeMap<String, Section> {
    let mut found: BTreeMap<String, Section> = BTreeMap::new();
    let (mut current, mut outer) = (None, "");
    for line in text.lines() {
        let line = line.trim_end();
        if let Some((section, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
            found.entry(section.clone()).or_default();
            (current, outer) = (Some(section), "");
            continue;
        }
        let Some(section) = current.as_ref().and_then(|name| found.get_mut(name)) else { continue };
        let is_indented = line.starts_with([' ', '\t']);
        let line = line.trim_start();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let full = match is_indented {
            true => format!("{outer}.{key}"),
            false => {
                outer = key;
                key.to_owned()
            }
        };
        section.insert(full, value.to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let credentials =
            "[default]\naws_access_key_id = a\naws_secret_access_key=b # c\n\n[other]\naws_access_key_id=o\n";
        let config = "[default]\nregion = eu\ns3 =\n  region = no\n[profile  other]\nregion=us\n# region=x\n[profile sso]\nsso_session=s\n[other]\nregion=no";
        for (name, expected) in [
            ("default", Some("aws_access_key_id=a aws_region=eu aws_secret_access_key=b # c")),
            ("other", Some("aws_access_key_id=o aws_region=us")),
            ("sso", Some("")),
            ("none", None),
        ] {
            let found = parse(credentials, config, name);
            let found = found
                .map(|found| found.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(" "));
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn endpoints_of_profiles() {
        let config = "[default]\nservices = both\n[profile special]\nendpoint_url = http://general\nservices=both\n\
                      [profile general]\nendpoint_url=http://general\nservices = other\n\
                      [profile lost]\nendpoint_url = http://general\nservices = missing\n\
                      [profile unset]\ns3 =\n  endpoint_url = http://not-read\n\
                      [services  both]\n# for tests\ndynamodb =\n  endpoint_url = http://db\ns3 = \n  # this one\n\
                      \tendpoint_url = http://s3?a=b\n  other = x\n[services other]\nec2 =\n  endpoint_url = http://ec2\n";
        for (name, expected) in [
            ("default", Some("http://s3?a=b")),
            ("special", Some("http://s3?a=b")),
            ("general", Some("http://general")),
            ("lost", Some("http://general")),
            ("unset", None),
        ] {
            let found = parse("", config, name).unwrap();
            assert_eq!(found.get("aws_endpoint").map(String::as_str), expected, "{name}");
        }
    }

    #[test]
    fn a_profile_that_is_asked_for_must_be_there() {
        let nowhere = BTreeMap::from([("HOME".to_owned(), "/not/there".to_owned())]);
        assert_eq!(load(None, &nowhere).unwrap(), None);
        assert!(load(Some("mine"), &nowhere).unwrap_err().message().contains("`mine`"));
    }
}
