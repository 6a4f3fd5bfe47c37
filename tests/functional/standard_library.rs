//! The modules that code written by a language model reaches for first.

use belljar_tests::{run, session, text};

/// Runs the code; its last expression must be true.
#[track_caller]
fn holds(code: &str) {
    let outcome = run(code);
    let value = outcome.value.as_ref().map(|value| value.text.as_str());
    assert_eq!(value, Some("True"), "{outcome:#?}");
}

#[test]
fn zoneinfo() {
    let outcome = run("
from zoneinfo import ZoneInfo, available_timezones
from datetime import datetime
summer = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo('Europe/Berlin'))
str(summer), str(summer.astimezone(ZoneInfo('America/New_York'))), len(available_timezones()) > 400");
    assert_eq!(
        outcome.value.unwrap().text,
        "('2024-07-01 12:00:00+02:00', '2024-07-01 06:00:00-04:00', True)"
    );
}

#[test]
fn an_unknown_zone_is_the_usual_error() {
    assert_eq!(
        run("import zoneinfo\nzoneinfo.ZoneInfo('Mars/Olympus')").exception.unwrap().kind,
        "zoneinfo._common.ZoneInfoNotFoundError"
    );
}

#[test]
fn tempfile() {
    holds(
        "
import tempfile, os
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, 'x')
    open(path, 'w').write('x')
    there = os.path.exists(path)
with tempfile.NamedTemporaryFile('w+') as file:
    file.write('y'); file.seek(0)
    read = file.read()
with tempfile.SpooledTemporaryFile(max_size=10) as spool: spool.write(b'z' * 100)
handle, name = tempfile.mkstemp(); os.close(handle); os.unlink(name)
there and read == 'y' and not os.path.exists(directory) and tempfile.gettempdir() == '/tmp'",
    );
}

#[test]
fn sqlite_in_memory() {
    holds(
        "
import sqlite3
with sqlite3.connect(':memory:') as db:
    db.execute('create table t (a integer primary key, b text)')
    db.executemany('insert into t (b) values (?)', [(str(n),) for n in range(1000)])
    rows = db.execute('select count(*), sum(a), max(length(b)) from t where b like ?', ('%7%',)).fetchone()
rows == (271, 158_113, 3)",
    );
}

#[test]
fn sqlite_in_a_file() {
    let session = session();
    session
        .run_blocking("import sqlite3\ndb = sqlite3.connect('data.db')\ndb.execute('create table t (a)')\ndb.execute('insert into t values (1), (2)')\ndb.commit()\ndb.execute('insert into t values (3)')")
        .unwrap();
    assert_eq!(text(&session, "db.rollback()\ndb.execute('select sum(a) from t').fetchone()"), "(3,)");
    assert_eq!(
        text(&session, "db.close()\nsqlite3.connect('data.db').execute('select count(*) from t').fetchone()"),
        "(2,)"
    );
    assert_eq!(text(&session, "open('data.db', 'rb').read(15)"), "b'SQLite format 3'");
}

#[test]
fn csv() {
    holds("
import csv
with open('t.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, ['a', 'b']); writer.writeheader(); writer.writerow({'a': 1, 'b': 'x,\"y\"\\n'})
with open('t.csv', newline='') as file: rows = list(csv.DictReader(file))
rows == [{'a': '1', 'b': 'x,\"y\"\\n'}]");
}

#[test]
fn pathlib() {
    holds("
from pathlib import Path
base = Path('a/b/c'); base.mkdir(parents=True)
(base / 'x.txt').write_text('ä'); (base / 'y.bin').write_bytes(b'123')
found = sorted(p.name for p in Path('a').rglob('*.*'))
moved = (base / 'x.txt').rename(base / 'z.txt')
found == ['x.txt', 'y.bin'] and moved.read_text() == 'ä' and Path('.').resolve() == Path('/workspace') and (base / 'y.bin').stat().st_size == 3");
}

#[test]
fn shutil_and_glob() {
    holds("
import shutil, os, glob
os.makedirs('from/in'); open('from/in/f', 'w').write('1')
shutil.copytree('from', 'to'); shutil.move('to/in/f', 'to/g'); shutil.copy2('to/g', 'h')
archive = shutil.make_archive('all', 'zip', 'to'); shutil.unpack_archive(archive, 'back')
there = sorted(glob.glob('**/*', recursive=True)); shutil.rmtree('from')
there == ['all.zip', 'back', 'back/g', 'back/in', 'from', 'from/in', 'from/in/f', 'h', 'to', 'to/g', 'to/in'] and not os.path.exists('from')");
}

#[test]
fn zipfile_gzip_tarfile() {
    holds("
import zipfile, gzip, tarfile, io, zlib
with zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a/b.txt', 'x' * 1000)
with gzip.open('g.gz', 'wt') as g: g.write('hello')
with tarfile.open('t.tar.gz', 'w:gz') as t: t.add('g.gz')
zipfile.ZipFile('z.zip').read('a/b.txt') == b'x' * 1000 and gzip.open('g.gz', 'rt').read() == 'hello' and tarfile.open('t.tar.gz').getnames() == ['g.gz'] and zlib.decompress(zlib.compress(b'q')) == b'q'");
}

#[test]
fn json_pickle_copy() {
    holds("
import json, pickle, copy
value = {'a': [1, 2.5, None, True, 'ä\\u2028'], 'b': {'c': {}}}
json.loads(json.dumps(value, indent=2)) == value == pickle.loads(pickle.dumps(value)) == copy.deepcopy(value)");
}

#[test]
fn numbers() {
    holds("
from decimal import Decimal, getcontext
from fractions import Fraction
import math, statistics, cmath
getcontext().prec = 30
str(Decimal(1) / 7) == '0.142857142857142857142857142857' and Fraction(1, 3) + Fraction(1, 6) == Fraction(1, 2) and math.factorial(30) == 265252859812191058636308480000000 and statistics.median([3, 1, 2]) == 2 and 2 ** 200 % 1000003 == pow(2, 200, 1000003) and math.isclose(math.sin(1), 0.8414709848078965)");
}

#[test]
fn hashes_and_encodings() {
    holds("
import hashlib, hmac, base64, binascii, zlib, uuid
hashlib.sha256(b'').hexdigest()[:8] == 'e3b0c442' and hashlib.md5(b'a').hexdigest() == '0cc175b9c0f1b6a831c399e269772661' and hashlib.blake2b(b'').hexdigest()[:6] == '786a02' and hashlib.sha3_256(b'').hexdigest()[:4] == 'a7ff' and base64.b64encode(b'ab') == b'YWI=' and zlib.crc32(b'a') == 3904355907 and str(uuid.uuid5(uuid.NAMESPACE_DNS, 'x.org'))[14] == '5' and hmac.compare_digest(hmac.digest(b'k', b'm', 'sha256'), hmac.new(b'k', b'm', 'sha256').digest())");
}

#[test]
fn text_modules() {
    holds("
import re, textwrap, string, difflib, unicodedata, html, urllib.parse, shlex, fnmatch, configparser, xml.etree.ElementTree as E
re.sub(r'(?P<a>\\w+)@', r'<\\g<a>>', 'me@x') == '<me>x' and textwrap.shorten('a b c d', 5) == '[...]' and unicodedata.name('é') == 'LATIN SMALL LETTER E WITH ACUTE' and html.escape('<') == '&lt;' and urllib.parse.urlsplit('http://a/b?c=d').query == 'c=d' and shlex.split(\"a 'b c'\") == ['a', 'b c'] and E.fromstring('<a><b>t</b></a>').find('b').text == 't'");
}

#[test]
fn collections_and_friends() {
    holds("
import collections, itertools, functools, heapq, bisect, dataclasses, enum, typing, operator, contextlib, types, weakref, array, struct, queue
@dataclasses.dataclass(frozen=True)
class P: x: int; y: int = 2
class C(enum.Enum): A = 1
collections.Counter('aab').most_common(1) == [('a', 2)] and list(itertools.batched('abc', 2)) == [('a', 'b'), ('c',)] and P(1) == P(1, 2) and C(1) is C.A and heapq.nsmallest(2, [3, 1, 2]) == [1, 2] and struct.pack('<I', 1) == b'\\1\\0\\0\\0' and functools.lru_cache(lambda: 5)() == 5");
}

#[test]
fn dates() {
    holds("
from datetime import date, datetime, timedelta, timezone
import calendar, time
date(2024, 2, 28) + timedelta(2) == date(2024, 3, 1) and datetime.fromisoformat('2024-01-01T00:00:00+02:00').utctimetuple().tm_year == 2023 and calendar.monthrange(2024, 2) == (3, 29) and time.strftime('%Y', time.gmtime(0)) == '1970' and datetime.strptime('3 Mar 2021', '%d %b %Y').month == 3");
}

#[test]
fn inspection() {
    let session = session();
    session.run_blocking("def f(a, *, b=1):\n    \"Doc.\"\n    return a\n").unwrap();
    assert_eq!(
        text(&session, "import inspect\ninspect.getsource(f)"),
        "'def f(a, *, b=1):\\n    \"Doc.\"\\n    return a\\n'"
    );
    assert_eq!(text(&session, "str(inspect.signature(f)), f.__doc__"), "('(a, *, b=1)', 'Doc.')");
    assert!(session.run_blocking("help(f)").unwrap().stdout.contains("Doc."));
}

#[test]
fn modules_of_the_workspace() {
    let session = session();
    session.run_blocking("import os\nos.makedirs('pkg')\nopen('pkg/__init__.py', 'w').write('from .inner import x\\n')\nopen('pkg/inner.py', 'w').write('x = 7\\n')").unwrap();
    assert_eq!(text(&session, "import pkg\npkg.x"), "7");
    assert_eq!(
        text(
            &session,
            "open('pkg/inner.py', 'w').write('x = 88\\n')\nimport importlib\nimportlib.invalidate_caches()\nimportlib.reload(pkg.inner).x"
        ),
        "88"
    );
}

#[test]
fn most_of_the_library_imports() {
    let outcome = run("
import sys, importlib, pkgutil
absent = []
skip = {'antigravity', 'this', 'idlelib', 'turtledemo', 'turtle', 'tkinter', 'lib2to3', 'ensurepip', 'test', 'site'}
for name in sorted(sys.stdlib_module_names):
    if name.startswith('_') or name in skip: continue
    try: importlib.import_module(name)
    except ImportError as error: absent.append(name)
absent");
    insta::assert_snapshot!(outcome.value.unwrap().text, @"['curses', 'fcntl', 'grp', 'lzma', 'mmap', 'msvcrt', 'nt', 'pty', 'pwd', 'readline', 'resource', 'ssl', 'syslog', 'termios', 'tty', 'winreg', 'winsound']");
}

#[test]
fn absent_modules_say_why() {
    for name in ["_ctypes", "ssl", "lzma", "curses"] {
        let raised = run(format!("import {name}")).exception.unwrap();
        assert!(raised.kind == "ModuleNotFoundError" && raised.message.len() > 40, "{name}: {raised:?}");
    }
    assert_eq!(run("import nowhere").exception.unwrap().message, "No module named 'nowhere'");
}

/// Packages import it, and use it only for files of that kind.
#[test]
fn a_compression_that_is_absent_says_so_when_it_is_used() {
    let raised = run("import bz2\nbz2.compress(b'a')").exception.unwrap();
    assert!(raised.kind == "OSError" && raised.message.contains("lacks this compression"), "{raised:?}");
    let code = "import tarfile\nwith tarfile.open('a.tar.gz', 'w:gz') as t: t.addfile(tarfile.TarInfo('x'))\ntarfile.open('a.tar.gz').getnames()";
    assert_eq!(run(code).value.unwrap().text, "['x']");
}
