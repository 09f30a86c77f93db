// Libraries that the system's loader opens.
#include <cstdio>

#include "module.h"
#include "platform/files.h"
#include "platform/loader.h"
#include "platform/locks.h"
#include "seal.h"

extern "C" void TWErrorTake(TVMFFIObjectHandle* result);  // our own TVMFFIErrorMoveFromRaised

namespace tw {
namespace {

class SharedLibrary : public Library {
 public:
  explicit SharedLibrary(const std::string& path) : path_(path) {
    // A bare name is a file of the working folder first; the loader would look for it among the system's libraries alone.
    FileIdentity file;
    std::string whole;
    const bool here = path.find_first_of("/\\") == std::string::npos && identify(path, &file, &whole);
    handle_ = open_once(here ? "./" + path : path);
    auto take = reinterpret_cast<void (*)(TVMFFIObjectHandle*)>(symbol_anywhere(handle_, "TVMFFIErrorMoveFromRaised"));
    auto put = reinterpret_cast<void (*)(TVMFFIObjectHandle)>(symbol_anywhere(handle_, "TVMFFIErrorSetRaised"));
    if (take && take != TWErrorTake) add_foreign_errors(take, put);
  }
  // Never closed: objects that the library made may outlive the module, with deleters inside it.
  void* symbol(const std::string& name) const override { return symbol_of(handle_, name.c_str()); }
  std::string label() const override { return path_; }

 private:
  // The system answers a path, and a file, that it has loaded once with what it loaded then. So what was written over a library since is
  // loaded from a copy.
  static void* open_once(const std::string& path) {
    struct Loaded {
      FileIdentity file;
      void* handle;
    };
    static Mutex lock;
    static auto* loaded = new std::map<std::string, Loaded>;
    FileIdentity file;
    std::string key;
    if (!identify(path, &file, &key)) return open_library(path);
    std::lock_guard<Mutex> hold(lock);
    auto known = loaded->find(key);
    if (known != loaded->end() && known->second.file == file) return known->second.handle;
    void* handle = known == loaded->end() ? open_library(path) : open_copy(path);
    (*loaded)[key] = {file, handle};
    return handle;
  }
  static void* open_copy(const std::string& path) {
    std::string copy;
    std::unique_ptr<FILE, int (*)(FILE*)> in(fopen(path.c_str(), "rb"), fclose), out(temporary_file(&copy), fclose);
    bool whole = in && out;
    char piece[1 << 16];
    while (whole) {
      const size_t n = fread(piece, 1, sizeof piece, in.get());
      if (n == 0) break;
      whole = fwrite(piece, 1, n, out.get()) == n;
    }
    whole = whole && !ferror(in.get()) && fflush(out.get()) == 0;
    struct Removed {  // the system keeps what it has loaded
      const std::string& name;
      ~Removed() { remove_loaded(name); }
    } removed{copy};
    if (!whole) fail("RuntimeError", "%s was written over since it was loaded, and cannot be copied to %s, from where the new one would be loaded", path.c_str(), copy.c_str());
    out.reset();
    return open_library(copy);
  }

  std::string path_;
  void* handle_;
};

const int shared_libraries_registered = [] {
  // (path, format or nothing): a library, or what the function for files of another format makes of it.
  register_global("runtime.ModuleLoadFromFile", [](Args args) {
    std::string path = as_string(args[0]), format = args.count > 1 ? as_string(args[1]) : "";
    const size_t dot = path.find_last_of("./\\");
    if (format.empty() && dot != std::string::npos && path[dot] == '.') format = path.substr(dot + 1);
    if (auto loader = get_global("runtime.module.loadfile_" + format)) {
      TVMFFIAny given[] = {args[0], none()};
      given[1].type_index = kTVMFFIRawStr;
      given[1].v_c_str = format.c_str();
      TVMFFIAny made = call(loader.get(), given, 2);
      if (made.type_index == kTVMFFIModule) return made;
      destroy(made);
      fail("TypeError", "`runtime.module.loadfile_%s` must return a module", format.c_str());
    }
    check_shared_library(path);
    return from_ref(library_module(std::make_shared<SharedLibrary>(path), "", {}));
  });
  return 0;
}();

}  // namespace
}  // namespace tw
