/* A module of the older kind (single-phase initialisation), which makes itself and keeps its state in C.

   It declares what it uses of Python's stable C interface itself, so that no header has to be there. */

typedef struct object PyObject;
typedef long Py_ssize_t;

struct method {
    const char *name;
    PyObject *(*function)(PyObject *, PyObject *);
    int flags;
    const char *doc;
};

typedef struct {
    Py_ssize_t references;
    void *type;
    PyObject *(*init)(void);
    Py_ssize_t index;
    PyObject *copy;
    const char *name, *doc;
    Py_ssize_t size;
    struct method *methods;
    void *slots, *traverse, *clear, *free;
} PyModuleDef;

enum { NOARGS = 4, O = 8, API_VERSION = 1013 };

PyObject *PyModule_Create2(PyModuleDef *, int);
int PyModule_AddStringConstant(PyObject *, const char *, const char *);
PyObject *PyLong_FromLong(long);
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);

static long count;
static PyObject *last;

static PyObject *next(PyObject *module, PyObject *nothing) {
    return PyLong_FromLong(++count);
}

/* Swaps the object that it holds for another. */
static PyObject *swap(PyObject *module, PyObject *object) {
    PyObject *before = last;
    Py_IncRef(object);
    last = object;
    if (before) return before;
    Py_IncRef(module);
    return module;
}

static struct method methods[] = {
    {"next", next, NOARGS, "Counts."},
    {"swap", swap, O, "What was given before; the module itself the first time."},
    {0, 0, 0, 0},
};

static PyModuleDef definition = {
    .references = 7L << 28,
    .name = "legacy",
    .doc = "Counts, in C.",
    .size = -1,
    .methods = methods,
};

__attribute__((visibility("default"))) PyObject *PyInit_legacy(void) {
    PyObject *module = PyModule_Create2(&definition, API_VERSION);
    if (!module) return 0;
    if (PyModule_AddStringConstant(module, "KIND", "single-phase")) {
        Py_DecRef(module);
        return 0;
    }
    return module;
}
