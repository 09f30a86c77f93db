#include "../loader.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "../../core.h"

namespace tw {
namespace {

const char kHere = 0;  // in the runtime's library, whose path the loader knows

// Found while the library is loaded, since a program may leave the folder that a relative path begins at. That of a program that contains
// the runtime is what it was started by, which may be a name without its folder.
const std::string kOwnPath = [] {
  Dl_info info;
  const std::string path = dladdr(&kHere, &info) ? info.dli_fname : "";
  char whole[PATH_MAX];
  if (!path.empty() && path[0] == '/') return path;
  return realpath(path.find('/') == std::string::npos ? "/proc/self/exe" : path.c_str(), whole) ? std::string(whole) : path;
}();
std::string own_folder() { return kOwnPath.substr(0, kOwnPath.rfind('/')); }

// An ELF shared object made in memory that needs two libraries and holds nothing.
bool open_root(const std::string& first, const std::string& second) {
  struct Image {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[2];
    ElfW(Dyn) dynamic[8];
    ElfW(Sym) symbol;
    uint32_t hash[4];
    char strings[2 * 4096];
  };
  static_assert(std::is_trivially_copyable<Image>::value, "written to a file as it is");
  if (first.size() + second.size() + 3 > sizeof(Image::strings)) return false;
  auto image = std::make_unique<Image>();
  memset(image.get(), 0, sizeof(Image));
  auto& h = image->header;
  memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_ident[EI_VERSION] = EV_CURRENT;
  h.e_type = ET_DYN;
#if defined(__x86_64__)
  h.e_machine = EM_X86_64;
#elif defined(__aarch64__)
  h.e_machine = EM_AARCH64;
#elif defined(__riscv)
  h.e_machine = EM_RISCV;
#elif defined(__i386__)
  h.e_machine = EM_386;
#elif defined(__arm__)
  h.e_machine = EM_ARM;
#endif
  h.e_version = EV_CURRENT;
  h.e_phoff = offsetof(Image, segments);
  h.e_ehsize = sizeof(h);
  h.e_phentsize = sizeof(ElfW(Phdr));
  h.e_phnum = 2;
  image->segments[0] = ElfW(Phdr){};
  image->segments[0].p_type = PT_LOAD;
  image->segments[0].p_flags = PF_R | PF_W;
  image->segments[0].p_filesz = image->segments[0].p_memsz = sizeof(Image);
  image->segments[0].p_align = 4096;
  image->segments[1].p_type = PT_DYNAMIC;
  image->segments[1].p_flags = PF_R | PF_W;
  image->segments[1].p_offset = image->segments[1].p_vaddr = offsetof(Image, dynamic);
  image->segments[1].p_filesz = image->segments[1].p_memsz = sizeof(image->dynamic);
  image->segments[1].p_align = 8;
  image->hash[0] = image->hash[1] = 1;  // one bucket, one symbol: the null one
  size_t second_at = 1 + first.size() + 1;
  memcpy(image->strings + 1, first.c_str(), first.size());
  memcpy(image->strings + second_at, second.c_str(), second.size());
  const std::pair<long, size_t> entries[] = {
      {DT_NEEDED, 1}, {DT_NEEDED, second_at}, {DT_HASH, offsetof(Image, hash)}, {DT_SYMTAB, offsetof(Image, symbol)},
      {DT_SYMENT, sizeof(ElfW(Sym))}, {DT_STRTAB, offsetof(Image, strings)}, {DT_STRSZ, sizeof(image->strings)}, {DT_NULL, 0}};
  for (size_t i = 0; i < 8; ++i) {
    image->dynamic[i].d_tag = entries[i].first;
    image->dynamic[i].d_un.d_val = entries[i].second;
  }
  int file = memfd_create("tilewright-root", MFD_CLOEXEC);
  if (file < 0) return false;
  bool written = write(file, image.get(), sizeof(Image)) == static_cast<ssize_t>(sizeof(Image));
  // The loader knows a path that it has opened, and numbers of files come again: each time another way to write the folder.
  static std::atomic<unsigned> count{0};
  std::string place = "/proc/self/fd/";
  for (unsigned n = ++count; n; n >>= 1) place += n & 1 ? "./" : "/";
  bool opened = written && dlopen((place + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  return opened;
}

}  // namespace

void* open_library(const std::string& path) {
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  std::string why = dlerror();
  // It is linked to no other library. What it calls may not be in this process yet: mathematics, and on processors of 32 bits
  // divisions and conversions, which have no instructions there.
  for (const char* library : {"libm.so.6", "libgcc_s.so.1"}) {
    if (why.find("undefined symbol") == std::string::npos) break;
    if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL)) continue;
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    why = dlerror();
  }
  // A library made for tvm-ffi, where that runtime is not installed: ours stands in for it.
  if (why.find("libtvm_ffi.so") != std::string::npos) {
    if (dlopen((own_folder() + "/compat/libtvm_ffi.so").c_str(), RTLD_NOW | RTLD_LOCAL))
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (const char* text = dlerror()) why = text;
  } else if (why.find("undefined symbol: TVM") != std::string::npos) {
    // It was linked to no runtime. Making ours global would break a tvm-ffi that is imported later, so the
    // library and ours are opened as the two dependencies of one root, which is the scope of its look-ups.
    if (open_root(path, kOwnPath))
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (const char* text = dlerror()) why = text;
  }
  const char* kind = why.find("No such file") != std::string::npos ? "FileNotFoundError" : "RuntimeError";
  fail(kind, "cannot load library %s: %s", path.c_str(), why.c_str());
}

std::string library_beside(const std::string& name) { return own_folder() + "/lib" + name + ".so"; }
void* symbol_of(void* library, const char* name) { return dlsym(library, name); }
void* symbol_anywhere(void* library, const char* name) {
  void* found = dlsym(library, name);
  return found ? found : dlsym(RTLD_DEFAULT, name);
}
uint64_t symbol_bytes(const void* address) {
#if defined(__GLIBC__)
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) && symbol && symbol->st_size) return symbol->st_size;
#endif
  return uint64_t{1} << 47;
}

}  // namespace tw
