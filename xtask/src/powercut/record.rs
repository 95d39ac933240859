//! What `shim/diskshim.c` wrote down, read back. A record that is cut off at the end was never finished, and is left out.

use crate::{Outcome, fail};

/// One thing that was asked of the disk.
#[derive(Debug)]
pub(super) enum Step {
    /// A name was opened, or made.
    Opened {
        name: String,
        inode: u64,
        is_folder: bool,
    },
    Written {
        inode: u64,
        at: u64,
        data: Vec<u8>,
    },
    Zeroed {
        inode: u64,
        at: u64,
        bytes: u64,
    },
    /// The length was set.
    Cut {
        inode: u64,
        bytes: u64,
    },
    Syncing {
        number: u64,
    },
    Synced {
        inode: u64,
        number: u64,
    },
    Removed {
        name: String,
    },
    Renamed {
        from: String,
        to: String,
    },
}

const HEAD: usize = 32;

/// Reads all records.
pub(super) fn read(mut bytes: &[u8]) -> Outcome<Vec<Step>> {
    let mut steps = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEAD) {
        let kind = u32::from_le_bytes(head[0..4].try_into()?);
        let name_bytes = usize::try_from(u32::from_le_bytes(head[4..8].try_into()?))?;
        let word = |at: usize| -> Outcome<u64> { Ok(u64::from_le_bytes(head[at..at + 8].try_into()?)) };
        let (inode, at, count) = (word(8)?, word(16)?, word(24)?);
        let data_bytes = if matches!(kind, 2 | 7) { usize::try_from(count)? } else { 0 };
        let Some((name, rest)) = rest.split_at_checked(name_bytes) else { break };
        let Some((data, rest)) = rest.split_at_checked(data_bytes) else { break };
        bytes = rest;
        let name = String::from_utf8(name.to_vec())?;
        steps.push(match kind {
            1 => Step::Opened { name, inode, is_folder: count == 1 },
            2 => Step::Written { inode, at, data: data.to_vec() },
            3 => Step::Cut { inode, bytes: at },
            4 => Step::Syncing { number: at },
            5 => Step::Synced { inode, number: at },
            6 => Step::Removed { name },
            7 => Step::Renamed { from: name, to: String::from_utf8(data.to_vec())? },
            8 => Step::Zeroed { inode, at, bytes: count },
            other => return fail(format!("a record of kind {other}")),
        });
    }
    Ok(steps)
}
