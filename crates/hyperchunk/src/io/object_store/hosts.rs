//! Cache of the addresses of hosts, against DNS rebinding. A host name that had a public address when a file
//! was opened must not lead into the reader's own network later, while the file is open: otherwise the host's
//! DNS server could direct a redirect, or the next request, to any service there.
//!
//! **Rule.** Connections are allowed to the addresses of the first lookup, and to public addresses of later
//! ones. Once a public address has answered, they are allowed to public addresses only. If a later lookup
//! returns no allowed address, the cached ones are used.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use url::{Host as UrlHost, Url};

/// Number of cached hosts from which on those without open files are evicted.
const MAX_HOSTS: usize = 64;

/// Cached addresses of a host name. They need no lock, which a fork could leave locked.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The addresses of the first lookup.
    first: OnceLock<Vec<IpAddr>>,
    /// The address that answered first, and whether it is in the public network.
    answered: OnceLock<(IpAddr, bool)>,
}

impl Host {
    /// Records that an address answered.
    pub(super) fn answered(&self, by: IpAddr) {
        self.answered.get_or_init(|| (by, is_elsewhere(by)));
    }

    /// Returns the addresses to connect to, given those that a lookup returned.
    fn choose(&self, found: Vec<IpAddr>) -> Vec<IpAddr> {
        let first = self.first.get_or_init(|| found.clone());
        let answered = self.answered.get();
        let may = |address: &IpAddr| {
            let is_known = match answered {
                Some((by, true)) => address == by,
                Some((by, false)) => address == by || first.contains(address),
                None => first.contains(address),
            };
            is_known || is_elsewhere(*address)
        };
        let chosen: Vec<IpAddr> = found.into_iter().filter(may).collect();
        if !chosen.is_empty() {
            return chosen;
        }
        let known = answered.map(|(by, _)| *by).filter(|by| !first.contains(by));
        first.iter().copied().filter(may).chain(known).collect()
    }
}

/// The hosts of this process's open files.
#[derive(Debug, Default)]
pub(super) struct Hosts(Mutex<HashMap<String, Weak<Host>>>);

impl Hosts {
    /// Returns the host of a name, which stays cached as long as the result lives. If it is not cached yet,
    /// as in a forked child, `before` is added.
    fn keep(&self, name: &str, before: Option<&Arc<Host>>) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(name).and_then(Weak::upgrade) {
            return host;
        }
        let host = before.map_or_else(Arc::default, Arc::clone);
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| host.strong_count() > 0);
        }
        hosts.insert(name.to_owned(), Arc::downgrade(&host));
        host
    }

    /// Returns the host of a URL; `None` if the URL contains an address instead of a name.
    pub(super) fn of(&self, url: &Url) -> Option<Arc<Host>> {
        name(url).map(|name| self.keep(name, None))
    }

    fn known(&self, name: &str) -> Option<Arc<Host>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).and_then(Weak::upgrade)
    }
}

fn name(url: &Url) -> Option<&str> {
    match url.host() {
        Some(UrlHost::Domain(name)) => Some(name),
        _ => None,
    }
}

/// The host of an open file.
#[derive(Debug)]
pub(super) struct FileHost {
    name: String,
    host: OnceLock<Arc<Host>>,
}

impl FileHost {
    /// Returns the host of a URL; `None` if the URL contains an address instead of a name.
    pub(super) fn of(url: &str) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        name(&url).map(|name| Self { name: name.to_owned(), host: OnceLock::new() })
    }

    /// Caches the host from now on. Called before each request, because the process may be a forked child.
    pub(super) fn keep(&self, hosts: &Hosts) {
        let host = hosts.keep(&self.name, self.host.get());
        self.host.get_or_init(|| host);
    }
}

/// DNS resolver that applies the rule to the hosts of open files. Other names, such as a proxy's, are looked
/// up as usual.
#[derive(Debug)]
pub(super) struct HostResolver(pub(super) Arc<Hosts>);

impl Resolve for HostResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = self.0.known(name.as_str());
        Box::pin(async move {
            let found = look_up(name.as_str()).await?;
            let chosen = match host {
                Some(host) => host.choose(found),
                None => found,
            };
            Ok(addresses(chosen))
        })
    }
}

pub(super) fn addresses(found: Vec<IpAddr>) -> Addrs {
    Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)))
}

pub(super) async fn look_up(name: &str) -> std::io::Result<Vec<IpAddr>> {
    #[cfg(test)]
    if let Some(found) = tests::planned(name) {
        return Ok(found);
    }
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

/// Returns whether an address belongs to another machine in the public network.
pub(super) fn is_elsewhere(address: IpAddr) -> bool {
    #[cfg(test)]
    if tests::is_pretended(address) {
        return true;
    }
    hyperchunk_net::is_elsewhere(address)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Answers of lookups that tests planned: the first is given until there is another one.
    static PLANNED: Mutex<Vec<(String, Vec<Vec<IpAddr>>)>> = Mutex::new(Vec::new());

    fn parsed(addresses: &[&str]) -> Vec<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    /// Sets what the lookups of a name yield, one after another; the last one again and again.
    pub(crate) fn plan(name: &str, answers: &[&[&str]]) {
        let answers = answers.iter().rev().map(|found| parsed(found)).collect();
        PLANNED.lock().unwrap().push((name.to_owned(), answers));
    }

    pub(super) fn planned(name: &str) -> Option<Vec<IpAddr>> {
        let mut planned = PLANNED.lock().unwrap();
        let (_, answers) = planned.iter_mut().find(|(known, _)| known == name)?;
        if answers.len() > 1 { answers.pop() } else { answers.last().cloned() }
    }

    /// Returns the number of lookups of a name that are still to come.
    pub(crate) fn left(name: &str) -> usize {
        PLANNED.lock().unwrap().iter().find(|(known, _)| known == name).map_or(0, |(_, left)| left.len())
    }

    /// Returns whether tests pretend that an address of this machine is another one in the public network.
    pub(super) fn is_pretended(address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if address.octets().starts_with(&[127, 77]))
    }

    #[track_caller]
    fn check(lookups: &[(&[&str], &[&str])], answered: Option<(usize, &str)>) {
        let host = Host::default();
        for (number, (found, expected)) in lookups.iter().enumerate() {
            if let Some((_, by)) = answered.filter(|(before, _)| *before == number) {
                host.answered(by.parse().unwrap());
            }
            assert_eq!(host.choose(parsed(found)), parsed(expected), "lookup {number}");
        }
    }

    const PUBLIC: &[&str] = &["8.8.8.8"];
    const OTHER: &[&str] = &["9.9.9.9"];
    const HERE: &[&str] = &["127.0.0.1"];
    const NEAR: &[&str] = &["10.0.0.5"];

    #[test]
    fn a_public_host_stays_public() {
        check(&[(PUBLIC, PUBLIC), (HERE, PUBLIC), (NEAR, PUBLIC), (OTHER, OTHER)], Some((1, "8.8.8.8")));
        check(&[(PUBLIC, PUBLIC), (HERE, PUBLIC), (&["10.0.0.5", "9.9.9.9"], OTHER)], None);
        // Both at first: who answers decides.
        let both: &[&str] = &["127.0.0.1", "8.8.8.8"];
        check(&[(both, both), (both, PUBLIC), (HERE, PUBLIC)], Some((1, "8.8.8.8")));
        check(&[(both, both), (both, both), (HERE, HERE), (NEAR, both)], Some((1, "127.0.0.1")));
        // A connection that was open before the file.
        check(&[(HERE, PUBLIC), (OTHER, OTHER)], Some((0, "8.8.8.8")));
    }

    #[test]
    fn a_host_in_the_own_network_stays_where_it_is() {
        check(&[(NEAR, NEAR), (HERE, NEAR), (&["10.0.0.6"], NEAR), (PUBLIC, PUBLIC)], Some((1, "10.0.0.5")));
        check(&[(HERE, HERE), (&["169.254.169.254"], HERE), (HERE, HERE)], Some((1, "127.0.0.1")));
    }

    #[test]
    fn hosts_are_remembered_as_long_as_their_files_are_open() {
        let hosts = Hosts::default();
        let one = FileHost::of("http://a.test:80/x").unwrap();
        assert!(FileHost::of("http://127.0.0.1/x").is_none() && FileHost::of("http://[::1]/x").is_none());
        one.keep(&hosts);
        let host = hosts.known("a.test").unwrap();
        host.answered("8.8.8.8".parse().unwrap());
        drop(host);
        // A child process has hosts of its own, and the open file.
        let child = Hosts::default();
        one.keep(&child);
        assert!(child.known("a.test").unwrap().answered.get().is_some());
        drop(one);
        assert!(hosts.known("a.test").is_none());
        for number in 0..2 * MAX_HOSTS {
            drop(hosts.keep(&number.to_string(), None));
        }
        assert!(hosts.0.lock().unwrap().len() <= MAX_HOSTS);
    }
}
