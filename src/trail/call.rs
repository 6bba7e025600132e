//! Names for calls and sessions, made from time and the kernel's random bytes.
#![forbid(unsafe_code)]

use super::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

/// Crockford's base 32: no I, L, O or U, which people misread.
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The name of one call: 26 characters, the ULID of the moment it was made. All records of one
/// call carry it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(String);

impl CallId {
    /// Makes a new name from the clock (48 bits, milliseconds) and 80 random bits.
    ///
    /// # Errors
    /// The kernel's random bytes cannot be read.
    pub fn new() -> Result<Self, Error> {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = clock.map_or(0, |since| since.as_millis());
        Ok(Self(base32(millis << 80 | random_bits()? >> 48, 26)))
    }

    /// Returns the 26 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Makes the name of a session: `s-` and 20 characters of 5 random bits each.
///
/// # Errors
/// The kernel's random bytes cannot be read.
pub fn session_id() -> Result<String, Error> {
    Ok(format!("s-{}", base32(random_bits()?, 20)))
}

/// Reads 128 random bits. The device never blocks once the machine is up.
pub(super) fn random_bits() -> Result<u128, Error> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(path)
        .and_then(|mut device| device.read_exact(&mut bytes))
        .map_err(|error| Error::io("read random bytes from", path, &error))?;
    Ok(u128::from_le_bytes(bytes))
}

/// Writes the lowest `5 * digits` bits, the highest digit first.
fn base32(value: u128, digits: u32) -> String {
    let digit = |place: u32| {
        let index = u8::try_from(value >> (5 * place) & 31).unwrap_or(0);
        char::from(BASE32[usize::from(index)])
    };
    (0..digits).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_by_its_time_first() {
        let (one, two) = (CallId::new().expect("random"), CallId::new().expect("random"));
        assert_eq!(one.as_str().len(), 26);
        assert_ne!(one, two);
        // The millisecond clock needs 41 of its 48 bits until the year 2039.
        assert!(one.as_str().starts_with("01"), "{one}");
    }

    #[test]
    fn digits_stand_highest_first() {
        assert_eq!(base32(33, 4), "0011");
        assert_eq!(base32(u128::MAX, 26), format!("7{}", "Z".repeat(25)));
    }

    #[test]
    fn sessions_have_names_of_their_own() {
        let name = session_id().expect("random");
        assert!(name.starts_with("s-") && name.len() == 22, "{name}");
        assert_ne!(name, session_id().expect("random"));
    }
}
