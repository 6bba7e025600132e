//! User namespaces whose maps swap two ids, for id-mapped mounts.
//!
//! A mount with such a map shows the workspace owner's files as the child's own, and what the
//! child makes belongs to the owner on disk; every other id stays as it is.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// A range of ids that exist in this user namespace: first id and count.
type Range = (u64, u64);

/// Makes a user namespace that swaps `owner` and `child`, for users and groups, and returns its
/// descriptor.
///
/// # Errors
/// Those of making a user namespace, writing its maps and opening it.
pub fn swapping(owner: (u32, u32), child: (u32, u32)) -> io::Result<OwnedFd> {
    super::spawn::with_user_namespace(|pid| {
        let users = swap(&users()?, owner.0, child.0);
        write_map(&format!("/proc/{pid}/uid_map"), &users)?;
        let groups = swap(&ranges("/proc/self/gid_map")?, owner.1, child.1);
        write_map(&format!("/proc/{pid}/gid_map"), &groups)?;
        Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
    })
}

/// Returns whether an id exists in this user namespace.
///
/// # Errors
/// Those of reading `/proc/self/uid_map`.
pub fn exists(id: u32) -> io::Result<bool> {
    let id = u64::from(id);
    Ok(ranges("/proc/self/uid_map")?
        .iter()
        .any(|(start, count)| (*start..start + count).contains(&id)))
}

/// Returns the user ids that exist here; a map is written once and never changes.
fn users() -> io::Result<Vec<Range>> {
    static USERS: OnceLock<Vec<Range>> = OnceLock::new();
    if let Some(users) = USERS.get() {
        return Ok(users.clone());
    }
    let users = ranges("/proc/self/uid_map")?;
    Ok(USERS.get_or_init(|| users).clone())
}

/// Reads the ids that exist here: the first column and the count of each line.
fn ranges(path: &str) -> io::Result<Vec<Range>> {
    let text = fs::read_to_string(path)?;
    let line = |line: &str| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        Some((numbers.next()?, numbers.nth(1)?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Makes the lines of a map that leaves every id of `ranges` as it is but swaps `a` and `b`.
fn swap(ranges: &[Range], a: u32, b: u32) -> String {
    let (low, high) = (u64::from(a.min(b)), u64::from(a.max(b)));
    let mut lines = String::new();
    let mut add = |from: u64, to: u64, count: u64| {
        if count > 0 {
            lines.push_str(&format!("{from} {to} {count}\n"));
        }
    };
    for &(start, count) in ranges {
        let end = start + count;
        let mut next = start;
        for (id, other) in [(low, high), (high, low)] {
            if low != high && (next..end).contains(&id) {
                add(next, next, id - next);
                add(id, other, 1);
                next = id + 1;
            }
        }
        add(next, next, end - next);
    }
    lines
}

/// Writes a map in the one `write(2)` that the kernel accepts.
fn write_map(path: &str, lines: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = File::options().write(true).open(path)?;
    let written = file.write(lines.as_bytes())?;
    if written == lines.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_leaves_every_other_id() {
        let all = [(0, 4_294_967_295)];
        assert_eq!(
            swap(&all, 0, 60000),
            "0 60000 1\n1 1 59999\n60000 0 1\n60001 60001 4294907294\n"
        );
        assert_eq!(swap(&all, 5, 6), "0 0 5\n5 6 1\n6 5 1\n7 7 4294967288\n");
        assert_eq!(swap(&[(0, 10)], 3, 3), "0 0 10\n");
        assert_eq!(
            swap(&[(0, 5), (100, 5)], 2, 101),
            "0 0 2\n2 101 1\n3 3 2\n100 100 1\n101 2 1\n102 102 3\n"
        );
    }
}
