#include "code.h"

#include <cstdlib>
#include <cstring>

#include "../common/errors.h"

namespace tw {
namespace {

constexpr char kFirstLine[] = "tilewright accelerator program 1";

// The lines at the beginning of an image, and the bytes behind them.
class Image {
 public:
  explicit Image(const std::string& data) : data_(data) {}
  std::string line() {
    const size_t end = data_.find('\n', at_);
    if (end == std::string::npos) damaged();
    const std::string found = data_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  std::string bytes(int64_t count) {
    if (count < 0 || static_cast<uint64_t>(count) > data_.size() - at_) damaged();
    const std::string found = data_.substr(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return found;
  }
  bool at_end() const { return at_ == data_.size(); }
  [[noreturn]] static void damaged() { fail("ValueError", "the code for the accelerator is damaged"); }

 private:
  const std::string& data_;
  size_t at_ = 0;
};

// The numbers behind the words of a line.
std::vector<int64_t> numbers(const std::string& line, size_t from, size_t count) {
  std::vector<int64_t> found;
  const char* at = line.c_str() + from;
  for (size_t n = 0; n < count; ++n) {
    char* end;
    found.push_back(strtoll(at, &end, 10));
    if (end == at) Image::damaged();
    at = end;
  }
  return found;
}
bool begins(const std::string& text, const char* with) { return text.compare(0, strlen(with), with) == 0; }

}  // namespace

Code::Code(const std::shared_ptr<Accelerator>& device, const std::string& image) : device_(device) {
  Image from(image);
  if (from.line() != kFirstLine) fail("ValueError", "this is no code for an accelerator, or of another version: it does not begin with `%s`", kFirstLine);
  std::string line = from.line();
  if (!begins(line, "description ")) Image::damaged();
  description_ = from.bytes(numbers(line, 12, 1)[0]);
  while ((line = from.line()) != "end") {
    if (begins(line, "kernel ")) {
      const size_t name_end = line.find(' ', 7);
      if (name_end == std::string::npos) Image::damaged();
      auto kernel = std::make_unique<Kernel>();
      kernel->owner = this;
      kernel->name = line.substr(7, name_end - 7);
      const auto counts = numbers(line, name_end, 3);
      kernel->arguments = counts[0], kernel->instructions = counts[1], kernel->uop_bytes = counts[2];
      kernels_.push_back(std::move(kernel));
    } else if (begins(line, "relocation ") && !kernels_.empty()) {
      const auto pair = numbers(line, 11, 2);
      Kernel& k = *kernels_.back();
      if (pair[0] < 0 || pair[0] >= k.instructions || pair[1] < -1 || pair[1] >= k.arguments) Image::damaged();
      k.relocations.push_back({pair[0], pair[1]});
    } else {
      Image::damaged();
    }
  }
  const int64_t size = Description(description_).instruction_bytes;
  std::vector<std::string> uops;
  for (auto& k : kernels_) {
    const std::string code = from.bytes(k->instructions * size);
    k->code.assign(code.begin(), code.end());
    uops.push_back(from.bytes(k->uop_bytes));
  }
  if (!from.at_end()) Image::damaged();
  std::lock_guard<std::mutex> hold(device_->lock);
  if (!device_->configured()) device_->configure(description_);
  check_configuration();
  Dram& dram = device_->dram;
  for (size_t n = 0; n < kernels_.size(); ++n) {
    Kernel& k = *kernels_[n];
    k.code_address = dram.allocate(k.code.size());
    k.uop_address = dram.allocate(uops[n].size());
    memcpy(dram.cpu(k.uop_address, uops[n].size(), [] { return "micro-ops:"; }), uops[n].data(), uops[n].size());
    dram.flush(k.uop_address, uops[n].size());
  }
}
Code::~Code() {
  std::lock_guard<std::mutex> hold(device_->lock);
  for (auto& k : kernels_)
    for (uint64_t address : {k->code_address, k->uop_address})
      if (address) device_->dram.release(address);
}
void Code::check_configuration() const {
  const Description& d = device_->machine().d;
  if (d.text == description_) return;
  const Description other(description_);
  fail("ValueError",
       "the code is for an accelerator of another configuration: %lldx%lldx%lld (%016llx), but %s is %lldx%lldx%lld (%016llx); compile it for that one, or"
       " call vta.reconfig_runtime()",
       static_cast<long long>(other.batch), static_cast<long long>(other.block_in), static_cast<long long>(other.block_out),
       static_cast<unsigned long long>(other.fingerprint), device_->text().c_str(), static_cast<long long>(d.batch), static_cast<long long>(d.block_in),
       static_cast<long long>(d.block_out), static_cast<unsigned long long>(d.fingerprint));
}
Kernel* Code::find(const std::string& name) {
  for (auto& k : kernels_)
    if (k->name == name) return k.get();
  fail("ValueError", "the code for the accelerator has no kernel `%s`", name.c_str());
}

// Writes the code with the addresses of the arguments, unless it is there with these.
void Code::place(Kernel* kernel, const std::vector<uint64_t>& addresses) {
  if (kernel->placed == addresses && !addresses.empty()) return;
  const Description& d = device_->machine().d;
  std::vector<uint8_t> code = kernel->code;
  for (const Kernel::Relocation& r : kernel->relocations) {
    uint8_t* const at = code.data() + r.instruction * d.instruction_bytes;
    for (const Place& p : d.formats[at[0] & 7].places) {
      if (p.field != kDramBase) continue;
      const uint64_t base = r.argument < 0 ? kernel->uop_address : addresses[static_cast<size_t>(r.argument)];
      put_bits(at, p.offset, p.bits, bits_at(at, p.offset, p.bits) + base);
    }
  }
  memcpy(device_->dram.cpu(kernel->code_address, code.size(), [] { return "instructions:"; }), code.data(), code.size());
  device_->dram.flush(kernel->code_address, code.size());
  kernel->placed = addresses;
}
void Code::launch(Kernel* kernel, const std::vector<uint64_t>& addresses) {
  if (static_cast<int64_t>(addresses.size()) != kernel->arguments)
    fail("ValueError", "the kernel `%s` has %lld arguments, but is given %zu", kernel->name.c_str(), static_cast<long long>(kernel->arguments), addresses.size());
  std::lock_guard<std::mutex> hold(device_->lock);
  check_configuration();
  place(kernel, addresses);
  device_->run(kernel->code_address, static_cast<uint64_t>(kernel->instructions));
}

}  // namespace tw
