//! Messages of a group's header.

use super::auxiliary::Auxiliary;
use super::commit::{MAX_COMPACT_ITEMS, MAX_MESSAGE_BYTES, constant, plain};
use super::tree::{GroupNode, Node, NodeId};
use crate::{Error, Result};
use hyperchunk_format::encode::message::{self, link_info::LinkInfo};
use hyperchunk_format::encode::{group, object_header::Message};
use hyperchunk_format::parse::message::group_info::GroupInfo;

/// Returns the messages of a group. Links that do not fit into its header are stored outside of it, which is
/// an error if the header is sealed (its checksum is prescribed: `embedded_format`).
pub(super) fn group_messages(
    node: &Node,
    group: &GroupNode,
    addresses: &[u64],
    beside: &mut Auxiliary<'_>,
    sealed: bool,
) -> Result<Vec<Message>> {
    let address = |id: NodeId| addresses.get(id.0).copied().unwrap_or(0);
    let links = group.stored(node.track_order, address);
    let mut compact = Vec::new();
    if sealed || links.len() <= MAX_COMPACT_ITEMS {
        for link in &links {
            compact.push((link.creation_order, message::link::encode(link)?));
        }
    }
    let dense =
        links.len() > compact.len() || compact.iter().any(|(_, bytes)| bytes.len() > MAX_MESSAGE_BYTES);
    if dense && sealed {
        return Err(Error::limit("the links are too large for the header of their group"));
    }
    let next = u64::try_from(group.next).ok().filter(|_| node.track_order);
    let mut info = LinkInfo { next_order: next, indexed: node.track_order, ..LinkInfo::default() };
    if dense {
        let dense_links = beside.add_blocks(|allocate| {
            let mut dense_links = group::dense_links(&links, node.track_order, allocate)?;
            let blocks = std::mem::take(&mut dense_links.blocks);
            Ok((dense_links, blocks))
        })?;
        (info.heap, info.by_name) = (Some(dense_links.heap), Some(dense_links.by_name));
        info.by_order = dense_links.by_order;
    }
    let mut messages = vec![
        plain(message::LINK_INFO, message::link_info::encode(&info)?),
        constant(
            message::GROUP_INFO,
            message::group_info::encode(&GroupInfo {
                // libhdf5 then keeps up to 65,535 links in a sealed header.
                phase_change: sealed.then_some((u16::MAX, 0)),
                estimate: None,
            })?,
        ),
    ];
    if !dense {
        compact.sort_by_key(|(order, _)| *order);
        messages.extend(compact.into_iter().map(|(_, data)| plain(message::LINK, data)));
    }
    Ok(messages)
}
