//! Objects as files: whole, or a range.

use crate::http::{Head, decoded};
use crate::relay::Answer;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Returns the file of a request's target.
fn path(folder: &Path, target: &str) -> Option<PathBuf> {
    let name = decoded(target.split('?').next()?.strip_prefix('/')?);
    let inside = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| folder.join(name))
}

/// Parses `bytes=a-b`, `bytes=a-` or `bytes=-n` as a range of a file of this size; `None` if it is
/// out of bounds.
fn range(text: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first.parse::<u64>().ok(), last.parse::<u64>().ok()) {
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(size)),
        (Some(first), None) => (first, size),
        (None, Some(count)) => (size.saturating_sub(count), size),
        (None, None) => return None,
    };
    (start < end).then_some((start, end))
}

/// Returns a web server's response from these files; `whole` if it ignores ranges.
pub(crate) fn answer<'a>(folder: &Path, request: &Head, whole: bool) -> io::Result<Answer<'a>> {
    let opened = path(folder, request.word(1)).map(File::open);
    let Some(Ok(mut file)) = opened else { return Ok(Answer::error(404, "NoSuchKey", "no such file")) };
    let about = file.metadata()?;
    let size = about.len();
    let changed = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let etag = format!("\"{changed:x}-{size:x}\"");
    if request.get("if-match").is_some_and(|wanted| wanted != etag && wanted != "*") {
        return Ok(Answer::error(412, "PreconditionFailed", "the file has changed"));
    }
    let mut head = Head::new("HTTP/1.1 200 OK");
    let (mut start, mut end) = (0, size);
    if let Some(text) = request.get("range").filter(|_| !whole) {
        let Some(found) = range(text, size) else {
            return Ok(Answer::error(416, "InvalidRange", "the range lies outside"));
        };
        (start, end) = found;
        head.line = "HTTP/1.1 206 Partial Content".to_owned();
        head.set("Content-Range", format!("bytes {start}-{}/{size}", end - 1));
    }
    head.set("ETag", etag);
    head.set("Accept-Ranges", "bytes");
    head.set("Content-Length", (end - start).to_string());
    file.seek(SeekFrom::Start(start))?;
    let length = if request.word(0) == "HEAD" { 0 } else { end - start };
    Ok(Answer { head, body: Box::new(file.take(length)), length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_file() {
        assert_eq!(range("bytes=2-5", 10), Some((2, 6)));
        assert_eq!(range("bytes=2-50", 10), Some((2, 10)));
        assert_eq!(range("bytes=2-", 10), Some((2, 10)));
        assert_eq!(range("bytes=-3", 10), Some((7, 10)));
        assert_eq!(range("bytes=10-12", 10), None);
        assert_eq!(range("bytes=-", 10), None);
        assert_eq!(range("items=1-2", 10), None);
    }

    #[test]
    fn files_outside_are_not_found() {
        let folder = Path::new("/data");
        assert_eq!(path(folder, "/a/b%20c?x=1"), Some("/data/a/b c".into()));
        assert_eq!(path(folder, "/../x"), None);
        assert_eq!(path(folder, "//x"), None);
    }
}
