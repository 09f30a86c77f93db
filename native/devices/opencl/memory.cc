#include "memory.h"

#include "device.h"

namespace tw {
namespace {

constexpr uintptr_t kPage = 4096;

bool shares(const OpenCLDevice& d) {
  return d.version >= 200 && cl().has_shared && (d.number_of<cl_flags>(CL_DEVICE_SVM) & CL_SVM_COARSE_GRAIN_BUFFER);
}

// Whether a command is done, or has failed; waits for that if it is told to.
bool has_ended(cl_event event, bool wait) {
  cl_int status = 0;
  if (wait) cl().wait(1, &event);
  return wait || cl().event_info(event, CL_EVENT_STATUS, sizeof status, &status, nullptr) != CL_SUCCESS || status <= 0;
}

}  // namespace

Memory::Memory(OpenCLDevice& device) : device_(device), shared_(shares(device)) {}

// Numbers that no block has; a page lies between two blocks.
uintptr_t Memory::free_numbers(size_t bytes) const {
  uintptr_t at = kPage;
  for (auto& [begin, block] : blocks_) {
    if (begin - at > bytes + kPage) break;
    at = (begin + block.bytes + 2 * kPage - 1) & ~(kPage - 1);
  }
  return at;
}

uintptr_t Memory::take(size_t bytes, Block* block) {
  if (shared_) return reinterpret_cast<uintptr_t>(cl().allocate_shared(device_.context, CL_MEM_READ_WRITE, bytes, 0));
  cl_int code = CL_SUCCESS;
  block->buffer = cl().create_buffer(device_.context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  if (code == CL_SUCCESS) return free_numbers(bytes);
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE) return 0;
  check(code, "allocate memory on", device_);
  return 0;
}

void Memory::give_back(bool wait) {
  size_t kept = 0;
  for (Freed& f : freed_) {
    while (!f.ends.empty() && has_ended(f.ends.back(), wait)) {
      cl().release_event(f.ends.back());
      f.ends.pop_back();
    }
    if (f.ends.empty()) cl().release_shared(device_.context, f.data);
    else std::swap(freed_[kept++], f);
  }
  freed_.resize(kept);
}

void* Memory::allocate(const DLTensor& like, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock_);
  give_back(false);
  Block block{bytes, nullptr, {}};
  uintptr_t data = take(bytes, &block);
  if (!data && !freed_.empty()) {
    give_back(true);
    data = take(bytes, &block);
  }
  if (!data) {
    const auto total = device_.number_of<cl_ulong>(CL_DEVICE_MEMORY), most = device_.number_of<cl_ulong>(CL_DEVICE_MAX_ALLOCATION);
    fail("MemoryError", "%s has no memory for %s, which needs %s: of %s, arrays of this process take %s, and one array has at most %s", device_.text().c_str(),
         tensor_text(like).c_str(), bytes_text(bytes).c_str(), bytes_text(total).c_str(), bytes_text(used_).c_str(), bytes_text(most).c_str());
  }
  blocks_.emplace(data, block);
  used_ += bytes;
  return reinterpret_cast<void*>(data);
}

void Memory::release(void* data) {
  std::vector<cl_event> ends;
  if (shared_) ends = device_.ends();
  std::lock_guard<std::mutex> hold(lock_);
  auto found = blocks_.find(reinterpret_cast<uintptr_t>(data));
  if (found == blocks_.end()) fail("ValueError", "%s has no memory that begins at %p", device_.text().c_str(), data);
  const Block block = std::move(found->second);
  blocks_.erase(found);
  used_ -= block.bytes;
  for (auto& part : block.parts) cl().release_buffer(part.second);
  if (block.buffer) check(cl().release_buffer(block.buffer), "free memory of", device_);
  if (shared_) freed_.push_back({data, std::move(ends)});
  give_back(false);
}

std::map<uintptr_t, Memory::Block>::iterator Memory::block_of(uintptr_t address, size_t bytes, const char* what) {
  auto found = blocks_.upper_bound(address);
  if (found != blocks_.begin()) {
    --found;
    if (address - found->first <= found->second.bytes && bytes <= found->second.bytes - (address - found->first)) return found;
  }
  fail("ValueError", "%s: %s is %zu bytes at address %p, which are not in memory of %s", device_.text().c_str(), what, bytes, reinterpret_cast<void*>(address), device_.text().c_str());
}

Place Memory::find(void* address, size_t bytes, const char* what) {
  std::lock_guard<std::mutex> hold(lock_);
  const auto number = reinterpret_cast<uintptr_t>(address);
  auto found = block_of(number, bytes, what);
  return {found->second.buffer, number - found->first, address};
}

cl_mem Memory::part_at(Block& block, size_t offset, const char* what) {
  if (offset == 0) return block.buffer;
  cl_mem& part = block.parts[offset];
  if (part) return part;
  const size_t step = device_.number_of<cl_uint>(CL_DEVICE_ADDRESS_ALIGNMENT, 8) / 8;
  if (step && offset % step)
    fail("ValueError", "%s: %s begins %zu bytes into an allocation, but this device shares no memory with the host, and its kernels take addresses that are multiples of %zu bytes; copy the tensor first",
         device_.text().c_str(), what, offset, step);
  const cl_buffer_region region{offset, block.bytes - offset};
  cl_int code = CL_SUCCESS;
  part = cl().create_part(block.buffer, CL_MEM_READ_WRITE, CL_BUFFER_REGION, &region, &code);
  check(code, "use a part of a buffer of", device_);
  return part;
}

cl_int Memory::set_arg(cl_kernel kernel, cl_uint index, void* address, const char* what) {
  if (!address) return shared_ ? cl().set_shared_arg(kernel, index, nullptr) : cl().set_arg(kernel, index, sizeof(cl_mem), nullptr);
  std::lock_guard<std::mutex> hold(lock_);
  const auto number = reinterpret_cast<uintptr_t>(address);
  auto found = block_of(number, 0, what);
  if (shared_) return cl().set_shared_arg(kernel, index, address);
  cl_mem part = part_at(found->second, number - found->first, what);
  return cl().set_arg(kernel, index, sizeof part, &part);
}

size_t Memory::available() const {
  size_t kilobytes[2] = {0, 0};  // in all, and of one block
  if (cl().device_info(device_.device, CL_DEVICE_FREE_MEMORY_AMD, sizeof kilobytes, kilobytes, nullptr) == CL_SUCCESS) return kilobytes[0] << 10;
  const auto total = static_cast<size_t>(device_.number_of<cl_ulong>(CL_DEVICE_MEMORY));
  return total > used_ ? total - used_ : 0;
}

}  // namespace tw
