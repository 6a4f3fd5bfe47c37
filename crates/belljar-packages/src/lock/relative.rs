//! A lock's text for the directory that it is to lie in.

use std::path::{self, Path, PathBuf};

use toml_edit::{DocumentMut, Item, TableLike, Value, value};

use super::Lock;
use crate::file_name::percent_decoded;

impl Lock {
    /// The lock as a `pylock.toml` for `directory`: paths below that are relative, all others absolute. Read there with
    /// [`parse_in`](Self::parse_in) it is the same lock.
    pub fn text_in(&self, directory: &Path) -> String {
        let Ok(mut document) = self.text.parse::<DocumentMut>() else { return self.text.clone() };
        // The directory may be reached by another name.
        let roots: Vec<PathBuf> =
            [path::absolute(directory), directory.canonicalize()].into_iter().flatten().collect();
        let relocate = |table: &mut dyn TableLike| self.relocate(table, &roots);
        let packages = document.get_mut("packages").and_then(Item::as_array_of_tables_mut);
        for package in packages.into_iter().flat_map(|packages| packages.iter_mut()) {
            for key in ["archive", "directory", "sdist"] {
                if let Some(place) = package.get_mut(key).and_then(Item::as_table_like_mut) {
                    relocate(place);
                }
            }
            match package.get_mut("wheels") {
                Some(Item::Value(Value::Array(wheels))) => {
                    wheels
                        .iter_mut()
                        .filter_map(Value::as_inline_table_mut)
                        .for_each(|wheel| relocate(wheel));
                }
                Some(Item::ArrayOfTables(wheels)) => wheels.iter_mut().for_each(|wheel| relocate(wheel)),
                _ => {}
            }
        }
        document.to_string()
    }

    fn relocate(&self, table: &mut dyn TableLike, roots: &[PathBuf]) {
        let text =
            |key: &str, table: &dyn TableLike| table.get(key).and_then(Item::as_str).map(str::to_owned);
        let address = text("url", table).and_then(|url| Some(percent_decoded(url.strip_prefix("file://")?)));
        let given = text("path", table);
        let Some(place) = given.as_ref().or(address.as_ref()) else { return };
        let Ok(place) = path::absolute(self.base.join(place)) else { return };
        let inside = roots.iter().find_map(|root| place.strip_prefix(root).ok());
        let place = match inside {
            Some(inside) if inside.as_os_str().is_empty() => Path::new("."),
            Some(inside) => inside,
            // An address leads there from everywhere.
            None if given.is_none() => return,
            None => &place,
        };
        let Some(place) = place.to_str() else { return };
        if address.is_some() {
            table.remove("url");
        }
        table.insert("path", value(place));
    }
}
