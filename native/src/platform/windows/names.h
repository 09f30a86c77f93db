// Paths as Windows takes them, and what it says of its errors.
#pragma once
#include <windows.h>

#include <string>

namespace tw {

inline std::wstring wide(const std::string& text) {
  std::wstring found(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0)), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), &found[0], static_cast<int>(found.size()));
  return found;
}
inline std::string narrow(const std::wstring& text) {
  std::string found(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0, nullptr, nullptr)), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), &found[0], static_cast<int>(found.size()), nullptr, nullptr);
  return found;
}
inline std::string error_text(DWORD code) {
  wchar_t text[512];
  DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, code, 0, text, 512, nullptr);
  while (n > 0 && (text[n - 1] == L'\n' || text[n - 1] == L'\r' || text[n - 1] == L'.')) --n;
  return n ? narrow({text, n}) : "error " + std::to_string(code);
}

}  // namespace tw
