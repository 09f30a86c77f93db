# Tensors of the binding, part of _ffi.pyx: NDArrayBase, DLPack capsules, and the exchange that DLPack peers call directly.

cdef class NDArrayBase(Object):
    """A tensor of the runtime."""

    cdef DLTensor* tensor(self) except NULL:
        if self.handle == NULL:
            raise ValueError("this NDArray is empty; make one with nd.array or nd.empty")
        return <DLTensor*> tw_body(self.handle)

    @property
    def shape(self):
        cdef DLTensor* t = self.tensor()
        return tuple([t.shape[i] for i in range(t.ndim)])

    @property
    def strides(self):
        """Strides in elements."""
        cdef DLTensor* t = self.tensor()
        return tuple([t.strides[i] for i in range(t.ndim)])

    @property
    def ndim(self):
        return self.tensor().ndim

    @property
    def dtype(self):
        cdef DLTensor* t = self.tensor()
        return _dtype_name(t.dtype.code, t.dtype.bits, t.dtype.lanes)

    @property
    def dtype_code(self):
        """The data type as (code, bits, lanes)."""
        cdef DLTensor* t = self.tensor()
        return (t.dtype.code, t.dtype.bits, t.dtype.lanes)

    @property
    def device(self):
        cdef DLTensor* t = self.tensor()
        return _classes["device"](t.device.device_type, t.device.device_id)

    @property
    def on_cpu(self):
        """Whether Python may touch the memory."""
        return self.tensor().device.device_type == kDLCPU

    @property
    def _tvm_handle(self):
        """Address of the DLTensor, for classes of register_extension."""
        return <uintptr_t> self.tensor()

    @property
    def data_address(self):
        """Address of the first element."""
        cdef DLTensor* t = self.tensor()
        return <uintptr_t> t.data + t.byte_offset

    def __dlpack_device__(self):
        cdef DLTensor* t = self.tensor()
        return (t.device.device_type, t.device.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule of the tensor, sharing its memory. stream: on devices of CUDA, that in which the tensor will be used, as a handle of
        the driver (1: the default one; -1: the tensor is not waited for)."""
        cdef DLManagedTensor* old = NULL
        cdef DLManagedTensorVersioned* new = NULL
        cdef DLTensor* t = self.tensor()
        if t.device.device_type != kDLCPU:
            current = <uintptr_t> TWCurrentStream(t.device.device_type, t.device.device_id)
            if t.device.device_type != kDLCUDA or stream is None:  # whoever takes it has an order of its own
                synchronize(self.device, current)
            elif stream != -1 and stream != (current or 1):
                order_streams(self.device, current, stream)
        if copy:
            raise BufferError("this tensor is exported without a copy only; call .numpy() for one")
        if max_version is not None and max_version[0] >= 1:
            if TWTensorToDLPackVersioned(self.handle, &new):
                fail_with_last()
            return PyCapsule_New(new, b"dltensor_versioned", drop_new_capsule)
        if TWTensorToDLPack(self.handle, &old):
            fail_with_last()
        return PyCapsule_New(old, b"dltensor", drop_old_capsule)


cdef void drop_old_capsule(object capsule) noexcept:
    cdef DLManagedTensor* t
    if PyCapsule_IsValid(capsule, b"dltensor"):
        t = <DLManagedTensor*> PyCapsule_GetPointer(capsule, b"dltensor")
        t.deleter(t)


cdef void drop_new_capsule(object capsule) noexcept:
    cdef DLManagedTensorVersioned* t
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        t = <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        t.deleter(t)


def tensor_from_capsule(capsule):
    """Takes the tensor out of a DLPack capsule."""
    cdef void* handle = NULL
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        if TWTensorFromDLPackVersioned(
                <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, b"dltensor_versioned"), 0, 0, &handle):
            fail_with_last()
        PyCapsule_SetName(capsule, b"used_dltensor_versioned")
    elif PyCapsule_IsValid(capsule, b"dltensor"):
        if TWTensorFromDLPack(<DLManagedTensor*> PyCapsule_GetPointer(capsule, b"dltensor"), 0, 0, &handle):
            fail_with_last()
        PyCapsule_SetName(capsule, b"used_dltensor")
    else:
        raise ValueError("expected a DLPack capsule that was not used before")
    return adopt(handle, kTVMFFITensor)


cdef int fill_dims(object values, int64_t* out) except -1:
    for i in range(len(values)):
        out[i] = values[i]
    return 0


def tensor_empty(shape, dtype, device, scope=None):
    """Uninitialised tensor; dtype as (code, bits, lanes). scope: of the device's memory."""
    cdef int64_t dims[32]
    cdef DLDataType kind
    cdef DLDevice where
    cdef void* handle = NULL
    cdef const char* memory = NULL
    cdef int32_t ndim = len(shape)
    cdef int code
    if ndim > 32:
        raise ValueError(f"at most 32 dimensions are supported, got {ndim}")
    fill_dims(shape, dims)
    kind.code, kind.bits, kind.lanes = dtype
    where.device_type, where.device_id = device.device_type, device.device_id
    if scope is not None:
        text = scope.encode()
        memory = text
    if where.device_type == 1:
        code = TWTensorEmptyInScope(ndim, dims, &kind, &where, memory, &handle)
    else:  # another machine may be asked
        with nogil:
            code = TWTensorEmptyInScope(ndim, dims, &kind, &where, memory, &handle)
    if code:
        fail_with_last()
    return adopt(handle, kTVMFFITensor)


def tensor_from_address(address, shape, strides, dtype, device, owner):
    """Tensor over memory that `owner` holds; strides in elements or None; dtype as (code, bits, lanes)."""
    cdef int64_t dims[32]
    cdef int64_t steps[32]
    cdef DLTensor t
    cdef void* handle = NULL
    cdef uintptr_t where = address
    if len(shape) > 32:
        raise ValueError(f"at most 32 dimensions are supported, got {len(shape)}")
    fill_dims(shape, dims)
    if strides is not None:
        fill_dims(strides, steps)
    t.data = <void*> where
    t.device.device_type, t.device.device_id = device.device_type, device.device_id
    t.ndim = len(shape)
    t.dtype.code, t.dtype.bits, t.dtype.lanes = dtype
    t.shape = dims
    t.strides = steps if strides is not None else NULL
    t.byte_offset = 0
    Py_INCREF(owner)
    if TWTensorFromMemory(&t, <void*> owner, release_python, &handle):
        Py_DECREF(owner)
        fail_with_last()
    return adopt(handle, kTVMFFITensor)


def copy_memory(target, source, size):
    """memcpy between two addresses; when it is long, without the interpreter's lock and by all threads of the pool."""
    cdef uintptr_t to = target
    cdef uintptr_t frm = source
    cdef size_t n = size
    if n < 65536:
        memcpy(<void*> to, <const void*> frm, n)
    else:
        with nogil:
            TWCopyMemory(<void*> to, <const void*> frm, n)


def copy_tensor(NDArrayBase source, NDArrayBase target):
    """Copies between tensors of one size, on any devices; it has ended where one of them is on the CPU."""
    cdef DLTensor* frm = source.tensor()
    cdef DLTensor* to = target.tensor()
    cdef int code
    with nogil:
        code = TWTensorCopy(frm, to)
    if code:
        fail_with_last()


# ---- streams of devices, as addresses; 0 is a device's own

def synchronize(Device device, stream):
    """Waits for a stream; 0: for all that the device was given."""
    cdef uintptr_t which = stream
    cdef int code
    with nogil:
        code = TWSynchronize(device.device_type, device.device_id, <void*> which)
    if code:
        fail_with_last()


def create_stream(Device device):
    """A new stream."""
    cdef void* made = NULL
    cdef int code
    with nogil:
        code = TWStreamCreate(device.device_type, device.device_id, &made)
    if code:
        fail_with_last()
    return <uintptr_t> made


def free_stream(Device device, stream):
    """Gives a stream back."""
    cdef uintptr_t which = stream
    cdef int code
    with nogil:
        code = TWStreamFree(device.device_type, device.device_id, <void*> which)
    if code:
        fail_with_last()


def set_stream(Device device, stream):
    """Sets the stream for the work of this thread on the device."""
    cdef uintptr_t which = stream
    cdef int code
    with nogil:
        code = TWSetStream(device.device_type, device.device_id, <void*> which)
    if code:
        fail_with_last()


def order_streams(Device device, first, then):
    """Makes later work of the stream `then` wait for the work given to `first` so far."""
    cdef uintptr_t a = first
    cdef uintptr_t b = then
    cdef int code
    with nogil:
        code = TWOrderStreams(device.device_type, device.device_id, <void*> a, <void*> b)
    if code:
        fail_with_last()


def current_stream(Device device):
    """Where what this thread gives the device goes."""
    return <uintptr_t> TWCurrentStream(device.device_type, device.device_id)


# The exchange table of our own tensors, so that other packages take them as fast as we take theirs.

cdef int exchange_from_py(void* value, DLManagedTensorVersioned** out) noexcept with gil:
    if (<Object> value).handle == NULL or TWTensorToDLPackVersioned((<Object> value).handle, out):
        return -1
    return 0


cdef int exchange_to_py(DLManagedTensorVersioned* tensor, void** out) noexcept with gil:
    cdef void* handle = NULL
    if TWTensorFromDLPackVersioned(tensor, 0, 0, &handle):
        return -1
    made = adopt(handle, kTVMFFITensor)
    Py_INCREF(made)
    out[0] = <void*> made
    return 0


cdef int exchange_view(void* value, DLTensor* out) noexcept with gil:
    if (<Object> value).handle == NULL:
        return -1
    out[0] = (<DLTensor*> tw_body((<Object> value).handle))[0]
    return 0


cdef int exchange_stream(int32_t device_type, int32_t device_id, void** out) noexcept:
    out[0] = TWCurrentStream(device_type, device_id)
    return 0


ctypedef void (*SetError)(void*, const char*, const char*) noexcept nogil


cdef int exchange_allocate(DLTensor* like, DLManagedTensorVersioned** out, void* context, SetError set_error) noexcept with gil:
    cdef void* handle = NULL
    if TWTensorEmpty(like.ndim, like.shape, &like.dtype, &like.device, &handle) \
            or TWTensorToDLPackVersioned(handle, out):
        set_error(context, b"MemoryError", b"cannot allocate the tensor")
        return -1
    TWDecRef(handle)
    return 0


cdef DLPackExchangeAPI own_exchange
own_exchange.version.major = 1
own_exchange.version.minor = 3
own_exchange.prev_api = NULL
own_exchange.managed_tensor_allocator = exchange_allocate
own_exchange.managed_tensor_from_py_object_no_sync = exchange_from_py
own_exchange.managed_tensor_to_py_object_no_sync = exchange_to_py
own_exchange.dltensor_from_py_object_no_sync = exchange_view
own_exchange.current_work_stream = exchange_stream
exchange_capsule = PyCapsule_New(&own_exchange, b"dlpack_exchange_api", NULL)
