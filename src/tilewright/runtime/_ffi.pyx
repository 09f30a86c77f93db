# cython: language_level=3, boundscheck=False, wraparound=False
"""Thin binding to the native runtime: values across the packed ABI, calls, callbacks, errors, tensors."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from cpython.ref cimport Py_INCREF, Py_DECREF, PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName

import numpy as _np

from tilewright.runtime._abi cimport *


cdef object _make_error = None      # (kind, message, backtrace) -> exception; set by errors.py
cdef object _error_kind = None      # exception -> kind; set by errors.py
cdef object _parse_dtype = None     # np.dtype or str -> (code, bits, lanes); set by dtype.py
cdef object _dtype_name = None      # (code, bits, lanes) -> str
cdef dict _classes = {}             # type index -> class made for it
cdef dict _handles = {}             # class -> type index of the addresses that its values stand for


def set_hooks(make_error, error_kind, parse_dtype, dtype_name):
    """Installs the Python halves: errors and data types."""
    global _make_error, _error_kind, _parse_dtype, _dtype_name
    _make_error, _error_kind, _parse_dtype, _dtype_name = make_error, error_kind, parse_dtype, dtype_name


cdef class Object:
    """Owner of one reference to an object of the runtime."""
    cdef void* handle

    def __cinit__(self):
        self.handle = NULL

    def __dealloc__(self):
        if self.handle != NULL:
            TWDecRef(self.handle)

    def same_as(self, other):
        """Whether both are the same object of the runtime."""
        return isinstance(other, Object) and (<Object> other).handle == self.handle

    def __eq__(self, other):
        return isinstance(other, Object) and (<Object> other).handle == self.handle

    def __hash__(self):
        return hash(<uintptr_t> self.handle)

    @property
    def handle_address(self):
        """Address of the object, for native code called by other means."""
        return <uintptr_t> self.handle

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} holds native state and cannot be pickled; save it with its own methods")


cdef class Device:
    """A device: type code of DLPack and index."""
    cdef readonly int device_type
    cdef readonly int device_id

    def __init__(self, int device_type, int device_id=0):
        self.device_type = device_type
        self.device_id = device_id

    def __eq__(self, other):
        return isinstance(other, Device) and self.device_type == (<Device> other).device_type \
            and self.device_id == (<Device> other).device_id

    def __hash__(self):
        return hash((self.device_type, self.device_id))


cdef int fail_with_last() except -1:
    """Raises the error that a native call left behind."""
    cdef void* handle = NULL
    TWErrorTake(&handle)
    if handle == NULL:
        raise RuntimeError("native code reported a failure but no reason: a kernel returned a code other than 0")
    cdef TVMFFIErrorCell* cell = <TVMFFIErrorCell*> tw_body(handle)
    cdef object error = None
    cdef TVMFFIObject* extra = <TVMFFIObject*> cell.extra_context
    if extra != NULL and extra.type_index == kTVMFFIOpaquePyObject:
        held = <object> (<TVMFFIOpaqueObjectCell*> tw_body(extra)).handle
        if isinstance(held, BaseException):
            error = held
    if error is None:
        error = _make_error(cell.kind.data[:cell.kind.size].decode("utf-8", "replace"),
                            cell.message.data[:cell.message.size].decode("utf-8", "replace"),
                            cell.backtrace.data[:cell.backtrace.size].decode("utf-8", "replace"))
    TWDecRef(handle)
    raise error


cdef void drop_python(void* handle) noexcept with gil:
    Py_DECREF(<object> handle)


cdef void release_python(void* handle) noexcept nogil:
    if Py_IsInitialized():  # past the end of the interpreter there is nothing to release
        drop_python(handle)


cdef void set_error_from(object error) noexcept:
    """Leaves a Python exception as the error of this thread; the exception itself travels along."""
    cdef void* extra = NULL
    cdef void* handle = NULL
    cdef TVMFFIByteArray kind, message, trace
    try:
        kind_bytes = _error_kind(error).encode()
        message_bytes = str(error).encode("utf-8", "replace")
    except BaseException:
        kind_bytes, message_bytes = b"RuntimeError", b"an exception whose text cannot be shown"
    lines = []
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {tb.tb_lineno}, in {code.co_name}\n')
        tb = tb.tb_next
    trace_bytes = "".join(reversed(lines)).encode("utf-8", "replace")
    kind.data, kind.size = kind_bytes, len(kind_bytes)
    message.data, message.size = message_bytes, len(message_bytes)
    trace.data, trace.size = trace_bytes, len(trace_bytes)
    Py_INCREF(error)
    TWOpaqueCreate(<void*> error, kTVMFFIOpaquePyObject, release_python, &extra)
    TWErrorCreate(&kind, &message, &trace, NULL, extra, &handle)
    TWDecRef(extra)
    TWRaise(handle)
    TWDecRef(handle)


cdef int check_signals() noexcept with gil:
    try:
        PyErr_CheckSignals()
        return 0
    except BaseException as error:
        set_error_from(error)
        return -1


TWRegisterCAPI(b"PyErr_CheckSignals", <void*> check_signals)


# ---- values

cdef object adopt(void* handle, int32_t type_index):
    """The Python object for a reference that is now ours."""
    cdef Object made
    cls = _classes.get(type_index, Object)
    made = <Object> cls.__new__(cls)
    made.handle = handle
    return made


cdef object seq_to_list(void* handle):
    cdef TVMFFISeqCell* cell = <TVMFFISeqCell*> tw_body(handle)
    cdef TVMFFIAny* items = <TVMFFIAny*> cell.data
    cdef TVMFFIAny item
    result = []
    for i in range(cell.size):
        TWAnyOwn(&items[i], &item)
        result.append(to_python(item))
    return result


cdef object to_python(TVMFFIAny value):
    """Converts an owned value and takes it over."""
    cdef int32_t t = value.type_index
    cdef TVMFFIByteArray* text
    cdef TVMFFIShapeCell* shape
    if t == kTVMFFINone:
        return None
    if t == kTVMFFIInt:
        return value.v_int64
    if t == kTVMFFIBool:
        return value.v_int64 != 0
    if t == kTVMFFIFloat:
        return value.v_float64
    if t == kTVMFFITensor or t == kTVMFFIFunction or t == kTVMFFIModule:
        return adopt(value.v_ptr, t)
    if t == kTVMFFISmallStr:
        return value.v_bytes[:value.small_str_len].decode("utf-8", "surrogateescape")
    if t == kTVMFFISmallBytes:
        return value.v_bytes[:value.small_str_len]
    if t == kTVMFFIRawStr:
        return value.v_c_str.decode("utf-8", "surrogateescape")
    if t == kTVMFFIOpaquePtr:
        return <uintptr_t> value.v_ptr
    if t == kTVMFFIDataType:
        return _dtype_name(value.v_dtype.code, value.v_dtype.bits, value.v_dtype.lanes)
    if t == kTVMFFIDevice:
        cls = _classes["device"]
        return cls(value.v_device.device_type, value.v_device.device_id)
    if t == kTVMFFIDLTensorPtr:
        return view_of(<DLTensor*> value.v_ptr)
    if t == kTVMFFIByteArrayPtr:
        text = <TVMFFIByteArray*> value.v_ptr
        return text.data[:text.size]
    if t < kTVMFFIStaticObjectBegin:
        raise TypeError(f"a native value of type index {t} has no Python form")
    try:
        if t == kTVMFFIStr or t == kTVMFFIBytes:
            text = <TVMFFIByteArray*> tw_body(value.v_ptr)
            return text.data[:text.size].decode("utf-8", "surrogateescape") if t == kTVMFFIStr else text.data[:text.size]
        if t == kTVMFFIShape:
            shape = <TVMFFIShapeCell*> tw_body(value.v_ptr)
            return tuple([shape.data[i] for i in range(<Py_ssize_t> shape.size)])
        if t == kTVMFFIArray or t == kTVMFFIList:
            return seq_to_list(value.v_ptr)
        if t == kTVMFFIOpaquePyObject:
            return <object> (<TVMFFIOpaqueObjectCell*> tw_body(value.v_ptr)).handle
        if t == kTVMFFIBigInt:
            words = (<size_t*> tw_body(value.v_ptr))[0]
            data = (<char*> tw_body(value.v_ptr)) + sizeof(size_t)
            return int.from_bytes(data[:words * 8], "little", signed=True)
        TWIncRef(value.v_ptr)
        return adopt(value.v_ptr, t)
    finally:
        TWDecRef(value.v_ptr)


cdef object view_of(DLTensor* tensor):
    """An NDArray over a tensor that the caller owns; valid during the call, as in classic TVM."""
    cdef void* handle = NULL
    if TWTensorFromMemory(tensor, NULL, NULL, &handle):
        fail_with_last()
    return adopt(handle, kTVMFFITensor)


# Exchange tables of other packages' tensor types; the types are kept alive, so their addresses identify them.
DEF MAX_TYPES = 8
cdef PyTypeObject* exchange_types[MAX_TYPES]
cdef DLPackExchangeAPI* exchange_apis[MAX_TYPES]
cdef int exchange_count = 0


cdef DLPackExchangeAPI* find_exchange(object value) except? NULL:
    global exchange_count
    cdef PyTypeObject* t = Py_TYPE(value)
    cdef DLPackExchangeAPI* api
    cdef int i
    for i in range(exchange_count):
        if exchange_types[i] == t:
            return exchange_apis[i]
    capsule = getattr(type(value), "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, b"dlpack_exchange_api"):
        return NULL
    api = <DLPackExchangeAPI*> PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
    if api.version.major != 1 or api.dltensor_from_py_object_no_sync == NULL:
        return NULL
    if exchange_count < MAX_TYPES:
        Py_INCREF(type(value))
        exchange_types[exchange_count] = t
        exchange_apis[exchange_count] = api
        exchange_count += 1
    return api


cdef int own_handle(object value, TVMFFIAny* out) except -1:
    """Owned value for Python objects that need a native one: functions, lists, opaque objects."""
    cdef TVMFFIAny* items
    cdef Py_ssize_t i, n
    cdef void* handle = NULL
    cdef int code
    if isinstance(value, (list, tuple)):
        n = len(value)
        items = <TVMFFIAny*> malloc(sizeof(TVMFFIAny) * (n + 1))
        if items == NULL:
            raise MemoryError()
        i = 0
        try:
            while i < n:
                to_owned(value[i], &items[i])
                i += 1
        except BaseException:
            while i > 0:
                i -= 1
                if items[i].type_index >= kTVMFFIStaticObjectBegin:
                    TWDecRef(items[i].v_ptr)
            free(items)
            raise
        code = TWArrayCreate(items, n, &handle)
        free(items)
        if code:
            fail_with_last()
        out.type_index = kTVMFFIArray
    elif callable(value) and not isinstance(value, type) and not hasattr(type(value), "type_key"):
        # Nodes of the IR that can be called to make calls of the IR stay what they are.
        handle = make_callback(value)
        out.type_index = kTVMFFIFunction
    else:
        Py_INCREF(value)
        if TWOpaqueCreate(<void*> value, kTVMFFIOpaquePyObject, release_python, &handle):
            Py_DECREF(value)
            fail_with_last()
        out.type_index = kTVMFFIOpaquePyObject
    out.zero_padding = 0
    out.v_ptr = handle
    return 0


cdef int to_owned(object value, TVMFFIAny* out) except -1:
    """Converts to a value that owns what it refers to."""
    cdef TVMFFIAny view
    cdef DLTensor tensor
    cdef TVMFFIByteArray text
    cdef void* temporary = NULL
    to_view(value, &view, &tensor, &text, &temporary)
    if temporary != NULL:
        out[0] = view
        return 0
    if view.type_index == kTVMFFIDLTensorPtr:
        return to_owned(view_of(<DLTensor*> view.v_ptr) if type(value) in _handles else _classes["from_dlpack"](value), out)
    if view.type_index == kTVMFFIRawStr:
        text.data = PyUnicode_AsUTF8AndSize(value, <Py_ssize_t*> &text.size)
        return TWStringCreate(&text, out)
    return TWAnyOwn(&view, out)


cdef int to_view(object value, TVMFFIAny* out, DLTensor* tensor, TVMFFIByteArray* text, void** temporary) except -1:
    """Converts an argument without owning it, where possible; what had to be made is put into `temporary`."""
    cdef Py_ssize_t size
    cdef DLPackExchangeAPI* api
    cdef Object wrapped
    out.zero_padding = 0
    if isinstance(value, Object):
        wrapped = <Object> value
        if wrapped.handle == NULL:
            raise ValueError(f"this {type(value).__name__} is empty")
        out.type_index = (<TVMFFIObject*> wrapped.handle).type_index
        out.v_ptr = wrapped.handle
        return 0
    if value is None:
        out.type_index = kTVMFFINone
        out.v_int64 = 0
        return 0
    if value is True or value is False:
        out.type_index = kTVMFFIBool
        out.v_int64 = value is True
        return 0
    if PyLong_Check(value):
        out.type_index = kTVMFFIInt
        out.v_int64 = PyLong_AsLongLong(value)
        return 0
    if PyFloat_Check(value):
        out.type_index = kTVMFFIFloat
        out.v_float64 = PyFloat_AS_DOUBLE(value)
        return 0
    if PyUnicode_Check(value):
        try:
            out.v_c_str = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:  # a name of a file that is not UTF-8, as Python reads it
            raw = value.encode("utf-8", "surrogateescape")
            text.data, text.size = raw, len(raw)
            if TWStringCreate(text, out):
                fail_with_last()
            if out.type_index >= kTVMFFIStaticObjectBegin:
                temporary[0] = out.v_ptr
            return 0
        out.type_index = kTVMFFIRawStr
        return 0
    api = find_exchange(value)
    if api != NULL:
        if api.dltensor_from_py_object_no_sync(<void*> value, tensor) != 0:
            reraise_pending()
        out.type_index = kTVMFFIDLTensorPtr
        out.v_ptr = tensor
        return 0
    if PyBytes_Check(value):
        text.data = PyBytes_AS_STRING(value)
        text.size = PyBytes_GET_SIZE(value)
        out.type_index = kTVMFFIByteArrayPtr
        out.v_ptr = text
        return 0
    if isinstance(value, Device):
        out.type_index = kTVMFFIDevice
        out.v_device.device_type = (<Device> value).device_type
        out.v_device.device_id = (<Device> value).device_id
        return 0
    if isinstance(value, _np.dtype):
        code, bits, lanes = _parse_dtype(value)
        out.type_index = kTVMFFIDataType
        out.v_dtype.code, out.v_dtype.bits, out.v_dtype.lanes = code, bits, lanes
        return 0
    if isinstance(value, _np.generic):
        return to_view(value.item(), out, tensor, text, temporary)
    if hasattr(type(value), "__dlpack__") or isinstance(value, _np.ndarray):
        wrapped = <Object> _classes["from_dlpack"](value)
        TWIncRef(wrapped.handle)
        out.type_index = kTVMFFITensor
        out.v_ptr = temporary[0] = wrapped.handle
        return 0
    kind = _handles.get(type(value))
    if kind is not None:
        address = value._tvm_handle
        out.type_index = kind
        out.v_ptr = <void*> <uintptr_t> address
        return 0
    own_handle(value, out)
    temporary[0] = out.v_ptr
    return 0


cdef int reraise_pending() except -1:
    """The callee set a Python exception; reporting failure raises it."""
    return -1


cdef struct WorkStream:
    int32_t device_type   # 0: none was set
    int32_t device_id
    void* before


cdef int use_stream_of(tuple args, TVMFFIAny* values, WorkStream* work) except -1:
    """The work of a call goes to the stream that another package works in, with the first of its tensors that is on a device."""
    cdef DLPackExchangeAPI* api
    cdef DLTensor* t
    cdef void* stream = NULL
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(args)):
        if values[i].type_index != kTVMFFIDLTensorPtr:
            continue
        t = <DLTensor*> values[i].v_ptr
        if t.device.device_type == kDLCPU:
            continue
        api = find_exchange(args[i])
        if api == NULL or api.current_work_stream == NULL:
            return 0
        if api.current_work_stream(t.device.device_type, t.device.device_id, &stream) != 0:
            reraise_pending()
        work.before = TWCurrentStream(t.device.device_type, t.device.device_id)
        if stream == work.before:
            return 0
        if TWSetStream(t.device.device_type, t.device.device_id, stream):
            fail_with_last()
        work.device_type, work.device_id = t.device.device_type, t.device.device_id
        return 0
    return 0


DEF STACK_ARGS = 12


cdef class PackedFuncBase(Object):
    """A function of the runtime; calling it converts arguments and result."""

    def __call__(self, *args):
        cdef TVMFFIAny stack_values[STACK_ARGS]
        cdef DLTensor stack_tensors[STACK_ARGS]
        cdef TVMFFIByteArray stack_texts[STACK_ARGS]
        cdef void* stack_temporaries[STACK_ARGS]
        cdef TVMFFIAny* values = stack_values
        cdef DLTensor* tensors = stack_tensors
        cdef TVMFFIByteArray* texts = stack_texts
        cdef void** temporaries = stack_temporaries
        cdef TVMFFIAny result
        cdef Py_ssize_t n = PyTuple_GET_SIZE(args)
        cdef Py_ssize_t i = 0
        cdef int made = 0
        cdef int code
        cdef void* f = self.handle
        cdef TVMFFISafeCallType call
        cdef char* heap = NULL
        cdef void* temporary
        cdef Object wrapped
        cdef WorkStream work
        work.device_type = 0
        if f == NULL:
            raise ValueError("this function is empty")
        call = (<TVMFFIFunctionCell*> tw_body(f)).safe_call
        if n > STACK_ARGS:
            heap = <char*> malloc(n * (sizeof(TVMFFIAny) + sizeof(DLTensor) + sizeof(TVMFFIByteArray) + sizeof(void*)))
            if heap == NULL:
                raise MemoryError()
            values = <TVMFFIAny*> heap
            tensors = <DLTensor*> (values + n)
            texts = <TVMFFIByteArray*> (tensors + n)
            temporaries = <void**> (texts + n)
        try:
            while i < n:
                temporary = NULL
                to_view(<object> PyTuple_GET_ITEM(args, i), &values[i], &tensors[i], &texts[i], &temporary)
                if temporary != NULL:
                    temporaries[made] = temporary
                    made += 1
                i += 1
            use_stream_of(args, values, &work)
            result.type_index = kTVMFFINone
            result.zero_padding = 0
            result.v_int64 = 0
            with nogil:
                code = call(f, values, <int32_t> n, &result)
            if code != 0:
                fail_with_last()
        finally:
            if work.device_type != 0:
                TWSetStream(work.device_type, work.device_id, work.before)
            while made > 0:
                made -= 1
                TWDecRef(temporaries[made])
            if heap != NULL:
                free(heap)
        if result.type_index == kTVMFFINone:
            return None
        return to_python(result)


cdef int call_python(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) noexcept with gil:
    """The native face of a Python callable."""
    cdef TVMFFIAny item
    try:
        values = []
        for i in range(n):
            if args[i].type_index >= kTVMFFIStaticObjectBegin:
                TWAnyOwn(&args[i], &item)
                values.append(to_python(item))
            else:
                values.append(to_python(args[i]))
        to_owned((<object> self)(*values), result)
        return 0
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next or error.__traceback__ if error.__traceback__ else None
        set_error_from(error)
        return -1


cdef int call_python_nogil(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) noexcept nogil:
    if not Py_IsInitialized():  # what is freed past the end of the interpreter may ask a device of its
        return -1
    return call_python(self, args, n, result)


cdef void* make_callback(object function) except NULL:
    cdef void* handle = NULL
    Py_INCREF(function)
    if TWFunctionCreate(<void*> function, call_python_nogil, release_python, &handle):
        Py_DECREF(function)
        fail_with_last()
    return handle


def function_from_python(function):
    """A PackedFunc that calls a Python callable."""
    return adopt(make_callback(function), kTVMFFIFunction)


def function_from_address(address, keep_alive):
    """A PackedFunc over the address of compiled code with the packed signature."""
    cdef void* handle = NULL
    cdef uintptr_t where = address
    Py_INCREF(keep_alive)
    if TWFunctionCreate(<void*> keep_alive, <TVMFFISafeCallType> where, release_python, &handle):
        Py_DECREF(keep_alive)
        fail_with_last()
    return adopt(handle, kTVMFFIFunction)


def get_global(name):
    """The registered function, or None."""
    cdef TVMFFIByteArray text
    cdef void* handle = NULL
    data = name.encode()
    text.data, text.size = data, len(data)
    if TWFunctionGetGlobal(&text, &handle):
        fail_with_last()
    return None if handle == NULL else adopt(handle, kTVMFFIFunction)


def set_global(name, function, override):
    """Registers a PackedFunc or a Python callable."""
    cdef TVMFFIByteArray text
    cdef Object wrapped = function if isinstance(function, PackedFuncBase) else function_from_python(function)
    data = name.encode()
    text.data, text.size = data, len(data)
    if TWFunctionSetGlobal(&text, wrapped.handle, 1 if override else 0):
        fail_with_last()


def register_class(type_index, cls):
    """Which Python class stands for objects of a type index."""
    _classes[type_index] = cls


def type_index(key):
    """The index of the object type that native code registered under a key."""
    cdef TVMFFIByteArray text
    cdef int32_t index = 0
    data = key.encode()
    text.data, text.size = data, len(data)
    if TWTypeKeyToIndex(&text, &index):
        fail_with_last()
    return index


def register_handles(cls, of_tensors):
    """Values of a class are passed as the address that their `_tvm_handle` is: of a DLTensor, or of something opaque."""
    _handles[cls] = kTVMFFIDLTensorPtr if of_tensors else kTVMFFIOpaquePtr


def empty_regions(count, tasks):
    """Runs `count` empty parallel regions, for the benchmark of the thread pool."""
    cdef int64_t n = count
    cdef int32_t t = tasks
    with nogil:
        tw_empty_regions(n, t)


include "_tensor.pxi"
