# Declarations of the packed ABI, of the runtime's own names and of the C API of Python for _ffi.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from cpython.ref cimport PyObject

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    int PyErr_CheckSignals() except -1
    int Py_IsInitialized() nogil
    long long PyLong_AsLongLong(object value) except? -1
    bint PyLong_Check(object value)
    bint PyFloat_Check(object value)
    bint PyUnicode_Check(object value)
    bint PyBytes_Check(object value)
    double PyFloat_AS_DOUBLE(object value)
    char* PyBytes_AS_STRING(object value)
    Py_ssize_t PyBytes_GET_SIZE(object value)
    PyObject* PyTuple_GET_ITEM(object value, Py_ssize_t index)
    Py_ssize_t PyTuple_GET_SIZE(object value)
    ctypedef struct PyTypeObject
    PyTypeObject* Py_TYPE(object value)
    bint PyObject_TypeCheck(object value, PyTypeObject* type)

cdef extern from "tilewright/abi.h" nogil:
    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor
    ctypedef struct DLDevice:
        int32_t device_type
        int32_t device_id
    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void* manager_ctx
        void (*deleter)(DLManagedTensor*) noexcept
    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned*) noexcept
        uint64_t flags
        DLTensor dl_tensor
    ctypedef int (*DLPackManagedTensorAllocator)(DLTensor*, DLManagedTensorVersioned**, void*, void (*)(void*, const char*, const char*) noexcept) noexcept
    ctypedef struct DLPackExchangeAPI:
        DLPackVersion version
        DLPackExchangeAPI* prev_api
        DLPackManagedTensorAllocator managed_tensor_allocator
        int (*managed_tensor_from_py_object_no_sync)(void*, DLManagedTensorVersioned**) noexcept
        int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned*, void**) noexcept
        int (*dltensor_from_py_object_no_sync)(void*, DLTensor*) noexcept
        int (*current_work_stream)(int32_t, int32_t, void**) noexcept
    ctypedef struct TVMFFIObject:
        uint64_t combined_ref_count
        int32_t type_index
    ctypedef struct TVMFFIAny:
        int32_t type_index
        uint32_t zero_padding
        uint32_t small_str_len
        int64_t v_int64
        double v_float64
        void* v_ptr
        const char* v_c_str
        TVMFFIObject* v_obj
        DLDataType v_dtype
        DLDevice v_device
        char v_bytes[8]
    ctypedef struct TVMFFIByteArray:
        const char* data
        size_t size
    ctypedef struct TVMFFIShapeCell:
        const int64_t* data
        size_t size
    ctypedef struct TVMFFISeqCell:
        void* data
        int64_t size
    ctypedef int (*TVMFFISafeCallType)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) noexcept nogil
    ctypedef struct TVMFFIFunctionCell:
        TVMFFISafeCallType safe_call
    ctypedef struct TVMFFIOpaqueObjectCell:
        void* handle
    ctypedef struct TVMFFIErrorCell:
        TVMFFIByteArray kind
        TVMFFIByteArray message
        TVMFFIByteArray backtrace
        void* extra_context
    enum:
        kDLCPU, kDLCUDA
    enum:
        kTVMFFINone, kTVMFFIInt, kTVMFFIBool, kTVMFFIFloat, kTVMFFIOpaquePtr, kTVMFFIDataType, kTVMFFIDevice
        kTVMFFIDLTensorPtr, kTVMFFIRawStr, kTVMFFIByteArrayPtr, kTVMFFIObjectRValueRef, kTVMFFISmallStr
        kTVMFFISmallBytes, kTVMFFIStaticObjectBegin, kTVMFFIStr, kTVMFFIBytes, kTVMFFIError, kTVMFFIFunction
        kTVMFFIShape, kTVMFFITensor, kTVMFFIArray, kTVMFFIMap, kTVMFFIModule, kTVMFFIOpaquePyObject, kTVMFFIList
        kTVMFFIBigInt

cdef extern from * nogil:
    """
    #include <tilewright/abi.h>
    void TWRaise(void*);
    void TWErrorTake(void**);
    int TWIncRef(void*);
    int TWDecRef(void*);
    int TWFunctionCreate(void*, TVMFFISafeCallType, void (*)(void*), void**);
    int TWFunctionGetGlobal(const TVMFFIByteArray*, void**);
    int TWFunctionSetGlobal(const TVMFFIByteArray*, void*, int);
    int TWErrorCreate(const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, void*, void*, void**);
    int TWOpaqueCreate(void*, int32_t, void (*)(void*), void**);
    int TWStringCreate(const TVMFFIByteArray*, TVMFFIAny*);
    int TWTypeKeyToIndex(const TVMFFIByteArray*, int32_t*);
    int TWBytesCreate(const TVMFFIByteArray*, TVMFFIAny*);
    int TWAnyOwn(const TVMFFIAny*, TVMFFIAny*);
    int TWRegisterCAPI(const char*, void*);
    int TWArrayCreate(const TVMFFIAny*, int64_t, void**);
    int TWTensorFromMemory(const DLTensor*, void*, void (*)(void*), void**);
    void TWCopyMemory(void*, const void*, size_t);
    int TWTensorEmpty(int32_t, const int64_t*, const DLDataType*, const DLDevice*, void**);
    int TWTensorEmptyInScope(int32_t, const int64_t*, const DLDataType*, const DLDevice*, const char*, void**);
    int TWTensorCopy(const DLTensor*, const DLTensor*);
    int TWSynchronize(int, int, void*);
    int TWStreamCreate(int, int, void**);
    int TWStreamFree(int, int, void*);
    int TWSetStream(int, int, void*);
    int TWOrderStreams(int, int, void*, void*);
    void* TWCurrentStream(int32_t, int32_t);
    int TWTensorFromDLPack(DLManagedTensor*, int32_t, int32_t, void**);
    int TWTensorFromDLPackVersioned(DLManagedTensorVersioned*, int32_t, int32_t, void**);
    int TWTensorToDLPack(void*, DLManagedTensor**);
    int TWTensorToDLPackVersioned(void*, DLManagedTensorVersioned**);
    int32_t TWParallelLaunch(TWParallelLambda, void*, int32_t);
    static int32_t tw_empty_task(int32_t i, int32_t n, void* c) { (void)i; (void)n; (void)c; return 0; }
    static void tw_empty_regions(int64_t count, int32_t tasks) {
        while (count-- > 0) TWParallelLaunch(tw_empty_task, 0, tasks);
    }
    #define tw_body(p) ((void*)((TVMFFIObject*)(p) + 1))
    """
    void TWRaise(void*)
    void TWErrorTake(void**)
    int TWIncRef(void*)
    int TWDecRef(void*)
    int TWFunctionCreate(void*, TVMFFISafeCallType, void (*)(void*) noexcept, void**)
    int TWFunctionGetGlobal(const TVMFFIByteArray*, void**)
    int TWFunctionSetGlobal(const TVMFFIByteArray*, void*, int)
    int TWErrorCreate(const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, void*, void*, void**)
    int TWOpaqueCreate(void*, int32_t, void (*)(void*) noexcept, void**)
    int TWStringCreate(const TVMFFIByteArray*, TVMFFIAny*)
    int TWTypeKeyToIndex(const TVMFFIByteArray*, int32_t*)
    int TWBytesCreate(const TVMFFIByteArray*, TVMFFIAny*)
    int TWAnyOwn(const TVMFFIAny*, TVMFFIAny*)
    int TWRegisterCAPI(const char*, void*)
    int TWArrayCreate(const TVMFFIAny*, int64_t, void**)
    int TWTensorFromMemory(const DLTensor*, void*, void (*)(void*) noexcept, void**)
    void TWCopyMemory(void*, const void*, size_t) noexcept nogil
    int TWTensorEmpty(int32_t, const int64_t*, const DLDataType*, const DLDevice*, void**)
    int TWTensorEmptyInScope(int32_t, const int64_t*, const DLDataType*, const DLDevice*, const char*, void**) noexcept nogil
    int TWTensorCopy(const DLTensor*, const DLTensor*) noexcept nogil
    int TWSynchronize(int, int, void*) noexcept nogil
    int TWStreamCreate(int, int, void**) noexcept nogil
    int TWStreamFree(int, int, void*) noexcept nogil
    int TWSetStream(int, int, void*) noexcept nogil
    int TWOrderStreams(int, int, void*, void*) noexcept nogil
    void* TWCurrentStream(int32_t, int32_t) noexcept nogil
    int TWTensorFromDLPack(DLManagedTensor*, int32_t, int32_t, void**)
    int TWTensorFromDLPackVersioned(DLManagedTensorVersioned*, int32_t, int32_t, void**)
    int TWTensorToDLPack(void*, DLManagedTensor**)
    int TWTensorToDLPackVersioned(void*, DLManagedTensorVersioned**)
    void tw_empty_regions(int64_t, int32_t)
    void* tw_body(void*)
