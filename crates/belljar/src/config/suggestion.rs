//! What somebody may have meant.

use super::sections::TABLES;

/// What to write instead of a key that isn't known in a table.
pub(super) fn advice(key: &str, table: &str, known: &[&str]) -> String {
    if let Some(meant) = nearest(key, known) {
        return format!("did you mean `{meant}`?");
    }
    if let Some((home, _)) = TABLES.iter().find(|(name, keys)| *name != table && keys.contains(&key)) {
        return match *home {
            "" => format!("`{key}` stands before the first table"),
            home => format!("`{key}` stands in [{home}]"),
        };
    }
    let known: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    format!("known here: {}", known.join(", "))
}

fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let spelled = |text: &str| text.to_lowercase().replace('-', "_");
    let key = spelled(key);
    // Half a name is nearer than its distance says.
    let begins = |known: &str| key.len() >= 3 && known.starts_with(&key);
    let distances = known.iter().map(|known| (if begins(known) { 1 } else { distance(&key, known) }, *known));
    let most = (key.chars().count() / 3).max(1);
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// How many characters must be changed, added, removed, or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Nobody's key is longer; the table below would be.
    if from.len() > 64 {
        return usize::MAX;
    }
    let mut costs = vec![vec![0; to.len() + 1]; from.len() + 1];
    for row in 0..=from.len() {
        for column in 0..=to.len() {
            costs[row][column] = if row == 0 || column == 0 {
                row + column
            } else {
                let same = from[row - 1] == to[column - 1];
                let changed = costs[row - 1][column - 1] + usize::from(!same);
                let mut cost = changed.min(costs[row - 1][column] + 1).min(costs[row][column - 1] + 1);
                let swaps = row > 1 && column > 1;
                if swaps && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1] {
                    cost = cost.min(costs[row - 2][column - 2] + 1);
                }
                cost
            };
        }
    }
    costs[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_meant() {
        let known = ["packages", "preload", "setup", "setup_file", "lock", "name", "stdlib"];
        for (typed, meant) in [
            ("package", "packages"),
            ("prelaod", "preload"),
            ("pre-load", "preload"),
            ("Lock", "lock"),
            ("setup-file", "setup_file"),
            ("setupfile", "setup_file"),
        ] {
            assert_eq!(nearest(typed, &known), Some(meant), "{typed}");
        }
        for typed in ["", "x", "version", "colour", "ÄÖÜ"] {
            assert_eq!(nearest(typed, &known), None, "{typed}");
        }
    }

    #[test]
    fn a_key_of_another_table_is_sent_there() {
        assert_eq!(advice("packages", "", TABLES[0].1), "`packages` stands in [environment]");
        assert_eq!(advice("cache_dir", "policy", &["timeout"]), "`cache_dir` stands before the first table");
        assert_eq!(advice("colour", "policy", &["timeout", "memory"]), "known here: `timeout`, `memory`");
    }

    #[test]
    fn distances() {
        for (from, to, expected) in [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
