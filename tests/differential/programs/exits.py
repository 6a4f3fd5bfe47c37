import sys
before = 'kept'
# %% exits 3
print('leaving')
sys.exit(3)
# %%
before
# %% exits 1
sys.exit('a message')
# %% exits 0
exit()
# %% raises EOFError
input('name? ')
# %%
before
