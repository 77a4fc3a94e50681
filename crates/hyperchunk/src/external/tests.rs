//! Which file a name leads to, and that no other one is read: not the next candidate, and not one that a
//! link leads to which was planted between the check and the opening.

use super::*;
use crate::write::{CreateOptions, DatasetOptions, NewLayout, NewLink, NodeId, Writer};
use crate::{OpenOptions, live};
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype, ExternalFile};
use hyperchunk_format::select::Selection;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: usize = 4;

/// `home/secret`, which is not for the author of `data/m.h5`, and `data/in`, which is.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hyperchunk-external-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("data")).unwrap();
        fs::create_dir_all(folder.join("home")).unwrap();
        for (name, text) in [("home/secret", "SSSS"), ("home/in", "SSSS"), ("data/in", "good")] {
            fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes `data/m.h5`, whose dataset `a` has its data in the file `name`, and a link to one of `file.h5`.
    fn file(&self, name: &str) -> PathBuf {
        let path = self.at("data/m.h5");
        raw(&path, name);
        path
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn raw(path: &Path, name: &str) {
    drop(fs::remove_file(path));
    let files = vec![ExternalFile { name: name.into(), offset: 0, size: Some(SIZE as u64) }];
    let space = Dataspace::Simple { dims: vec![SIZE as u64], max: vec![Some(SIZE as u64)] };
    let datatype = Datatype::integer(1, false, ByteOrder::Little);
    let options = DatasetOptions::new(datatype, space).with_layout(NewLayout::External(files));
    let writer = Writer::create(path, &CreateOptions::default()).unwrap();
    writer.create_dataset(NodeId::ROOT, b"a", options).unwrap();
    let link = NewLink::External { file: "other.h5".into(), path: "/a".into() };
    writer.link(NodeId::ROOT, b"link", link).unwrap();
    writer.close().unwrap();
}

fn open(path: &Path) -> File {
    File::open(path, &OpenOptions::default()).unwrap()
}

fn read(file: &File, name: &str) -> Result<String> {
    let dataset = file.root()?.named("/").group()?.get(name.as_bytes())?.dataset()?;
    let mut values = vec![0; SIZE];
    dataset.read(&Selection::All, &mut values)?;
    Ok(String::from_utf8(values).unwrap())
}

fn as_input(file: &File, name: &str) -> Result<String> {
    live::with_inputs(ExternalPolicy::Beside, || read(file, name))
}

#[test]
fn the_first_candidate_decides() {
    let scene = Scene::new("first");
    let secret = scene.at("home/in");
    let path = scene.file(secret.to_str().unwrap());
    assert_eq!(read(&open(&path), "a").unwrap(), "SSSS");
    let error = as_input(&open(&path), "a").unwrap_err();
    assert!(error.to_string().contains("outside this file's folder (`inputs` of the profile)"), "{error}");
    assert!(error.to_string().contains(secret.to_str().unwrap()), "{error}");
    for external in [ExternalPolicy::Beside, ExternalPolicy::Listed] {
        let options = OpenOptions { external, ..OpenOptions::default() };
        let error = read(&File::open(&path, &options).unwrap(), "a").unwrap_err();
        assert!(error.to_string().contains("outside this file's folder"), "{error}");
    }
    // A link that leads out of the folder, and something that is no file.
    let path = scene.file("in");
    fs::remove_file(scene.at("data/in")).unwrap();
    symlink(&secret, scene.at("data/in")).unwrap();
    assert!(as_input(&open(&path), "a").is_err());
    fs::remove_file(scene.at("data/in")).unwrap();
    fs::create_dir(scene.at("data/in")).unwrap();
    let error = as_input(&open(&path), "a").unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");
}

#[test]
fn what_is_not_there_is_looked_for_beside() {
    let scene = Scene::new("beside");
    let path = scene.file(scene.at("gone/in").to_str().unwrap());
    assert_eq!(as_input(&open(&path), "a").unwrap(), "good");
    let path = scene.file(scene.at("data/in").to_str().unwrap());
    assert_eq!(as_input(&open(&path), "a").unwrap(), "good");
    // Neither there nor beside.
    let path = scene.file(scene.at("gone/none").to_str().unwrap());
    let error = as_input(&open(&path), "a").unwrap_err();
    assert!(error.to_string().contains("outside this file's folder (`inputs` of the profile)"), "{error}");
}

#[test]
fn what_exists_nowhere_is_not_found() {
    let scene = Scene::new("nowhere");
    let file = open(&scene.file("in"));
    let kind = |name: &str| {
        let opened = || file.0.external.open_raw(&file, &name.into()).map(drop);
        live::with_inputs(ExternalPolicy::Beside, opened).map_err(|error| error.kind())
    };
    assert_eq!(kind("in"), Ok(()));
    assert_eq!(kind("none"), Err(ErrorKind::NotFound));
    assert_eq!(kind("sub/none"), Err(ErrorKind::NotFound));
    assert_eq!(kind(scene.at("data/none").to_str().unwrap()), Err(ErrorKind::NotFound));
    // A name that leads out of the folder does not show whether the file exists.
    assert_eq!(kind("../home/none"), Err(ErrorKind::Refused));
    assert_eq!(kind("../home/secret"), Err(ErrorKind::Refused));
    // Neither does one in the working folder, which is that of this crate.
    assert!(Path::new("Cargo.toml").exists());
    assert_eq!(kind("Cargo.toml"), Err(ErrorKind::NotFound));
    assert!(file.0.external.open_raw(&file, &"Cargo.toml".into()).is_ok());
    // But a name from the working folder may lead into the folder.
    let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let root: PathBuf = std::env::current_dir().unwrap().components().take(1).collect();
    let from_here = |name: &str| up.join(scene.at(name).strip_prefix(&root).unwrap());
    assert_eq!(kind(from_here("data/in").to_str().unwrap()), Ok(()));
    let messages = ["home/secret", "home/none"].map(|name| {
        let opened = || file.0.external.open_raw(&file, &from_here(name).to_str().unwrap().into()).map(drop);
        let error = live::with_inputs(ExternalPolicy::Beside, opened).unwrap_err().to_string();
        error.replace(name, "NAME")
    });
    assert_eq!(messages[0], messages[1]);
    assert!(messages[0].contains("outside this file's folder (`inputs` of the profile)"), "{}", messages[0]);
}

#[test]
fn what_was_opened_without_rules_is_no_input() {
    let scene = Scene::new("lax");
    let path = scene.file("in");
    raw(&scene.at("home/other.h5"), scene.at("home/secret").to_str().unwrap());
    raw(&scene.at("data/near.h5"), "in");
    fs::remove_file(scene.at("data/in")).unwrap();
    let plant = |to: &str, name: &str| {
        drop(fs::remove_file(scene.at(name)));
        symlink(scene.at(to), scene.at(name)).unwrap();
    };
    fs::write(scene.at("data/right"), "good").unwrap();
    let file = open(&path);
    plant("home/secret", "data/in");
    plant("home/other.h5", "data/other.h5");
    assert_eq!(read(&file, "a").unwrap(), "SSSS");
    assert_eq!(read(&file, "link").unwrap(), "SSSS");
    plant("data/right", "data/in");
    plant("data/near.h5", "data/other.h5");
    assert_eq!(as_input(&file, "a").unwrap(), "good");
    assert_eq!(as_input(&file, "link").unwrap(), "good");
    // The reader's own reads stay what they were.
    assert_eq!(read(&file, "a").unwrap(), "SSSS");
}

#[test]
fn one_file_is_opened_once() {
    let scene = Scene::new("once");
    let path = scene.file("in");
    raw(&scene.at("data/other.h5"), "in");
    for inputs_first in [false, true] {
        let file = open(&path);
        let other = |as_input: bool| {
            let find = || file.0.external.open(&file, &"other.h5".into()).unwrap();
            if as_input { live::with_inputs(ExternalPolicy::Beside, find) } else { find() }
        };
        assert!(other(inputs_first).same(&other(!inputs_first)));
    }
}

/// The working folder is the process's, so that a test cannot change it while others run.
#[test]
fn the_place_of_a_relative_path_is_absolute() {
    let scene = Scene::new("relative");
    let path = scene.file("in");
    let source: Arc<dyn Source> = Arc::new(LocalFile::open(&path).unwrap());
    let file = File::from_source(source, Some("data/m.h5".into()), &OpenOptions::default()).unwrap();
    assert_eq!(file.path(), Some(Path::new("data/m.h5")));
    let here = std::env::current_dir().unwrap();
    assert_eq!(file.located(), Some(&*here.join("data/m.h5")));
    assert_eq!(file.0.external.home.candidates(Path::new("in"))[0], here.join("data/in"));
    let bytes: Arc<dyn Source> = Arc::new(crate::io::Memory::new(fs::read(&path).unwrap()));
    let url = "https://example.org/data/m.h5";
    let file = File::from_source(bytes, Some(url.into()), &OpenOptions::default()).unwrap();
    assert_eq!(file.located(), Some(Path::new(url)));
}

#[test]
fn the_folder_is_the_one_that_the_file_is_in() {
    let scene = Scene::new("folder");
    let path = scene.file("in");
    let file = open(&path);
    fs::rename(scene.at("data"), scene.at("moved")).unwrap();
    symlink(scene.at("home"), scene.at("data")).unwrap();
    let error = as_input(&file, "a").unwrap_err();
    assert!(error.to_string().contains("folder"), "{error}");
    // Also if a file has that name there.
    fs::write(scene.at("home/m.h5"), "").unwrap();
    assert!(as_input(&file, "a").is_err());
    fs::remove_file(scene.at("data")).unwrap();
    fs::rename(scene.at("moved"), scene.at("data")).unwrap();
    assert_eq!(as_input(&file, "a").unwrap(), "good");
}

/// Exchanges two names again and again while `work` runs.
fn while_exchanged(folder: &Path, (one, other): (&str, &str), work: impl FnOnce()) {
    let (folder, _) = crate::output::Folder::open_parent(&folder.join(one)).unwrap();
    if folder.exchange(one.as_ref(), other.as_ref()).is_err() {
        return;
    }
    folder.exchange(one.as_ref(), other.as_ref()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                folder.exchange(one.as_ref(), other.as_ref()).unwrap();
            }
        });
        // Also if it panics.
        let _guard = DoneGuard(&done);
        work();
    });
}

struct DoneGuard<'a>(&'a AtomicBool);

impl Drop for DoneGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn never_the_secret(path: &Path, name: &str) {
    let (mut right, mut refused) = (0, 0);
    for _ in 0..4000 {
        match as_input(&open(path), name) {
            Ok(text) => {
                assert_eq!(text, "good", "{name}");
                right += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(right > 0 && refused > 0, "{right} right, {refused} refused");
}

#[test]
fn an_input_that_is_exchanged_for_a_link_is_not_followed() {
    let scene = Scene::new("race");
    let path = scene.file("in");
    symlink(scene.at("home/secret"), scene.at("data/link")).unwrap();
    while_exchanged(&scene.at("data"), ("in", "link"), || never_the_secret(&path, "a"));
}

#[test]
fn a_folder_that_is_exchanged_for_a_link_is_not_followed() {
    let scene = Scene::new("race-folder");
    let path = scene.file("sub/in");
    fs::create_dir(scene.at("data/sub")).unwrap();
    fs::rename(scene.at("data/in"), scene.at("data/sub/in")).unwrap();
    symlink(scene.at("home"), scene.at("data/link")).unwrap();
    while_exchanged(&scene.at("data"), ("sub", "link"), || never_the_secret(&path, "a"));
}

#[test]
fn an_hdf5_file_that_is_exchanged_for_a_link_is_not_followed() {
    let scene = Scene::new("race-hdf5");
    let path = scene.file("in");
    raw(&scene.at("data/other.h5"), "in");
    raw(&scene.at("home/other.h5"), scene.at("data/SSSS").to_str().unwrap());
    fs::write(scene.at("data/SSSS"), "SSSS").unwrap();
    symlink(scene.at("home/other.h5"), scene.at("data/link.h5")).unwrap();
    while_exchanged(&scene.at("data"), ("other.h5", "link.h5"), || never_the_secret(&path, "link"));
}
