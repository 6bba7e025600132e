//! The filters answer as a second statement of the same policy does, which is written the other
//! way round (what is let through, not what is refused) and compiled wholly by `seccompiler`.

#![allow(clippy::print_stdout, reason = "a failed run is repeated by its printed seed")]

use super::*;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};

const LOOK: &[Set] = &[Set::Base, Set::Files];
const BUILD: &[Set] = &[Set::Base, Set::Threads, Set::Files, Set::SocketsLocal, Set::MemoryFiles];
const MODES: [Sockets; 3] = [Sockets::None, Sockets::Local, Sockets::Internet];

/// Highest number that the reference names; above it nothing is listed.
const NUMBERS: i64 = 480;
const SAMPLES: usize = 100_000;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const JUMP_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;

/// `struct seccomp_data`: what the kernel shows a filter of a call.
#[derive(Debug, Clone, Copy)]
struct Data {
    nr: u32,
    arch: u32,
    args: [u64; 6],
}

impl Data {
    fn new(nr: i64, args: [u64; 6]) -> Self {
        Self { nr: nr as u32, arch: ARCH_X86_64, args }
    }

    /// Returns the 32-bit word at a byte offset, as the kernel lays the struct out.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.nr,
            4 => self.arch,
            // The instruction pointer, of which no filter may depend.
            8 | 12 => panic!("a filter looked at the instruction pointer"),
            16..64 if offset.is_multiple_of(4) => {
                let arg = self.args[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
            }
            _ => panic!("offset {offset}"),
        }
    }
}

/// Runs a classic BPF program.
fn answer(program: &[libc::sock_filter], data: &Data) -> u32 {
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let i = program[at];
        let condition = match i.code {
            LOAD => {
                accumulator = data.word(i.k);
                at += 1;
                continue;
            }
            AND => {
                accumulator &= i.k;
                at += 1;
                continue;
            }
            JUMP => {
                at += 1 + i.k as usize;
                continue;
            }
            RETURN => return i.k,
            JUMP_EQUAL => accumulator == i.k,
            JUMP_AT_LEAST => accumulator >= i.k,
            JUMP_ABOVE => accumulator > i.k,
            JUMP_ANY_BIT => accumulator & i.k != 0,
            code => panic!("no such instruction: {code:#x}"),
        };
        at += 1 + usize::from(if condition { i.jt } else { i.jf });
    }
}

/// Joins the answers of filters in the order of their installation, as the kernel does: the
/// strictest action counts, and of two alike the one of the newer filter.
fn strictest(answers: &[u32]) -> u32 {
    let action = |answer: u32| (answer & libc::SECCOMP_RET_ACTION_FULL) as i32;
    let newest_first = answers.iter().rev();
    newest_first.fold(ALLOW, |best, one| if action(*one) < action(best) { *one } else { best })
}

#[test]
fn the_strictest_answer_counts_and_of_equals_the_newest() {
    assert_eq!(strictest(&[ALLOW, NOT_PERMITTED, ALLOW]), NOT_PERMITTED);
    assert_eq!(strictest(&[NOT_PERMITTED, NO_SUCH_CALL]), NO_SUCH_CALL);
    assert_eq!(strictest(&[KILL, NO_SUCH_CALL]), KILL);
    assert_eq!(strictest(&[]), ALLOW);
}

/// The filters under test, as a run installs them.
fn stack(sets: &[Set], sockets: Sockets) -> Vec<Vec<libc::sock_filter>> {
    let set_id = set_id_filter().expect("the rules compile");
    let families = socket_filter(sockets).expect("the rules compile").to_vec();
    vec![set_id, families, positive_list(sets).expect("the list is short")]
}

fn compiled(rules: Rules, matched: SeccompAction, other: SeccompAction) -> Vec<libc::sock_filter> {
    let filter = SeccompFilter::new(rules, other, matched, TargetArch::x86_64);
    let program: BpfProgram = filter.and_then(BpfProgram::try_from).expect("it compiles");
    program.iter().map(|i| jump(i.code, i.k, i.jt, i.jf)).collect()
}

fn all(conditions: &[(u8, SeccompCmpOp, u64)]) -> SeccompRule {
    let conditions = conditions
        .iter()
        .map(|(argument, op, value)| when(*argument, op.clone(), *value).expect("a condition"));
    rule(conditions.collect()).expect("a rule")
}

/// Rules that let every call through.
fn everything() -> Rules {
    (0..NUMBERS).map(|number| (number, Vec::new())).collect()
}

/// What is let through of the calls whose arguments count.
fn reference_arguments() -> Vec<libc::sock_filter> {
    let mut rules = everything();
    let plain = |argument| (argument, MaskedEq(0o6000), 0);
    for (call, mode) in [
        (libc::SYS_chmod, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_creat, 1),
        (libc::SYS_mkdir, 1),
        (libc::SYS_mkdirat, 2),
        (libc::SYS_mknod, 1),
        (libc::SYS_mknodat, 2),
    ] {
        rules.insert(call, vec![all(&[plain(mode)])]);
    }
    let tmpfile = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
    let making = libc::O_CREAT as u64 | tmpfile;
    for (call, flags, mode) in [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)] {
        rules.insert(call, vec![all(&[(flags, MaskedEq(making), 0)]), all(&[plain(mode)])]);
    }
    let (push, linux) = (libc::TIOCSTI, 0x541C);
    rules.insert(libc::SYS_ioctl, vec![all(&[(1, Ne, push), (1, Ne, linux)])]);
    rules.insert(libc::SYS_renameat2, vec![all(&[(4, MaskedEq(4), 0)])]);
    rules.insert(libc::SYS_prlimit64, vec![all(&[(0, Eq, 0)])]);
    rules.insert(libc::SYS_fcntl, vec![all(&[(1, Ne, 1024), (1, Ne, 1040)])]);
    let personas = [0xffff_ffff, 0, 8, 0x20000, 0x20008];
    let personas = personas.map(|persona| all(&[(0, Eq, persona)]));
    rules.insert(libc::SYS_personality, personas.into());
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))
}

/// The sockets that are let through, one by one.
fn reference_sockets(sockets: Sockets) -> Vec<libc::sock_filter> {
    let (local, internet): (&[i32], &[i32]) = match sockets {
        Sockets::None => (&[], &[]),
        Sockets::Local => (&[0], &[]),
        Sockets::Internet => (&[0, 6, 17], &[0, 6, 17]),
    };
    let kinds = [
        (libc::AF_UNIX, libc::SOCK_STREAM, local),
        (libc::AF_UNIX, libc::SOCK_DGRAM, local),
        (libc::AF_UNIX, libc::SOCK_SEQPACKET, local),
        (libc::AF_INET, libc::SOCK_STREAM, internet),
        (libc::AF_INET, libc::SOCK_DGRAM, internet),
        (libc::AF_INET6, libc::SOCK_STREAM, internet),
        (libc::AF_INET6, libc::SOCK_DGRAM, internet),
    ];
    let mut rules = everything();
    let mut allowed = Vec::new();
    for (family, kind, protocols) in kinds {
        for flags in [0, 0o4000, 0o2_000_000, 0o2_004_000] {
            for protocol in protocols {
                let is = |argument, value| (argument, Eq, value as u64);
                allowed.push(all(&[is(0, family), is(1, kind | flags), is(2, *protocol)]));
            }
        }
    }
    rules.remove(&libc::SYS_socket);
    if !allowed.is_empty() {
        rules.insert(libc::SYS_socket, allowed);
    }
    rules.insert(libc::SYS_socketpair, vec![all(&[(0, Eq, libc::AF_UNIX as u64)])]);
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EAFNOSUPPORT as u32))
}

/// What is refused by name, and `clone` with a flag that makes a namespace.
fn reference_names() -> Vec<libc::sock_filter> {
    let mut rules: Rules = REFUSED.iter().map(|(_, number)| (*number, Vec::new())).collect();
    let spaces = [0x20000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000];
    let spaces = spaces.into_iter().chain([0x4000_0000]);
    let spaces = spaces.map(|flag| all(&[(0, MaskedEq(flag), flag)]));
    rules.insert(libc::SYS_clone, spaces.collect());
    compiled(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// What these sets list; everything else does not exist.
fn reference_list(sets: &[Set]) -> Vec<libc::sock_filter> {
    let listed = sets.iter().flat_map(|set| set.calls()).chain(NEWER).chain(REFUSED);
    let rules = listed.map(|(_, number)| (*number, Vec::new())).collect();
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    /// Seeds from the clock, or from `PINFOLD_SEED`, and prints the seed.
    fn new() -> Self {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let clock = clock.map_or(1, |since| since.as_nanos() as u64);
        let given = std::env::var("PINFOLD_SEED");
        let seed = given.map_or(clock, |text| text.parse().expect("PINFOLD_SEED is a number"));
        println!("PINFOLD_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// Calls whose arguments count.
const ARGUED: [i64; 17] = [
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_creat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_ioctl,
    libc::SYS_personality,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_clone,
    libc::SYS_clone3,
];

/// Values near which an answer changes, for any argument.
const VALUES: [u64; 36] = [
    0,
    1,
    2,
    3,
    5,
    6,
    8,
    10,
    16,
    17,
    38,
    40,
    262,
    0o644,
    0o755,
    0o1777,
    0o2000,
    0o4000,
    0o4755,
    0o6777,
    0o100_644,
    0o104_755,
    0o20_000_000,
    0o20_200_000,
    0x40,
    0x41,
    TIOCSTI,
    TIOCLINUX,
    0x5411,
    0x20000,
    0x20008,
    0x40000,
    0x1000_0000,
    0x0100_0f00,
    0xffff_ffff,
    0x7fff_ffff,
];

fn random_argument(random: &mut Random) -> u64 {
    let value = match random.below(10) {
        0 => return random.next(),
        1 => 1 << random.below(32),
        2 => random.one_of(&VALUES) | random.one_of(&VALUES),
        3 => random.one_of(&VALUES) ^ (1 << random.below(32)),
        _ => random.one_of(&VALUES),
    };
    // The upper half is not looked at by the kernel, and must not be by a filter.
    if random.below(4) == 0 { value | random.next() << 32 } else { value }
}

fn random_data(random: &mut Random) -> Data {
    let nr = match random.below(20) {
        0..=9 => random.one_of(&ARGUED),
        10..=12 => random.one_of(REFUSED).1,
        13..=17 => random.below(NUMBERS as u64) as i64,
        18 => random.one_of(NEWER).1,
        _ => i64::from(random.next() as u32 % X32_BIT),
    };
    let mut args = [0; 6];
    args.iter_mut().for_each(|arg| *arg = random_argument(random));
    if [libc::SYS_socket, libc::SYS_socketpair].contains(&nr) && random.below(2) == 0 {
        let flags = [0, 0o4000, 0o2_000_000, 0o2_004_000, 0o10_000];
        args[0] = random.one_of(&[1, 2, 10, 10, 2, 16, 17]);
        args[1] = random.one_of(&[1, 2, 3, 5]) | random.one_of(&flags);
        args[2] = random.one_of(&[0, 1, 6, 17, 58, 132, 262]);
    }
    Data::new(nr, args)
}

#[test]
fn the_stack_answers_as_the_policy_built_by_seccompiler_does() {
    let mut random = Random::new();
    let arguments = reference_arguments();
    let sockets = MODES.map(|mode| (reference_sockets(mode), socket_filter(mode)));
    let sockets = sockets.map(|(theirs, ours)| (theirs, ours.expect("the rules compile")));
    let lists = [LOOK, BUILD].map(|sets| (reference_list(sets), positive_list(sets)));
    let lists = lists.map(|(theirs, ours)| (theirs, ours.expect("the list is short")));
    let names = reference_names();
    let set_id = &set_id_filter().expect("the rules compile");
    let mut seen = BTreeMap::new();
    for _ in 0..SAMPLES {
        let data = random_data(&mut random);
        let (named, argued) = (answer(&names, &data), answer(&arguments, &data));
        for (their_list, our_list) in &lists {
            let (their_list, our_list) = (answer(their_list, &data), answer(our_list, &data));
            for (their_sockets, families) in &sockets {
                let theirs = [argued, answer(their_sockets, &data), named, their_list];
                let ours = [answer(set_id, &data), answer(families, &data), our_list];
                let (theirs, ours) = (strictest(&theirs), strictest(&ours));
                assert_eq!(ours, theirs, "{data:x?}");
                *seen.entry(ours).or_insert(0_usize) += 1;
            }
        }
    }
    println!("answers: {seen:x?}");
    for kind in [ALLOW, NOT_PERMITTED, NO_SUCH_CALL, NO_FAMILY] {
        assert!(seen.get(&kind).is_some_and(|count| *count > SAMPLES / 10), "{seen:x?}");
    }
}

#[test]
fn another_architecture_and_x32_numbers_are_killed_whatever_the_arguments() {
    let mut random = Random::new();
    const I386: u32 = 0x4000_0003;
    for sets in [LOOK, BUILD] {
        for mode in MODES {
            let stack = stack(sets, mode);
            let told = |data: &Data| {
                strictest(&stack.iter().map(|one| answer(one, data)).collect::<Vec<_>>())
            };
            for _ in 0..2_000 {
                let plain = random_data(&mut random);
                let x32 = Data { nr: plain.nr | X32_BIT, ..plain };
                let negative = Data { nr: plain.nr | 1 << 31, ..plain };
                let other = Data { arch: random.one_of(&[I386, 0, 0xC000_00B7]), ..plain };
                for data in [x32, negative, other] {
                    assert_eq!(told(&data), KILL, "{data:x?}");
                }
                assert_ne!(told(&plain), KILL, "{plain:x?}");
            }
        }
    }
}

#[test]
fn every_listed_call_is_let_through_and_every_refused_one_is_eperm() {
    for sets in [&[Set::Base][..], LOOK, BUILD] {
        let list = positive_list(sets).expect("the list is short");
        println!("{sets:?}: {} instructions", list.len());
        assert!(list.len() <= 255, "{}", list.len());
        let listed = sets.iter().flat_map(|set| set.calls()).chain(NEWER);
        let listed: Vec<i64> = listed.map(|(_, number)| *number).collect();
        for number in 0..NUMBERS {
            let expected = if REFUSED.iter().any(|(_, refused)| *refused == number) {
                NOT_PERMITTED
            } else if listed.contains(&number) {
                ALLOW
            } else {
                NO_SUCH_CALL
            };
            assert_eq!(answer(&list, &Data::new(number, [0; 6])), expected, "{number}");
        }
        assert_eq!(answer(&list, &Data::new(999, [0; 6])), NO_SUCH_CALL);
    }
}

#[test]
fn no_call_is_both_listed_and_refused() {
    let sets = BUILD.iter().flat_map(|set| set.calls()).chain(NEWER);
    let twice: Vec<&Call> = sets.filter(|call| REFUSED.contains(call)).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let mut look = LOOK.iter().flat_map(|set| set.calls());
    assert!(!look.any(|(_, number)| *number == libc::SYS_memfd_create));
}

#[test]
fn of_all_socket_families_and_types_only_the_named_ones_are_let_through() {
    for mode in MODES {
        let families = socket_filter(mode).expect("the rules compile");
        let mut allowed = Vec::new();
        for family in 0..256_u64 {
            for kind in 0..16_u64 {
                let data = Data::new(libc::SYS_socket, [family, kind, 0, 0, 0, 0]);
                match answer(&families, &data) {
                    ALLOW => allowed.push((family, kind)),
                    other => assert_eq!(other, NO_FAMILY),
                }
            }
        }
        let expected: &[(u64, u64)] = match mode {
            Sockets::None => &[],
            Sockets::Local => &[(1, 1), (1, 2), (1, 5)],
            Sockets::Internet => &[(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2)],
        };
        assert_eq!(allowed, expected, "{mode:?}");
    }
}

#[test]
fn a_tree_without_namespaces_is_refused_owners_attributes_and_shared_objects() {
    for (brokered, metadata) in [(true, libc::SECCOMP_RET_USER_NOTIF), (false, NOT_PERMITTED)] {
        let filter = guarded_filter(brokered).expect("a filter");
        for number in 0..NUMBERS {
            let expected = match number {
                libc::SYS_chmod
                | libc::SYS_fchmod
                | libc::SYS_fchmodat
                | libc::SYS_fchmodat2
                | libc::SYS_utime
                | libc::SYS_utimes
                | libc::SYS_futimesat
                | libc::SYS_utimensat => metadata,
                libc::SYS_chown | libc::SYS_fchown | libc::SYS_lchown | libc::SYS_fchownat => {
                    NOT_PERMITTED
                }
                188..=190 | 197..=199 => guarded::NOT_SUPPORTED,
                29..=31 | 64..=67 | 220 => NO_SUCH_CALL,
                42 | 43 | 49 | 50 | 288 => NOT_PERMITTED,
                _ => ALLOW,
            };
            let told = answer(&filter, &Data::new(number, [0; 6]));
            assert_eq!(told, expected, "call {number}, brokered {brokered}");
        }
        let foreign = Data { arch: 0x4000_0003, ..Data::new(libc::SYS_chmod, [0; 6]) };
        assert_eq!(answer(&filter, &foreign), ALLOW, "the positive list ends it");
    }
}

#[test]
fn only_its_own_priority_and_processors_are_a_trees_to_change() {
    let filter = neighbours_filter().expect("a filter");
    for (call, who) in [
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setattr, 0),
    ] {
        for (value, expected) in [(0, ALLOW), (1, NOT_PERMITTED), (1 << 32, ALLOW)] {
            let mut args = [7; 6];
            args[who] = value;
            assert_eq!(answer(&filter, &Data::new(call, args)), expected, "call {call}: {value}");
        }
    }
    for (call, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        let all_of_the_user = Data::new(call, [user, 0, 0, 0, 0, 0]);
        assert_eq!(answer(&filter, &all_of_the_user), NOT_PERMITTED, "call {call}");
    }
    assert_eq!(answer(&filter, &Data::new(libc::SYS_getpriority, [7; 6])), ALLOW);
    for (kind, expected) in [
        (libc::SOCK_STREAM, ALLOW),
        (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, ALLOW),
        (libc::SOCK_DGRAM, NOT_PERMITTED),
        (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, NOT_PERMITTED),
        (libc::SOCK_RAW, NOT_PERMITTED),
    ] {
        let pair = Data::new(libc::SYS_socketpair, [1, kind as u64, 0, 0, 0, 0]);
        assert_eq!(answer(&filter, &pair), expected, "socketpair {kind}");
    }
    for (command, expected) in [
        (libc::FS_IOC_GETFLAGS, ALLOW),
        (libc::FS_IOC_SETFLAGS, NOT_PERMITTED),
        (libc::FS_IOC_GETVERSION, ALLOW),
        (libc::FS_IOC_SETVERSION, NOT_PERMITTED),
        (0x401C_5820, NOT_PERMITTED),
        (0x801C_581F, ALLOW),
        (libc::FICLONE, ALLOW),
        (0x5000_940E, NOT_PERMITTED),
        (libc::TIOCGWINSZ, ALLOW),
        (libc::FIONREAD, ALLOW),
    ] {
        let control = Data::new(libc::SYS_ioctl, [3, command, 0, 0, 0, 0]);
        assert_eq!(answer(&filter, &control), expected, "ioctl {command:#x}");
    }
}
