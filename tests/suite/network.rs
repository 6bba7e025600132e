//! The network: what a command can reach, and what it can make to reach it with.
//!
//! Controls go to listeners that the test makes on the host's loopback interface; nothing here
//! sends a packet to another machine.

use crate::support::{Env, is_root, skip};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

/// Profiles with a loopback interface of their own, and those without.
const LOOPBACK: [&str; 2] = ["build", "gate"];
const NO_NETWORK: [&str; 2] = ["look", "repo"];
/// A profile of the tests with sockets of its own tree and no network.
const LOCAL: &str = "read";
const NO_FAMILY: [&str; 1] = ["EAFNOSUPPORT"];

fn host() -> Option<Env> {
    let env = Env::new()?;
    env.repository();
    std::fs::create_dir(env.workspace().join("scripts")).expect("a folder");
    Some(env)
}

/// Says whether somebody connected to the listener since it was last asked.
fn was_reached(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).expect("a mode");
    match listener.accept() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn b39_a_listener_of_the_host_cannot_be_reached_over_tcp() {
    let Some(env) = host() else { return };
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else {
            skip("this host has no IPv6 loopback");
            continue;
        };
        let to = listener.local_addr().expect("an address").to_string();
        assert_eq!(env.outside(&["connect-tcp", &to]), "ok");
        assert!(was_reached(&listener));
        for profile in LOOPBACK {
            env.refused(profile, &["connect-tcp", &to], &["ECONNREFUSED", "EADDRNOTAVAIL"]);
        }
        for profile in NO_NETWORK.into_iter().chain([LOCAL]) {
            env.refused(profile, &["connect-tcp", &to], &NO_FAMILY);
        }
        assert!(!was_reached(&listener));
    }
}

#[test]
fn b39_a_listener_of_the_host_cannot_be_reached_over_udp() {
    let Some(env) = host() else { return };
    let listener = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    listener.set_read_timeout(Some(Duration::from_millis(200))).expect("a deadline");
    let to = listener.local_addr().expect("an address").to_string();
    let heard = || listener.recv(&mut [0; 16]).is_ok();
    assert_eq!(env.outside(&["connect-udp", &to]), "ok");
    assert!(heard(), "outside the datagram arrives");
    for profile in LOOPBACK {
        // It goes to the run's own loopback interface, where nobody listens.
        env.allowed(profile, &["connect-udp", &to]);
        assert!(!heard(), "{profile}");
    }
    for profile in NO_NETWORK.into_iter().chain([LOCAL]) {
        env.refused(profile, &["connect-udp", &to], &NO_FAMILY);
    }
}

#[test]
fn b39_no_other_machine_can_be_reached_and_no_name_asked_for() {
    let Some(env) = host() else { return };
    let unreachable = ["ENETUNREACH"];
    for profile in LOOPBACK {
        env.allowed(profile, &["loopback"]);
        // Metadata of clouds, a test network, and their like in IPv6.
        for to in ["169.254.169.254:80", "192.0.2.1:443", "[2001:db8::1]:443", "10.0.0.1:22"] {
            env.refused(profile, &["connect-tcp", to], &unreachable);
        }
        for to in ["192.0.2.1:53", "169.254.169.254:53"] {
            env.refused(profile, &["connect-udp", to], &unreachable);
        }
        let told = env.inside(profile, &["resolve", "pinfold.invalid"]);
        assert!(told.contains("failed to lookup"), "{profile}: {told}");
        let interfaces = env.inside(profile, &["print", "/proc/net/dev"]);
        let names: Vec<&str> =
            interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        assert_eq!(names, ["lo"], "{profile}");
    }
    env.refused("build", &["exists", "/etc/resolv.conf"], &["ENOENT"]);
}

#[test]
fn a_command_without_a_network_has_no_loopback_either_by_each_layer() {
    let Some(env) = host() else { return };
    for profile in NO_NETWORK.into_iter().chain([LOCAL]) {
        env.denied(profile, &["loopback"], &NO_FAMILY);
    }
    // Without the filter Landlock refuses TCP; without both, the interface is down.
    let Some(env) = Env::without("seccomp") else { return };
    env.denied("read", &["loopback"], &["EACCES"]);
    let Some(env) = Env::without("seccomp,landlock") else { return };
    env.denied("read", &["loopback"], &["ENETUNREACH", "EADDRNOTAVAIL"]);
}

#[test]
fn loopback_works_where_the_profile_has_it_and_two_runs_do_not_share_it() {
    let Some(env) = host() else { return };
    for profile in LOOPBACK {
        env.allowed(profile, &["loopback"]);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    assert_eq!(env.outside(&["serve", &port, "0"]), "EADDRINUSE", "on the host it is taken");
    let words = ["--", "probe", "build", "serve", &port, "1500"];
    let runs = [env.start(&words), env.start(&words)];
    for run in runs {
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{output:?}");
    }
    let ends = env.records_of("end");
    assert_eq!(ends.iter().filter(|end| end["outcome"] == "ok").count(), ends.len());
}

#[test]
fn b32_the_network_namespace_alone_keeps_abstract_sockets_apart() {
    let Some(env) = Env::without("landlock") else { return };
    let name = format!("pinfold-alone-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a listener");
    env.denied("build", &["connect-abstract", &name], &["ECONNREFUSED"]);
}

#[test]
fn b32_an_abstract_socket_of_the_host_cannot_be_reached() {
    let Some(env) = host() else { return };
    let name = format!("pinfold-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a listener");
    for profile in LOOPBACK.into_iter().chain([LOCAL]) {
        env.denied(profile, &["connect-abstract", &name], &["ECONNREFUSED", "EPERM"]);
    }
    for profile in NO_NETWORK {
        env.refused(profile, &["connect-abstract", &name], &NO_FAMILY);
    }
    drop(listener);
}

#[test]
fn b33_no_socket_and_no_other_descriptor_is_handed_on() {
    let Some(env) = host() else { return };
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let folder = std::fs::File::open("/").expect("the root");
    let held: [OwnedFd; 2] = [near.into(), folder.into()];
    for fd in &held {
        // On purpose open across exec, as a careless caller leaves them.
        let cleared = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
        assert_eq!(cleared, 0);
    }
    let outside = env.outside(&["fds"]);
    for fd in &held {
        let number = fd.as_raw_fd().to_string();
        assert!(outside.contains(&number), "outside {number} is there: {outside}");
    }
    for profile in LOOPBACK.into_iter().chain(NO_NETWORK).chain([LOCAL]) {
        assert_eq!(env.inside(profile, &["fds"]), "[0 1 2]", "{profile}");
        assert_eq!(env.inside(profile, &["fd-kinds"]), "/dev/null pipe pipe", "{profile}");
    }
    drop(far);
}

/// Socket families and what of them is tried: `FAMILY:TYPE:PROTOCOL`.
const RARE: [&str; 17] = [
    "38:5:0",  // AF_ALG
    "17:3:0",  // AF_PACKET
    "17:2:0",  // AF_PACKET
    "15:3:2",  // AF_KEY
    "21:5:0",  // AF_RDS
    "30:5:0",  // AF_TIPC
    "44:3:0",  // AF_XDP
    "40:1:0",  // AF_VSOCK
    "16:3:0",  // AF_NETLINK, route
    "16:3:9",  // AF_NETLINK, audit
    "31:3:0",  // AF_BLUETOOTH
    "29:3:1",  // AF_CAN
    "43:1:0",  // AF_SMC
    "41:2:0",  // AF_KCM
    "4:2:0",   // AF_IPX
    "9:5:0",   // AF_X25
    "200:1:0", // none yet
];
/// Forms of the internet families that are more than TCP and UDP.
const FORMS: [&str; 9] = [
    "2:1:262",         // MPTCP
    "10:1:262",        // MPTCP over IPv6
    "2:3:1",           // raw ICMP
    "10:3:58",         // raw ICMP of IPv6
    "2:2:1",           // ICMP echo
    "2:1:132",         // SCTP
    "2:5:132",         // SCTP, packets
    "2:2:136",         // UDP-Lite
    "0x100000002:3:1", // the upper half of the word is not looked at
];

#[test]
fn b35_b36_socket_families_and_forms_are_a_positive_list() {
    let Some(env) = host() else { return };
    let act: Vec<&str> = [&["sockets"][..], &RARE, &FORMS].concat();
    let outside = env.outside(&act);
    let proven: Vec<&str> = outside
        .lines()
        .filter(|line| !line.ends_with("EAFNOSUPPORT"))
        .filter_map(|line| Some(line.split_once(' ')?.0))
        .collect();
    assert!(proven.contains(&"16:3:0") && proven.contains(&"2:3:1"), "{outside}");
    assert!(proven.len() >= if is_root() { 8 } else { 6 }, "{outside}");
    for name in act.iter().skip(1).filter(|name| !proven.contains(*name)) {
        skip(&format!("this host has no socket of {name}; a unit test shows its refusal"));
    }
    for profile in LOOPBACK.into_iter().chain(NO_NETWORK).chain([LOCAL]) {
        let inside = env.inside(profile, &act);
        assert_eq!(inside.lines().count(), act.len() - 1, "{profile}");
        for line in inside.lines() {
            assert!(line.ends_with(" EAFNOSUPPORT"), "{line} in {profile}");
        }
    }
    let used = ["sockets", "1:1:0", "2:1:0", "2:1:6", "2:2:17", "10:1:0", "1:0x80801:0"];
    assert_eq!(env.outside(&used), env.inside("build", &used));
    for profile in NO_NETWORK {
        env.denied(profile, &["socket", "1", "1", "0"], &NO_FAMILY);
        env.allowed(profile, &["socketpair"]);
    }
    env.allowed(LOCAL, &["socket", "1", "1", "0"]);
    for other in [["1", "3", "0"], ["2", "1", "0"], ["10", "2", "0"]] {
        let act = ["socket", other[0], other[1], other[2]];
        env.denied(LOCAL, &act, &NO_FAMILY);
    }
}

#[test]
fn a27_a_path_socket_outside_cannot_be_reached() {
    let Some(env) = host() else { return };
    let path = env.path("host.sock");
    let listener = UnixListener::bind(&path).expect("a listener");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("a mode");
    let path = path.to_str().expect("UTF-8");
    listener.set_nonblocking(true).expect("a mode");
    for profile in LOOPBACK.into_iter().chain([LOCAL]) {
        env.denied(profile, &["connect-path", path], &["ENOENT", "EACCES"]);
        assert!(listener.accept().is_ok(), "the control was heard");
        assert!(listener.accept().is_err(), "and nothing else");
    }
    for profile in NO_NETWORK {
        env.refused(profile, &["connect-path", path], &NO_FAMILY);
    }
}

#[test]
fn a27_a29_no_socket_of_a_daemon_has_a_name_inside() {
    let Some(env) = host() else { return };
    env.denied("build", &["exists", "/run"], &["ENOENT"]);
    for name in [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/var/run/libvirt/libvirt-sock",
        "/run/dbus/system_bus_socket",
        "/run/user/0/bus",
        "/run/systemd/private",
    ] {
        env.refused("build", &["connect-path", name], &["ENOENT"]);
    }
}

#[test]
fn a29_a31_no_variable_of_the_caller_is_handed_on() {
    let Some(env) = host() else { return };
    let agent = env.path("agent.sock");
    let listener = UnixListener::bind(&agent).expect("a listener");
    let agent = agent.to_str().expect("UTF-8");
    let variables = [
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={agent}")),
        ("SSH_AUTH_SOCK", agent.to_owned()),
        ("XDG_RUNTIME_DIR", env.path("run-time").display().to_string()),
        ("AWS_SECRET_ACCESS_KEY", "canary-value".to_owned()),
        ("LD_PRELOAD", "/canary-value.so".to_owned()),
        ("BASH_ENV", "/canary-value".to_owned()),
    ];
    for profile in ["look", "build"] {
        let mut command = env.command(&["run", "--", "probe", profile, "env"]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().expect("pinfold starts");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("\nPATH=") || told.starts_with("PATH="), "{told}");
        for (name, value) in &variables {
            assert!(!told.contains(name) && !told.contains(value), "{name}: {told}");
        }
    }
    env.denied("build", &["connect-path", agent], &["ENOENT", "EACCES"]);
    drop(listener);
}
