//! The first bytes of a program's file: which loader or interpreter the kernel would start.
//!
//! The file is foreign input: every offset and length in it is checked before it is used,
//! and a form that is not understood makes the program unavailable.
#![forbid(unsafe_code)]

use super::identity::{Fault, PinnedFile};
use crate::record::Text;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// How many bytes of a script's first line the kernel reads.
const LINE_BYTES_MAX: usize = 256;

/// Most program headers that are read.
const HEADERS_MAX: u16 = 512;

/// Longest path of a loader, in bytes, its NUL included.
const LOADER_BYTES_MAX: u64 = 4096;

/// Size of an ELF64 file header, in bytes.
const ELF_HEADER_BYTES: usize = 64;

/// Size of an ELF64 program header, in bytes.
const PROGRAM_HEADER_BYTES: u16 = 56;

/// Type of the program header that names the loader.
const PT_INTERP: u32 = 3;

/// What a program's file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// A 64-bit ELF program.
    Elf {
        /// Its dynamic loader, if it has one.
        loader: Option<PathBuf>,
    },
    /// A script.
    Script {
        /// The interpreter as written.
        interpreter: OsString,
        /// The rest of the line.
        argument: Option<OsString>,
    },
}

/// Reads what a pinned file is.
pub(super) fn read(file: &PinnedFile) -> Result<Image, Fault> {
    let path = || Text::from(file.path.as_path()).escaped();
    let next = "ask the operator to install the program in another form";
    let image = file
        .open()
        .and_then(|open| read_open(&open))
        .map_err(|error| Fault::new(format!("{} cannot be read: {error}", path()), next))?;
    image.ok_or_else(|| {
        let reason = format!("{} is neither a 64-bit ELF program nor a script", path());
        Fault::new(reason, next)
    })
}

fn read_open(file: &File) -> io::Result<Option<Image>> {
    let mut buffer = [0; LINE_BYTES_MAX];
    let count = read_up_to(file, &mut buffer, 0)?;
    let start = &buffer[..count];
    if let Some(line) = start.strip_prefix(b"#!") {
        return Ok(script(line, count < LINE_BYTES_MAX));
    }
    match start.get(..ELF_HEADER_BYTES) {
        Some(header) if is_elf64(header) => elf(file, header),
        _ => Ok(None),
    }
}

/// Reads until the buffer is full or the file ends.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Splits the line behind `#!` as the kernel does: blanks around both parts fall away, and
/// everything behind the interpreter is one argument. The kernel also takes lines that its
/// buffer cuts; what they would start is not what is written, so they count as no script.
fn script(bytes: &[u8], is_whole: bool) -> Option<Image> {
    let end = bytes.iter().position(|byte| *byte == b'\n').or(is_whole.then_some(bytes.len()))?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let trim = |text: &[u8]| -> Option<(usize, usize)> {
        let start = text.iter().position(|byte| !is_blank(byte))?;
        Some((start, text.iter().rposition(|byte| !is_blank(byte))? + 1))
    };
    let line = &bytes[..end];
    let (start, end) = trim(line)?;
    let line = &line[start..end];
    if line.contains(&0) {
        return None;
    }
    let split = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(split);
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let argument = trim(rest).map(|(start, end)| text(&rest[start..end]));
    Some(Image::Script { interpreter: text(interpreter), argument })
}

/// Tells whether a header is of a 64-bit ELF file in this machine's byte order.
fn is_elf64(header: &[u8]) -> bool {
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    header.starts_with(&[0x7f, b'E', b'L', b'F', 2, order])
}

fn elf(file: &File, header: &[u8]) -> io::Result<Option<Image>> {
    let table = (|| Some((u64_at(header, 32)?, u16_at(header, 54)?, u16_at(header, 56)?)))();
    let Some((table, size, count)) = table else { return Ok(None) };
    if count > HEADERS_MAX || (count > 0 && size != PROGRAM_HEADER_BYTES) {
        return Ok(None);
    }
    let mut entry = [0; PROGRAM_HEADER_BYTES as usize];
    for index in 0..count {
        let offset = table.checked_add(u64::from(index) * u64::from(size));
        let Some(offset) = offset.filter(|offset| i64::try_from(*offset).is_ok()) else {
            return Ok(None);
        };
        if read_up_to(file, &mut entry, offset)? != entry.len() {
            return Ok(None);
        }
        if u32_at(&entry, 0) == Some(PT_INTERP) {
            let place = u64_at(&entry, 8).zip(u64_at(&entry, 32));
            let loader = place.map_or(Ok(None), |(offset, size)| loader(file, offset, size))?;
            return Ok(loader.map(|loader| Image::Elf { loader: Some(loader) }));
        }
    }
    Ok(Some(Image::Elf { loader: None }))
}

/// Reads the loader's path, which ends in the only NUL.
fn loader(file: &File, offset: u64, size: u64) -> io::Result<Option<PathBuf>> {
    let is_sound = (2..=LOADER_BYTES_MAX).contains(&size) && i64::try_from(offset).is_ok();
    let Some(size) = usize::try_from(size).ok().filter(|_| is_sound) else { return Ok(None) };
    let mut bytes = vec![0; size];
    if read_up_to(file, &mut bytes, offset)? != size {
        return Ok(None);
    }
    let text = bytes.strip_suffix(&[0]).filter(|text| !text.contains(&0));
    Ok(text.map(|text| PathBuf::from(OsStr::from_bytes(text))).filter(|path| path.is_absolute()))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn image(content: &[u8]) -> Option<Image> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        read_open(&file).expect("readable")
    }

    fn script(interpreter: &str, argument: Option<&str>) -> Option<Image> {
        let argument = argument.map(OsString::from);
        Some(Image::Script { interpreter: interpreter.into(), argument })
    }

    #[test]
    fn script_lines_are_split_as_the_kernel_splits_them() {
        assert_eq!(image(b"#!/bin/sh"), script("/bin/sh", None));
        assert_eq!(image(b"#! \t/bin/sh \t\nx"), script("/bin/sh", None));
        assert_eq!(image(b"#!/bin/sh  -e  -u \n"), script("/bin/sh", Some("-e  -u")));
        assert_eq!(image(b"#!/bin/sh\r\n"), script("/bin/sh\r", None));
        for odd in [&b"#!"[..], b"#!\n", b"#!  \n/bin/sh", b"#!/bin/\0sh\n", b"", b"#"] {
            assert_eq!(image(odd), None, "{odd:?}");
        }
        let long = format!("#!/bin/sh {}\n", "a".repeat(300));
        assert_eq!(image(long.as_bytes()), None);
    }

    /// A minimal ELF64 file with one program header that names `loader`.
    fn elf_file(loader: &[u8]) -> Vec<u8> {
        let mut file = vec![0; ELF_HEADER_BYTES];
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, order]);
        file[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        file[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        file[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        let mut entry = [0; 56];
        entry[..4].copy_from_slice(&PT_INTERP.to_ne_bytes());
        entry[8..16].copy_from_slice(&120_u64.to_ne_bytes());
        entry[32..40].copy_from_slice(&(loader.len() as u64).to_ne_bytes());
        [file, entry.to_vec(), loader.to_vec()].concat()
    }

    #[test]
    fn the_loader_is_read_from_the_program_headers() {
        let loader = Some(PathBuf::from("/lib/ld.so"));
        assert_eq!(image(&elf_file(b"/lib/ld.so\0")), Some(Image::Elf { loader }));
        let mut fixed = elf_file(b"/lib/ld.so\0");
        fixed[64] = 1;
        assert_eq!(image(&fixed), Some(Image::Elf { loader: None }));
    }

    #[test]
    fn a_damaged_program_is_no_program() {
        let sound = elf_file(b"/lib/ld.so\0");
        for length in 0..sound.len() {
            assert_eq!(image(&sound[..length]), None, "{length}");
        }
        for loader in [&b"/lib/ld.so"[..], b"ld.so\0", b"/a\0b\0", b"\0", b""] {
            assert_eq!(image(&elf_file(loader)), None, "{loader:?}");
        }
        for (at, byte) in [(4, 1), (5, 9), (39, 0x80), (39, 0x7f), (54, 57), (57, 9), (79, 0xff)] {
            let mut damaged = sound.clone();
            damaged[at] = byte;
            assert_eq!(image(&damaged), None, "{at}");
        }
    }
}
