from datetime import datetime, timezone
from zoneinfo import ZoneInfo, available_timezones, TZPATH
moments = [datetime(1950, 6, 1), datetime(2011, 12, 30, 12), datetime(2024, 7, 1), datetime(2080, 1, 1)]
for zone in ('Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'Pacific/Apia', 'Africa/Casablanca', 'UTC'):
    there = [m.replace(tzinfo=timezone.utc).astimezone(ZoneInfo(zone)) for m in moments]
    print(zone, [(m.isoformat(), m.tzname(), m.dst()) for m in there])
berlin = ZoneInfo('Europe/Berlin')
print(datetime(2024, 10, 27, 2, 30, tzinfo=berlin).utcoffset(), datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=berlin).utcoffset())
TZPATH, len(available_timezones()), ZoneInfo('Europe/Berlin') is berlin, sorted(available_timezones())[::60]
# %% raises zoneinfo._common.ZoneInfoNotFoundError
ZoneInfo('Mars/Olympus')
# %% raises ValueError
ZoneInfo('../../etc/passwd')
