import ast, dis, io, inspect, tokenize, types
tree = ast.parse('def f(x, *, y=2):\n    return [i**2 for i in x if i > y]\nz: int = f([1,2,3])')
print(ast.dump(tree, indent=1), ast.unparse(tree), ast.literal_eval("{'a': [1, (2, -3.5)], 'b': {None}}"))
class Double(ast.NodeTransformer):
    def visit_Constant(self, node): return ast.copy_location(ast.Constant(node.value * 2), node)
scope, out = {}, io.StringIO()
exec(compile(ast.fix_missing_locations(Double().visit(tree)), '<made>', 'exec'), scope)
dis.dis(lambda a: a + 1 if a else None, file=out)
print(scope['z'], eval('a + b', {'a': 1}, {'b': 2}), compile('1 + 2 * 3', 'x', 'eval').co_consts, out.getvalue())
[(t.type, t.string) for t in tokenize.generate_tokens(io.StringIO('x = f"{a}" # c\n').readline)]
# %%
def g(a: int, /, b: 'str' = 'x', *c, d, **e) -> None:
    'Doc.'
s = inspect.signature(g)
exec('def dynamic(n):\n return n + 1')
print(s, s.parameters['b'].kind, inspect.getdoc(g), s.bind(1, d=2).arguments, inspect.getsource(g), g.__annotations__, dynamic(1))
g.__code__.replace(co_name='renamed').co_name, types.FunctionType((lambda x: x * 2).__code__, {})(4)
# %% raises ValueError
ast.literal_eval('f(1)')
# %% raises ZeroDivisionError
exec("def inner():\n    return 1 / 0\ninner()")
