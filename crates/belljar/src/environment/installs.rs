//! Packages for sessions that ask for some while they run.
//!
//! They are settled, fetched and unpacked as those of environments are: wheels of the index that this machine uses, and
//! nothing of them is run. So the host needs no jail for it; what is unpacked is first run in the session itself.
//! Packages for Node come from the registry that npm uses on this machine, without their scripts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar_native::{
    InstallFailure, InstallRequest, InstalledModules, InstalledPackage, Installer, ModulesRequest,
    NativeEnvironment, is_requirement,
};
use belljar_packages::{
    HostPython, Limits, Lock, NodeModules, NodeProject, NodeResolver, PackageError, Resolver, Spec,
};
use belljar_runtime::Progress;

use crate::{Error, Runtimes};

/// For one request.
const TIME: Duration = Duration::from_secs(600);

/// Bytes that are counted for packages for Node that can't be had.
const FAILURE: u64 = 1 << 20;

/// Gets packages for the sessions of one environment.
pub(crate) struct SessionInstaller {
    runtimes: Runtimes,
    python: PathBuf,
}

impl SessionInstaller {
    pub(crate) fn new(runtimes: &Runtimes, environment: &NativeEnvironment) -> Self {
        let python = environment.prefix.join(&environment.executable);
        Self { runtimes: runtimes.clone(), python }
    }

    fn node_resolver(&self, most_bytes: u64) -> Result<NodeResolver, Error> {
        let defaults = Limits::default();
        let limits = Limits { bytes: defaults.bytes.min(most_bytes), ..defaults };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let resolver = NodeResolver::new(self.runtimes.cache()?).search(std::env::split_paths(&path));
        // Sessions need a node as well: the machine's own if they see it, else the one that comes with npm.
        let resolver = resolver.pinned(!belljar_native::sees_node()).offline(self.runtimes.offline);
        Ok(resolver.python(Some(self.python.clone())).limits(limits).until(Some(Instant::now() + TIME)))
    }

    fn prepare(&self, request: &InstallRequest) -> Result<(HostPython, Resolver), Error> {
        let cache = self.runtimes.cache()?;
        let runtimes = Runtimes { python: Some(self.python.clone()), ..self.runtimes.clone() };
        let python = runtimes.host_python(&cache)?;
        let defaults = Limits::default();
        let limits = Limits { bytes: defaults.bytes.min(request.most_bytes), ..defaults };
        let resolver = self.runtimes.native_resolver(cache, &python).limits(limits);
        Ok((python, resolver.upgrade(request.upgrade).until(Some(Instant::now() + TIME))))
    }
}

impl Installer for SessionInstaller {
    fn install(
        &self,
        request: &InstallRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<InstalledPackage>, InstallFailure> {
        let fetched = AtomicU64::new(0);
        let fail = |reason: String| InstallFailure { reason, bytes: fetched.load(Ordering::Relaxed) };
        let prepared = self.prepare(request).map_err(|error| {
            tracing::warn!(%error, "packages can't be installed into sessions");
            fail("the supervisor can't install packages here".to_owned())
        });
        let (python, resolver) = prepared?;
        let told = Told(progress);
        let unpacked = lock(&resolver, request, &told).and_then(|lock| {
            let has = |name: &str, version: &str| {
                request.installed.iter().any(|(own, other)| own == name && other == version)
            };
            let except = |package: &belljar_packages::LockedPackage| has(&package.name, &package.version);
            resolver.unpack(&lock, &except, request.most_bytes, &python, &told, &fetched)
        });
        let unpacked = unpacked.map_err(|error| {
            tracing::info!(%error, "packages for a session can't be had");
            fail(in_words(&error))
        })?;
        let package = |found: belljar_packages::UnpackedPackage| InstalledPackage {
            name: found.name,
            version: found.version,
            directory: found.directory,
            bytes: found.bytes,
        };
        Ok(unpacked.into_iter().map(package).collect())
    }

    fn install_modules(
        &self,
        request: &ModulesRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<InstalledModules, InstallFailure> {
        let fail = |reason: String, bytes| InstallFailure { reason, bytes };
        let resolver = self.node_resolver(request.most_bytes).map_err(|error| {
            tracing::warn!(%error, "packages for Node can't be installed into sessions");
            fail("the supervisor can't install packages for Node here".to_owned(), 0)
        })?;
        let project = NodeProject::parse(&request.project).map_err(|error| fail(in_words(&error), 0))?;
        let project = project.frozen(request.frozen).upgrade(request.upgrade).production(request.production);
        let installed = resolver.install(&project, &Told(progress)).map_err(|error| {
            tracing::info!(%error, "packages for Node can't be had");
            // How much was fetched isn't known. Failing must cost something, or it could go on for ever.
            fail(in_words(&error), FAILURE.min(request.most_bytes))
        })?;
        let NodeModules { directory, packages, links, lock, bytes, .. } = installed;
        Ok(InstalledModules { directory, packages, links, lock, bytes })
    }
}

/// What the session has stays as it is, unless that makes what it wants impossible.
fn lock(
    resolver: &Resolver,
    request: &InstallRequest,
    progress: &dyn Progress,
) -> Result<Lock, PackageError> {
    // The engine has looked at them; here it is what is written into a file for uv that counts.
    let spec = |text: &String| Spec::Requirement(text.clone());
    let wanted: Vec<Spec> =
        request.requirements.iter().filter(|text| is_requirement(text)).map(spec).collect();
    let named: Vec<String> = request.requirements.iter().map(|text| name_of(text)).collect();
    let kept = request.installed.iter().filter(|(name, _)| !named.contains(&normalised(name)));
    let kept: Vec<Spec> =
        kept.map(|(name, version)| Spec::Requirement(format!("{name}=={version}"))).collect();
    if !kept.is_empty()
        && let Ok(lock) = resolver.lock(&[wanted.as_slice(), &kept].concat(), progress)
    {
        return Ok(lock);
    }
    resolver.lock(&wanted, progress)
}

fn name_of(requirement: &str) -> String {
    let end = requirement.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
    normalised(&requirement[..end.unwrap_or(requirement.len())])
}

fn normalised(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// The error without what is the host's: paths, addresses.
fn in_words(error: &PackageError) -> String {
    let text = error.to_string();
    let mut words = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        let gap = &part[word.len()..];
        let bare = word.trim_matches(|letter: char| "`'\"()[]<>,;:.".contains(letter));
        let hidden = match bare {
            _ if word.contains("://") => "<index>",
            _ if bare.starts_with('/') || word.starts_with("/") || bare.starts_with("~/") => "<file>",
            _ => word,
        };
        words.push_str(hidden);
        words.push_str(gap);
    }
    words
}

/// Tells a session what is going on.
struct Told<'s>(&'s (dyn Fn(&str) + Sync));

impl Progress for Told<'_> {
    fn begin(&self, what: &str, _: Duration) {
        (self.0)(what);
    }

    fn advance(&self, _: f32) {}

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_nothing_of_the_host_in_them() {
        let error = PackageError::Uv {
            doing: "resolving".into(),
            reason: "failed to fetch `https://user:secret@index.example/simple/six/` for six, see (/home/me/x.toml)\n  \
                     because six>2 isn't there, /tmp/y"
                .into(),
        };
        let words = in_words(&error);
        for hidden in ["secret", "example", "home", "tmp"] {
            assert!(!words.contains(hidden), "{words}");
        }
        assert!(words.contains("because six>2 isn't there"), "{words}");
    }

    #[test]
    fn names() {
        for (requirement, name) in
            [("Foo_Bar>=1", "foo-bar"), ("zope.interface[x]", "zope-interface"), ("six", "six")]
        {
            assert_eq!(name_of(requirement), name);
        }
    }
}
