use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hyperchunk-output-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn whole_or_not_at_all() {
    let folder = Scratch::new("whole");
    let path = folder.0.join("a");
    write(&path, b"old", false).unwrap();
    let mut output = Output::create(&path, true).unwrap();
    output.write_all(b"half").unwrap();
    assert_eq!(folder.names().len(), 2);
    drop(output);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["a"]);
    let error = write(&path, b"new", false).unwrap_err();
    assert!(error.to_string().contains("--overwrite replaces it"), "{error}");
    write(&path, b"new", true).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn a_file_that_appears_meanwhile_stays() {
    let folder = Scratch::new("meanwhile");
    let path = folder.0.join("a");
    let mut output = Output::create(&path, false).unwrap();
    output.write_all(b"mine").unwrap();
    std::fs::write(&path, b"theirs").unwrap();
    output.finish().unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn another_file_in_the_place_of_the_unfinished_one_is_not_taken() {
    let folder = Scratch::new("exchanged");
    let path = folder.0.join("a");
    let mut output = Output::create(&path, true).unwrap();
    output.write_all(b"mine").unwrap();
    let unfinished = folder.0.join(&folder.names()[0]);
    std::fs::remove_file(&unfinished).unwrap();
    std::fs::write(&unfinished, b"theirs").unwrap();
    output.finish().unwrap_err();
    assert!(!path.exists());
}

#[test]
fn links_are_replaced_and_pipes_stay() {
    let folder = Scratch::new("links");
    let (link, victim) = (folder.0.join("link"), folder.0.join("victim"));
    std::fs::write(&victim, "five years of work").unwrap();
    for to in ["victim", "nowhere"] {
        drop(std::fs::remove_file(&link));
        symlink(to, &link).unwrap();
        write(&link, b"no", false).unwrap_err();
        assert!(link.is_symlink());
        write(&link, b"new", true).unwrap();
        assert!(!link.is_symlink());
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
        assert_eq!(std::fs::read(&victim).unwrap(), b"five years of work");
        assert!(!folder.0.join("nowhere").exists());
    }
    let pipe = folder.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).unwrap()
    });
    write(&pipe, b"through", false).unwrap();
    assert_eq!(reader.join().unwrap(), b"through");
    assert!(is_stream(&pipe));
    write(&folder.0, b"no", true).unwrap_err();
}

#[test]
fn inputs_are_refused_by_every_name() {
    let folder = Scratch::new("inputs");
    let input = folder.0.join("in");
    std::fs::write(&input, "x").unwrap();
    let (soft, hard) = (folder.0.join("soft"), folder.0.join("hard"));
    symlink("in", &soft).unwrap();
    std::fs::hard_link(&input, &hard).unwrap();
    for name in [&input, &soft, &hard, &folder.0.join(".").join("in")] {
        for overwrite in [false, true] {
            let error = check(name, overwrite, &[&input]).unwrap_err();
            assert!(error.to_string().contains("is an input of this command"), "{error}");
        }
    }
    check(&folder.0.join("out"), false, &[&input]).unwrap();
}

#[test]
fn unfinished_file_is_not_more_open_than_the_old_one() {
    let folder = Scratch::new("unfinished");
    let path = folder.0.join("a");
    std::fs::write(&path, "old").unwrap();
    let (place, name) = Folder::open_parent(&path).unwrap();
    for (mode, first) in [(0o600, 0o600), (0o640, 0o600), (0o444, 0o404), (0o755, 0o604)] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(first_mode(&place.look(&name).unwrap()), first);
        let output = Output::create(&path, true).unwrap();
        let unfinished = output.file.as_ref().unwrap().metadata().unwrap();
        assert_eq!(unfinished.permissions().mode() & 0o777, mode);
    }
    std::fs::remove_file(&path).unwrap();
    symlink("elsewhere", &path).unwrap();
    assert_eq!(first_mode(&place.look(&name).unwrap()), 0o666);
}

#[test]
fn group_of_what_is_replaced_stays() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let folder = Scratch::new("group");
    let (path, other) = (folder.0.join("a"), folder.0.join("b"));
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    // Only root may choose any group and any owner.
    if chown(&path, None, Some(12345)).is_err() {
        return;
    }
    write(&path, b"new", true).unwrap();
    let new = path.metadata().unwrap();
    assert_eq!((new.gid(), new.mode() & 0o777), (12345, 0o640));
    // In place of another user's file, it has the group, and no permission that the old one lacked.
    for mode in [0o600, 0o640, 0o644] {
        std::fs::write(&other, "old").unwrap();
        std::fs::set_permissions(&other, Permissions::from_mode(mode)).unwrap();
        chown(&other, Some(12345), Some(12345)).unwrap();
        write(&other, b"new", true).unwrap();
        let new = other.metadata().unwrap();
        assert_eq!((new.uid(), new.gid()), (companion::effective_user(), 12345));
        assert_eq!(new.mode() & 0o777 & !mode, 0);
    }
}

#[test]
fn permissions_of_what_is_replaced_stay() {
    let folder = Scratch::new("permissions");
    let path = folder.0.join("a");
    for mode in [0o600, 0o640, 0o444] {
        drop(std::fs::remove_file(&path));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        write(&path, b"new", true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn long_names_are_no_trouble() {
    let folder = Scratch::new("long");
    let path = folder.0.join("x".repeat(255));
    write(&path, b"new", false).unwrap();
    assert_eq!(folder.names(), ["x".repeat(255)]);
}

#[test]
fn own_links_lead_to_their_target() {
    let folder = Scratch::new("target");
    let link = folder.0.join("link");
    symlink("file", &link).unwrap();
    assert_eq!(target(&link).unwrap(), folder.0.join("file"));
    assert_eq!(target(&folder.0.join("file")).unwrap(), folder.0.join("file"));
    let round = folder.0.join("round");
    symlink("round", &round).unwrap();
    target(&round).unwrap_err();
}

#[test]
fn folders_appear_whole() {
    let folder = Scratch::new("folder");
    let path = folder.0.join("out");
    let new = NewFolder::create(&path, false).unwrap();
    assert_eq!(std::fs::metadata(new.path()).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::write(new.path().join("a"), "1").unwrap();
    drop(new);
    assert!(folder.names().is_empty());
    for (replace, text) in [(false, "1"), (true, "2")] {
        let new = NewFolder::create(&path, replace).unwrap();
        std::fs::write(new.path().join("a"), text).unwrap();
        new.finish().unwrap();
        assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), text);
        assert_eq!(folder.names(), ["out"]);
    }
    NewFolder::create(&path, false).unwrap_err();
    let old = folder.0.join("old");
    std::fs::rename(&path, &old).unwrap();
    symlink("old", &path).unwrap();
    let new = NewFolder::create(&path, true).unwrap();
    std::fs::write(new.path().join("b"), "3").unwrap();
    new.finish().unwrap();
    assert!(old.join("a").exists() && path.join("b").exists() && !path.is_symlink());
}

#[test]
fn test_a_folder_does_not_replace_what_is_in_use_or_protected() {
    let folder = Scratch::new("folder-in-use");
    let path = folder.0.join("out");
    std::fs::write(&path, "precious").unwrap();
    let writer = File::options().write(true).open(&path).unwrap();
    writer.try_lock().unwrap();
    assert_eq!(NewFolder::create(&path, true).unwrap_err().kind(), ErrorKind::Locked);
    writer.unlock().unwrap();
    let new = NewFolder::create(&path, true).unwrap();
    // A program begins to write it meanwhile.
    writer.try_lock().unwrap();
    assert_eq!(new.finish().unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(
        (folder.names(), std::fs::read(&path).unwrap()),
        (vec!["out".to_owned()], b"precious".to_vec())
    );
    drop(writer);
    NewFolder::create(&path, true).unwrap().finish().unwrap();
    assert!(path.is_dir());
    if companion::effective_user() != 0 {
        // Root may write everywhere.
        std::fs::set_permissions(&path, Permissions::from_mode(0o500)).unwrap();
        let error = NewFolder::create(&path, true).unwrap_err();
        assert!(error.to_string().contains("cannot replace the folder"), "{error}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(folder.names(), ["out"]);
}

#[test]
fn test_a_name_never_lacks_a_folder_while_it_is_replaced() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = Scratch::new("exchanged");
    let path = folder.0.join("out");
    let replace = |number: u32| {
        let new = NewFolder::create(&path, number > 0).unwrap();
        std::fs::write(new.path().join("a"), number.to_string()).unwrap();
        new.finish().unwrap();
    };
    replace(0);
    let done = AtomicBool::new(false);
    let lacking = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut lacking = 0;
            while !done.load(Ordering::Relaxed) {
                lacking += u32::from(path.symlink_metadata().is_err());
            }
            lacking
        });
        (1..=2000).for_each(replace);
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert_eq!(lacking, 0, "a process killed at such a moment leaves no folder of that name");
    assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "2000");
    assert_eq!(folder.names(), ["out"]);
}

#[test]
fn test_names_are_exchanged_where_the_system_cannot() {
    let folder = Scratch::new("renamed");
    let (handle, name) = Folder::open_parent(&folder.0.join("out")).unwrap();
    let new = temporary(&name);
    for (path, text) in [(&name, "old"), (&new, "new")] {
        std::fs::create_dir(folder.0.join(path)).unwrap();
        std::fs::write(folder.0.join(path).join("a"), text).unwrap();
    }
    let text = |name: &OsStr| std::fs::read_to_string(folder.0.join(name).join("a")).unwrap();
    exchange_by_renaming(&handle, &new, &name).unwrap();
    assert_eq!((text(&name), text(&new)), ("new".to_owned(), "old".to_owned()));
    assert_eq!(folder.names().len(), 2);
    // What cannot be replaced stays.
    exchange_by_renaming(&handle, OsStr::new("absent"), &name).unwrap_err();
    assert_eq!((text(&name), folder.names().len()), ("new".to_owned(), 2));
}

#[test]
fn test_missing_folders_are_made() {
    let folder = Scratch::new("missing");
    for name in ["a/b/c", "a/b/c", "d/../e", "a"] {
        make_folders(&folder.0.join(name)).unwrap();
        assert!(folder.0.join(name).is_dir(), "{name}");
    }
    symlink(folder.0.join("a"), folder.0.join("link")).unwrap();
    make_folders(&folder.0.join("link/x/y")).unwrap();
    assert!(folder.0.join("a/x/y").is_dir());
    make_folders(Path::new("")).unwrap();
    std::fs::write(folder.0.join("file"), "").unwrap();
    symlink(folder.0.join("none"), folder.0.join("dangling")).unwrap();
    for name in ["file", "file/x", "dangling", "dangling/x"] {
        let error = make_folders(&folder.0.join(name)).unwrap_err().to_string();
        assert!(error.contains("cannot make the folder"), "{name}: {error}");
    }
    assert!(!folder.0.join("none").exists());
}

#[test]
fn test_a_complete_file_gets_its_name() {
    let folder = Scratch::new("put");
    let (made, path, victim) = (folder.0.join("made"), folder.0.join("a"), folder.0.join("victim"));
    let make = || std::fs::write(&made, "new").unwrap();
    make();
    publish(&made, &path, false).unwrap();
    make();
    assert_eq!(publish(&made, &path, false).unwrap_err().kind(), ErrorKind::Exists);
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    publish(&made, &path, true).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // A link is replaced, and its target stays.
    std::fs::write(&victim, "five years of work").unwrap();
    std::fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    make();
    publish(&made, &path, true).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "five years of work");
    assert_eq!(folder.names(), ["a", "victim"]);
}
