// Programs that a device is given as code: kernels, each with its instructions, its micro-ops, and the places that take addresses of arguments.
#pragma once
#include <memory>

#include "accelerator.h"

namespace tw {

class Code;

struct Kernel {
  Code* owner;
  std::string name;
  int64_t arguments = 0, instructions = 0, uop_bytes = 0;
  struct Relocation {
    int64_t instruction, argument;  // argument -1: the micro-ops
  };
  std::vector<Relocation> relocations;
  std::vector<uint8_t> code;
  uint64_t code_address = 0, uop_address = 0;
  std::vector<uint64_t> placed;  // the addresses for which the code in memory is
};

class Code {
 public:
  // Reads an image (vta/image.py). A device without an accelerator gets that of the image. Throws ValueError for a damaged image, and for one of
  // another configuration.
  Code(const std::shared_ptr<Accelerator>& device, const std::string& image);
  ~Code();
  Kernel* find(const std::string& name);
  void launch(Kernel* kernel, const std::vector<uint64_t>& addresses);
  Accelerator& device() { return *device_; }

 private:
  void check_configuration() const;
  void place(Kernel* kernel, const std::vector<uint64_t>& addresses);

  std::shared_ptr<Accelerator> device_;
  std::string description_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace tw
