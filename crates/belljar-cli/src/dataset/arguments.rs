//! The command line of `belljar dataset`, as typed.

use clap::{Args, Subcommand};

use crate::environments::ConfigArguments;
use crate::limits::{NamedDataset, named_dataset};
use crate::runtimes::RuntimeArguments;
use crate::sessions::HomeArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct DatasetCommands {
    #[command(subcommand)]
    pub(super) command: DatasetCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum DatasetCommand {
    /// Add a dataset, or a version of one; nothing is fetched yet
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArguments),
    /// List the datasets
    #[command(
        visible_alias = "list",
        after_help = "Example: belljar dataset ls --json | jq -r '.datasets[].name'"
    )]
    Ls(Common),
    /// Show all that is known of a dataset
    #[command(after_help = "Example: belljar dataset show sales@2024")]
    Show {
        /// The dataset [default version: the one that was added last]
        #[arg(value_name = "NAME[@VERSION]", value_parser = named_dataset)]
        name: NamedDataset,
        #[command(flatten)]
        common: Common,
    },
    /// Fetch datasets into the cache, unless they are there
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch {
        /// The datasets
        #[arg(required = true, value_name = "NAME[@VERSION]", value_parser = named_dataset)]
        names: Vec<NamedDataset>,
        /// Fetch them even if they are there
        #[arg(long)]
        refresh: bool,
        #[command(flatten)]
        fetching: FetchArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Give datasets to a session: its next cell finds them in data/
    #[command(after_help = STAGE_EXAMPLES)]
    Stage {
        /// The datasets
        #[arg(required = true, value_name = "NAME[@VERSION]", value_parser = named_dataset)]
        names: Vec<NamedDataset>,
        /// The session
        #[arg(long, value_name = "NAME")]
        session: String,
        #[command(flatten)]
        fetching: FetchArguments,
        #[command(flatten)]
        runtime: RuntimeArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Forget a dataset, or one version of it; sessions that have it keep it
    #[command(visible_alias = "remove", after_help = "Example: belljar dataset rm sales --version 2023")]
    Rm {
        /// The dataset
        name: String,
        /// Only this version
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Remove contents that no dataset and no session has, and fetches that nobody went on with
    #[command(after_help = "Example: belljar dataset gc --dry-run")]
    Gc {
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Read what is in the cache of datasets, and see that it is what was fetched
    #[command(after_help = VERIFY_NOTES)]
    Verify {
        /// The datasets [default: all]
        #[arg(value_name = "NAME[@VERSION]", value_parser = named_dataset)]
        names: Vec<NamedDataset>,
        #[command(flatten)]
        common: Common,
    },
}

/// What all of them take.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) config: ConfigArguments,

    #[command(flatten)]
    pub(super) home: HomeArguments,
}

/// How they are fetched.
#[derive(Args, Debug)]
pub(super) struct FetchArguments {
    /// Fetch also from this machine and from private networks
    #[arg(long)]
    pub(super) allow_private: bool,
}

#[derive(Args, Debug)]
pub(super) struct AddArguments {
    /// What to call it: letters, digits, '.', '_' and '-'
    pub(super) name: String,

    /// Where it comes from: http(s)://…, s3://BUCKET/KEY, a file, or FILE.py:FUNCTION, which is called with the name and
    /// gives the bytes
    pub(super) source: String,

    /// Its version; what has one never changes [default: latest, which is whatever the source has]
    #[arg(long, value_name = "VERSION")]
    pub(super) version: Option<String>,

    /// What its contents must be
    #[arg(long, value_name = "HASH")]
    pub(super) sha256: Option<String>,

    /// What its file ends with in data/ [default: as the source's does, else parquet]
    #[arg(long, value_name = "ENDING")]
    pub(super) format: Option<String>,

    /// Send this header with each request, to the source's host only; it is stored, and never shown
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(super) header: Vec<(String, String)>,

    /// What it is, in words
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,

    /// Take the place of another one of that name and version
    #[arg(long)]
    pub(super) replace: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as 'Authorization=Bearer …'".to_owned()),
    }
}

const ADD_EXAMPLES: &str = "\
A Python function runs on this machine, outside of any sandbox: `def fetch_dataset(ds_id): return b\"…\"`; it may also give \
pieces, or bytes with hash and version. Credentials of a bucket are read when it is fetched, from AWS_ACCESS_KEY_ID and the like.

Examples:
  belljar dataset add sales https://data.example.com/sales.parquet --sha256 … --version 2024
  belljar dataset add weather s3://bucket/weather.parquet
  belljar dataset add prices ./prices.csv --description 'as of today'
  belljar dataset add trips ./fetcher.py:fetch_dataset
  belljar dataset add private https://api.example.com/d/7 --format csv --header \"Authorization=Bearer $TOKEN\"";

const FETCH_EXAMPLES: &str = "\
What was cut off is gone on with the next time. What isn't what was promised is refused, and nothing of it is kept.

Examples:
  belljar dataset fetch sales
  belljar dataset fetch sales@2024 weather
  belljar dataset fetch local-api --allow-private";

const STAGE_EXAMPLES: &str = "\
The session must be one that has datasets staged: --dataset-access api or hybrid when it is made. Nothing is copied; all \
sessions share what is in the cache.

Examples:
  belljar session create work --dataset-access api
  belljar dataset stage sales weather@2024 --session work
  belljar run --session work -c 'print(open(\"data/sales.parquet\", \"rb\").read(4))'";

const VERIFY_NOTES: &str = "\
Exit status: 0 if all is well, 1 if something is damaged. What is damaged is fetched again when somebody needs it.

Example: belljar dataset verify sales";

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn headers() {
        let read = |text: &str| header(text);
        assert_eq!(read("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        for wrong in ["", "A", "=b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
