//! The command line of `belljar files`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::target::TargetArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct FilesCommands {
    #[command(subcommand)]
    pub(super) command: FilesCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum FilesCommand {
    /// List a directory
    #[command(visible_alias = "list", after_help = "Example: belljar files ls --session work -l data")]
    Ls {
        /// The directory [default: the workspace]
        path: Option<String>,
        /// Sizes and times too
        #[arg(short, long)]
        long: bool,
        /// All that is below it
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Print files
    #[command(after_help = CAT_EXAMPLES)]
    Cat {
        /// The files
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// Only these lines, with their numbers: 10:20, 10: or :20
        #[arg(long, value_name = "FIRST:LAST", value_parser = lines)]
        lines: Option<(u64, u64)>,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Copy files of the host into the session
    #[command(after_help = PUT_EXAMPLES)]
    Put {
        /// Files of the host, and last where to put them; `-` is standard input
        #[arg(required = true, num_args = 2.., value_name = "FILE... PATH")]
        paths: Vec<String>,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Copy files of the session to the host
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// Files of the session
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// Where to put them: a directory, or a name for a single file; `-` is standard output
        #[arg(short, long, value_name = "HOST", default_value = ".")]
        output: PathBuf,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Remove files and directories
    #[command(after_help = "Example: belljar files rm --session work -r build old.csv")]
    Rm {
        /// What to remove
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// Directories too, with all that is in them
        #[arg(short, long)]
        recursive: bool,
        /// What isn't there is no error
        #[arg(short, long)]
        force: bool,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Find files by a pattern: **/*.py, data/{a,b}?.csv
    #[command(visible_alias = "glob", after_help = "Example: belljar files find --session work '**/*.py'")]
    Find {
        /// The pattern
        pattern: String,
        /// Names that begin with a dot, too: .skills, .env
        #[arg(long)]
        hidden: bool,
        /// How many are found at most
        #[arg(long, value_name = "N", default_value = "10000")]
        most: usize,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Find lines by a regular expression
    #[command(after_help = GREP_EXAMPLES)]
    Grep {
        /// The expression
        pattern: String,
        /// A file or directory [default: the workspace]
        path: Option<String>,
        /// Only files whose names are like this
        #[arg(long, value_name = "PATTERN")]
        glob: Option<String>,
        /// `a` is also `A`
        #[arg(short, long)]
        ignore_case: bool,
        /// The expression is the text itself
        #[arg(short = 'F', long)]
        fixed: bool,
        /// Files whose names begin with a dot, too
        #[arg(long)]
        hidden: bool,
        /// How many matches are found at most
        #[arg(long, value_name = "N", default_value = "1000")]
        most: usize,
        /// Lines around each match
        #[arg(short = 'C', long, value_name = "N", default_value = "0")]
        context: usize,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Move a file or directory
    #[command(after_help = "Example: belljar files mv --session work draft.md report.md")]
    Mv {
        /// What
        from: String,
        /// Where to
        to: String,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Copy a file or directory within the session
    #[command(after_help = "Example: belljar files cp --session work data data-before")]
    Cp {
        /// What
        from: String,
        /// Where to
        to: String,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Make a directory, and those above it
    #[command(after_help = "Example: belljar files mkdir --session work data/raw")]
    Mkdir {
        /// The directory
        path: String,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Replace a piece of text in a file
    #[command(after_help = "Example: belljar files edit --session work main.py 'x = 1' 'x = 2'")]
    Edit {
        /// The file
        path: String,
        /// What is there; it must be there once
        #[arg(allow_hyphen_values = true)]
        old: String,
        /// What is to be there
        #[arg(allow_hyphen_values = true)]
        new: String,
        /// Replace it wherever it is
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Print what changes, until interrupted
    #[command(after_help = "Example: belljar files watch --session work")]
    Watch {
        #[command(flatten)]
        target: TargetArguments,
    },
}

/// Numbers of lines, the first and the last.
fn lines(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "write FIRST:LAST, such as 10:20, 10: or :20".to_owned();
    let (first, last) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, otherwise| match text {
        "" => Ok(otherwise),
        text => text.parse().map_err(|_| wrong()),
    };
    let (first, last) = (number(first, 1)?, number(last, u64::MAX)?);
    if first == 0 || last < first { Err(wrong()) } else { Ok((first, last)) }
}

const CAT_EXAMPLES: &str = "\
Examples:
  belljar files cat --session work report.md
  belljar files cat --session work main.py --lines 10:20";

const PUT_EXAMPLES: &str = "\
A file is there whole or not at all. A PATH that ends in / or is a directory takes all of them.

Examples:
  belljar files put --session work input.csv data/
  belljar files put --session work a.txt b.txt data/
  generate | belljar files put --session work - data/made.json";

const GET_EXAMPLES: &str = "\
Examples:
  belljar files get --session work artifacts/plot.png
  belljar files get --session work report.md -o today.md
  belljar files get --session work a.csv b.csv -o results/";

const GREP_EXAMPLES: &str = "\
Exit status: 0 if there is such a line, 1 if there is none.

Examples:
  belljar files grep --session work TODO
  belljar files grep --session work 'def \\w+' src --glob '*.py' -C 2";

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn numbers_of_lines() {
        assert_eq!(lines("10:20"), Ok((10, 20)));
        assert_eq!(lines(":2"), Ok((1, 2)));
        assert_eq!(lines("3:"), Ok((3, u64::MAX)));
        for wrong in ["", "3", "0:1", "5:4", "a:b", "1:2:3"] {
            assert!(lines(wrong).is_err(), "{wrong}");
        }
    }
}
