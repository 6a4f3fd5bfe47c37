//! Packages for Node: from the real registry, and from one that is hostile.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use belljar_packages::{Limits, NodeModules, NodeProject, NodeResolver, PackageError};
use belljar_runtime::Quiet;
use flate2::{Compression, write::GzEncoder};

use crate::{
    fixture::{Fixture, path},
    served::serve,
};

fn project(text: &str) -> NodeProject {
    NodeProject::parse(text.as_bytes()).expect("a project")
}

fn resolver(fixture: &Fixture) -> NodeResolver {
    NodeResolver::new(fixture.cache.clone()).search(path())
}

fn version(modules: &NodeModules, place: &str) -> Option<String> {
    modules.packages.iter().find(|(other, _)| other == place).map(|(_, version)| version.clone())
}

#[test]
fn packages_from_the_registry() {
    let fixture = Fixture::new();
    let wanted = project(
        r#"{"dependencies": {"left-pad": "1.3.0", "semver": "^7"}, "devDependencies": {"is-odd": "3.0.1"}}"#,
    );
    let modules = resolver(&fixture).install(&wanted, &Quiet).expect("installed");
    assert_eq!(version(&modules, "node_modules/left-pad").as_deref(), Some("1.3.0"));
    assert_eq!(version(&modules, "node_modules/is-odd").as_deref(), Some("3.0.1"));
    assert!(modules.directory.join("node_modules/left-pad/index.js").is_file());
    assert!(!modules.directory.join("node_modules/.bin").exists());
    let link = ("node_modules/.bin/semver".to_owned(), "../semver/bin/semver.js".to_owned());
    assert!(modules.links.contains(&link), "{:?}", modules.links);
    for hidden in ["://", "resolved", fixture.directory.path().to_str().expect("UTF-8")] {
        assert!(!modules.lock.contains(hidden), "{}", modules.lock);
    }

    // Without the network, from here on: the same words, and the lock.
    let offline = resolver(&fixture).offline(true);
    let again = offline.install(&wanted, &Quiet).expect("kept");
    assert_eq!(again.directory, modules.directory);
    let text = format!(
        r#"{{"dependencies": {{"left-pad": "1.3.0", "semver": "^7"}}, "devDependencies": {{"is-odd": "3.0.1"}}, "lock": {}}}"#,
        modules.lock
    );
    let frozen = project(&text).frozen(true);
    assert_eq!(offline.install(&frozen, &Quiet).expect("kept").directory, modules.directory);
    let without = offline.install(&frozen.production(true), &Quiet).expect("npm remembers them");
    assert_eq!(
        (version(&without, "node_modules/is-odd"), version(&without, "node_modules/left-pad")),
        (None, Some("1.3.0".to_owned()))
    );

    // What a lock says stays, as far as that is possible.
    let text = text.replace(r#""semver": "^7"}, "dev"#, r#""semver": "^7", "is-number": "6.0.0"}, "dev"#);
    let more = resolver(&fixture).install(&project(&text), &Quiet).expect("installed");
    assert_eq!(version(&more, "node_modules/left-pad").as_deref(), Some("1.3.0"));
    assert_eq!(version(&more, "node_modules/is-number").as_deref(), Some("6.0.0"));
    let text = text.replace("\"^7\"", "\"^5\"");
    let error = resolver(&fixture).install(&project(&text).frozen(true), &Quiet).expect_err("another lock");
    assert!(matches!(&error, PackageError::Npm { .. }), "{error}");
    // A lock whose hash is another is refused.
    let swapped = text.replace("sha512-", "sha512-AAAA").replace("\"^5\"", "\"^7\"");
    let lock_only = swapped.replace(r#", "is-number": "6.0.0""#, "");
    let error =
        resolver(&fixture).install(&project(&lock_only).frozen(true), &Quiet).expect_err("other hashes");
    assert!(error.to_string().contains("integrity") || error.to_string().contains("sha512"), "{error}");
}

#[test]
fn node_and_npm_can_be_fetched() {
    let fixture = Fixture::new();
    let wanted = project(r#"{"dependencies": {"left-pad": "1.3.0"}}"#);
    let modules = resolver(&fixture).pinned(true).install(&wanted, &Quiet).expect("installed");
    assert_eq!(version(&modules, "node_modules/left-pad").as_deref(), Some("1.3.0"));
    let node = belljar_packages::node_directory(&fixture.cache);
    let entry =
        fs::read_dir(node).expect("there").flatten().find(|found| found.path().join("bin/npm").is_file());
    let program = entry.expect("an entry").path().join("bin/npm");
    let said = std::process::Command::new(program).arg("--version").output().expect("run");
    assert!(said.status.success() && said.stdout.starts_with(b"11."), "{said:?}");
}

#[test]
fn packages_that_the_registry_cannot_give() {
    let fixture = Fixture::new();
    let error = |text: &str| resolver(&fixture).install(&project(text), &Quiet).expect_err(text).to_string();
    // Registries differ in how they say so; the package is named.
    let missing = error(r#"{"dependencies": {"@belljar-no-such/package": "1"}}"#);
    assert!(missing.contains("@belljar-no-such/package"), "{missing}");
    assert!(error(r#"{"dependencies": {"left-pad": "99"}}"#).contains("No matching version"));
    let offline = resolver(&fixture).offline(true);
    offline.install(&project(r#"{"dependencies": {"is-odd": "1"}}"#), &Quiet).expect_err("nothing is known");
}

/// Puts a package into a registry.
fn publish(directory: &Path, server: &str, name: &str, manifest: serde_json::Value, files: &[(&str, &[u8])]) {
    let mut package = serde_json::json!({"name": name, "version": "1.0.0"});
    for (key, value) in manifest.as_object().expect("an object") {
        package[key] = value.clone();
    }
    let tarball = directory.join(format!("{name}.tgz"));
    let mut tar =
        tar::Builder::new(GzEncoder::new(fs::File::create(&tarball).expect("made"), Compression::fast()));
    let manifest = package.to_string();
    let files = files.iter().map(|(name, content)| (*name, *content));
    for (file, content) in files.chain([("package.json", manifest.as_bytes())]) {
        let mut header = tar::Header::new_gnu();
        let name = format!("package/{file}");
        header.as_gnu_mut().expect("one").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o6777);
        if let Some(target) = content.strip_prefix(b"LINK ") {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name(std::str::from_utf8(target).expect("UTF-8")).expect("short");
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, std::io::empty()).expect("written");
        } else {
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append(&header, content).expect("written");
        }
    }
    tar.into_inner().expect("written").finish().expect("written");
    package["dist"] = serde_json::json!({"tarball": format!("{server}/{name}/-/{name}.tgz")});
    let document =
        serde_json::json!({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}});
    fs::write(directory.join(name), document.to_string()).expect("written");
}

#[test]
fn a_registry_whose_packages_are_hostile() {
    let fixture = Fixture::new();
    let shelves = fixture.path("registry");
    fs::create_dir_all(&shelves).expect("made");
    let server = serve(shelves.clone());
    let inside = TcpListener::bind("127.0.0.1:0").expect("bound");
    inside.set_nonblocking(true).expect("set");
    let secret = format!("http://{}/secret.tgz", inside.local_addr().expect("an address"));
    let marker = fixture.path("marker");
    let touch = format!("touch {}", marker.display());
    let scripts =
        serde_json::json!({"preinstall": touch, "install": touch, "postinstall": touch, "prepare": touch});
    let hostile: &[(&str, &[u8])] = &[
        ("index.js", b"module.exports = 1"),
        ("binding.gyp", b"{}"),
        ("link", b"LINK /etc/passwd"),
        ("../../../../escaped", b"x"),
        ("server.js", b"x"),
    ];
    publish(
        &shelves,
        &server,
        "scripted",
        serde_json::json!({"scripts": scripts, "bin": {"run": "index.js", "../out": "index.js", "up": "../../../../marker"}}),
        hostile,
    );
    let depends = |range: &str| serde_json::json!({"dependencies": {"inner": range}});
    publish(&shelves, &server, "remote", depends(&secret), &[]);
    publish(&shelves, &server, "repository", depends(&format!("git+{secret}")), &[]);
    publish(&shelves, &server, "file", depends("file:../../../../../etc"), &[]);
    publish(
        &shelves,
        &server,
        "optional",
        serde_json::json!({"optionalDependencies": {"inner": secret}}),
        &[],
    );
    publish(&shelves, &server, "large", serde_json::json!({}), &[("data", &vec![0; 30 << 20])]);
    publish(&shelves, &server, "many", serde_json::json!({}), &vec![("x", b"y".as_slice()); 10]);
    let install = |name: &str, limits: Limits| {
        let wanted = project(&format!(r#"{{"dependencies": {{"{name}": "*"}}}}"#));
        resolver(&fixture).registry(Some(server.clone())).limits(limits).install(&wanted, &Quiet)
    };
    let scripted = install("scripted", Limits::default()).expect("nothing of it is run");
    let place = scripted.directory.join("node_modules/scripted");
    assert!(place.join("index.js").is_file());
    assert!(
        !place.join("link").exists() && !marker.exists(),
        "{:?}",
        fs::read_dir(place).map(Iterator::count)
    );
    for (path, target) in &scripted.links {
        assert!(
            path.starts_with("node_modules/.bin/") && target.starts_with("../scripted/"),
            "{path} {target}"
        );
    }
    for refused in ["remote", "repository", "file"] {
        let error = install(refused, Limits::default()).expect_err(refused);
        assert!(matches!(&error, PackageError::Npm { .. } | PackageError::List { .. }), "{error:?}");
    }
    drop(install("optional", Limits::default()));
    assert!(inside.accept().is_err(), "nobody but the registry is asked");
    let error = install("large", Limits { bytes: 1 << 20, ..Limits::default() }).expect_err("too large");
    assert!(error.to_string().contains("larger than"), "{error}");
    let found =
        std::process::Command::new("find").arg(fixture.directory.path()).args(["-name", "escaped"]).output();
    assert!(found.expect("searched").stdout.is_empty());
    let special = std::process::Command::new("find")
        .arg(fixture.directory.path().join("cache"))
        .args(["-perm", "/6022", "-type", "f"])
        .output();
    assert_eq!(String::from_utf8_lossy(&special.expect("searched").stdout), "");
}

#[test]
fn a_registry_that_never_answers() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let until = Instant::now() + Duration::from_secs(2);
    let resolver = resolver(&fixture).registry(Some(server)).until(Some(until));
    let error = resolver.install(&project(r#"{"dependencies": {"a": "1"}}"#), &Quiet).expect_err("no answer");
    assert!(error.to_string().contains("too long"), "{error}");
}
