//! What tracking costs: `cargo run --release -p belljar-files --example tracked_figures [DIRECTORY]`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that fails should stop and say where"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_files::{Tracked, TrackedSettings};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 20;

fn main() {
    let place = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let base = tempfile::tempdir_in(place).unwrap();
    let root = base.path().join("workspace");
    for number in 0..50_000 {
        let directory = root.join(format!("{}/{}", number % 50, number % 500));
        if number < 500 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("{number}.txt")), format!("{number}")).unwrap();
    }
    let mut tracked = tell("open, 50,000 files", || open(&root, base.path()));
    tell("first begin: all contents kept", || tracked.begin().unwrap());
    tracked.finish().unwrap();
    tracked.keep(0);

    let mut cells = Figures::default();
    for cell in 1..=ROUNDS {
        cells.begin.push(time(|| tracked.begin().unwrap()));
        fs::write(root.join("7/7/7.txt"), format!("{cell}")).unwrap();
        cells.finish.push(time(|| assert_eq!(tracked.finish().unwrap().modified, ["7/7/7.txt"])));
        cells.keep.push(time(|| tracked.keep(cell as u32)));
    }
    cells.tell("one of 50,000 files");

    let mut cells = Figures::default();
    for cell in ROUNDS + 1..=2 * ROUNDS {
        cells.begin.push(time(|| tracked.begin().unwrap()));
        let directory = root.join(format!("new{cell}"));
        fs::create_dir(&directory).unwrap();
        for number in 0..1000 {
            fs::write(directory.join(format!("{number}")), "some text\n").unwrap();
        }
        cells.finish.push(time(|| assert_eq!(tracked.finish().unwrap().created.len(), 1000)));
        cells.keep.push(time(|| tracked.keep(cell as u32)));
    }
    cells.tell("1,000 new files");

    let mut polls = Vec::new();
    let mut backs = Vec::new();
    for _ in 0..ROUNDS {
        tracked.begin().unwrap();
        fs::write(root.join("7/7/7.txt"), "polled").unwrap();
        polls.push(time(|| assert!(tracked.poll().unwrap().files > 50_000)));
        for number in 0..1000 {
            fs::write(root.join(format!("new{}/{number}", ROUNDS + 1)), "other\n").unwrap();
        }
        backs.push(time(|| assert_eq!(tracked.roll_back().unwrap().failed_count, 0)));
    }
    println!("poll after one write: {:?}", median(&mut polls));
    println!("roll back of 1,000 modified files: {:?}", median(&mut backs));
    let moment = tell("moment, 70,000 files", || tracked.moment().unwrap());
    tell("restore of it, nothing changed", || tracked.restore(&moment).unwrap());
}

#[derive(Default)]
struct Figures {
    begin: Vec<Duration>,
    finish: Vec<Duration>,
    keep: Vec<Duration>,
}

impl Figures {
    fn tell(mut self, what: &str) {
        let [begin, finish, keep] =
            [&mut self.begin, &mut self.finish, &mut self.keep].map(|figures| median(figures));
        println!("{what}: begin {begin:?}, finish {finish:?}, keep {keep:?}");
    }
}

fn open(root: &Path, base: &Path) -> Tracked {
    let settings = TrackedSettings {
        ignored: Vec::new(),
        undo: 8,
        most_file: 16 << 20,
        most_total: 256 << 20,
        keep: true,
    };
    Tracked::open(fs::File::open(root).unwrap().into(), &base.join("vault"), settings).unwrap()
}

fn tell<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = act();
    println!("{what}: {:?}", start.elapsed());
    done
}

/// The processor's time, so that a busy machine tells the same.
fn time(act: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let start = now();
    act();
    now() - start
}

fn median(figures: &mut [Duration]) -> Duration {
    figures.sort();
    figures[figures.len() / 2]
}
