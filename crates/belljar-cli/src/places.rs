//! The options that say where artifacts are, and how datasets are fetched.

use std::path::{self, Path, PathBuf};

use belljar::{ArtifactSettings, BlobPlace, Config, Database, Error, FetchOptions, S3Credentials, S3Place};
use clap::Args;

use crate::failure::Usage;
use crate::seed::Seed;
use crate::variables::Variables;

const DATABASE: &str = "BELLJAR_ARTIFACT_DB";
const BLOBS: &str = "BELLJAR_ARTIFACT_BLOBS";
const URL_BASE: &str = "BELLJAR_ARTIFACT_URL_BASE";

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Places")]
pub(crate) struct PlaceArguments {
    /// What is known of artifacts: a file, or postgres://… [env: BELLJAR_ARTIFACT_DB] [default: artifacts/artifacts.db in
    /// the state directory]
    #[arg(long, value_name = "PLACE")]
    artifact_db: Option<String>,

    /// Their contents: a directory, or s3://BUCKET/PREFIX [env: BELLJAR_ARTIFACT_BLOBS] [default: artifacts/blobs in the
    /// state directory]
    #[arg(long, value_name = "PLACE")]
    artifact_blobs: Option<String>,

    /// What signed links begin with, such as https://files.example.com [env: BELLJAR_ARTIFACT_URL_BASE]
    #[arg(long, value_name = "URL")]
    artifact_url_base: Option<String>,

    /// Read SESSION_STORAGE, DATASET_ACCESS and the like from this file too; no code sees it
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
}

/// Where artifacts are, and how datasets are fetched.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    typed: PlaceArguments,
    pub(crate) variables: Variables,
    pub(crate) seed: Option<Seed>,
    pub(crate) artifacts: ArtifactSettings,
    pub(crate) fetching: FetchOptions,
}

impl PlaceArguments {
    /// All but what a file says.
    pub(crate) fn places(&self, state: &Path) -> anyhow::Result<Places> {
        let variables = Variables::read(self.env_file.as_deref())?;
        let seed = Seed::read(&variables)?;
        let (artifacts, fetching) = (ArtifactSettings::of_state(state), FetchOptions::default());
        let places = Places { typed: self.clone(), variables, seed, artifacts, fetching };
        places.configured(state, None)
    }

    /// Whether somebody says where artifacts are, so that there must be a place for them.
    pub(crate) fn asks(&self) -> anyhow::Result<bool> {
        let variables = Variables::read(self.env_file.as_deref())?;
        let typed = self.artifact_db.is_some() || self.artifact_blobs.is_some();
        Ok(typed || variables.get(DATABASE).is_some() || Seed::read(&variables)?.is_some())
    }
}

impl Places {
    /// The same with what a file says: the state directory, then the file, then variables, then the command line.
    pub(crate) fn configured(mut self, state: &Path, config: Option<&Config>) -> anyhow::Result<Self> {
        self.artifacts = ArtifactSettings::of_state(state);
        self.fetching = FetchOptions { s3_credentials: self.credentials(), ..FetchOptions::default() };
        self.fetching.proxy = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
            .into_iter()
            .find_map(|name| self.variables.get(name));
        if let Some(config) = config {
            config.change_artifacts(&mut self.artifacts);
            config.change_fetching(&mut self.fetching);
        }
        if let Some(seed) = &self.seed {
            self.artifacts.database = database(&seed.database)?;
            self.artifacts.blobs = blobs(&seed.blobs)?;
        }
        let said = |typed: &Option<String>, name| typed.clone().or_else(|| self.variables.get(name));
        match (said(&self.typed.artifact_db, DATABASE), said(&self.typed.artifact_blobs, BLOBS)) {
            (None, None) => {}
            (Some(known), Some(contents)) => {
                self.artifacts.database = database(&known)?;
                self.artifacts.blobs = blobs(&contents)?;
            }
            _ => {
                return Err(Usage {
                    message: "contents of artifacts belong to one database, and only one of the two is named"
                        .to_owned(),
                    hint: "name both: --artifact-db and --artifact-blobs, or BELLJAR_ARTIFACT_DB and \
                           BELLJAR_ARTIFACT_BLOBS",
                }
                .into());
            }
        }
        if let Some(base) = said(&self.typed.artifact_url_base, URL_BASE) {
            self.artifacts.base = Some(base);
        }
        if let BlobPlace::S3(place) = self.artifacts.blobs.clone() {
            self.artifacts.blobs = BlobPlace::S3(self.reach(place));
        }
        Ok(self)
    }

    /// A bucket, with what the environment says of it as other programs read it.
    pub(crate) fn reach(&self, mut place: S3Place) -> S3Place {
        place.endpoint = place.endpoint.or_else(|| self.endpoint());
        place.region = place.region.or_else(|| self.region());
        place.credentials = place.credentials.or_else(|| self.credentials());
        place
    }

    pub(crate) fn endpoint(&self) -> Option<String> {
        self.variables.get("AWS_ENDPOINT_URL_S3").or_else(|| self.variables.get("AWS_ENDPOINT_URL"))
    }

    pub(crate) fn region(&self) -> Option<String> {
        self.variables.get("AWS_REGION").or_else(|| self.variables.get("AWS_DEFAULT_REGION"))
    }

    fn credentials(&self) -> Option<S3Credentials> {
        let key_id = self.variables.get("AWS_ACCESS_KEY_ID")?;
        let secret = self.variables.get("AWS_SECRET_ACCESS_KEY")?;
        Some(S3Credentials { key_id, secret, token: self.variables.get("AWS_SESSION_TOKEN") })
    }
}

fn database(text: &str) -> anyhow::Result<Database> {
    Ok(match Database::parse(text).map_err(Error::from)? {
        Database::Sqlite(path) => Database::Sqlite(path::absolute(&path).unwrap_or(path)),
        server => server,
    })
}

fn blobs(text: &str) -> anyhow::Result<BlobPlace> {
    if text.starts_with("s3://") {
        return Ok(BlobPlace::S3(S3Place::parse(text).map_err(Error::from)?));
    }
    if text.contains("://") {
        return Err(Usage {
            message: format!("{text:?} is neither a directory nor s3://BUCKET/PREFIX"),
            hint: "services that speak S3 are named by AWS_ENDPOINT_URL",
        }
        .into());
    }
    let path = PathBuf::from(text);
    Ok(BlobPlace::Directory(path::absolute(&path).unwrap_or(path)))
}
