use super::connect::choose;
use super::*;
use std::net::{IpAddr, SocketAddr};

#[test]
fn endpoints() {
    for (text, same) in [
        ("api.example.org:443", "api.example.org:443"),
        ("API.Example.org:443", "api.example.org:443"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("[::1]:80", "[::1]:80"),
        ("[0:0::1]:080", "[::1]:80"),
        ("localhost:65535", "localhost:65535"),
        ("a_b-c.d:1", "a_b-c.d:1"),
    ] {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!(endpoint.to_string(), same);
        assert_eq!(Endpoint::parse(same).unwrap(), endpoint);
    }
    let long = format!("{}:80", "a".repeat(64));
    let longer = format!("{}b:80", "a.".repeat(127));
    for bad in [
        "",
        ":",
        ":80",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:+80",
        "host:http",
        "host:80:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[127.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "*:443",
        "*.example.org:443",
        "exa mple.org:443",
        "example.org:443\0",
        "exämple.org:443",
        "example.org/:443",
        "http://example.org:443",
        "user@example.org:443",
        ".example.org:443",
        "example..org:443",
        "example.org.:443",
        "-x:443",
        // Texts that the C library would parse as addresses.
        "127.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "127.0.0.01:80",
        "1.2.3.4.5:80",
        "example.0x7f:80",
        &long,
        &longer,
    ] {
        assert!(Endpoint::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_name_leads_into_the_public_network_or_where_an_address_is_granted() {
    let own = |address: IpAddr| address == IpAddr::from([93, 184, 216, 34]);
    let of = |endpoint: &str, found: &[&str], literal: &[&str]| {
        let found = found.iter().map(|a| SocketAddr::new(a.parse().unwrap(), 80)).collect();
        let literal: Vec<_> = literal.iter().map(|a| a.parse().unwrap()).collect();
        choose(&Endpoint::parse(endpoint).unwrap(), found, &literal, own)
            .map(|chosen| chosen.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>())
    };
    let name = "example.org:80";
    assert_eq!(of(name, &["8.8.8.8"], &[]).unwrap(), ["8.8.8.8"]);
    assert_eq!(of(name, &["127.0.0.1", "8.8.8.8", "::1"], &[]).unwrap(), ["8.8.8.8"]);
    // A public address of this machine reaches its own services.
    assert_eq!(of(name, &["93.184.216.34", "8.8.8.8"], &[]).unwrap(), ["8.8.8.8"]);
    assert!(of(name, &["93.184.216.34"], &[]).unwrap_err().message().contains("is this machine"));
    assert_eq!(of(name, &["93.184.216.34"], &["93.184.216.34"]).unwrap(), ["93.184.216.34"]);
    let refused = of(name, &["127.0.0.1"], &[]).unwrap_err();
    assert!(refused.message().contains("\"127.0.0.1:80\""), "{refused}");
    assert!(of(name, &["::1"], &["127.0.0.1"]).unwrap_err().message().contains("\"[::1]:80\""));
    assert_eq!(of(name, &["10.0.0.5", "10.0.0.6"], &["10.0.0.5"]).unwrap(), ["10.0.0.5"]);
    assert_eq!(of("10.0.0.5:80", &["10.0.0.5"], &[]).unwrap(), ["10.0.0.5"]);
    assert_eq!(of("localhost:80", &["::1", "127.0.0.1"], &[]).unwrap(), ["::1", "127.0.0.1"]);
    // Not even a public one: the name denotes only this machine.
    assert!(of("localhost:80", &["8.8.8.8"], &[]).is_err());
    assert!(of(name, &[], &[]).is_err());
}

#[test]
fn what_is_not_granted_is_refused_and_too_much_ends_it() {
    let granted = [Endpoint::parse("example.org:443").unwrap()];
    // There is no such program: refused requests start none.
    let mut broker = Broker::new("/nonexistent".into(), &granted, "lab");
    let second = std::time::Duration::from_secs(1);
    for asked in ["example.org:80", "example.com:443", "sub.example.org:443", "127.0.0.1:443", "junk\0", ""] {
        let error = broker.connect(asked, second).unwrap().unwrap_err();
        assert!(
            error.message().contains("does not grant") || error.message().contains("no endpoint"),
            "{error}"
        );
    }
    for _ in 6..MAX_CONNECTIONS {
        assert!(broker.connect("example.com:443", second).unwrap().is_err());
    }
    assert!(broker.connect("example.com:443", second).is_err());
    broker.next_evaluation();
    assert!(
        broker.connect("EXAMPLE.org:443", second).unwrap().unwrap_err().message().contains("nonexistent")
    );
}
