//! Credential files of AWS's own tools: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Keys, region and endpoint are read. Settings that need another program or a login (`credential_process`,
//! SSO, roles) are not: `aws configure export-credentials --format env` puts such credentials into the
//! environment.

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

fn parse(credentials: &str, config: &str, name: &str) -> Profile {
    let mut settings = BTreeMap::new();
    let mut known = false;
    let in_config = format!("profile {name}");
    for (text, is_config) in [(config, true), (credentials, false)] {
        let mut inside = false;
        for line in text.lines() {
            let line = line.trim_end();
            if let Some(section) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
                let section = section.0.split_whitespace().collect::<Vec<_>>().join(" ");
                inside =
                    section == name && (!is_config || name == "default") || is_config && section == in_config;
                known |= inside;
                continue;
            }
            // Indented lines belong to the setting above, such as `s3 =`. None of the settings that are read
            // here has such lines.
            if !inside || line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let full = match key.trim() {
                "aws_access_key_id" => "aws_access_key_id",
                "aws_secret_access_key" => "aws_secret_access_key",
                "aws_session_token" => "aws_session_token",
                "region" => "aws_region",
                "endpoint_url" => "aws_endpoint",
                _ => continue,
            };
            settings.insert(full.to_owned(), value.trim().to_owned());
        }
    }
    known.then_some(settings)
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
    fn a_profile_that_is_asked_for_must_be_there() {
        let nowhere = BTreeMap::from([("HOME".to_owned(), "/not/there".to_owned())]);
        assert_eq!(load(None, &nowhere).unwrap(), None);
        assert!(load(Some("mine"), &nowhere).unwrap_err().message().contains("`mine`"));
    }
}
