import asyncio
async def worker(name, delay, log):
    for step in range(2):
        await asyncio.sleep(delay)
        log.append((name, step))
    return name.upper()
log = []
print(await asyncio.gather(worker('a', 0.01, log), worker('b', 0.2, log)), log)
async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(worker(n, 0.01, log)) for n in 'xyz']
[t.result() for t in tasks], log[4:]
# %%
queue = asyncio.Queue(2)
async def produce():
    for n in [*range(5), None]:
        await queue.put(n)
async def consume():
    got = []
    while (item := await queue.get()) is not None:
        got.append(item)
    return got
async def countdown(n):
    while n:
        yield n
        n -= 1
        await asyncio.sleep(0)
lock, event = asyncio.Lock(), asyncio.Event()
async with lock:
    print(lock.locked(), (await asyncio.gather(produce(), consume()))[1], [n async for n in countdown(4) if n % 2])
asyncio.get_running_loop().call_later(0.01, event.set)
await asyncio.wait_for(event.wait(), 5), await asyncio.to_thread(sum, [1, 2])
# %%
async def main():
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.02)
    except TimeoutError as error:
        return repr(error)
asyncio.run(main())
# %%
task = asyncio.create_task(asyncio.sleep(10))
await asyncio.sleep(0)
task.cancel()
try:
    await task
except asyncio.CancelledError:
    print('cancelled', task.cancelled())
# %% raises ValueError
async def failing():
    await asyncio.sleep(0)
    raise ValueError('in a task')
await asyncio.gather(failing(), asyncio.sleep(0.01))
# %% raises ExceptionGroup
async with asyncio.TaskGroup() as group:
    group.create_task(failing())
    group.create_task(asyncio.sleep(1))
