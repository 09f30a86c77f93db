#include "files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "../src/core.h"
#include "../src/platform/files.h"
#include "../src/platform/process.h"
#include "linking.h"
#include "system.h"

namespace fs = std::filesystem;

namespace tw::server {
namespace {

constexpr char kFolders[] = "tilewright-rpc-";
constexpr size_t kMostRead = size_t{1} << 30;

fs::path place_of_folders(const std::string& work_dir) {
  std::error_code failed;
  if (!work_dir.empty()) fs::create_directories(work_dir, failed);
  const fs::path place = fs::canonical(work_dir.empty() ? fs::temp_directory_path(failed) : fs::path(work_dir), failed);
  if (failed) fail("OSError", "the folder for sessions, %s, cannot be used: %s; --work-dir names another one", work_dir.c_str(), failed.message().c_str());
  return place;
}

// Names with their parts, from the folder's to the file's.
struct Folder {
  fs::path root;
  uint64_t most;

  // The place of a client's path. Throws ValueError for a path that leads out of the folder, by a link too.
  fs::path inside(const std::string& path) const {
    const fs::path place = fs::weakly_canonical(root / fs::u8path(path));
    if (place != root && std::mismatch(root.begin(), root.end(), place.begin(), place.end()).first != root.end())
      fail("ValueError", "the path '%s' leads out of the session's folder", path.c_str());
    return place;
  }
  fs::path existing(const std::string& path) const {
    const fs::path place = inside(path);
    if (fs::exists(place)) return place;
    const std::string names = fs::is_directory(place.parent_path()) ? listed(place.parent_path(), ", ") : "";
    fail("FileNotFoundError", "there is no '%s' in the session's folder; uploaded are: %s", path.c_str(), names.empty() ? "none" : names.c_str());
  }
  static std::string listed(const fs::path& folder, const char* between) {
    std::vector<std::string> names;
    for (auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().u8string());
    std::sort(names.begin(), names.end());
    std::string all;
    for (auto& name : names) all += (all.empty() ? "" : between) + name;
    return all;
  }
  uint64_t used() const {
    uint64_t bytes = 0;
    for (auto& entry : fs::recursive_directory_iterator(root))
      if (!entry.is_symlink() && entry.is_regular_file()) bytes += entry.file_size();
    return bytes;
  }

  void write(const std::string& path, const char* mode, const std::string& data) const {
    const fs::path place = inside(path);
    const uint64_t taken = used();
    if (data.size() > most || taken > most - data.size())
      fail("OSError", "no room for %zu bytes of '%s': files of a session may take %llu bytes, and %llu are in use (--max-disk)", data.size(), path.c_str(),
           static_cast<unsigned long long>(most), static_cast<unsigned long long>(taken));
    fs::create_directories(place.parent_path());
    FILE* file = fopen(place.string().c_str(), mode);
    bool whole = file && fwrite(data.data(), 1, data.size(), file) == data.size();
    if (file) whole = fclose(file) == 0 && whole;
    if (whole) return;
    const int why = errno;
    if (file) fs::remove(place);
    if (why == ENOSPC || why == EFBIG)
      fail("OSError", "the disk of the server is full: '%s' is not written, and %llu bytes are free in %s; remove files there, or let --work-dir name a larger folder",
           path.c_str(), static_cast<unsigned long long>(fs::space(root).available), root.string().c_str());
    fail("OSError", "'%s' cannot be written: %s", path.c_str(), strerror(why));
  }
  std::string read(const std::string& path, uint64_t start, uint64_t count) const {
    const fs::path place = existing(path);
    if (fs::is_directory(place)) fail("OSError", "'%s' is a folder", path.c_str());
    return InputFile(place.string()).bytes(start, std::min<uint64_t>(count, kMostRead));
  }
  void remove(const std::string& path) const {
    const fs::path place = inside(path);
    if (place == root) fail("ValueError", "the session's folder itself cannot be removed");
    fs::remove_all(place);
  }
};

TVMFFIAny load(const Folder& folder, const std::string& path) {
  std::string file = folder.existing(path).string();
  if (is_archive(file)) file = link_archive(file);
  TVMFFIAny name = from_string(file);
  try {
    TVMFFIAny module = call(get_global("runtime.ModuleLoadFromFile").get(), &name, 1);
    destroy(name);
    return module;
  } catch (...) {
    destroy(name);
    throw;
  }
}

}  // namespace

std::string make_folder(const std::string& work_dir) {
  const fs::path place = place_of_folders(work_dir);
  for (;;) {
    uint32_t mark[2];
    random_bytes(mark, sizeof mark);
    const fs::path folder = place / format("%s%lld-%08x%08x", kFolders, static_cast<long long>(process_number()), mark[0], mark[1]);
    std::error_code failed;
    if (fs::create_directory(folder, failed)) {
      fs::permissions(folder, fs::perms::owner_all, failed);
      return folder.string();
    }
    if (failed) fail("OSError", "the folder of a session cannot be made in %s: %s; --work-dir names another place", place.string().c_str(), failed.message().c_str());
  }
}

void remove_folder(const std::string& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
}

void remove_left_folders(const std::string& work_dir) {
  std::error_code failed;
  for (auto& entry : fs::directory_iterator(place_of_folders(work_dir), failed)) {
    const std::string name = entry.path().filename().string();
    long long number = 0;
    if (name.compare(0, sizeof kFolders - 1, kFolders) == 0 && sscanf(name.c_str() + sizeof kFolders - 1, "%lld-", &number) == 1 && number > 0 && !is_process(number))
      remove_folder(entry.path().string());
  }
}

void offer_files(const std::string& root, uint64_t most) {
  const Folder folder{fs::canonical(root), most};
  auto offer = [](const char* name, NativeFunction function) { register_global((std::string("tvm.rpc.server.") + name).c_str(), std::move(function)); };
  auto amount = [](const TVMFFIAny& v, const char* what) {
    const int64_t n = as_int(v, what);
    if (n < 0) fail("ValueError", "%s is negative: %lld", what, static_cast<long long>(n));
    return static_cast<uint64_t>(n);
  };
  offer("upload", [folder](Args a) { return folder.write(as_string(a[0]), "wb", as_string(a[1])), none(); });
  offer("append", [folder](Args a) { return folder.write(as_string(a[0]), "ab", as_string(a[1])), none(); });
  offer("size", [folder](Args a) { return from_int(static_cast<int64_t>(fs::file_size(folder.existing(as_string(a[0]))))); });
  offer("read", [folder, amount](Args a) {
    return from_string(folder.read(as_string(a[0]), amount(a[1], "the place"), amount(a[2], "the number of bytes")), true);
  });
  offer("download", [folder](Args a) { return from_string(folder.read(as_string(a[0]), 0, kMostRead), true); });
  offer("remove", [folder](Args a) { return folder.remove(as_string(a[0])), none(); });
  offer("listdir", [folder](Args a) { return from_string(Folder::listed(folder.existing(as_string(a[0])), ",")); });
  offer("workpath", [folder](Args a) { return from_string(folder.inside(as_string(a[0])).string()); });
  offer("load_module", [folder](Args a) { return load(folder, as_string(a[0])); });
}

}  // namespace tw::server
