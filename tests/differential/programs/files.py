import os
with open('a.txt', 'w') as f:
    print(f.write('line one\nline two\n'), f.tell(), f.name, f.mode, f.encoding)
with open('a.txt', 'a') as f:
    print(f.tell(), f.write('line three\n'), f.tell())
with open('a.txt') as f:
    print(f.readline(), f.tell(), f.read(4), f.seek(0), f.readlines(), f.read())
with open('a.txt', 'r+') as f:
    f.seek(5)
    f.write('ONE')
    f.seek(0, 2)
    f.write('end')
    print(f.tell(), f.truncate(20), f.seek(0), f.read())
with open('b.bin', 'wb') as f:
    f.seek(10)
    f.write(b'after a hole')
with open('b.bin', 'rb') as f:
    print(f.read(), f.seek(-4, 2), f.read(), f.seek(3), f.read1(4), f.readinto(bytearray(5)), f.peek(1)[:1])
with open('b.bin', 'r+b', buffering=0) as f:
    print(f.write(b'xyz'), f.truncate(5), f.tell(), f.read(), f.seek(0), f.readall(), f.truncate(12), f.seek(0), f.readall(), f.seek(50), f.read())
with open('u.txt', 'w', encoding='utf-16', newline='\r\n') as f:
    f.write('ü\n漢\n')
print(open('u.txt', 'rb').read(), open('u.txt', encoding='utf-16').read(), open('u.txt', encoding='utf-16', newline='').read())
sorted(os.listdir('.')), os.path.getsize('a.txt'), os.path.isfile('a.txt'), os.path.isdir('a.txt'), os.path.exists('nope')
# %%
with open('big.bin', 'wb') as f:
    for n in range(200):
        f.write(bytes([n]) * 10_007)
import hashlib
print(os.path.getsize('big.bin'), hashlib.md5(open('big.bin', 'rb').read()).hexdigest())
with open('big.bin', 'r+b') as f:
    f.seek(1_000_000)
    f.write(b'#' * 100_000)
    f.seek(999_990)
    print(f.read(20), f.seek(1_099_990), f.read(20))
with open('lines', 'w') as f:
    f.writelines(f'{n}\n' for n in range(20_000))
sum(int(line) for line in open('lines')), sum(1 for _ in open('lines', 'rb'))
