/* A module of the newer kind (multi-phase initialisation), with state of its own.

   It declares what it uses of Python's stable C interface itself, so that no header has to be there. */

typedef struct object PyObject;
typedef long Py_ssize_t;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);

typedef struct {
    Py_ssize_t references;
    void *type;
    PyObject *(*init)(void);
    Py_ssize_t index;
    PyObject *copy;
    const char *name, *doc;
    Py_ssize_t size;
    struct method *methods;
    struct slot *slots;
    int (*traverse)(PyObject *, void *, void *);
    int (*clear)(PyObject *);
    void (*free)(void *);
} PyModuleDef;

struct method {
    const char *name;
    PyCFunction function;
    int flags;
    const char *doc;
};

struct slot {
    int kind;
    void *value;
};

typedef struct {
    void *bytes;
    PyObject *owner;
    Py_ssize_t length, item_size;
    int read_only, dimensions;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;

enum { VARARGS = 1, NOARGS = 4, O = 8, EXEC = 2, WITH_FORMAT = 4 };

extern PyObject *PyExc_ValueError, *PyExc_MemoryError;
int PyArg_ParseTuple(PyObject *, const char *, ...);
void PyErr_Clear(void);
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_Occurred(void);
int PyModule_AddIntConstant(PyObject *, const char *, long);
PyObject *PyModuleDef_Init(PyModuleDef *);
void *PyModule_GetState(PyObject *);
PyObject *PyFloat_FromDouble(double);
double PyFloat_AsDouble(PyObject *);
PyObject *PyLong_FromLong(long);
Py_ssize_t PyList_Size(PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t);
int PyObject_CheckBuffer(PyObject *);
int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
void *malloc(unsigned long);
void free(void *);
int strcmp(const char *, const char *);

struct state {
    long calls;
};

static PyObject *add(PyObject *module, PyObject *arguments) {
    double a, b;
    if (!PyArg_ParseTuple(arguments, "dd:add", &a, &b)) return 0;
    ((struct state *)PyModule_GetState(module))->calls++;
    return PyFloat_FromDouble(a + b);
}

static PyObject *total_of_buffer(PyObject *argument) {
    Py_buffer view;
    if (PyObject_GetBuffer(argument, &view, WITH_FORMAT)) return 0;
    double sum = 0;
    int known = view.format && !strcmp(view.format, "d");
    for (Py_ssize_t i = 0; known && i < view.length / view.item_size; i++) sum += ((double *)view.bytes)[i];
    if (!known) PyErr_Format(PyExc_ValueError, "a buffer of '%s', not of 'd'", view.format ? view.format : "B");
    PyBuffer_Release(&view);
    return known ? PyFloat_FromDouble(sum) : 0;
}

static PyObject *total_of_list(PyObject *argument) {
    Py_ssize_t count = PyList_Size(argument);
    if (count < 0) {
        PyErr_Clear();
        return PyErr_Format(PyExc_ValueError, "neither a list nor a buffer: %R", argument);
    }
    double sum = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        double item = PyFloat_AsDouble(PyList_GetItem(argument, i));
        if (item == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return PyErr_Format(PyExc_ValueError, "item %zd is not a number", i);
        }
        sum += item;
    }
    return PyFloat_FromDouble(sum);
}

static PyObject *total(PyObject *module, PyObject *argument) {
    ((struct state *)PyModule_GetState(module))->calls++;
    return PyObject_CheckBuffer(argument) ? total_of_buffer(argument) : total_of_list(argument);
}

static PyObject *calls(PyObject *module, PyObject *nothing) {
    return PyLong_FromLong(((struct state *)PyModule_GetState(module))->calls);
}

/* Holds memory of the C library's own, which Python knows nothing of. */
static int *kept;
static long kept_count;

static PyObject *keep(PyObject *module, PyObject *arguments) {
    long count;
    if (!PyArg_ParseTuple(arguments, "l:keep", &count)) return 0;
    free(kept);
    kept = malloc(count * sizeof(int));
    if (!kept) return PyErr_Format(PyExc_MemoryError, "no memory for %ld numbers", count);
    kept_count = count;
    for (long i = 0; i < count; i++) kept[i] = (int)i;
    return PyLong_FromLong(count);
}

static PyObject *kept_total(PyObject *module, PyObject *nothing) {
    double sum = 0;
    for (long i = 0; i < kept_count; i++) sum += kept[i];
    return PyFloat_FromDouble(sum);
}

/* Never comes back: only a hard stop ends it. */
static PyObject *spin(PyObject *module, PyObject *nothing) {
    for (volatile long i = 0;; i++) {}
    return 0;
}

static int exec(PyObject *module) {
    ((struct state *)PyModule_GetState(module))->calls = 0;
    return PyModule_AddIntConstant(module, "ANSWER", 42);
}

static struct method methods[] = {
    {"add", add, VARARGS, "The sum of two numbers."},
    {"total", total, O, "The sum of a list of numbers or of a buffer of doubles."},
    {"calls", calls, NOARGS, "How often add and total were called."},
    {"keep", keep, VARARGS, "Keeps that many numbers in memory of the C library."},
    {"kept_total", kept_total, NOARGS, "The sum of what is kept."},
    {"spin", spin, NOARGS, "Never returns."},
    {0, 0, 0, 0},
};

static struct slot slots[] = {{EXEC, exec}, {0, 0}};

static PyModuleDef definition = {
    .references = 7L << 28,
    .name = "fastsum",
    .doc = "Sums, in C.",
    .size = sizeof(struct state),
    .methods = methods,
    .slots = slots,
};

__attribute__((visibility("default"))) PyObject *PyInit_fastsum(void) {
    return PyModuleDef_Init(&definition);
}
