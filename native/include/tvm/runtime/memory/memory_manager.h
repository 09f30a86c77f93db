// Kinds of allocators, for the function `init` of virtual machines. This runtime keeps memory in pools whichever is asked for.
#ifndef TVM_RUNTIME_MEMORY_MEMORY_MANAGER_H_
#define TVM_RUNTIME_MEMORY_MEMORY_MANAGER_H_

namespace tvm {
namespace runtime {
namespace memory {
enum AllocatorType { kNaive = 1, kPooled };
}  // namespace memory
}  // namespace runtime
}  // namespace tvm

#endif
