//! Packages for Node that a session asks for while it runs, from the same shop; and what asks for harm.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use belljar_native::{InstallFailure, InstalledModules, ModulesRequest};
use serde_json::{Value, json};

use super::installs::{ATTACK, good, said, session, with};

/// Has `one` in any version, `two` that brings a `one` of its own, and `large`. What is asked for isn't looked at here:
/// that is for whoever sells in earnest.
pub(super) fn sell(shelves: &Path, request: &ModulesRequest) -> Result<InstalledModules, InstallFailure> {
    let fail = |reason: String| InstallFailure { reason, bytes: 0 };
    let asked: Value = serde_json::from_slice(&request.project).map_err(|error| fail(error.to_string()))?;
    let mut packages = BTreeMap::new();
    for group in ["dependencies", "devDependencies", "optionalDependencies"] {
        for (name, range) in asked[group].as_object().into_iter().flatten() {
            let range = range.as_str().unwrap_or_default();
            let digits = range.trim_start_matches('^');
            let version =
                if digits.starts_with(|first: char| first.is_ascii_digit()) { digits } else { "2.0.0" };
            match name.as_str() {
                "one" | "large" => {}
                "two" => {
                    drop(packages.insert("node_modules/two/node_modules/one".to_owned(), "1.0.0".to_owned()))
                }
                "slow" => thread::sleep(Duration::from_secs(3)),
                other => return Err(fail(format!("there is no {other}"))),
            }
            packages.insert(format!("node_modules/{name}"), version.to_owned());
        }
    }
    let key = blake3::hash(format!("{packages:?}").as_bytes()).to_hex()[..16].to_owned();
    let directory = shelves.join(format!("node-{key}"));
    let mut links = Vec::new();
    for (place, version) in &packages {
        let name = place.rsplit('/').next().unwrap();
        let files = directory.join(place);
        fs::create_dir_all(files.join("lib")).unwrap();
        let manifest = json!({"name": name, "version": version, "bin": {name: "cli.js"}, "scripts": {"postinstall": "touch ran"}});
        fs::write(files.join("package.json"), manifest.to_string()).unwrap();
        fs::write(files.join("lib/index.js"), format!("module.exports = '{version}'")).unwrap();
        fs::write(files.join("cli.js"), format!("#!/bin/sh\necho {name} {version}\n")).unwrap();
        fs::set_permissions(files.join("cli.js"), fs::Permissions::from_mode(0o755)).unwrap();
        if name == "large" {
            fs::write(files.join("data"), vec![1; 30 << 20]).unwrap();
        }
        let above = place.rsplit_once('/').unwrap().0;
        links.push((format!("{above}/.bin/{name}"), format!("../{name}/cli.js")));
    }
    let locked: serde_json::Map<String, Value> = packages
        .iter()
        .map(|(place, version)| (place.clone(), json!({"version": version, "hasInstallScript": true})))
        .collect();
    let lock = json!({"lockfileVersion": 3, "packages": locked}).to_string();
    Ok(InstalledModules { directory, packages: packages.into_iter().collect(), links, lock, bytes: 1000 })
}

#[test]
fn packages_for_node_are_installed_changed_and_removed() {
    let mut session = session();
    let text = good(&mut session, "npm install one@1.0.0 two");
    assert!(
        text.contains("added 3 packages") && text.contains("scripts of packages are not run: one, one, two"),
        "{text}"
    );
    assert_eq!(
        good(
            &mut session,
            "one; two; node_modules/two/node_modules/.bin/one; cat node_modules/two/node_modules/one/lib/index.js"
        ),
        "one 1.0.0\ntwo 2.0.0\none 1.0.0\nmodule.exports = '1.0.0'"
    );
    assert_eq!(
        good(&mut session, "cat package.json"),
        "{\n  \"dependencies\": {\n    \"one\": \"^1.0.0\",\n    \"two\": \"^2.0.0\"\n  }\n}\n"
    );
    good(
        &mut session,
        "test ! -e ran && test ! -e node_modules/one/ran && grep -q '\"node_modules/one\"' package-lock.json",
    );
    let text = good(&mut session, "npm i one@2.0.0 -D");
    assert!(text.contains("changed 1 package"), "{text}");
    assert_eq!(
        good(&mut session, "one && npx one && grep -c devDependencies package.json"),
        "one 2.0.0\none 2.0.0\n1\n"
    );
    assert!(good(&mut session, "npm install").contains("up to date"));
    assert!(good(&mut session, "rm -rf node_modules; npm ci").contains("added 3 packages"));
    assert!(good(&mut session, "npm uninstall two").contains("removed 2 packages"));
    good(
        &mut session,
        "test ! -e node_modules/two && test ! -e node_modules/.bin/two && ! grep -q two package.json package-lock.json",
    );
    assert!(good(&mut session, "npm rm one").contains("removed 1 package"));
    good(
        &mut session,
        "test ! -e node_modules && mkdir -p deep/er && cd deep && echo '{}' > package.json && cd er && npm i one && test -e ../node_modules/one",
    );
    session.survives();
}

#[test]
fn projects_are_kept_apart() {
    let (mut first, mut second) = (session(), session());
    for (session, version) in [(&mut first, "1.0.0"), (&mut second, "2.0.0")] {
        good(
            session,
            &format!(
                "npm install -E one@{version} && mkdir other && cd other && npm install --prefix . one@3.0.0"
            ),
        );
    }
    assert_eq!(good(&mut first, "one; other/node_modules/.bin/one"), "one 1.0.0\none 3.0.0\n");
    assert_eq!(good(&mut second, "one; other/node_modules/.bin/one"), "one 2.0.0\none 3.0.0\n");
    good(&mut first, "echo changed > node_modules/one/lib/index.js; rm -rf other");
    assert_eq!(
        good(&mut second, "cat node_modules/one/lib/index.js; stat -c '%h %U' node_modules/one/cli.js"),
        "module.exports = '2.0.0'1 user\n"
    );
}

#[test]
fn files_of_a_project_that_make_no_sense() {
    let mut session = session();
    for (file, words) in [
        ("mkfifo package.json", "not a regular file"),
        ("mkdir package.json", "not a regular file"),
        ("ln -s /etc/passwd package.json", "not JSON"),
        ("ln -s /proc/1/environ package.json", "can't be read"),
        ("ln -s /dev/zero package.json", "not a regular file"),
        ("truncate -s 50M package.json", "more than"),
        ("printf '%0200000d' 0 | tr 0 '[' > package.json", "not JSON"),
        ("echo '[]' > package.json", "not a JSON object"),
        ("echo '{\"dependencies\": [1]}' > package.json", "not an object"),
        (
            "echo '{\"dependencies\": {\"one\": \"1\"}}' > package.json; mkfifo package-lock.json",
            "not a regular file",
        ),
    ] {
        let (code, text) =
            said(&mut session, &format!("rm -rf package.json package-lock.json; {file}; npm install one"));
        assert!(code != 0 && text.contains(words), "{file}: {text}");
    }
    // What npm would obey is nobody's business outside.
    good(
        &mut session,
        "rm -rf package*; echo 'registry=http://127.0.0.1:1/' > .npmrc; echo '{\"scripts\": {\"preinstall\": \"touch ran\"}}' > package.json; npm install one && test ! -e ran",
    );
    for line in [
        "npm install ../x",
        "npm i git+ssh://x/y",
        "npm i x@file:..",
        "npm i -g one",
        "npm i --workspaces",
        "npm i user/repo",
        "npm i __proto__",
        "npm i -- --prefix=/",
    ] {
        let (code, text) = said(&mut session, line);
        assert!(code == 1 && text.starts_with("npm error"), "{line}: {text}");
    }
    session.survives();
}

#[test]
fn what_is_too_large_for_node_is_not_copied() {
    let mut session = with(|spec| spec.limits.file_bytes = 16 << 20);
    let (code, text) = said(&mut session, "npm install large");
    assert_eq!((code, text.contains("not enough room")), (1, true), "{text}");
    good(
        &mut session,
        "test ! -e node_modules/large/data && test ! -e package.json && npm install one && one",
    );
    session.survives();
}

#[test]
fn without_permission_there_are_no_packages_for_node() {
    let mut session = with(|spec| spec.install = false);
    let (code, text) = said(&mut session, "npm install one");
    assert!(code == 1 && text.contains("--allow-install"), "{text}");
    good(&mut session, "test ! -e package.json && test ! -e node_modules");
}

#[test]
fn requests_for_node_that_make_no_sense() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        r#"
def modules(project=b'{"dependencies": {"one": "1.0.0"}}', **change):
    head = {'bytes': len(project), 'at': '/workspace', **change}
    return json.dumps({'node': head}).encode() + b'\n' + project

for bad in (modules(bytes=5 << 20), modules(bytes=-1), modules(bytes='x'), modules(at='/workspace/../etc'), modules(at=''), modules(at='..'),
            modules(at='a\0b'), modules(b'['), modules(b''), modules(b'{"dependencies": {"__proto__": "1"}}'),
            modules(b'[' * 1000000), modules(b'\xff' * 100), b'{"node": 1}\n', b'{"node": []}\n', b'{"node": {}}\n'):
    reply = ask(bad)
    assert reply is None or 'error' in reply, (bad[:80], reply)
# It says that more comes, and ends; or never says what is to be copied.
for text in (modules(bytes=1000), modules()):
    s = connect()
    s.sendall(text)
    s.close()
# Whatever is to be copied, only what was sold is.
s = connect()
s.sendall(modules())
assert answer(s)['packages'] == [['node_modules/one', '1.0.0']]
s.sendall(b'{"copy": ["../../etc", "node_modules", "", "/", "node_modules/../..", "node_modules/one/lib"]}\n')
data = b''
while not data.endswith(b'\n'): data += s.recv(65536)
assert json.loads(data) == {'done': 0}, data
assert not os.path.exists('/workspace/node_modules/one/lib')
"#,
    );
    session.survives();
    good(&mut session, "npm install one@1.0.0 && one");
}

#[test]
fn links_in_place_of_modules_lead_nowhere() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        r#"
def install(at):
    s = connect()
    project = b'{"dependencies": {"one": "1.0.0"}}'
    s.sendall(json.dumps({'node': {'bytes': len(project), 'at': at}}).encode() + b'\n' + project)
    assert 'packages' in answer(s)
    s.sendall(b'{"copy": ["node_modules/one"]}\n')
    data = b''
    while not data.endswith(b'\n'): data += s.recv(65536)
    return json.loads(data)

os.makedirs('/workspace/target')
for number, (link, to) in enumerate([('node_modules', '/workspace/target'), ('node_modules', '/etc'), ('node_modules/one', '/workspace/target'),
                                     ('node_modules/one/lib', '../../../target'), ('node_modules/.bin', '/workspace/target')]):
    project = f'/workspace/p{number}'
    os.makedirs(os.path.dirname(f'{project}/{link}'))
    os.symlink(to, f'{project}/{link}')
    assert 'error' in install(project), link
assert os.listdir('/workspace/target') == []
os.symlink('../../../../../..', '/workspace/up')
print(install('/workspace/up/etc'), install('/etc'))
# In place of files: what was there is replaced, and not written to.
os.makedirs('/workspace/q/node_modules/one/lib')
os.makedirs('/workspace/q/node_modules/.bin')
open('/workspace/precious', 'w').write('kept')
os.link('/workspace/precious', '/workspace/q/node_modules/one/cli.js')
os.symlink('/workspace/precious', '/workspace/q/node_modules/one/package.json')
os.symlink('/workspace/precious', '/workspace/q/node_modules/.bin/one')
os.mkfifo('/workspace/q/node_modules/one/lib/index.js')
assert install('/workspace/q') == {'done': 1}
assert open('/workspace/precious').read() == 'kept'
assert os.readlink('/workspace/q/node_modules/.bin/one') == '../one/cli.js'
os.unlink('/workspace/q/node_modules/one/cli.js')
os.mkdir('/workspace/q/node_modules/one/cli.js')
assert 'error' in install('/workspace/q')
"#,
    );
    for path in ["/etc/node_modules", "/node_modules"] {
        assert!(!Path::new(path).exists(), "{path}");
    }
    session.survives();
}

#[test]
fn many_install_for_node_at_once_and_some_are_killed() {
    let mut session = session();
    good(
        &mut session,
        "for n in 1 2 3 4 5 6 7 8; do mkdir p$n; (cd p$n; echo '{}' > package.json; npm install one@$n.0.0 > said 2>&1 || cat said) & done; \
         echo '{}' > package.json; for n in 1 2 3; do npm install one@$n.0.0 > /dev/null & done; wait; \
         for n in 1 2 3 4 5 6 7 8; do test \"$(p$n/node_modules/.bin/one)\" = \"one $n.0.0\" || exit 1; done; \
         test \"one $(grep -o '[0-9].0.0' package.json)\" = \"$(one)\"",
    );
    session.check(
        r#"
import subprocess, time
started = subprocess.Popen(['npm', 'install', 'slow'], cwd='/workspace/p1', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(0.5)
started.kill()
started.wait()
assert 'slow' not in open('/workspace/p1/package.json').read()
"#,
    );
    good(&mut session, "cd p1 && npm install one@9.0.0 && test \"$(node_modules/.bin/one)\" = 'one 9.0.0'");
    session.survives();
}
