//! A number that a session has in a variable, all over its memory, in a file and in a database: whoever reads it sees
//! whether the session is whole.

use belljar::{Error, Session, Status};
use belljar_tests::text;

const BEGIN: &str = "
import array, sqlite3
memory = array.array('I', bytes(1 << 20))
PLACES = range(0, len(memory), 4099)
database = sqlite3.connect('tally.db')
database.execute('create table tally (number)')
database.execute('insert into tally values (0)')
def mark(n):
    global number
    number = n
    for place in PLACES: memory[place] = n
    database.execute('update tally set number = ?', (n,))
    database.commit()
    with open('tally.txt', 'w') as file: file.write(str(n))
def look():
    (in_database,), = database.execute('select number from tally')
    with open('tally.txt') as file: in_file = int(file.read())
    seen = {number, in_file, in_database, *(memory[place] for place in PLACES)}
    return seen.pop() if len(seen) == 1 else f'mixed: {sorted(seen)}'
";

/// Puts a tally into a session.
pub(crate) fn begin(session: &Session, number: u64) {
    let outcome = session.run_blocking(format!("{BEGIN}\nmark({number})")).unwrap();
    assert_eq!(outcome.status, Status::Ok, "{outcome:#?}");
}

/// Writes another number, in one cell.
pub(crate) fn mark(session: &Session, number: u64) {
    assert_eq!(text(session, format!("mark({number}); number")), number.to_string());
}

/// The number that is everywhere, or what is there instead.
pub(crate) fn look(session: &Session) -> Result<Result<u64, String>, Error> {
    let outcome = session.run_blocking("look()")?;
    let said = outcome.value.as_ref().map_or_else(|| format!("{outcome:?}"), |value| value.text.clone());
    Ok(said.parse().map_err(|_| said))
}

/// The number that is everywhere.
#[track_caller]
pub(crate) fn number(session: &Session) -> u64 {
    look(session).unwrap().unwrap()
}
