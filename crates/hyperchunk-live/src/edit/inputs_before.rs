//! Live datasets whose inputs an edit moves, removes or replaces. Their records are signed, so they keep the old
//! paths.

use crate::copies;
use hyperchunk::model::{Name, ObjectKind};
use hyperchunk::pack::LiveInput;
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::write::{NodeId, Target, Writer};

/// Maximum number of links that are followed to find live datasets. In a larger file that would take longer than
/// the edit, and none are found.
const MAX_LINKS: usize = 10_000;

/// Input of a live dataset before an edit.
#[derive(Debug)]
struct Before {
    live: NodeId,
    input: LiveInput,
    target: Target,
}

/// The inputs of a file's live datasets before an edit.
#[derive(Debug, Default)]
pub struct InputsBefore(Vec<Before>);

impl InputsBefore {
    /// Finds the inputs. What cannot be read is omitted.
    #[must_use]
    pub fn find(writer: &Writer) -> Self {
        match search(writer) {
            Ok(Some(found)) => Self(found),
            _ => Self::default(),
        }
    }

    /// Returns a note for each input that has been moved, removed or replaced since.
    #[must_use]
    pub fn notes(&self, writer: &Writer) -> Vec<String> {
        let mut notes = Vec::new();
        for Before { live, input, target } in &self.0 {
            let now = writer.resolve(NodeId::ROOT, input.absolute().as_bytes()).ok();
            if now.as_ref() == Some(target) {
                continue;
            }
            // A live dataset that was removed, too, reads nothing.
            let Ok(Some(path)) = writer.find_path(*live) else { continue };
            let reads =
                format!("live dataset {} reads {}", Name::from(&*path), Name::from(input.name.as_bytes()));
            notes.push(match now {
                None => format!(
                    "{reads}, which is not there any more: put it back, or attach the live dataset again \
                     (`hyperchunk udf attach`)"
                ),
                Some(_) => format!(
                    "{reads}, which is another {} now: attach it again (`hyperchunk udf attach`)",
                    input.noun()
                ),
            });
        }
        notes
    }
}

fn search(writer: &Writer) -> hyperchunk::Result<Option<Vec<Before>>> {
    let file = writer.snapshot()?;
    let root = file.root()?;
    let mut found = Vec::new();
    let mut links = 0;
    file.walk(&root, b"/", &mut |visit: Visit<'_>| {
        links += 1;
        if links > MAX_LINKS {
            return Ok(Next::Stop);
        }
        let VisitedItem::Object(object) = &visit.found else { return Ok(Next::Enter) };
        if object.kind() != ObjectKind::Dataset {
            return Ok(Next::Enter);
        }
        let Some(dataset) = object.dataset().ok().filter(|dataset| dataset.is_live()) else {
            return Ok(Next::Enter);
        };
        let Ok(Target::Here(live)) = writer.resolve(NodeId::ROOT, visit.path) else { return Ok(Next::Enter) };
        for input in copies::inputs(&dataset).unwrap_or_default() {
            if let Ok(target) = writer.resolve(NodeId::ROOT, input.absolute().as_bytes()) {
                found.push(Before { live, input, target });
            }
        }
        Ok(Next::Enter)
    })?;
    Ok(Some(found).filter(|_| links <= MAX_LINKS))
}
