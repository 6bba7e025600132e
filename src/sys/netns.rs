//! The network namespace: bringing its loopback interface up.

/// `struct ifreq` of `netdevice(7)`, as far as it is used: a name and flags.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    rest: [u8; 22],
}

/// Makes the argument of `SIOCSIFFLAGS` that brings `lo` up.
pub const fn loopback_request() -> InterfaceRequest {
    let mut name = [0; libc::IFNAMSIZ];
    name[0] = b'l';
    name[1] = b'o';
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    InterfaceRequest { name, flags, rest: [0; 22] }
}
