use super::*;

fn check(profile: Profile, toml: &str) -> Result<Profile> {
    let mut profile = profile;
    profile.apply(toml).map(|()| profile)
}

#[test]
fn user_limits() {
    let untrusted = |toml: &str| check(Profile::untrusted(), toml);
    let limits = untrusted("version = 1\n[limits]\nwall_s = 2\nmemory = \"512MiB\"\n").unwrap().limits;
    assert_eq!((limits.wall_s, limits.memory, limits.cpu_s), (2, 512 << 20, 10));
    for bad in [
        "",
        "version = 2",
        "version = 1\nsandbox = false",
        "version = 1\n[limits]\nwall_s = 0",
        "version = 1\n[limits]\nmemory = \"1TB\"",
        "version = 1\n[limits]\nmemory = \"99999999999GiB\"",
        "version = 1\n[limits]\nwall_s = -1",
    ] {
        assert!(untrusted(bad).is_err(), "{bad}");
    }
}

#[test]
fn untrusted_runs_no_native_code() {
    assert!(Profile::untrusted().allow(Backend::Cpp, None).unwrap_err().to_string().contains("not signed"));
    assert!(Profile::own().allow(Backend::Cpp, None).is_ok());
    assert!(Profile::untrusted().allow(Backend::Expression, None).is_ok());
}

#[test]
fn a_gpu_is_granted_by_itself() {
    let toml = "version = 1\n[grant]\ngpu = true";
    for profile in [Profile::own(), Profile::default_profile(), Profile::like_default("lab")] {
        let refused = profile.allow(Backend::Cuda, None).unwrap_err();
        assert_eq!(refused.kind(), crate::error::ErrorKind::Refused);
        assert!(refused.message().contains("write gpu = true below [grant] in"), "{refused}");
        let granted = check(profile, toml).unwrap();
        assert!(granted.allow(Backend::Cuda, None).is_ok());
        assert_eq!(granted.grants.describe(), "use the GPU");
    }
    assert!(check(Profile::untrusted(), toml).unwrap_err().message().contains("untrusted"));
    let stranger = Profile::untrusted().allow(Backend::Cuda, None).unwrap_err();
    assert!(stranger.message().contains("does not run cuda (native code)"), "{stranger}");
    let lua = check(Profile::own(), "version = 1\nlanguages = [\"lua\"]\n[grant]\ngpu = true").unwrap();
    assert!(lua.allow(Backend::Cuda, None).is_err());
}

#[test]
fn a_profile_says_what_it_grants_and_requires() {
    let toml = "version = 1\nlanguages = [\"lua\"]\nlua_compiler = false\nrequire = [\"netns\", \"landlock>=4\"]\n\
        [grant]\nread = [\"/data/lookup\", \"/srv/a b\"]\nwrite = [\"/data/out\"]\nimports = [\"scipy.ndimage\"]\n\
        connect = [\"Example.org:443\", \"[::1]:80\"]\nsyscalls = [\"threads\"]\n[limits]\nfile = \"1MiB\"\n";
    let profile = check(Profile::like_default("lab"), toml).unwrap();
    assert_eq!(profile.backends, [Backend::Lua]);
    assert!(!profile.jit);
    assert_eq!(profile.require, Require { layers: Layers::NETNS, landlock: 4 });
    assert_eq!(profile.grants.read, [PathBuf::from("/data/lookup"), "/srv/a b".into()]);
    assert_eq!(profile.limits.file, 1 << 20);
    assert_eq!(
        profile.grants.describe(),
        "read /data/lookup, /srv/a b; read and write /data/out; connect to example.org:443, [::1]:80; import scipy.ndimage; start threads"
    );
    assert!(profile.allow(Backend::Python, None).unwrap_err().to_string().contains("languages"));
}

#[test]
fn what_is_never_granted() {
    let home = std::env::var("HOME").unwrap();
    let config = keys::config_dir().unwrap();
    let config = config.display();
    let read = |path: &str| format!("version = 1\n[grant]\nread = [\"{path}\"]");
    let mut bad: Vec<String> =
        ["/", "/proc", "/proc/self/fd", "/dev/shm", "/sys", "relative", "/data/../etc", "", "/a\\u0000b"]
            .map(read)
            .into();
    bad.extend([
        read(&home),
        read(&format!("{home}/.ssh")),
        read(&format!("{config}/keys")),
        read("~/.ssh/config"),
    ]);
    bad.push("version = 1\n[grant]\nwrite = [\"~/.bashrc\"]".into());
    for endpoint in ["example.org", "*.example.org:443", "127.1:80", "example.org:0"] {
        bad.push(format!("version = 1\n[grant]\nconnect = [\"{endpoint}\"]"));
    }
    bad.push("version = 1\n[grant]\nsyscalls = [\"ptrace\"]".into());
    bad.push("version = 1\n[grant]\nimports = [\"os; import sys\"]".into());
    bad.push("version = 1\n[grant]\ndelete = [\"/data\"]".into());
    bad.push("version = 1\nrequire = [\"wall\"]".into());
    bad.push("version = 1\nlanguages = [\"perl\"]".into());
    for toml in &bad {
        assert!(check(Profile::default_profile(), toml).is_err(), "{toml}");
    }
    // The profile of unknown signers gets no grants.
    for toml in ["languages = [\"c++\"]", "lua_compiler = true", "[grant]\nread = [\"/data\"]"] {
        let toml = format!("version = 1\n{toml}");
        assert!(check(Profile::default_profile(), &toml).is_ok());
        assert!(check(Profile::untrusted(), &toml).unwrap_err().message().contains("untrusted"), "{toml}");
    }
    // The network is not granted to the profiles that many keys share.
    let toml = "version = 1\n[grant]\nconnect = [\"example.org:443\"]";
    for (profile, may) in [
        (Profile::untrusted(), false),
        (Profile::default_profile(), false),
        (Profile::own(), true),
        (Profile::like_default("lab"), true),
    ] {
        assert_eq!(check(profile, toml).is_ok(), may);
    }
}

#[test]
fn names_of_profiles() {
    for good in ["lab", "Lab-2", "a_b", "0"] {
        assert!(is_name(good), "{good}");
    }
    for bad in ["", "..", "a/b", "-x", "a b", "é", &"x".repeat(41)] {
        assert!(!is_name(bad), "{bad}");
    }
}

/// Checks rules of HDF5-UDF: a rule that is `false` allowed the call there.
#[test]
fn rules_of_the_reference() {
    let rules = |syscalls: &str, files: &str| {
        import(&format!(
            "{{\"sandbox\": true, \"# a comment\": 1, \"syscalls\": [{syscalls}], \"filesystem\": [{files}]}}"
        ))
        .unwrap()
    };
    let files = "{\"/data/lookup/**\": \"ro\"}, {\"/srv/a \\\"b\": \"rw\"}";
    let open = "{\"openat\": {\"arg\": 2, \"op\": \"equals\", \"value\": 0}}, {\"brk\": true}";
    let made = rules(open, files);
    assert_eq!(made.warnings, [""; 0]);
    let profile = check(Profile::default_profile(), &made.toml).unwrap();
    assert_eq!(profile.grants.read, [PathBuf::from("/data/lookup")]);
    assert_eq!(profile.grants.write, [PathBuf::from("/srv/a \"b")]);
    // A denied call removes the paths.
    let denied = rules("{\"read\": false}", files);
    assert!(!check(Profile::default_profile(), &denied.toml).unwrap().grants.has_files());
    assert_eq!(denied.warnings.len(), 1);
    let denied = rules("{\"write\": false}", files);
    let grants = check(Profile::default_profile(), &denied.toml).unwrap().grants;
    assert_eq!((grants.read.len(), grants.write.len()), (1, 0));
    for (syscalls, files, warning) in [
        ("{\"socket\": true}", "", "connect"),
        ("{\"fork\": true}", "", "processes"),
        ("{\"bpf\": true}", "", "single system calls"),
        ("{\"read\": false}", "", "every function may make this call"),
        ("", "{\"/**\": \"rw\"}", "patterns"),
        ("", "{\"/a/*.csv\": \"ro\"}", "patterns"),
        ("", "{\"/proc/**\": \"ro\"}", "never granted"),
        ("", "{\"/**/python*/site-packages/**\": \"ro\"}", "not needed"),
    ] {
        let made = rules(syscalls, files);
        assert!(made.warnings[0].contains(warning), "{syscalls} {files}: {:?}", made.warnings);
        assert_eq!(check(Profile::default_profile(), &made.toml).unwrap().grants, Grants::default());
    }
    assert!(import("{\"sandbox\": false}").unwrap().warnings[0].contains("never switched off"));
    for bad in [
        "",
        "[]",
        "{}",
        "{\"sandbox\": 1}",
        "{\"sandbox\": true, \"syscalls\": {}}",
        "{\"sandbox\": true, \"syscalls\": [3]}",
        "{\"sandbox\": true, \"syscalls\": [{\"read\": 3}]}",
        "{\"sandbox\": true, \"filesystem\": [{\"/a\": \"wo\"}]}",
    ] {
        assert!(import(bad).is_err(), "{bad}");
    }
}

/// Checks that damaged texts cause errors or other profiles, and no panics.
#[test]
fn no_text_makes_it_panic() {
    let toml = "version = 1\nlanguages = [\"lua\"]\nrequire = [\"landlock>=4\"]\n[limits]\nmemory = \"1GiB\"\n[grant]\nread = [\"/data\"]\n";
    let json =
        "{\"sandbox\": true, \"syscalls\": [{\"read\": false}], \"filesystem\": [{\"/a/**\": \"ro\"}]}";
    for (text, try_it) in
        [(toml, (|t| drop(check(Profile::default_profile(), t))) as fn(&str)), (json, |t| drop(import(t)))]
    {
        for at in 0..text.len() {
            try_it(&text[..at]);
            for byte in [b'"', b'[', b'9', b'\\', 0, b'\n'] {
                let mut changed = text.as_bytes().to_vec();
                changed[at] = byte;
                try_it(&String::from_utf8(changed).unwrap());
            }
        }
    }
}
