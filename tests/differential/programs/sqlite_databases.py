import sqlite3, os
db = sqlite3.connect('data.db')
db.executescript('create table person (id integer primary key, name text not null unique, age real); create view old as select * from person where age > 50;')
with db:
    db.executemany('insert into person (name, age) values (?, ?)', [(f'p{n:03}', n * 1.5) for n in range(100)])
print(db.execute('select count(*), avg(age), min(name), max(age), total(age) from old').fetchone(), db.total_changes, sqlite3.sqlite_version)
print(db.execute('with recursive f(a, b) as (select 0, 1 union all select b, a + b from f limit 20) select group_concat(a) from f').fetchone())
print(db.execute("select upper('ü'), length('漢字'), 7 / 2, 7 / 2.0, round(2.567, 2), 'a' || 1, typeof(1e3), hex('ab'), quote(x'00ff')").fetchone())
print(db.execute('select name, row_number() over (order by age desc), ntile(4) over (order by id) from person limit 3').fetchall())
print(db.execute("""select json_extract('{"a": [1, {"b": 2}]}', '$.a[1].b'), json_array(1, 'x', null)""").fetchone())
db.create_function('triple', 1, lambda x: x * 3)
db.create_collation('rev', lambda a, b: (a < b) - (a > b))
db.row_factory = sqlite3.Row
row = db.execute('select triple(id) as t, name from person order by name collate rev limit 1').fetchone()
row['t'], row.keys(), tuple(row), db.execute('pragma journal_mode').fetchone()[0], db.execute('pragma integrity_check').fetchone()[0]
# %%
try:
    with db:
        db.execute('delete from person')
        raise ValueError
except ValueError:
    print(db.execute('select count(*) from person').fetchone()[0], db.in_transaction)
db.execute('insert into person (name) values (?)', ('unfinished',))
sorted(os.listdir('.'))
# %% raises sqlite3.IntegrityError
db.execute("insert into person (name) values ('p001')")
# %% raises sqlite3.OperationalError
db.execute('select * from nowhere')
# %% raises sqlite3.ProgrammingError
db.execute('select ?', (1, 2))
# %%
db.rollback()
db.close()
again = sqlite3.connect('data.db')
print(again.execute('select count(*) from person').fetchone(), sorted(os.listdir('.')), os.path.getsize('data.db'))
again.execute('create table big (x)')
again.executemany('insert into big values (?)', ((bytes(1000),) for _ in range(2000)))
again.commit()
size = os.path.getsize('data.db')
again.execute('delete from big where rowid % 2')
again.commit()
again.execute('vacuum')
again.execute('select sum(length(x)) from big').fetchone(), size, os.path.getsize('data.db'), open('data.db', 'rb').read(16)
# %%
with sqlite3.connect(':memory:') as m:
    m.execute('create table t (x)')
    m.executemany('insert into t values (?)', [(1,), (None,), (b'x',), ('ü',), (2.5,)])
    print(m.execute('select x, typeof(x) from t').fetchall(), list(m.iterdump()))
# %% raises sqlite3.OperationalError
sqlite3.connect('no/such/directory/x.db')
# %% raises sqlite3.DatabaseError
open('garbage.db', 'w').write('this is no database at all, not even nearly' * 50)
sqlite3.connect('garbage.db').execute('select * from sqlite_master')
