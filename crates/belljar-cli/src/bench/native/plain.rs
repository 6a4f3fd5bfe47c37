//! The interpreter and the packages without Belljar: as a process, or in bubblewrap.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use belljar::{Environment, Quiet, Runtimes};
use serde::Deserialize;

use super::super::sample::milliseconds;
use super::super::scene::Scene;
use super::jupyter::Jupyter;

pub(super) struct Plain {
    python: PathBuf,
    prefix: PathBuf,
    packages: PathBuf,
    /// The list of fonts that matplotlib makes at its first import, which takes seconds.
    fonts: Option<PathBuf>,
    bwrap: Option<PathBuf>,
}

/// What `peers.py native` prints.
#[derive(Default, Deserialize)]
struct Places {
    bwrap: Place,
    jupyter: Place,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Place {
    path: Option<PathBuf>,
    python: Option<PathBuf>,
    worker: Option<PathBuf>,
    error: Option<String>,
}

/// What there is, and what there isn't and why. The script installs what it can.
pub(super) fn find(
    scene: &Scene,
    science: &Environment,
    script: Option<&Path>,
) -> anyhow::Result<(Plain, Option<Jupyter>, Vec<String>)> {
    let (python, prefix) = interpreter(scene.runtimes())?;
    let packages = science.make(scene.runtimes(), &Quiet)?.directory.context("science has packages")?;
    let mut places = match script {
        Some(script) => ask(&python, script)?,
        None => Places::default(),
    };
    if script.is_none() {
        places.bwrap.path = on_path("bwrap");
        let hint = "--peers benches/peers/peers.py installs it".to_owned();
        places.bwrap.error = places.bwrap.path.is_none().then(|| format!("it isn't on PATH; {hint}"));
        places.jupyter.error = Some(hint);
    }
    let mut notes = Vec::new();
    for (name, place) in [("bwrap", &places.bwrap), ("Jupyter", &places.jupyter)] {
        notes.extend(place.error.as_ref().map(|error| format!("{name} was not measured: {error}")));
    }
    let jupyter = match (&places.jupyter.python, &places.jupyter.worker) {
        (Some(python), Some(worker)) => Some(Jupyter::start(python, worker)?),
        _ => None,
    };
    let mut plain = Plain { python, prefix, packages, fonts: None, bwrap: places.bwrap.path };
    plain.fonts = plain.fonts(&scene.directory().join("matplotlib"))?;
    if let Err(error) = plain.bwrap("print(1)").map_or(Ok(0.0), |command| first_line(command, Some("1\n"))) {
        notes.push(format!("bwrap was not measured: {error}"));
        plain.bwrap = None;
    }
    Ok((plain, jupyter, notes))
}

/// The interpreter that the native engine runs, which a name on the path may only lead to, and what it belongs to.
fn interpreter(runtimes: &Runtimes) -> anyhow::Result<(PathBuf, PathBuf)> {
    let named = runtimes.python.clone().unwrap_or_else(|| "python3".into());
    let code = "import sys; print(sys._base_executable); print(sys.base_prefix)";
    let output = Command::new(&named).args(["-I", "-c", code]).output();
    let output = output.with_context(|| format!("running {}", named.display()))?;
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines().map(PathBuf::from);
    lines.next().zip(lines.next()).with_context(|| format!("{} says not where it is", named.display()))
}

fn ask(python: &Path, script: &Path) -> anyhow::Result<Places> {
    let mut command = Command::new(python);
    let output = command.arg(script).arg("native").stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    ensure!(output.status.success(), "{} native failed", script.display());
    serde_json::from_slice(&output.stdout).context("reading what the script printed")
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

impl Plain {
    /// Python with the packages of `science`, as a process like any other.
    pub(super) fn python(&self, code: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-c", code]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/tmp");
        command.env("PYTHONPATH", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// The same in bubblewrap: nothing shared, the system and the packages read-only, files in memory.
    pub(super) fn bwrap(&self, code: &str) -> Option<Command> {
        let mut command = Command::new(self.bwrap.as_ref()?);
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
        command.args(["--ro-bind", "/usr", "/usr"]);
        for name in ["/bin", "/lib", "/lib64", "/sbin"] {
            match fs::read_link(name) {
                Ok(target) => drop(command.arg("--symlink").arg(target).arg(name)),
                Err(_) => drop(command.args(["--ro-bind-try", name, name])),
            }
        }
        command.args(["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]);
        if !self.prefix.starts_with("/usr") {
            command.arg("--ro-bind").args([&self.prefix, &self.prefix]);
        }
        command.arg("--ro-bind").arg(&self.packages).arg("/packages");
        command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/tmp/matplotlib"]);
        if let Some((fonts, name)) = self.fonts.as_ref().and_then(|fonts| Some((fonts, fonts.file_name()?))) {
            command.arg("--ro-bind").arg(fonts).arg(Path::new("/tmp/matplotlib").join(name));
        }
        let variables = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/tmp"),
            ("PYTHONPATH", "/packages"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("MPLBACKEND", "Agg"),
            ("MPLCONFIGDIR", "/tmp/matplotlib"),
        ];
        for (name, value) in variables {
            command.args(["--setenv", name, value]);
        }
        command.args(["--chdir", "/tmp"]).arg(&self.python).args(["-c", code]);
        Some(command)
    }

    /// Lets matplotlib make its list of fonts.
    fn fonts(&self, directory: &Path) -> anyhow::Result<Option<PathBuf>> {
        fs::create_dir_all(directory)?;
        self.python("import matplotlib.pyplot").env("MPLCONFIGDIR", directory).output()?;
        let made = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(made.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "json")))
    }
}

/// Milliseconds until a program has written its first line, and must have written this at its end.
pub(super) fn first_line(mut command: Command, printed: Option<&str>) -> anyhow::Result<f64> {
    command.stdout(Stdio::piped()).stdin(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut text = String::new();
    output.read_line(&mut text)?;
    let taken = started.elapsed();
    while output.read_line(&mut text)? > 0 {}
    let status = child.wait()?;
    ensure!(
        status.success() && printed.is_none_or(|printed| printed == text),
        "{:?} printed {text:?} and ended with {status}",
        command.get_program()
    );
    Ok(milliseconds(taken))
}
