from datetime import *
import calendar
d = datetime(2024, 2, 29, 13, 5, 9, 123456)
print(d, repr(d), d.isoformat('T', 'milliseconds'), d + timedelta(days=366), d.replace(year=2023, day=28), d.isocalendar(), d.timetuple())
print(d.strftime('%A %d %B %Y %H:%M:%S.%f %j %U %W %p %I %y %% %a %b %c %x %X %G-W%V-%u'))
print(datetime.strptime('29/Feb/2024:01:02:03 +0530', '%d/%b/%Y:%H:%M:%S %z'), datetime.fromisoformat('2024-W09-4T10:20:30.5Z'))
print(timedelta(days=-1, seconds=5), timedelta(1.5) / 7, timedelta(hours=25) // timedelta(minutes=7), timedelta.max, timedelta(weeks=3).total_seconds())
utc = d.replace(tzinfo=timezone.utc)
print(utc.timestamp(), utc.astimezone(timezone(timedelta(hours=-3, minutes=-30), 'X')), datetime.fromtimestamp(1e9, timezone.utc))
print(calendar.month(2024, 2), calendar.isleap(1900), calendar.monthrange(2023, 2), calendar.timegm((2000, 1, 1, 0, 0, 0)))
# %%
import time
print(time.gmtime(0), time.strftime('%Y-%m-%d', time.gmtime(2 ** 33)), time.tzname, time.timezone, time.localtime(0).tm_hour)
time.mktime((2000, 6, 1, 12, 0, 0, 0, 0, -1)), time.ctime(0), time.asctime(time.gmtime(86400)), time.strptime('3 Mar 21', '%d %b %y')[:6]
# %% raises ValueError
date(2023, 2, 29)
# %% raises OverflowError
datetime.max + timedelta(1)
# %% raises TypeError
d < utc
