//! What Landlock lets a session do.

use std::os::fd::OwnedFd;

use belljar_jail::Beneath;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    path_beneath_rules,
};

/// The ruleset, if the kernel has Landlock.
pub(crate) fn make(beneath: &Beneath) -> Option<OwnedFd> {
    try_make(beneath).ok().flatten()
}

fn try_make(beneath: &Beneath) -> Result<Option<OwnedFd>, RulesetError> {
    let abi = ABI::V5;
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(&beneath.read, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(&beneath.write, AccessFs::from_all(abi)))?;
    Ok(created.into())
}
