print(tools.echo(1, 'zwei', [3.5, None, {'vier': True}], key='ä', nested={'a': {'b': []}}))
[tools.echo(n)['args'] for n in range(50)] == [[n] for n in range(50)], tools.echo(2 ** 60, 0.1)
# %%
import asyncio
await asyncio.gather(*[tools.echo(n) for n in range(5)])
# %%
tools.echo('x' * 100_000)['args'][0] == 'x' * 100_000
# %% raises ValueError
tools.fail()
# %% raises ValueError
await tools.fail('now')
# %% raises AttributeError
tools.absent()
# %% raises TypeError
tools.echo(object())
