//! `belljar.toml`.

use super::environments::Project;

#[test]
fn the_command_line_beats_the_file_beats_the_default() {
    let project = Project::new();
    let (one, two) =
        (project.wheel("belljar_test_one", "1.0", &[]), project.wheel("belljar_test_two", "2.0", &[]));
    project.write("input/x", "from the host");
    project.write(
        "belljar.toml",
        &format!(
            "python_version = '3.14'\n\
             [environment]\npackages = ['./{one}']\npreload = ['belljar_test_one']\n\
             [policy]\ntimeout = 0.3\n[policy.env]\nA = 'file'\nB = 'file'\n\
             [mounts]\n'/data/input' = './input'\n"
        ),
    );
    let code = "import os, sys; print(os.environ['A'], os.environ['B'], open('/data/input/x').read(), \
                sys.modules['belljar_test_one'].version)";
    let told = project.done(&["run", "--offline", "--env", "B=line", "-c", code]);
    assert_eq!(told, "file line from the host 1.0\n");
    let sleep = "import time; time.sleep(0.6); print('slept')";
    assert_eq!(project.belljar(&["run", "--offline", "-c", sleep]).status, 124);
    assert_eq!(project.done(&["run", "--offline", "--timeout", "9", "-c", sleep]), "slept\n");
    assert_eq!(project.done(&["run", "--no-config", "-c", sleep]), "slept\n");
    // Packages of the command line replace those of the file.
    let code = "import belljar_test_two\ntry: import belljar_test_one\nexcept ImportError: print('only two')";
    assert_eq!(project.done(&["run", "--offline", "--package", &two, "-c", code]), "only two\n");
    // A new session is made as the file says.
    project.done(&["session", "create", "s", "--offline"]);
    assert_eq!(project.belljar(&["run", "--session", "s", "--no-config", "-c", sleep]).status, 124);
}

#[test]
fn a_file_by_name() {
    let project = Project::new();
    project.cache();
    project.write("other/settings.toml", "cache_dir = '../../cache'\n[policy.env]\nA = 'named'\n");
    project.write("belljar.toml", "[policy.env]\nA = 'found'\n");
    let code = "import os; print(os.environ.get('A'))";
    assert_eq!(project.done(&["run", "-c", code]), "found\n");
    assert_eq!(project.done(&["run", "--no-config", "-c", code]), "None\n");
    assert_eq!(project.done(&["run", "--offline", "--config", "other/settings.toml", "-c", code]), "named\n");
    project.refused(&["run", "--config", "missing.toml", "-c", ""], 2, &["cannot read missing.toml"]);
}

#[test]
fn mistakes_are_named() {
    let project = Project::new();
    for (text, message, hint) in [
        (
            "[environment]\npreloads = ['json']",
            "belljar.toml:2:1: there is no key `preloads`",
            "did you mean `preload`?",
        ),
        ("[polcy]\ntimeout = 3", "belljar.toml:1:2: there is no key `polcy`", "did you mean `policy`?"),
        ("[policy]\ntimeout = 'soon'", "belljar.toml:2:11: `timeout` is the text \"soon\"", ""),
        ("python_version = '3.13'", "belljar.toml:1:18: there is no Python 3.13, only 3.14", "\"3.14\""),
        ("[environment]\npackages = ['>>x']", "belljar.toml:2:13: ", "write it as"),
        ("[policy]\nmemory = '1MiB'", "cannot run in 1048576 bytes", "48 MiB"),
    ] {
        project.write("belljar.toml", text);
        let ended = project.belljar(&["run", "-c", "print(1)"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{text}: {ended:?}");
        assert!(ended.stderr.contains(message) && ended.stderr.contains(hint), "{text}: {}", ended.stderr);
    }
}

#[test]
fn a_found_file_names_nothing_outside_of_its_directory() {
    let project = Project::new();
    for text in ["[mounts]\n'/secrets' = '..'", "[mounts]\n'/secrets' = '/etc'", "cache_dir = './cache'"] {
        project.write("belljar.toml", text);
        project.refused(&["run", "-c", ""], 2, &["belljar.toml:", "--config belljar.toml"]);
    }
    project.write("belljar.toml", "[mounts]\n'/host' = '..'");
    let code = "import os; print('work' in os.listdir('/host'))";
    assert_eq!(project.done(&["run", "--config", "belljar.toml", "-c", code]), "True\n");
}

#[test]
fn mounts_that_hide_each_other() {
    let project = Project::new();
    let wheel = project.wheel("belljar_test_one", "1.0", &[]);
    project.write("data/mine", "x");
    // The user's own directory, and the packages inside of it.
    let code = "import belljar_test_one; print(open('/data/mine').read(), belljar_test_one.version)";
    let run = ["run", "--offline", "--package", wheel.as_str(), "--mount"];
    assert_eq!(project.done(&[&run[..], &["data:/data", "-c", code]].concat()), "x 1.0\n");
    for guest in ["/data/site-packages", "/data/site-packages/x"] {
        let mount = format!("data:{guest}");
        project.refused(&[&run[..], &[&mount, "-c", ""]].concat(), 2, &["/data/site-packages"]);
    }
    project.write("belljar.toml", "[mounts]\n'/a' = './data'\n'/python' = './data'");
    project.refused(&["run", "-c", ""], 2, &["/python"]);
}
