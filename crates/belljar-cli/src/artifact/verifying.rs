//! Whether an artifact is what it is said to be.

use std::process::ExitCode;

use belljar::{EngineKind, Verdict, Verified};
use serde_json::json;

use super::arguments::VerifyArguments;
use super::{not_there, there};
use crate::answer::Answer;
use crate::session::printable;
use crate::size::Size;

pub(super) fn verify(arguments: VerifyArguments) -> anyhow::Result<ExitCode> {
    let VerifyArguments { id, contents, json, limits, mut environment, home, runtime } = arguments;
    let answer = Answer { json };
    let config = environment.read_config()?;
    let keeping = home.keeping()?.configured(config.as_ref())?;
    let artifacts = there(&keeping).ok_or_else(|| not_there(&id))?;
    if contents {
        let artifact = artifacts.get(&id)?;
        artifacts.check(&id)?;
        let document = || json!({ "artifact": artifact, "contents": "intact" });
        return answer.give(document, || format!("{id}: {} read, as they were", Size(artifact.size)));
    }
    // Sessions that nobody kept have their environment nowhere else.
    if artifacts.provenance(&id)?.origin.engine == "native" {
        environment.prefer(EngineKind::Native);
    }
    let setting = environment.setting(runtime)?;
    let made = setting.environment(|| Ok(keeping.clone()))?;
    let policy = setting.policy(&limits, made.engine, None);
    let builder = setting.builder(policy, made, answer.audience());
    let sandbox = keeping.tell(builder).build_blocking()?;
    let verified = sandbox.verify_artifact_blocking(&id)?;
    answer.give(|| &verified, || words(&verified))?;
    Ok(if verified.verdict == Verdict::Same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words(verified: &Verified) -> String {
    let Verified { artifact, verdict, sha256, cells, differences, doubts } = verified;
    let cells = if *cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
    let mut text = match verdict {
        Verdict::Same => format!("{}: the same, from {cells}\n", artifact.id),
        Verdict::Different => format!(
            "{}: different, from {cells}\n  then {}\n  now  {}\n",
            artifact.id,
            artifact.sha256,
            sha256.as_deref().unwrap_or("-")
        ),
        Verdict::Missing => {
            format!("{}: {cells} made no {}\n", artifact.id, printable(&artifact.name))
        }
    };
    for difference in differences {
        text += &format!("difference: {}\n", printable(difference));
    }
    for doubt in doubts.iter().filter(|_| *verdict != Verdict::Same) {
        text += &format!("doubt: {}\n", printable(doubt));
    }
    text
}
