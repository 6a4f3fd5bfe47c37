//! Replacing text in a file.

use belljar_engine::{FileDoor, FileError, FileErrorCode};

use super::{read_text, stat, write};

/// Bytes of a file that can be edited, before and after.
const MOST_EDITED: u64 = 64 << 20;
/// Places that a message names.
const MOST_NAMED: usize = 5;

/// Bytes of a file in which something similar is looked for.
const MOST_COMPARED: usize = 4 << 20;
/// Lines of a text for which something similar is looked for.
const MOST_LINES: usize = 200;

/// Replaces a text in a file: the only place where it is, or all of them. Says how many there were.
pub fn edit(door: &dyn FileDoor, path: &str, old: &str, new: &str, all: bool) -> Result<usize, FileError> {
    let no_match = |message: String| Err(FileError::told(FileErrorCode::NoMatch, path, message));
    if old.is_empty() {
        return no_match("the text to replace is empty; use append or write to add text".to_owned());
    }
    let before = stat(door, path)?;
    let text = read_text(door, path, MOST_EDITED)?;
    let count = text.matches(old).count();
    if count == 0 {
        return no_match(why_absent(&text, old));
    }
    if count > 1 && !all {
        let lines: Vec<_> =
            text.match_indices(old).take(MOST_NAMED).map(|(at, _)| line_of(&text, at).to_string()).collect();
        let more = if count > MOST_NAMED { ", …" } else { "" };
        let lines = lines.join(", ");
        return no_match(format!(
            "the text is there {count} times (lines {lines}{more}); give more of what is around it, or replace all"
        ));
    }
    let size = (text.len() - count * old.len()) as u64 + (count as u64).saturating_mul(new.len() as u64);
    if size > MOST_EDITED {
        let message = format!("it would have {size} bytes, of at most {MOST_EDITED} that can be edited");
        return Err(FileError::told(FileErrorCode::TooLarge, path, message));
    }
    let edited = text.replace(old, new);
    let now = stat(door, path)?;
    if (now.size, now.modified_ns) != (before.size, before.modified_ns) {
        let message = "it was changed by others meanwhile; read it again";
        return Err(FileError::told(FileErrorCode::Failed, path, message));
    }
    write(door, path, &mut edited.as_bytes())?;
    Ok(count)
}

/// A hint for whoever gave a text that isn't there.
fn why_absent(text: &str, old: &str) -> String {
    const ABSENT: &str = "the text is not there; read the file again, and give the text exactly";
    if text.len() > MOST_COMPARED || old.lines().count() > MOST_LINES {
        return ABSENT.to_owned();
    }
    if text.contains("\r\n") && text.replace("\r\n", "\n").contains(old) {
        return "the text is not there as given: the file's lines end with \\r\\n".to_owned();
    }
    let wanted: Vec<_> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<_> =
        text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()).collect();
    let same = |window: &[(usize, &str)]| window.iter().map(|(_, line)| line).eq(wanted.iter());
    if !wanted.is_empty()
        && let Some(found) = lines.windows(wanted.len()).find(|window| same(window))
    {
        let line = found[0].0 + 1;
        return format!("the text is not there as given; with other white space it is at line {line}");
    }
    ABSENT.to_owned()
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}
