//! Rows for people: columns stand below each other.

/// Where a column's cells stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lines with two spaces between columns, and none at their ends.
pub(crate) fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let all = || std::iter::once(&heads).chain(rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut lines = String::new();
    for row in all() {
        let mut line = String::new();
        for ((text, width), (_, align)) in row.iter().zip(&widths).zip(columns) {
            let cell = match align {
                Align::Left => format!("{text:<width$}  "),
                Align::Right => format!("{text:>width$}  "),
            };
            line += &cell;
        }
        lines += line.trim_end();
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [vec!["ä".to_owned(), "1".to_owned()], vec!["name".to_owned(), "1000".to_owned()]];
        assert_eq!(
            table(&[("A", Align::Left), ("N", Align::Right)], &rows),
            "A        N\nä        1\nname  1000\n"
        );
    }
}
