//! Why a layer is missing, and what would bring it.

use super::tries::{Failed, MOUNTING_PROC};
use super::{GUARDIAN_ABI, Missing};
use crate::record::Text;
use nix::errno::Errno;
use std::fs;

/// Switches of the host that forbid user namespaces, with the value that does and the way out.
const SWITCHES: [(&str, &str, &str); 2] = [
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "allow user namespaces: sysctl -w user.max_user_namespaces=15000",
    ),
];
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

fn missing(layer: &'static str, why: impl Into<String>, fix: impl Into<String>) -> Missing {
    Missing { layer, why: why.into(), fix: fix.into(), detail: None }
}

pub(super) fn capabilities() -> Missing {
    missing(
        "capabilities",
        "root here lacks capabilities that namespaces need",
        "start Pinfold as an ordinary user, or give root CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, \
         CAP_SETPCAP, CAP_KILL and CAP_DAC_OVERRIDE",
    )
}

pub(super) fn landlock() -> Missing {
    missing(
        "landlock",
        "the kernel has no Landlock, it is not in the boot parameter lsm=, or a container refuses \
         its calls",
        "boot a kernel with CONFIG_SECURITY_LANDLOCK and landlock in lsm=",
    )
}

pub(super) fn seccomp() -> Missing {
    missing(
        "seccomp",
        "the kernel takes no seccomp filter",
        "boot a kernel with CONFIG_SECCOMP_FILTER",
    )
}

pub(super) fn guardian_abi(abi: u8) -> Missing {
    missing(
        "guardian",
        format!(
            "without namespaces the whole tree can be ended only with Landlock ABI \
             {GUARDIAN_ABI}, and this kernel has {abi}"
        ),
        "boot Linux 6.12 or later, or allow namespaces",
    )
}

pub(super) fn guardian(failed: &Failed) -> Missing {
    missing(
        "guardian",
        format!("a tree cannot be held without namespaces: {failed}"),
        "let the container's filter pass landlock_*, seccomp and prctl",
    )
}

pub(super) fn listener(failed: &Failed) -> Missing {
    missing(
        "metadata",
        format!("changes of modes and times cannot be brokered ({failed}), and are refused"),
        "run Pinfold where no other seccomp listener stands above it",
    )
}

/// Says why namespaces cannot be had, and how this host would give them.
pub(super) fn namespaces(failed: &Failed) -> Missing {
    if failed.doing == MOUNTING_PROC {
        return missing(
            "proc",
            failed.to_string(),
            "start the container with an unmasked /proc (Docker: --security-opt \
             systempaths=unconfined; Kubernetes: procMount: Unmasked)",
        );
    }
    let why = failed.to_string();
    if failed.error.raw_os_error().is_none() {
        // It is not the kernel's answer to the clone, but what the thread could not do before.
        let why = format!("what every child inherits cannot be prepared: {}", failed.error);
        return missing("seccomp", why, "let the container's filter pass seccomp and prctl");
    }
    match failed.error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC) => missing(
            "namespaces",
            why,
            "raise the sysctls user.max_user_namespaces, user.max_mnt_namespaces, \
             user.max_pid_namespaces and user.max_net_namespaces",
        ),
        Some(Errno::ENOSYS) if !crate::sys::seccomp::is_filtered() => {
            missing("namespaces", why, "boot Linux 5.14 or later")
        }
        _ => forbidden(why),
    }
}

/// What forbids namespaces here, as far as the host says it.
fn forbidden(why: String) -> Missing {
    let is = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|t| t.trim() == value);
    if let Some((.., fix)) = SWITCHES.into_iter().find(|(path, value, _)| is(path, value)) {
        return missing("namespaces", why, fix);
    }
    if is(APPARMOR, "1") {
        let why = format!("{why}; AppArmor restricts user namespaces ({APPARMOR} is 1)");
        let fix = "give Pinfold an AppArmor profile with `userns,` in /etc/apparmor.d/pinfold, and \
                   load it with apparmor_parser -r";
        return Missing { detail: Some(apparmor_profile()), ..missing("namespaces", why, fix) };
    }
    if crate::sys::seccomp::is_filtered() {
        let fix = "give the container a seccomp profile with clone, unshare and the mount calls \
                   (Docker: --security-opt seccomp=FILE)";
        return missing("namespaces", why, fix);
    }
    let fix = "allow user namespaces for this user, or start Pinfold as root";
    missing("namespaces", why, fix)
}

/// A profile that lets this very program make user namespaces.
fn apparmor_profile() -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/pinfold".into());
    let own = Text::from(own.as_path()).escaped();
    format!(
        "abi <abi/4.0>,\ninclude <tunables/global>\nprofile pinfold {own} flags=(unconfined) {{\n  \
         userns,\n}}"
    )
}
