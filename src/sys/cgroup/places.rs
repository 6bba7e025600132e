//! Where this process's own groups are, read off `/proc/self/cgroup` and `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The version 1 controllers that a run's group needs.
const SINGLE: [&str; 3] = ["memory", "pids", "cpuacct"];

/// The own group's folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Version 2: the mount's top and the own group's folder in it.
    pub(super) unified: Option<(PathBuf, PathBuf)>,
    /// Version 1: controller and the own group's folder.
    pub(super) single: Vec<(&'static str, PathBuf)>,
}

/// Reads the two files.
pub(super) fn places(groups: &str, mounts: &str) -> Places {
    // "4:memory:/path" in version 1, "0::/path" in version 2.
    let own = |is: &dyn Fn(&str) -> bool| {
        let parts = |line: &'_ str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is(controllers).then(|| path.to_owned())
        };
        groups.lines().find_map(parts)
    };
    let unified = own(&str::is_empty)
        .and_then(|path| below_a_mount(mounts, &path, &|kind, _| kind == "cgroup2"));
    let single = |name: &'static str| {
        let has = |list: &str| list.split(',').any(|word| word == name);
        let path = own(&has)?;
        let mount = below_a_mount(mounts, &path, &|kind, options| kind == "cgroup" && has(options));
        mount.map(|(_, folder)| (name, folder))
    };
    Places { unified, single: SINGLE.into_iter().filter_map(single).collect() }
}

/// Finds the mount that shows a group: the mount's top and the group's folder. `is` looks at the
/// type of the file system and its own options.
fn below_a_mount(
    mounts: &str,
    group: &str,
    is: &dyn Fn(&str, &str) -> bool,
) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
        let mut place = place.split(' ').skip(3);
        let (root, top) = (unescaped(place.next()?), unescaped(place.next()?));
        if !is(name, options) {
            return None;
        }
        let inside = Path::new(group).strip_prefix(&root).ok()?;
        // A group outside the own cgroup namespace is shown by a path that climbs.
        let climbs = inside.components().any(|part| part == Component::ParentDir);
        let own = top.components().chain(inside.components()).collect();
        (!climbs).then_some((top, own))
    })
}

/// Reads a path of `mountinfo`, where a backslash and three octal digits stand for some bytes.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escape = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A desktop with systemd: version 2 alone.
    const UNIFIED: (&str, &str) = (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/kitty.scope\n",
        "23 28 0:22 / /proc rw,nosuid shared:5 - proc proc rw\n\
         35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 \
         rw,nsdelegate,memory_recursiveprot\n",
    );
    /// systemd with both: limits in version 1, `cpu` and `cpuacct` in one hierarchy.
    const HYBRID: (&str, &str) = (
        "12:pids:/user.slice/user-0.slice/session-1.scope\n11:memory:/user.slice/session-1.scope\n\
         4:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-1.scope\n\
         0::/user.slice/user-0.slice/session-1.scope\n",
        "26 25 0:23 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
         27 26 0:24 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n\
         28 26 0:25 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n\
         33 26 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:16 - cgroup cgroup rw,cpu,cpuacct\n\
         37 26 0:34 / /sys/fs/cgroup/pids rw shared:20 - cgroup cgroup rw,pids\n\
         38 26 0:35 / /sys/fs/cgroup/memory rw shared:21 - cgroup cgroup rw,memory\n",
    );

    fn single(places: &Places) -> Vec<(&str, &str)> {
        places.single.iter().map(|(name, path)| (*name, path.to_str().expect("UTF-8"))).collect()
    }

    fn unified(top: &str, own: &str) -> Option<(PathBuf, PathBuf)> {
        Some((top.into(), own.into()))
    }

    #[test]
    fn version_2_alone() {
        let found = places(UNIFIED.0, UNIFIED.1);
        let own =
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/kitty.scope";
        assert_eq!(found, Places { unified: unified("/sys/fs/cgroup", own), single: Vec::new() });
    }

    #[test]
    fn both_versions_side_by_side() {
        let found = places(HYBRID.0, HYBRID.1);
        let top = "/sys/fs/cgroup/unified";
        let own = "/sys/fs/cgroup/unified/user.slice/user-0.slice/session-1.scope";
        assert_eq!(found.unified, unified(top, own));
        let expected = [
            ("memory", "/sys/fs/cgroup/memory/user.slice/session-1.scope"),
            ("pids", "/sys/fs/cgroup/pids/user.slice/user-0.slice/session-1.scope"),
            ("cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user.slice"),
        ];
        assert_eq!(single(&found), expected);
    }

    #[test]
    fn version_1_alone() {
        let groups = HYBRID.0.replace("0::/user.slice/user-0.slice/session-1.scope\n", "");
        let mounts = HYBRID.1.replace("cgroup2 cgroup2", "tmpfs tmpfs");
        let found = places(&groups, &mounts);
        assert_eq!((found.unified, found.single.len()), (None, 3));
        // Membership of a hierarchy that is mounted nowhere gives no folder.
        assert_eq!(places(HYBRID.0, ""), Places::default());
    }

    #[test]
    fn a_container_with_a_cgroup_namespace() {
        let mount = "650 649 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";
        let found = places("0::/\n", mount);
        assert_eq!(found.unified, unified("/sys/fs/cgroup", "/sys/fs/cgroup"));
        // A process that was put into the container from outside is in no group that it shows.
        assert_eq!(places("0::/../../user.slice\n", mount), Places::default());
    }

    #[test]
    fn a_container_that_is_shown_a_part_of_the_hosts_tree() {
        let mount = "650 649 0:26 /docker/abc /sys/fs/cgroup\\040x ro - cgroup2 cgroup rw\n\
                     651 649 0:27 /docker/abc /m ro - cgroup cgroup rw,memory\n";
        let found = places("3:memory:/docker/abc\n0::/docker/abc/deeper\n", mount);
        assert_eq!(found.unified, unified("/sys/fs/cgroup x", "/sys/fs/cgroup x/deeper"));
        assert_eq!(single(&found), [("memory", "/m")]);
        assert_eq!(places("0::/docker/other\n", mount).unified, None);
    }
}
