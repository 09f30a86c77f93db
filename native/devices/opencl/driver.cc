#include "driver.h"

namespace tw {
namespace {

#if defined(_WIN32)
const std::vector<std::string> kNames = {"OpenCL.dll"};
#elif defined(__APPLE__)
const std::vector<std::string> kNames = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#elif defined(__LP64__)
const std::vector<std::string> kNames = {"libOpenCL.so.1", "libOpenCL.so", "/vendor/lib64/libOpenCL.so", "/system/vendor/lib64/libOpenCL.so"};
#else
const std::vector<std::string> kNames = {"libOpenCL.so.1", "libOpenCL.so", "/vendor/lib/libOpenCL.so", "/system/vendor/lib/libOpenCL.so"};
#endif

}  // namespace

OpenCL::OpenCL() : library(kNames), has_shared(true) {
  if (!library)
    fail("RuntimeError", "there is no OpenCL: %s cannot be opened (%s). Install the loader (ocl-icd-libopencl1 in Debian) and the driver of the device, put"
         " the folder of the file into LD_LIBRARY_PATH, or use another device, such as cpu(0)", kNames[0].c_str(), library.why().c_str());
#define TW_FIND(field, symbol, result, parameters)                                                                          \
  if (!library.find(#symbol, &field))                                                                                       \
    fail("RuntimeError", "%s has no function `%s`: it is older than OpenCL 1.2; install a newer loader", library.name().c_str(), #symbol);
  TW_CL_FUNCTIONS(TW_FIND)
#undef TW_FIND
#define TW_TRY(field, symbol, result, parameters) has_shared &= library.find(#symbol, &field);
  TW_CL_SHARED_FUNCTIONS(TW_TRY)
#undef TW_TRY
}

const OpenCL& cl() {
  static const OpenCL* opened = new OpenCL;  // arrays may be freed as late as at the end of the process
  return *opened;
}

std::string code_text(cl_int code) {
  static const struct {
    cl_int code;
    const char* name;
  } known[] = {
      {-1, "CL_DEVICE_NOT_FOUND"}, {-2, "CL_DEVICE_NOT_AVAILABLE"}, {-3, "CL_COMPILER_NOT_AVAILABLE"}, {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {-5, "CL_OUT_OF_RESOURCES"}, {-6, "CL_OUT_OF_HOST_MEMORY"}, {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"}, {-11, "CL_BUILD_PROGRAM_FAILURE"},
      {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"}, {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"}, {-30, "CL_INVALID_VALUE"}, {-33, "CL_INVALID_DEVICE"},
      {-34, "CL_INVALID_CONTEXT"}, {-36, "CL_INVALID_COMMAND_QUEUE"}, {-38, "CL_INVALID_MEM_OBJECT"}, {-42, "CL_INVALID_BINARY"}, {-44, "CL_INVALID_PROGRAM"},
      {-45, "CL_INVALID_PROGRAM_EXECUTABLE"}, {-46, "CL_INVALID_KERNEL_NAME"}, {-48, "CL_INVALID_KERNEL"}, {-49, "CL_INVALID_ARG_INDEX"},
      {-50, "CL_INVALID_ARG_VALUE"}, {-51, "CL_INVALID_ARG_SIZE"}, {-52, "CL_INVALID_KERNEL_ARGS"}, {-53, "CL_INVALID_WORK_DIMENSION"},
      {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-55, "CL_INVALID_WORK_ITEM_SIZE"}, {-58, "CL_INVALID_EVENT"}, {-59, "CL_INVALID_OPERATION"},
      {-61, "CL_INVALID_BUFFER_SIZE"}, {-63, "CL_INVALID_GLOBAL_WORK_SIZE"}, {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (auto& k : known)
    if (k.code == code) return format("%s (%d)", k.name, code);
  return format("OpenCL error %d", code);
}

}  // namespace tw
