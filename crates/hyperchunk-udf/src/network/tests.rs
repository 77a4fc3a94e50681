use super::*;

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
