#include "../files.h"

#include <windows.h>

#include <cstdlib>
#include <cstring>

#include "../../core.h"
#include "names.h"

namespace tw {
namespace {

HANDLE opened(const std::string& path) {
  return CreateFileW(wide(path).c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
}
HANDLE handle(intptr_t file) { return reinterpret_cast<HANDLE>(file); }

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path), file_(reinterpret_cast<intptr_t>(opened(path))) {
  LARGE_INTEGER bytes;
  if (is_open() && GetFileType(handle(file_)) == FILE_TYPE_DISK && GetFileSizeEx(handle(file_), &bytes)) size_ = static_cast<uint64_t>(bytes.QuadPart);
}
InputFile::~InputFile() {
  if (is_open()) CloseHandle(handle(file_));
}
size_t InputFile::read(uint64_t at, void* to, size_t n) const {
  size_t done = 0;
  while (done < n) {
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(at + done);
    place.OffsetHigh = static_cast<DWORD>((at + done) >> 32);
    DWORD got = 0;
    const auto piece = static_cast<DWORD>(n - done < (1u << 30) ? n - done : 1u << 30);
    if (!ReadFile(handle(file_), static_cast<char*>(to) + done, piece, &got, &place)) {
      if (GetLastError() == ERROR_HANDLE_EOF) break;
      fail("OSError", "%s cannot be read: %s", path_.c_str(), error_text(GetLastError()).c_str());
    }
    if (got == 0) break;
    done += got;
  }
  return done;
}

bool identify(const std::string& path, FileIdentity* file, std::string* whole) {
  HANDLE found = CreateFileW(wide(path).c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (found == INVALID_HANDLE_VALUE) return false;
  BY_HANDLE_FILE_INFORMATION facts;
  const bool known = GetFileInformationByHandle(found, &facts);
  wchar_t name[4096];
  const DWORD n = GetFinalPathNameByHandleW(found, name, 4096, FILE_NAME_NORMALIZED);
  CloseHandle(found);
  auto join = [](DWORD high, DWORD low) { return uint64_t{high} << 32 | low; };
  if (!known) return false;
  const uint64_t changed = join(facts.ftLastWriteTime.dwHighDateTime, facts.ftLastWriteTime.dwLowDateTime);
  *file = {facts.dwVolumeSerialNumber, join(facts.nFileIndexHigh, facts.nFileIndexLow), join(facts.nFileSizeHigh, facts.nFileSizeLow),
           static_cast<int64_t>(changed / 10000000), static_cast<int64_t>(changed % 10000000 * 100)};
  *whole = n > 0 && n < 4096 ? narrow({name, n}) : path;
  return true;
}

bool seek(FILE* file, uint64_t at) { return _fseeki64(file, static_cast<long long>(at), SEEK_SET) == 0; }

FILE* temporary_file(std::string* path) {
  wchar_t folder[MAX_PATH + 1], name[MAX_PATH + 1];
  if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"tilewright", 0, name)) return nullptr;
  *path = narrow(name);
  return _wfopen(name, L"wb");
}

void remove_loaded(const std::string& path) {
  const std::wstring name = wide(path);
  if (!DeleteFileW(name.c_str())) MoveFileExW(name.c_str(), nullptr, MOVEFILE_DELAY_UNTIL_REBOOT);
}

}  // namespace tw
