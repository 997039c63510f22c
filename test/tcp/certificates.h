// SPDX-License-Identifier: MIT
//
// Certificates made for a test, in its own files.
#ifndef TEST_TCP_CERTIFICATES_H_
#define TEST_TCP_CERTIFICATES_H_

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace urma::tcp {

// A certificate authority. Its files are removed with it.
class Authority {
 public:
  explicit Authority(const char* name) : name_(name) {
    std::string folder = testing::TempDir() + "urma-certificates-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    certificate_ = make(name, key_, true);
    write("authority.pem", [this](FILE* to) { PEM_write_X509(to, certificate_); });
  }
  ~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
    std::filesystem::remove_all(folder_);
  }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // URMA_TCP_TLS for a host with a certificate of this authority, which trusts `other`.
  std::string host(const char* name, const Authority& other) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = make(name, key, false);
    const std::string of = folder_ + "/" + name;
    write(std::string(name) + ".pem", [&](FILE* to) { PEM_write_X509(to, certificate); });
    write(std::string(name) + ".key",
          [&](FILE* to) { PEM_write_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
    X509_free(certificate);
    EVP_PKEY_free(key);
    return of + ".pem," + of + ".key," + other.folder_ + "/authority.pem";
  }

 private:
  template <typename Write>
  void write(const std::string& name, const Write& what) {
    FILE* file = std::fopen((folder_ + "/" + name).c_str(), "w");
    ASSERT_NE(file, nullptr);
    what(file);
    std::fclose(file);
  }

  X509* make(const char* name, EVP_PKEY* key, bool authority) {
    X509* made = X509_new();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, key);
    name_it(X509_get_subject_name(made), name);
    name_it(X509_get_issuer_name(made), name_.c_str());
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                    authority ? "CA:TRUE" : "CA:FALSE");
    X509_add_ext(made, extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(made, key_, EVP_sha256());
    return made;
  }

  static void name_it(X509_NAME* name, const char* text) {
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(text), -1, -1, 0);
  }

  const std::string name_;
  std::string folder_;
  long serial_ = 0;
  EVP_PKEY* key_ = EVP_EC_gen("P-256");
  X509* certificate_ = nullptr;
};

}  // namespace urma::tcp

#endif  // TEST_TCP_CERTIFICATES_H_
