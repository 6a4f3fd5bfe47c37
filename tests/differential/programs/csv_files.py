import csv, io
rows = [['id', 'text', 'num'], [1, 'a,b', 1.5], [2, 'quote " here', None], [3, 'line\nbreak', 1e-10], [4, 'ü 漢', True]]
with open('t.csv', 'w', newline='', encoding='utf-8') as f:
    csv.writer(f).writerows(rows)
print(open('t.csv', 'rb').read(), list(csv.reader(open('t.csv', newline='', encoding='utf-8'))))
print(list(csv.DictReader(io.StringIO('a;b\n1;2\n3;4;5\n6'), delimiter=';', restkey='rest', restval='?')), csv.Sniffer().sniff('a;b;c\n1;2;3\n').delimiter)
out = io.StringIO()
w = csv.DictWriter(out, ['x', 'y'], quoting=csv.QUOTE_NONNUMERIC, extrasaction='ignore', lineterminator='|')
w.writeheader()
w.writerow({'x': 1, 'y': 'b', 'z': 0})
out.getvalue(), list(csv.reader(["a'b,c'd"], quotechar="'"))
# %% raises _csv.Error
list(csv.reader(['"unclosed'], strict=True))
