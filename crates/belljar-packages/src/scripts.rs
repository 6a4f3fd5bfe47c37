//! Programs that packages bring, in `bin/`: they name the interpreter of the place where they run, not of this machine.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::text_file::read_text;

/// Where they are in site-packages.
pub(crate) const BIN: &str = "bin";
const FIRST_LINE: &str = "#!/usr/bin/env python3\n";
/// Where a first line ends, at the latest.
const LONGEST: u64 = 4 << 10;
/// Of all that are made for one package.
const MOST: usize = 1000;

/// Makes those that a package only names, and has all of them start with the Python in the path.
pub(crate) fn finish(files: &Path) -> io::Result<()> {
    let bin = files.join(BIN);
    if bin.is_file() {
        // A package may call a file so. It then has no programs.
        return Ok(());
    }
    for found in fs::read_dir(files)?.flatten() {
        let points = found.path().join("entry_points.txt");
        if found.file_name().to_string_lossy().ends_with(".dist-info")
            && let Ok(text) = read_text(&points)
        {
            for (name, module, call) in named(&text).take(MOST) {
                fs::create_dir_all(&bin)?;
                write_new(&bin.join(name), &script(module, call))?;
            }
        }
    }
    let Ok(scripts) = fs::read_dir(&bin) else { return Ok(()) };
    for script in scripts.flatten().filter(|found| found.file_type().is_ok_and(|kind| kind.is_file())) {
        redirect(&script.path())?;
    }
    Ok(())
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        // What the package itself has there counts.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn script(module: &str, call: &str) -> String {
    let top = call.split('.').next().unwrap_or(call);
    format!(
        "{FIRST_LINE}import sys\nfrom {module} import {top}\nif __name__ == \"__main__\":\n    sys.exit({call}())\n"
    )
}

/// The programs of an `entry_points.txt`: name, module and function. What isn't made of plain names is left out.
fn named(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let plain = |text: &str, more: &[u8]| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        !text.is_empty() && text.len() < 200 && !text.starts_with(['.', '-']) && text.bytes().all(good)
    };
    let mut inside = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[console_scripts]";
            return None;
        }
        let (name, place) = line.split_once('=').filter(|_| inside)?;
        let (module, call) = place.split('[').next()?.split_once(':')?;
        let (name, module, call) = (name.trim(), module.trim(), call.trim());
        (plain(name, b"._-") && plain(module, b"._") && plain(call, b"._")).then_some((name, module, call))
    })
}

/// Replaces a first line that names a Python. All of them can be executed.
fn redirect(path: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut start)?;
    if let Some(end) = end_of_python_line(&start) {
        let mut rest = fs::read(path)?;
        rest.drain(..end);
        // Anew: it may have other names, whose contents stay.
        fs::remove_file(path)?;
        let mut file = File::create_new(path)?;
        file.write_all(FIRST_LINE.as_bytes())?;
        file.write_all(&rest)?;
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Where the rest begins, if it starts with the line of a Python: also with the long form, in which a shell starts it.
fn end_of_python_line(start: &[u8]) -> Option<usize> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
    };
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.starts_with("#!"))?;
    if first.starts_with("#!/bin/sh") {
        let (second, third) = (lines.next()?, lines.next()?);
        let long = second.starts_with("'''exec'") && second.contains("python") && third.starts_with("' '''");
        return long.then_some(first.len() + second.len() + third.len());
    }
    first.contains("python").then_some(first.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let rest = |text: &str| end_of_python_line(text.as_bytes()).map(|end| text[end..].to_owned());
        assert_eq!(rest("#!python\nx"), Some("x".into()));
        assert_eq!(rest("#!/somewhere/bin/python3.11 -E\nx"), Some("x".into()));
        assert_eq!(rest("#!/bin/sh\n'''exec' '/a b/python' \"$0\" \"$@\"\n' '''\nx"), Some("x".into()));
        for other in ["#!/bin/sh\necho\necho\n", "#!/bin/bash\n", "\x7fELF", "", "x\n#!python\n"] {
            assert_eq!(rest(other), None, "{other:?}");
        }
    }

    #[test]
    fn programs_that_are_named() {
        let text = "[gui_scripts]\ng = a:b\n[console_scripts]\nrun = pkg.main:app.start [extra]\n../evil = a:b\n\
            x = a:b();import os\nno = a\n[other]\ny = a:b\n";
        assert_eq!(named(text).collect::<Vec<_>>(), [("run", "pkg.main", "app.start")]);
    }
}
