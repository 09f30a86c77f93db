// HMAC with SHA-256 (FIPS 180-4, RFC 2104), by which both sides of a connection prove that they know a secret.
#pragma once
#include <string>

namespace tw::server {

constexpr size_t kProofBytes = 32;

std::string sha256(const std::string& data);
std::string hmac(const std::string& secret, const std::string& data);
// Compares in the same time wherever they differ.
bool same(const std::string& a, const std::string& b);

}  // namespace tw::server
