// The library of a driver, which the system's loader opens at run time: neither its headers nor the driver are needed to build.
#pragma once
#include <string>
#include <vector>

namespace tw {

class Driver {
 public:
  // Opens the first of these libraries that is here.
  explicit Driver(const std::vector<std::string>& names);
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  // Why the first of them could not be opened, in the loader's words, and the names of the others.
  const std::string& why() const { return why_; }
  // The folder that the library lies in; empty if the system does not tell.
  std::string folder() const;
  // Null where the library has no such function.
  void* symbol(const char* name) const;
  template <typename F>
  bool find(const char* name, F** function) const {
    *function = reinterpret_cast<F*>(symbol(name));
    return *function != nullptr;
  }

 private:
  static std::string folder_of(const std::string& file) { return file.substr(0, file.find_last_of("/\\") + 1); }
  void note_failure(const std::string& name, const std::string& said) { why_ += why_.empty() ? said : ", nor " + name; }

  void* handle_ = nullptr;  // never closed
  std::string name_, why_;
};

}  // namespace tw
