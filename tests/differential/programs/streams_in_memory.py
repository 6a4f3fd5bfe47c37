import io, contextlib, sys, os
s = io.StringIO('a\nb\r\nc', newline=None)
print(list(s), s.getvalue(), s.seek(0), s.readline(), s.tell(), s.truncate(1), s.getvalue())
b = io.BytesIO(b'0123456789')
print(b.read(3), b.getbuffer()[4], b.seek(-2, 2), b.read(), b.write(b'xyz'), b.getvalue())
t = io.TextIOWrapper(io.BytesIO('ü\nß'.encode()), 'utf-8', write_through=True)
print(t.read(1), t.readline(), t.readlines(), t.encoding, t.line_buffering)
r = io.BufferedReader(io.BytesIO(bytes(range(50))), 8)
print(r.peek()[:3], r.read(5), r.read1(), r.tell())
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
    print('captured')
    sys.stderr.write('too')
out.getvalue(), sys.stdout.encoding, sys.stdout.errors, sys.stdout.isatty()
# %%
os.write(1, b'raw stdout\n')
os.write(2, b'raw stderr\n')
sys.stdout.buffer.write(b'buffer\n')
sys.__stdout__.write('original\n')
sys.stdout.writelines(['l1\n', 'l2\n'])
# %% raises ValueError
b.close()
b.read()
